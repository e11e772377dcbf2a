// Attention over keys and values in 16 bits. A block of threads takes a span of positions of a KV
// head for all queries of a tile of rows, and leaves a partial result for each (gpu_cut_of); these
// are merged in one order. So a row's bits depend on the positions that it sees alone.
//
// Products run on tensor cores: positions, then dimensions, are operand A; 8 queries are operand B.
// Queries and weights are split into two numbers of the cache's type, whose sum has 22 bits (F16)
// or 16 (BF16). Positions come in steps through a ring in shared memory, of which a warp has 16; it
// keeps its own softmax, and warps are merged behind the last step.
#include "gpu/attention.cuh"

enum {
    POSITIONS = 16, // a warp's positions in a step
    QUERIES = 8,    // columns of operand B
    SLICES = 16,    // slices of a row's parts, which are merged side by side
    MANY_ROWS = 4   // rows that keep all processors busy with few warps each
};

// Weights are relative to a score that is at most SLACK below the greatest one: it seldom changes.
static constexpr float SLACK = 8.0f, LOWEST = -1e30f;

// ---- pieces ----

template <bool BF16> struct element;

template <> struct element<true> {
    static __device__ uint32_t to_halves(float a, float b)
    {
        __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
        return *(uint32_t *)&two;
    }
    static __device__ float2 to_floats(uint32_t two)
    {
        return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
    }
    static __device__ void mma_16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

template <> struct element<false> {
    static __device__ uint32_t to_halves(float a, float b)
    {
        __half2 two = __floats2half2_rn(a, b);
        return *(uint32_t *)&two;
    }
    static __device__ float2 to_floats(uint32_t two)
    {
        return __half22float2(*(const __half2 *)&two);
    }
    static __device__ void mma_16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
    {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// Two floats as two numbers of the cache's type and what these leave over.
template <bool BF16> __device__ inline uint32_t split_pair(float a, float b, uint32_t *rest)
{
    uint32_t two = element<BF16>::to_halves(a, b);
    float2 taken = element<BF16>::to_floats(two);
    *rest = element<BF16>::to_halves(__fsub_rn(a, taken.x), __fsub_rn(b, taken.y));
    return two;
}

__device__ inline void load_pieces(uint32_t m[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(at)
                 : "memory");
}

__device__ inline void load_turned(uint32_t m[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(at)
                 : "memory");
}

// An 8 x 8 matrix of which a lane has two elements, transposed.
__device__ inline uint32_t turned(uint32_t two)
{
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(two));
    return two;
}

// 16 bytes on their way to shared memory, or zeros.
__device__ inline void copy_16(uint32_t to, const void *from, bool counts)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(counts ? 16 : 0)
                 : "memory");
}

// The shape of a kernel. DIM: the head's dimensions, rounded up to 64, 128 or 256. WARPS of a block
// share a step's positions, TEAMS have queries of their own, 8 TILES each.
template <int DIM_, int TILES_, int TEAMS_> struct shape {
    static constexpr int DIM = DIM_, TILES = TILES_, TEAMS = TEAMS_;
    static constexpr int WARPS = DIM <= 128 ? 4 : 2, STEP = WARPS * POSITIONS;
    static constexpr int THREADS = WARPS * TEAMS * WARP, ALL = QUERIES * TILES * TEAMS;
    static constexpr int PIECES = DIM / 8; // 16 bytes of a row
    static constexpr int RING = DIM == 64 ? 6 : TEAMS == 1 ? 5 : 4;
    static constexpr int HALF = STEP * DIM * 2; // bytes of a step's keys, or of its values
    static constexpr int COPIES =
        WARPS * ALL * DIM * 4 <= RING * HALF ? WARPS : 2; // copies of the sums, for the warps
    static_assert(COPIES * ALL * DIM * 4 <= RING * HALF, "sums take the place of the ring");
    static constexpr bool ALONE = TEAMS == 1; // each warp loads its own positions
};

