// Attention over quantised groups (microkernels/kv.h): the rounded integers of the processor's
// definition (struct rf_attention_kv_args), whose products run on tensor cores. A block of threads
// takes a span of groups of a KV head for all queries of a tile, group after group; a group after
// the first is on its way to registers meanwhile. And the kernel that quantises groups.
//
// Instructions bind, so conversions between floats and integers are additions (MAGIC).
#include "gpu/attention.cuh"
#include "microkernels/kv.h"

enum { WARPS = 8, THREADS = WARPS * WARP, QUERIES = 8, GROUP = GPU_CHUNK, MOST = 127 };

static __device__ inline float from_half(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

// ---- numbers ----

// The greatest of a warp's numbers, none of them negative.
static __device__ inline float warp_greatest(float x)
{
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(x)));
}

// The same of any numbers, whose bits as integers have their order, but for negative ones.
static __device__ inline float warp_greatest_of_all(float x)
{
    int bits = __float_as_int(x);
    bits = __reduce_max_sync(~0u, bits < 0 ? bits ^ 0x7fffffff : bits);
    return __int_as_float(bits < 0 ? bits ^ 0x7fffffff : bits);
}

// The sums of both numbers over a warp: of x in the lower lanes, of y in the upper ones.
static __device__ inline float both_sums(float x, float y)
{
    bool is_upper = threadIdx.x % WARP >= WARP / 2;
    float sum = (is_upper ? y : x) + __shfl_xor_sync(~0u, is_upper ? x : y, WARP / 2);
    for (int d = WARP / 4; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    return sum;
}

// Numbers up to 2^22 that are added to 1.5 * 2^23 are rounded to integers, which the lower bits of
// the sum then are. Integers that are added to its bits make that float of so much more. Both take
// the place of conversions, which are slow.
static constexpr float MAGIC = 12582912.0f;
static constexpr int MAGIC_BITS = 0x4b400000;

static __device__ inline float from_magic(int sum)
{
    return __int_as_float(sum) - MAGIC;
}

// Four bytes of the lowest of each float's bits.
static __device__ inline uint32_t low_bytes(const float *x)
{
    uint32_t a = __byte_perm(__float_as_uint(x[0]), __float_as_uint(x[1]), 0x0040),
             b = __byte_perm(__float_as_uint(x[2]), __float_as_uint(x[3]), 0x0040);
    return __byte_perm(a, b, 0x5410);
}

// A vector is rounded to multiples of a unit, -MOST .. MOST; factor: 1 / unit.
struct unit {
    float unit, factor;
};

// The unit of a warp's vector whose greatest absolute value is `top`; the factor is 0 below 2^-100.
// Both are divisions rounded once: an estimate, corrected by its remainder.
static __device__ inline struct unit kv_unit_of(float top)
{
    const float part = 1.0f / MOST;
    float inverse, factor, unit = __fmul_rn(top, part);
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(top));
    factor = __fmul_rn((float)MOST, inverse);
    factor = __fmaf_rn(__fmaf_rn(-top, factor, (float)MOST), inverse, factor);
    unit = __fmaf_rn(__fmaf_rn(-(float)MOST, unit, top), part, unit);
    return {unit, top > 0x1p-100f ? factor : 0.0f};
}

// 2^x, of x that is raised to the least exponent. NaN stays NaN.
static __device__ inline float kv_exp2_weight(float x)
{
    if (x < RF_KV_LEAST_EXPONENT) x = RF_KV_LEAST_EXPONENT;
    float rounded = __fadd_rn(x, MAGIC), r = __fsub_rn(x, __fsub_rn(rounded, MAGIC));
    float p = __fmaf_rn(RF_KV_EXP2_4, r, RF_KV_EXP2_3);
    p = __fmaf_rn(p, r, RF_KV_EXP2_2);
    p = __fmaf_rn(p, r, RF_KV_EXP2_1);
    p = __int_as_float(__float_as_int(__fmaf_rn(p, r, 1.0f)) + (__float_as_int(rounded) << 23));
    return __fmaf_rn(x, 0.0f, p);
}

// 2^n of an integer.
static __device__ inline float kv_power_of_2(float n)
{
    int bits = __float_as_int(__fadd_rn(fmaxf(n, RF_KV_LEAST_EXPONENT), MAGIC));
    return __int_as_float(__float_as_int(1.0f) + (bits << 23));
}

