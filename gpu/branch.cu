// Operations that only some architectures and draft heads have, between linear layers and the
// residual stream or behind the head: copies, parts of rows, additions with a norm or a share,
// caps. operations.c launches them.
#include "gpu/reduce.cuh"

enum { THREADS = 256 };

// A warp for 32 values of a row.
static __global__ void branch_copy(struct gpu_rows out, const float *x)
{
    wait_for_previous();
    int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * WARP, j = first + threadIdx.x % WARP;
    if (first >= out.pairs * GPU_PAIR) return;
    put_values(out, blockIdx.y, first, j < out.width ? x[(size_t)blockIdx.y * out.width + j] : 0);
}

extern "C" cudaError_t gpu_copy(const struct gpu_launch *launch, const struct gpu_rows *out,
                                const float *x, int32_t n)
{
    dim3 grid((unsigned)((out->pairs * GPU_PAIR + THREADS - 1) / THREADS), (unsigned)n);
    return launch_kernel(launch, branch_copy, grid, THREADS, 0, *out, x);
}

// A block of threads for each row. A norm has the bits of gpu_norm.
static __global__ void __launch_bounds__(NORM_THREADS)
    branch_put_part(const __grid_constant__ struct gpu_part args, const int32_t *picked)
{
    wait_for_previous();
    size_t row = picked ? picked[blockIdx.x] : blockIdx.x;
    const float *x = args.x + row * args.width;
    float *out = args.out + (size_t)blockIdx.x * args.whole, norm = 1.0f;
    double sum = 0;
    for (int j = threadIdx.x; args.gain && j < args.width; j += NORM_THREADS)
        sum += (double)x[j] * (double)x[j];
    if (args.gain) norm = rms_scale(block_sum(sum), args.width, args.eps);
    for (int j = threadIdx.x; j < args.width; j += NORM_THREADS)
        out[j] = args.gain ? __fmul_rn(__fmul_rn(x[j], norm), args.gain[j]) : x[j];
}

extern "C" cudaError_t gpu_put_part(const struct gpu_launch *launch, const struct gpu_part *args,
                                    const int32_t *picked, int32_t n)
{
    return launch_kernel(launch, branch_put_part, dim3((unsigned)n), NORM_THREADS, 0, *args,
                         picked);
}

// A block of threads for each row.
static __global__ void __launch_bounds__(NORM_THREADS)
    branch_add(const __grid_constant__ struct gpu_add args)
{
    wait_for_previous();
    const float *x = args.x + (size_t)blockIdx.x * args.width;
    float *out = args.out + (size_t)blockIdx.x * args.width, norm = 1.0f;
    double sum = 0;
    for (int j = threadIdx.x; args.gain && j < args.width; j += NORM_THREADS)
        sum += (double)x[j] * (double)x[j];
    if (args.gain) norm = rms_scale(block_sum(sum), args.width, args.eps);
    float scale = args.share ? 1.0f / (1.0f + expf(-args.share[blockIdx.x])) : args.scale;
    for (int j = threadIdx.x; j < args.width; j += NORM_THREADS) {
        float value = args.gain ? __fmul_rn(__fmul_rn(x[j], norm), args.gain[j]) : x[j];
        out[j] = __fadd_rn(out[j], __fmul_rn(scale, value));
    }
}

extern "C" cudaError_t gpu_add(const struct gpu_launch *launch, const struct gpu_add *args,
                               int32_t n)
{
    return launch_kernel(launch, branch_add, dim3((unsigned)n), NORM_THREADS, 0, *args);
}

static __global__ void branch_cap(float *out, const float *x, float scale, float cap, size_t n)
{
    wait_for_previous();
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) out[i] = cap > 0.0f ? cap * tanhf(scale * x[i] / cap) : scale * x[i];
}

extern "C" cudaError_t gpu_cap(const struct gpu_launch *launch, float *out, const float *x,
                               float scale, float cap, size_t n)
{
    return launch_kernel(launch, branch_cap, dim3((unsigned)((n + THREADS - 1) / THREADS)), THREADS,
                         0, out, x, scale, cap, n);
}
