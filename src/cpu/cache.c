/* The KV cache: blocks of RF_KV_POSITIONS positions that forks share; one for all layers that read
 * whole texts, one for those with a window. In a block, for each layer and KV head, first K, 16
 * positions interleaved so that a vector of scores needs no sums across lanes,
 * [256/16][head_dim][16]; then V, [256][padded head_dim].
 *
 * A cache that quantises has groups of RF_KV_GROUP positions besides (microkernels/kv.h). Passes
 * write to blocks, and quantise a group when their rows are the first to read it quantised.
 * infer/kv_kept.h says which positions stay in 16 bits, infer/window_kept.h which are kept of
 * layers with a window. Layers without keys and values have states (states.c). */
#include <assert.h>
#include <string.h>

#include "cpu/cpu.h"
#include "infer/kv_kept.h"
#include "infer/state_kept.h"

enum { SLAB = 8 /* groups */ };

static const struct rf_allocator *cache_allocator(const struct cpu_cache *cache)
{
    return cache->base.backend->allocator;
}

size_t rf_cpu_entry_elements(const struct rf_params *params)
{
    size_t dim = (size_t)rf_most_head_dim(params);
    return dim + rf_padded(dim);
}

static int groups_new(struct cpu_cache *cache, struct rf_error *error)
{
    size_t dim = (size_t)rf_most_head_dim(cache->base.shape.params);
    if (rf_padded(dim) > RF_KV_MOST_DIM)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "heads of %zu values cannot be quantised: the most are %d", dim,
                       RF_KV_MOST_DIM);
    for (int k = 0; k < RF_KV_KINDS; k++) {
        struct cpu_kv *kv = &cache->kinds[k];
        if (!kv->keys) continue;
        kv->groups =
            rf_calloc(cache_allocator(cache), cpu_chunks((size_t)cache->base.shape.n_ctx) * 2,
                      sizeof *kv->groups, "KV cache", error);
        if (!kv->groups) return RF_ERR_MEMORY;
    }
    return 0;
}

static int blocks_new(struct cpu_cache *cache, struct rf_error *error)
{
    for (int k = 0; k < RF_KV_KINDS; k++) {
        struct cpu_kv *kv = &cache->kinds[k];
        if (!kv->keys) continue;
        kv->blocks = rf_calloc(cache_allocator(cache), cpu_chunks((size_t)cache->base.shape.n_ctx),
                               sizeof *kv->blocks, "KV cache", error);
        if (!kv->blocks) return RF_ERR_MEMORY;
    }
    return 0;
}

/* Lays out blocks and groups. */
static int layers_new(struct cpu_cache *cache, struct rf_error *error)
{
    const struct rf_params *params = cache->base.shape.params;
    size_t uppers[RF_KV_KINDS] = {0}, lowers[RF_KV_KINDS] = {0};
    cache->layers = rf_calloc(cache_allocator(cache), (size_t)params->n_layer,
                              sizeof *cache->layers, "KV cache", error);
    if (!cache->layers) return RF_ERR_MEMORY;
    for (int32_t i = 0; i < params->n_layer; i++) {
        struct cpu_kv_layer *layer = &cache->layers[i];
        if (!rf_has_keys(params, i)) continue;
        layer->kind = rf_kv_kind_of(params, i);
        struct cpu_kv *kv = &cache->kinds[layer->kind];
        layer->n_heads = (size_t)rf_n_head_kv(params, i);
        layer->dim = (size_t)rf_head_dim(params, i);
        layer->padded_dim = rf_padded(layer->dim);
        layer->k_elements = RF_KV_POSITIONS * layer->dim;
        layer->kv_elements = layer->k_elements + RF_KV_POSITIONS * layer->padded_dim;
        layer->first = RF_KV_POSITIONS * (kv->keys + kv->values);
        kv->keys += layer->n_heads * layer->dim;
        kv->values += layer->n_heads * layer->padded_dim;
        if (!rf_kv_is_quantised(cache->base.shape.kv)) continue;
        layer->upper = rf_kv_upper_bytes(layer->padded_dim);
        layer->lower = cache->base.shape.kv == RF_KV_Q8 ? rf_kv_lower_bytes(layer->padded_dim) : 0;
        layer->upper_at = uppers[layer->kind];
        layer->lower_at = lowers[layer->kind];
        uppers[layer->kind] += layer->n_heads * layer->upper;
        lowers[layer->kind] += layer->n_heads * layer->lower;
    }
    for (int32_t i = 0; i < params->n_layer; i++)
        cache->layers[i].lower_at += uppers[cache->layers[i].kind];
    for (int k = 0; k < RF_KV_KINDS; k++) cache->kinds[k].group_bytes = uppers[k] + lowers[k];
    return 0;
}

