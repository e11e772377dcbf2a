/* The interface of the module to the library that loads it: one kind of device. */
#ifndef RF_DEVICES_CUDA_MODULE_H
#define RF_DEVICES_CUDA_MODULE_H

#include "infer/backend.h"

#define RF_CUDA_MODULE "libriffle-cuda.so"
#define RF_CUDA_ENTRY "riffle_cuda_kind"

/* The sizes of the structures that library and module exchange: both must come from one build. */
static inline size_t rf_cuda_fingerprint(void)
{
    return sizeof(struct rf_backend_kind) ^ sizeof(struct rf_backend_ops) << 8 ^
           sizeof(struct rf_pass) << 16 ^ sizeof(struct rf_params) << 24 ^
           sizeof(struct rf_view) << 32;
}

/* NULL where the fingerprint is another one. */
typedef const struct rf_backend_kind *rf_cuda_kind_fn(size_t fingerprint);

#endif
