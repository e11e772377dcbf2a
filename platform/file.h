/* Writing files. */
#ifndef RF_PLATFORM_FILE_H
#define RF_PLATFORM_FILE_H

#include <stddef.h>

struct rf_error;

struct rf_span {
    const void *data;
    size_t bytes;
};

/* A new file that replaces `path` only when it is complete; until then it has another name in the
 * same folder. After a successful rf_new_file_open the caller ends it with rf_new_file_finish or
 * rf_new_file_drop. */
struct rf_new_file {
    const char *path; /* the caller's; must outlive the file */
    int file;
    char temporary[4096];
};
int rf_new_file_open(struct rf_new_file *file, const char *path, struct rf_error *error);
int rf_new_file_write(struct rf_new_file *file, const void *data, size_t bytes,
                      struct rf_error *error);
/* On failure the file is dropped. */
int rf_new_file_finish(struct rf_new_file *file, struct rf_error *error);
void rf_new_file_drop(struct rf_new_file *file);

/* Writes a whole file: the spans one after another. */
int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans,
                  struct rf_error *error);

/* 1 if both paths lead to the same existing file. */
int rf_same_file(const char *a, const char *b);

#endif