template <typename S> struct shared_of_span {
    alignas(128) char ring[S::RING * S::HALF]; // later the sums [COPIES][ALL][DIM]
    uint16_t q[2][S::ALL][S::DIM];             // rounded, and the rest
    float largest[S::WARPS][S::ALL], weights[S::WARPS][S::ALL];
    int hidden[S::ALL], visible[S::ALL]; // positions that a query sees: [hidden, visible)
    const float *x[S::ALL];              // the query; NULL: there is none
    float *result[S::ALL]; // place of the query's result; NULL: it sees nothing of the span
};

// The place of piece c of row r: pieces of 8 rows lie in different banks.
template <typename S> __device__ inline uint32_t piece_place(int r, int c)
{
    return (uint32_t)((r * S::PIECES + (c ^ (r & 7))) * 16);
}

// ---- keys and values on their way ----

// A block's part of the cache.
struct entries {
    uint16_t *const *blocks;
    size_t plane; // the keys' plane; the values' is the next one
    int padded, end;
    const int32_t *maps; // slots of the positions from `first` on, or NULL
    int first;
};

__device__ inline struct entries entries_of(const struct gpu_attention &args,
                                            const struct gpu_row &row, int head, int end)
{
    bool is_mapped = row.map != GPU_NO_MAP;
    return {args.pass.blocks + row.table,
            (size_t)(args.layer * args.heads.n_head_kv + head) * 2 * GPU_KV_BLOCK,
            args.heads.padded,
            end,
            is_mapped ? args.pass.maps + row.map : NULL,
            row.first};
}

// Asks for a step's keys or values.
template <typename S>
__device__ inline void ask_for_step(const struct entries &from, uint32_t to, int start,
                                    bool is_value)
{
    size_t plane = from.plane + (is_value ? GPU_KV_BLOCK : 0);
    auto entry = [&](int slot) {
        return from.blocks[slot / GPU_KV_BLOCK] + (plane + slot % GPU_KV_BLOCK) * from.padded;
    };
    constexpr int THREADS = S::ALONE ? (int)WARP : S::THREADS, ROWS = THREADS / S::PIECES,
                  EACH = (S::ALONE ? (int)POSITIONS : S::STEP) / ROWS;
    int thread = threadIdx.x % THREADS, c = thread % S::PIECES, r = thread / S::PIECES;
    if (S::ALONE) r += threadIdx.x / WARP * POSITIONS;
    const uint16_t *at = entry(start) + r * from.padded + c * 8; // a step lies in one block
    bool is_mapped = from.maps && start + S::STEP > from.first, counts = c * 8 < from.padded;
    if (!is_mapped && start + S::STEP <= from.end) {
#pragma unroll
        for (int i = 0; i < EACH; i++, at += ROWS * from.padded)
            copy_16(to + piece_place<S>(r + i * ROWS, c), at, counts);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < EACH; i++) {
        int position = start + r + i * ROWS;
        bool is_there = counts && position < from.end;
        const uint16_t *mapped = at + i * ROWS * from.padded;
        if (is_there && is_mapped && position >= from.first)
            mapped = entry(from.maps[position - from.first]) + c * 8;
        copy_16(to + piece_place<S>(r + i * ROWS, c), mapped, is_there);
    }
}

// ---- a step ----

// A warp's sums and weights so far, for its queries 2t and 2t + 1 of each tile.
template <typename S> struct state {
    float sums[S::DIM / 16][S::TILES][4];          // dimensions g and g + 8, queries 2t and 2t + 1
    float base[S::TILES][2], weights[S::TILES][2]; // weights are powers of 2, relative to 2^base
};

