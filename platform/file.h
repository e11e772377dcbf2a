/* Writing files. */
#ifndef RF_PLATFORM_FILE_H
#define RF_PLATFORM_FILE_H

#include <stddef.h>

struct rf_error;

struct rf_span {
    const void *data;
    size_t bytes;
};

/* A new file that takes the place of `path` only when it is whole; until then it lies beside it
 * under another name. After rf_new_file_open, which keeps nothing where it fails, either
 * rf_new_file_finish or rf_new_file_drop ends it. */
struct rf_new_file {
    const char *path; /* the caller's, which must stay */
    int file;
    char temporary[4096];
};
int rf_new_file_open(struct rf_new_file *file, const char *path, struct rf_error *error);
int rf_new_file_write(struct rf_new_file *file, const void *data, size_t bytes,
                      struct rf_error *error);
/* Where it fails, the file is dropped. */
int rf_new_file_finish(struct rf_new_file *file, struct rf_error *error);
void rf_new_file_drop(struct rf_new_file *file);

/* The spans one after another. */
int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans,
                  struct rf_error *error);

/* 1 if both paths lead to one file that exists. */
int rf_same_file(const char *a, const char *b);

#endif