// rf_kv_dither
static __device__ inline float dither_of(int p)
{
    return (float)(2 * (int)(__brev((unsigned)p) >> 25) - MOST) / 256.0f;
}

// Codes have no sign, rounded vectors have.
static __device__ inline void multiply_codes(int c[4], const uint32_t a[4], uint2 b)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
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
    static constexpr int BLOCKS = DIM <= 128 ? 1 : 2; // a warp's blocks of 16 channels of V
    static constexpr int DEPTH = DIM / 32, V_DEPTH = GROUP / 32;
};

// A warp's nibbles of 16 rows, for 32 values of k each. Lane (g, t) has the rows 2g and 2g + 1, and
// of k the values 32 i + 8t .. + 7.
template <int N, bool IN_8> struct nibbles {
    uint2 upper[N], lower[IN_8 ? N : 1];

    // up, low: the lane's first blocks. There are `blocks` blocks of 8 values of k; values behind
    // them stay 0.
    __device__ inline void load_nibbles(const char *up, const char *low, int blocks)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (4 * i + (int)threadIdx.x % 4 >= blocks) continue;
            upper[i] = __ldcg((const uint2 *)(up + i * 256));
            if (IN_8) lower[i] = __ldcg((const uint2 *)(low + i * 256));
        }
    }

    // Codes, as operand A.
    __device__ inline void codes(int i, uint32_t a[4]) const
    {
        const uint32_t low = 0x0f0f0f0f, middle = 0x08080808;
        const uint32_t up[2] = {upper[i].x, upper[i].y},
                       down[2] = {IN_8 ? lower[i].x : middle, IN_8 ? lower[i].y : middle};
#pragma unroll
        for (int r = 0; r < 2; r++) {
            a[r] = (up[r] << 4 & ~low) | (down[r] & low);
            a[r + 2] = (up[r] & ~low) | ((IN_8 ? down[r] >> 4 : down[r]) & low);
        }
    }
};

// A warp's part of a group: its 16 positions of K, its channels of V, and scales and middles of a
// lane's channels and positions.
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

// Offsets of a head's planes in every group.
struct planes {
    uint32_t upper, lower;
};

__device__ inline struct planes planes_of(const struct gpu_attention &args, int head)
{
    const struct gpu_heads &heads = args.heads;
    uint32_t at = args.layer * heads.n_head_kv + head;
    return {at * heads.upper_bytes, heads.planes * heads.upper_bytes + at * heads.lower_bytes};
}

// Offsets of a lane's pieces in every group: both planes of K, and the scales.
struct places {
    uint32_t upper, lower, k_scales, v_scales;
};

template <typename S>
__device__ inline struct places places_of(const struct gpu_attention &args, int head)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, padded = args.heads.padded;
    const struct planes planes = planes_of(args, head);
    uint32_t scales = planes.upper + GROUP * padded,
             at = warp * (padded / 8) * 64 + lane % 4 * 64 + lane / 4 * 8;
    return {planes.upper + at, planes.lower + at, scales + lane * S::EACH * 2,
            scales + 4 * padded + lane * 8};
}

template <typename S>
__device__ inline void load_keys(const uint8_t *group, const struct places &places, int padded,
                                 struct part_of_group<S> &part)
{
    const char *from = (const char *)group;
    part.k.load_nibbles(from + places.upper, from + places.lower, padded / 8);
    if ((int)threadIdx.x % WARP * S::EACH >= padded) return;
    using several = typename few_halves<S::EACH>::type;
    *(several *)part.k_scale = __ldcg((const several *)(from + places.k_scales));
    *(several *)part.k_middle = __ldcg((const several *)(from + places.k_scales + 2 * padded));
}

