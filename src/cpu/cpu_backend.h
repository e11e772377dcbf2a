/* The backend on the processor's cores. */
#ifndef RF_CPU_CPU_BACKEND_H
#define RF_CPU_CPU_BACKEND_H

#include "infer/backend.h"

extern const struct rf_backend_kind rf_cpu_backend_kind;

/* Opens the backend on a tier (enum rf_tier) that has kernels, whether or not the machine has it:
 * for tests that emulate. The allocator must outlive the backend. */
int rf_cpu_backend_new(struct rf_backend **backend, int tier, const struct rf_allocator *allocator,
                       struct rf_error *error);

#endif
