/* Writing files. */
#ifndef RF_PLATFORM_FILE_H
#define RF_PLATFORM_FILE_H

#include <stddef.h>

struct rf_error;

struct rf_span {
    const void *data;
    size_t bytes;
};

/* Writes the spans one after another to a new file that takes the place of `path` only when it is whole. */
int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans, struct rf_error *error);

#endif
