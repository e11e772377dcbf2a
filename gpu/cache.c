/* KV caches in the device's memory. Blocks and groups are shared by forks and copied before they
 * are written. Saved caches have the order of infer/backend.h, with the keys of 16 positions side
 * by side; groups of a cache that quantises have the same order in both memories. */
#include <string.h>

#include "gpu/cuda_backend.h"
#include "infer/kv_kept.h"
#include "infer/window_kept.h"
#include "microkernels/kv.h"

enum {
    PIECE = 16,             /* positions of a key that lie side by side in host memory */
    ATTENTION_BLOCKS = 256, /* most blocks of threads where one row is read: two for a processor */
    QUANTISED_BLOCKS = 384, /* the same where the cache quantises: three for a processor */
    FEWEST_SPANS = 16
};

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

static size_t gpu_group_bytes(const struct rf_cache_shape *shape)
{
    size_t dim = padded((size_t)shape->params->head_dim);
    if (!rf_kv_is_quantised(shape->kv)) return 0;
    return n_heads(shape->params) *
           (rf_kv_upper_bytes(dim) + (shape->kv == RF_KV_Q8 ? rf_kv_lower_bytes(dim) : 0));
}

struct gpu_heads gpu_heads_of(const struct rf_params *params, enum rf_kv_type kv)
{
    size_t dim = padded((size_t)params->head_dim);
    int32_t blocks = rf_kv_is_quantised(kv) ? QUANTISED_BLOCKS : ATTENTION_BLOCKS,
            spans = blocks / params->n_head_kv;
    return (struct gpu_heads){.n_head = params->n_head,
                              .n_head_kv = params->n_head_kv,
                              .dim = params->head_dim,
                              .padded = (int32_t)dim,
                              .is_bf16 = kv == RF_KV_BF16,
                              .spans = spans < FEWEST_SPANS     ? FEWEST_SPANS
                                       : spans > GPU_MOST_SPANS ? GPU_MOST_SPANS
                                                                : spans,
                              .quantised = kv == RF_KV_Q8   ? 8
                                           : kv == RF_KV_Q4 ? 4
                                                            : 0,
                              .planes = (int32_t)n_heads(params),
                              .upper_bytes = (int32_t)rf_kv_upper_bytes(dim),
                              .lower_bytes = (int32_t)rf_kv_lower_bytes(dim)};
}

uint64_t gpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    const struct rf_cache_shape shape = {.params = params, .kv = kv};
    uint64_t halves = (uint64_t)n_ctx, groups = 0;
    if (rf_kv_is_quantised(kv)) {
        halves = rf_kv_most_halves((size_t)n_ctx);
        groups = (uint64_t)n_ctx / RF_KV_GROUP;
    }
    return groups * gpu_group_bytes(&shape) +
           halves * n_heads(params) * 2 * padded((size_t)params->head_dim) * sizeof(uint16_t);
}

/* ---- blocks ---- */

static void release_block(const struct rf_backend *backend, struct gpu_block *block)
{
    if (!block || atomic_fetch_sub(&block->holders, 1) > 1) return;
    gpu_give(gpu_backend_of(backend), block->data);
    rf_free(backend->allocator, block);
}

static void release_block_at(struct gpu_cache *cache, struct gpu_block **at)
{
    release_block(cache->base.backend, *at);
    *at = NULL;
}

static struct gpu_block *gpu_block_new(const struct gpu_cache *cache, size_t bytes,
                                       struct rf_error *error)
{
    const struct rf_backend *backend = cache->base.backend;
    struct gpu_block *block = rf_calloc(backend->allocator, 1, sizeof *block, "KV cache", error);
    if (!block) return NULL;
    atomic_init(&block->holders, 1);
    block->data = gpu_take(gpu_backend_of(backend), bytes, "KV cache", error);
    if (block->data) return block;
    rf_free(backend->allocator, block);
    return NULL;
}

/* Makes a block or a group the cache's own; `keeps`: with the contents of the shared one. */
static int own_block(struct gpu_cache *cache, struct gpu_block **at, size_t bytes, int keeps,
                     struct rf_error *error)
{
    const struct rf_backend *backend = cache->base.backend;
    struct gpu_block *old = *at;
    if (old && atomic_load(&old->holders) == 1) return 0;
    struct gpu_block *block = gpu_block_new(cache, bytes, error);
    if (!block) return RF_ERR_MEMORY;
    cudaError_t status = cudaSuccess;
    if (old && keeps)
        status = cudaMemcpyAsync(block->data, old->data, bytes, cudaMemcpyDeviceToDevice,
                                 gpu_backend_of(backend)->stream);
    if (status != cudaSuccess) {
        release_block(backend, block);
        return gpu_check(status, "copying a block of the KV cache", error);
    }
    *at = block;
    release_block(backend, old);
    return 0;
}

