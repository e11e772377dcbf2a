// What the kernels share.
#ifndef RF_GPU_LAUNCH_CUH
#define RF_GPU_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/kernels.h"

enum { WARP = 32 };

// The next kernel is brought onto the processors as soon as there is room, even before this one's
// wait is over, since it waits, too. The sooner, the longer its weights have been on their way.
__device__ inline void let_next_begin()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// What the kernels before wrote is visible from here on.
__device__ inline void wait_for_previous()
{
    let_next_begin();
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// The same, before the next kernel begins: what was written before this one is visible to it
// without a wait, and it runs beside this one.
__device__ inline void wait_before_next()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
    let_next_begin();
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(const struct gpu_launch *launch, void (*kernel)(Parameters...), dim3 grid,
                          unsigned threads, size_t shared, Arguments... arguments)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = launch->stream;
    config.attrs = &attribute;
    config.numAttrs = launch->overlap ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

__device__ inline float warp_max(float x)
{
    for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

template <typename T> __device__ inline T warp_sum(T x)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__device__ inline float silu(float x)
{
    return x / (1.0f + expf(-x));
}

__device__ inline uint16_t bf16_bits(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// Of a cache of F16 or BF16 numbers.
__device__ inline uint16_t half_bits(float x, int is_bf16)
{
    return is_bf16 ? bf16_bits(x) : __half_as_ushort(__float2half_rn(x));
}

__device__ inline float largest_of(float x)
{
    return warp_max(x == x ? fabsf(x) : 0.0f);
}

// The integer of a lane's value and the block's unit, as in rf_a8 and in rf_a16 (if in_16).
__device__ inline int code_of_value(float x, int in_16, float *d)
{
    float largest = largest_of(x), inverse = 0.0f, limit = in_16 ? 16384.0f : 127.0f;
    *d = 0.0f;
    if (largest > 0x1p-100f && in_16 && largest <= 3.4028234e38f) {
        uint32_t exponent = (__float_as_uint(largest) >> 23) - 13;
        *d = __uint_as_float(exponent << 23);
        inverse = __uint_as_float((254 - exponent) << 23);
    } else if (largest > 0x1p-100f && !in_16) {
        *d = __fdiv_rn(largest, 127.0f);
        if (largest <= 3.4028234e38f) inverse = __fdiv_rn(127.0f, largest);
    }
    float rounded = rintf(__fmul_rn(x, inverse));
    return rounded >= -limit && rounded <= limit ? (int)rounded : 0;
}

// Writes the values [first, first + 32) of a row, one of each lane, in all forms that are wanted.
// Values behind the width are 0.
__device__ inline void put_values(const struct gpu_rows &out, int row, int first, float x)
{
    int lane = threadIdx.x % WARP, at = first + lane, block = first / RF_BLOCK;
    if (out.f32 && at < out.width) out.f32[(size_t)row * out.width + at] = x;
    if (out.bf16)
        out.bf16[gpu_row_place(row, out.pairs * 2, block) * RF_BLOCK + lane] = bf16_bits(x);
    if (out.arranged) out.arranged[gpu_arranged_place(row, out.pairs * 2, at)] = bf16_bits(x);
    if (!out.codes) return;
    float d;
    int code = code_of_value(x, out.low != NULL, &d), half = lane / 16, sum = code;
    for (int e = 8; e > 0; e /= 2) sum += __shfl_xor_sync(~0u, sum, e);
    int later = __shfl_sync(~0u, sum, 16);
    size_t place = gpu_row_place(row, out.pairs, block / 2) * GPU_PAIR + lane % 16 / 4 * 16 +
                   block % 2 * 8 + half * 4 + lane % 4;
    out.codes[place] = (int8_t)(out.low ? code >> 8 : code);
    if (out.low) out.low[place] = (uint8_t)code;
    if (lane > 0) return;
    size_t of_block = gpu_row_place(row, out.pairs * 2, block);
    ((float2 *)out.scales)[of_block] = make_float2(d, (float)(sum + later));
    ((float2 *)out.halves)[of_block] = make_float2((float)sum, (float)later);
}

#endif