static int places_new(struct cpu_cache *cache, struct rf_error *error)
{
    const struct rf_params *params = cache->base.shape.params;
    int32_t n[3] = {0, 0, 0}; /* with keys and values, with a state, with neither */
    cache->places = rf_malloc(cache_allocator(cache), (size_t)params->n_layer,
                              sizeof *cache->places, "KV cache", error);
    for (int32_t i = 0; cache->places && i < params->n_layer; i++)
        cache->places[i] = n[rf_has_keys(params, i) ? 0 : rf_has_state(params, i) ? 1 : 2]++;
    return cache->places ? 0 : RF_ERR_MEMORY;
}

int rf_cpu_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                     const struct rf_cache_shape *shape, struct rf_error *error)
{
    const struct rf_allocator *allocator = backend->allocator;
    *cache = NULL;
    struct cpu_cache *made = rf_calloc(allocator, 1, sizeof *made, "KV cache", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_cache){backend, *shape};
    int code = places_new(made, error);
    if (!code) code = layers_new(made, error);
    if (!code) code = blocks_new(made, error);
    if (!code) code = rf_cpu_states_new(made, error);
    if (!code && rf_kv_is_quantised(shape->kv)) code = groups_new(made, error);
    if (code) {
        rf_cpu_cache_free(&made->base);
        return code;
    }
    *cache = &made->base;
    return 0;
}

static void release_at(struct cpu_cache *cache, struct cpu_block **at)
{
    rf_cpu_block_drop(cache_allocator(cache), *at);
    *at = NULL;
}

static size_t all_chunks(const struct cpu_cache *cache)
{
    return cpu_chunks((size_t)cache->base.shape.n_ctx);
}

/* Groups that are not whole within the first n positions do not count any more. */
static void cut_groups(struct cpu_cache *cache, size_t n)
{
    if (cache->n_groups > n / RF_KV_GROUP) cache->n_groups = n / RF_KV_GROUP;
}

static void release_groups(struct cpu_cache *cache, struct cpu_kv *kv)
{
    for (size_t g = cache->n_groups;
         kv->groups && g < (size_t)cache->base.shape.n_ctx / RF_KV_GROUP; g++)
        release_at(cache, &kv->groups[g]);
}

void rf_cpu_cache_trim(struct rf_cache *base, int32_t n)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    size_t chunk = cpu_chunks((size_t)n);
    if (cache->settled > (size_t)n) cache->settled = (size_t)n;
    cut_groups(cache, (size_t)n);
    for (int k = 0; k < RF_KV_KINDS; k++) {
        struct cpu_kv *kv = &cache->kinds[k];
        if (!kv->blocks) continue;
        /* Keeps the first of these blocks, which the next token probably needs. */
        int keeps = chunk < all_chunks(cache) && kv->blocks[chunk] &&
                    atomic_load(&kv->blocks[chunk]->holders) == 1;
        for (size_t c = chunk + (size_t)keeps; c < all_chunks(cache); c++)
            release_at(cache, &kv->blocks[c]);
        release_groups(cache, kv);
    }
    rf_cpu_states_trim(cache, (size_t)n);
}

/* Gives up the blocks that no row from position n on reads in 16 bits. */
static void give_up(struct cpu_cache *cache, size_t n)
{
    for (int k = 0; k < RF_KV_KINDS; k++)
        for (size_t c = 0; cache->kinds[k].blocks && (c + 1) * RF_KV_POSITIONS <= n; c++)
            if (rf_kv_is_given_up(c, n, cache->n_groups))
                release_at(cache, &cache->kinds[k].blocks[c]);
}

