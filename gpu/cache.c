/* KV caches in the device's memory. The order in host memory is that of infer/backend.h, with the
 * keys of 16 positions side by side. */
#include <string.h>

#include "gpu/cuda_backend.h"

enum { PIECE = 16 }; /* positions of a key that lie side by side in host memory */

static size_t padded(size_t n)
{
    return (n + PIECE - 1) / PIECE * PIECE;
}

static size_t n_heads(const struct rf_params *params)
{
    return (size_t)params->n_layer * (size_t)params->n_head_kv;
}

/* Elements of K or V of one layer and head in a block. */
static size_t plane_elements(const struct rf_params *params)
{
    return RF_KV_POSITIONS * padded((size_t)params->head_dim);
}

static size_t block_bytes(const struct rf_params *params)
{
    return n_heads(params) * 2 * plane_elements(params) * sizeof(uint16_t);
}

struct gpu_heads gpu_heads_of(const struct rf_cache *cache)
{
    const struct rf_params *params = cache->shape.params;
    return (struct gpu_heads){.n_head = params->n_head,
                              .n_head_kv = params->n_head_kv,
                              .dim = params->head_dim,
                              .padded = (int32_t)padded((size_t)params->head_dim),
                              .is_bf16 = cache->shape.kv == RF_KV_BF16};
}

uint64_t gpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    (void)kv; /* F16 and BF16 alike */
    return (uint64_t)n_ctx * n_heads(params) * 2 * padded((size_t)params->head_dim) *
           sizeof(uint16_t);
}

/* ---- blocks ---- */

static void release(const struct rf_backend *backend, struct gpu_block *block)
{
    if (!block || atomic_fetch_sub(&block->holders, 1) > 1) return;
    gpu_give(gpu_backend_of(backend), block->data);
    rf_free(backend->allocator, block);
}

static struct gpu_block *block_new(const struct gpu_cache *cache, struct rf_error *error)
{
    const struct rf_backend *backend = cache->base.backend;
    struct gpu_block *block = rf_calloc(backend->allocator, 1, sizeof *block, "KV cache", error);
    if (!block) return NULL;
    atomic_init(&block->holders, 1);
    block->data =
        gpu_take(gpu_backend_of(backend), block_bytes(cache->base.shape.params), "KV cache", error);
    if (block->data) return block;
    rf_free(backend->allocator, block);
    return NULL;
}

/* Makes a block the cache's own, with what a shared one holds. */
static int own_block(struct gpu_cache *cache, size_t c, struct rf_error *error)
{
    const struct rf_backend *backend = cache->base.backend;
    struct gpu_block *old = cache->blocks[c];
    if (old && atomic_load(&old->holders) == 1) return 0;
    struct gpu_block *block = block_new(cache, error);
    if (!block) return RF_ERR_MEMORY;
    cudaError_t status = cudaSuccess;
    if (old)
        status = cudaMemcpyAsync(block->data, old->data, block_bytes(cache->base.shape.params),
                                 cudaMemcpyDeviceToDevice, gpu_backend_of(backend)->stream);
    if (status != cudaSuccess) {
        release(backend, block);
        return gpu_check(status, "copying a block of the KV cache", error);
    }
    cache->blocks[c] = block;
    release(backend, old);
    return 0;
}

int gpu_cache_own(struct gpu_cache *cache, int32_t first, int32_t end, struct rf_error *error)
{
    int code = 0;
    for (size_t c = (size_t)first / RF_KV_POSITIONS; !code && c < gpu_chunks(end); c++)
        code = own_block(cache, c, error);
    return code;
}

/* ---- caches ---- */

int gpu_cache_new(struct rf_cache **out, struct rf_backend *backend,
                  const struct rf_cache_shape *shape, struct rf_error *error)
{
    *out = NULL;
    if (rf_kv_is_quantised(shape->kv))
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "CUDA devices hold keys and values in f16 or bf16, not in q8 or q4");
    struct gpu_cache *made = rf_calloc(backend->allocator, 1, sizeof *made, "KV cache", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_cache){backend, *shape};
    made->blocks = rf_calloc(backend->allocator, gpu_chunks(shape->n_ctx), sizeof *made->blocks,
                             "KV cache", error);
    if (!made->blocks) {
        rf_free(backend->allocator, made);
        return RF_ERR_MEMORY;
    }
    *out = &made->base;
    return 0;
}

