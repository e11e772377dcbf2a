/* Casts the matrices of a GGUF model into a new file. */
#ifndef RF_QUANT_QUANTIZE_H
#define RF_QUANT_QUANTIZE_H

#include "base/alloc.h"
#include "base/error.h"
#include "model/source.h"
#include "quant/cast.h"

struct rf_quantize_options {
    enum rf_cast_target target;
    int32_t group; /* RF_TARGET_W4A8: values that share a scale, a multiple of 64; 0: a row */
    const struct rf_kernels *kernels;
    int32_t threads;
    /* The model with calibrated tensors: those with data are written as they are; the output head
     * and embeddings get Q8_0 if they have more bits. NULL: none. */
    const struct rf_source *made;
    int rotates; /* the model is rotated (rotate.h); no matrix keeps its type then */
    /* `done` and `total` count bytes of tensors read. Non-zero cancels. May be NULL. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* RF_ERR_ARGUMENT if `out` is the file `in`. */
int rf_check_other_file(const char *in, const char *out, struct rf_error *error);

/* Whether a model can be rotated, and no matrix has the target's few bits already, which it keeps
 * without rotation. */
int rf_rotating_suits(const struct rf_source *source, enum rf_cast_target target);

/* Casts the GGUF file `in` to `out`, which is replaced when the new file is whole. Norms, biases
 * and matrices that rf_cast_type leaves alone stay as they are. The embedding table stays too,
 * except that floats become BF16. But if it is also the output head, it is cast like any matrix.
 * The file's matrices are, bit for bit, those that RF_WEIGHTS_MXFP4 or RF_WEIGHTS_Q4 make of `in`
 * at load. */
int rf_quantize(const char *in, const char *out, const struct rf_quantize_options *options,
                const struct rf_allocator *allocator, struct rf_error *error);

#endif
