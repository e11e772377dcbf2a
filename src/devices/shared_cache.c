/* Caches of models on two devices: a pair, each with the keys and values of its own layers. */
#include <string.h>

#include "devices/shared_parts.h"
#include "infer/kv_kept.h"
#include "infer/state_kept.h"
#include "infer/window_kept.h"
#include "microkernels/kernels.h"
#include "microkernels/kv.h"

static struct shared_cache *cache_of(struct rf_cache *cache)
{
    return (struct shared_cache *)cache;
}

void rf_shared_cache_free(struct rf_cache *base)
{
    if (!base) return;
    for (int p = 0; p < SHARED_PARTS; p++)
        if (cache_of(base)->part[p])
            shared_ops_of(base->backend, p)->cache_free(cache_of(base)->part[p]);
    rf_free(base->backend->allocator, base);
}

/* A cache whose parts are new, or of `from` the first n positions. */
static int cache_make(struct rf_cache **cache, struct rf_backend *backend,
                      const struct rf_cache_shape *shape, struct rf_cache *from, int32_t n,
                      struct rf_error *error)
{
    int code = 0;
    *cache = NULL;
    struct shared_cache *made = rf_calloc(backend->allocator, 1, sizeof *made, "KV cache", error);
    if (!made) return RF_ERR_MEMORY;
    made->base = (struct rf_cache){backend, *shape};
    shared_split_params(made->params, shape->params,
                        shared_cut_of(backend, shape->params->n_layer));
    for (int p = 0; !code && p < SHARED_PARTS; p++) {
        struct rf_cache_shape part = *shape;
        /* A fork's part outlives the cache that it was forked from, and so do its parameters. */
        part.params = &made->params[p];
        if (!part.params->n_layer) continue;
        const struct rf_backend_ops *of_part = shared_ops_of(backend, p);
        code = from ? of_part->cache_fork(&made->part[p], cache_of(from)->part[p], n, error)
                    : of_part->cache_new(&made->part[p], shared_backend_of(backend)->part[p], &part,
                                         error);
        if (!code) made->part[p]->shape.params = part.params;
    }
    if (code)
        rf_shared_cache_free(&made->base);
    else
        *cache = &made->base;
    return code;
}

int rf_shared_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                        const struct rf_cache_shape *shape, struct rf_error *error)
{
    return cache_make(cache, backend, shape, NULL, 0, error);
}

int rf_shared_cache_fork(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                         struct rf_error *error)
{
    return cache_make(copy, cache->backend, &cache->shape, cache, n, error);
}

void rf_shared_cache_trim(struct rf_cache *base, int32_t n)
{
    for (int p = 0; p < SHARED_PARTS; p++)
        if (cache_of(base)->part[p])
            shared_ops_of(base->backend, p)->cache_trim(cache_of(base)->part[p], n);
}

void rf_shared_cache_settle(struct rf_cache *base, int32_t n)
{
    for (int p = 0; p < SHARED_PARTS; p++)
        if (cache_of(base)->part[p])
            shared_ops_of(base->backend, p)->cache_settle(cache_of(base)->part[p], n);
}

/* The position from which both parts can begin a pass. */
int32_t rf_shared_cache_resume(const struct rf_cache *base, int32_t n)
{
    const struct shared_cache *cache = (const struct shared_cache *)base;
    for (int32_t least = n;; n = least) {
        for (int p = 0; p < SHARED_PARTS; p++)
            if (cache->part[p])
                least = shared_ops_of(base->backend, p)->cache_resume(cache->part[p], least);
        if (least == n) return n;
    }
}

int rf_shared_cache_keep(struct rf_cache *base, int32_t first_pos, const int32_t *path, int32_t n,
                         struct rf_error *error)
{
    int code = 0;
    for (int p = 0; !code && p < SHARED_PARTS; p++)
        if (cache_of(base)->part[p])
            code = shared_ops_of(base->backend, p)
                       ->cache_keep(cache_of(base)->part[p], first_pos, path, n, error);
    return code;
}

int rf_shared_cache_can_save(const struct rf_cache *base, int32_t n)
{
    const struct shared_cache *cache = (const struct shared_cache *)base;
    for (int p = 0; p < SHARED_PARTS; p++)
        if (cache->part[p] && !shared_ops_of(base->backend, p)->cache_can_save(cache->part[p], n))
            return 0;
    return 1;
}

uint64_t rf_shared_cache_bytes(const struct rf_cache *base, int32_t n)
{
    const struct shared_cache *cache = (const struct shared_cache *)base;
    uint64_t bytes = 0;
    for (int p = 0; p < SHARED_PARTS; p++)
        if (cache->part[p])
            bytes += shared_ops_of(base->backend, p)->cache_bytes(cache->part[p], n);
    return bytes;
}