template <typename S>
__device__ inline void load_values(const uint8_t *group, const struct places &places, int padded,
                                   struct part_of_group<S> &part)
{
    constexpr int OF_BLOCK = GROUP / 8 * 64;
    int warp = threadIdx.x / WARP;
    const char *from = (const char *)group;
    *(uint2 *)&part.v_scale = __ldcg((const uint2 *)(from + places.v_scales));
    *(uint2 *)&part.v_middle = __ldcg((const uint2 *)(from + places.v_scales + 2 * GROUP));
    // A block of V has 16 channels and all positions; a block of K 16 positions and all channels.
    uint32_t at = GROUP * padded / 2 + warp * (OF_BLOCK - padded * 8);
#pragma unroll
    for (int b = 0; b < S::BLOCKS; b++)
        if ((warp + b * WARPS) * 16 < padded)
            part.v[b].load_nibbles(from + places.upper + at + b * WARPS * OF_BLOCK,
                                   from + places.lower + at + b * WARPS * OF_BLOCK, GROUP / 8);
}

// ---- a group ----

// A rounded vector's products with codes: their unit, the number that is added, and the start of
// the sums, since codes stand for 128 less.
struct alignas(16) rounded {
    float unit, middle;
    int start;
};

// Factors of the earlier groups' results and of this group's.
struct shares {
    float keep, take;
};

template <typename S> struct shared_of_groups {
    alignas(16) int8_t q[S::ALL][S::DIM + 32], weights[S::ALL][GROUP + 32]; // rounded
    alignas(16) float scores[S::ALL][GROUP + 8];                            // times log2 e
    struct rounded of_q[S::ALL], of_weights[S::ALL];
    struct shares shares[S::ALL];
    int hidden[S::ALL]; // positions before this one
};

// Leaves a warp's vector of N values a lane rounded in `codes`, and returns what sums of products
// begin with.
template <int N>
static __device__ inline int put_rounded(int8_t *codes, const float *x, const float *dither,
                                         float factor)
{
    float sums[N];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        sums[i] = __fadd_rn(__fmaf_rn(x[i], factor, dither ? dither[i] : 0.0f), MAGIC);
    if constexpr (N == 2) {
        uint32_t two = __byte_perm(__float_as_uint(sums[0]), __float_as_uint(sums[1]), 0x0040);
        *(uint16_t *)codes = (uint16_t)two;
        sum = __dp4a((int)(two & 0xffff), 0x01010101, 0);
    }
#pragma unroll
    for (int i = 0; i + 4 <= N; i += 4) {
        uint32_t four = low_bytes(sums + i);
        *(uint32_t *)(codes + i) = four;
        sum = __dp4a((int)four, 0x01010101, sum);
    }
    return MAGIC_BITS - 128 * __reduce_add_sync(~0u, sum);
}

template <int N> static __device__ inline float largest_of_vector(const float *x)
{
    float top = 0.0f;
    for (int i = 0; i < N; i++) top = fmaxf(top, fabsf(x[i]));
    return warp_greatest(top);
}

// A warp's queries in progress, warp + WARPS i, and its channels' sums for all.
template <typename S> struct progress {
    float q[S::TILES][S::EACH];
    float exponent[S::TILES], total[S::TILES];
    float sums[S::BLOCKS][S::TILES][4]; // channels 2g and 2g + 1, queries 2t and 2t + 1
};

// K's scales are folded into the queries, which are rounded.
template <typename S>
__device__ inline void fold_keys(const struct part_of_group<S> &part,
                                 const struct progress<S> &state, int n,
                                 shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < S::TILES; i++) {
        int query = warp + i * WARPS;
        if (query >= n) break;
        float folded[S::EACH], middle = 0.0f;
#pragma unroll
        for (int e = 0; e < S::EACH; e++) {
            folded[e] = __fmul_rn(state.q[i][e], from_half(part.k_scale[e]));
            middle = __fmaf_rn(state.q[i][e], from_half(part.k_middle[e]), middle);
        }
        middle = warp_sum(middle);
        struct unit unit = kv_unit_of(largest_of_vector<S::EACH>(folded));
        int start =
            put_rounded<S::EACH>(&shared.q[query][lane * S::EACH], folded, NULL, unit.factor);
        if (lane == 0) shared.of_q[query] = {unit.unit, middle, start};
    }
}

