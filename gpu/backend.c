/* The CUDA backend's kind, its description of devices, and its queues. The library finds the kind
 * through the entry point at the end (devices/cuda_module.h). Every call on a device first makes it
 * the calling thread's. */
#include <stdio.h>

#include "devices/cuda_module.h"
#include "gpu/cuda_backend.h"

enum { MOST_DEVICES = 64 /* names that are kept */ };

/* ---- devices ---- */

/* Names live as long as the process. Threads that describe a device write the same one. */
static const char *keep_name(int device, const char *name)
{
    static char names[MOST_DEVICES][256];
    snprintf(names[device % MOST_DEVICES], sizeof *names, "%s", name);
    return names[device % MOST_DEVICES];
}

static int gpu_describe(const struct rf_backend_options *options, struct rf_device_info *info,
                        struct rf_error *error)
{
    struct cudaDeviceProp properties;
    int device, code = gpu_find_device(options, &device, &properties, error);
    if (!code && info)
        *info = (struct rf_device_info){.tier = "",
                                        .best_tier = "",
                                        .note = "",
                                        .name = keep_name(device, properties.name),
                                        .memory_bytes = properties.totalGlobalMem};
    return code;
}

static int gpu_kind_free_bytes(const struct rf_backend_options *options, uint64_t *bytes,
                               struct rf_error *error)
{
    struct cudaDeviceProp properties;
    struct gpu_backend device = {.device = 0};
    int code = gpu_find_device(options, &device.device, &properties, error);
    if (code) return code;
    gpu_enter(&device.base);
    return gpu_free_bytes(&device, bytes, error);
}

static void gpu_backend_free(struct rf_backend *base)
{
    gpu_device_close(gpu_backend_of(base));
    rf_free(base->allocator, base);
}

static size_t gpu_first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

static const struct rf_backend_ops ops;

int gpu_open(struct rf_backend **backend, const struct rf_backend_options *options,
             const struct rf_allocator *allocator, struct rf_error *error)
{
    struct gpu_backend device;
    int code = gpu_device_open(&device, options, error);
    *backend = NULL;
    if (code) return code;
    struct gpu_backend *made = rf_malloc(allocator, 1, sizeof *made, "backend", error);
    if (!made) {
        gpu_device_close(&device);
        return RF_ERR_MEMORY;
    }
    *made = device;
    made->base =
        (struct rf_backend){.ops = &ops, .allocator = allocator, .first_above = gpu_first_above};
    *backend = &made->base;
    return 0;
}

/* ---- queues ---- */

static int gpu_queue_new(struct rf_queue **queue, struct rf_backend *backend,
                         const struct rf_queue_options *options, const struct rf_queue *like,
                         struct rf_error *error)
{
    (void)options, (void)like;
    *queue = NULL;
    struct gpu_queue *made = rf_calloc(backend->allocator, 1, sizeof *made, "queue", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.backend = backend;
    *queue = &made->base;
    return 0;
}

static void gpu_queue_free(struct rf_queue *queue)
{
    if (queue) rf_free(queue->backend->allocator, queue);
}

static void gpu_queue_info(const struct rf_queue *queue, struct rf_queue_info *info)
{
    (void)queue;
    *info = (struct rf_queue_info){.threads = 1, .places = 1};
}

static int gpu_queue_calibrate(struct rf_queue *queue, const struct rf_weights *weights,
                               struct rf_error *error)
{
    (void)queue, (void)weights, (void)error; /* nothing to share among workers */
    return 0;
}

static int32_t gpu_view_threads(const struct rf_view *view, int32_t n_rows)
{
    (void)view, (void)n_rows;
    return 1;
}

/* ---- the kind ---- */

static const struct rf_backend_ops ops = {
    .free = gpu_backend_free,
    .queue_new = gpu_queue_new,
    .queue_free = gpu_queue_free,
    .queue_info = gpu_queue_info,
    .queue_calibrate = gpu_queue_calibrate,
    .weights_new = gpu_weights_new,
    .weights_free = gpu_weights_free,
    .cache_new = gpu_cache_new,
    .cache_fork = gpu_cache_fork,
    .cache_free = gpu_cache_free,
    .cache_trim = gpu_cache_trim,
    .cache_settle = gpu_cache_settle,
    .cache_resume = gpu_cache_resume,
    .cache_can_save = gpu_cache_can_save,
    .cache_keep = gpu_cache_keep,
    .cache_bytes = gpu_cache_bytes,
    .cache_held = gpu_cache_held,
    .cache_save = gpu_cache_save,
    .cache_load = gpu_cache_load,
    .view_new = gpu_view_new,
    .view_free = gpu_view_free,
    .submit = gpu_submit,
    .sync = gpu_sync,
    .logits = gpu_logits,
    .tap = gpu_tap,
    .view_threads = gpu_view_threads,
};

static const struct rf_backend_kind kind = {
    .name = "cuda",
    .describe = gpu_describe,
    .open = gpu_open,
    .can_compute = gpu_can_compute,
    .weight_bytes = gpu_weight_bytes,
    .kv_bytes = gpu_kv_bytes,
    .free_bytes = gpu_kind_free_bytes,
    .view_bytes = gpu_view_bytes,
    .measure_read = gpu_measure_read,
};

__attribute__((visibility("default"))) rf_cuda_kind_fn riffle_cuda_kind;

const struct rf_backend_kind *riffle_cuda_kind(size_t fingerprint)
{
    return fingerprint == rf_cuda_fingerprint() ? &kind : NULL;
}
