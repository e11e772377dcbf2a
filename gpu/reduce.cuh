// Sums over the values of a row, each in one order: RMS norms, and the squares of folded norms.
#ifndef RF_GPU_REDUCE_CUH
#define RF_GPU_REDUCE_CUH

#include "gpu/launch.cuh"

enum { NORM_THREADS = 1024 };

// The sum over all NORM_THREADS threads of a block, in one order.
static __device__ inline double block_sum(double x)
{
    __shared__ double sums[NORM_THREADS / WARP];
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();
    return warp_sum(sums[threadIdx.x % WARP]);
}

template <typename T> static __device__ inline float rms_scale(T sum, int n, float eps)
{
    return __fdiv_rn(1.0f, __fsqrt_rn((float)(sum / n) + eps));
}

// 1 / rms of a row of n values, with the bits that NORM_THREADS threads find, of which each of
// WARPS warps does several one's work.
template <int WARPS> static __device__ inline float norm_scale(const float *x, int n, float eps)
{
    constexpr int TURNS = NORM_THREADS / WARP / WARPS;
    __shared__ double sums[NORM_THREADS / WARP];
    __shared__ float scale;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    double sum[TURNS] = {};
#pragma unroll 2
    for (int first = threadIdx.x; first < n; first += NORM_THREADS)
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            int j = first + i * WARPS * WARP;
            double value = j < n ? x[j] : 0.0f;
            sum[i] += value * value;
        }
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        sum[i] = warp_sum(sum[i]);
        if (lane == 0) sums[i * WARPS + warp] = sum[i];
    }
    __syncthreads();
    if (warp == 0) {
        double all = warp_sum(sums[lane]);
        if (lane == 0) scale = rms_scale(all, n, eps);
    }
    __syncthreads();
    return scale;
}

// ---- folded norms ----

// The sum of the squares of GPU_SQUARES values, one of each lane.
static __device__ inline float sum_squares(float x)
{
    float sum = __fmul_rn(x, x);
    for (int d = GPU_SQUARES / 2; d > 0; d /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, d));
    return sum;
}

// The same sum, of two neighbouring values of each lane.
static __device__ inline float sum_squares(float2 x)
{
    float2 sum = make_float2(__fmul_rn(x.x, x.x), __fmul_rn(x.y, x.y));
    for (int d = GPU_SQUARES / 4; d > 0; d /= 2) {
        sum.x = __fadd_rn(sum.x, __shfl_xor_sync(~0u, sum.x, d));
        sum.y = __fadd_rn(sum.y, __shfl_xor_sync(~0u, sum.y, d));
    }
    return __fadd_rn(sum.x, sum.y);
}

// 1 / rms of a row of n values, by a warp.
static __device__ inline float folded_scale(const float *squares, int n, float eps)
{
    float sum = 0.0f;
    for (int i = threadIdx.x % WARP; i < n / GPU_SQUARES; i += WARP)
        sum = __fadd_rn(sum, squares[i]);
    return rms_scale(warp_sum(sum), n, eps);
}

#endif
