/* Caches in host memory: their size, and saving and loading them in the form that infer/backend.h
 * gives, which does not depend on blocks. The backend calls it between passes. */
#include <string.h>

#include "cpu/cpu.h"
#include "infer/kv_kept.h"
#include "infer/state_kept.h"

static size_t half_bytes(const struct cpu_cache *cache, size_t n)
{
    return (rf_padded(n) * cache->keys + n * cache->values) * sizeof(uint16_t);
}

/* The parts of n positions in host memory: groups, then blocks from the first one on. */
struct saved {
    size_t groups, first_block;
};

static struct saved saved_parts(const struct cpu_cache *cache, size_t n)
{
    size_t groups = cache->groups && n ? rf_kv_groups_of_row(n - 1) : 0;
    return (struct saved){groups, groups * RF_KV_GROUP / RF_KV_POSITIONS};
}

int rf_cpu_cache_can_save(const struct rf_cache *base, int32_t n)
{
    return rf_cpu_states_can_save((const struct cpu_cache *)base, n);
}

uint64_t rf_cpu_cache_size(const struct rf_cache *base, int32_t n)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    struct saved saved = saved_parts(cache, (size_t)n);
    return saved.groups * rf_cpu_cache_group_bytes(cache) +
           half_bytes(cache, (size_t)n - saved.first_block * RF_KV_POSITIONS) +
           rf_cpu_states_size(cache, n);
}

uint64_t rf_cpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    uint64_t bytes = rf_states_bytes(params, n_ctx);
    int is_quantised = rf_kv_is_quantised(kv);
    uint64_t halves = is_quantised ? rf_kv_most_halves((size_t)n_ctx) : (uint64_t)n_ctx,
             groups = is_quantised ? (uint64_t)n_ctx / RF_KV_GROUP : 0;
    for (int32_t i = 0; i < params->n_layer; i++) {
        if (!rf_has_keys(params, i)) continue;
        uint64_t dim = (uint64_t)rf_head_dim(params, i), padded = rf_padded((size_t)dim);
        uint64_t of_head = halves * (dim + padded) * sizeof(uint16_t);
        if (groups)
            of_head += groups * (rf_kv_upper_bytes(padded) +
                                 (kv == RF_KV_Q8 ? rf_kv_lower_bytes(padded) : 0));
        bytes += (uint64_t)rf_n_head_kv(params, i) * of_head;
    }
    return bytes;
}

/* The part of the n saved positions at `data` that lies in one block. */
static struct cpu_kv_place saved_chunk(const struct cpu_cache *cache, const void *data, size_t n,
                                       size_t chunk, size_t *positions)
{
    size_t first = chunk * RF_KV_POSITIONS, left = n - first;
    *positions = left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
    return (struct cpu_kv_place){(char *)data + half_bytes(cache, first), rf_padded(*positions),
                                 *positions};
}

/* Clears the positions of the last K block that were not written, so that a file holds no stray
 * memory. */
static void clear_beyond(uint16_t *k, size_t n, size_t dim)
{
    if (n % RF_KV_BLOCK == 0) return;
    uint16_t *block = k + n / RF_KV_BLOCK * RF_KV_BLOCK * dim;
    for (size_t j = 0; j < dim; j++)
        memset(block + j * RF_KV_BLOCK + n % RF_KV_BLOCK, 0,
               (RF_KV_BLOCK - n % RF_KV_BLOCK) * sizeof *block);
}

static void clear_all_beyond(const struct cpu_cache *cache, struct cpu_kv_place to)
{
    uint16_t *k = (uint16_t *)(void *)to.data;
    for (int32_t i = 0; i < cache->base.shape.params->n_layer; i++) {
        const struct cpu_kv_layer *of = &cache->layers[i];
        for (size_t h = 0; h < of->n_heads; h++, k += to.k * of->dim + to.v * of->padded_dim)
            clear_beyond(k, to.v, of->dim);
    }
}

int rf_cpu_cache_save(struct rf_cache *base, int32_t n, void *out, struct rf_error *error)
{
    (void)error;
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    struct saved saved = saved_parts(cache, (size_t)n);
    char *halves = (char *)out + saved.groups * rf_cpu_cache_group_bytes(cache);
    for (size_t g = 0; g < saved.groups; g++)
        memcpy((char *)out + g * rf_cpu_cache_group_bytes(cache), cache->groups[g]->data,
               rf_cpu_cache_group_bytes(cache));
    size_t left = (size_t)n - saved.first_block * RF_KV_POSITIONS;
    for (size_t c = 0, positions; c < cpu_chunks(left); c++) {
        struct cpu_kv_place to = saved_chunk(cache, halves, left, c, &positions);
        rf_cpu_cache_copy(
            cache, to, rf_cpu_cache_place(cache, cache->blocks[saved.first_block + c]), positions);
        clear_all_beyond(cache, to);
    }
    rf_cpu_states_save(cache, n, halves + half_bytes(cache, left));
    return 0;
}

int rf_cpu_cache_load(struct rf_cache *base, int32_t n, const void *in, struct rf_error *error)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    struct saved saved = saved_parts(cache, (size_t)n);
    const char *halves = (const char *)in + saved.groups * rf_cpu_cache_group_bytes(cache);
    size_t first = saved.first_block * RF_KV_POSITIONS, left = (size_t)n - first;
    int code = rf_cpu_cache_own(cache, first, left, saved.groups, error);
    if (code) return code;
    for (size_t g = 0; g < saved.groups; g++)
        memcpy(cache->groups[g]->data, (const char *)in + g * rf_cpu_cache_group_bytes(cache),
               rf_cpu_cache_group_bytes(cache));
    cache->n_groups = saved.groups;
    for (size_t c = 0, positions; c < cpu_chunks(left); c++) {
        struct cpu_kv_place from = saved_chunk(cache, halves, left, c, &positions);
        rf_cpu_cache_copy(cache, rf_cpu_cache_place(cache, cache->blocks[saved.first_block + c]),
                          from, positions);
    }
    return rf_cpu_states_load(cache, n, halves + half_bytes(cache, left), error);
}

uint64_t rf_cpu_cache_held(const struct rf_cache *base)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    size_t n_ctx = (size_t)base->shape.n_ctx,
           block = RF_KV_POSITIONS * (cache->keys + cache->values) * sizeof(uint16_t);
    uint64_t held = 0;
    for (size_t c = 0; c < cpu_chunks(n_ctx); c++)
        held += rf_cpu_block_share(cache->blocks[c], block);
    for (size_t g = 0; cache->groups && g < n_ctx / RF_KV_GROUP; g++)
        held += rf_cpu_block_share(cache->groups[g], rf_cpu_cache_group_bytes(cache));
    return held + rf_cpu_states_held(cache);
}