static int gpu_own_blocks(struct gpu_cache *cache, int32_t first, int32_t end,
                          struct rf_error *error)
{
    size_t bytes = block_bytes(cache->base.shape.params);
    int code = 0;
    for (size_t c = (size_t)first / RF_KV_POSITIONS; !code && c < gpu_chunks(end); c++)
        code = own_block(cache, &cache->blocks[c], bytes, 1, error);
    return code;
}

/* Groups from n_groups to before `end`, which are written anew. */
static int gpu_own_groups(struct gpu_cache *cache, size_t end, struct rf_error *error)
{
    size_t bytes = gpu_group_bytes(&cache->base.shape);
    int code = 0;
    for (size_t g = cache->n_groups; !code && g < end; g++)
        code = own_block(cache, &cache->groups[g], bytes, 0, error);
    return code;
}

/* Groups that are not whole within the first n positions do not count any more. */
static void gpu_cut_groups(struct gpu_cache *cache, size_t n)
{
    if (cache->n_groups > n / RF_KV_GROUP) cache->n_groups = n / RF_KV_GROUP;
}

static void gpu_give_up(struct gpu_cache *cache, size_t n)
{
    for (size_t c = 0; (c + 1) * RF_KV_POSITIONS <= n; c++)
        if (rf_kv_is_given_up(c, n, cache->n_groups)) release_block_at(cache, &cache->blocks[c]);
}

int gpu_cache_prepare(struct gpu_cache *cache, int32_t first, int32_t n, size_t *n_groups_after,
                      struct rf_error *error)
{
    gpu_cut_groups(cache, (size_t)first);
    if (first == 0) cache->first_seen = 0; /* whatever was loaded, it is written again */
    /* Now already: new blocks may take their memory. A pass behind drafts gives up nothing: the
     * next one may begin before them. */
    if (first <= cache->settled) {
        cache->settled = first;
        gpu_give_up(cache, (size_t)(first + n));
    }
    int code = gpu_own_blocks(cache, first, first + n, error);
    *n_groups_after = cache->n_groups;
    if (code || !cache->groups) return code;
    size_t end = rf_kv_groups_of_row((size_t)(first + n - 1));
    if (end <= cache->n_groups) return 0;
    *n_groups_after = end;
    return gpu_own_groups(cache, end, error);
}

/* ---- caches ---- */

int gpu_cache_new(struct rf_cache **out, struct rf_backend *backend,
                  const struct rf_cache_shape *shape, struct rf_error *error)
{
    *out = NULL;
    struct gpu_cache *made = rf_calloc(backend->allocator, 1, sizeof *made, "KV cache", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_cache){backend, *shape};
    made->blocks = rf_calloc(backend->allocator, gpu_chunks(shape->n_ctx), sizeof *made->blocks,
                             "KV cache", error);
    if (rf_kv_is_quantised(shape->kv))
        made->groups = rf_calloc(backend->allocator, gpu_chunks(shape->n_ctx) * 2,
                                 sizeof *made->groups, "KV cache", error);
    if (!made->blocks || (rf_kv_is_quantised(shape->kv) && !made->groups)) {
        gpu_cache_free(&made->base);
        return RF_ERR_MEMORY;
    }
    *out = &made->base;
    return 0;
}

/* Releases the groups from the n-th on. */
static void gpu_release_groups(struct gpu_cache *cache, size_t n)
{
    for (size_t g = n; cache->groups && g < (size_t)cache->base.shape.n_ctx / RF_KV_GROUP; g++)
        release_block_at(cache, &cache->groups[g]);
}

static void gpu_release_blocks(struct gpu_cache *cache, size_t n)
{
    for (size_t c = n; cache->blocks && c < gpu_chunks(cache->base.shape.n_ctx); c++)
        release_block_at(cache, &cache->blocks[c]);
}

