/* The states of layers that have one, beside the keys and values of a cache: which of them are kept
 * (infer/state_kept.h), and the rows and matrices in them. A block's beginning and log may be held
 * by several caches, but are written only by a cache that holds them alone. cache.c calls it, and
 * convolution.c and delta.c for what is in them.
 *
 * The invariant: for the text up to a position n that a pass may begin at, the beginning of the
 * block of n has the last rows before the block, and its log all rows from there to n. With the
 * delta rule logs have all rows from some matrices on, a beginning's or the copy's that moves. */
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

static size_t n_states(const struct cpu_cache *cache)
{
    return (size_t)rf_n_states(states_params(cache), states_params(cache)->n_layer);
}

static size_t row_floats(const struct cpu_cache *cache)
{
    return rf_state_row(states_params(cache));
}

/* Rows before a block that its first row reads. */
static size_t rows_before(const struct cpu_cache *cache)
{
    return (size_t)states_params(cache)->conv_rows - 1;
}

static size_t matrix_floats(const struct cpu_cache *cache)
{
    return rf_state_matrices(states_params(cache));
}

int rf_cpu_states_new(struct cpu_cache *cache, struct rf_error *error)
{
    struct cpu_states *states = &cache->states;
    if (!n_states(cache)) return 0;
    states->n_blocks = (size_t)cache->base.shape.n_ctx / RF_STATE_POSITIONS + 1;
    states->begin_floats = rows_before(cache) * row_floats(cache) + matrix_floats(cache);
    states->log_floats = RF_STATE_POSITIONS * row_floats(cache);
    states->begins = rf_calloc(states_allocator(cache), 2 * states->n_blocks,
                               sizeof *states->begins, "KV cache", error);
    if (!states->begins) return RF_ERR_MEMORY;
    states->logs = states->begins + states->n_blocks;
    states->is_whole = rf_calloc(states_allocator(cache), states->n_blocks, 1, "KV cache", error);
    return states->is_whole ? 0 : RF_ERR_MEMORY;
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
    for (int m = 0; m < 2; m++) release_state(cache, &states->moving[m].block);
    release_state(cache, &states->held);
    rf_free(states_allocator(cache), states->begins);
    rf_free(states_allocator(cache), states->is_whole);
}

void rf_cpu_states_fork(struct cpu_cache *made, const struct cpu_cache *cache, size_t n)
{
    for (size_t b = 0; b < cache->states.n_blocks && b * RF_STATE_POSITIONS <= n; b++) {
        made->states.begins[b] = rf_cpu_block_hold(cache->states.begins[b]);
        made->states.is_whole[b] = cache->states.is_whole[b];
        if (b * RF_STATE_POSITIONS < n)
            made->states.logs[b] = rf_cpu_block_hold(cache->states.logs[b]);
    }
    made->states.judged = cache->states.judged < n ? cache->states.judged : n;
    for (int m = 0; m < 2; m++) {
        if (cache->states.moving[m].at > n) continue;
        made->states.moving[m].block = rf_cpu_block_hold(cache->states.moving[m].block);
        made->states.moving[m].at = cache->states.moving[m].at;
    }
}

/* Gives up copies of positions behind n, whose text is not this one any more. */
static void cut_moving(struct cpu_cache *cache, size_t n)
{
    struct cpu_states *states = &cache->states;
    if (states->judged > n) states->judged = n;
    for (int m = 0; m < 2; m++)
        if (states->moving[m].at > n) release_state(cache, &states->moving[m].block);
}

void rf_cpu_states_trim(struct cpu_cache *cache, size_t n)
{
    struct cpu_states *states = &cache->states;
    cut_moving(cache, n);
    for (size_t b = n / RF_STATE_POSITIONS; b < states->n_blocks; b++) {
        if (b * RF_STATE_POSITIONS > n) release_state(cache, &states->begins[b]);
        if (b * RF_STATE_POSITIONS >= n) release_state(cache, &states->logs[b]);
    }
}

void rf_cpu_states_settle(struct cpu_cache *cache, size_t n)
{
    struct cpu_states *states = &cache->states;
    states->judged = n;
    for (; states->settled < states->n_blocks && !rf_states_has_log(states->settled, n);
         states->settled++) {
        release_state(cache, &states->logs[states->settled]);
        if (!rf_states_has_begin(states_params(cache), states->settled, n))
            release_state(cache, &states->begins[states->settled]);
    }
}

