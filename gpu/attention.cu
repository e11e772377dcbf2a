// Attention over chunks of GPU_CHUNK positions. A chunk gives a partial result for each query: sums
// of values, the greatest score and the sum of weights. Partial results are merged in one order, so
// a row's bits depend on the positions that it sees alone.
//
// Products run on tensor cores: 16 queries are operand A, and a warp has 16 positions of the chunk
// as operand B. Queries and weights are split into two numbers of the cache's type, whose sum has
// 22 bits (F16) or 16 (BF16).
#include "gpu/launch.cuh"

enum {
    POSITIONS = 16, // of a warp
    WARPS = GPU_CHUNK / POSITIONS,
    THREADS = WARPS * WARP,
    QUERIES = GPU_QUERIES, // of a round
    SLICES = 16            // of the chunks that a row sees
};

// ---- chunks ----

template <bool BF16> struct element;

template <> struct element<true> {
    static __device__ uint32_t pack(float a, float b)
    {
        __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
        return *(uint32_t *)&two;
    }
    static __device__ float2 unpack(uint32_t two)
    {
        return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
    }
    static __device__ void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

template <> struct element<false> {
    static __device__ uint32_t pack(float a, float b)
    {
        __half2 two = __floats2half2_rn(a, b);
        return *(uint32_t *)&two;
    }
    static __device__ float2 unpack(uint32_t two)
    {
        return __half22float2(*(const __half2 *)&two);
    }
    static __device__ void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// Two floats as two numbers of the cache's type and what these leave over.
template <bool BF16> __device__ inline uint32_t split(float a, float b, uint32_t *rest)
{
    uint32_t two = element<BF16>::pack(a, b);
    float2 taken = element<BF16>::unpack(two);
    *rest = element<BF16>::pack(a - taken.x, b - taken.y);
    return two;
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

// What a block of threads shares. DIM: the head's dimensions, rounded up to a multiple of 64.
template <int DIM> struct shared_of_chunk {
    static constexpr int STRIDE = DIM + 32; // of queries: other banks from row to row
    uint16_t q[2][QUERIES][STRIDE];         // rounded, and the rest
    float sums[WARPS][QUERIES][DIM + 4];
    float largest[WARPS][QUERIES], weights[WARPS][QUERIES];
    int hidden[QUERIES], visible[QUERIES]; // positions of the chunk: [hidden, visible)
};

// Keys and values of a warp's positions. Lane (g, t) = (l / 4, l % 4) has of the keys g and 8 + g
// the dimensions 32 i + 8t .. + 7, and of the values 2t, 2t + 1, 2t + 8 and 2t + 9 the dimensions
// 64 i + 8g .. + 7.
template <int DIM> struct entries {
    uint4 k[2][DIM / 32], v[4][DIM / 64];
};

// Loads the positions [from, to) of those that the warp has from `start` on.
template <int DIM>
__device__ inline void load_entries(const struct gpu_attention &args, const struct gpu_row &row,
                                    int head, int start, int from, int to, struct entries<DIM> &out)
{
    const struct gpu_heads &heads = args.heads;
    int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    size_t plane = (size_t)(args.layer * heads.n_head_kv + head) * 2 * GPU_KV_BLOCK;
    auto entry = [&](int slot) {
        if (row.map != GPU_NO_MAP && slot >= row.first)
            slot = args.pass.maps[row.map + slot - row.first];
        return args.pass.blocks[row.table + slot / GPU_KV_BLOCK] +
               (plane + slot % GPU_KV_BLOCK) * heads.padded;
    };
#pragma unroll
    for (int p = 0; p < 2; p++) {
        int position = start + 8 * p + g;
        if (position < from || position >= to) continue;
        const uint16_t *k = entry(position);
#pragma unroll
        for (int i = 0; i < DIM / 32; i++)
            if (32 * i + 8 * t < heads.padded) out.k[p][i] = *(const uint4 *)(k + 32 * i + 8 * t);
    }
#pragma unroll
    for (int p = 0; p < 4; p++) {
        int position = start + p / 2 * 8 + 2 * t + p % 2;
        if (position < from || position >= to) continue;
        const uint16_t *v = entry(position) + (size_t)GPU_KV_BLOCK * heads.padded;
#pragma unroll
        for (int i = 0; i < DIM / 64; i++)
            if (64 * i + 8 * g < heads.padded) out.v[p][i] = *(const uint4 *)(v + 64 * i + 8 * g);
    }
}

// Scores of 16 queries and the warp's positions: those of 2t, 2t + 1 for the queries g and g + 8,
// then of 8 + 2t ..
template <bool BF16, int DIM>
__device__ inline void score(const struct shared_of_chunk<DIM> &shared,
                             const struct entries<DIM> &kv, float s[2][4])
{
    int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < DIM / 32; i++)
#pragma unroll
        for (int rest = 0; rest < 2; rest++) {
            uint4 low = *(const uint4 *)&shared.q[rest][g][32 * i + 8 * t],
                  high = *(const uint4 *)&shared.q[rest][g + 8][32 * i + 8 * t];
            const uint32_t first[4] = {low.x, high.x, low.y, high.y},
                           later[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
            for (int p = 0; p < 2; p++) {
                element<BF16>::multiply(s[p], first, kv.k[p][i].x, kv.k[p][i].y);
                element<BF16>::multiply(s[p], later, kv.k[p][i].z, kv.k[p][i].w);
            }
        }
}

__device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// Turns scores into weights, in operand A's order: rounded, and the rest.
template <bool BF16, int DIM>
__device__ inline void weigh(const struct gpu_attention &args, struct shared_of_chunk<DIM> &shared,
                             float s[2][4], int first_position, uint32_t weights[2][4])
{
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int visible = shared.visible[g + 8 * r] - first_position,
            hidden = shared.hidden[g + 8 * r] - first_position;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float &x = s[i / 2][2 * r + i % 2];
            int at = i / 2 * 8 + 2 * t + i % 2;
            x *= args.scale;
            if (args.cap > 0.0f) x = args.cap * tanhf(x / args.cap);
            if (at < hidden || at >= visible) x = -INFINITY;
            largest[r] = fmaxf(largest[r], x);
        }
        largest[r] = quad_max(largest[r]);
        if (t == 0) shared.largest[warp][g + 8 * r] = largest[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float most = -INFINITY;
#pragma unroll
        for (int w = 0; w < WARPS; w++) most = fmaxf(most, shared.largest[w][g + 8 * r]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float &x = s[i / 2][2 * r + i % 2];
            x = x == -INFINITY ? 0.0f : expf(x - most);
            sum[r] += x;
        }
        sum[r] = quad_sum(sum[r]);
        if (t == 0) shared.weights[warp][g + 8 * r] = sum[r];
#pragma unroll
        for (int p = 0; p < 2; p++)
            weights[0][2 * p + r] =
                split<BF16>(s[p][2 * r], s[p][2 * r + 1], &weights[1][2 * p + r]);
    }
}

// Sums of values: of query g and g + 8 the dimensions 64 i + 16 t .. + 15.
template <bool BF16, int DIM>
__device__ inline void add_values(struct shared_of_chunk<DIM> &shared,
                                  const struct entries<DIM> &kv, const uint32_t weights[2][4])
{
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < DIM / 64; i++) {
        float sums[8][4] = {};
        const uint32_t *v[4];
        for (int p = 0; p < 4; p++) v[p] = (const uint32_t *)&kv.v[p][i];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            uint32_t b0 = __byte_perm(v[0][j / 2], v[1][j / 2], j % 2 ? 0x7632 : 0x5410),
                     b1 = __byte_perm(v[2][j / 2], v[3][j / 2], j % 2 ? 0x7632 : 0x5410);
            element<BF16>::multiply(sums[j], weights[0], b0, b1);
            element<BF16>::multiply(sums[j], weights[1], b0, b1);
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float *to = &shared.sums[warp][g + c / 2 * 8][64 * i + 16 * t + c % 2 * 8];
            *(float4 *)to = make_float4(sums[0][c], sums[1][c], sums[2][c], sums[3][c]);
            *(float4 *)(to + 4) = make_float4(sums[4][c], sums[5][c], sums[6][c], sums[7][c]);
        }
    }
}