void gpu_cache_trim(struct rf_cache *base, int32_t n)
{
    struct gpu_cache *cache = (struct gpu_cache *)base;
    gpu_enter(base->backend);
    if (cache->settled > n) cache->settled = n;
    gpu_release_blocks(cache, gpu_chunks(n));
    gpu_cut_groups(cache, (size_t)n);
    gpu_release_groups(cache, cache->n_groups);
}

void gpu_cache_settle(struct rf_cache *base, int32_t n)
{
    gpu_enter(base->backend);
    ((struct gpu_cache *)base)->settled = n;
    gpu_give_up((struct gpu_cache *)base, (size_t)n);
}

static int gpu_has_block(const void *cache, size_t c)
{
    return ((const struct gpu_cache *)cache)->blocks[c] != NULL;
}

int32_t gpu_cache_resume(const struct rf_cache *base, int32_t n)
{
    const struct gpu_cache *cache = (const struct gpu_cache *)base;
    if (cache->groups) n = rf_kv_resume(n, gpu_has_block, cache);
    return cache->first_seen && rf_window_from(base->shape.params, (size_t)n) < cache->first_seen
               ? 0
               : n;
}

int gpu_cache_can_save(const struct rf_cache *base, int32_t n)
{
    (void)base;
    (void)n;
    return 1;
}

void gpu_cache_free(struct rf_cache *base)
{
    if (!base) return;
    struct gpu_cache *cache = (struct gpu_cache *)base;
    gpu_enter(base->backend);
    gpu_release_blocks(cache, 0);
    gpu_release_groups(cache, 0);
    rf_free(base->backend->allocator, cache->blocks);
    rf_free(base->backend->allocator, cache->groups);
    rf_free(base->backend->allocator, cache);
}

static void share_block(struct gpu_block **to, struct gpu_block *block)
{
    if (block) atomic_fetch_add(&block->holders, 1);
    *to = block;
}

int gpu_cache_fork(struct rf_cache **copy, struct rf_cache *base, int32_t n, struct rf_error *error)
{
    const struct gpu_cache *cache = (const struct gpu_cache *)base;
    int code = gpu_cache_new(copy, base->backend, &base->shape, error);
    if (code) return code;
    struct gpu_cache *made = (struct gpu_cache *)*copy;
    for (size_t c = 0; c < gpu_chunks(n); c++) share_block(&made->blocks[c], cache->blocks[c]);
    made->settled = cache->settled < n ? cache->settled : n;
    made->first_seen = n ? cache->first_seen : 0;
    made->n_groups = cache->n_groups;
    gpu_cut_groups(made, (size_t)n);
    for (size_t g = 0; g < made->n_groups; g++) share_block(&made->groups[g], cache->groups[g]);
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
    /* The host's memory is not pinned, so it is read before the call returns. */
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
    int32_t moved = 0; /* the first entry that moves */
    while (moved < n && path[moved] == moved) moved++;
    if (moved == n) return 0;
    gpu_enter(base->backend);
    int code = gpu_own_blocks(cache, first_pos, first_pos + path[n - 1] + 1, error);
    return code ? code : move_path(cache, first_pos, path, n, error);
}

/* ---- in host memory ---- */

/* The parts of n positions of a kind in host memory: groups [first_group, groups), then blocks from
 * first_block on. */
struct saved {
    size_t first_group, groups, first_block;
};

static struct saved gpu_saved_parts(const struct gpu_cache *cache, enum rf_kv_kind kind, int32_t n)
{
    size_t groups = cache->groups && n ? rf_kv_groups_of_row((size_t)n - 1) : 0,
           block = groups ? rf_kv_first_block((size_t)n - 1) : 0,
           from =
               kind == RF_KV_WINDOW ? rf_window_saved_from(cache->base.shape.params, (size_t)n) : 0,
           group = from * RF_KV_POSITIONS / RF_KV_GROUP;
    return (struct saved){group < groups ? group : groups, groups, block > from ? block : from};
}

/* How many of n positions are in a chunk. */
static size_t positions_in(int32_t n, size_t chunk)
{
    size_t left = (size_t)n - chunk * RF_KV_POSITIONS;
    return left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
}

