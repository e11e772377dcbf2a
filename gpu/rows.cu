// Operations on single rows: embeddings and rotations, norms, gates, keys and values for the cache.
// Also the kernels that move a cache's entries and that read memory for measurements.
#include "gpu/reduce.cuh"

enum {
    THREADS = 256,
    NORM_KEPT = 8,
    MOST_KEPT_BYTES = 40 << 10, // without asking for more
    FOLD_THREADS = 512,
    FOLD_KEPT = 4
};

// A block of threads for each row.
static __global__ void rows_begin(float *out, const float *x, int width, const struct gpu_row *rows,
                                  const __grid_constant__ struct gpu_rotations rotations)
{
    wait_for_previous();
    size_t row = blockIdx.x;
    int half = rotations.half, n = rotations.local ? 2 * half : half;
    for (int j = threadIdx.x; j < width; j += THREADS) out[row * width + j] = x[row * width + j];
    for (int j = threadIdx.x; j < n; j += THREADS) {
        int set = j < half ? rows[row].set : rotations.local;
        const struct gpu_turn &turn = rotations.turns[j < half ? 0 : 1];
        int position = rows[row].position;
        double s, c, angle = position * rotations.frequencies[set * half + j % half];
        if (turn.ntk_factor != 0 && position >= turn.ntk_from) {
            double growth = turn.ntk_factor * (position + 1.0) / turn.ntk_from;
            angle *= pow(growth - (turn.ntk_factor - 1), turn.power * (j % half));
        }
        sincos(angle, &s, &c);
        float *value = rotations.values + (row * 2 * half + j) * 2;
        value[0] = (float)(turn.magnitude * c);
        value[1] = (float)(turn.magnitude * s);
    }
}

extern "C" cudaError_t gpu_begin(const struct gpu_launch *launch, float *out, const float *x,
                                 int32_t width, const struct gpu_row *rows, int32_t n,
                                 const struct gpu_rotations *rotations)
{
    return launch_kernel(launch, rows_begin, dim3((unsigned)n), THREADS, 0, out, x, width, rows,
                         *rotations);
}

// The mean of a row, in one order.
static __device__ float row_mean(const float *x, int n)
{
    double sum = 0;
    for (int j = threadIdx.x; j < n; j += NORM_THREADS) sum += (double)x[j];
    float mean = (float)(block_sum(sum) / n);
    __syncthreads(); // before the next sum takes the same memory
    return mean;
}

// A block of threads for each row. A thread keeps the first NORM_KEPT values and gains it reads.
// Results that become pieces alone lie in shared memory first, where a thread finds four of them.
static __global__ void __launch_bounds__(NORM_THREADS)
    rows_norm(struct gpu_rows out, const __grid_constant__ struct gpu_norm_args args,
              bool in_pieces)
{
    extern __shared__ __align__(16) float kept[];
    int row = blockIdx.x, n = out.width;
    float gains[NORM_KEPT], values[NORM_KEPT];
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) {
        int j = i * NORM_THREADS + (int)threadIdx.x;
        gains[i] = j < n ? args.gain[j] : 0.0f;
    }
    wait_for_previous();
    const float *from = args.x + (size_t)(args.picked ? args.picked[row] : row) * n;
    float mean = args.is_centred ? row_mean(from, n) : 0.0f;
    double sum = 0;
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) {
        int j = i * NORM_THREADS + (int)threadIdx.x;
        values[i] = j < n ? __fsub_rn(from[j], mean) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) sum += (double)values[i] * (double)values[i];
    for (int j = NORM_KEPT * NORM_THREADS + (int)threadIdx.x; j < n; j += NORM_THREADS) {
        double value = __fsub_rn(from[j], mean);
        sum += value * value;
    }
    float scale = rms_scale(block_sum(sum), n, args.eps);
    auto put = [&](int i, float value, float of) {
        int first = i * NORM_THREADS + (int)threadIdx.x / WARP * WARP;
        float normed = __fmul_rn(__fmul_rn(value, scale), of);
        if (args.bias && first + (int)threadIdx.x % WARP < n)
            normed = __fadd_rn(normed, args.bias[first + threadIdx.x % WARP]);
        if (first >= out.pairs * GPU_PAIR) return;
        if (in_pieces)
            kept[first + threadIdx.x % WARP] = normed;
        else
            put_values(out, row, first, normed);
    };
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) put(i, values[i], gains[i]);
    for (int i = NORM_KEPT; i * NORM_THREADS < out.pairs * GPU_PAIR; i++) {
        int j = i * NORM_THREADS + (int)threadIdx.x;
        put(i, j < n ? __fsub_rn(from[j], mean) : 0.0f, j < n ? args.gain[j] : 0.0f);
    }
    if (!in_pieces) return;
    __syncthreads();
    for (int first = 0; first < out.pairs * GPU_PAIR; first += 4 * NORM_THREADS) {
        int j = first + 4 * (int)threadIdx.x;
        float4 four = j < out.pairs * GPU_PAIR ? *(const float4 *)(kept + j) : float4{};
        put_four(out, row, j, {four.x, four.y, four.z, four.w});
    }
}

