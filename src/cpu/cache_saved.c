/* Caches in host memory: their size, and saving and loading them in the form that infer/backend.h
 * gives, which does not depend on blocks. The backend calls it between passes. */
#include <string.h>

#include "cpu/cpu.h"
#include "infer/kv_kept.h"
#include "infer/state_kept.h"

static size_t saved_dim(const struct cpu_cache *cache)
{
    return (size_t)cache->base.shape.params->head_dim;
}

static size_t half_bytes(const struct cpu_cache *cache, size_t n)
{
    return cache->n_heads * (rf_padded(n) * saved_dim(cache) + n * cache->padded_dim) *
           sizeof(uint16_t);
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
    uint64_t n_heads =
                 (uint64_t)rf_n_attention(params, params->n_layer) * (uint64_t)params->n_head_kv,
             groups = 0;
    uint64_t padded = rf_padded((size_t)params->head_dim), halves = (uint64_t)n_ctx;
    if (rf_kv_is_quantised(kv)) {
        halves = rf_kv_most_halves((size_t)n_ctx);
        groups = (uint64_t)n_ctx / RF_KV_GROUP *
                 (rf_kv_upper_bytes(padded) + (kv == RF_KV_Q8 ? rf_kv_lower_bytes(padded) : 0));
    }
    return n_heads * (groups + halves * rf_cpu_entry_elements(params) * sizeof(uint16_t)) +
           rf_states_bytes(params, n_ctx);
}

/* The part of the n saved positions at `data` that lies in one block. */
static struct cpu_kv_place saved_chunk(const struct cpu_cache *cache, const void *data, size_t n,
                                       size_t chunk, size_t *positions)
{
    size_t first = chunk * RF_KV_POSITIONS, left = n - first;
    *positions = left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
    size_t v = rf_padded(*positions) * saved_dim(cache) * sizeof(uint16_t);
    return (struct cpu_kv_place){(char *)data + half_bytes(cache, first), v,
                                 v + *positions * cache->padded_dim * sizeof(uint16_t)};
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
        for (size_t h = 0; h < cache->n_heads; h++, to.data += to.stride)
            clear_beyond((uint16_t *)(void *)to.data, positions, saved_dim(cache));
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
           block = cache->n_heads * cache->kv_elements * sizeof(uint16_t);
    uint64_t held = 0;
    for (size_t c = 0; c < cpu_chunks(n_ctx); c++)
        held += rf_cpu_block_share(cache->blocks[c], block);
    for (size_t g = 0; cache->groups && g < n_ctx / RF_KV_GROUP; g++)
        held += rf_cpu_block_share(cache->groups[g], rf_cpu_cache_group_bytes(cache));
    return held + rf_cpu_states_held(cache);
}
