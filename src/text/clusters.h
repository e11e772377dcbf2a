/* Extended grapheme clusters (Unicode's annex 29): a character with the marks that follow it. */
#ifndef RF_TEXT_CLUSTERS_H
#define RF_TEXT_CLUSTERS_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

/* Immutable; threads may share it. */
struct rf_clusters;
int rf_clusters_new(struct rf_clusters **out, const struct rf_allocator *allocator,
                    struct rf_error *error);
void rf_clusters_free(struct rf_clusters *clusters);

/* A walk over a text that is UTF-8. */
struct rf_cluster_walk {
    const struct rf_clusters *clusters;
    void *match; /* PCRE2's match data */
    const char *text;
    size_t n;
};
int rf_clusters_begin(struct rf_cluster_walk *walk, const struct rf_clusters *clusters,
                      const char *text, size_t n, struct rf_error *error);
/* The bytes of the cluster that begins at `at`, where one does; 0 after a failure. */
size_t rf_cluster_length(const struct rf_cluster_walk *walk, size_t at, struct rf_error *error);
void rf_clusters_end(struct rf_cluster_walk *walk);

#endif