/* The copy at p or the nearest before it within a block, of those whose matrices are there. */
static const struct cpu_state_copy *find_moving(const struct cpu_states *states, size_t block,
                                                size_t p)
{
    const struct cpu_state_copy *found = NULL;
    for (const struct cpu_state_copy *copy = states->moving; copy < states->moving + 2; copy++)
        if (copy->block && copy->at <= p && copy->at / RF_STATE_POSITIONS == block &&
            (!found || copy->at > found->at))
            found = copy;
    return found;
}

/* Matrices at position p or before it, as near as can be, with a log of all rows from there to p.
 * 0: there are none. */
static int find_base(const struct cpu_cache *cache, size_t p, struct cpu_state_base *base)
{
    const struct cpu_states *states = &cache->states;
    for (size_t b = p / RF_STATE_POSITIONS;; b--) {
        int has_log = p <= b * RF_STATE_POSITIONS || states->logs[b] != NULL;
        const struct cpu_state_copy *copy = has_log ? find_moving(states, b, p) : NULL;
        if (copy) {
            *base = (struct cpu_state_base){copy->block, copy->at, 0, matrix_floats(cache)};
            return 1;
        }
        if (!has_log) return 0;
        if (b == 0 || (states->begins[b] && states->is_whole[b])) {
            *base = (struct cpu_state_base){states->begins[b], b * RF_STATE_POSITIONS,
                                            states->begin_floats - matrix_floats(cache),
                                            states->begin_floats};
            return 1;
        }
        if (b == 0) return 0;
    }
}

/* Whether a pass may begin at a position. */
static int has_state(const void *user, size_t position)
{
    const struct cpu_states *states = &((const struct cpu_cache *)user)->states;
    size_t block = position / RF_STATE_POSITIONS;
    struct cpu_state_base base;
    if (matrix_floats(user)) return find_base(user, position, &base);
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
        rf_cpu_block_new(states_allocator(cache), n_states(cache) * floats, sizeof(float), error);
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
    for (size_t l = 0; rows && l < n_states(cache); l++)
        memcpy((float *)(*at)->data + l * floats, (const float *)old->data + l * floats,
               rows * row_floats(cache) * sizeof(float));
    rf_cpu_block_drop(states_allocator(cache), old);
    return 0;
}

static int own_begin(struct cpu_cache *cache, size_t block, struct rf_error *error)
{
    struct cpu_block **at = &cache->states.begins[block], *old;
    cache->states.is_whole[block] = 0;
    int code = own_state(cache, at, cache->states.begin_floats, &old, error);
    if (!code && *at != old) rf_cpu_block_drop(states_allocator(cache), old);
    return code;
}

/* Gives a copy that moves a block of the cache's own, from which the pass may read its base. */
static int own_moving(struct cpu_cache *cache, struct cpu_state_copy *copy, struct rf_error *error)
{
    struct cpu_block *old;
    int code = own_state(cache, &copy->block, matrix_floats(cache), &old, error);
    if (!code && copy->block != old) rf_cpu_block_drop(states_allocator(cache), old);
    return code;
}

/* The pass's base, and what a replay from there to `first` writes. Until the pass has succeeded,
 * the copy that it moves is of no position. The next pass of drafts begins behind `first`, the
 * judge's next one perhaps at `first`: so passes that read drafts leave the other copy alone. */
