/* The structures of models on two devices: pairs of weights, caches and views, one half for each
 * device. shared.c and shared_cache.c build on them. */
#ifndef RF_DEVICES_SHARED_PARTS_H
#define RF_DEVICES_SHARED_PARTS_H

#include "devices/shared.h"

enum { SHARED_FIRST, SHARED_SECOND, SHARED_PARTS };

struct shared_backend {
    struct rf_backend base;
    struct rf_backend *part[SHARED_PARTS];
    int32_t n_second;
};

struct shared_queue {
    struct rf_queue base;
    struct rf_queue *part[SHARED_PARTS];
};

/* The first part of weights, caches and views is NULL where all layers are the second device's. */
struct shared_weights {
    struct rf_weights base;
    struct rf_weights *part[SHARED_PARTS];
};

struct shared_cache {
    struct rf_cache base;
    struct rf_params params[SHARED_PARTS]; /* parameters with the layers of one part */
    struct rf_cache *part[SHARED_PARTS];
};

static inline struct shared_backend *shared_backend_of(struct rf_backend *backend)
{
    return (struct shared_backend *)backend;
}

static inline const struct rf_backend_ops *shared_ops_of(const struct rf_backend *backend, int part)
{
    return ((const struct shared_backend *)backend)->part[part]->ops;
}

/* The first layer of the second part. */
static inline int32_t shared_cut_of(const struct rf_backend *backend, int32_t n_layer)
{
    return rf_first_shared_layer(n_layer, ((const struct shared_backend *)backend)->n_second);
}

/* The parameters of the layers of both parts. */
static inline void shared_split_params(struct rf_params parts[SHARED_PARTS],
                                       const struct rf_params *params, int32_t cut)
{
    parts[SHARED_FIRST] = parts[SHARED_SECOND] = *params;
    parts[SHARED_FIRST].n_layer = cut;
    parts[SHARED_SECOND].n_layer = params->n_layer - cut;
    if (params->layer_flags) parts[SHARED_SECOND].layer_flags += cut;
}

/* ---- shared_cache.c ---- */

int rf_shared_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                        const struct rf_cache_shape *shape, struct rf_error *error);
int rf_shared_cache_fork(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                         struct rf_error *error);
void rf_shared_cache_free(struct rf_cache *cache);
void rf_shared_cache_trim(struct rf_cache *cache, int32_t n);
void rf_shared_cache_settle(struct rf_cache *cache, int32_t n);
int32_t rf_shared_cache_resume(const struct rf_cache *cache, int32_t n);
int rf_shared_cache_can_save(const struct rf_cache *cache, int32_t n);
int rf_shared_cache_keep(struct rf_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                         struct rf_error *error);
uint64_t rf_shared_cache_bytes(const struct rf_cache *cache, int32_t n);
uint64_t rf_shared_cache_held(const struct rf_cache *cache);
int rf_shared_cache_save(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error);
int rf_shared_cache_load(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error);

#endif
