/* Kinds of devices that are two others: two of the processor's, two plain ones, or the processor
 * and a plain or a CUDA device. The second has the last layers of each model (devices/shared.h). */
#ifndef RF_TEST_SHARED_KIND_H
#define RF_TEST_SHARED_KIND_H

#include "infer/backend.h"

extern const struct rf_backend_kind shared_cpu_kind, shared_plain_kind, shared_mixed_kind,
    shared_cuda_kind;

/* Layers of the second device of backends that are opened from now on; 1 at first. */
void shared_set_layers(int32_t n);

#endif
