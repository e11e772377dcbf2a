/* The KV cache: blocks of RF_KV_POSITIONS positions that forks share. In a block, for each layer
 * and KV head, first K, 16 positions interleaved so that a vector of scores needs no sums across
 * lanes, [256/16][head_dim][16]; then V, [256][padded head_dim]. */
#include <assert.h>
#include <string.h>

#include "cpu/cpu.h"

static size_t heads(const struct cpu_cache *cache)
{
    return (size_t)cache->base.shape.params->n_layer * (size_t)cache->base.shape.params->n_head_kv;
}

static size_t head_dim(const struct cpu_cache *cache)
{
    return (size_t)cache->base.shape.params->head_dim;
}

static const struct rf_allocator *allocator_of(const struct cpu_cache *cache)
{
    return cache->base.backend->allocator;
}

size_t rf_cpu_entry_elements(const struct rf_params *params)
{
    return (size_t)params->head_dim + rf_padded((size_t)params->head_dim);
}

int rf_cpu_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                     const struct rf_cache_shape *shape, struct rf_error *error)
{
    const struct rf_allocator *allocator = backend->allocator;
    *cache = NULL;
    struct cpu_cache *made = rf_calloc(allocator, 1, sizeof *made, "KV cache", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_cache){backend, *shape};
    made->padded_dim = rf_padded((size_t)shape->params->head_dim);
    made->k_elements = RF_KV_POSITIONS * (size_t)shape->params->head_dim;
    made->kv_elements = made->k_elements + RF_KV_POSITIONS * made->padded_dim;
    made->blocks = rf_calloc(allocator, cpu_chunks((size_t)shape->n_ctx), sizeof *made->blocks,
                             "KV cache", error);
    if (!made->blocks) {
        rf_cpu_cache_free(&made->base);
        return RF_ERR_MEMORY;
    }
    *cache = &made->base;
    return 0;
}

/* The last holder frees. */
static void release(const struct rf_allocator *allocator, struct cpu_block *block)
{
    if (!block || atomic_fetch_sub(&block->holders, 1) > 1) return;
    rf_free(allocator, block->data);
    rf_free(allocator, block);
}

static void release_from(struct cpu_cache *cache, size_t chunk)
{
    for (size_t c = chunk; c < cpu_chunks((size_t)cache->base.shape.n_ctx); c++) {
        release(allocator_of(cache), cache->blocks[c]);
        cache->blocks[c] = NULL;
    }
}

void rf_cpu_cache_trim(struct rf_cache *base, int32_t n)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    size_t chunk = cpu_chunks((size_t)n);
    /* Keeps the first of these blocks, which the next token probably needs. */
    int keeps = chunk < cpu_chunks((size_t)base->shape.n_ctx) && cache->blocks[chunk] &&
                atomic_load(&cache->blocks[chunk]->holders) == 1;
    release_from(cache, chunk + (size_t)keeps);
}

void rf_cpu_cache_free(struct rf_cache *base)
{
    if (!base) return;
    struct cpu_cache *cache = (struct cpu_cache *)base;
    const struct rf_allocator *allocator = allocator_of(cache);
    if (cache->blocks) release_from(cache, 0);
    rf_free(allocator, cache->blocks);
    rf_free(allocator, cache);
}

int rf_cpu_cache_fork(struct rf_cache **copy, struct rf_cache *base, int32_t n,
                      struct rf_error *error)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    int code = rf_cpu_cache_new(copy, base->backend, &base->shape, error);
    if (code) return code;
    struct cpu_cache *made = (struct cpu_cache *)*copy;
    for (size_t c = 0; c < cpu_chunks((size_t)n); c++) {
        made->blocks[c] = cache->blocks[c];
        atomic_fetch_add(&made->blocks[c]->holders, 1);
    }
    return 0;
}

/* Where K and V of one layer and head lie: in a block, or in saved positions, which need not be
 * aligned. Sizes are in bytes. */
struct place {
    char *data;
    size_t v, stride; /* from K to V; to the next head */
};

static struct place in_block(const struct cpu_cache *cache, const struct cpu_block *block)
{
    return (struct place){(char *)block->data, cache->k_elements * sizeof(uint16_t),
                          cache->kv_elements * sizeof(uint16_t)};
}

/* Copies what the first `positions` of a block hold, for each layer and head. K is copied in whole
 * groups of 16 positions. */
static void copy_positions(const struct cpu_cache *cache, struct place to, struct place from,
                           size_t positions)
{
    size_t k = rf_padded(positions) * head_dim(cache) * sizeof(uint16_t),
           v = positions * cache->padded_dim * sizeof(uint16_t);
    for (size_t h = 0; h < heads(cache); h++, to.data += to.stride, from.data += from.stride) {
        memcpy(to.data, from.data, k);
        memcpy(to.data + to.v, from.data + from.v, v);
    }
}

int rf_cpu_cache_prepare(struct cpu_cache *cache, size_t first, size_t n, struct rf_error *error)
{
    const struct rf_allocator *allocator = allocator_of(cache);
    for (size_t c = first / RF_KV_POSITIONS; c < cpu_chunks(first + n); c++) {
        struct cpu_block *old = cache->blocks[c];
        if (old && atomic_load(&old->holders) == 1) continue;
        struct cpu_block *block = rf_calloc(allocator, 1, sizeof *block, "KV cache", error);
        if (!block) return RF_ERR_MEMORY;
        /* The block is not cleared. Kernels read K in groups of 16 positions and drop the scores of
         * positions that a query does not see. Of V they read only what was written. */
        block->data = rf_malloc(allocator, heads(cache), cache->kv_elements * sizeof *block->data,
                                "KV cache", error);
        if (!block->data) {
            rf_free(allocator, block);
            return RF_ERR_MEMORY;
        }
        atomic_init(&block->holders, 1);
        size_t start = c * RF_KV_POSITIONS;
        assert(old || first <= start);
        if (old && first > start)
            copy_positions(cache, in_block(cache, block), in_block(cache, old), first - start);
        cache->blocks[c] = block;
        release(allocator, old);
    }
    return 0;
}