uint64_t rf_shared_cache_held(const struct rf_cache *base)
{
    const struct shared_cache *cache = (const struct shared_cache *)base;
    uint64_t held = 0;
    for (int p = 0; p < SHARED_PARTS; p++)
        if (cache->part[p]) held += shared_ops_of(base->backend, p)->cache_held(cache->part[p]);
    return held;
}

/* Copies `bytes` for each layer of a kind with keys and values, or with a state, of part p between
 * the positions of both parts and of that part. */
struct weave {
    const struct shared_cache *cache;
    int p, is_load, of_states;
    enum rf_kv_kind kind;
    char *both, *part;
};

static size_t layers_of(const struct weave *weave, int p)
{
    const struct rf_params *params = &weave->cache->params[p];
    return (size_t)(weave->of_states ? rf_n_states(params, params->n_layer)
                                     : rf_n_of_kind(params, weave->kind));
}

static void copy_layers(struct weave *weave, size_t bytes)
{
    size_t first = layers_of(weave, SHARED_FIRST) * bytes,
           second = layers_of(weave, SHARED_SECOND) * bytes,
           n = weave->p == SHARED_FIRST ? first : second;
    char *place = weave->both + (weave->p == SHARED_FIRST ? 0 : first);
    if (n) memcpy(weave->is_load ? weave->part : place, weave->is_load ? place : weave->part, n);
    weave->both += first + second;
    weave->part += n;
}

/* The layers of a kind. */
static void copy_kind(struct weave *weave, enum rf_kv_kind kind, int32_t n)
{
    const struct rf_cache_shape *shape = &weave->cache->base.shape;
    size_t heads = (size_t)shape->params->n_head_kv, dim = (size_t)shape->params->head_dim,
           from = kind == RF_KV_WINDOW ? rf_window_saved_from(shape->params, (size_t)n) : 0,
           group = from * RF_KV_POSITIONS / RF_KV_RECENT,
           groups = rf_kv_is_quantised(shape->kv) && n ? rf_kv_groups_of_row((size_t)n - 1) : 0,
           block = groups * RF_KV_RECENT / RF_KV_POSITIONS,
           done = (block > from ? block : from) * RF_KV_POSITIONS;
    weave->kind = kind;
    for (; group < groups; group++) {
        copy_layers(weave, heads * rf_kv_upper_bytes(rf_padded(dim)));
        if (shape->kv == RF_KV_Q8) copy_layers(weave, heads * rf_kv_lower_bytes(rf_padded(dim)));
    }
    for (size_t p; done < (size_t)n; done += p) {
        p = (size_t)n - done < RF_KV_POSITIONS ? (size_t)n - done : RF_KV_POSITIONS;
        copy_layers(weave, heads * (rf_padded(p) * dim + p * rf_padded(dim)) * sizeof(uint16_t));
    }
}

/* The order is that of rf_backend_ops.cache_bytes, in which layers are not the outermost. */
static void copy_part(struct weave *weave, int32_t n)
{
    const struct rf_cache_shape *shape = &weave->cache->base.shape;
    copy_kind(weave, RF_KV_WHOLE, n);
    copy_kind(weave, RF_KV_WINDOW, n);
    weave->of_states = 1;
    copy_layers(weave, rf_states_saved_floats(shape->params, n) * sizeof(float));
    if (n) copy_layers(weave, rf_state_matrices(shape->params) * sizeof(float));
}

/* Saves or loads n positions part by part. */
static int cache_move(struct rf_cache *base, int32_t n, char *positions, int is_load,
                      struct rf_error *error)
{
    const struct shared_cache *cache = cache_of(base);
    int code = 0;
    for (int p = 0; !code && p < SHARED_PARTS; p++) {
        const struct rf_backend_ops *of_part = shared_ops_of(base->backend, p);
        if (!cache->part[p]) continue;
        char *own = rf_malloc(base->backend->allocator, of_part->cache_bytes(cache->part[p], n) + 1,
                              1, "KV cache", error);
        if (!own) return RF_ERR_MEMORY;
        struct weave weave = {cache, p, is_load, 0, RF_KV_WHOLE, positions, own};
        if (is_load) copy_part(&weave, n);
        code = is_load ? of_part->cache_load(cache->part[p], n, own, error)
                       : of_part->cache_save(cache->part[p], n, own, error);
        if (!is_load && !code) copy_part(&weave, n);
        rf_free(base->backend->allocator, own);
    }
    return code;
}

int rf_shared_cache_save(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error)
{
    return cache_move(cache, n, out, 0, error);
}

int rf_shared_cache_load(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error)
{
    return cache_move(cache, n, (char *)in, 1, error); /* a load only reads it */
}
