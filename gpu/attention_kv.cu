// Attention over quantised groups (microkernels/kv.h): the rounded integers of the processor's
// definition (struct rf_attention_kv_args), whose products run on tensor cores. A block of threads
// takes a span of groups of a KV head for all queries of a tile, group after group; a group after
// the first is on its way to registers meanwhile. And the kernel that quantises groups.
#include "gpu/attention.cuh"
#include "microkernels/kv.h"

enum { WARPS = 8, THREADS = WARPS * WARP, QUERIES = 8, GROUP = GPU_CHUNK, MOST = 127 };

static __device__ inline float from_half(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

// ---- numbers ----

// The greatest of a warp's numbers, none of them negative.
static __device__ inline float greatest(float x)
{
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(x)));
}

// A warp's vector of N values a lane, as multiples of the unit that it returns, -MOST .. MOST.
template <int N>
static __device__ inline float round_vector(const float *x, const float *dither, int *rounded)
{
    float top = 0.0f;
    for (int i = 0; i < N; i++) top = fmaxf(top, fabsf(x[i]));
    top = greatest(top);
    float factor = top > 0.0f ? __fdiv_rn((float)MOST, top) : 0.0f;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float value = rintf(__fmaf_rn(x[i], factor, dither ? dither[i] : 0.0f));
        rounded[i] = fabsf(value) <= (float)MOST ? (int)value : 0; // NaN shows in the sums
    }
    return __fdiv_rn(top, (float)MOST);
}

static __device__ inline float exp2_weight(float x)
{
    if (x < RF_KV_LEAST_EXPONENT) x = RF_KV_LEAST_EXPONENT;
    float n = rintf(x), r = __fsub_rn(x, n);
    float p = __fmaf_rn(RF_KV_EXP2_4, r, RF_KV_EXP2_3);
    p = __fmaf_rn(p, r, RF_KV_EXP2_2);
    p = __fmaf_rn(p, r, RF_KV_EXP2_1);
    if (!isfinite(n)) return n;
    return __int_as_float(__float_as_int(__fmaf_rn(p, r, 1.0f)) + (int)n * (1 << 23));
}

// rf_kv_dither
static __device__ inline float dither_of(int p)
{
    return (float)(2 * (int)(__brev((unsigned)p) >> 25) - MOST) / 256.0f;
}

static __device__ inline void multiply(int c[4], const uint32_t a[4], uint2 b)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
        "%9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

// ---- groups ----

// The shape of a kernel. DIM: the head's dimensions, rounded up to 64, 128 or 256. 8 TILES queries
// at a time.
template <int DIM_, int TILES_, bool IN_8_> struct kv_shape {
    static constexpr int DIM = DIM_, TILES = TILES_, ALL = QUERIES * TILES;
    static constexpr bool IN_8 = IN_8_;
    static constexpr int EACH = DIM / WARP;           // values of a lane
    static constexpr int BLOCKS = DIM <= 128 ? 1 : 2; // of 16 channels of V: a warp's
    static constexpr int DEPTH = DIM / 32, V_DEPTH = GROUP / 32;
};

// A warp's nibbles of 16 rows, for 32 values of k each. Lane (g, t) has the rows 2g and 2g + 1, and
// of k the values 32 i + 8t .. + 7.
template <int N, bool IN_8> struct nibbles {
    uint2 upper[N], lower[IN_8 ? N : 1];

    __device__ inline void load(const char *up, const char *low, int depth)
    {
        int t = threadIdx.x % 4, at = threadIdx.x % WARP / 4 * 8;
#pragma unroll
        for (int i = 0; i < N; i++) {
            int block = 4 * i + t;
            upper[i] = make_uint2(0, 0);
            if (IN_8) lower[i] = make_uint2(0, 0);
            if (block >= depth / 8) continue;
            upper[i] = *(const uint2 *)(up + block * 64 + at);
            if (IN_8) lower[i] = *(const uint2 *)(low + block * 64 + at);
        }
    }

    // Codes - 128, as operand A.
    __device__ inline void codes(int i, uint32_t a[4]) const
    {
        const uint32_t low = 0x0f0f0f0f, rest = 0x08080808, sign = 0x80808080;
        const uint32_t up[2] = {upper[i].x, upper[i].y},
                       down[2] = {IN_8 ? lower[i].x : 0, IN_8 ? lower[i].y : 0};
#pragma unroll
        for (int r = 0; r < 2; r++) {
            a[r] = ((up[r] & low) << 4 | (IN_8 ? down[r] & low : rest)) ^ sign;
            a[r + 2] = ((up[r] & ~low) | (IN_8 ? down[r] >> 4 & low : rest)) ^ sign;
        }
    }
};

