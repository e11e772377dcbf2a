/* A GGUF model written again, with other types of tensors and all else as it was. */
#ifndef RF_MODEL_GGUF_WRITE_H
#define RF_MODEL_GGUF_WRITE_H

#include "model/source.h"

struct rf_copied_tensor {
    const struct rf_tensor *tensor;
    enum rf_dtype dtype; /* what it is to become; at first its own */
    uint64_t bytes,
        offset; /* in the new file, from the start of the data; rf_gguf_copy_header sets them */
};

struct rf_gguf_copy {
    struct rf_source *source;         /* the model: checked as for running it */
    struct rf_copied_tensor *tensors; /* in the order in which their data lies in the file */
    size_t n_tensors;
    struct rf_gguf_copy_private *private_;
};

/* RF_ERR_UNSUPPORTED for a model that is no GGUF file. On failure nothing is kept. */
int rf_gguf_copy_open(struct rf_gguf_copy **copy, const char *path,
                      const struct rf_allocator *allocator, struct rf_error *error);
void rf_gguf_copy_close(struct rf_gguf_copy *copy);

/* Appends all of a GGUF v3 file that comes before its data, which then begins at a multiple of
 * *alignment, as does each tensor; between them is padding. All metadata in the file's order, but
 * for general.file_type, which says of which type most weights are, and
 * general.quantization_version, which is ggml's present one. */
int rf_gguf_copy_header(struct rf_gguf_copy *copy, struct rf_bytes *header, uint64_t *alignment,
                        struct rf_error *error);

#endif
