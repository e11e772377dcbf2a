/* The roofline of this machine: its kernels against its measured limits. */
#ifndef RF_CPU_ROOFLINE_H
#define RF_CPU_ROOFLINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "infer/measure.h"

/* `tier`: an enum rf_tier, for a request without tiers. RF_ERR_ARGUMENT for an unknown tier or
 * kernel, or a shape or number out of range; RF_ERR_UNSUPPORTED for a tier that this machine lacks.
 */
int rf_cpu_roofline(int tier, const struct rf_roofline_request *request,
                    const struct rf_roofline_callbacks *callbacks,
                    const struct rf_allocator *allocator, struct rf_error *error);

/* Streaming read bandwidth of memory with `threads` workers: of all patterns the best, over
 * rf_cpu_pool_bytes(256 MiB). Takes some tenths of a second. */
int rf_cpu_measure_read(int32_t threads, const struct rf_allocator *allocator,
                        struct rf_read_speed *speed, struct rf_error *error);

/* Memory to stream from without cache hits: four times the last-level cache, between `least` and
 * 2 GiB, at most a quarter of the memory. */
uint64_t rf_cpu_pool_bytes(uint64_t least);

#endif
