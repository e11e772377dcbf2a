// Turns logits into answers: the best candidates or a logprob of each row. One kernel finds them in
// GPU_SPLITS parts of a row, a second one puts the parts together. operations.c calls it behind the
// head.
#include "gpu/launch.cuh"

enum { THREADS = 256 };

__device__ inline bool comes_before(const struct gpu_candidate &a, const struct gpu_candidate &b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// The candidate that comes before all others of a block's threads; token INT32_MAX: there is none.
static __device__ struct gpu_candidate first_of_block(struct gpu_candidate mine)
{
    __shared__ struct gpu_candidate found[THREADS / WARP];
    for (int d = 16; d > 0; d /= 2) {
        struct gpu_candidate other = {__shfl_xor_sync(~0u, mine.token, d),
                                      __shfl_xor_sync(~0u, mine.logit, d)};
        if (comes_before(other, mine)) mine = other;
    }
    __syncthreads();
    if (threadIdx.x % WARP == 0) found[threadIdx.x / WARP] = mine;
    __syncthreads();
    for (int w = 0; w < THREADS / WARP; w++)
        if (comes_before(found[w], mine)) mine = found[w];
    return mine;
}

static __device__ double sum_of_block(double x)
{
    __shared__ double sums[THREADS / WARP];
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();
    x = 0;
    for (int w = 0; w < THREADS / WARP; w++) x += sums[w];
    return x;
}

__device__ const struct gpu_candidate NONE = {INT32_MAX, -INFINITY};

// Calls `take` with each candidate of this thread: tokens of the part that the mask has and whose
// logits are numbers above -inf.
template <typename Take>
static __device__ void each_candidate(const struct gpu_choice &args, int row, int part, Take take)
{
    const float *logits = args.logits + (size_t)row * args.vocab;
    const uint64_t *mask = args.masks && args.has_mask[row]
                               ? args.masks + (size_t)row * ((args.vocab + 63) / 64)
                               : NULL;
    int begin = (int)((int64_t)args.vocab * part / GPU_SPLITS),
        end = (int)((int64_t)args.vocab * (part + 1) / GPU_SPLITS);
    for (int t = begin + (int)threadIdx.x; t < end; t += THREADS) {
        float logit = logits[t];
        if (logit > -INFINITY && (!mask || (mask[t / 64] >> t % 64 & 1))) take(t, logit);
    }
}

static __global__ void __launch_bounds__(THREADS)
    answer_find_parts(const __grid_constant__ struct gpu_choice args)
{
    wait_for_previous();
    int row = blockIdx.y, part = blockIdx.x;
    struct gpu_split *split = &args.splits[(size_t)row * GPU_SPLITS + part];
    struct gpu_candidate last = {-1, INFINITY}, largest = NONE;
    for (int i = 0; i < max(args.n_best, 1); i++) {
        struct gpu_candidate mine = NONE;
        each_candidate(args, row, part, [&](int t, float logit) {
            struct gpu_candidate found = {t, logit};
            if (comes_before(last, found) && comes_before(found, mine)) mine = found;
        });
        last = first_of_block(mine);
        if (i == 0) largest = last;
        if (threadIdx.x == 0) {
            if (last.token != NONE.token) split->top[i] = last;
            split->n = last.token != NONE.token ? i + 1 : i;
        }
        if (last.token == NONE.token) break;
    }
    double mass = 0;
    each_candidate(args, row, part, [&](int t, float logit) {
        (void)t;
        mass += (double)expf(logit - largest.logit);
    });
    mass = sum_of_block(mass);
    if (threadIdx.x > 0) return;
    split->largest = largest.logit;
    split->mass = mass;
}

// A warp for each row; lane l has the parts l and l + 32.
static __global__ void answer_put_together(const __grid_constant__ struct gpu_choice args)
{
    wait_for_previous();
    int row = blockIdx.x, lane = threadIdx.x;
    const struct gpu_split *splits = args.splits + (size_t)row * GPU_SPLITS;
    float largest = -INFINITY;
    for (int p = lane; p < GPU_SPLITS; p += WARP) largest = fmaxf(largest, splits[p].largest);
    largest = warp_max(largest);
    double mass = 0;
    for (int p = lane; p < GPU_SPLITS; p += WARP)
        if (splits[p].mass > 0) mass += splits[p].mass * exp((double)splits[p].largest - largest);
    mass = warp_sum(mass);
    if (args.logprobs && lane == 0) {
        float logit = args.logits[(size_t)row * args.vocab + args.targets[row]];
        args.logprobs[row] = (double)(logit - largest) - log(mass);
    }
    if (!args.best) return;
    int taken[GPU_SPLITS / WARP] = {}, n = 0;
    for (; n < args.n_best; n++) {
        struct gpu_candidate mine = NONE;
        for (int i = 0; i < GPU_SPLITS / WARP; i++) {
            const struct gpu_split *split = &splits[lane + i * WARP];
            if (taken[i] < split->n && comes_before(split->top[taken[i]], mine))
                mine = split->top[taken[i]];
        }
        for (int d = 16; d > 0; d /= 2) {
            struct gpu_candidate other = {__shfl_xor_sync(~0u, mine.token, d),
                                          __shfl_xor_sync(~0u, mine.logit, d)};
            if (comes_before(other, mine)) mine = other;
        }
        if (mine.token == NONE.token) break;
        for (int i = 0; i < GPU_SPLITS / WARP; i++) {
            const struct gpu_split *split = &splits[lane + i * WARP];
            if (taken[i] < split->n && split->top[taken[i]].token == mine.token) taken[i]++;
        }
        if (lane == 0) args.best[row].top[n] = mine;
    }
    if (lane > 0) return;
    args.best[row].n = isfinite(largest) ? n : 0;
    args.best[row].mass = (float)mass;
}

extern "C" cudaError_t gpu_choose(const struct gpu_launch *launch, const struct gpu_choice *args,
                                  int32_t n)
{
    cudaError_t error =
        launch_kernel(launch, answer_find_parts, dim3(GPU_SPLITS, (unsigned)n), THREADS, 0, *args);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, answer_put_together, dim3((unsigned)n), WARP, 0, *args);
}