// The products of 16 rows' codes with the rounded vectors of a tile of queries, as floats: of the
// rows 2g and 2g + 1 and the vectors 2t and 2t + 1.
template <int N, bool IN_8, int TILES, int STRIDE>
__device__ inline void multiply_kv_rows(const struct nibbles<N, IN_8> &rows,
                                        const int8_t (*x)[STRIDE], const struct rounded *of_x,
                                        float sums[TILES][4])
{
    int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4, c[TILES][4];
    float unit[TILES][2], middle[TILES][2];
    const int8_t *from = &x[g][8 * t];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const struct rounded of = of_x[tile * QUERIES + 2 * t + j];
            c[tile][j] = c[tile][j + 2] = of.start;
            unit[tile][j] = of.unit;
            middle[tile][j] = of.middle;
        }
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint32_t a[4];
        rows.codes(i, a);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            multiply_codes(c[tile], a, *(const uint2 *)(from + tile * QUERIES * STRIDE + 32 * i));
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sums[tile][j] =
                __fmaf_rn(from_magic(c[tile][j]), unit[tile][j % 2], middle[tile][j % 2]);
}

template <typename S>
__device__ inline void score_group(const struct gpu_attention &args,
                                   const struct part_of_group<S> &part, int start,
                                   shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    float sums[S::TILES][4];
    multiply_kv_rows<S::DEPTH, S::IN_8, S::TILES>(part.k, shared.q, shared.of_q, sums);
#pragma unroll
    for (int i = 0; i < S::TILES; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int query = i * QUERIES + 2 * t + j, p = 16 * warp + 2 * g;
            float x[2] = {__fmul_rn(sums[i][j], args.scale), __fmul_rn(sums[i][j + 2], args.scale)};
#pragma unroll
            for (int e = 0; e < 2; e++) {
                if (args.cap > 0.0f) x[e] = __fmul_rn(args.cap, tanhf(__fdiv_rn(x[e], args.cap)));
                x[e] = __fmul_rn(x[e], LOG2_E);
                if (args.window > 0 && start + p + e < shared.hidden[query]) x[e] = -INFINITY;
            }
            *(float2 *)&shared.scores[query][p] = make_float2(x[0], x[1]);
        }
}

// Turns scores into rounded weights that contain V's scales. A group that a query does not see
// changes nothing.
template <typename S>
__device__ inline void soften_scores(const struct part_of_group<S> &part, const float dither[4],
                                     struct progress<S> &state, int n, shared_of_groups<S> &shared)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint16_t scales[4] = {part.v_scale.x, part.v_scale.y, part.v_scale.z, part.v_scale.w},
                   middles[4] = {part.v_middle.x, part.v_middle.y, part.v_middle.z,
                                 part.v_middle.w};
#pragma unroll
    for (int i = 0; i < S::TILES; i++) {
        int query = warp + i * WARPS;
        if (query >= n) break;
        float4 scores = *(const float4 *)&shared.scores[query][4 * lane];
        float x[4] = {scores.x, scores.y, scores.z, scores.w}, sum = 0.0f, middle = 0.0f;
        float largest = warp_greatest_of_all(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])));
        bool is_seen = largest != -INFINITY; // else all that follows counts nothing
        float exponent = is_seen ? __fsub_rn(__fadd_rn(largest, MAGIC), MAGIC) : 0.0f;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float weight = kv_exp2_weight(__fsub_rn(x[e], exponent));
            sum = __fadd_rn(sum, weight);
            middle = __fmaf_rn(weight, from_half(middles[e]), middle);
            x[e] = __fmul_rn(weight, from_half(scales[e]));
        }
        float both = both_sums(sum, middle);
        struct unit unit = kv_unit_of(largest_of_vector<4>(x));
        int start = put_rounded<4>(&shared.weights[query][4 * lane], x, dither, unit.factor);
        float most = is_seen ? fmaxf(exponent, state.exponent[i]) : state.exponent[i];
        float keep = is_seen ? kv_power_of_2(__fsub_rn(state.exponent[i], most)) : 1.0f,
              take = is_seen ? kv_power_of_2(__fsub_rn(exponent, most)) : 0.0f;
        state.exponent[i] = most;
        state.total[i] = __fadd_rn(__fmul_rn(state.total[i], keep), __fmul_rn(both, take));
        if (lane == WARP / 2) shared.of_weights[query].middle = both;
        if (lane > 0) continue;
        shared.of_weights[query].unit = unit.unit;
        shared.of_weights[query].start = start;
        shared.shares[query] = {keep, take};
    }
}

