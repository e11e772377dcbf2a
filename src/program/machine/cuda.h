/* How the program finds the CUDA module's part of the roofline: an entry point of its own, beside
 * the backend's (devices/cuda_module.h). */
#ifndef RF_MACHINE_CUDA_H
#define RF_MACHINE_CUDA_H

#include "devices/cuda_module.h"
#include "machine/device.h"

#define RF_CUDA_ROOFLINE_ENTRY "riffle_cuda_roofline"

/* The sizes of all structures that program and module exchange: both must come from one build. */
static inline size_t rf_cuda_roofline_fingerprint(void)
{
    return rf_cuda_fingerprint() ^ sizeof(struct rf_roofline_device) ^
           sizeof(struct rf_roofline_request) << 8 ^ sizeof(struct rf_roofline_case) << 16 ^
           sizeof(struct rf_roofline_result) << 24 ^ sizeof(struct rf_ceiling) << 32;
}

/* NULL where the fingerprint is another one. */
typedef const struct rf_roofline_device *rf_cuda_roofline_fn(size_t fingerprint);

/* Loads the module. NULL with RF_ERR_UNSUPPORTED where there is none, or one of another build. */
const struct rf_roofline_device *rf_roofline_cuda(struct rf_error *error);

#endif
