/* The list of a repository's files. What a hub says is checked here once: names, sizes and hashes.
 */
#include "hubs/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "fetch/page.h"
#include "hubs/explain.h"

enum { MOST_FILES = 100000, LONGEST_NAME = 512 };

int listing_bad(const char *url, const char *what, struct rf_error *error)
{
    char shown[HTTP_SHOWN];
    return rf_fail(error, RF_ERR_FORMAT, "%s: the answer of the hub %s", http_shown(url, shown),
                   what);
}

/* Whether a path stays in its folder on every system. */
static int is_inside(const char *path)
{
    if (!path[0] || path[0] == '/') return 0;
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
        size_t n = strcspn(at, "/");
        if (!n || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.')) return 0;
    }
    return 1;
}

/* Whether a file with this path can be a model's: others are passed over. */
static int is_usable(const char *path)
{
    if (strlen(path) >= LONGEST_NAME) return 0;
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < 32 || *at == 127 || *at == '\\' || *at == ':') return 0;
    return 1;
}

int listing_add(struct listing *listing, const char *path, json_int_t bytes, const char *sha256,
                struct rf_error *error)
{
    struct hub_file file = {.bytes = bytes};
    if (!is_inside(path))
        return listing_bad(listing->address, "names a file that could lie anywhere", error);
    if (!is_usable(path)) return 0;
    if (bytes < 0) return listing_bad(listing->address, "has a file of less than no bytes", error);
    if (sha256 && !sha256_parse(sha256, file.sha256))
        return listing_bad(listing->address, "has a SHA-256 that is none", error);
    if (listing->count == MOST_FILES)
        return listing_bad(listing->address, "lists more than 100000 files", error);
    if ((listing->count & (listing->count - 1)) == 0) {
        size_t cap = listing->count ? 2 * listing->count : 1;
        struct hub_file *more = realloc(listing->files, cap * sizeof *more);
        if (!more) return rf_fail(error, RF_ERR_MEMORY, "no memory for a list of files");
        listing->files = more;
    }
    file.path = malloc(strlen(path) + 1);
    if (!file.path) return rf_fail(error, RF_ERR_MEMORY, "no memory for a list of files");
    strcpy(file.path, path);
    listing->files[listing->count++] = file;
    return 0;
}

json_t *listing_page(struct listing *listing, const char *url, const char *accept,
                     const struct hub_call *call, char from[HTTP_URL], char next[HTTP_URL],
                     struct rf_error *error)
{
    struct page page = {0};
    struct http_refusal refusal = {0};
    struct rf_json_problem problem = {0};
    json_t *json = NULL;
    const struct page_request request = {.url = url,
                                         .accept = accept,
                                         .token = listing->token,
                                         .timeout_seconds = call->timeout_seconds,
                                         .poll = call->poll,
                                         .user = call->user,
                                         .refusal = &refusal};
    int code = page_get(&request, &page, error);
    if (code) {
        hub_explain(&listing->name, &refusal, error);
    } else {
        json = rf_json_load(page.text ? page.text : "", page.count, NULL, &problem);
        if (!json) listing_bad(url, "is not JSON", error);
        memcpy(from, page.url, sizeof page.url);
        memcpy(next, page.next, sizeof page.next);
    }
    page_free(&page);
    return json;
}
