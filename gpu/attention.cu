// Attention over chunks of GPU_CHUNK positions. A chunk gives a partial result for each query: sums
// of values, the greatest score and the sum of weights. Partial results are merged in the order of
// the chunks, so a row's bits depend on the positions that it sees alone.
#include "gpu/launch.cuh"

enum { THREADS = 2 * GPU_CHUNK, QUERIES = 8 }; // of a round

__device__ inline float2 to_floats(uint32_t two, bool is_bf16)
{
    if (is_bf16) return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
    return __half22float2(*(const __half2 *)&two);
}

__device__ inline size_t result_floats(const struct gpu_heads &heads)
{
    return (size_t)heads.padded + 2;
}

__device__ inline float *partial_of(const struct gpu_attention &args, int row, int head, int chunk)
{
    size_t at = ((size_t)(row - args.first_row) * args.heads.n_head + head) * args.chunks + chunk;
    return args.partials + at * result_floats(args.heads);
}

// What a block of threads shares.
struct shared {
    uint16_t *k, *v;                 // [GPU_CHUNK][stride]
    float *q;                        // [QUERIES][padded]
    float (*weights)[2 * GPU_CHUNK]; // [QUERIES]: two halves of each score, then the weights
    int *visible;                    // [QUERIES]
    int stride;
};

// Copies the chunk's keys and values of one KV head, as the tile's first row sees them.
__device__ inline void load_chunk(const struct gpu_attention &args, const struct shared &shared,
                                  const struct gpu_row &row, int head, int start, int count)
{
    const struct gpu_heads &heads = args.heads;
    int pieces = heads.padded / 8;
    size_t plane = (size_t)(args.layer * heads.n_head_kv + head) * 2 * GPU_KV_BLOCK;
    for (int i = threadIdx.x; i < count * pieces; i += THREADS) {
        int p = i / pieces, j = i % pieces * 8, slot = start + p;
        if (row.map != GPU_NO_MAP && slot >= row.first)
            slot = args.pass.maps[row.map + slot - row.first];
        const uint16_t *k = args.pass.blocks[row.table + slot / GPU_KV_BLOCK] +
                            (plane + slot % GPU_KV_BLOCK) * heads.padded + j;
        *(uint4 *)(shared.k + p * shared.stride + j) = *(const uint4 *)k;
        *(uint4 *)(shared.v + p * shared.stride + j) =
            *(const uint4 *)(k + (size_t)GPU_KV_BLOCK * heads.padded);
    }
}

// Thread (half, p) adds the products of half of the dimensions.
template <bool BF16>
__device__ inline void score(const struct shared &shared, int padded, int count)
{
    int p = threadIdx.x % GPU_CHUNK, half = threadIdx.x / GPU_CHUNK;
    int split = (padded / 8 + 1) / 2 * 8, begin = half ? split : 0, end = half ? padded : split;
    float sums[QUERIES] = {};
    if (p < count)
        for (int j = begin; j < end; j += 8) {
            uint4 words = *(const uint4 *)(shared.k + p * shared.stride + j);
            float2 a = to_floats(words.x, BF16), b = to_floats(words.y, BF16),
                   c = to_floats(words.z, BF16), d = to_floats(words.w, BF16);
#pragma unroll
            for (int i = 0; i < QUERIES; i++) {
                float4 q = *(const float4 *)(shared.q + i * padded + j),
                       r = *(const float4 *)(shared.q + i * padded + j + 4);
                sums[i] = fmaf(q.x, a.x, fmaf(q.y, a.y, fmaf(q.z, b.x, fmaf(q.w, b.y, sums[i]))));
                sums[i] = fmaf(r.x, c.x, fmaf(r.y, c.y, fmaf(r.z, d.x, fmaf(r.w, d.y, sums[i]))));
            }
        }
    for (int i = 0; i < QUERIES; i++) shared.weights[i][half * GPU_CHUNK + p] = sums[i];
}