// Scores of the warp's positions g and g + 8 and the queries 2t and 2t + 1.
template <bool BF16, typename S>
__device__ inline void score_step(uint32_t keys, uint32_t q, int warp, int team,
                                  float s[S::TILES][4])
{
    int lane = threadIdx.x % WARP, row = warp * POSITIONS + lane % 16;
    float rest[S::TILES][4] = {};
#pragma unroll
    for (int i = 0; i < S::DIM / 16; i++) {
        uint32_t k[4], x[4];
        load_pieces(k, keys + piece_place<S>(row, 2 * i + lane / 16));
#pragma unroll
        for (int n = 0; n < S::TILES; n++) {
            int query = (team * S::TILES + n) * QUERIES + lane % 8;
            load_pieces(x, q + lane / 16 * (S::ALL * S::DIM * 2) +
                               piece_place<S>(query, 2 * i + lane / 8 % 2));
            element<BF16>::mma_16(s[n], k, x[0], x[1]);
            element<BF16>::mma_16(rest[n], k, x[2], x[3]);
        }
    }
#pragma unroll
    for (int n = 0; n < S::TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = __fadd_rn(s[n][i], rest[n][i]);
}

__device__ inline float estimate_exp2(float x)
{
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

// Caps scores, and hides those of positions from `first` on that a query does not see.
template <typename S>
__device__ inline void limit(const struct gpu_attention &args, const shared_of_span<S> &shared,
                             int first, int team, float s[S::TILES][4])
{
    int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    float cap = __fmul_rn(args.cap, LOG2_E);
#pragma unroll
    for (int n = 0; n < S::TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int query = (team * S::TILES + n) * QUERIES + 2 * t + i % 2, at = first + g + i / 2 * 8;
            if (cap > 0.0f) s[n][i] = __fmul_rn(tanhf(__fdiv_rn(s[n][i], cap)), cap);
            if (at < shared.hidden[query] || at >= shared.visible[query]) s[n][i] = -INFINITY;
        }
}

// Raises the base that a query's weights are relative to, to its greatest score so far.
template <typename S>
__device__ inline void raise_bases(const float s[S::TILES][4], struct state<S> &state)
{
#pragma unroll
    for (int n = 0; n < S::TILES; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float &base = state.base[n][j], largest = column_max(fmaxf(s[n][j], s[n][j + 2]));
            if (!(largest > base + SLACK)) continue; // the same for all lanes of the query
            float factor = base == LOWEST ? 0.0f : estimate_exp2(__fsub_rn(base, largest));
            base = largest;
            state.weights[n][j] = __fmul_rn(state.weights[n][j], factor);
#pragma unroll
            for (int i = 0; i < S::DIM / 16; i++) {
                state.sums[i][n][j] = __fmul_rn(state.sums[i][n][j], factor);
                state.sums[i][n][j + 2] = __fmul_rn(state.sums[i][n][j + 2], factor);
            }
        }
}

// Turns scores into weights, in operand B's order: rounded, and the rest.
template <bool BF16, typename S>
__device__ inline void weigh_step(float s[S::TILES][4], struct state<S> &state,
                                  uint32_t weights[S::TILES][2][2])
{
    bool rises = false;
#pragma unroll
    for (int n = 0; n < S::TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) rises |= s[n][i] > state.base[n][i % 2] + SLACK;
    if (__any_sync(~0u, rises)) raise_bases<S>(s, state);
#pragma unroll
    for (int n = 0; n < S::TILES; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = estimate_exp2(__fsub_rn(s[n][i], state.base[n][i % 2]));
#pragma unroll
        for (int j = 0; j < 2; j++)
            state.weights[n][j] = __fadd_rn(state.weights[n][j], __fadd_rn(s[n][j], s[n][j + 2]));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t rest, two = split_pair<BF16>(s[n][2 * half], s[n][2 * half + 1], &rest);
            weights[n][0][half] = turned(two);
            weights[n][1][half] = turned(rest);
        }
    }
}

template <bool BF16, typename S>
__device__ inline void add_step_values(uint32_t values, int warp,
                                       const uint32_t weights[S::TILES][2][2],
                                       struct state<S> &state)
{
    int lane = threadIdx.x % WARP, row = warp * POSITIONS + lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int i = 0; i < S::DIM / 16; i++) {
        uint32_t v[4];
        load_turned(v, values + piece_place<S>(row, 2 * i + lane / 8 % 2));
#pragma unroll
        for (int n = 0; n < S::TILES; n++) {
            element<BF16>::mma_16(state.sums[i][n], v, weights[n][0][0], weights[n][0][1]);
            element<BF16>::mma_16(state.sums[i][n], v, weights[n][1][0], weights[n][1][1]);
        }
    }
}