extern "C" cudaError_t gpu_norm(const struct gpu_launch *launch, const struct gpu_rows *out,
                                const struct gpu_norm_args *args, int32_t n)
{
    size_t bytes = (size_t)out->pairs * GPU_PAIR * sizeof(float);
    bool in_pieces = is_pieces_alone(out) && bytes <= MOST_KEPT_BYTES;
    return launch_kernel(launch, rows_norm, dim3((unsigned)n), NORM_THREADS, in_pieces ? bytes : 0,
                         *out, *args, in_pieces);
}

// A block of threads for each row; a thread has pairs of values, and keeps the first FOLD_KEPT that
// it reads. The sums are the same that linear layers leave and add up.
static __global__ void __launch_bounds__(FOLD_THREADS)
    rows_fold_norm(struct gpu_rows out, const float *x,
                   const __grid_constant__ struct gpu_fold fold)
{
    wait_for_previous();
    int row = blockIdx.x, width = out.width, groups = out.pairs * 2;
    const float2 *from = (const float2 *)(x + (size_t)row * width);
    float *squares = fold.squares + (size_t)row * (width / GPU_SQUARES);
    float2 kept[FOLD_KEPT];
#pragma unroll
    for (int i = 0; i < FOLD_KEPT; i++)
        if (2 * (i * FOLD_THREADS + (int)threadIdx.x) < width)
            kept[i] = from[i * FOLD_THREADS + threadIdx.x];
    auto put = [&](int j, float2 value) {
        float sum = sum_squares(value);
        uint32_t both = bf16_bits(__fmul_rn(value.x, fold.gain[j])) |
                        (uint32_t)bf16_bits(__fmul_rn(value.y, fold.gain[j + 1])) << 16;
        uint16_t *to =
            out.arranged
                ? out.arranged + gpu_arranged_place(row, groups, j)
                : out.bf16 + gpu_row_place(row, groups, j / RF_BLOCK) * RF_BLOCK + j % RF_BLOCK;
        *(uint32_t *)to = both;
        if (j % GPU_SQUARES == 0) squares[j / GPU_SQUARES] = sum;
    };
#pragma unroll
    for (int i = 0; i < FOLD_KEPT; i++) {
        int j = 2 * (i * FOLD_THREADS + (int)threadIdx.x);
        if (j < width) put(j, kept[i]);
    }
    for (int j = 2 * (FOLD_KEPT * FOLD_THREADS + (int)threadIdx.x); j < width;
         j += 2 * FOLD_THREADS)
        put(j, from[j / 2]);
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    float scale = folded_scale(squares, width, fold.eps);
    if (threadIdx.x == 0) fold.scales[row] = scale;
}

extern "C" cudaError_t gpu_fold_norm(const struct gpu_launch *launch, const struct gpu_rows *out,
                                     const float *x, const struct gpu_fold *fold, int32_t n)
{
    return launch_kernel(launch, rows_fold_norm, dim3((unsigned)n), FOLD_THREADS, 0, *out, x,
                         *fold);
}

