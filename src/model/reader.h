/* Shared by the readers of both containers: the source while it is filled, and checks that do not
 * depend on the container. */
#ifndef RF_MODEL_READER_H
#define RF_MODEL_READER_H

#include "base/alloc.h"
#include "base/error.h"
#include "model/arena.h"
#include "model/source.h"
#include "platform/file.h"

/* Multiplies sizes. Non-zero when the product does not fit. It is then invalid. */
static inline int rf_mul_wraps(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

struct rf_source_private {
    struct rf_allocator allocator; /* a copy: the caller's may be freed */
    struct rf_arena arena;         /* all that the source points to, except the mappings */
    struct rf_mapped_file *files;
    struct rf_open_options options;
    uint64_t stored_bytes;   /* bytes that the files take on the disk */
    uint64_t metadata_bytes; /* memory taken for metadata so far */
};

int rf_source_new(struct rf_source **source, const struct rf_allocator *allocator,
                  struct rf_error *error);
/* Maps a file for the lifetime of the source and adds to its file_bytes. */
int rf_source_map(struct rf_source *source, const char *path, struct rf_mapping *mapping,
                  struct rf_error *error);

/* A source while it is read. The first failure counts: after it, rf_bad keeps the sentence, and
 * the functions that read return zeros and defaults. So most code need not look at `code`. */
struct rf_reading {
    struct rf_source *source;
    const char *path; /* the file or folder, for sentences */
    const char *part; /* the file of the folder that rf_bad names; NULL: none */
    struct rf_error *error;
    int code; /* the first failure's, or 0 */
    /* The name of a tensor in the file, written to `buffer`. NULL: the file has GGUF's names. */
    void (*shown_name)(const struct rf_params *params, const char *name, char *buffer,
                       size_t bytes);
    struct rf_arena arena; /* memory for rf_take */
};

struct rf_reading rf_reading_of(struct rf_source *source, const char *path, struct rf_error *error);
/* Fails with the sentence "PATH/PART: ...", or "PATH: ..." for the part NULL. Returns the code of
 * the first failure. */
int rf_bad_part(struct rf_reading *reading, const char *part, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define rf_bad(reading, ...) rf_bad_part(reading, (reading)->part, __VA_ARGS__)
/* Counts memory for metadata that is about to be taken. A negative code, with a sentence, above
 * what rf_open_options allow. */
int rf_charge(struct rf_reading *reading, const char *part, uint64_t bytes, const char *what);
/* Counts the elements of a list likewise. */
int rf_count(struct rf_reading *reading, uint64_t n, const char *what);
/* Zeroed memory, from the source or from the reading's arena. NULL after a failure. */
void *rf_keep(struct rf_reading *reading, size_t count, size_t size, const char *what);
void *rf_take(struct rf_reading *reading, size_t count, size_t size, const char *what);
/* A copy of the text, with a terminating zero, that lives as long as the source. */
char *rf_keep_text(struct rf_reading *reading, struct rf_str text);

/* Drops the tensors of layers behind the model's own. */
void rf_tensors_drop_further(struct rf_reading *reading);
/* Cuts fused tensors into those that the forward pass computes with, as parts of the same bytes.
 * Call before sorting. */
void rf_tensors_split(struct rf_reading *reading);
/* Puts copies in F32 in the place of all norms' weights, with 1 added; but for the norm behind the
 * delta rule. */
void rf_norms_add_one(struct rf_reading *reading);
/* Puts -exp(w) in the place of the logarithms w of decays (qwen35). */
void rf_decays_from_log(struct rf_reading *reading);

/* Drops an output head whose rows are the embedding's, of some rows that are compared; another one
 * stays, as in transformers, whatever the configuration says. Call after sorting. */
void rf_tensors_tie(struct rf_reading *reading);

/* Sorts the source's tensors by name, for rf_source_tensor. Equal names are an error. */
int rf_tensors_sort(struct rf_reading *reading);

/* Checks counts, divisibility, dimensions and floats. Does not look at n_vocab. */
int rf_params_check(struct rf_reading *reading);

/* Sets n_vocab and tied_output, and factors of the rotation where the file has them as tensors.
 * Checks that the tensors are exactly those of the architecture, with the dimensions that the
 * parameters give. */
int rf_layout_check(struct rf_reading *reading);

/* Sets the vocabulary's entry `id` to a copy of the text. The id must exist and must not have
 * another text. */
void rf_vocab_set_token(struct rf_reading *reading, int64_t id, struct rf_str text,
                        enum rf_token_type type);
/* Checks types, byte tokens, scores and special ids of a filled vocabulary. */
int rf_vocab_check(struct rf_reading *reading);

#endif