/* Where a position's key begins (its elements are RF_KV_BLOCK apart), and its value. */
static uint16_t *key_at(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos)
{
    size_t place = pos % RF_KV_POSITIONS, first = place / RF_KV_BLOCK * RF_KV_BLOCK;
    return k_cache(cache, pos / RF_KV_POSITIONS, layer, head) + first * head_dim(cache) +
           place % RF_KV_BLOCK;
}

static uint16_t *value_at(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos)
{
    return v_cache(cache, pos / RF_KV_POSITIONS, layer, head) +
           pos % RF_KV_POSITIONS * cache->padded_dim;
}

static void to_half(const struct cpu_cache *cache, uint16_t *to, const float *x, size_t n)
{
    const struct rf_kernels *kernels = kernels_of(cache->base.backend);
    if (cache->base.shape.kv == RF_KV_F16)
        kernels->f32_to_f16(to, x, n);
    else
        kernels->f32_to_bf16(to, x, n);
}

void rf_cpu_cache_store(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                        const float *key, const float *value)
{
    size_t dim = head_dim(cache);
    uint16_t *to = key_at(cache, layer, head, pos), half[RF_KV_BLOCK];
    for (size_t j = 0; j < dim; j += RF_KV_BLOCK) {
        size_t n = dim - j < RF_KV_BLOCK ? dim - j : RF_KV_BLOCK;
        to_half(cache, half, key + j, n);
        for (size_t i = 0; i < n; i++) to[(j + i) * RF_KV_BLOCK] = half[i];
    }
    to = value_at(cache, layer, head, pos);
    to_half(cache, to, value, dim);
    memset(to + dim, 0, (cache->padded_dim - dim) * sizeof *to);
}

void rf_cpu_cache_get(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      uint16_t *entry)
{
    size_t dim = head_dim(cache);
    const uint16_t *key = key_at(cache, layer, head, pos);
    for (size_t j = 0; j < dim; j++) entry[j] = key[j * RF_KV_BLOCK];
    memcpy(entry + dim, value_at(cache, layer, head, pos), cache->padded_dim * sizeof *entry);
}

void rf_cpu_cache_put(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      const uint16_t *entry)
{
    size_t dim = head_dim(cache);
    uint16_t *key = key_at(cache, layer, head, pos);
    for (size_t j = 0; j < dim; j++) key[j * RF_KV_BLOCK] = entry[j];
    memcpy(value_at(cache, layer, head, pos), entry + dim, cache->padded_dim * sizeof *entry);
}

int rf_cpu_cache_keep(struct rf_cache *base, int32_t first_pos, const int32_t *path, int32_t n,
                      struct rf_error *error)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    const struct rf_params *params = base->shape.params;
    int32_t moved = 0; /* the first that does */
    while (moved < n && path[moved] == moved) moved++;
    if (moved == n) return 0;
    uint16_t *entry = rf_malloc(allocator_of(cache), rf_cpu_entry_elements(params), sizeof *entry,
                                "KV cache", error);
    if (!entry) return RF_ERR_MEMORY;
    for (int32_t layer = 0; layer < params->n_layer; layer++)
        for (size_t head = 0; head < (size_t)params->n_head_kv; head++)
            for (int32_t i = moved; i < n; i++) {
                rf_cpu_cache_get(cache, layer, head, (size_t)(first_pos + path[i]), entry);
                rf_cpu_cache_put(cache, layer, head, (size_t)(first_pos + i), entry);
            }
    rf_free(allocator_of(cache), entry);
    return 0;
}

/* ---- in host memory ---- */

uint64_t rf_cpu_cache_size(const struct rf_cache *base, int32_t n)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    size_t elements = rf_padded((size_t)n) * head_dim(cache) + (size_t)n * cache->padded_dim;
    return (uint64_t)heads(cache) * elements * sizeof(uint16_t);
}

/* The part of the n saved positions at `data` that lies in one block. */
static struct place saved_chunk(const struct cpu_cache *cache, const void *data, size_t n,
                                size_t chunk, size_t *positions)
{
    size_t first = chunk * RF_KV_POSITIONS, left = n - first;
    *positions = left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
    size_t v = rf_padded(*positions) * head_dim(cache) * sizeof(uint16_t);
    return (struct place){(char *)data + rf_cpu_cache_size(&cache->base, (int32_t)first), v,
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
    for (size_t c = 0, positions; c < cpu_chunks((size_t)n); c++) {
        struct place to = saved_chunk(cache, out, (size_t)n, c, &positions);
        copy_positions(cache, to, in_block(cache, cache->blocks[c]), positions);
        for (size_t h = 0; h < heads(cache); h++, to.data += to.stride)
            clear_beyond((uint16_t *)(void *)to.data, positions, head_dim(cache));
    }
    return 0;
}

int rf_cpu_cache_load(struct rf_cache *base, int32_t n, const void *in, struct rf_error *error)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    int code = rf_cpu_cache_prepare(cache, 0, (size_t)n, error);
    for (size_t c = 0, positions; !code && c < cpu_chunks((size_t)n); c++) {
        struct place from = saved_chunk(cache, in, (size_t)n, c, &positions);
        copy_positions(cache, in_block(cache, cache->blocks[c]), from, positions);
    }
    return code;
}