/* Gives up what is behind the windows of the rows from position n on, but for what is kept. */
static void give_up_windows(struct cpu_cache *cache, size_t n)
{
    struct cpu_kv *kv = &cache->kinds[RF_KV_WINDOW];
    for (size_t c = 0; kv->blocks && (c + 1) * RF_KV_POSITIONS <= n; c++) {
        int is_there =
            kv->blocks[c] || (kv->groups && (kv->groups[2 * c] || kv->groups[2 * c + 1]));
        if (!is_there || rf_window_keeps(cache->base.shape.params, c, n)) continue;
        release_at(cache, &kv->blocks[c]);
        for (size_t g = 2 * c; kv->groups && g < 2 * c + 2; g++) release_at(cache, &kv->groups[g]);
    }
}

void rf_cpu_cache_settle(struct rf_cache *base, int32_t n)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    cache->settled = (size_t)n;
    give_up(cache, (size_t)n);
    give_up_windows(cache, (size_t)n);
    rf_cpu_states_settle(cache, (size_t)n);
}

static int has_block(const void *kv, size_t c)
{
    return ((const struct cpu_kv *)kv)->blocks[c] != NULL;
}

/* Whether a block of a kind is there in 16 bits or quantised. */
static int has_any(const void *user, size_t c)
{
    const struct cpu_kv *kv = user;
    return kv->blocks[c] || (kv->groups && kv->groups[2 * c] && kv->groups[2 * c + 1]);
}

int32_t rf_cpu_cache_resume(const struct rf_cache *base, int32_t n)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    const struct cpu_kv *window = &cache->kinds[RF_KV_WINDOW];
    for (int32_t least = n;; n = least) {
        for (const struct cpu_kv *kv = cache->kinds; kv < cache->kinds + RF_KV_KINDS; kv++)
            if (kv->groups) least = rf_kv_resume(least, has_block, kv);
        if (window->blocks) least = rf_window_resume(base->shape.params, least, has_any, window);
        least = rf_cpu_states_resume(cache, least);
        if (least == n) return n;
    }
}

void rf_cpu_cache_free(struct rf_cache *base)
{
    if (!base) return;
    struct cpu_cache *cache = (struct cpu_cache *)base;
    const struct rf_allocator *allocator = cache_allocator(cache);
    cache->n_groups = 0;
    for (struct cpu_kv *kv = cache->kinds; kv < cache->kinds + RF_KV_KINDS; kv++) {
        for (size_t c = 0; kv->blocks && c < all_chunks(cache); c++)
            release_at(cache, &kv->blocks[c]);
        release_groups(cache, kv);
        rf_cpu_slab_drop(allocator, kv->slab);
        rf_free(allocator, kv->blocks);
        rf_free(allocator, kv->groups);
    }
    rf_cpu_states_free(cache);
    rf_free(allocator, cache->places);
    rf_free(allocator, cache->layers);
    rf_free(allocator, cache);
}

int rf_cpu_cache_fork(struct rf_cache **copy, struct rf_cache *base, int32_t n,
                      struct rf_error *error)
{
    const struct cpu_cache *cache = (const struct cpu_cache *)base;
    int code = rf_cpu_cache_new(copy, base->backend, &base->shape, error);
    if (code) return code;
    struct cpu_cache *made = (struct cpu_cache *)*copy;
    made->settled = cache->settled < (size_t)n ? cache->settled : (size_t)n;
    made->n_groups = cache->n_groups;
    cut_groups(made, (size_t)n);
    for (int k = 0; k < RF_KV_KINDS; k++) {
        const struct cpu_kv *from = &cache->kinds[k];
        for (size_t c = 0; from->blocks && c < cpu_chunks((size_t)n); c++)
            made->kinds[k].blocks[c] = rf_cpu_block_hold(from->blocks[c]);
        for (size_t g = 0; from->groups && g < made->n_groups; g++)
            made->kinds[k].groups[g] = rf_cpu_block_hold(from->groups[g]);
    }
    rf_cpu_states_fork(made, cache, (size_t)n);
    return 0;
}