void gpu_cache_trim(struct rf_cache *base, int32_t n)
{
    struct gpu_cache *cache = (struct gpu_cache *)base;
    gpu_enter(base->backend);
    for (size_t c = gpu_chunks(n); c < gpu_chunks(base->shape.n_ctx); c++) {
        release(base->backend, cache->blocks[c]);
        cache->blocks[c] = NULL;
    }
}

/* Nothing is given up. */
void gpu_cache_settle(struct rf_cache *base, int32_t n)
{
    (void)base, (void)n;
}

int32_t gpu_cache_resume(const struct rf_cache *base, int32_t n)
{
    (void)base;
    return n;
}

void gpu_cache_free(struct rf_cache *base)
{
    if (!base) return;
    struct gpu_cache *cache = (struct gpu_cache *)base;
    gpu_cache_trim(base, 0);
    rf_free(base->backend->allocator, cache->blocks);
    rf_free(base->backend->allocator, cache);
}

int gpu_cache_fork(struct rf_cache **copy, struct rf_cache *base, int32_t n, struct rf_error *error)
{
    const struct gpu_cache *cache = (const struct gpu_cache *)base;
    int code = gpu_cache_new(copy, base->backend, &base->shape, error);
    if (code) return code;
    struct gpu_cache *made = (struct gpu_cache *)*copy;
    for (size_t c = 0; c < gpu_chunks(n); c++) {
        made->blocks[c] = cache->blocks[c];
        if (made->blocks[c]) atomic_fetch_add(&made->blocks[c]->holders, 1);
    }
    return 0;
}

/* The device's addresses of the blocks, then the path. */
static int move_path(const struct gpu_cache *cache, int32_t first_pos, const int32_t *path,
                     int32_t n, struct rf_error *error)
{
    const struct rf_params *params = cache->base.shape.params;
    const struct gpu_backend *backend = gpu_backend_of(cache->base.backend);
    size_t chunks = gpu_chunks(cache->base.shape.n_ctx), table = chunks * sizeof(uint16_t *),
           bytes = table + (size_t)n * sizeof *path;
    char *host = rf_calloc(backend->base.allocator, bytes, 1, "KV cache", error),
         *device = host ? gpu_take(backend, bytes, "KV cache", error) : NULL;
    if (!device) {
        rf_free(backend->base.allocator, host);
        return RF_ERR_MEMORY;
    }
    uint16_t **blocks = (uint16_t **)(void *)host;
    for (size_t c = 0; c < chunks; c++)
        if (cache->blocks[c]) blocks[c] = cache->blocks[c]->data;
    memcpy(host + table, path, (size_t)n * sizeof *path);
    /* From memory that is not pinned: the host's is read before the call returns. */
    cudaError_t status =
        cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, backend->stream);
    if (status == cudaSuccess)
        status = gpu_keep(backend->stream, (uint16_t *const *)(void *)device,
                          (const int32_t *)(void *)(device + table), n, first_pos,
                          (int32_t)n_heads(params) * 2, (int32_t)padded((size_t)params->head_dim));
    gpu_give(backend, device);
    rf_free(backend->base.allocator, host);
    return gpu_check(status, "keeping a path", error);
}

int gpu_cache_keep(struct rf_cache *base, int32_t first_pos, const int32_t *path, int32_t n,
                   struct rf_error *error)
{
    struct gpu_cache *cache = (struct gpu_cache *)base;
    int32_t moved = 0; /* the first that does */
    while (moved < n && path[moved] == moved) moved++;
    if (moved == n) return 0;
    gpu_enter(base->backend);
    int code = gpu_cache_own(cache, first_pos, first_pos + path[n - 1] + 1, error);
    return code ? code : move_path(cache, first_pos, path, n, error);
}

/* ---- in host memory ---- */

/* Of n positions, those in a chunk. */
static size_t positions_in(int32_t n, size_t chunk)
{
    size_t left = (size_t)n - chunk * RF_KV_POSITIONS;
    return left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
}