static __device__ float gated(const struct gpu_gate &args, float g, float u)
{
    if (args.is_gelu) { // the approximation by tanh: (1 + tanh(t)) / 2 = 1 / (1 + exp(-2t))
        float t = 0.7978845608f * (g + 0.044715f * g * g * g);
        return g / (1.0f + expf(-2.0f * t)) * u;
    }
    if (args.cap > 0.0f) {
        g = fminf(g, args.cap);
        u = fmaxf(-args.cap, fminf(u, args.cap)) + 1.0f;
        return g / (1.0f + expf(-args.scale * g)) * u;
    }
    return silu(g) * u;
}

// A warp for 32 values of a row.
static __global__ void rows_gate(struct gpu_rows out, const __grid_constant__ struct gpu_gate args)
{
    wait_for_previous();
    int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * WARP, j = first + threadIdx.x % WARP;
    if (first >= out.pairs * GPU_PAIR || (args.sources && args.sources[blockIdx.y] < 0)) return;
    size_t at = (size_t)blockIdx.y * out.width + j;
    float value = 0;
    if (j < out.width) value = gated(args, args.gate[at], args.up ? args.up[at] : 1.0f);
    put_values(out, blockIdx.y, first, value);
}

// The same to pieces, of many rows. A thread has four values.
static __global__ void rows_gate_four(struct gpu_rows out,
                                      const __grid_constant__ struct gpu_gate args)
{
    wait_for_previous();
    int j = (blockIdx.x * THREADS + threadIdx.x) * 4;
    size_t at = (size_t)blockIdx.y * out.width + j;
    float values[4] = {};
    if (j < out.width) {
        float4 gate = *(const float4 *)(args.gate + at), up = {1.0f, 1.0f, 1.0f, 1.0f};
        if (args.up) up = *(const float4 *)(args.up + at);
        values[0] = gated(args, gate.x, up.x);
        values[1] = gated(args, gate.y, up.y);
        values[2] = gated(args, gate.z, up.z);
        values[3] = gated(args, gate.w, up.w);
    }
    put_four(out, blockIdx.y, j, values);
}

extern "C" cudaError_t gpu_gate(const struct gpu_launch *launch, const struct gpu_rows *out,
                                const struct gpu_gate *args, int32_t n)
{
    int in_pieces = is_pieces_alone(out) && out->width % 4 == 0,
        of_block = in_pieces ? 4 * THREADS : THREADS;
    dim3 grid((unsigned)((out->pairs * GPU_PAIR + of_block - 1) / of_block), (unsigned)n);
    return launch_kernel(launch, in_pieces ? rows_gate_four : rows_gate, grid, THREADS, 0, *out,
                         *args);
}

// ---- rotation ----

