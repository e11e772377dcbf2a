/* The CUDA backend's kind, its devices and their memory. The library finds the kind through the
 * entry point at the end (devices/cuda_module.h). Every call on a device first makes it the calling
 * thread's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cuda_module.h"
#include "gpu/cuda_backend.h"

enum {
    MIN_CAPABILITY = 8, /* compute capability that has mma.sync on BF16 */
    MOST_DEVICES = 64   /* names that are kept */
};

/* ---- devices and errors ---- */

void gpu_enter(const struct rf_backend *backend)
{
    cudaSetDevice(gpu_backend_of(backend)->device);
}

int gpu_check(cudaError_t status, const char *what, struct rf_error *error)
{
    if (status == cudaSuccess) return 0;
    cudaGetLastError(); /* one that does not stick is over */
    return rf_fail(error, status == cudaErrorMemoryAllocation ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
                   "CUDA, %s: %s", what, cudaGetErrorString(status));
}

void *gpu_take(const struct gpu_backend *backend, size_t bytes, const char *what,
               struct rf_error *error)
{
    void *memory = NULL;
    cudaError_t status = cudaMallocAsync(&memory, bytes ? bytes : 1, backend->stream);
    if (status == cudaSuccess) return memory;
    cudaGetLastError();
    rf_fail(error, status == cudaErrorMemoryAllocation ? RF_ERR_MEMORY : RF_ERR_SYSTEM,
            "CUDA, %s: %zu bytes of the device's memory: %s", what, bytes,
            cudaGetErrorString(status));
    return NULL;
}

void gpu_give(const struct gpu_backend *backend, void *memory)
{
    if (memory) cudaFreeAsync(memory, backend->stream);
}

int gpu_free_bytes(const struct gpu_backend *backend, uint64_t *bytes, struct rf_error *error)
{
    size_t free_bytes = 0, all = 0;
    uint64_t reserved = 0, used = 0; /* memory of the process, which keeps what was given back */
    cudaMemPool_t pool;
    cudaError_t status = cudaMemGetInfo(&free_bytes, &all);
    if (status == cudaSuccess) status = cudaDeviceGetDefaultMemPool(&pool, backend->device);
    if (status == cudaSuccess)
        status = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
    if (status == cudaSuccess)
        status = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
    *bytes = free_bytes + (reserved - used);
    return gpu_check(status, "the device's memory", error);
}

/* The device that the options name. */
static int find_gpu_device(const struct rf_backend_options *options, int *device,
                           struct cudaDeviceProp *properties, struct rf_error *error)
{
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    *device = options->device;
    if (status != cudaSuccess || count == 0) {
        cudaGetLastError();
        return rf_fail(error, RF_ERR_UNSUPPORTED, "CUDA finds no device: %s",
                       status == cudaSuccess ? "the driver lists none"
                                             : cudaGetErrorString(status));
    }
    if (*device < 0 || *device >= count)
        return rf_fail(error, RF_ERR_ARGUMENT, "cuda:%d: this machine has %d CUDA device%s",
                       *device, count, count == 1 ? "" : "s");
    int code = gpu_check(cudaGetDeviceProperties(properties, *device), "a device", error);
    if (code) return code;
    if (properties->major < MIN_CAPABILITY)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "cuda:%d: %s has compute capability %d.%d, the least is %d.0", *device,
                       properties->name, properties->major, properties->minor, MIN_CAPABILITY);
    return 0;
}

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
    int device, code = find_gpu_device(options, &device, &properties, error);
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
    int code = find_gpu_device(options, &device.device, &properties, error);
    if (code) return code;
    gpu_enter(&device.base);
    return gpu_free_bytes(&device, bytes, error);
}

static void gpu_backend_free(struct rf_backend *base)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    gpu_enter(base);
    cudaStreamSynchronize(backend->stream);
    cudaStreamDestroy(backend->stream);
    rf_free(base->allocator, backend);
}

static size_t gpu_first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

/* Memory that was given back stays with the process. */
static cudaError_t keep_memory(int device)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    cudaError_t status = cudaDeviceGetDefaultMemPool(&pool, device);
    return status == cudaSuccess
               ? cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all)
               : status;
}

static const struct rf_backend_ops ops;

int gpu_open(struct rf_backend **backend, const struct rf_backend_options *options,
             const struct rf_allocator *allocator, struct rf_error *error)
{
    struct cudaDeviceProp properties;
    int device, code = find_gpu_device(options, &device, &properties, error);
    *backend = NULL;
    if (code) return code;
    struct gpu_backend *made = rf_calloc(allocator, 1, sizeof *made, "backend", error);
    if (!made) return RF_ERR_MEMORY;
    made->base =
        (struct rf_backend){.ops = &ops, .allocator = allocator, .first_above = gpu_first_above};
    made->device = device;
    made->overlap = properties.major >= 9;
    made->has_wgmma = gpu_has_wide(properties.major, properties.minor);
    gpu_enter(&made->base);
    code = gpu_check(keep_memory(device), "the memory pool", error);
    if (!code)
        code = gpu_check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking),
                         "a stream", error);
    if (code) {
        rf_free(allocator, made);
        return code;
    }
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
