#include <string.h>

#include "infer/state_kept.h"
#include "infer/window_kept.h"
#include "support/plain.h"

static size_t chunks(int32_t positions)
{
    return ((size_t)positions + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS;
}

/* Floats of one position in one layer. */
static size_t entry_floats(const struct plain_cache *cache)
{
    const struct rf_params *params = cache->base.shape.params;
    size_t kv = (size_t)rf_most_head_kv(params) * 2 * (size_t)rf_most_head_dim(params),
           row = rf_n_states(params, params->n_layer) ? rf_state_row(params) : 0;
    if (row && params->delta_values) row += rf_state_matrices(params) + 1;
    return kv > row ? kv : row;
}

static size_t layer_floats(const struct plain_cache *cache)
{
    return RF_KV_POSITIONS * entry_floats(cache);
}

static size_t n_layer(const struct plain_cache *cache)
{
    return (size_t)cache->base.shape.params->n_layer;
}

float *plain_entry(const struct plain_cache *cache, size_t layer, int32_t pos)
{
    return cache->blocks[pos / RF_KV_POSITIONS]->data + layer * layer_floats(cache) +
           (size_t)(pos % RF_KV_POSITIONS) * entry_floats(cache);
}

static void release(const struct plain_cache *cache, struct block *block)
{
    if (!block || --block->holders > 0) return;
    plain_memory_give(plain_memory_of(cache->base.backend), block->data);
    rf_free(cache->base.backend->allocator, block);
}

/* Makes a block the cache's own, with what the first n positions of a shared one hold. */
static int own_block(struct plain_cache *cache, size_t c, size_t n, struct rf_error *error)
{
    const struct rf_backend *backend = cache->base.backend;
    struct block *old = cache->blocks[c];
    if (old && old->holders == 1) return 0;
    struct block *block = rf_calloc(backend->allocator, 1, sizeof *block, "KV cache", error);
    if (!block) return RF_ERR_MEMORY;
    block->holders = 1;
    block->data = plain_memory_take(plain_memory_of(backend), n_layer(cache) * layer_floats(cache),
                                    "KV cache", error);
    if (!block->data) {
        rf_free(backend->allocator, block);
        return RF_ERR_MEMORY;
    }
    for (size_t l = 0; old && l < n_layer(cache); l++)
        memcpy(block->data + l * layer_floats(cache), old->data + l * layer_floats(cache),
               n * entry_floats(cache) * sizeof(float));
    release(cache, old);
    cache->blocks[c] = block;
    return 0;
}

/* Makes the blocks of the positions [first, end) the cache's own. */
int plain_own_positions(struct plain_cache *cache, int32_t first, int32_t end,
                        struct rf_error *error)
{
    int code = 0;
    /* Whatever was loaded, it is written again. */
    if (first == 0) cache->first_row = cache->first_seen = 0;
    for (size_t c = (size_t)first / RF_KV_POSITIONS; !code && c < chunks(end); c++) {
        size_t start = c * RF_KV_POSITIONS;
        code = own_block(cache, c, (size_t)first > start ? (size_t)first - start : 0, error);
    }
    return code;
}

/* Overwrites the positions [first, end), which are undefined now. Shared blocks are not this
 * cache's to change. */
void plain_ruin_positions(struct plain_cache *cache, int32_t first, int32_t end)
{
    for (int32_t pos = first; pos < end && pos < cache->base.shape.n_ctx; pos++) {
        const struct block *block = cache->blocks[pos / RF_KV_POSITIONS];
        if (!block || block->holders > 1) continue;
        for (size_t l = 0; l < n_layer(cache); l++)
            plain_memory_ruin(plain_entry(cache, l, pos), entry_floats(cache));
    }
}

/* Begins a call on a cache, which waits for the pass that uses it. */
static void begin_call(struct plain_cache *cache)
{
    begin_work(cache->base.backend);
    plain_finish(cache->pending);
}

static void end_call(const struct plain_cache *cache)
{
    end_work(cache->base.backend);
}

static int cache_make(struct plain_cache **cache, struct rf_backend *backend,
                      const struct rf_cache_shape *shape, struct rf_error *error)
{
    struct plain_cache *made = rf_calloc(backend->allocator, 1, sizeof *made, "KV cache", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_cache){backend, *shape};
    made->blocks = rf_calloc(backend->allocator, chunks(shape->n_ctx), sizeof *made->blocks,
                             "KV cache", error);
    if (!made->blocks) {
        rf_free(backend->allocator, made);
        return RF_ERR_MEMORY;
    }
    *cache = made;
    return 0;
}

int plain_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                    const struct rf_cache_shape *shape, struct rf_error *error)
{
    struct plain_cache *made;
    *cache = NULL;
    int code = plain_fails("a KV cache", error);
    if (!code && rf_kv_is_quantised(shape->kv))
        code = rf_fail(error, RF_ERR_UNSUPPORTED, "the plain device quantises no KV cache");
    if (!code) code = cache_make(&made, backend, shape, error);
    if (!code) *cache = &made->base;
    return code;
}

