/* Helpers for tests of CUDA kernels: memory on both sides, and numbers that look random. */
#ifndef RF_TEST_GPU_DEVICE_H
#define RF_TEST_GPU_DEVICE_H

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST_RUN(call)                                                    \
    do {                                                                  \
        cudaError_t status_ = (call);                                     \
        if (status_ != cudaSuccess) {                                     \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(status_));                         \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

/* 24 bits. */
static inline uint32_t random_bits(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* In [-1, 1). */
static inline float random_float(void)
{
    return (float)random_bits() / (float)(1 << 23) - 1.0f;
}

/* Zeros, from a multiple of 64 on. */
static inline void *host_memory(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!memory) exit(1);
    memset(memory, 0, bytes);
    return memory;
}

/* data: NULL for bytes of 0xff, which are no numbers. */
static inline void *device_memory(const void *data, size_t bytes)
{
    void *memory;
    MUST_RUN(cudaMalloc(&memory, bytes));
    MUST_RUN(data ? cudaMemcpy(memory, data, bytes, cudaMemcpyHostToDevice)
                  : cudaMemset(memory, 0xff, bytes));
    return memory;
}

#endif
