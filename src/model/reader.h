/* Shared by the readers of both containers: the source while it is filled, and checks that do not
 * depend on the container. */
#ifndef RF_MODEL_READER_H
#define RF_MODEL_READER_H

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/arena.h"
#include "model/source.h"
#include "platform/file.h"

struct rf_source_private {
    struct rf_allocator allocator; /* a copy: the caller's may be freed */
    struct rf_arena arena;         /* all that the source points to, except the mappings */
    struct rf_mapped_file *files;
};

int rf_source_new(struct rf_source **source, const struct rf_allocator *allocator,
                  struct rf_error *error);
/* Maps a file for the lifetime of the source and adds to its file_bytes. */
int rf_source_map(struct rf_source *source, const char *path, struct rf_mapping *mapping,
                  struct rf_error *error);
/* Zeroed memory that lives as long as the source. */
void *rf_source_alloc(struct rf_source *source, size_t count, size_t size, const char *what,
                      struct rf_error *error);

static inline int rf_str_is(struct rf_str string, const char *text)
{
    return string.bytes == strlen(text) && memcmp(string.data, text, string.bytes) == 0;
}

/* Bytes of a file's string that an error sentence shows with "%.*s". */
static inline int rf_shown(struct rf_str string)
{
    return string.bytes < 64 ? (int)string.bytes : 64;
}

/* The name of a tensor in the file, for sentences. Writes to `buffer` or returns `name` itself. */
typedef const char *rf_shown_name(const char *name, char *buffer, size_t bytes);

/* Sorts source->tensors by name, for rf_source_tensor. Equal names and overlapping bytes are
 * errors. `shown` may be NULL. */
int rf_tensors_sort(struct rf_source *source, const char *path, rf_shown_name *shown,
                    struct rf_error *error);

/* Checks counts, divisibility, dimensions and floats. Does not look at n_vocab. */
int rf_params_check(const struct rf_params *params, const char *path, struct rf_error *error);

/* Sets n_vocab, tied_output, qkv_bias and qk_norm, and rope_freq_factors where the file has
 * rope_freqs.weight. Checks that the tensors are exactly those of the architecture, with the
 * dimensions that the parameters give. */
int rf_layout_check(struct rf_source *source, const char *path, rf_shown_name *shown,
                    struct rf_error *error);

/* Checks types, byte tokens, scores and special ids of a filled vocabulary. */
int rf_vocab_check(const struct rf_source *source, const char *path, struct rf_error *error);

/* Limits the context to a sliding window; 0: no window. In such a context attention never reaches
 * past the window's edge, so the results are the same and the engine needs no window. */
void rf_params_limit_window(struct rf_params *params, int64_t window);

#endif