struct cpu_kv_place rf_cpu_cache_place(const struct cpu_block *block)
{
    return (struct cpu_kv_place){(char *)block->data, RF_KV_POSITIONS, RF_KV_POSITIONS};
}

void rf_cpu_cache_copy(const struct cpu_cache *cache, enum rf_kv_kind kind, struct cpu_kv_place to,
                       struct cpu_kv_place from, size_t positions)
{
    enum { HALF = sizeof(uint16_t) };
    for (int32_t i = 0; i < cache->base.shape.params->n_layer; i++) {
        const struct cpu_kv_layer *of = &cache->layers[i];
        size_t k = of->dim * HALF, v = of->padded_dim * HALF;
        for (size_t h = 0; of->kind == kind && h < of->n_heads; h++) {
            memcpy(to.data, from.data, rf_padded(positions) * k);
            memcpy(to.data + to.k * k, from.data + from.k * k, positions * v);
            to.data += to.k * k + to.v * v;
            from.data += from.k * k + from.v * v;
        }
    }
}

static int own_blocks(struct cpu_cache *cache, enum rf_kv_kind kind, size_t first, size_t end,
                      struct rf_error *error)
{
    struct cpu_kv *kv = &cache->kinds[kind];
    for (size_t c = first / RF_KV_POSITIONS; kv->blocks && c < cpu_chunks(end); c++) {
        struct cpu_block *old = kv->blocks[c];
        if (old && atomic_load(&old->holders) == 1) continue;
        /* The block is not cleared. Kernels read K in groups of 16 positions and drop the scores
         * of positions that a query does not see. Of V they read only what was written. */
        struct cpu_block *block =
            rf_cpu_block_new(cache_allocator(cache), RF_KV_POSITIONS,
                             (kv->keys + kv->values) * sizeof(uint16_t), error);
        if (!block) return RF_ERR_MEMORY;
        size_t start = c * RF_KV_POSITIONS;
        assert(old || first <= start);
        if (old && first > start)
            rf_cpu_cache_copy(cache, kind, rf_cpu_cache_place(block), rf_cpu_cache_place(old),
                              first - start);
        kv->blocks[c] = block;
        rf_cpu_block_drop(cache_allocator(cache), old);
    }
    return 0;
}

static struct cpu_slab *slab_new(const struct cpu_cache *cache, size_t n, size_t group_bytes,
                                 struct rf_error *error)
{
    const struct rf_allocator *allocator = cache_allocator(cache);
    struct cpu_slab *slab = rf_calloc(allocator, 1, sizeof *slab, "KV cache", error);
    if (!slab) return NULL;
    slab->n = n;
    slab->data = rf_malloc(allocator, n, group_bytes, "KV cache", error);
    atomic_init(&slab->holders, 1);
    if (slab->data) return slab;
    rf_free(allocator, slab);
    return NULL;
}

/* A group in the slab of its kind, or in a new one, for `left` groups at most. */
static struct cpu_block *group_new(struct cpu_cache *cache, struct cpu_kv *kv, size_t left,
                                   struct rf_error *error)
{
    const struct rf_allocator *allocator = cache_allocator(cache);
    if (!kv->slab || kv->slab->used == kv->slab->n) {
        struct cpu_slab *slab = slab_new(cache, left < SLAB ? left : SLAB, kv->group_bytes, error);
        if (!slab) return NULL;
        rf_cpu_slab_drop(allocator, kv->slab);
        kv->slab = slab;
    }
    struct cpu_block *group = rf_calloc(allocator, 1, sizeof *group, "KV cache", error);
    if (!group) return NULL;
    atomic_init(&group->holders, 1);
    atomic_fetch_add(&kv->slab->holders, 1);
    group->slab = kv->slab;
    group->data = kv->slab->data + kv->slab->used++ * kv->group_bytes;
    return group;
}