// A warp turns a query's scores into weights, and writes their greatest and their sum.
__device__ inline void weigh(const struct shared &shared, int query, float scale, float *result,
                             int padded)
{
    float *weights = shared.weights[query], s[2], largest = -INFINITY, sum = 0.0f;
    int lane = threadIdx.x % WARP, visible = shared.visible[query];
    for (int i = 0; i < 2; i++) {
        int p = lane + WARP * i;
        s[i] = p < visible ? (weights[p] + weights[GPU_CHUNK + p]) * scale : -INFINITY;
        largest = fmaxf(largest, s[i]);
    }
    largest = warp_max(largest);
    for (int i = 0; i < 2; i++) {
        float weight = lane + WARP * i < visible ? expf(s[i] - largest) : 0.0f;
        weights[lane + WARP * i] = weight;
        sum += weight;
    }
    sum = warp_sum(sum);
    if (lane > 0) return;
    result[padded] = largest;
    result[padded + 1] = sum;
}

// Sums of values for two neighbouring dimensions and N queries.
template <bool BF16, int N>
__device__ inline void add_values(const struct shared &shared, int first, int j, float2 sums[N])
{
    int visible[N], most = 0, least = GPU_CHUNK;
#pragma unroll
    for (int i = 0; i < N; i++) {
        sums[i] = make_float2(0.0f, 0.0f);
        visible[i] = shared.visible[first + i];
        most = max(most, visible[i]);
        least = min(least, visible[i]);
    }
    auto add = [&](int p, bool all) {
        float2 v = to_floats(*(const uint32_t *)(shared.v + p * shared.stride + j), BF16);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (all || p < visible[i]) {
                float weight = shared.weights[first + i][p];
                sums[i].x = fmaf(weight, v.x, sums[i].x);
                sums[i].y = fmaf(weight, v.y, sums[i].y);
            }
    };
    for (int p = 0; p < least; p++) add(p, true);
    for (int p = least; p < most; p++) add(p, false);
}

// A block of threads for each chunk, KV head and tile of rows.
template <bool BF16>
static __global__ void __launch_bounds__(THREADS)
    attention(const __grid_constant__ struct gpu_attention args)
{
    extern __shared__ uint4 memory[];
    wait_for_previous();
    const struct gpu_heads &heads = args.heads;
    const struct gpu_tile tile = args.pass.tiles[args.first_tile + blockIdx.z];
    int head = blockIdx.y, start = blockIdx.x * GPU_CHUNK, group = heads.n_head / heads.n_head_kv;
    int padded = heads.padded, count = 0;
    for (int i = 0; i < tile.n; i++)
        count = max(count, args.pass.rows[tile.first + i].position + 1 - start);
    count = min(count, (int)GPU_CHUNK);
    if (count <= 0) return;
    struct shared shared;
    shared.stride = padded + 8;
    shared.q = (float *)memory;
    shared.weights = (float(*)[2 * GPU_CHUNK])(shared.q + QUERIES * padded);
    shared.k = (uint16_t *)(shared.weights + QUERIES);
    shared.v = shared.k + GPU_CHUNK * shared.stride;
    shared.visible = (int *)(shared.v + GPU_CHUNK * shared.stride);
    load_chunk(args, shared, args.pass.rows[tile.first], head, start, count);

    int n = tile.n * group; // queries
    for (int first = 0; first < n; first += QUERIES) {
        int queries = min((int)QUERIES, n - first);
        __syncthreads();
        for (int i = threadIdx.x; i < QUERIES * padded; i += THREADS) {
            int query = first + i / padded, j = i % padded;
            size_t at = ((size_t)(tile.first + query / group) * heads.n_head + head * group +
                         query % group) *
                            heads.dim +
                        j;
            shared.q[i] = query < n && j < heads.dim ? args.q[at] : 0.0f;
        }
        if (threadIdx.x < QUERIES) {
            int query = first + (int)threadIdx.x, visible = 0;
            if (query < n)
                visible = args.pass.rows[tile.first + query / group].position + 1 - start;
            shared.visible[threadIdx.x] = max(0, min(visible, (int)GPU_CHUNK));
        }
        __syncthreads();
        score<BF16>(shared, padded, count);
        __syncthreads();
        auto result_of = [&](int i) {
            return partial_of(args, tile.first + (first + i) / group,
                              head * group + (first + i) % group, blockIdx.x);
        };
        for (int i = threadIdx.x / WARP; i < queries; i += THREADS / WARP)
            if (shared.visible[i] > 0) weigh(shared, i, args.scale, result_of(i), padded);
        __syncthreads();
        constexpr int N = QUERIES / 2;
        for (int j = threadIdx.x % GPU_CHUNK * 2; j < padded; j += 2 * GPU_CHUNK) {
            float2 sums[N];
            int begin = threadIdx.x / GPU_CHUNK * N;
            add_values<BF16, N>(shared, begin, j, sums);
#pragma unroll
            for (int i = 0; i < N; i++)
                if (begin + i < queries && shared.visible[begin + i] > 0)
                    *(float2 *)(result_of(begin + i) + j) = sums[i];
        }
    }
}

