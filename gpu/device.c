/* A CUDA device: its stream, its memory and its errors. Every other file of the backend takes
 * memory and checks calls here; this one calls none of them. A call on a device first makes it the
 * calling thread's. */
#include "gpu/cuda_backend.h"

enum { MIN_CAPABILITY = 8 /* compute capability that has mma.sync on BF16 */ };

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

int gpu_find_device(const struct rf_backend_options *options, int *device,
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

int gpu_device_open(struct gpu_backend *device, const struct rf_backend_options *options,
                    struct rf_error *error)
{
    struct cudaDeviceProp properties;
    *device = (struct gpu_backend){.device = 0};
    int code = gpu_find_device(options, &device->device, &properties, error);
    if (code) return code;
    device->overlap = properties.major >= 9;
    device->has_wgmma = gpu_has_wide(properties.major, properties.minor);
    gpu_enter(&device->base);
    code = gpu_check(keep_memory(device->device), "the memory pool", error);
    return code ? code
                : gpu_check(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking),
                            "a stream", error);
}

void gpu_device_close(struct gpu_backend *device)
{
    gpu_enter(&device->base);
    cudaStreamSynchronize(device->stream);
    cudaStreamDestroy(device->stream);
}