// ---- a span ----

// Finds the queries [first, first + ALL) of a tile, and the positions of the span at `start` that
// they see. Does not depend on the kernels before.
template <typename S>
__device__ inline void find_queries(const struct gpu_attention &args, const struct gpu_tile &tile,
                                    int head, int first, int start, int span, int part,
                                    shared_of_span<S> &shared)
{
    int at = threadIdx.x, n = tile.n * (args.heads.n_head / args.heads.n_head_kv), position = -1;
    static_assert(S::ALL <= S::THREADS, "a thread finds a query");
    if (at < S::ALL) {
        shared.x[at] = NULL;
        shared.result[at] = NULL;
        if (first + at < n) {
            struct query query = query_at(args, tile, head, first + at);
            position = args.pass.rows[query.row].position;
            shared.x[at] = query.x;
            if (position >= start && first_seen(args, position) < start + span)
                shared.result[at] = partial_of(args, query.row, query.head, part);
        }
        shared.visible[at] = position + 1;
        shared.hidden[at] = first_seen(args, position);
    }
    __syncthreads();
}

// A warp takes a query.
template <bool BF16, typename S>
__device__ inline void split_queries(const struct gpu_attention &args, shared_of_span<S> &shared)
{
    int lane = threadIdx.x % WARP, dim = args.heads.dim;
    float scale = __fmul_rn(args.scale, LOG2_E);
#pragma unroll
    for (int e = 0; e < S::ALL * WARP / S::THREADS; e++) {
        int at = threadIdx.x / WARP + e * (S::THREADS / WARP);
        const float *from = shared.x[at];
#pragma unroll
        for (int i = 0; i < S::DIM / 64; i++) {
            int j = i * 64 + lane * 2;
            float x = from && j < dim ? __fmul_rn(__ldcg(from + j), scale) : 0.0f,
                  y = from && j + 1 < dim ? __fmul_rn(__ldcg(from + j + 1), scale) : 0.0f;
            uint32_t rest, two = split_pair<BF16>(x, y, &rest);
            uint32_t place = piece_place<S>(at, j / 8) + j % 8 * 2;
            *(uint32_t *)((char *)shared.q[0] + place) = two;
            *(uint32_t *)((char *)shared.q[1] + place) = rest;
        }
    }
}

// The place of dimension d of a query's sums: the queries of a tile lie in different banks.
template <typename S> __device__ inline int sum_place(int query, int d)
{
    return query * S::DIM + (d ^ query / 2 % 4 * 8);
}

// Adds up all warps' weights. A thread takes a query.
template <typename S>
__device__ inline void put_weights(int padded, const shared_of_span<S> &shared)
{
    int at = threadIdx.x;
    float most = LOWEST, weights = 0.0f;
    if (at >= S::ALL || !shared.result[at]) return;
    for (int w = 0; w < S::WARPS; w++) most = fmaxf(most, shared.largest[w][at]);
    for (int w = 0; w < S::WARPS; w++)
        weights = __fmaf_rn(shared.weights[w][at],
                            estimate_exp2(__fsub_rn(shared.largest[w][at], most)), weights);
    shared.result[at][padded] = most;
    shared.result[at][padded + 1] = weights;
}