// What a warp loads of a group: its 16 positions of K, its channels of V, and scales and middles of
// a lane's channels and positions.
template <typename S> struct part_of_group {
    nibbles<S::DEPTH, S::IN_8> k;
    nibbles<S::V_DEPTH, S::IN_8> v[S::BLOCKS];
    alignas(S::EACH * 2) uint16_t k_scale[S::EACH], k_middle[S::EACH];
    ushort4 v_scale, v_middle;
};

// A lane's scales are loaded at once.
template <int N> struct few_halves;
template <> struct few_halves<2> {
    using type = uint32_t;
};
template <> struct few_halves<4> {
    using type = uint2;
};
template <> struct few_halves<8> {
    using type = uint4;
};

// Where a head's planes of a group lie.
struct planes {
    const char *upper, *lower;
    int padded;
};

__device__ inline struct planes planes_of(const struct gpu_attention &args, const uint8_t *group,
                                          int head)
{
    const struct gpu_heads &heads = args.heads;
    size_t at = (size_t)(args.layer * heads.n_head_kv + head);
    return {(const char *)group + at * heads.upper_bytes,
            (const char *)group + (size_t)heads.planes * heads.upper_bytes + at * heads.lower_bytes,
            heads.padded};
}

template <typename S>
__device__ inline void load_keys(const struct planes &from, struct part_of_group<S> &part)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint16_t *scales = (const uint16_t *)(from.upper + GROUP * from.padded);
    size_t at = (size_t)warp * (from.padded / 8) * 64;
    part.k.load(from.upper + at, from.lower + at, from.padded);
    if (lane * S::EACH >= from.padded) return;
    using several = typename few_halves<S::EACH>::type;
    *(several *)part.k_scale = *(const several *)(scales + lane * S::EACH);
    *(several *)part.k_middle = *(const several *)(scales + from.padded + lane * S::EACH);
}

template <typename S>
__device__ inline void load_values(const struct planes &from, struct part_of_group<S> &part)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint16_t *scales = (const uint16_t *)(from.upper + GROUP * from.padded) + 2 * from.padded;
    part.v_scale = *(const ushort4 *)(scales + 4 * lane);
    part.v_middle = *(const ushort4 *)(scales + GROUP + 4 * lane);
#pragma unroll
    for (int b = 0; b < S::BLOCKS; b++) {
        int block = warp + b * WARPS;
        size_t at = (size_t)GROUP * from.padded / 2 + (size_t)block * (GROUP / 8) * 64;
        part.v[b].load(from.upper + at, from.lower + at, block * 16 < from.padded ? GROUP : 0);
    }
}

// ---- a group ----

template <typename S> struct shared_of_groups {
    alignas(16) int8_t q[S::ALL][S::DIM + 32], weights[S::ALL][GROUP + 32]; // rounded
    alignas(16) float scores[S::ALL][GROUP + 4];
    float q_unit[S::ALL], q_middle[S::ALL], v_unit[S::ALL], v_middle[S::ALL];
    float keep[S::ALL], take[S::ALL]; // what earlier groups' results and this one's count
    int hidden[S::ALL];               // positions before this one
};

// A warp's queries in progress, warp + WARPS i, and its channels' sums for all.
template <typename S> struct progress {
    float q[S::TILES][S::EACH];
    float exponent[S::TILES], total[S::TILES];
    float sums[S::BLOCKS][S::TILES][4]; // channels 2g and 2g + 1, queries 2t and 2t + 1
};