/* Groups of the cache's own from `first` to before `end`. Others may share the old ones. */
static int own_groups(struct cpu_cache *cache, enum rf_kv_kind kind, size_t first, size_t end,
                      struct rf_error *error)
{
    struct cpu_kv *kv = &cache->kinds[kind];
    for (size_t g = first; kv->groups && g < end; g++) {
        struct cpu_block *old = kv->groups[g];
        if (old && atomic_load(&old->holders) == 1) continue;
        /* A slab lives as long as one of its groups: those that are given up need their own. */
        size_t left = kind == RF_KV_WINDOW ? 1 : (size_t)cache->base.shape.n_ctx / RF_KV_GROUP - g;
        struct cpu_block *group = group_new(cache, kv, left, error);
        if (!group) return RF_ERR_MEMORY;
        rf_cpu_block_drop(cache_allocator(cache), old);
        kv->groups[g] = group;
    }
    return 0;
}

int rf_cpu_cache_own(struct cpu_cache *cache, const struct cpu_saved saved[RF_KV_KINDS], size_t n,
                     struct rf_error *error)
{
    int code = 0;
    cache->n_groups = 0;
    for (int k = 0; !code && k < RF_KV_KINDS; k++) {
        enum rf_kv_kind kind = (enum rf_kv_kind)k;
        code = own_blocks(cache, kind, saved[k].first_block * RF_KV_POSITIONS, n, error);
        if (!code) code = own_groups(cache, kind, saved[k].first_group, saved[k].groups, error);
    }
    return code;
}

int rf_cpu_cache_prepare(struct cpu_cache *cache, size_t first, size_t n, size_t *n_groups_after,
                         struct rf_error *error)
{
    cut_groups(cache, first);
    /* Now already, so that new blocks may take their memory. A pass behind drafts gives up nothing:
     * the next one may begin before them. */
    if (first <= cache->settled) {
        cache->settled = first;
        give_up(cache, first + n);
    }
    int code = own_blocks(cache, RF_KV_WHOLE, first, first + n, error);
    if (!code) code = own_blocks(cache, RF_KV_WINDOW, first, first + n, error);
    if (!code) code = rf_cpu_states_prepare(cache, first, n, error);
    *n_groups_after = cache->n_groups;
    if (code || !rf_kv_is_quantised(cache->base.shape.kv)) return code;
    size_t end = rf_kv_groups_of_row(first + n - 1);
    if (end <= cache->n_groups) return 0;
    *n_groups_after = end;
    code = own_groups(cache, RF_KV_WHOLE, cache->n_groups, end, error);
    return code ? code : own_groups(cache, RF_KV_WINDOW, cache->n_groups, end, error);
}

static const char *group_data(const struct cpu_cache *cache, int32_t layer, size_t group)
{
    return cache->kinds[cache->layers[layer].kind].groups[group]->data;
}

int rf_cpu_cache_has_group(const struct cpu_cache *cache, int32_t layer, size_t group)
{
    return group < cache->n_groups && cache->kinds[cache->layers[layer].kind].groups[group];
}

struct rf_kv_group rf_cpu_cache_group(const struct cpu_cache *cache, int32_t layer, size_t head,
                                      size_t group, enum rf_kv_type as)
{
    const char *data = group_data(cache, layer, group);
    const struct cpu_kv_layer *of = &cache->layers[layer];
    const char *lower = data + of->lower_at + head * of->lower;
    return rf_kv_group_at(data + of->upper_at + head * of->upper, as == RF_KV_Q8 ? lower : NULL,
                          of->padded_dim);
}

void rf_cpu_cache_quantise(struct cpu_cache *cache, int32_t layer, size_t head, size_t group)
{
    char *data = (char *)(uintptr_t)group_data(cache, layer, group);
    const struct cpu_kv_layer *of = &cache->layers[layer];
    size_t chunk = group * RF_KV_GROUP / RF_KV_POSITIONS,
           place = group * RF_KV_GROUP % RF_KV_POSITIONS;
    rf_kv_quantize(data + of->upper_at + head * of->upper,
                   of->lower ? data + of->lower_at + head * of->lower : NULL,
                   k_cache(cache, chunk, layer, head) + place * of->dim,
                   v_cache(cache, chunk, layer, head) + place * of->padded_dim, of->dim);
}

