/* GGUF as a container: a header, typed metadata under keys, and named tensors. Private to the
 * reader and the writer of GGUF models. The format: docs/gguf.md of the ggml project, versions 2
 * and 3. */
#ifndef RF_MODEL_GGUF_H
#define RF_MODEL_GGUF_H

#include "model/reader.h"

#define RF_GGUF_HEAD "eagle3" /* the architecture of draft heads */

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
    struct rf_reading *reading;
    uint32_t version;
    uint64_t alignment;
    struct rf_gguf_value *values; /* sorted by key */
    size_t n_values;
    char key[80];      /* the last that was looked up, for sentences */
    int is_head;       /* the architecture is that of draft heads, eagle3 */
    int is_joined;     /* the source has the tensors of all parts of a split model */
    int32_t n_further; /* layers behind the model's own, which predict further tokens */
    /* A head's tensor d2t, n_ids integers of 64 bits: ids of the target's tokens. It is not among
     * the source's tensors. NULL: there is none. */
    const unsigned char *ids;
    int32_t n_ids;
};

/* Reads header, metadata and tensor infos. Fills source->tensors in the file's order. The values
 * live as long as the reading. Returns its code. */
int rf_gguf_parse(struct rf_gguf *gguf, const unsigned char *data, size_t bytes);

/* Maps the other parts of a split model, which lie beside the first, and adds their tensors.
 * Nothing happens for a model of one file. A failure is the reading's. */
void rf_gguf_join_parts(struct rf_gguf *gguf);

/* Bytes of one element; 0 for strings and arrays. */
size_t rf_gguf_type_bytes(uint32_t type);

/* Sorts the values by key, which rf_gguf_find relies on. */
void rf_gguf_sort_values(struct rf_gguf *gguf);
/* NULL when there is none, or after a failure. A key that begins with a dot follows the name of the
 * architecture: ".block_count" is "llama.block_count". */
const struct rf_gguf_value *rf_gguf_find(struct rf_gguf *gguf, const char *key);
/* Fails for the key that was last looked up, and returns the code. */
int rf_gguf_missing(struct rf_gguf *gguf);

/* The calls below return `otherwise` when the key does not exist. The reading fails when its type
 * or value is wrong, with a sentence that names the key. */
int64_t rf_gguf_integer(struct rf_gguf *gguf, const char *key, int64_t lowest, int64_t highest,
                        int64_t otherwise);
double rf_gguf_float(struct rf_gguf *gguf, const char *key, double otherwise);
int8_t rf_gguf_bool(struct rf_gguf *gguf, const char *key, int8_t otherwise);
struct rf_str rf_gguf_string(struct rf_gguf *gguf, const char *key, struct rf_str otherwise);
/* A positive integer for all n layers, or an array of n equal ones. RF_ERR_UNSUPPORTED if they
 * differ. */
int32_t rf_gguf_per_layer(struct rf_gguf *gguf, const char *key, int32_t n, int32_t otherwise);
/* The same where an array may have zeros besides. `on_zero` hears of each, by its index. */
int32_t rf_gguf_per_layer_or_0(struct rf_gguf *gguf, const char *key, int32_t n, int32_t otherwise,
                               void (*on_zero)(void *user, int32_t i), void *user);
/* An array with elements of type `elem_type`; NULL when the key does not exist. */
const struct rf_gguf_value *rf_gguf_array(struct rf_gguf *gguf, const char *key,
                                          uint32_t elem_type);
/* An array with elements of any integer type; NULL when the key does not exist. */
const struct rf_gguf_value *rf_gguf_integers(struct rf_gguf *gguf, const char *key);
/* Element i of it. An unsigned one beyond INT64_MAX becomes INT64_MAX. */
int64_t rf_gguf_element(const struct rf_gguf_value *array, uint64_t i);
/* Returns the next string of an array of strings and advances `data`. The parser has checked the
 * array's extent. */
struct rf_str rf_gguf_next_string(const unsigned char **data);

/* Sizes that differ between layers (gguf_layers.c): of feed-forwards, and of attention, for which
 * the layers with a window are known by now; and what the tensors tell. */
void rf_gguf_read_widths(struct rf_gguf *gguf);
void rf_gguf_read_layers(struct rf_gguf *gguf);
void rf_gguf_find_layers(struct rf_gguf *gguf);

/* Reads a GGUF file that is in memory and stays there as long as the source lives. On failure the
 * caller closes the source. */
int rf_gguf_read(struct rf_source *source, const char *path, const unsigned char *data,
                 size_t bytes, struct rf_error *error);

/* ggml's numbers of types that are not in enum rf_dtype. */
enum { RF_GGUF_TENSOR_I8 = 24, RF_GGUF_TENSOR_I64 = 27 };

/* Fails for an architecture that is not known. The sentence has the known one whose tensors are
 * nearest, and the file's other tensors and keys. */
void rf_gguf_refuse_architecture(struct rf_gguf *gguf, struct rf_str arch);
/* Reads all parameters but n_vocab and others that depend on tensors. Those of a head are a
 * llama's, under the head's keys. */
void rf_gguf_read_params(struct rf_gguf *gguf);
/* Reads how texts become vectors (gguf_encoder.c). */
void rf_gguf_read_pooling(struct rf_gguf *gguf);
/* Parts of it for latent attention (gguf_latent.c): sizes of heads, whose number is read, and the
 * factor of scores; how experts' shares are made; groups of experts and the shared one. */
void rf_gguf_read_latent(struct rf_gguf *gguf);
void rf_gguf_read_gating(struct rf_gguf *gguf);
void rf_gguf_read_groups(struct rf_gguf *gguf);
/* YaRN's magnitude; `weight` is the file's multiplier. Multiplies the factor of scores. */
double rf_gguf_latent_magnitude(struct rf_gguf *gguf, double factor, double weight);
/* Sets which biases the model has. Call when the tensors are sorted. */
void rf_gguf_find_biases(struct rf_gguf *gguf);
void rf_gguf_read_vocab(struct rf_gguf *gguf);

#endif