static size_t attention_bytes(int padded)
{
    return (size_t)QUERIES * (size_t)padded * sizeof(float) +
           QUERIES * 2 * GPU_CHUNK * sizeof(float) +
           2 * GPU_CHUNK * (size_t)(padded + 8) * sizeof(uint16_t) + QUERIES * sizeof(int);
}

extern "C" cudaError_t gpu_attention(const struct gpu_launch *launch,
                                     const struct gpu_attention *args)
{
    size_t bytes = attention_bytes(args->heads.padded);
    auto kernel = args->heads.is_bf16 ? attention<true> : attention<false>;
    dim3 grid((unsigned)args->chunks, (unsigned)args->heads.n_head_kv, (unsigned)args->n_tiles);
    if (bytes > 48 * 1024) {
        cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (error != cudaSuccess) return error;
    }
    return launch_kernel(launch, kernel, grid, THREADS, bytes, *args);
}

// A warp for 32 values of a row, which may belong to several heads.
static __global__ void merge(const __grid_constant__ struct gpu_attention args, struct gpu_rows out)
{
    wait_for_previous();
    const struct gpu_heads &heads = args.heads;
    int first = (blockIdx.x * blockDim.x + threadIdx.x) / WARP * WARP,
        j = first + (int)threadIdx.x % WARP, row = args.first_row + blockIdx.y;
    if (first >= out.pairs * GPU_PAIR) return;
    float value = 0.0f;
    if (j < out.width) {
        int chunks = (args.pass.rows[row].position + GPU_CHUNK) / GPU_CHUNK, d = j % heads.dim;
        const float *partial = partial_of(args, row, j / heads.dim, 0);
        size_t step = result_floats(heads);
        float largest = -INFINITY, sum = 0.0f, weights = 0.0f;
#pragma unroll 8
        for (int c = 0; c < chunks; c++)
            largest = fmaxf(largest, partial[(size_t)c * step + heads.padded]);
#pragma unroll 8
        for (int c = 0; c < chunks; c++) {
            const float *of = partial + (size_t)c * step;
            float scale = expf(of[heads.padded] - largest);
            sum = fmaf(of[d], scale, sum);
            weights = fmaf(of[heads.padded + 1], scale, weights);
        }
        value = __fdiv_rn(sum, weights);
    }
    put_values(out, row, first, value);
}

extern "C" cudaError_t gpu_merge(const struct gpu_launch *launch, const struct gpu_attention *args,
                                 const struct gpu_rows *out, int32_t n)
{
    dim3 grid((unsigned)((out->pairs * GPU_PAIR + 127) / 128), (unsigned)n);
    return launch_kernel(launch, merge, grid, 128, 0, *args, *out);
}
