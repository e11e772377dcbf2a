/* A file that is put together over several runs of the program, one process at a time. */
#ifndef RF_PLATFORM_PARTIAL_H
#define RF_PLATFORM_PARTIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rf_partial {
    int file;       /* locked (flock) while it is open */
    uint64_t bytes; /* length of the file */
    char path[4096];
};

/* Opens the file, which is made if there is none, and locks it. RF_ERR_CONTEXT: another process has
 * it. Symbolic links are refused. */
int rf_partial_open(struct rf_partial *partial, const char *path, struct rf_error *error);
int rf_partial_append(struct rf_partial *partial, const void *data, size_t n,
                      struct rf_error *error);
/* Reads at most n bytes at `offset`. Their number, 0 at the end, or a negative code. */
int64_t rf_partial_read(const struct rf_partial *partial, uint64_t offset, void *data, size_t n,
                        struct rf_error *error);
/* Cuts the file to its first `bytes`. */
int rf_partial_cut(struct rf_partial *partial, uint64_t bytes, struct rf_error *error);
/* The bytes written so far survive a crash of the machine. */
int rf_partial_sync(const struct rf_partial *partial, struct rf_error *error);

/* Gives the finished file its name `path`, in the same folder, so that after a crash of the machine
 * either all of it is there or nothing, and closes it. Stays open where it fails. */
int rf_partial_publish(struct rf_partial *partial, const char *path, struct rf_error *error);
/* Closes the file and keeps it for the next run. */
void rf_partial_close(struct rf_partial *partial);
/* Removes the file and closes it. */
void rf_partial_drop(struct rf_partial *partial);

#endif
