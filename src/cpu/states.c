/* The states of layers with a convolution, beside the keys and values of a cache: which of them are
 * kept (infer/state_kept.h), and the rows in them. A block's beginning and log may be held by
 * several caches, but are written only by a cache that holds them alone. cache.c calls it, and
 * convolution.c for the rows.
 *
 * The invariant: for the text up to a position n that a pass may begin at, the beginning of the
 * block of n has the last rows before the block, and its log all rows from there to n. */
#include <assert.h>
#include <string.h>

#include "cpu/cpu.h"
#include "infer/state_kept.h"

static const struct rf_params *states_params(const struct cpu_cache *cache)
{
    return cache->base.shape.params;
}

static const struct rf_allocator *states_allocator(const struct cpu_cache *cache)
{
    return cache->base.backend->allocator;
}

static size_t n_conv(const struct cpu_cache *cache)
{
    return (size_t)rf_n_conv(states_params(cache), states_params(cache)->n_layer);
}

static size_t conv_width(const struct cpu_cache *cache)
{
    return (size_t)states_params(cache)->n_embd;
}

/* Rows before a block that its first row reads. */
static size_t rows_before(const struct cpu_cache *cache)
{
    return (size_t)states_params(cache)->conv_rows - 1;
}

int rf_cpu_states_new(struct cpu_cache *cache, struct rf_error *error)
{
    struct cpu_states *states = &cache->states;
    if (!n_conv(cache)) return 0;
    states->n_blocks = (size_t)cache->base.shape.n_ctx / RF_STATE_POSITIONS + 1;
    states->begin_floats = rows_before(cache) * conv_width(cache);
    states->log_floats = RF_STATE_POSITIONS * conv_width(cache);
    states->begins = rf_calloc(states_allocator(cache), 2 * states->n_blocks,
                               sizeof *states->begins, "KV cache", error);
    if (!states->begins) return RF_ERR_MEMORY;
    states->logs = states->begins + states->n_blocks;
    return 0;
}

static void release_state(const struct cpu_cache *cache, struct cpu_block **at)
{
    rf_cpu_block_drop(states_allocator(cache), *at);
    *at = NULL;
}

void rf_cpu_states_free(struct cpu_cache *cache)
{
    struct cpu_states *states = &cache->states;
    for (size_t b = 0; states->begins && b < 2 * states->n_blocks; b++)
        release_state(cache, &states->begins[b]);
    rf_free(states_allocator(cache), states->begins);
}

void rf_cpu_states_fork(struct cpu_cache *made, const struct cpu_cache *cache, size_t n)
{
    for (size_t b = 0; b < cache->states.n_blocks && b * RF_STATE_POSITIONS <= n; b++) {
        made->states.begins[b] = rf_cpu_block_hold(cache->states.begins[b]);
        if (b * RF_STATE_POSITIONS < n)
            made->states.logs[b] = rf_cpu_block_hold(cache->states.logs[b]);
    }
}

void rf_cpu_states_trim(struct cpu_cache *cache, size_t n)
{
    struct cpu_states *states = &cache->states;
    for (size_t b = n / RF_STATE_POSITIONS; b < states->n_blocks; b++) {
        if (b * RF_STATE_POSITIONS > n) release_state(cache, &states->begins[b]);
        if (b * RF_STATE_POSITIONS >= n) release_state(cache, &states->logs[b]);
    }
}

void rf_cpu_states_settle(struct cpu_cache *cache, size_t n)
{
    struct cpu_states *states = &cache->states;
    for (; states->settled < states->n_blocks && !rf_states_has_log(states->settled, n);
         states->settled++) {
        release_state(cache, &states->logs[states->settled]);
        if (!rf_states_has_begin(states->settled, n))
            release_state(cache, &states->begins[states->settled]);
    }
}

/* Whether a pass may begin at a position. */
static int has_state(const void *user, size_t position)
{
    const struct cpu_states *states = &((const struct cpu_cache *)user)->states;
    size_t block = position / RF_STATE_POSITIONS;
    return (block == 0 || states->begins[block]) &&
           (position % RF_STATE_POSITIONS == 0 || states->logs[block]);
}

