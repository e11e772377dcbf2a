// What all kernels use: launches that overlap, sums over a warp, and the ways in which rows of
// activations are written (struct gpu_rows).
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

// Results of the kernels before are visible from here on.
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

// A number as a cache of F16 or BF16 numbers holds it.
__device__ inline uint16_t half_bits(float x, int is_bf16)
{
    return is_bf16 ? bf16_bits(x) : __half_as_ushort(__float2half_rn(x));
}

__device__ inline float largest_of(float x)
{
    return warp_max(x == x ? fabsf(x) : 0.0f);
}

// The factor that turns a block's values into integers, and its unit, as in rf_a8 and in rf_a16 (if
// in_16). largest: of all |x|.
__device__ inline float inverse_of(float largest, int in_16, float *d)
{
    *d = 0.0f;
    if (!(largest > 0x1p-100f)) return 0.0f;
    if (!in_16) {
        *d = __fdiv_rn(largest, 127.0f);
        return largest <= 3.4028234e38f ? __fdiv_rn(127.0f, largest) : 0.0f;
    }
    if (largest > 3.4028234e38f) return 0.0f;
    uint32_t exponent = (__float_as_uint(largest) >> 23) - 13;
    *d = __uint_as_float(exponent << 23);
    return __uint_as_float((254 - exponent) << 23);
}

__device__ inline int code_of_value(float x, float inverse, int in_16)
{
    float limit = in_16 ? 16384.0f : 127.0f, rounded = rintf(__fmul_rn(x, inverse));
    return rounded >= -limit && rounded <= limit ? (int)rounded : 0;
}

// sum and later: sums of the codes of the first and of the second half.
__device__ inline void put_piece_scales(const struct gpu_rows &out, int row, int first, float d,
                                        int sum, int later)
{
    float *scales = (float *)(out.pieces + gpu_piece_scales(row, out.pairs, first / RF_BLOCK));
    scales[0] = d;
    scales[2] = __fmul_rn(d, (float)(sum + later));
    scales[16] = __fmul_rn(d, (float)sum);
    scales[18] = __fmul_rn(d, (float)later);
}

__device__ inline uint32_t piece_codes(int first, int second)
{
    __half2 both = __halves2half2(__int2half_rn(first * 512), __int2half_rn(second * 512));
    uint32_t word;
    memcpy(&word, &both, sizeof word);
    return word;
}

static inline bool is_pieces_alone(const struct gpu_rows *out)
{
    return out->pieces && !out->f32 && !out->bf16 && !out->arranged && !out->codes;
}

// Codes of a block, of which each of 8 lanes has four values, and *d. The sum of the codes of the
// half block that the lane is in.
__device__ inline int codes_of_four(const float (&x)[4], int (&codes)[4], float *d)
{
    float largest = 0.0f;
    int sum = 0;
    for (int i = 0; i < 4; i++) largest = fmaxf(largest, x[i] == x[i] ? fabsf(x[i]) : 0.0f);
    for (int e = 4; e > 0; e /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, e));
    float inverse = inverse_of(largest, 0, d);
    for (int i = 0; i < 4; i++) sum += codes[i] = code_of_value(x[i], inverse, 0);
    for (int e = 2; e > 0; e /= 2) sum += __shfl_xor_sync(~0u, sum, e);
    return sum;
}

// Writes pieces alone. 8 lanes have a block of a row, each lane the values j .. j + 3.
__device__ inline void put_four(const struct gpu_rows &out, int row, int j, const float (&x)[4])
{
    float d;
    int codes[4], sum = codes_of_four(x, codes, &d), later = __shfl_down_sync(~0u, sum, 4);
    if (j >= out.pairs * GPU_PAIR) return;
    char *to = out.pieces + gpu_piece_code(row, out.pairs, j);
    *(uint32_t *)to = piece_codes(codes[0], codes[2]);
    *(uint32_t *)(to + 128) = piece_codes(codes[1], codes[3]); // odd values
    if (j % RF_BLOCK == 0) put_piece_scales(out, row, j, d, sum, later);
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
    if (!out.codes && !out.pieces) return;
    float d;
    float inverse = inverse_of(largest_of(x), out.low != NULL, &d);
    int code = code_of_value(x, inverse, out.low != NULL), half = lane / 16, sum = code;
    for (int e = 8; e > 0; e /= 2) sum += __shfl_xor_sync(~0u, sum, e);
    int later = __shfl_sync(~0u, sum, 16);
    if (out.pieces) {
        int next = __shfl_down_sync(~0u, code, 2); // pairs are of even or of odd values
        if (lane % 4 < 2)
            *(uint32_t *)(out.pieces + gpu_piece_code(row, out.pairs, at)) =
                piece_codes(code, next);
        if (lane == 0) put_piece_scales(out, row, first, d, sum, later);
    }
    if (!out.codes) return;
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