// The queries [first, first + QUERIES) of a tile, and how many of the chunk's positions each sees.
template <bool BF16, int DIM>
__device__ inline void load_queries(const struct gpu_attention &args, const struct gpu_tile &tile,
                                    int head, int start, int first,
                                    struct shared_of_chunk<DIM> &shared)
{
    const struct gpu_heads &heads = args.heads;
    int group = heads.n_head / heads.n_head_kv, n = tile.n * group;
    for (int i = threadIdx.x; i < QUERIES * DIM / 2; i += THREADS) {
        int query = first + i / (DIM / 2), j = i % (DIM / 2) * 2;
        float x[2] = {0.0f, 0.0f};
        if (query < n)
            for (int e = 0; e < 2; e++)
                if (j + e < heads.dim)
                    x[e] = args.q[((size_t)(tile.first + query / group) * heads.n_head +
                                   head * group + query % group) *
                                      heads.dim +
                                  j + e];
        uint32_t rest, two = split<BF16>(x[0], x[1], &rest);
        *(uint32_t *)&shared.q[0][query - first][j] = two;
        *(uint32_t *)&shared.q[1][query - first][j] = rest;
    }
    if (threadIdx.x < QUERIES) {
        int query = first + (int)threadIdx.x, visible = 0;
        if (query < n) visible = args.pass.rows[tile.first + query / group].position + 1 - start;
        int hidden = args.window > 0 ? visible - args.window : 0;
        shared.visible[threadIdx.x] = max(0, min(visible, (int)GPU_CHUNK));
        shared.hidden[threadIdx.x] = hidden;
    }
}