/* Bytes of a kind's parts. */
static uint64_t kind_bytes(const struct gpu_cache *cache, enum rf_kv_kind kind, int32_t n)
{
    const struct rf_params *params = cache->base.shape.params;
    struct saved saved = gpu_saved_parts(cache, kind, n);
    uint64_t dim = (uint64_t)params->head_dim, elements = 0,
             layers = (uint64_t)rf_n_of_kind(params, kind),
             heads = layers * (uint64_t)params->n_head_kv;
    for (size_t c = saved.first_block; c < gpu_chunks(n); c++) {
        size_t p = positions_in(n, c);
        elements += padded(p) * dim + p * padded((size_t)dim);
    }
    return (saved.groups - saved.first_group) * gpu_group_bytes(&cache->base.shape) /
               (uint64_t)params->n_layer * layers +
           elements * heads * sizeof(uint16_t);
}

uint64_t gpu_cache_bytes(const struct rf_cache *base, int32_t n)
{
    const struct gpu_cache *cache = (const struct gpu_cache *)base;
    return kind_bytes(cache, RF_KV_WHOLE, n) + kind_bytes(cache, RF_KV_WINDOW, n);
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

/* The planes of a kind's layers in a block that has p positions; returns the bytes in host memory.
 */
static size_t move_block(const struct rf_params *params, enum rf_kv_kind kind, uint16_t *block,
                         char *saved, size_t p, int is_load)
{
    size_t dim = (size_t)params->head_dim, keys = padded(p) * dim * sizeof(uint16_t),
           values = p * padded(dim) * sizeof(uint16_t), bytes = 0;
    for (size_t h = 0; h < n_heads(params); h++) {
        if (rf_kv_kind_of(params, (int32_t)h / params->n_head_kv) != kind) continue;
        uint16_t *plane = block + h * 2 * plane_elements(params);
        char *of_head = saved + bytes;
        if (!is_load) memset(of_head, 0, keys);
        move_plane(plane, of_head, p, dim, 1, is_load);
        move_plane(plane + plane_elements(params), of_head + keys, p, dim, 0, is_load);
        bytes += keys + values;
    }
    return bytes;
}

/* Copies the planes of a kind's layers, of layer_bytes each, between a group and host memory: each
 * run of such layers at once. Returns the place behind them in host memory. */
static char *move_layers(const struct gpu_cache *cache, enum rf_kv_kind kind, char *device,
                         size_t layer_bytes, char *saved, int is_load, cudaError_t *status)
{
    const struct rf_params *params = cache->base.shape.params;
    cudaStream_t stream = gpu_backend_of(cache->base.backend)->stream;
    for (int32_t i = 0, end; i < params->n_layer && *status == cudaSuccess; i = end) {
        int is_of_kind = rf_kv_kind_of(params, i) == kind;
        for (end = i + 1;
             end < params->n_layer && (rf_kv_kind_of(params, end) == kind) == is_of_kind;)
            end++;
        size_t bytes = (size_t)(end - i) * layer_bytes;
        char *place = device + (size_t)i * layer_bytes;
        if (!is_of_kind) continue;
        *status = is_load ? cudaMemcpyAsync(place, saved, bytes, cudaMemcpyHostToDevice, stream)
                          : cudaMemcpyAsync(saved, place, bytes, cudaMemcpyDeviceToHost, stream);
        saved += bytes;
    }
    return saved;
}

/* Copies a kind's groups to or from host memory; returns the place behind them. */
static char *move_groups(const struct gpu_cache *cache, enum rf_kv_kind kind,
                         const struct saved *parts, char *saved, int is_load, cudaError_t *status)
{
    const struct rf_params *params = cache->base.shape.params;
    size_t dim = padded((size_t)params->head_dim), heads = (size_t)params->n_head_kv,
           upper = heads * rf_kv_upper_bytes(dim),
           lower = cache->base.shape.kv == RF_KV_Q8 ? heads * rf_kv_lower_bytes(dim) : 0;
    for (size_t g = parts->first_group; g < parts->groups && *status == cudaSuccess; g++) {
        char *device = (char *)cache->groups[g]->data;
        saved = move_layers(cache, kind, device, upper, saved, is_load, status);
        device += (size_t)params->n_layer * upper;
        if (lower) saved = move_layers(cache, kind, device, lower, saved, is_load, status);
    }
    return saved;
}

static int move_positions(struct gpu_cache *cache, int32_t n, char *saved, int is_load,
                          struct rf_error *error)
{
    const struct rf_params *params = cache->base.shape.params;
    const struct gpu_backend *backend = gpu_backend_of(cache->base.backend);
    const char *what = is_load ? "loading a KV cache" : "saving a KV cache";
    size_t bytes = block_bytes(params), first = SIZE_MAX;
    struct saved parts[RF_KV_KINDS];
    char *at[RF_KV_KINDS];
    cudaError_t status = cudaSuccess;
    uint16_t *host = rf_calloc(backend->base.allocator, bytes, 1, "KV cache", error);
    if (!host) return RF_ERR_MEMORY;
    for (int k = 0; k < RF_KV_KINDS; k++) {
        enum rf_kv_kind kind = (enum rf_kv_kind)k;
        parts[k] = gpu_saved_parts(cache, kind, n);
        at[k] = move_groups(cache, kind, &parts[k], saved, is_load, &status);
        saved += kind_bytes(cache, kind, n);
        if (first > parts[k].first_block) first = parts[k].first_block;
    }
    int code = gpu_check(status, what, error);
    for (size_t c = first; !code && c < gpu_chunks(n); c++) {
        void *device = cache->blocks[c]->data;
        if (!is_load)
            status = cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, backend->stream);
        if (status == cudaSuccess) status = cudaStreamSynchronize(backend->stream);
        for (int k = 0; k < RF_KV_KINDS && status == cudaSuccess; k++)
            if (c >= parts[k].first_block)
                at[k] += move_block(params, (enum rf_kv_kind)k, host, at[k], positions_in(n, c),
                                    is_load);
        if (status == cudaSuccess && is_load)
            status = cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, backend->stream);
        code = gpu_check(status, what, error);
    }
    if (!code) code = gpu_check(cudaStreamSynchronize(backend->stream), what, error);
    rf_free(backend->base.allocator, host);
    return code;
}

