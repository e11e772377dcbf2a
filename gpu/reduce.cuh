// Sums over the values of a row.
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

static __device__ inline float rms_scale(double sum, int n, float eps)
{
    return __fdiv_rn(1.0f, __fsqrt_rn((float)(sum / n) + eps));
}

#endif