int32_t rf_cpu_states_resume(const struct cpu_cache *cache, int32_t n)
{
    return cache->states.n_blocks ? rf_states_resume(n, has_state, cache) : n;
}

/* ---- a pass ---- */

/* Makes a block the cache's own, of `floats` for each layer. Its content is undefined where it is
 * not `old`; *old must be dropped then. */
static int own_state(struct cpu_cache *cache, struct cpu_block **at, size_t floats,
                     struct cpu_block **old, struct rf_error *error)
{
    *old = *at;
    if (*at && atomic_load(&(*at)->holders) == 1) return 0;
    struct cpu_block *made =
        rf_cpu_block_new(states_allocator(cache), n_conv(cache) * floats, sizeof(float), error);
    if (!made) return RF_ERR_MEMORY;
    *at = made;
    return 0;
}

/* Makes a log the cache's own with its first `rows` rows. */
static int own_log(struct cpu_cache *cache, size_t block, size_t rows, struct rf_error *error)
{
    struct cpu_block **at = &cache->states.logs[block], *old;
    size_t floats = cache->states.log_floats;
    int code = own_state(cache, at, floats, &old, error);
    if (code || *at == old) return code;
    assert(old || rows == 0);
    for (size_t l = 0; rows && l < n_conv(cache); l++)
        memcpy((float *)(*at)->data + l * floats, (const float *)old->data + l * floats,
               rows * conv_width(cache) * sizeof(float));
    rf_cpu_block_drop(states_allocator(cache), old);
    return 0;
}

static int own_begin(struct cpu_cache *cache, size_t block, struct rf_error *error)
{
    struct cpu_block **at = &cache->states.begins[block], *old;
    int code = own_state(cache, at, cache->states.begin_floats, &old, error);
    if (!code && *at != old) rf_cpu_block_drop(states_allocator(cache), old);
    return code;
}

int rf_cpu_states_prepare(struct cpu_cache *cache, size_t first, size_t n, struct rf_error *error)
{
    struct cpu_states *states = &cache->states;
    size_t own = first / RF_STATE_POSITIONS, end = first + n;
    if (!states->n_blocks) return 0;
    assert(has_state(cache, first));
    if (states->settled > own) states->settled = own;
    int code = own_log(cache, own, first % RF_STATE_POSITIONS, error);
    for (size_t b = own + 1; !code && b <= end / RF_STATE_POSITIONS; b++) {
        if (rf_states_has_begin(b, end))
            code = own_begin(cache, b, error);
        else
            release_state(cache, &states->begins[b]);
        if (!code && rf_states_has_log(b, end) && b * RF_STATE_POSITIONS < end)
            code = own_log(cache, b, 0, error);
        else
            release_state(cache, &states->logs[b]);
    }
    return code;
}

float *rf_cpu_states_begin(const struct cpu_cache *cache, int32_t layer, size_t block)
{
    const struct cpu_block *begin = cache->states.begins[block];
    return begin ? (float *)begin->data + (size_t)cache->places[layer] * cache->states.begin_floats
                 : NULL;
}

float *rf_cpu_states_log(const struct cpu_cache *cache, int32_t layer, size_t position)
{
    const struct cpu_block *log = cache->states.logs[position / RF_STATE_POSITIONS];
    if (!log) return NULL;
    return (float *)log->data + (size_t)cache->places[layer] * cache->states.log_floats +
           position % RF_STATE_POSITIONS * conv_width(cache);
}

const float *rf_cpu_states_row(const struct cpu_cache *cache, int32_t layer, size_t first,
                               int64_t position)
{
    size_t block = first / RF_STATE_POSITIONS;
    int64_t in_block = position - (int64_t)(block * RF_STATE_POSITIONS);
    if (position < 0) return NULL;
    if (in_block >= 0) return rf_cpu_states_log(cache, layer, (size_t)position);
    return rf_cpu_states_begin(cache, layer, block) +
           (size_t)(in_block + (int64_t)rows_before(cache)) * conv_width(cache);
}

