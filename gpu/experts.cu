// Mixtures of experts: rows choose experts, and choices of the same expert come together. Their
// linear layers are run by linear.cu, with one group of rows for each expert.
#include <limits.h>

#include "gpu/launch.cuh"

enum { THREADS = 256, CHOOSERS = 1024 };

static_assert(CHOOSERS >= 1024, "a thread for each expert: RF_MAX_EXPERTS");

// The greatest value behind `last`, of equal ones the lowest expert; in all lanes of a warp. What
// is no number counts as the least.
struct candidate {
    float value;
    int expert;
};

static __device__ bool is_before(const struct candidate &a, const struct candidate &b)
{
    return a.value > b.value || (a.value == b.value && a.expert < b.expert);
}

static __device__ float value_of(const float *values, int expert)
{
    return values[expert] == values[expert] ? values[expert] : -INFINITY;
}

static __device__ struct candidate next_best(const float *values, int n, struct candidate last)
{
    struct candidate best = {-INFINITY, INT_MAX};
    for (int e = threadIdx.x % WARP; e < n; e += WARP) {
        struct candidate here = {value_of(values, e), e};
        if (is_before(last, here) && is_before(here, best)) best = here;
    }
    for (int d = WARP / 2; d > 0; d /= 2) {
        struct candidate other = {__shfl_xor_sync(~0u, best.value, d),
                                  __shfl_xor_sync(~0u, best.expert, d)};
        if (is_before(other, best)) best = other;
    }
    return best;
}

// A warp makes the choices of one row, and counts how often each expert is chosen.
static __device__ void choose_row(const struct gpu_experts &args, const float *values,
                                  struct gpu_share *shares, int *counts)
{
    int lane = threadIdx.x % WARP;
    struct candidate last = {INFINITY, -1};
    float largest = 0.0f, sum = 0.0f;
    for (int r = 0; r < args.used; r++) {
        last = next_best(values, args.n_expert, last);
        if (r == 0) largest = last.value;
        float share = expf(last.value - largest);
        if (args.norm) sum += share;
        if (lane > 0) continue;
        shares[r].expert = last.expert;
        shares[r].share = share;
        atomicAdd(&counts[last.expert], 1);
    }
    if (!args.norm) {
        for (int e = lane; e < args.n_expert; e += WARP) sum += expf(value_of(values, e) - largest);
        sum = warp_sum(sum);
    }
    for (int r = 0; lane == 0 && r < args.used; r++)
        shares[r].share = __fdiv_rn(shares[r].share, sum);
}

// The sums of the threads' numbers before each of them; n: how many threads count.
static __device__ int2 sums_before(int2 mine, int n)
{
    __shared__ int2 sums[CHOOSERS];
    int i = threadIdx.x;
    int2 sum = mine;
    for (int d = 1; d < n; d *= 2) {
        sums[i] = sum;
        __syncthreads();
        if (i >= d) sum = make_int2(sum.x + sums[i - d].x, sum.y + sums[i - d].y);
        __syncthreads();
    }
    return make_int2(sum.x - mine.x, sum.y - mine.y);
}

// One block of threads. The order of an expert's rows is that in which the threads come.
static __global__ void __launch_bounds__(CHOOSERS)
    experts_choose(const __grid_constant__ struct gpu_experts args, const float *routed, int n,
                   int group_rows, int most_rows, int most_groups)
{
    __shared__ int counts[CHOOSERS], next[CHOOSERS];
    int expert = threadIdx.x, used = args.used;
    counts[expert] = 0;
    wait_for_previous();
    for (int i = threadIdx.x; i < most_rows; i += CHOOSERS) args.sources[i] = -1;
    for (int i = threadIdx.x; i < most_groups; i += CHOOSERS) args.groups[i].n = 0;
    __syncthreads();
    for (int row = threadIdx.x / WARP; row < n; row += CHOOSERS / WARP)
        choose_row(args, routed + (size_t)row * args.n_expert, args.shares + (size_t)row * used,
                   counts);
    __syncthreads();
    int count = counts[expert], groups = (count + group_rows - 1) / group_rows,
        rows = (count + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP * GPU_ROW_GROUP;
    int2 before = sums_before(make_int2(rows, groups), args.n_expert);
    next[expert] = before.x;
    for (int g = 0; g < groups; g++)
        args.groups[before.y + g] = {expert, before.x + g * group_rows,
                                     min(group_rows, count - g * group_rows)};
    __syncthreads();
    for (int i = threadIdx.x; i < n * used; i += CHOOSERS) {
        struct gpu_share &share = args.shares[i];
        share.row = atomicAdd(&next[share.expert], 1);
        args.sources[share.row] = i / used;
    }
}

extern "C" cudaError_t gpu_choose_experts(const struct gpu_launch *launch,
                                          const struct gpu_experts *experts, const float *routed,
                                          int32_t n)
{
    return launch_kernel(launch, experts_choose, dim3(1), CHOOSERS, 0, *experts, routed, n,
                         gpu_group_rows(n), gpu_expert_rows(experts, n),
                         gpu_expert_groups(experts, n));
}

// A warp for 32 values of a row by expert.
static __global__ void experts_gather(struct gpu_rows out, const float *x, const int32_t *sources)
{
    wait_for_previous();
    int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * WARP, j = first + threadIdx.x % WARP;
    int source = sources[blockIdx.y];
    if (first >= out.pairs * GPU_PAIR || source < 0) return;
    put_values(out, blockIdx.y, first, j < out.width ? x[(size_t)source * out.width + j] : 0.0f);
}

extern "C" cudaError_t gpu_gather(const struct gpu_launch *launch,
                                  const struct gpu_experts *experts, const struct gpu_rows *out,
                                  const float *x, int32_t n)
{
    dim3 grid((unsigned)((out->pairs * GPU_PAIR + THREADS - 1) / THREADS),
              (unsigned)gpu_expert_rows(experts, n));
    return launch_kernel(launch, experts_gather, grid, THREADS, 0, *out, x, experts->sources);
}

static __global__ void experts_sum(float *out, const float *x, const struct gpu_share *shares,
                                   int used, int width)
{
    wait_for_previous();
    int j = blockIdx.x * THREADS + threadIdx.x;
    if (j >= width) return;
    float sum = 0.0f;
    for (int r = 0; r < used; r++) {
        struct gpu_share share = shares[(size_t)blockIdx.y * used + r];
        sum = __fmaf_rn(share.share, x[(size_t)share.row * width + j], sum);
    }
    out[(size_t)blockIdx.y * width + j] += sum;
}

extern "C" cudaError_t gpu_sum_experts(const struct gpu_launch *launch,
                                       const struct gpu_experts *experts, float *out,
                                       const float *x, int32_t width, int32_t n)
{
    dim3 grid((unsigned)((width + THREADS - 1) / THREADS), (unsigned)n);
    return launch_kernel(launch, experts_sum, grid, THREADS, 0, out, x, experts->shares,
                         experts->used, width);
}
