/* Blocks of caches: memory that several caches hold, and slabs of it for small blocks. cache.c and
 * states.c call it. */
#include "cpu/cpu.h"

struct cpu_block *rf_cpu_block_new(const struct rf_allocator *allocator, size_t count, size_t bytes,
                                   struct rf_error *error)
{
    struct cpu_block *block = rf_calloc(allocator, 1, sizeof *block, "KV cache", error);
    if (!block) return NULL;
    block->data = rf_malloc(allocator, count, bytes, "KV cache", error);
    atomic_init(&block->holders, 1);
    if (block->data) return block;
    rf_free(allocator, block);
    return NULL;
}

struct cpu_block *rf_cpu_block_hold(struct cpu_block *block)
{
    if (block) atomic_fetch_add(&block->holders, 1);
    return block;
}

void rf_cpu_slab_drop(const struct rf_allocator *allocator, struct cpu_slab *slab)
{
    if (!slab || atomic_fetch_sub(&slab->holders, 1) > 1) return;
    rf_free(allocator, slab->data);
    rf_free(allocator, slab);
}

void rf_cpu_block_drop(const struct rf_allocator *allocator, struct cpu_block *block)
{
    if (!block || atomic_fetch_sub(&block->holders, 1) > 1) return;
    if (block->slab)
        rf_cpu_slab_drop(allocator, block->slab);
    else
        rf_free(allocator, block->data);
    rf_free(allocator, block);
}

uint64_t rf_cpu_block_share(const struct cpu_block *block, size_t bytes)
{
    return block ? bytes / (uint64_t)atomic_load(&block->holders) : 0;
}
