/* Downloads one URL into a part. It resumes only where that is certain to give the same file.
 * fetch.c calls it for URLs, wheel.c for archives. */
#ifndef FETCH_DOWNLOAD_H
#define FETCH_DOWNLOAD_H

#include "fetch/part.h"

struct download {
    const char *url;
    int64_t bytes;      /* the file's; -1: unknown */
    const char *sha256; /* the file's; NULL: unknown */
    uint64_t most_bytes;
    const char *magic; /* how the file begins; NULL: any */
    const char *token; /* as in struct http_request */
    struct http_refusal *refusal;
    int timeout_seconds;
    uint64_t done_before, done_total; /* bytes that progress counts beside these; 0, 0: none */
    fetch_progress *progress;
    int (*peek)(void *user, const void *data, struct rf_error *error); /* as in fetch_order */
    void *user;
};

/* 0: the part has the whole file, and `sha256` is its hash. RF_ERR_FORMAT: what comes
 * is another file. After RF_ERR_IO and RF_ERR_CANCELLED another call continues. */
int download(const struct download *wanted, struct part *part, char sha256[SHA256_TEXT],
             struct rf_error *error);

/* Fails if the file system of `path` lacks space for so many more bytes and a margin. */
int download_check_space(const char *path, uint64_t more, struct rf_error *error);
/* Compares the part's hash, which is finished by that. `text` gets it. */
int download_check_hash(struct part *part, const char *source, const char *sha256,
                        char text[SHA256_TEXT], struct rf_error *error);

#endif
