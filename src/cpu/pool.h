/* Experts that do not all fit into memory. Their matrices stay in the file. A pool has places for
 * the packed matrices of some experts of all layers; those that were not used for longest make way
 * for others. What is computed stays the same. */
#ifndef RF_CPU_POOL_H
#define RF_CPU_POOL_H

#include "cpu/cpu.h"

/* As many places of place_bytes as fit into `bytes`. */
int rf_cpu_pool_new(struct cpu_pool **pool, uint64_t bytes, size_t place_bytes,
                    const struct rf_allocator *allocator, struct rf_error *error);
void rf_cpu_pool_free(struct cpu_pool *pool);

/* By one worker, when a layer's experts are chosen: gives each of them a place, and lists those
 * that are to be packed. The pool is the view's until rf_cpu_pool_release. */
void rf_cpu_pool_take(struct cpu_view *view, const struct rf_op *op);
/* By all workers: packs them. */
void rf_cpu_pool_fill(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_pool_release(struct cpu_view *view);

#endif