// K's scales are folded into the queries, which are rounded.
template <typename S>
__device__ inline void fold(const struct part_of_group<S> &part, const struct progress<S> &state,
                            int n, shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < S::TILES; i++) {
        int query = warp + i * WARPS, rounded[S::EACH];
        if (query >= n) break;
        float folded[S::EACH], middle = 0.0f;
#pragma unroll
        for (int e = 0; e < S::EACH; e++) {
            folded[e] = __fmul_rn(state.q[i][e], from_half(part.k_scale[e]));
            middle = __fmaf_rn(state.q[i][e], from_half(part.k_middle[e]), middle);
        }
        middle = warp_sum(middle);
        float unit = round_vector<S::EACH>(folded, NULL, rounded);
#pragma unroll
        for (int e = 0; e < S::EACH; e += 2)
            *(char2 *)&shared.q[query][lane * S::EACH + e] =
                make_char2((signed char)rounded[e], (signed char)rounded[e + 1]);
        if (lane > 0) continue;
        shared.q_unit[query] = unit;
        shared.q_middle[query] = middle;
    }
}

// Sums of the products of 16 rows' codes with n rounded vectors.
template <int N, bool IN_8, int TILES, int STRIDE>
__device__ inline void dots(const struct nibbles<N, IN_8> &rows, const int8_t (*x)[STRIDE], int n,
                            int sums[TILES][4])
{
    int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint32_t a[4];
        rows.codes(i, a);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            if (tile * QUERIES < n)
                multiply(sums[tile], a, *(const uint2 *)&x[tile * QUERIES + g][32 * i + 8 * t]);
    }
}

template <typename S>
__device__ inline void score(const struct gpu_attention &args, const struct part_of_group<S> &part,
                             int start, int n, shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    int sums[S::TILES][4] = {};
    dots<S::DEPTH, S::IN_8, S::TILES>(part.k, shared.q, n, sums);
#pragma unroll
    for (int i = 0; i < S::TILES; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int query = i * QUERIES + 2 * t + j % 2, p = 16 * warp + 2 * g + j / 2;
            if (i * QUERIES >= n) continue;
            float x = __fmul_rn(
                __fmaf_rn((float)sums[i][j], shared.q_unit[query], shared.q_middle[query]),
                args.scale);
            if (args.cap > 0.0f) x = __fmul_rn(args.cap, tanhf(__fdiv_rn(x, args.cap)));
            shared.scores[query][p] = start + p < shared.hidden[query] ? -INFINITY : x;
        }
}

// From scores to rounded weights, V's scales in them. A group that a query does not see changes
// nothing.
template <typename S>
__device__ inline void soften(const struct part_of_group<S> &part, struct progress<S> &state, int n,
                              shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint16_t scales[4] = {part.v_scale.x, part.v_scale.y, part.v_scale.z, part.v_scale.w},
                   middles[4] = {part.v_middle.x, part.v_middle.y, part.v_middle.z,
                                 part.v_middle.w};
    float dither[4];
    for (int e = 0; e < 4; e++) dither[e] = dither_of(4 * lane + e);
#pragma unroll
    for (int i = 0; i < S::TILES; i++) {
        int query = warp + i * WARPS, rounded[4];
        if (query >= n) break;
        float4 scores = *(const float4 *)&shared.scores[query][4 * lane];
        float x[4] = {scores.x, scores.y, scores.z, scores.w}, sum = 0.0f, middle = 0.0f;
        float largest = warp_max(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])));
        bool is_seen = largest != -INFINITY;
        float exponent = rintf(__fmul_rn(largest, LOG2_E));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float weight =
                is_seen ? exp2_weight(__fsub_rn(__fmul_rn(x[e], LOG2_E), exponent)) : 0.0f;
            sum = __fadd_rn(sum, weight);
            middle = __fmaf_rn(weight, from_half(middles[e]), middle);
            x[e] = __fmul_rn(weight, from_half(scales[e]));
        }
        sum = warp_sum(sum);
        middle = warp_sum(middle);
        float unit = round_vector<4>(x, dither, rounded);
        *(char4 *)&shared.weights[query][4 * lane] =
            make_char4((signed char)rounded[0], (signed char)rounded[1], (signed char)rounded[2],
                       (signed char)rounded[3]);
        float most = is_seen ? fmaxf(exponent, state.exponent[i]) : state.exponent[i];
        float keep = is_seen ? exp2_weight(__fsub_rn(state.exponent[i], most)) : 1.0f,
              take = is_seen ? exp2_weight(__fsub_rn(exponent, most)) : 0.0f;
        state.exponent[i] = most;
        state.total[i] = __fadd_rn(__fmul_rn(state.total[i], keep), __fmul_rn(sum, take));
        if (lane > 0) continue;
        shared.v_unit[query] = is_seen ? unit : 0.0f;
        shared.v_middle[query] = is_seen ? middle : 0.0f;
        shared.keep[query] = keep;
        shared.take[query] = take;
    }
}

