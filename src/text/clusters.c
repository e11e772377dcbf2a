/* Clusters by PCRE2's \X, which has Unicode's tables. charsmap.c calls it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/clusters.h"

#include <pcre2.h>
#include <stdint.h>

struct rf_clusters {
    const struct rf_allocator *allocator;
    pcre2_general_context *context;
    pcre2_code *code;
};

static void *take(PCRE2_SIZE bytes, void *user)
{
    return rf_malloc(user, bytes, 1, "clusters of characters", NULL);
}

static void give(void *memory, void *user)
{
    rf_free(user, memory);
}

int rf_clusters_new(struct rf_clusters **out, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    int number = 0;
    PCRE2_SIZE where;
    struct rf_clusters *made = rf_calloc(allocator, 1, sizeof *made, "clusters", error);
    *out = NULL;
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->context = pcre2_general_context_create(take, give, (void *)(uintptr_t)allocator);
    pcre2_compile_context *compile =
        made->context ? pcre2_compile_context_create(made->context) : NULL;
    if (compile)
        made->code = pcre2_compile((PCRE2_SPTR) "\\X", PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_ANCHORED, &number, &where, compile);
    pcre2_compile_context_free(compile);
    *out = made;
    if (made->code) return 0;
    rf_clusters_free(made);
    *out = NULL;
    if (!compile || number == PCRE2_ERROR_HEAP_FAILED)
        return rf_fail(error, RF_ERR_MEMORY, "clusters of characters: no memory");
    return rf_fail(error, RF_ERR_SYSTEM, "libpcre2 knows no clusters of characters (error %d)",
                   number);
}

void rf_clusters_free(struct rf_clusters *clusters)
{
    if (!clusters) return;
    pcre2_code_free(clusters->code);
    pcre2_general_context_free(clusters->context);
    rf_free(clusters->allocator, clusters);
}

int rf_clusters_begin(struct rf_cluster_walk *walk, const struct rf_clusters *clusters,
                      const char *text, size_t n, struct rf_error *error)
{
    *walk = (struct rf_cluster_walk){clusters, NULL, text, n};
    walk->match = pcre2_match_data_create(1, clusters->context);
    return walk->match ? 0 : rf_fail(error, RF_ERR_MEMORY, "clusters of characters: no memory");
}

size_t rf_cluster_length(const struct rf_cluster_walk *walk, size_t at, struct rf_error *error)
{
    const unsigned char *text = (const unsigned char *)walk->text + at;
    size_t left = walk->n - at;
    /* Most texts: a character of one byte before another one. */
    if (text[0] < 0x80 && text[0] != '\r' && (left == 1 || text[1] < 0x80)) return 1;
    int count = pcre2_match(walk->clusters->code, (PCRE2_SPTR)walk->text, walk->n, at,
                            PCRE2_NO_UTF_CHECK, walk->match, NULL);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(walk->match);
    if (count > 0 && span[1] > at) return span[1] - at;
    rf_fail(error, count == PCRE2_ERROR_NOMEMORY ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
            "libpcre2 cannot find the clusters of a text (error %d)", count);
    return 0;
}

void rf_clusters_end(struct rf_cluster_walk *walk)
{
    pcre2_match_data_free(walk->match);
    walk->match = NULL;
}
