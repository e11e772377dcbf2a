/* The backend on the processor's cores. */
#ifndef RF_CPU_CPU_BACKEND_H
#define RF_CPU_CPU_BACKEND_H

#include "infer/backend.h"

/* `tier`: an enum rf_tier that the machine has and that has kernels. The allocator must outlive the
 * backend. */
int rf_cpu_backend_new(struct rf_backend **backend, int tier, const struct rf_allocator *allocator,
                       struct rf_error *error);

/* What a weight will take, and the name of the format that a matrix of that type is computed in
 * ("BF16", "Q4_K"). */
struct rf_weight_bytes rf_cpu_weight_bytes(const struct rf_weight_request *request);
const char *rf_cpu_weight_format(enum rf_dtype dtype, enum rf_weight_form form);

#endif