template <typename S>
__device__ inline void add_values(const struct part_of_group<S> &part,
                                  const shared_of_groups<S> &shared, int n,
                                  struct progress<S> &state)
{
    int t = threadIdx.x % 4;
#pragma unroll
    for (int b = 0; b < S::BLOCKS; b++) {
        int sums[S::TILES][4] = {};
        dots<S::V_DEPTH, S::IN_8, S::TILES>(part.v[b], shared.weights, n, sums);
#pragma unroll
        for (int i = 0; i < S::TILES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int query = i * QUERIES + 2 * t + j % 2;
                if (i * QUERIES >= n) continue;
                float value =
                    __fmaf_rn((float)sums[i][j], shared.v_unit[query], shared.v_middle[query]);
                state.sums[b][i][j] = __fadd_rn(__fmul_rn(state.sums[b][i][j], shared.keep[query]),
                                                __fmul_rn(value, shared.take[query]));
            }
    }
}

// ---- a span ----

template <typename S>
__device__ inline void load_queries(const struct gpu_attention &args, const struct gpu_tile &tile,
                                    int head, int first, struct progress<S> &state,
                                    shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int n = tile.n * (args.heads.n_head / args.heads.n_head_kv);
#pragma unroll
    for (int i = 0; i < S::TILES; i++) {
        int at = first + warp + i * WARPS;
        bool counts = at < n;
        const struct query query = query_at(args, tile, head, counts ? at : 0);
#pragma unroll
        for (int e = 0; e < S::EACH; e++) {
            int j = lane * S::EACH + e;
            state.q[i][e] = counts && j < args.heads.dim ? query.x[j] : 0.0f;
        }
        state.exponent[i] = -INFINITY;
        state.total[i] = 0.0f;
        if (lane == 0)
            shared.hidden[warp + i * WARPS] = first_seen(args, args.pass.rows[query.row].position);
    }
    for (int b = 0; b < S::BLOCKS; b++)
        for (int i = 0; i < S::TILES; i++)
            for (int j = 0; j < 4; j++) state.sums[b][i][j] = 0.0f;
}

template <typename S>
__device__ inline void put_results(const struct gpu_attention &args, const struct gpu_tile &tile,
                                   int head, int first, int part, const struct progress<S> &state)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int n = tile.n * (args.heads.n_head / args.heads.n_head_kv), padded = args.heads.padded;
    for (int i = 0; i < S::TILES; i++)
        for (int e = 0; e < 2; e++) {
            int at = first + i * QUERIES + 2 * t + e;
            if (at >= n) continue;
            const struct query query = query_at(args, tile, head, at);
            float *result = partial_of(args, query.row, query.head, part);
#pragma unroll
            for (int b = 0; b < S::BLOCKS; b++) {
                int channel = (warp + b * WARPS) * 16 + 2 * g;
                if (channel >= padded) continue;
                result[channel] = state.sums[b][i][e];
                result[channel + 1] = state.sums[b][i][e + 2];
            }
        }
    for (int i = 0; lane == 0 && i < S::TILES; i++) {
        int at = first + warp + i * WARPS;
        if (at >= n) continue;
        const struct query query = query_at(args, tile, head, at);
        float *result = partial_of(args, query.row, query.head, part);
        result[padded] = state.exponent[i];
        result[padded + 1] = state.total[i];
    }
}

