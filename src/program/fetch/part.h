/* The part of a file that has come: its bytes are in `.FILE.part`, their source and version in
 * `.FILE.part.state`. The part is locked while it is open. */
#ifndef FETCH_PART_H
#define FETCH_PART_H

#include "fetch/http.h"
#include "fetch/stamp.h"
#include "platform/partial.h"

/* The source of the bytes, and how many of its steps are finished. */
struct part_state {
    char source[HTTP_URL];
    char validator[256]; /* the version, as in struct http_reply */
    int64_t total;       /* bytes of the whole; -1: unknown */
    uint64_t kept;       /* bytes of the finished steps; 0 where there are none */
    int steps;           /* finished steps of a source that has several */
};

struct part {
    struct rf_partial file;
    struct sha256 hash; /* hash of all bytes, once part_keep or part_restart was called */
    struct part_state state;
};

/* Opens what there is for the file that will be `path`; `suffix` is ".part" or another one.
 * RF_ERR_CONTEXT: another process has it. */
int part_open(struct part *part, const char *path, const char *suffix, struct rf_error *error);
/* Keeps the first `bytes` and hashes them again. */
int part_keep(struct part *part, uint64_t bytes, fetch_progress *progress, void *user,
              struct rf_error *error);
/* Begins anew, from `source`. */
int part_restart(struct part *part, const char *source, struct rf_error *error);
int part_append(struct part *part, const void *data, size_t n, struct rf_error *error);
/* Writes the state to the disk. */
int part_save(const struct part *part, struct rf_error *error);

/* One of these must follow part_open. part_publish leaves the part open where it fails. */
int part_publish(struct part *part, const char *path, struct rf_error *error);
void part_close(struct part *part);
void part_drop(struct part *part);

#endif