static int base_prepare(struct cpu_cache *cache, size_t first, struct rf_error *error)
{
    struct cpu_states *states = &cache->states;
    int code = 0;
    struct cpu_state_copy *copy = &states->moving[first > states->judged];
    release_state(cache, &states->held);
    cut_moving(cache, first);
    int found = find_base(cache, first, &states->base);
    assert(found);
    (void)found;
    states->moved = states->base.at < first ? copy : NULL;
    if (!states->moved) return 0;
    size_t b = states->base.at / RF_STATE_POSITIONS + 1;
    for (; !code && b <= first / RF_STATE_POSITIONS; b++)
        if (states->begins[b]) code = own_begin(cache, b, error);
    int in_place = states->base.block == copy->block;
    int is_own = copy->block && atomic_load(&copy->block->holders) == 1;
    if (in_place && !is_own) states->held = rf_cpu_block_hold(copy->block);
    if (!code) code = own_moving(cache, copy, error);
    copy->at = SIZE_MAX;
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
    if (!code && matrix_floats(cache)) code = base_prepare(cache, first, error);
    for (size_t b = own + 1; !code && b <= end / RF_STATE_POSITIONS; b++) {
        if (rf_states_has_begin(states_params(cache), b, end))
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

void rf_cpu_states_done(struct cpu_cache *cache, size_t first, size_t n, int is_chain)
{
    struct cpu_states *states = &cache->states;
    if (!states->n_blocks || !matrix_floats(cache)) return;
    release_state(cache, &states->held);
    if (states->moved) states->moved->at = first;
    size_t end = is_chain ? first + n : first;
    for (size_t b = states->base.at / RF_STATE_POSITIONS + 1; b <= end / RF_STATE_POSITIONS; b++)
        states->is_whole[b] = states->begins[b] != NULL;
}

const float *rf_cpu_states_base(const struct cpu_cache *cache, int32_t layer)
{
    const struct cpu_state_base *base = &cache->states.base;
    return base->block ? (const float *)base->block->data + base->first +
                             (size_t)cache->places[layer] * base->stride
                       : NULL;
}

float *rf_cpu_states_moved(const struct cpu_cache *cache, int32_t layer)
{
    const struct cpu_state_copy *moved = cache->states.moved;
    return moved ? (float *)moved->block->data + (size_t)cache->places[layer] * matrix_floats(cache)
                 : NULL;
}

float *rf_cpu_states_matrices(const struct cpu_cache *cache, int32_t layer, size_t block)
{
    float *begin = rf_cpu_states_begin(cache, layer, block);
    return begin ? begin + rows_before(cache) * row_floats(cache) : NULL;
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
           position % RF_STATE_POSITIONS * row_floats(cache);
}

const float *rf_cpu_states_row(const struct cpu_cache *cache, int32_t layer, size_t first,
                               int64_t position)
{
    size_t block = first / RF_STATE_POSITIONS;
    int64_t in_block = position - (int64_t)(block * RF_STATE_POSITIONS);
    if (position < 0) return NULL;
    if (in_block >= 0) return rf_cpu_states_log(cache, layer, (size_t)position);
    return rf_cpu_states_begin(cache, layer, block) +
           (size_t)(in_block + (int64_t)rows_before(cache)) * row_floats(cache);
}

void rf_cpu_states_begin_rows(const struct cpu_cache *cache, int32_t layer, size_t block,
                              const float *const *rows)
{
    float *begin = rf_cpu_states_begin(cache, layer, block);
    const struct rf_params *params = states_params(cache);
    size_t n = rows_before(cache), floats = row_floats(cache),
           read = params->delta_values ? (size_t)rf_delta_mixed(params) : floats;
    for (size_t k = 0; begin && k < n; k++) {
        float *to = begin + (n - 1 - k) * floats;
        memcpy(to, rows[k], read * sizeof *to);
        memset(to + read, 0, (floats - read) * sizeof *to); /* no row reads it */
    }
}

/* Writes the rows before a block from the log of the block before it. */
static void begin_from_log(const struct cpu_cache *cache, int32_t layer, size_t block)
{
    const float *rows[RF_MAX_CONV_ROWS];
    for (size_t k = 0; k < rows_before(cache); k++)
        rows[k] = rf_cpu_states_log(cache, layer, block * RF_STATE_POSITIONS - 1 - k);
    rf_cpu_states_begin_rows(cache, layer, block, rows);
}

void rf_cpu_states_keep(struct cpu_cache *cache, size_t first_pos, const int32_t *path, size_t n)
{
    const struct rf_params *params = states_params(cache);
    for (int32_t layer = 0; cache->states.n_blocks && layer < params->n_layer; layer++) {
        if (!rf_has_state(params, layer)) continue;
        for (size_t i = 0; i < n; i++) {
            float *to = rf_cpu_states_log(cache, layer, first_pos + i);
            if ((size_t)path[i] != i)
                memcpy(to, rf_cpu_states_log(cache, layer, first_pos + (size_t)path[i]),
                       row_floats(cache) * sizeof *to);
            if ((first_pos + i + 1) % RF_STATE_POSITIONS == 0)
                begin_from_log(cache, layer, (first_pos + i + 1) / RF_STATE_POSITIONS);
        }
    }
}

/* ---- in host memory ---- */

int rf_cpu_states_can_save(const struct cpu_cache *cache, int32_t n)
{
    size_t block = n ? ((size_t)n - 1) / RF_STATE_POSITIONS : 0;
    return !cache->states.n_blocks || !matrix_floats(cache) || block == 0 ||
           (cache->states.begins[block] && cache->states.is_whole[block]);
}

uint64_t rf_cpu_states_size(const struct cpu_cache *cache, int32_t n)
{
    if (!cache->states.n_blocks || n == 0) return 0;
    return (uint64_t)n_states(cache) * sizeof(float) *
           (rf_states_saved_floats(states_params(cache), n) + matrix_floats(cache));
}

void rf_cpu_states_save(const struct cpu_cache *cache, int32_t n, void *out)
{
    const struct rf_params *params = states_params(cache);
    size_t row_bytes = row_floats(cache) * sizeof(float);
    char *to = out;
    for (int32_t layer = 0; cache->states.n_blocks && layer < params->n_layer; layer++) {
        if (!rf_has_state(params, layer)) continue;
        for (int32_t p = rf_states_saved_from(params, n); p < n; p++, to += row_bytes) {
            const float *row = rf_cpu_states_row(cache, layer, (size_t)n - 1, p);
            if (row)
                memcpy(to, row, row_bytes);
            else
                memset(to, 0, row_bytes);
        }
    }
    size_t bytes = matrix_floats(cache) * sizeof(float);
    for (int32_t layer = 0; cache->states.n_blocks && n && layer < params->n_layer; layer++) {
        if (!rf_has_matrices(params, layer)) continue;
        const float *matrices =
            rf_cpu_states_matrices(cache, layer, ((size_t)n - 1) / RF_STATE_POSITIONS);
        if (matrices)
            memcpy(to, matrices, bytes);
        else
            memset(to, 0, bytes);
        to += bytes;
    }
}

int rf_cpu_states_load(struct cpu_cache *cache, int32_t n, const void *in, struct rf_error *error)
{
    const struct rf_params *params = states_params(cache);
    if (!cache->states.n_blocks || n == 0) return 0;
    cut_moving(cache, 0);
    cache->states.judged = (size_t)n;
    size_t block = ((size_t)n - 1) / RF_STATE_POSITIONS, next = (size_t)n / RF_STATE_POSITIONS,
           begin_bytes = rows_before(cache) * row_floats(cache) * sizeof(float),
           log_bytes = ((size_t)n - block * RF_STATE_POSITIONS) * row_floats(cache) * sizeof(float);
    int code = own_log(cache, block, 0, error);
    if (!code && block > 0) code = own_begin(cache, block, error);
    if (!code && next > block) code = own_begin(cache, next, error);
    const char *from = in;
    for (int32_t layer = 0; !code && layer < params->n_layer; layer++) {
        if (!rf_has_state(params, layer)) continue;
        if (block > 0) memcpy(rf_cpu_states_begin(cache, layer, block), from, begin_bytes);
        memcpy(rf_cpu_states_log(cache, layer, block * RF_STATE_POSITIONS), from + begin_bytes,
               log_bytes);
        if (next > block) begin_from_log(cache, layer, next);
        from += begin_bytes + log_bytes;
    }
    for (int32_t layer = 0; !code && block > 0 && layer < params->n_layer; layer++) {
        if (!rf_has_matrices(params, layer)) continue;
        memcpy(rf_cpu_states_matrices(cache, layer, block), from,
               matrix_floats(cache) * sizeof(float));
        from += matrix_floats(cache) * sizeof(float);
        cache->states.is_whole[block] = 1;
    }
    return code;
}

uint64_t rf_cpu_states_held(const struct cpu_cache *cache)
{
    const struct cpu_states *states = &cache->states;
    size_t begin = n_states(cache) * states->begin_floats * sizeof(float),
           log = n_states(cache) * states->log_floats * sizeof(float);
    uint64_t held = 0;
    for (size_t b = 0; b < states->n_blocks; b++)
        held +=
            rf_cpu_block_share(states->begins[b], begin) + rf_cpu_block_share(states->logs[b], log);
    for (int m = 0; m < 2; m++)
        held += rf_cpu_block_share(states->moving[m].block,
                                   n_states(cache) * matrix_floats(cache) * sizeof(float));
    return held;
}
