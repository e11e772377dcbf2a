/* The CUDA module as the library loads it: its file, and the entry point that gives the kind of
 * device. */
#ifndef RF_DEVICES_CUDA_MODULE_H
#define RF_DEVICES_CUDA_MODULE_H

#include <stdlib.h>

#include "infer/backend.h"

#define RF_CUDA_MODULE "libriffle-cuda.so"
#define RF_CUDA_ENTRY "riffle_cuda_kind"

/* The module's file: RIFFLE_CUDA_MODULE of the environment, or the name that the loader looks up.
 */
static inline const char *rf_cuda_module_path(void)
{
    const char *path = getenv("RIFFLE_CUDA_MODULE");
    return path && *path ? path : RF_CUDA_MODULE;
}

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