uint64_t gpu_cache_bytes(const struct rf_cache *base, int32_t n)
{
    const struct rf_params *params = base->shape.params;
    size_t dim = (size_t)params->head_dim, elements = 0;
    for (size_t c = 0; c < gpu_chunks(n); c++) {
        size_t p = positions_in(n, c);
        elements += padded(p) * dim + p * padded(dim);
    }
    return (uint64_t)elements * n_heads(params) * sizeof(uint16_t);
}

/* Copies the p first positions of a plane: keys to or from where they lie side by side. */
static void move_plane(uint16_t *plane, char *saved, size_t p, size_t dim, int is_key, int is_load)
{
    size_t stride = padded(dim);
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j < (is_key ? dim : stride); j++) {
            size_t at = is_key ? (i / PIECE * dim + j) * PIECE + i % PIECE : i * stride + j;
            uint16_t *value = plane + i * stride + j;
            if (is_load)
                memcpy(value, saved + at * sizeof *value, sizeof *value);
            else
                memcpy(saved + at * sizeof *value, value, sizeof *value);
        }
}

/* All planes of a block that has p positions; returns the bytes in host memory. */
static size_t move_block(const struct rf_params *params, uint16_t *block, char *saved, size_t p,
                         int is_load)
{
    size_t dim = (size_t)params->head_dim, keys = padded(p) * dim * sizeof(uint16_t),
           values = p * padded(dim) * sizeof(uint16_t);
    for (size_t h = 0; h < n_heads(params); h++) {
        uint16_t *plane = block + h * 2 * plane_elements(params);
        char *of_head = saved + h * (keys + values);
        if (!is_load) memset(of_head, 0, keys);
        move_plane(plane, of_head, p, dim, 1, is_load);
        move_plane(plane + plane_elements(params), of_head + keys, p, dim, 0, is_load);
    }
    return n_heads(params) * (keys + values);
}

static int move_positions(struct gpu_cache *cache, int32_t n, char *saved, int is_load,
                          struct rf_error *error)
{
    const struct rf_params *params = cache->base.shape.params;
    const struct gpu_backend *backend = gpu_backend_of(cache->base.backend);
    size_t bytes = block_bytes(params);
    uint16_t *host = rf_calloc(backend->base.allocator, bytes, 1, "KV cache", error);
    if (!host) return RF_ERR_MEMORY;
    int code = 0;
    for (size_t c = 0; !code && c < gpu_chunks(n); c++) {
        uint16_t *device = cache->blocks[c]->data;
        cudaError_t status = cudaSuccess;
        if (!is_load)
            status = cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, backend->stream);
        if (status == cudaSuccess) status = cudaStreamSynchronize(backend->stream);
        if (status == cudaSuccess)
            saved += move_block(params, host, saved, positions_in(n, c), is_load);
        if (status == cudaSuccess && is_load)
            status = cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, backend->stream);
        code = gpu_check(status, is_load ? "loading a KV cache" : "saving a KV cache", error);
    }
    if (!code) code = gpu_check(cudaStreamSynchronize(backend->stream), "a KV cache", error);
    rf_free(backend->base.allocator, host);
    return code;
}

int gpu_cache_save(struct rf_cache *base, int32_t n, void *out, struct rf_error *error)
{
    gpu_enter(base->backend);
    return move_positions((struct gpu_cache *)base, n, out, 0, error);
}

int gpu_cache_load(struct rf_cache *base, int32_t n, const void *in, struct rf_error *error)
{
    struct gpu_cache *cache = (struct gpu_cache *)base;
    gpu_enter(base->backend);
    int code = gpu_cache_own(cache, 0, n, error);
    return code ? code : move_positions(cache, n, (char *)(uintptr_t)in, 1, error);
}

uint64_t gpu_cache_held(const struct rf_cache *base)
{
    const struct gpu_cache *cache = (const struct gpu_cache *)base;
    uint64_t held = 0;
    for (int32_t c = 0; c * RF_KV_POSITIONS < base->shape.n_ctx; c++)
        if (cache->blocks[c])
            held +=
                block_bytes(base->shape.params) / (uint64_t)atomic_load(&cache->blocks[c]->holders);
    return held;
}
