/* Caches in host memory: their size, and saving and loading them in the form that infer/backend.h
 * gives, which does not depend on blocks. The backend calls it between passes. */
#include <string.h>

#include "cpu/cpu.h"
#include "infer/kv_kept.h"
#include "infer/state_kept.h"

static size_t half_bytes(const struct cpu_kv *kv, size_t n)
{
    return (rf_padded(n) * kv->keys + n * kv->values) * sizeof(uint16_t);
}

static struct cpu_saved saved_parts(const struct cpu_cache *cache, enum rf_kv_kind kind, size_t n)
{
    const struct cpu_kv *kv = &cache->kinds[kind];
    size_t groups = kv->groups && n ? rf_kv_groups_of_row(n - 1) : 0,
           block = groups * RF_KV_GROUP / RF_KV_POSITIONS,
           from = kind == RF_KV_WINDOW ? rf_window_saved_from(cache->base.shape.params, n) : 0,
           group = from * RF_KV_POSITIONS / RF_KV_GROUP;
    return (struct cpu_saved){group < groups ? group : groups, groups, block > from ? block : from};
}

static size_t groups_bytes(const struct cpu_kv *kv, const struct cpu_saved *saved)
{
    return (saved->groups - saved->first_group) * kv->group_bytes;
}

/* All parts of a kind. */
static size_t kind_bytes(const struct cpu_kv *kv, const struct cpu_saved *saved, size_t n)
{
    return groups_bytes(kv, saved) + half_bytes(kv, n - saved->first_block * RF_KV_POSITIONS);
}

int rf_cpu_cache_can_save(const struct rf_cache *base, int32_t n)
{
    return rf_cpu_states_can_save((const struct cpu_cache *)base, n);
}

uint64_t rf_cpu_cache_size(const struct rf_cache *base, int32_t n)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    uint64_t bytes = rf_cpu_states_size(cache, n);
    for (int k = 0; k < RF_KV_KINDS; k++) {
        struct cpu_saved saved = saved_parts(cache, (enum rf_kv_kind)k, (size_t)n);
        bytes += kind_bytes(&cache->kinds[k], &saved, (size_t)n);
    }
    return bytes;
}

uint64_t rf_cpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    uint64_t bytes = rf_states_bytes(params, n_ctx);
    for (int32_t i = 0; i < params->n_layer; i++) {
        if (!rf_has_keys(params, i)) continue;
        uint64_t dim = (uint64_t)rf_head_dim(params, i), padded = rf_padded((size_t)dim),
                 positions = (uint64_t)n_ctx, halves = positions;
        if (rf_kv_kind_of(params, i) == RF_KV_WINDOW)
            halves = positions = rf_window_most(params, (size_t)n_ctx);
        if (rf_kv_is_quantised(kv) && rf_kv_most_halves((size_t)n_ctx) < halves)
            halves = rf_kv_most_halves((size_t)n_ctx);
        uint64_t of_head = halves * (dim + padded) * sizeof(uint16_t);
        if (rf_kv_is_quantised(kv))
            of_head +=
                positions / RF_KV_GROUP *
                (rf_kv_upper_bytes(padded) + (kv == RF_KV_Q8 ? rf_kv_lower_bytes(padded) : 0));
        bytes += (uint64_t)rf_n_head_kv(params, i) * of_head;
    }
    return bytes;
}