// Adds up the warps' sums, (0 + 2) + (1 + 3), and writes the partial results.
template <typename S>
__device__ inline void put_span_results(const struct gpu_attention &args, struct state<S> &state,
                                        shared_of_span<S> &shared)
{
    int warp = threadIdx.x / WARP % S::WARPS, team = threadIdx.x / WARP / S::WARPS;
    int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4, padded = args.heads.padded;
    float *sums = (float *)shared.ring;
    constexpr int COPY = S::ALL * S::DIM;
#pragma unroll
    for (int n = 0; n < S::TILES; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int query = (team * S::TILES + n) * QUERIES + 2 * t + j;
            float weights = column_sum(state.weights[n][j]);
            if (g > 0) continue;
            shared.largest[warp][query] = state.base[n][j];
            shared.weights[warp][query] = weights;
        }
    __syncthreads();
    float factor[S::TILES][2];
#pragma unroll
    for (int n = 0; n < S::TILES; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float most = LOWEST;
            for (int w = 0; w < S::WARPS; w++)
                most = fmaxf(most, shared.largest[w][(team * S::TILES + n) * QUERIES + 2 * t + j]);
            factor[n][j] = estimate_exp2(__fsub_rn(state.base[n][j], most));
        }
    put_weights<S>(padded, shared);
#pragma unroll
    for (int w = 0; w < S::WARPS; w += S::COPIES) {
        if (w <= warp && warp < w + S::COPIES)
#pragma unroll
            for (int i = 0; i < S::DIM / 16; i++) {
                float old[S::TILES][4];
                auto at = [&](int n, int j) {
                    int query = (team * S::TILES + n) * QUERIES + 2 * t + j % 2;
                    return sums + warp % S::COPIES * COPY +
                           sum_place<S>(query, 16 * i + g + j / 2 * 8);
                };
#pragma unroll
                for (int e = 0; w > 0 && e < S::TILES * 4; e++)
                    old[e / 4][e % 4] = *at(e / 4, e % 4);
#pragma unroll
                for (int e = 0; e < S::TILES * 4; e++) {
                    int n = e / 4, j = e % 4;
                    float x = __fmul_rn(state.sums[i][n][j], factor[n][j % 2]);
                    *at(n, j) = w > 0 ? __fadd_rn(old[n][j], x) : x;
                }
            }
        __syncthreads();
    }
    for (int at = threadIdx.x / WARP; at < S::ALL; at += S::THREADS / WARP) {
        float *result = shared.result[at];
        if (!result) continue;
#pragma unroll
        for (int i = 0; i < S::DIM / WARP; i++) {
            int j = i * WARP + threadIdx.x % WARP;
            const float *of = sums + sum_place<S>(at, j);
            float sum = S::COPIES == 4 ? __fadd_rn(__fadd_rn(of[0], of[2 * COPY]),
                                                   __fadd_rn(of[COPY], of[3 * COPY]))
                                       : __fadd_rn(of[0], of[COPY]);
            if (j < padded) result[j] = sum;
        }
    }
}