// A warp for each head of q, then of k and v, of a row. A key's padding is zero, as a value's.
static __global__ void rows_rope_store(const __grid_constant__ struct gpu_rope args)
{
    wait_for_previous();
    const struct gpu_heads &heads = args.heads;
    int head = (blockIdx.x * THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    int row = blockIdx.y, dim = heads.dim, half = args.rope_dim / 2;
    if (head >= heads.n_head + heads.n_head_kv) return;
    int is_key = head >= heads.n_head;
    if (is_key) head -= heads.n_head;
    size_t at = ((size_t)row * (is_key ? heads.n_head_kv : heads.n_head) + head) * dim;
    const float *from = (is_key ? args.k : args.q) + at, *gain = is_key ? args.k_gain : args.q_gain;
    float scale = 1.0f;
    if (gain) {
        double sum = 0;
        for (int j = lane; j < dim; j += WARP) sum += (double)from[j] * (double)from[j];
        scale = rms_scale(warp_sum(sum), dim, args.eps);
    }
    auto value = [&](int j) {
        return gain ? __fmul_rn(__fmul_rn(from[j], scale), gain[j]) : from[j];
    };
    const struct gpu_row &place = args.pass.rows[row];
    float growth = 1.0f; // rf_query_growth
    if (!is_key && args.temperature != 0.0f) {
        double steps = place.position / args.temperature_step;
        growth = (float)(1.0 + (double)args.temperature * log(1.0 + steps));
    }
    uint16_t *entry = args.pass.blocks[place.table + place.slot / GPU_KV_BLOCK] +
                      ((size_t)(args.layer * heads.n_head_kv + head) * 2 * GPU_KV_BLOCK +
                       place.slot % GPU_KV_BLOCK) *
                          heads.padded;
    auto put = [&](int j, float x) {
        if (is_key)
            entry[j] = half_bits(x, heads.is_bf16);
        else
            args.q[at + j] = __fmul_rn(x, growth);
    };
    const float *turns = args.rotations + ((size_t)row * 2 + args.is_local) * args.half * 2;
    for (int i = lane; i < half; i += WARP) {
        int a = args.is_neox ? i : 2 * i, b = args.is_neox ? i + half : 2 * i + 1;
        float x = value(a), y = value(b), c = turns[2 * i], s = turns[2 * i + 1];
        put(a, __fsub_rn(__fmul_rn(x, c), __fmul_rn(y, s)));
        put(b, __fadd_rn(__fmul_rn(x, s), __fmul_rn(y, c)));
    }
    for (int j = args.rope_dim + lane; j < dim; j += WARP) put(j, value(j));
    if (!is_key) return;
    const float *v = args.v + at;
    uint16_t *to = entry + (size_t)GPU_KV_BLOCK * heads.padded;
    for (int j = lane; j < heads.padded; j += WARP) {
        to[j] = j < dim ? half_bits(v[j], heads.is_bf16) : (uint16_t)0;
        if (j >= dim) entry[j] = 0;
    }
}

extern "C" cudaError_t gpu_rope_store(const struct gpu_launch *launch, const struct gpu_rope *args,
                                      int32_t n)
{
    int warps = args->heads.n_head + args->heads.n_head_kv;
    dim3 grid((unsigned)((warps * WARP + THREADS - 1) / THREADS), (unsigned)n);
    return launch_kernel(launch, rows_rope_store, grid, THREADS, 0, *args);
}

// ---- caches ----

// A block of threads for each plane: K or V of a layer and head. Each thread moves its elements in
// the order of the path, whose entries only move towards the front.
static __global__ void cache_keep_path(uint16_t *const *blocks, const int32_t *path, int n,
                                       int first, int padded)
{
    auto at = [&](int slot, int j) {
        return blocks[slot / GPU_KV_BLOCK] +
               ((size_t)blockIdx.x * GPU_KV_BLOCK + slot % GPU_KV_BLOCK) * padded + j;
    };
    for (int j = threadIdx.x; j < padded; j += blockDim.x)
        for (int i = 0; i < n; i++) *at(first + i, j) = *at(first + path[i], j);
}

extern "C" cudaError_t gpu_keep(cudaStream_t stream, uint16_t *const *blocks, const int32_t *path,
                                int32_t n, int32_t first, int32_t planes, int32_t padded)
{
    cache_keep_path<<<(unsigned)planes, 128, 0, stream>>>(blocks, path, n, first, padded);
    return cudaGetLastError();
}

// ---- measuring ----

static __global__ void rows_read_all(const uint4 *data, size_t n, uint32_t *out)
{
    uint32_t x = 0;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 8 * stride) {
        uint4 v[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = i + j * stride < n ? __ldcs(data + i + j * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < 8; j++) x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    if (x == 0x9e3779b9u) *out = x; // keeps the loads
}

extern "C" cudaError_t gpu_read(cudaStream_t stream, const void *data, size_t bytes, uint32_t *out)
{
    int device = 0, processors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    rows_read_all<<<(unsigned)processors * 8, 256, 0, stream>>>((const uint4 *)data, bytes / 16,
                                                                out);
    return cudaGetLastError();
}