/* The part of the n saved positions at `data` that lies in one block. */
static struct cpu_kv_place saved_chunk(const struct cpu_kv *kv, const void *data, size_t n,
                                       size_t chunk, size_t *positions)
{
    size_t first = chunk * RF_KV_POSITIONS, left = n - first;
    *positions = left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
    return (struct cpu_kv_place){(char *)(uintptr_t)data + half_bytes(kv, first),
                                 rf_padded(*positions), *positions};
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

static void clear_all_beyond(const struct cpu_cache *cache, enum rf_kv_kind kind,
                             struct cpu_kv_place to)
{
    uint16_t *k = (uint16_t *)(void *)to.data;
    for (int32_t i = 0; i < cache->base.shape.params->n_layer; i++) {
        const struct cpu_kv_layer *of = &cache->layers[i];
        for (size_t h = 0; of->kind == kind && h < of->n_heads;
             h++, k += to.k * of->dim + to.v * of->padded_dim)
            clear_beyond(k, to.v, of->dim);
    }
}

static void save_kind(const struct cpu_cache *cache, enum rf_kv_kind kind,
                      const struct cpu_saved *saved, size_t n, char *out)
{
    const struct cpu_kv *kv = &cache->kinds[kind];
    char *halves = out + groups_bytes(kv, saved);
    for (size_t g = saved->first_group; g < saved->groups; g++, out += kv->group_bytes)
        memcpy(out, kv->groups[g]->data, kv->group_bytes);
    size_t left = n - saved->first_block * RF_KV_POSITIONS;
    for (size_t c = 0, positions; kv->blocks && c < cpu_chunks(left); c++) {
        struct cpu_kv_place to = saved_chunk(kv, halves, left, c, &positions);
        rf_cpu_cache_copy(cache, kind, to, rf_cpu_cache_place(kv->blocks[saved->first_block + c]),
                          positions);
        clear_all_beyond(cache, kind, to);
    }
}

int rf_cpu_cache_save(struct rf_cache *base, int32_t n, void *out, struct rf_error *error)
{
    (void)error;
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    char *to = out;
    for (int k = 0; k < RF_KV_KINDS; k++) {
        struct cpu_saved saved = saved_parts(cache, (enum rf_kv_kind)k, (size_t)n);
        save_kind(cache, (enum rf_kv_kind)k, &saved, (size_t)n, to);
        to += kind_bytes(&cache->kinds[k], &saved, (size_t)n);
    }
    rf_cpu_states_save(cache, n, to);
    return 0;
}

static void load_kind(struct cpu_cache *cache, enum rf_kv_kind kind, const struct cpu_saved *saved,
                      size_t n, const char *in)
{
    struct cpu_kv *kv = &cache->kinds[kind];
    const char *halves = in + groups_bytes(kv, saved);
    for (size_t g = saved->first_group; g < saved->groups; g++, in += kv->group_bytes)
        memcpy(kv->groups[g]->data, in, kv->group_bytes);
    size_t left = n - saved->first_block * RF_KV_POSITIONS;
    for (size_t c = 0, positions; kv->blocks && c < cpu_chunks(left); c++) {
        struct cpu_kv_place from = saved_chunk(kv, halves, left, c, &positions);
        rf_cpu_cache_copy(cache, kind, rf_cpu_cache_place(kv->blocks[saved->first_block + c]), from,
                          positions);
    }
}

int rf_cpu_cache_load(struct rf_cache *base, int32_t n, const void *in, struct rf_error *error)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    struct cpu_saved saved[RF_KV_KINDS];
    const char *from = in;
    for (int k = 0; k < RF_KV_KINDS; k++)
        saved[k] = saved_parts(cache, (enum rf_kv_kind)k, (size_t)n);
    int code = rf_cpu_cache_own(cache, saved, (size_t)n, error);
    if (code) return code;
    cache->settled = (size_t)n;
    for (int k = 0; k < RF_KV_KINDS; k++) {
        load_kind(cache, (enum rf_kv_kind)k, &saved[k], (size_t)n, from);
        from += kind_bytes(&cache->kinds[k], &saved[k], (size_t)n);
        if (saved[k].groups) cache->n_groups = saved[k].groups;
    }
    return rf_cpu_states_load(cache, n, from, error);
}

uint64_t rf_cpu_cache_held(const struct rf_cache *base)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    size_t n_ctx = (size_t)base->shape.n_ctx;
    uint64_t held = rf_cpu_states_held(cache);
    for (const struct cpu_kv *kv = cache->kinds; kv < cache->kinds + RF_KV_KINDS; kv++) {
        size_t block = RF_KV_POSITIONS * (kv->keys + kv->values) * sizeof(uint16_t);
        for (size_t c = 0; kv->blocks && c < cpu_chunks(n_ctx); c++)
            held += rf_cpu_block_share(kv->blocks[c], block);
        for (size_t g = 0; kv->groups && g < n_ctx / RF_KV_GROUP; g++)
            held += rf_cpu_block_share(kv->groups[g], kv->group_bytes);
    }
    return held;
}