// Adds up the warps' sums in order, and writes the partial results.
template <int DIM>
__device__ inline void put_results(const struct gpu_attention &args, const struct gpu_tile &tile,
                                   int head, int first, const struct shared_of_chunk<DIM> &shared)
{
    int group = args.heads.n_head / args.heads.n_head_kv, padded = args.heads.padded;
    int queries = min((int)QUERIES, tile.n * group - first);
    for (int i = threadIdx.x; i < queries * DIM; i += THREADS) {
        int q = i / DIM, j = i % DIM;
        if (j >= padded || shared.visible[q] <= max(0, shared.hidden[q])) continue;
        float *result = partial_of(args, tile.first + (first + q) / group,
                                   head * group + (first + q) % group, blockIdx.x);
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += shared.sums[w][q][j];
        result[j] = sum;
        if (j > 0) continue;
        float largest = -INFINITY, weights = 0.0f;
        for (int w = 0; w < WARPS; w++) {
            largest = fmaxf(largest, shared.largest[w][q]);
            weights += shared.weights[w][q];
        }
        result[padded] = largest;
        result[padded + 1] = weights;
    }
}

// A block of threads for each chunk, KV head and tile of rows. The cache's entries from before the
// pass do not depend on the kernels before.
template <bool BF16, int DIM>
static __global__ void __launch_bounds__(THREADS, DIM <= 128 ? 2 : 1)
    attention(const __grid_constant__ struct gpu_attention args)
{
    extern __shared__ uint4 memory[];
    struct shared_of_chunk<DIM> &shared = *(struct shared_of_chunk<DIM> *)memory;
    const struct gpu_tile tile = args.pass.tiles[args.first_tile + blockIdx.z];
    const struct gpu_row row = args.pass.rows[tile.first];
    int head = blockIdx.y, start = blockIdx.x * GPU_CHUNK, end = 0, begin = 0;
    for (int i = 0; i < tile.n; i++) end = max(end, args.pass.rows[tile.first + i].position + 1);
    if (args.window > 0) begin = end - tile.n + 1 - args.window; // rows of a tile are neighbours
    int of_warp = start + (int)(threadIdx.x / WARP) * POSITIONS;
    struct entries<DIM> kv = {
    };
    bool counts = start < end && start + GPU_CHUNK > begin;
    if (counts) load_entries(args, row, head, of_warp, 0, min(end, row.first), kv);
    wait_for_previous();
    if (!counts) return;
    load_entries(args, row, head, of_warp, row.first, end, kv);

    int n = tile.n * (args.heads.n_head / args.heads.n_head_kv);
    for (int first = 0; first < n; first += QUERIES) {
        float s[2][4] = {};
        uint32_t weights[2][4];
        load_queries<BF16, DIM>(args, tile, head, start, first, shared);
        __syncthreads();
        score<BF16, DIM>(shared, kv, s);
        weigh<BF16, DIM>(args, shared, s, of_warp - start, weights);
        add_values<BF16, DIM>(shared, kv, weights);
        __syncthreads();
        put_results<DIM>(args, tile, head, first, shared);
        __syncthreads();
    }
}