static void trim(struct plain_cache *cache, int32_t n)
{
    for (size_t c = chunks(n); c < chunks(cache->base.shape.n_ctx); c++) {
        release(cache, cache->blocks[c]);
        cache->blocks[c] = NULL;
    }
}

void plain_cache_trim(struct rf_cache *base, int32_t n)
{
    struct plain_cache *cache = (struct plain_cache *)base;
    begin_call(cache);
    trim(cache, n);
    end_call(cache);
}

/* Nothing is given up. So a state is what the rows before a position are. */
void plain_cache_settle(struct rf_cache *base, int32_t n)
{
    (void)base;
    (void)n;
}

int32_t plain_cache_resume(const struct rf_cache *base, int32_t n)
{
    const struct plain_cache *cache = (const struct plain_cache *)base;
    const struct rf_params *params = base->shape.params;
    int32_t first = n - (params->conv_rows - 1);
    if (cache->first_seen && (int32_t)rf_window_from(params, (size_t)n) < cache->first_seen)
        return 0;
    return cache->first_row == 0 || first >= cache->first_row ? n : 0;
}

/* The matrices before the block of n - 1 are there: a cache lacks none but in its first block. */
int plain_cache_can_save(const struct rf_cache *base, int32_t n)
{
    (void)base;
    (void)n;
    return 1;
}

void plain_cache_free(struct rf_cache *base)
{
    if (!base) return;
    struct plain_cache *cache = (struct plain_cache *)base;
    plain_cache_trim(base, 0);
    rf_free(base->backend->allocator, cache->blocks);
    rf_free(base->backend->allocator, cache);
}

int plain_cache_fork(struct rf_cache **copy, struct rf_cache *base, int32_t n,
                     struct rf_error *error)
{
    struct plain_cache *cache = (struct plain_cache *)base, *made;
    *copy = NULL;
    int code = plain_fails("a fork", error);
    if (!code) code = cache_make(&made, base->backend, &base->shape, error);
    if (code) return code;
    made->first_row = n ? cache->first_row : 0;
    made->first_seen = n ? cache->first_seen : 0;
    begin_call(cache);
    for (size_t c = 0; c < chunks(n); c++) {
        made->blocks[c] = cache->blocks[c];
        made->blocks[c]->holders++;
    }
    end_call(cache);
    *copy = &made->base;
    return 0;
}

static int keep(struct plain_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                struct rf_error *error)
{
    int32_t end = n ? first_pos + path[n - 1] + 1 : first_pos;
    int code = plain_fails("keeping a path", error);
    for (size_t c = (size_t)first_pos / RF_KV_POSITIONS; !code && c < chunks(end); c++)
        code = own_block(cache, c, RF_KV_POSITIONS, error);
    for (int32_t i = 0; !code && i < n; i++)
        for (size_t l = 0; l < n_layer(cache); l++)
            memmove(plain_entry(cache, l, first_pos + i),
                    plain_entry(cache, l, first_pos + path[i]),
                    entry_floats(cache) * sizeof(float));
    plain_ruin_positions(cache, code ? first_pos : first_pos + n, end + RF_TREE_ROWS);
    return code;
}

int plain_cache_keep(struct rf_cache *base, int32_t first_pos, const int32_t *path, int32_t n,
                     struct rf_error *error)
{
    struct plain_cache *cache = (struct plain_cache *)base;
    begin_call(cache);
    int code = keep(cache, first_pos, path, n, error);
    end_call(cache);
    return code;
}

