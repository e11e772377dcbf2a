/* The structures that the files of the CUDA backend share. Each begins with the base that
 * infer/backend.h gives it.
 *
 * A backend is one device with one stream: passes and copies take place in the order in which they
 * were asked for, so a call on a cache waits for the passes before it. */
#ifndef RF_GPU_CUDA_BACKEND_H
#define RF_GPU_CUDA_BACKEND_H

#include "gpu/kernels.h"
#include "infer/backend.h"

struct gpu_backend {
    struct rf_backend base;
    int device;
    cudaStream_t stream;
    int overlap;   /* the device has programmatic dependent launch */
    int has_wgmma; /* the device has wgmma: Hopper only */
};

struct gpu_queue {
    struct rf_queue base;
};

struct rf_weight {
    struct rf_weight_plan plan;
    void *data; /* device memory: tiles, one expert's behind the other's, or F32 values; NULL: a
                   table */
};

struct gpu_weights {
    struct rf_weights base;
    struct rf_weight *tensors; /* [n], in the order of the plans */
    int32_t n;
};

/* RF_KV_POSITIONS positions: [layer][KV head][K, V][position][padded head_dim]; or a group of a
 * cache that quantises (struct gpu_heads). */
struct gpu_block {
    atomic_int holders; /* caches */
    void *data;
};

struct gpu_cache {
    struct rf_cache base;
    struct gpu_block **blocks; /* [n_ctx / RF_KV_POSITIONS, rounded up]; NULL: never written, or
                                  given up */
    struct gpu_block **groups; /* [two for each block], if the cache quantises */
    size_t n_groups;           /* quantised groups */
    int32_t settled;           /* positions; passes behind them read drafts */
    size_t first_seen; /* entries before it of layers with a window are missing, as from a loaded
                          cache */
};

static inline size_t gpu_chunks(int32_t positions)
{
    return ((size_t)positions + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS;
}

static inline struct gpu_backend *gpu_backend_of(const struct rf_backend *backend)
{
    return (struct gpu_backend *)backend;
}

/* backend.c: a backend on the device that the options name. */
int gpu_open(struct rf_backend **backend, const struct rf_backend_options *options,
             const struct rf_allocator *allocator, struct rf_error *error);

/* device.c */
/* Finds the device that the options name. */
int gpu_find_device(const struct rf_backend_options *options, int *device,
                    struct cudaDeviceProp *properties, struct rf_error *error);
/* Opens it: all fields of *device but `base`, which is empty. */
int gpu_device_open(struct gpu_backend *device, const struct rf_backend_options *options,
                    struct rf_error *error);
void gpu_device_close(struct gpu_backend *device);
/* The device becomes the calling thread's, as CUDA has one for each thread. */
void gpu_enter(const struct rf_backend *backend);
/* 0, or the error with a sentence about `what`. */
int gpu_check(cudaError_t status, const char *what, struct rf_error *error);
/* Memory of the device, in the order of the stream. */
void *gpu_take(const struct gpu_backend *backend, size_t bytes, const char *what,
               struct rf_error *error);
void gpu_give(const struct gpu_backend *backend, void *memory);
/* Bytes of the device's memory that may still be taken. */
int gpu_free_bytes(const struct gpu_backend *backend, uint64_t *bytes, struct rf_error *error);

/* weights.c */
int gpu_weights_new(struct rf_weights **weights, struct rf_queue *queue,
                    const struct rf_weight_plan *plans, int32_t n_plans, rf_load_progress progress,
                    void *user, struct rf_error *error);
void gpu_weights_free(struct rf_weights *weights);
struct rf_weight_bytes gpu_weight_bytes(const struct rf_weight_plan *plan);
/* Bytes of the tiles of one matrix. */
size_t gpu_matrix_bytes(const struct rf_weight_plan *plan);

/* cache.c */
int gpu_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                  const struct rf_cache_shape *shape, struct rf_error *error);
int gpu_cache_fork(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                   struct rf_error *error);
void gpu_cache_free(struct rf_cache *cache);
void gpu_cache_trim(struct rf_cache *cache, int32_t n);
void gpu_cache_settle(struct rf_cache *cache, int32_t n);
int32_t gpu_cache_resume(const struct rf_cache *cache, int32_t n);
int gpu_cache_can_save(const struct rf_cache *cache, int32_t n);
int gpu_cache_keep(struct rf_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                   struct rf_error *error);
uint64_t gpu_cache_bytes(const struct rf_cache *cache, int32_t n);
uint64_t gpu_cache_held(const struct rf_cache *cache);
int gpu_cache_save(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error);
int gpu_cache_load(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error);
uint64_t gpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx);
/* Before a pass over n rows from position `first` on: makes the blocks that it writes the cache's
 * own, and the groups that it quantises, [n_groups, *n_groups_after). */
int gpu_cache_prepare(struct gpu_cache *cache, int32_t first, int32_t n, size_t *n_groups_after,
                      struct rf_error *error);
/* The heads as a view of that kind reads caches. */
struct gpu_heads gpu_heads_of(const struct rf_params *params, enum rf_kv_type kv);

/* measure.c */
int gpu_measure_read(const struct rf_backend_options *options, int32_t threads,
                     const struct rf_allocator *allocator, struct rf_read_speed *speed,
                     struct rf_error *error);

/* view.c */
/* RF_ERR_UNSUPPORTED for parameters of which views compute not all. */
int gpu_can_compute(const struct rf_params *params, struct rf_error *error);
int gpu_view_new(struct rf_view **view, struct rf_queue *queue, const struct rf_view_shape *shape,
                 struct rf_error *error);
void gpu_view_free(struct rf_view *view);
uint64_t gpu_view_bytes(const struct rf_view_shape *shape);
int gpu_submit(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);
int gpu_sync(struct rf_view *view, struct rf_error *error);

/* copies.c */
int gpu_logits(struct rf_view *view, int32_t i, const float **row, struct rf_error *error);
int gpu_tap(struct rf_view *view, int32_t tap, int32_t i, const float **row,
            struct rf_error *error);

#endif