template <bool BF16, int DIM>
static cudaError_t launch_chunks(const struct gpu_launch *launch, const struct gpu_attention *args)
{
    dim3 grid((unsigned)args->chunks, (unsigned)args->heads.n_head_kv, (unsigned)args->n_tiles);
    size_t bytes = sizeof(struct shared_of_chunk<DIM>);
    cudaError_t error = cudaFuncSetAttribute(
        attention<BF16, DIM>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, attention<BF16, DIM>, grid, THREADS, bytes, *args);
}

template <bool BF16>
static cudaError_t choose_dim(const struct gpu_launch *launch, const struct gpu_attention *args)
{
    if (args->heads.padded <= 64) return launch_chunks<BF16, 64>(launch, args);
    if (args->heads.padded <= 128) return launch_chunks<BF16, 128>(launch, args);
    if (args->heads.padded <= 256) return launch_chunks<BF16, 256>(launch, args);
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t gpu_attention(const struct gpu_launch *launch,
                                     const struct gpu_attention *args)
{
    return args->heads.is_bf16 ? choose_dim<true>(launch, args) : choose_dim<false>(launch, args);
}

// ---- merging ----

// A block of threads for 32 values of a row, which may belong to several heads. The row's chunks
// are SLICES sums, each of every SLICES-th chunk in order, which are added in order.
static __global__ void merge(const __grid_constant__ struct gpu_attention args, struct gpu_rows out)
{
    __shared__ float of_slice[3][SLICES][WARP]; // greatest score, values, weights
    int warps = blockDim.x / WARP, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int first = blockIdx.x * WARP, j = first + lane, row = args.first_row + blockIdx.y;
    const struct gpu_heads &heads = args.heads;
    int position = args.pass.rows[row].position, chunks = position / GPU_CHUNK + 1;
    int begin = args.window > 0 ? max(0, position + 1 - args.window) / GPU_CHUNK : 0;
    size_t step = result_floats(heads);
    bool counts = j < out.width;
    const float *partial = partial_of(args, row, counts ? j / heads.dim : 0, 0);
    int d = counts ? j % heads.dim : 0;
    wait_for_previous();
    float largest = -INFINITY;
#pragma unroll 4
    for (int c = begin + warp; c < chunks; c += warps)
        largest = fmaxf(largest, partial[(size_t)c * step + heads.padded]);
    of_slice[0][warp][lane] = largest;
    __syncthreads();
    for (int w = 0; w < warps; w++) largest = fmaxf(largest, of_slice[0][w][lane]);
    float sink = args.sinks ? args.sinks[counts ? j / heads.dim : 0] : -INFINITY;
    largest = fmaxf(largest, sink);
    chunks -= begin;
    partial += begin * step;
    for (int s = warp; s < SLICES && s < chunks; s += warps) {
        float sum = 0.0f, weights = 0.0f;
#pragma unroll 4
        for (int c = s; c < chunks; c += SLICES) {
            const float *of = partial + (size_t)c * step;
            float scale = expf(of[heads.padded] - largest);
            sum = fmaf(of[d], scale, sum);
            weights = fmaf(of[heads.padded + 1], scale, weights);
        }
        of_slice[1][s][lane] = sum;
        of_slice[2][s][lane] = weights;
    }
    __syncthreads();
    if (warp > 0) return;
    float sum = 0.0f, weights = 0.0f;
    for (int s = 0; s < SLICES && s < chunks; s++) {
        sum += of_slice[1][s][lane];
        weights += of_slice[2][s][lane];
    }
    weights += expf(sink - largest);
    put_values(out, row, first, counts ? __fdiv_rn(sum, weights) : 0.0f);
}

extern "C" cudaError_t gpu_merge(const struct gpu_launch *launch, const struct gpu_attention *args,
                                 const struct gpu_rows *out, int32_t n)
{
    dim3 grid((unsigned)(out->pairs * GPU_PAIR / WARP), (unsigned)n);
    int warps = args->chunks < SLICES ? 4 : SLICES;
    return launch_kernel(launch, merge, grid, (unsigned)(warps * WARP), 0, *args, *out);
}