int gpu_cache_save(struct rf_cache *base, int32_t n, void *out, struct rf_error *error)
{
    gpu_enter(base->backend);
    return move_positions((struct gpu_cache *)base, n, out, 0, error);
}

/* Clears the groups before n: masked scores must not meet what is no number where layers with a
 * window have nothing. Blocks are loaded with all layers. */
static int clear_groups(const struct gpu_cache *cache, size_t n, struct rf_error *error)
{
    cudaError_t status = cudaSuccess;
    for (size_t g = 0; g < n && status == cudaSuccess; g++)
        status = cudaMemsetAsync(cache->groups[g]->data, 0, gpu_group_bytes(&cache->base.shape),
                                 gpu_backend_of(cache->base.backend)->stream);
    return gpu_check(status, "loading a KV cache", error);
}

int gpu_cache_load(struct rf_cache *base, int32_t n, const void *in, struct rf_error *error)
{
    struct gpu_cache *cache = (struct gpu_cache *)base;
    int has_windows = rf_n_of_kind(base->shape.params, RF_KV_WINDOW) > 0;
    const struct saved parts = gpu_saved_parts(cache, RF_KV_WHOLE, n),
                       window = gpu_saved_parts(cache, RF_KV_WINDOW, n);
    gpu_enter(base->backend);
    cache->n_groups = 0;
    int code = gpu_own_blocks(cache, (int32_t)parts.first_block * RF_KV_POSITIONS, n, error);
    if (!code) code = gpu_own_groups(cache, parts.groups, error);
    if (!code) code = clear_groups(cache, has_windows ? window.first_group : 0, error);
    if (!code) code = move_positions(cache, n, (char *)(uintptr_t)in, 1, error);
    if (code) return code;
    cache->n_groups = parts.groups;
    cache->settled = n;
    cache->first_seen =
        has_windows ? rf_window_saved_from(base->shape.params, (size_t)n) * RF_KV_POSITIONS : 0;
    return 0;
}

static uint64_t block_share(const struct gpu_block *block, size_t bytes)
{
    return block ? bytes / (uint64_t)atomic_load(&block->holders) : 0;
}

uint64_t gpu_cache_held(const struct rf_cache *base)
{
    const struct gpu_cache *cache = (const struct gpu_cache *)base;
    uint64_t held = 0;
    for (size_t c = 0; c < gpu_chunks(base->shape.n_ctx); c++)
        held += block_share(cache->blocks[c], block_bytes(base->shape.params));
    for (size_t g = 0; cache->groups && g < (size_t)base->shape.n_ctx / RF_KV_GROUP; g++)
        held += block_share(cache->groups[g], gpu_group_bytes(&base->shape));
    return held;
}