// A block of threads for each span, KV head and tile of rows, whose rows read the same groups.
// Groups from before the pass do not depend on the kernels before.
template <typename S>
static __global__ void __launch_bounds__(THREADS, S::DIM <= 128 ? 3 : 1)
    attention_kv(const __grid_constant__ struct gpu_attention args)
{
    extern __shared__ uint4 memory[];
    shared_of_groups<S> &shared = *(shared_of_groups<S> *)memory;
    const struct gpu_tile tile = args.pass.tiles[args.first_tile + blockIdx.z];
    const struct gpu_row row = args.pass.rows[tile.first];
    const struct tile_range range = range_of(args, tile);
    int head = blockIdx.y, each = range.cut.span / GROUP, part = blockIdx.x;
    int begin = max(part * each, range.begin / GROUP),
        end = min((part + 1) * each, range.cut.groups);
    const uint8_t *const *groups = args.pass.groups + row.groups;
    struct part_of_group<S> loaded = {
    };
    bool is_old = begin < end && end <= row.old_groups;
    auto load = [&]() {
        load_keys(planes_of(args, groups[begin], head), loaded);
        load_values(planes_of(args, groups[begin], head), loaded);
    };
    if (is_old) load();
    wait_for_previous();
    if (begin >= end) return;
    int n = tile.n * (args.heads.n_head / args.heads.n_head_kv);
    for (int first = 0; first < n; first += S::ALL) {
        struct progress<S> state;
        int count = min((int)S::ALL, n - first); // of queries
        if (first > 0 || !is_old) load();
        load_queries(args, tile, head, first, state, shared);
        for (int at = begin; at < end; at++) {
            bool goes_on = at + 1 < end;
            struct planes next = planes_of(args, groups[goes_on ? at + 1 : at], head);
            fold(loaded, state, count, shared);
            __syncthreads();
            score(args, loaded, at * GROUP, count, shared);
            if (goes_on) load_keys(next, loaded);
            __syncthreads();
            soften(loaded, state, count, shared);
            __syncthreads();
            add_values(loaded, shared, count, state);
            if (goes_on) load_values(next, loaded);
        }
        put_results(args, tile, head, first, part, state);
        __syncthreads();
    }
}

template <typename S>
static cudaError_t launch_spans(const struct gpu_launch *launch, const struct gpu_attention *args)
{
    dim3 grid((unsigned)args->parts, (unsigned)args->heads.n_head_kv, (unsigned)args->n_tiles);
    size_t bytes = sizeof(shared_of_groups<S>);
    cudaError_t error = cudaFuncSetAttribute(
        attention_kv<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, attention_kv<S>, grid, THREADS, bytes, *args);
}

template <int DIM>
static cudaError_t choose_shape(const struct gpu_launch *launch, const struct gpu_attention *args)
{
    bool in_8 = args->heads.quantised == 8;
    if (args->queries <= QUERIES)
        return in_8 ? launch_spans<kv_shape<DIM, 1, true>>(launch, args)
                    : launch_spans<kv_shape<DIM, 1, false>>(launch, args);
    if (args->queries <= 2 * QUERIES)
        return in_8 ? launch_spans<kv_shape<DIM, 2, true>>(launch, args)
                    : launch_spans<kv_shape<DIM, 2, false>>(launch, args);
    return in_8 ? launch_spans<kv_shape<DIM, 4, true>>(launch, args)
                : launch_spans<kv_shape<DIM, 4, false>>(launch, args);
}

extern "C" cudaError_t gpu_attention_kv(const struct gpu_launch *launch,
                                        const struct gpu_attention *args)
{
    if (args->heads.padded <= 64) return choose_shape<64>(launch, args);
    if (args->heads.padded <= 128) return choose_shape<128>(launch, args);
    if (args->heads.padded <= 256) return choose_shape<256>(launch, args);
    return cudaErrorInvalidValue;
}

// ---- quantising ----

enum { MOST_DIM = 256 };

// As rf_kv_quantize: the same bits.
struct range {
    float least, most;
    bool is_finite;

    __device__ inline void take(float x)
    {
        is_finite &= isfinite(x);
        if (x < least) least = x;
        if (x > most) most = x;
    }
    __device__ inline uint16_t scale() const
    {
        float x = is_finite ? __fdiv_rn(__fsub_rn(most, least), 240.0f) : 0.0f;
        return __half_as_ushort(__float2half_rn(x));
    }
    __device__ inline uint16_t middle() const
    {
        if (!is_finite) return 0x7e00; // NaN
        float x = __fadd_rn(least, __fmul_rn(__fsub_rn(most, least), 0.5f));
        return __half_as_ushort(__float2half_rn(x));
    }
};

static __device__ inline uint8_t code_of(float x, uint16_t scale_bits, uint16_t middle_bits)
{
    float scale = from_half(scale_bits), middle = from_half(middle_bits);
    float code =
        scale > 0.0f ? __fadd_rn(rintf(__fdiv_rn(__fsub_rn(x, middle), scale)), 128.0f) : 128.0f;
    if (!(code >= 0.0f)) return 0;
    return code > 255.0f ? 255 : (uint8_t)code;
}

