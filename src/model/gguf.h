/* GGUF as a container: a header, typed metadata under keys, and named tensors. Private to the
 * reader and the writer of GGUF models. The format: docs/gguf.md of the ggml project, versions 2
 * and 3. */
#ifndef RF_MODEL_GGUF_H
#define RF_MODEL_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/arena.h"
#include "model/source.h"
#include "model/vocab.h"

enum rf_gguf_type {
    RF_GGUF_U8 = 0,
    RF_GGUF_I8 = 1,
    RF_GGUF_U16 = 2,
    RF_GGUF_I16 = 3,
    RF_GGUF_U32 = 4,
    RF_GGUF_I32 = 5,
    RF_GGUF_F32 = 6,
    RF_GGUF_BOOL = 7,
    RF_GGUF_STRING = 8,
    RF_GGUF_ARRAY = 9,
    RF_GGUF_U64 = 10,
    RF_GGUF_I64 = 11,
    RF_GGUF_F64 = 12,
    RF_GGUF_TYPE_LIMIT = 13
};

/* A metadata value, in place. The parser has checked its extent: `data` holds `bytes` bytes. For an
 * array these are `count` elements of `elem_type` (strings with their lengths), for a string the
 * text without its length. */
struct rf_gguf_value {
    struct rf_str key;
    uint32_t type, elem_type;
    uint64_t count;
    const unsigned char *data;
    size_t bytes;
};

struct rf_gguf {
    const char *path;
    struct rf_error *error;
    uint32_t version;
    uint64_t alignment;
    struct rf_gguf_value *values; /* sorted by key */
    size_t n_values;
};

/* Reads header, metadata and tensor infos. Fills source->tensors in the file's order. The values
 * live in `arena`. */
int rf_gguf_parse(struct rf_gguf *gguf, struct rf_source *source, struct rf_arena *arena,
                  const unsigned char *data, size_t bytes);

/* The calls below return 1 when the key exists and 0 when it does not; *value is then untouched.
 * They return a negative code when its type or value is wrong, with a sentence that names the
 * key. */
int rf_gguf_integer(const struct rf_gguf *gguf, const char *key, int64_t lowest, int64_t highest,
                    int64_t *value);
int rf_gguf_float(const struct rf_gguf *gguf, const char *key, double *value);
int rf_gguf_bool(const struct rf_gguf *gguf, const char *key, int *value);
int rf_gguf_string(const struct rf_gguf *gguf, const char *key, struct rf_str *value);
/* An array with elements of type `elem_type`. */
int rf_gguf_array(const struct rf_gguf *gguf, const char *key, uint32_t elem_type,
                  const struct rf_gguf_value **value);
/* One integer for all layers, or an array of n equal ones. RF_ERR_UNSUPPORTED if they differ. */
int rf_gguf_integer_per_layer(const struct rf_gguf *gguf, const char *key, int64_t n,
                              int64_t highest, int64_t *value);

/* NULL when there is none. */
const struct rf_gguf_value *rf_gguf_find(const struct rf_gguf *gguf, const char *key);
int rf_gguf_missing(const struct rf_gguf *gguf, const char *key);
/* Returns the next string of an array of strings and advances `data`. The parser has checked the
 * array's extent. */
struct rf_str rf_gguf_next_string(const unsigned char **data);

/* Reads a GGUF file that is in memory and stays there as long as the source lives. On failure the
 * caller closes the source. */
int rf_gguf_read(struct rf_source *source, const char *path, const unsigned char *data,
                 size_t bytes, struct rf_error *error);

/* Reads everything but n_vocab and what depends on tensors. */
int rf_gguf_read_params(const struct rf_gguf *gguf, struct rf_source *source);
int rf_gguf_read_vocab(const struct rf_gguf *gguf, struct rf_source *source);

#endif