/* ---- caches in host memory ---- */

enum {
    PIECE = 16
}; /* positions of a key that lie side by side; heads of values are padded to it
    */

static size_t padded(size_t n)
{
    return (n + PIECE - 1) / PIECE * PIECE;
}

/* The number of the n positions that are in a chunk. */
static size_t positions_in(int32_t n, size_t chunk)
{
    size_t left = (size_t)n - chunk * RF_KV_POSITIONS;
    return left < RF_KV_POSITIONS ? left : RF_KV_POSITIONS;
}

/* The first block that a layer has in host memory. */
static size_t saved_from(const struct rf_params *params, int32_t layer, int32_t n)
{
    return rf_kv_kind_of(params, layer) == RF_KV_WINDOW ? rf_window_saved_from(params, (size_t)n)
                                                        : 0;
}

uint64_t plain_cache_bytes(const struct rf_cache *base, int32_t n)
{
    const struct rf_params *params = base->shape.params;
    size_t elements = 0;
    for (int32_t i = 0; i < params->n_layer; i++) {
        size_t dim = (size_t)rf_head_dim(params, i), heads = (size_t)rf_n_head_kv(params, i);
        for (size_t c = saved_from(params, i, n); rf_has_keys(params, i) && c < chunks(n); c++) {
            size_t p = positions_in(n, c);
            elements += heads * (padded(p) * dim + p * padded(dim));
        }
    }
    return (uint64_t)elements * sizeof(uint16_t) +
           (uint64_t)rf_n_states(params, params->n_layer) *
               (rf_states_saved_floats(params, n) + (n ? rf_state_matrices(params) : 0)) *
               sizeof(float);
}

static uint16_t to_half(const struct plain_cache *cache, float x)
{
    return cache->base.shape.kv == RF_KV_F16 ? rf_f32_to_f16(x) : rf_f32_to_bf16(x);
}

static float from_half(const struct plain_cache *cache, uint16_t half)
{
    return cache->base.shape.kv == RF_KV_F16 ? rf_f16_to_f32(half) : rf_bf16_to_f32(half);
}

float plain_round_entry(const struct plain_cache *cache, float x)
{
    return from_half(cache, to_half(cache, x));
}

/* Calls `move` for each element of the first n positions with its place in host memory. */
typedef void move_fn(const struct plain_cache *cache, float *value, uint16_t *half);

/* One layer's head over the first `count` positions of a chunk. Returns the place behind it. */
static uint16_t *each_of_head(const struct plain_cache *cache, int32_t layer, size_t head, size_t c,
                              size_t count, uint16_t *k, move_fn *move)
{
    size_t dim = (size_t)rf_head_dim(cache->base.shape.params, layer);
    uint16_t *v = k + padded(count) * dim;
    for (size_t p = 0; p < count; p++) {
        float *entry =
            plain_entry(cache, (size_t)layer, (int32_t)(c * RF_KV_POSITIONS + p)) + head * 2 * dim;
        for (size_t j = 0; j < dim; j++) {
            move(cache, entry + j, k + (p / PIECE * dim + j) * PIECE + p % PIECE);
            move(cache, entry + dim + j, v + p * padded(dim) + j);
        }
    }
    return v + count * padded(dim);
}

static uint16_t *each_of_kind(const struct plain_cache *cache, enum rf_kv_kind kind, int32_t n,
                              uint16_t *host, move_fn *move)
{
    const struct rf_params *params = cache->base.shape.params;
    for (size_t c = 0; c < chunks(n); c++)
        for (int32_t i = 0; i < params->n_layer; i++) {
            if (!rf_has_keys(params, i) || rf_kv_kind_of(params, i) != kind) continue;
            for (size_t h = 0; c >= saved_from(params, i, n) && h < (size_t)rf_n_head_kv(params, i);
                 h++)
                host = each_of_head(cache, i, h, c, positions_in(n, c), host, move);
        }
    return host;
}

/* Returns the place behind the last. */
static void *each_element(const struct plain_cache *cache, int32_t n, uint16_t *host, move_fn *move)
{
    host = each_of_kind(cache, RF_KV_WHOLE, n, host, move);
    return each_of_kind(cache, RF_KV_WINDOW, n, host, move);
}