/* Writes the rows before a block from the log of the block before it. */
static void begin_from_log(const struct cpu_cache *cache, int32_t layer, size_t block)
{
    float *begin = rf_cpu_states_begin(cache, layer, block);
    size_t n = rows_before(cache);
    if (begin)
        memcpy(begin, rf_cpu_states_log(cache, layer, block * RF_STATE_POSITIONS - n),
               cache->states.begin_floats * sizeof *begin);
}

void rf_cpu_states_keep(struct cpu_cache *cache, size_t first_pos, const int32_t *path, size_t n)
{
    const struct rf_params *params = states_params(cache);
    for (int32_t layer = 0; cache->states.n_blocks && layer < params->n_layer; layer++) {
        if (!rf_is_conv(params, layer)) continue;
        for (size_t i = 0; i < n; i++) {
            float *to = rf_cpu_states_log(cache, layer, first_pos + i);
            if ((size_t)path[i] != i)
                memcpy(to, rf_cpu_states_log(cache, layer, first_pos + (size_t)path[i]),
                       conv_width(cache) * sizeof *to);
            if ((first_pos + i + 1) % RF_STATE_POSITIONS == 0)
                begin_from_log(cache, layer, (first_pos + i + 1) / RF_STATE_POSITIONS);
        }
    }
}

/* ---- in host memory ---- */

uint64_t rf_cpu_states_size(const struct cpu_cache *cache, int32_t n)
{
    if (!cache->states.n_blocks) return 0;
    return (uint64_t)n_conv(cache) * rf_states_saved_floats(states_params(cache), n) *
           sizeof(float);
}

void rf_cpu_states_save(const struct cpu_cache *cache, int32_t n, void *out)
{
    const struct rf_params *params = states_params(cache);
    size_t row_bytes = conv_width(cache) * sizeof(float);
    char *to = out;
    for (int32_t layer = 0; cache->states.n_blocks && layer < params->n_layer; layer++) {
        if (!rf_is_conv(params, layer)) continue;
        for (int32_t p = rf_states_saved_from(params, n); p < n; p++, to += row_bytes) {
            const float *row = rf_cpu_states_row(cache, layer, (size_t)n - 1, p);
            if (row)
                memcpy(to, row, row_bytes);
            else
                memset(to, 0, row_bytes);
        }
    }
}

int rf_cpu_states_load(struct cpu_cache *cache, int32_t n, const void *in, struct rf_error *error)
{
    const struct rf_params *params = states_params(cache);
    if (!cache->states.n_blocks || n == 0) return 0;
    size_t block = ((size_t)n - 1) / RF_STATE_POSITIONS, next = (size_t)n / RF_STATE_POSITIONS,
           begin_bytes = cache->states.begin_floats * sizeof(float),
           log_bytes = ((size_t)n - block * RF_STATE_POSITIONS) * conv_width(cache) * sizeof(float);
    int code = own_log(cache, block, 0, error);
    if (!code && block > 0) code = own_begin(cache, block, error);
    if (!code && next > block) code = own_begin(cache, next, error);
    const char *from = in;
    for (int32_t layer = 0; !code && layer < params->n_layer; layer++) {
        if (!rf_is_conv(params, layer)) continue;
        if (block > 0) memcpy(rf_cpu_states_begin(cache, layer, block), from, begin_bytes);
        memcpy(rf_cpu_states_log(cache, layer, block * RF_STATE_POSITIONS), from + begin_bytes,
               log_bytes);
        if (next > block) begin_from_log(cache, layer, next);
        from += begin_bytes + log_bytes;
    }
    return code;
}

uint64_t rf_cpu_states_held(const struct cpu_cache *cache)
{
    const struct cpu_states *states = &cache->states;
    size_t begin = n_conv(cache) * states->begin_floats * sizeof(float),
           log = n_conv(cache) * states->log_floats * sizeof(float);
    uint64_t held = 0;
    for (size_t b = 0; b < states->n_blocks; b++)
        held +=
            rf_cpu_block_share(states->begins[b], begin) + rf_cpu_block_share(states->logs[b], log);
    return held;
}
