/* Writes a GGUF model again: tensors may get other types and be added, everything else stays. */
#ifndef RF_MODEL_GGUF_WRITE_H
#define RF_MODEL_GGUF_WRITE_H

#include "model/source.h"

struct rf_copied_tensor {
    const struct rf_tensor *tensor;
    enum rf_dtype dtype;    /* type of the new tensor; initially the present one */
    uint64_t bytes, offset; /* place in the new file's data; rf_gguf_copy_header sets both */
};

struct rf_gguf_copy {
    struct rf_source *source;         /* the model, checked as for running it */
    struct rf_copied_tensor *tensors; /* ordered as their data lies in the file */
    size_t n_tensors;
    int32_t w4a8_group; /* group size of tensors that get the type W4A8 */
    struct rf_gguf_copy_private *private_;
};

/* RF_ERR_UNSUPPORTED for a model that is not a GGUF file. On failure nothing is kept. */
int rf_gguf_copy_open(struct rf_gguf_copy **copy, const char *path,
                      const struct rf_allocator *allocator, struct rf_error *error);
/* Adds a tensor behind the others. It must live as long as the copy. */
int rf_gguf_copy_add(struct rf_gguf_copy *copy, const struct rf_tensor *tensor,
                     struct rf_error *error);
/* rf_source_check of the file. */
int rf_gguf_copy_check(const struct rf_gguf_copy *copy, struct rf_error *error);
void rf_gguf_copy_close(struct rf_gguf_copy *copy);

/* Appends everything of a GGUF v3 file that precedes its data. The data and each tensor in it start
 * at a multiple of *alignment, with padding between them. Metadata keeps the file's order and
 * values, but for general.file_type, which states the type of most weights, and
 * general.quantization_version, which is ggml's present one. */
int rf_gguf_copy_header(struct rf_gguf_copy *copy, struct rf_bytes *header, uint64_t *alignment,
                        struct rf_error *error);

#endif
