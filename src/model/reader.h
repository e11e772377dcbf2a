/* What the readers of the containers share: the source while it is being filled, and the checks
 * that do not depend on the container. */
#ifndef RF_MODEL_READER_H
#define RF_MODEL_READER_H

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/arena.h"
#include "model/source.h"
#include "platform/file.h"

struct rf_source_private {
    struct rf_allocator allocator; /* a copy: the caller's may go */
    struct rf_arena arena;         /* everything that the source points to but the mappings */
    struct rf_mapped_file *files;
};

int rf_source_new(struct rf_source **source, const struct rf_allocator *allocator,
                  struct rf_error *error);
/* Maps a file for as long as the source lives and counts its bytes. */
int rf_source_map(struct rf_source *source, const char *path, struct rf_mapping *mapping,
                  struct rf_error *error);
/* Memory that lives as long as the source. */
void *rf_source_alloc(struct rf_source *source, size_t count, size_t size, const char *what,
                      struct rf_error *error);

static inline int rf_str_is(struct rf_str string, const char *text)
{
    return string.bytes == strlen(text) && memcmp(string.data, text, string.bytes) == 0;
}

/* How much of a file's string is printed with "%.*s": a sentence is short. */
static inline int rf_shown(struct rf_str string)
{
    return string.bytes < 64 ? (int)string.bytes : 64;
}

/* How a tensor is called in the file, for sentences: writes to `buffer` or returns `name` itself.
 */
typedef const char *rf_shown_name(const char *name, char *buffer, size_t bytes);

/* Sorts source->tensors by name, for rf_source_tensor. Two of one name, or two that share bytes,
 * are an error. `shown` may be NULL. */
int rf_tensors_sort(struct rf_source *source, const char *path, rf_shown_name *shown,
                    struct rf_error *error);

/* Counts that divide, dimensions that fit, numbers that are numbers. n_vocab is not looked at. */
int rf_params_check(const struct rf_params *params, const char *path, struct rf_error *error);

/* Sets n_vocab, tied_output, qkv_bias, qk_norm and, where the file has rope_freqs.weight,
 * rope_freq_factors, and sees that the tensors are exactly those that the architecture computes
 * with, in the dimensions that the parameters give. */
int rf_layout_check(struct rf_source *source, const char *path, rf_shown_name *shown,
                    struct rf_error *error);

/* Types, byte tokens, scores and special ids of a filled vocabulary. */
int rf_vocab_check(const struct rf_source *source, const char *path, struct rf_error *error);

/* A context in which attention never reaches back over a sliding window's edge gives the same
 * results without one, so a window limits the context instead of being an operation of its own. 0:
 * no window. */
void rf_params_limit_window(struct rf_params *params, int64_t window);

#endif
