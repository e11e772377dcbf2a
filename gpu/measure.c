/* How fast the device reads its memory: the kind's measure_read, for the ceiling beside a model's
 * speed. */
#include <stdio.h>

#include "base/median.h"
#include "gpu/cuda_backend.h"

enum { ROUNDS = 9 };
static const size_t AREA = (size_t)1 << 30; /* larger than any cache */

/* Bytes a second of ROUNDS readings. */
static int measure_readings(const struct gpu_backend *backend, void *area, const cudaEvent_t at[2],
                            double speeds[ROUNDS], struct rf_error *error)
{
    cudaStream_t stream = backend->stream;
    cudaError_t status = cudaMemsetAsync(area, 1, AREA, stream);
    for (int i = 0; i < ROUNDS && status == cudaSuccess; i++) {
        float ms = 0;
        status = cudaEventRecord(at[0], stream);
        if (status == cudaSuccess) status = gpu_read(stream, area, AREA, area);
        if (status == cudaSuccess) status = cudaEventRecord(at[1], stream);
        if (status == cudaSuccess) status = cudaEventSynchronize(at[1]);
        if (status == cudaSuccess) status = cudaEventElapsedTime(&ms, at[0], at[1]);
        speeds[i] = (double)AREA / ((double)ms * 1e-3);
    }
    return gpu_check(status, "reading memory", error);
}

int gpu_measure_read(const struct rf_backend_options *options, int32_t threads,
                     const struct rf_allocator *allocator, struct rf_read_speed *speed,
                     struct rf_error *error)
{
    (void)threads, (void)allocator;
    struct gpu_backend device;
    double speeds[ROUNDS] = {0};
    cudaEvent_t at[2] = {NULL, NULL};
    int code = gpu_device_open(&device, options, error);
    if (code) return code;
    void *area = gpu_take(&device, AREA, "measuring", error);
    code = area ? 0 : RF_ERR_MEMORY;
    for (int i = 0; !code && i < 2; i++)
        code = gpu_check(cudaEventCreate(&at[i]), "an event", error);
    if (!code) code = measure_readings(&device, area, at, speeds, error);
    for (int i = 0; i < 2; i++)
        if (at[i]) cudaEventDestroy(at[i]);
    gpu_give(&device, area);
    gpu_device_close(&device);
    if (code) return code;
    speed->bytes_per_second = rf_median(speeds, ROUNDS); /* sorts them */
    speed->best = speeds[ROUNDS - 1];
    snprintf(speed->pattern, sizeof speed->pattern, "16 bytes a thread, all processors");
    return 0;
}