/* The beginning of a position's key, whose elements are RF_KV_BLOCK apart, and of its value. */
static uint16_t *key_place(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos)
{
    size_t place = pos % RF_KV_POSITIONS, first = place / RF_KV_BLOCK * RF_KV_BLOCK;
    return k_cache(cache, pos / RF_KV_POSITIONS, layer, head) + first * cache->layers[layer].dim +
           place % RF_KV_BLOCK;
}

static uint16_t *value_place(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos)
{
    return v_cache(cache, pos / RF_KV_POSITIONS, layer, head) +
           pos % RF_KV_POSITIONS * cache->layers[layer].padded_dim;
}

static void to_half(const struct cpu_cache *cache, uint16_t *to, const float *x, size_t n)
{
    const struct rf_kernels *kernels = kernels_of(cache->base.backend);
    if (cache->base.shape.kv == RF_KV_BF16)
        kernels->f32_to_bf16(to, x, n);
    else
        kernels->f32_to_f16(to, x, n);
}

void rf_cpu_cache_store(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                        const float *key, const float *value)
{
    size_t dim = cache->layers[layer].dim, padded = cache->layers[layer].padded_dim;
    uint16_t *to = key_place(cache, layer, head, pos), half[RF_KV_BLOCK];
    for (size_t j = 0; j < dim; j += RF_KV_BLOCK) {
        size_t n = dim - j < RF_KV_BLOCK ? dim - j : RF_KV_BLOCK;
        to_half(cache, half, key + j, n);
        for (size_t i = 0; i < n; i++) to[(j + i) * RF_KV_BLOCK] = half[i];
    }
    to = value_place(cache, layer, head, pos);
    to_half(cache, to, value, dim);
    memset(to + dim, 0, (padded - dim) * sizeof *to);
}

void rf_cpu_cache_get(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      uint16_t *entry)
{
    size_t dim = cache->layers[layer].dim, padded = cache->layers[layer].padded_dim;
    const uint16_t *key = key_place(cache, layer, head, pos);
    for (size_t j = 0; j < dim; j++) entry[j] = key[j * RF_KV_BLOCK];
    memcpy(entry + dim, value_place(cache, layer, head, pos), padded * sizeof *entry);
}

void rf_cpu_cache_put(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      const uint16_t *entry)
{
    size_t dim = cache->layers[layer].dim, padded = cache->layers[layer].padded_dim;
    uint16_t *key = key_place(cache, layer, head, pos);
    for (size_t j = 0; j < dim; j++) key[j * RF_KV_BLOCK] = entry[j];
    memcpy(value_place(cache, layer, head, pos), entry + dim, padded * sizeof *entry);
}

int rf_cpu_cache_keep(struct rf_cache *base, int32_t first_pos, const int32_t *path, int32_t n,
                      struct rf_error *error)
{
    struct cpu_cache *cache = (struct cpu_cache *)base;
    const struct rf_params *params = base->shape.params;
    int32_t moved = 0; /* the first that does */
    while (moved < n && path[moved] == moved) moved++;
    rf_cpu_states_keep(cache, (size_t)first_pos, path, (size_t)n);
    if (moved == n) return 0;
    uint16_t *entry = rf_malloc(cache_allocator(cache), rf_cpu_entry_elements(params),
                                sizeof *entry, "KV cache", error);
    if (!entry) return RF_ERR_MEMORY;
    for (int32_t layer = 0; layer < params->n_layer; layer++)
        for (size_t head = 0; head < cache->layers[layer].n_heads; head++)
            for (int32_t i = moved; i < n; i++) {
                rf_cpu_cache_get(cache, layer, head, (size_t)(first_pos + path[i]), entry);
                rf_cpu_cache_put(cache, layer, head, (size_t)(first_pos + i), entry);
            }
    rf_free(cache_allocator(cache), entry);
    return 0;
}
