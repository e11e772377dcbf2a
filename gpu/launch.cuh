// What the kernels share.
#ifndef RF_GPU_LAUNCH_CUH
#define RF_GPU_LAUNCH_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/kernels.h"

enum { WARP = 32 };

// Begins a kernel: what the one before it wrote is visible from here on. The next one may be
// brought onto the processors meanwhile.
__device__ inline void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
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

__device__ inline uint16_t bf16_bits(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// Writes the values [first, first + 32) of a row, one of each lane, in all forms that are wanted.
// Values behind the width are 0. The 8-bit form is that of rf_a8.
__device__ inline void put_values(const struct gpu_rows &out, int row, int first, float x)
{
    int lane = threadIdx.x % WARP, at = first + lane;
    size_t padded = (size_t)out.pairs * GPU_PAIR;
    if (out.f32 && at < out.width) out.f32[(size_t)row * out.width + at] = x;
    if (out.bf16) out.bf16[row * padded + at] = bf16_bits(x);
    if (!out.codes) return;
    float largest = warp_max(x == x ? fabsf(x) : 0.0f);
    float inverse =
        largest > 0x1p-100f && largest <= 3.4028234e38f ? __fdiv_rn(127.0f, largest) : 0;
    float rounded = rintf(__fmul_rn(x, inverse));
    int code = rounded >= -127.0f && rounded <= 127.0f ? (int)rounded : 0;
    int half = lane / 16, sum = code;
    for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    int sum0 = __shfl_sync(~0u, sum, 0), sum1 = __shfl_sync(~0u, sum, 16);
    int block = first / RF_BLOCK;
    out.codes[row * padded + block / 2 * GPU_PAIR + lane % 16 / 4 * 16 + block % 2 * 8 + half * 4 +
              lane % 4] = (int8_t)code;
    if (lane > 0) return;
    float d = largest > 0x1p-100f ? __fdiv_rn(largest, 127.0f) : 0.0f;
    ((int2 *)out.scales)[(size_t)row * out.pairs * 2 + block] =
        make_int2(__float_as_int(d), ((sum0 + sum1) & 0xffff) | sum1 << 16);
}

#endif