template <typename S>
__device__ inline void add_group_values(const struct part_of_group<S> &part,
                                        const shared_of_groups<S> &shared,
                                        struct progress<S> &state)
{
    int t = threadIdx.x % 4;
    struct shares shares[S::TILES][2];
#pragma unroll
    for (int i = 0; i < S::TILES; i++)
        for (int j = 0; j < 2; j++) shares[i][j] = shared.shares[i * QUERIES + 2 * t + j];
#pragma unroll
    for (int b = 0; b < S::BLOCKS; b++) {
        float sums[S::TILES][4];
        multiply_kv_rows<S::V_DEPTH, S::IN_8, S::TILES>(part.v[b], shared.weights,
                                                        shared.of_weights, sums);
#pragma unroll
        for (int i = 0; i < S::TILES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                state.sums[b][i][j] =
                    __fadd_rn(__fmul_rn(state.sums[b][i][j], shares[i][j % 2].keep),
                              __fmul_rn(sums[i][j], shares[i][j % 2].take));
    }
}

// ---- a span ----

template <typename S>
__device__ inline void load_kv_queries(const struct gpu_attention &args,
                                       const struct gpu_tile &tile, int head, int first,
                                       struct progress<S> &state, shared_of_groups<S> &shared)
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
__device__ inline void put_kv_results(const struct gpu_attention &args, const struct gpu_tile &tile,
                                      int head, int first, int part,
                                      const struct progress<S> &state)
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
    attention_kv_spans(const __grid_constant__ struct gpu_attention args)
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
    const struct places places = places_of<S>(args, head);
    int padded = args.heads.padded;
    auto load = [&]() {
        load_keys(groups[begin], places, padded, loaded);
        load_values(groups[begin], places, padded, loaded);
    };
    if (is_old) load();
    wait_before_next(); // the next kernel takes the newest positions beside this one
    if (begin >= end) return;
    int n = tile.n * (args.heads.n_head / args.heads.n_head_kv);
    float dither[4];
    for (int e = 0; e < 4; e++) dither[e] = dither_of(4 * (threadIdx.x % WARP) + e);
    for (int first = 0; first < n; first += S::ALL) {
        struct progress<S> state;
        int count = min((int)S::ALL, n - first); // queries
        if (first > 0 || !is_old) load();
        load_kv_queries(args, tile, head, first, state, shared);
        for (int at = begin; at < end; at++) {
            bool goes_on = at + 1 < end;
            const uint8_t *next = groups[goes_on ? at + 1 : at];
            fold_keys(loaded, state, count, shared);
            __syncthreads();
            score_group(args, loaded, at * GROUP, shared);
            if (goes_on) load_keys(next, places, padded, loaded);
            __syncthreads();
            soften_scores(loaded, dither, state, count, shared);
            __syncthreads();
            add_group_values(loaded, shared, state);
            if (goes_on) load_values(next, places, padded, loaded);
        }
        put_kv_results(args, tile, head, first, part, state);
        __syncthreads();
    }
}

template <typename S>
static cudaError_t launch_kv_shape(const struct gpu_launch *launch,
                                   const struct gpu_attention *args)
{
    dim3 grid((unsigned)args->parts, (unsigned)args->heads.n_head_kv, (unsigned)args->n_tiles);
    size_t bytes = sizeof(shared_of_groups<S>);
    cudaError_t error = cudaFuncSetAttribute(
        attention_kv_spans<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, attention_kv_spans<S>, grid, THREADS, bytes, *args);
}

template <int DIM>
static cudaError_t choose_kv_shape(const struct gpu_launch *launch,
                                   const struct gpu_attention *args)
{
    bool in_8 = args->heads.quantised == 8;
    if (args->queries <= QUERIES)
        return in_8 ? launch_kv_shape<kv_shape<DIM, 1, true>>(launch, args)
                    : launch_kv_shape<kv_shape<DIM, 1, false>>(launch, args);
    if (args->queries <= 2 * QUERIES)
        return in_8 ? launch_kv_shape<kv_shape<DIM, 2, true>>(launch, args)
                    : launch_kv_shape<kv_shape<DIM, 2, false>>(launch, args);
    return in_8 ? launch_kv_shape<kv_shape<DIM, 4, true>>(launch, args)
                : launch_kv_shape<kv_shape<DIM, 4, false>>(launch, args);
}