float *plain_matrices(const struct plain_cache *cache, int32_t layer, int32_t pos)
{
    return plain_entry(cache, (size_t)layer, pos) + rf_state_row(cache->base.shape.params);
}

float *plain_matrices_mark(const struct plain_cache *cache, int32_t layer, int32_t pos)
{
    return plain_matrices(cache, layer, pos) + rf_state_matrices(cache->base.shape.params);
}

/* Copies the matrices before the block of n - 1, which are zeros before the text. Those behind them
 * are computed when a pass needs them. */
static void move_matrices(struct plain_cache *cache, int32_t n, char *host, int is_load)
{
    const struct rf_params *params = cache->base.shape.params;
    size_t bytes = rf_state_matrices(params) * sizeof(float);
    int32_t before = n ? (n - 1) / RF_STATE_POSITIONS * RF_STATE_POSITIONS - 1 : -1;
    for (int32_t l = 0; before >= 0 && l < params->n_layer; l++) {
        if (!rf_has_matrices(params, l)) continue;
        float *matrices = plain_matrices(cache, l, before);
        memcpy(is_load ? (void *)matrices : host, is_load ? (void *)host : matrices, bytes);
        if (is_load) *plain_matrices_mark(cache, l, before) = 1;
        host += bytes;
    }
}

/* Copies the rows of layers with states to or from host memory, where those before the text are
 * zeros. */
static void move_rows(struct plain_cache *cache, int32_t n, char *host, int is_load)
{
    const struct rf_params *params = cache->base.shape.params;
    size_t bytes = rf_state_row(params) * sizeof(float);
    int32_t first = rf_states_saved_from(params, n);
    for (int32_t l = 0; l < params->n_layer; l++)
        for (int32_t p = first; rf_has_state(params, l) && p < n; p++, host += bytes) {
            float *row = p < 0 ? NULL : plain_entry(cache, (size_t)l, p);
            if (row) memcpy(is_load ? (void *)row : host, is_load ? (void *)host : row, bytes);
            if (row && is_load && params->delta_values) *plain_matrices_mark(cache, l, p) = 0;
        }
    move_matrices(cache, n, host, is_load);
    if (is_load && first > 0) cache->first_row = first;
    if (is_load && rf_n_of_kind(params, RF_KV_WINDOW))
        cache->first_seen = (int32_t)rf_window_saved_from(params, (size_t)n) * RF_KV_POSITIONS;
}

static void move_out(const struct plain_cache *cache, float *value, uint16_t *half)
{
    *half = to_half(cache, *value);
}

static void move_in(const struct plain_cache *cache, float *value, uint16_t *half)
{
    uint16_t bits;
    memcpy(&bits, half, sizeof bits); /* a file's bytes are not aligned */
    *value = from_half(cache, bits);
}

int plain_cache_save(struct rf_cache *base, int32_t n, void *out, struct rf_error *error)
{
    struct plain_cache *cache = (struct plain_cache *)base;
    int code = plain_fails("saving", error);
    if (code) return code;
    begin_call(cache);
    memset(out, 0, (size_t)plain_cache_bytes(base, n));
    move_rows(cache, n, each_element(cache, n, out, move_out), 0);
    end_call(cache);
    return 0;
}

int plain_cache_load(struct rf_cache *base, int32_t n, const void *in, struct rf_error *error)
{
    struct plain_cache *cache = (struct plain_cache *)base;
    begin_call(cache);
    int code = plain_own_positions(cache, 0, n, error);
    if (!code) code = plain_fails("loading", error);
    if (!code) move_rows(cache, n, each_element(cache, n, (uint16_t *)in, move_in), 1);
    end_call(cache);
    return code;
}

uint64_t plain_cache_held(const struct rf_cache *base)
{
    const struct plain_cache *cache = (const struct plain_cache *)base;
    uint64_t held = 0, bytes = n_layer(cache) * layer_floats(cache) * sizeof(float);
    for (int32_t c = 0; c * RF_KV_POSITIONS < base->shape.n_ctx; c++)
        if (cache->blocks[c]) held += bytes / (uint64_t)cache->blocks[c]->holders;
    return held;
}