// Writes the nibbles of rows of codes, `stride` apart, of `depth` values of k.
static __device__ inline void put_nibbles(char *upper, char *lower, const uint8_t *codes, int rows,
                                          int stride, int depth)
{
    for (int i = threadIdx.x; i < rows * depth / 2; i += THREADS) {
        int block = i / 64, row = block / (depth / 8) * 16 + i % 64 / 4,
            k = block % (depth / 8) * 8 + i % 4;
        int a = codes[row * stride + k], b = codes[row * stride + k + 4];
        upper[i] = (char)(a >> 4 | (b & 0xf0));
        if (lower) lower[i] = (char)((a & 15) | (b & 15) << 4);
    }
}

// A block of threads for a group and KV head.
static __global__ void quantise(const __grid_constant__ struct gpu_attention args,
                                const struct gpu_group_job *jobs)
{
    __shared__ uint8_t codes[GROUP * MOST_DIM];
    wait_for_previous();
    const struct gpu_heads &heads = args.heads;
    const struct gpu_group_job job = jobs[blockIdx.x];
    int head = blockIdx.y, padded = heads.padded, warp = threadIdx.x / WARP,
        lane = threadIdx.x % WARP, position = job.group * GROUP;
    const uint16_t *k = args.pass.blocks[job.table + position / GPU_KV_BLOCK] +
                        ((size_t)(args.layer * heads.n_head_kv + head) * 2 * GPU_KV_BLOCK +
                         position % GPU_KV_BLOCK) *
                            padded,
                   *v = k + (size_t)GPU_KV_BLOCK * padded;
    struct planes to = planes_of(args, args.pass.groups[job.groups + job.group], head);
    char *upper = (char *)to.upper, *lower = job.has_lower ? (char *)to.lower : NULL;
    uint16_t *k_scale = (uint16_t *)(upper + GROUP * padded), *k_middle = k_scale + padded,
             *v_scale = k_middle + padded, *v_middle = v_scale + GROUP;
    int nibbles = GROUP * padded / 2;
    for (int j = threadIdx.x; j < padded; j += THREADS) { // codes [position][channel]
        struct range range = {from_half(k[j]), from_half(k[j]), true};
        for (int p = 0; p < GROUP; p++) range.take(from_half(k[p * padded + j]));
        bool counts = j < heads.dim;
        k_scale[j] = counts ? range.scale() : (uint16_t)0;
        k_middle[j] = counts ? range.middle() : (uint16_t)0;
        for (int p = 0; p < GROUP; p++)
            codes[p * padded + j] =
                counts ? code_of(from_half(k[p * padded + j]), range.scale(), range.middle()) : 0;
    }
    __syncthreads();
    put_nibbles(upper, lower, codes, GROUP, padded, padded);
    __syncthreads();
    for (int p = warp; p < GROUP; p += WARPS) { // codes [channel][position]
        const uint16_t *row = v + p * padded;
        struct range range = {from_half(row[0]), from_half(row[0]), true};
        for (int j = lane; j < heads.dim; j += WARP) range.take(from_half(row[j]));
        range.least = -warp_max(-range.least);
        range.most = warp_max(range.most);
        range.is_finite = __all_sync(~0u, range.is_finite);
        if (lane == 0) v_scale[p] = range.scale();
        if (lane == 0) v_middle[p] = range.middle();
        for (int j = lane; j < padded; j += WARP)
            codes[j * GROUP + p] =
                j < heads.dim ? code_of(from_half(row[j]), range.scale(), range.middle()) : 0;
    }
    __syncthreads();
    put_nibbles(upper + nibbles, lower ? lower + nibbles : NULL, codes, padded, GROUP, GROUP);
}

extern "C" cudaError_t gpu_quantise(const struct gpu_launch *launch,
                                    const struct gpu_attention *args,
                                    const struct gpu_group_job *jobs, int32_t n)
{
    dim3 grid((unsigned)n, (unsigned)args->heads.n_head_kv);
    return launch_kernel(launch, quantise, grid, THREADS, 0, *args, jobs);
}