extern "C" cudaError_t gpu_attention_kv(const struct gpu_launch *launch,
                                        const struct gpu_attention *args)
{
    if (args->heads.padded <= 64) return choose_kv_shape<64>(launch, args);
    if (args->heads.padded <= 128) return choose_kv_shape<128>(launch, args);
    if (args->heads.padded <= 256) return choose_kv_shape<256>(launch, args);
    return cudaErrorInvalidValue;
}

// ---- quantising ----

enum { MOST_DIM = 256 };

// The least and greatest of a vector's numbers. Scale and middle have the bits of rf_kv_quantize.
struct range {
    float least, most;
    bool is_finite;

    __device__ inline void cover(float x)
    {
        is_finite &= isfinite(x);
        if (x < least) least = x;
        if (x > most) most = x;
    }
    __device__ inline uint16_t half_scale() const
    {
        float x = is_finite ? __fdiv_rn(__fsub_rn(most, least), 240.0f) : 0.0f;
        return __half_as_ushort(__float2half_rn(x));
    }
    __device__ inline uint16_t half_middle() const
    {
        if (!is_finite) return 0x7e00; // NaN
        float x = __fadd_rn(least, __fmul_rn(__fsub_rn(most, least), 0.5f));
        return __half_as_ushort(__float2half_rn(x));
    }
};

static __device__ inline uint8_t quantised_code(float x, uint16_t scale_bits, uint16_t middle_bits)
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
static __global__ void attention_kv_quantise(const __grid_constant__ struct gpu_attention args,
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
    const struct planes to = planes_of(args, head);
    char *group = (char *)args.pass.groups[job.groups + job.group], *upper = group + to.upper,
         *lower = job.has_lower ? group + to.lower : NULL;
    uint16_t *k_scale = (uint16_t *)(upper + GROUP * padded), *k_middle = k_scale + padded,
             *v_scale = k_middle + padded, *v_middle = v_scale + GROUP;
    int nibbles = GROUP * padded / 2;
    for (int j = threadIdx.x; j < padded; j += THREADS) { // codes [position][channel]
        struct range range = {from_half(k[j]), from_half(k[j]), true};
        for (int p = 0; p < GROUP; p++) range.cover(from_half(k[p * padded + j]));
        bool counts = j < heads.dim;
        k_scale[j] = counts ? range.half_scale() : (uint16_t)0;
        k_middle[j] = counts ? range.half_middle() : (uint16_t)0;
        for (int p = 0; p < GROUP; p++)
            codes[p * padded + j] = counts ? quantised_code(from_half(k[p * padded + j]),
                                                            range.half_scale(), range.half_middle())
                                           : 0;
    }
    __syncthreads();
    put_nibbles(upper, lower, codes, GROUP, padded, padded);
    __syncthreads();
    for (int p = warp; p < GROUP; p += WARPS) { // codes [channel][position]
        const uint16_t *row = v + p * padded;
        struct range range = {from_half(row[0]), from_half(row[0]), true};
        for (int j = lane; j < heads.dim; j += WARP) range.cover(from_half(row[j]));
        range.least = -warp_max(-range.least);
        range.most = warp_max(range.most);
        range.is_finite = __all_sync(~0u, range.is_finite);
        if (lane == 0) v_scale[p] = range.half_scale();
        if (lane == 0) v_middle[p] = range.half_middle();
        for (int j = lane; j < padded; j += WARP)
            codes[j * GROUP + p] =
                j < heads.dim
                    ? quantised_code(from_half(row[j]), range.half_scale(), range.half_middle())
                    : 0;
    }
    __syncthreads();
    put_nibbles(upper + nibbles, lower ? lower + nibbles : NULL, codes, padded, GROUP, GROUP);
}

extern "C" cudaError_t gpu_quantise(const struct gpu_launch *launch,
                                    const struct gpu_attention *args,
                                    const struct gpu_group_job *jobs, int32_t n)
{
    dim3 grid((unsigned)n, (unsigned)args->heads.n_head_kv);
    return launch_kernel(launch, attention_kv_quantise, grid, THREADS, 0, *args, jobs);
}
