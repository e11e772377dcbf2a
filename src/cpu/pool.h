/* Experts that do not all fit into memory. Their matrices stay in the file. A pool has places for
 * the packed matrices of some experts of all layers; the least recently used ones make way for
 * others. What is computed stays the same. weights.c makes the pool; experts.c takes places in it
 * and says how a panel is packed. */
#ifndef RF_CPU_POOL_H
#define RF_CPU_POOL_H

#include "cpu/cpu.h"

/* The matrices of a layer whose experts lie in the pool: gate, up and down. */
typedef const struct rf_weight *const cpu_pool_layer[RF_OP_INPUTS];

/* Packs a panel of an expert's matrix to its place, weight->experts[expert]. */
typedef void rf_cpu_pack_fn(const void *user, const struct rf_worker *worker,
                            const struct rf_weight *weight, size_t expert, size_t panel);

/* Makes as many places of place_bytes as fit into `bytes`. */
int rf_cpu_pool_new(struct cpu_pool **pool, uint64_t bytes, size_t place_bytes,
                    const struct rf_allocator *allocator, struct rf_error *error);
void rf_cpu_pool_free(struct cpu_pool *pool);

/* One worker calls it when a layer's experts are chosen. Gives each of chosen[n_chosen] a place,
 * and lists the ones that are to be packed in missing[*n_missing]. The pool is the caller's until
 * rf_cpu_pool_release. */
void rf_cpu_pool_take(struct cpu_pool *pool, cpu_pool_layer layer, const struct cpu_expert *chosen,
                      size_t n_chosen, size_t *missing, size_t *n_missing);
/* All workers call it. Packs the missing experts, and ends with a barrier. */
void rf_cpu_pool_fill(cpu_pool_layer layer, const size_t *missing, size_t n_missing,
                      struct rf_worker *worker, rf_cpu_pack_fn *pack, const void *user);
void rf_cpu_pool_release(struct cpu_pool *pool); /* NULL is allowed */

#endif
