/* A GGUF model's matrices cast to another type, in a new file. */
#ifndef RF_QUANT_QUANTIZE_H
#define RF_QUANT_QUANTIZE_H

#include "base/alloc.h"
#include "base/error.h"
#include "quant/cast.h"

struct rf_quantize_options {
    enum rf_cast_target target;
    const struct rf_kernels *kernels;
    int32_t threads;
    /* Bytes of the tensors read; returns non-zero to cancel. May be NULL. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* `in`: a GGUF file; `out`: another one, replaced when the new one is whole. Norms, biases and what
 * rf_cast_type leaves stay as they are. So does the table of embeddings, but for floats, which
 * become BF16, unless it is the output head too: then it is cast as that is. Run as stored, the
 * file's matrices are, bit for bit, those that RF_WEIGHTS_MXFP4 or RF_WEIGHTS_Q4 make of `in`. */
int rf_quantize(const char *in, const char *out, const struct rf_quantize_options *options,
                const struct rf_allocator *allocator, struct rf_error *error);

#endif