// The queries [first, first + ALL) of a tile. The first pieces of the ring are asked for.
template <bool BF16, typename S>
__device__ inline void attend(const struct gpu_attention &args, const struct gpu_tile &tile,
                              const struct entries &from, const struct tile_range &range, int first,
                              int start, int steps, shared_of_span<S> &shared,
                              struct state<S> &state)
{
    int warp = threadIdx.x / WARP % S::WARPS, team = threadIdx.x / WARP / S::WARPS;
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(shared.ring),
             q = (uint32_t)__cvta_generic_to_shared(shared.q);
    bool works =
        first + team * S::TILES * QUERIES < tile.n * (args.heads.n_head / args.heads.n_head_kv);
    int asked = S::RING - 1, at = 0;
    // The next half of a step is there for all, and the piece of the one before may be filled.
    auto next = [&]() {
        asm volatile("cp.async.wait_group %0;" ::"n"(S::RING - 2) : "memory");
        if (S::ALONE)
            __syncwarp();
        else
            __syncthreads();
        if (asked < 2 * steps)
            ask_for_step<S>(from, ring + (uint32_t)(asked % S::RING * S::HALF),
                            start + asked / 2 * S::STEP, asked % 2);
        asm volatile("cp.async.commit_group;");
        asked++;
        return ring + (uint32_t)(at++ % S::RING * S::HALF);
    };
    for (int step = 0; step < steps; step++) {
        float s[S::TILES][4] = {};
        uint32_t weights[S::TILES][2][2], keys = next();
        if (works) {
            int at = start + step * S::STEP;
            score_step<BF16, S>(keys, q, warp, team, s);
            if (at < range.all_begin || at + S::STEP > range.all_end || args.cap > 0.0f)
                limit<S>(args, shared, at + warp * POSITIONS, team, s);
            weigh_step<BF16, S>(s, state, weights);
        }
        uint32_t values = next();
        if (works) add_step_values<BF16, S>(values, warp, weights, state);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

// A block of threads for each span, KV head and tile of rows. The cache's entries from before the
// pass do not depend on the kernels before.
template <bool BF16, typename S>
static __global__ void __launch_bounds__(S::THREADS)
    attention_spans(const __grid_constant__ struct gpu_attention args)
{
    extern __shared__ uint4 memory[];
    shared_of_span<S> &shared = *(shared_of_span<S> *)memory;
    let_next_begin();
    const struct gpu_tile tile = args.pass.tiles[args.first_tile + blockIdx.z];
    const struct gpu_row row = args.pass.rows[tile.first];
    const struct tile_range range = range_of(args, tile);
    int head = blockIdx.y, span = args.heads.quantised ? (int)GPU_CHUNK : range.cut.span;
    int begin = range.cut.groups * GPU_CHUNK + blockIdx.x * span,
        end = min(begin + span, range.end);
    int start = max(begin, range.begin / S::STEP * S::STEP), steps = 0;
    if (start < end) steps = (end - start + S::STEP - 1) / S::STEP;
    const struct entries from = entries_of(args, row, head, end);
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(shared.ring);
    int n = tile.n * (args.heads.n_head / args.heads.n_head_kv);
    bool waits = !args.has_spans; // else they are visible
    for (int first = 0; first < n; first += S::ALL) {
        find_queries<S>(args, tile, head, first, begin, span, range.cut.spans + blockIdx.x, shared);
        for (int i = 0; i < S::RING - 1; i++) {
            int at = start + i / 2 * S::STEP;
            if (i >= 2 * steps) break;
            if (waits && at + S::STEP > row.first) {
                wait_for_previous();
                waits = false;
            }
            ask_for_step<S>(from, ring + (uint32_t)(i * S::HALF), at, i % 2);
            asm volatile("cp.async.commit_group;");
        }
        if (waits) wait_for_previous();
        waits = false;
        if (!steps) break;
        for (int i = 2 * steps; i < S::RING - 1; i++) asm volatile("cp.async.commit_group;");
        struct state<S> state = {
        };
        for (int i = 0; i < S::TILES; i++) state.base[i][0] = state.base[i][1] = LOWEST;
        split_queries<BF16, S>(args, shared);
        __syncthreads();
        attend<BF16, S>(args, tile, from, range, first, start, steps, shared, state);
        put_span_results<S>(args, state, shared);
        __syncthreads();
    }
    if (args.has_spans) wait_for_previous(); // so that who waits for this kernel waits for both
}

template <bool BF16, typename S>
static cudaError_t launch_span_shape(const struct gpu_launch *launch,
                                     const struct gpu_attention *args)
{
    unsigned parts = args->heads.quantised ? 2 : (unsigned)args->parts;
    dim3 grid(parts, (unsigned)args->heads.n_head_kv, (unsigned)args->n_tiles);
    size_t bytes = sizeof(shared_of_span<S>);
    cudaError_t error = cudaFuncSetAttribute(
        attention_spans<BF16, S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, attention_spans<BF16, S>, grid, S::THREADS, bytes, *args);
}

template <bool BF16, int DIM>
static cudaError_t choose_queries(const struct gpu_launch *launch, const struct gpu_attention *args)
{
    if (args->queries <= QUERIES) return launch_span_shape<BF16, shape<DIM, 1, 1>>(launch, args);
    if (args->queries <= 2 * QUERIES)
        return launch_span_shape<BF16, shape<DIM, 2, 1>>(launch, args);
    return launch_span_shape<BF16, shape<DIM, 2, DIM <= 128 ? 4 : 2>>(launch, args);
}

template <bool BF16>
static cudaError_t choose_dim(const struct gpu_launch *launch, const struct gpu_attention *args)
{
    if (args->heads.padded <= 64) return choose_queries<BF16, 64>(launch, args);
    if (args->heads.padded <= 128) return choose_queries<BF16, 128>(launch, args);
    if (args->heads.padded <= 256) return choose_queries<BF16, 256>(launch, args);
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t gpu_attention(const struct gpu_launch *launch,
                                     const struct gpu_attention *args)
{
    return args->heads.is_bf16 ? choose_dim<true>(launch, args) : choose_dim<false>(launch, args);
}

// ---- merging ----

// The number of the part that has a position.
static __device__ inline int part_at(const struct gpu_cut &cut, bool quantised, int position)
{
    int groups = cut.groups * GPU_CHUNK;
    if (position < groups) return position / cut.span;
    return cut.spans + (position - groups) / (quantised ? (int)GPU_CHUNK : cut.span);
}

// Every SLICES-th part of a row, merged: sums and weights relative to their greatest score.
struct slice {
    float largest, sum, weights;
};

// The value d of the parts first, first + SLICES .. of a head.
static __device__ inline struct slice merge_slice(const float *partial, int padded, int d,
                                                  int first, int parts)
{
    constexpr int MOST = (GPU_MOST_SPANS + 2 + SLICES - 1) / SLICES;
    size_t step = padded + 2;
    float largest[MOST], sums[MOST], weights[MOST];
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        const float *of = partial + (first + i * SLICES) * step;
        bool counts = first + i * SLICES < parts;
        largest[i] = counts ? of[padded] : LOWEST;
        weights[i] = counts ? of[padded + 1] : 0.0f;
        sums[i] = counts ? of[d] : 0.0f;
    }
    struct slice slice = {LOWEST, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < MOST; i++) slice.largest = fmaxf(slice.largest, largest[i]);
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        float scale = estimate_exp2(largest[i] - slice.largest);
        slice.sum = fmaf(sums[i], scale, slice.sum);
        slice.weights = fmaf(weights[i], scale, slice.weights);
    }
    return slice;
}

// A block of threads for 32 values of a row, which may belong to several heads. Slices are added in
// order.
static __global__ void attention_merge(const __grid_constant__ struct gpu_attention args,
                                       struct gpu_rows out)
{
    __shared__ struct slice slices[SLICES][WARP];
    int warps = blockDim.x / WARP, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    let_next_begin();
    int first = blockIdx.x * WARP, j = first + lane, row = args.first_row + blockIdx.y;
    const struct gpu_heads &heads = args.heads;
    int position = args.pass.rows[row].position;
    const struct gpu_cut cut = gpu_cut_of(&heads, position);
    int begin = part_at(cut, heads.quantised, first_seen(args, position));
    bool counts = j < out.width;
    int head = counts ? j / heads.dim : 0, d = counts ? j % heads.dim : 0;
    const float *partial = partial_of(args, row, head, begin);
    wait_for_previous();
    for (int s = warp; s < SLICES; s += warps)
        slices[s][lane] = merge_slice(partial, heads.padded, d, s, cut.parts - begin);
    __syncthreads();
    if (warp > 0) return;
    float sink = args.sinks ? args.sinks[head] * LOG2_E : LOWEST;
    float largest = sink, sum = 0.0f;
#pragma unroll
    for (int s = 0; s < SLICES; s++) largest = fmaxf(largest, slices[s][lane].largest);
    float weights = args.sinks ? estimate_exp2(sink - largest) : 0.0f;
#pragma unroll
    for (int s = 0; s < SLICES; s++) {
        const struct slice &slice = slices[s][lane];
        float scale = estimate_exp2(slice.largest - largest);
        sum = fmaf(slice.sum, scale, sum);
        weights = fmaf(slice.weights, scale, weights);
    }
    put_values(out, row, first, counts ? __fdiv_rn(sum, weights) : 0.0f);
}

// The same where no slice has two parts, all of them in registers. A thread has VALUES values, four
// if they become pieces alone.
template <int MOST, int VALUES>
static __global__ void attention_merge_few(const __grid_constant__ struct gpu_attention args,
                                           struct gpu_rows out)
{
    let_next_begin();
    int j = (blockIdx.x * blockDim.x + threadIdx.x) * VALUES, row = args.first_row + blockIdx.y;
    if (VALUES == 1 && j / WARP * WARP >= out.pairs * GPU_PAIR) return;
    const struct gpu_heads &heads = args.heads;
    int position = args.pass.rows[row].position;
    const struct gpu_cut cut = gpu_cut_of(&heads, position);
    int begin = part_at(cut, heads.quantised, first_seen(args, position));
    bool counts = j < out.width;
    int head = counts ? j / heads.dim : 0, d = counts ? j % heads.dim : 0;
    const float *partial = partial_of(args, row, head, begin);
    float largest[MOST], weights[MOST], sums[MOST][VALUES], merged[VALUES] = {};
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        const float *of = partial + i * result_floats(heads);
        bool is_there = begin + i < cut.parts;
        largest[i] = is_there ? of[heads.padded] : LOWEST;
        weights[i] = is_there ? of[heads.padded + 1] : 0.0f;
        for (int v = 0; v < VALUES; v++) sums[i][v] = is_there ? of[d + v] : 0.0f;
    }
    float sink = args.sinks ? args.sinks[head] * LOG2_E : LOWEST, most = sink;
#pragma unroll
    for (int i = 0; i < MOST; i++) most = fmaxf(most, largest[i]);
    float weight = args.sinks ? estimate_exp2(sink - most) : 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        float scale = estimate_exp2(largest[i] - most);
        for (int v = 0; v < VALUES; v++) merged[v] = fmaf(sums[i][v], scale, merged[v]);
        weight = fmaf(weights[i], scale, weight);
    }
    for (int v = 0; v < VALUES; v++) merged[v] = counts ? __fdiv_rn(merged[v], weight) : 0.0f;
    if constexpr (VALUES == 4)
        put_four(out, row, j, merged);
    else
        put_values(out, row, j / WARP * WARP, merged[0]);
}

extern "C" cudaError_t gpu_merge(const struct gpu_launch *launch, const struct gpu_attention *args,
                                 const struct gpu_rows *out, int32_t n)
{
    enum { FEW = 4 };
    unsigned pieces = (unsigned)(out->pairs * GPU_PAIR / WARP);
    bool many = n >= MANY_ROWS;
    if (args->parts > SLICES) {
        int warps = many ? 4 : SLICES; // no bits depend on it
        return launch_kernel(launch, attention_merge, dim3(pieces, (unsigned)n),
                             (unsigned)(warps * WARP), 0, *args, *out);
    }
    bool in_fours = args->parts <= FEW && is_pieces_alone(out) && args->heads.dim % 4 == 0;
    unsigned warps = many ? 4 : 1, of_block = in_fours ? 4 * warps : warps;
    dim3 grid((pieces + of_block - 1) / of_block, (unsigned)n);
    auto kernel = in_fours             ? attention_merge_few<FEW, 4>
                  : args->parts <= FEW ? attention_merge_few<FEW, 1>
                                       : attention_merge_few<SLICES, 1>;
    return launch_kernel(launch, kernel, grid, warps * WARP, 0, *args, *out);
}
