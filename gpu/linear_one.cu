// Panel formats with groups of 32 values times one row of 8 bits, and what comes before and behind
// such layers: the row's norm, the gate of two, the rotation of q and k.
#include "gpu/panels.cuh"

// The same integers and roundings without tensor cores, whose other columns would take most of the
// time. Each lane has products of two rows and blocks; then lane t of four has row g + t % 2 * 8.

__device__ inline int add_dp4a(uint32_t codes, uint32_t row, int sum)
{
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(codes), "r"(row));
    return sum;
}

// Scale and minimum of row g + 8 r and block b.
template <int FORMAT>
__device__ inline void scales_of_row(const struct pair_data<FORMAT> &data, int b, int r, float *s,
                                     float *m)
{
    if constexpr (FORMAT == RF_FORMAT_MXFP4) {
        *s = __uint_as_float((data.scales.x >> 8 * (2 * b + r) & 255) << 23);
    } else if constexpr (FORMAT == RF_FORMAT_Q4_K) {
        *s = scaled_byte(half_of(data.unit.x >> 16 * r, 0), data.scales.x, 2 * b + r);
        *m = scaled_byte(half_of(data.unit.y >> 16 * r, 0), data.scales.y, 2 * b + r);
    } else {
        *s = half_of((b ? data.scales.y : data.scales.x) >> 16 * r, 0);
        if constexpr (format_traits<FORMAT>::has_min)
            *m = half_of((b ? data.scales.w : data.scales.z) >> 16 * r, 0);
    }
}

// A lane's part of the row for a pair of blocks.
struct one_row {
    uint4 codes;
    float2 scales[2]; // for each block: d, the sum of the codes
};

// The place of a lane's part of the row, which advances with the pairs: in memory, where 7 other
// rows lie between, or among the codes of a norm in shared memory.
template <bool IS_SHARED> struct row_place {
    static constexpr int OF_PAIR = IS_SHARED ? 4 : WARP, OF_BLOCK = IS_SHARED ? 1 : GPU_ROW_GROUP;
    const uint4 *codes;
    const float2 *scales;

    __device__ void load_pair_of_row(struct one_row &x, int pair) const
    {
        x.codes = codes[pair * OF_PAIR];
        for (int b = 0; b < 2; b++) x.scales[b] = scales[(2 * pair + b) * OF_BLOCK];
    }
    __device__ void skip_pairs(int pairs)
    {
        codes += pairs * OF_PAIR;
        scales += 2 * pairs * OF_BLOCK;
    }
};

template <int FORMAT>
__device__ inline float add_pair(float acc, const struct pair_data<FORMAT> &data,
                                 const struct one_row &x, int t)
{
    using traits = format_traits<FORMAT>;
#pragma unroll
    for (int b = 0; b < 2; b++) {
        uint32_t a[4];
        int of_row[2], r = t % 2, start = t ? 0 : MAGIC;
        float s, m;
        codes_of<FORMAT>(data, b, a);
        for (int i = 0; i < 2; i++)
            of_row[i] = add_dp4a(a[2 + i], b ? x.codes.w : x.codes.y,
                                 add_dp4a(a[i], b ? x.codes.z : x.codes.x, start));
        int sum = (r ? of_row[1] : of_row[0]) + __shfl_xor_sync(~0u, r ? of_row[0] : of_row[1], 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        scales_of_row<FORMAT>(data, b, r, &s, &m);
        float over = traits::offset ? __fmaf_rn((float)traits::offset, x.scales[b].y, 12582912.0f)
                                    : 12582912.0f;
        acc = __fmaf_rn(__fmul_rn(__int_as_float(sum) - over, x.scales[b].x), s, acc);
        if constexpr (traits::has_min)
            acc = __fmaf_rn(m, __fmul_rn(x.scales[b].x, x.scales[b].y), acc);
    }
    return acc;
}

// ---- the norm of the row ----
//
// A block of threads has no others' codes to wait for: it finds 1 / rms, then each warp makes the
// codes and scales of its part, with the bits of gpu_norm.

enum {
    MOST_NORMS = 320,                                                        // blocks of threads
    NORM_WIDTH = 8192,                                                       // at most
    NORM_BYTES = NORM_WIDTH + NORM_WIDTH / RF_BLOCK * 2 * (int)sizeof(float) // for a row
};

// The place of a warp's part in shared memory: [pairs][4 t][2 blocks][2][4], then [pairs][2].
struct normed_part {
    char *codes;
    float2 *scales;

    __device__ normed_part(char *memory, int pairs, int part)
    {
        codes = memory + part * pairs * (GPU_PAIR + 2 * (int)sizeof(float2));
        scales = (float2 *)(codes + pairs * GPU_PAIR);
    }
};

// Four values of a lane, j .. j + 3 of the part; 8 lanes have a block.
__device__ inline void put_normed(const struct normed_part &to, int j, bool is_inside,
                                  const float (&x)[4])
{
    float d;
    int codes[4], sum = codes_of_four(x, codes, &d), i = threadIdx.x % 8;
    sum += __shfl_xor_sync(~0u, sum, 4);
    if (!is_inside) return;
    uint32_t word = 0;
    for (int c = 0; c < 4; c++) word |= (uint32_t)(codes[c] & 255) << 8 * c;
    *(uint32_t *)(to.codes + j / GPU_PAIR * GPU_PAIR + i % 4 * 16 + j % GPU_PAIR / RF_BLOCK * 8 +
                  i / 4 * 4) = word;
    if (i == 0) to.scales[j / RF_BLOCK] = make_float2(d, (float)sum);
}

// Pairs [begin, end) of the row, which SETS warps share.
template <int PARTS, int SETS>
__device__ inline void norm_part(const struct gpu_unnormed &row, const struct normed_part &to,
                                 float scale, int begin, int end)
{
    int n = (end - begin) * GPU_PAIR, set = threadIdx.x / WARP / PARTS;
    for (int first = set * 4 * WARP; first < n; first += SETS * 4 * WARP) {
        int j = first + threadIdx.x % WARP * 4;
        float4 x = {}, gain = {};
        if (j < n) {
            x = *(const float4 *)(row.x + (size_t)begin * GPU_PAIR + j);
            gain = *(const float4 *)(row.gain + (size_t)begin * GPU_PAIR + j);
        }
        put_normed(
            to, j, j < n,
            {__fmul_rn(__fmul_rn(x.x, scale), gain.x), __fmul_rn(__fmul_rn(x.y, scale), gain.y),
             __fmul_rn(__fmul_rn(x.z, scale), gain.z), __fmul_rn(__fmul_rn(x.w, scale), gain.w)});
    }
    if (SETS > 1)
        __syncthreads();
    else
        __syncwarp();
}

// ---- what becomes of the sums ----

// With gates a block of threads has two tiles of either matrix, so 32 results: a block of codes.
// Two sets of warps have a tile each of both. With rotations it has a tile of both halves of a
// head.
__host__ __device__ constexpr int tiles_of(enum linear_kind kind)
{
    return kind == GATES || kind == ROTATES ? 2 : 1;
}

__host__ __device__ constexpr int sets_of(enum linear_kind kind)
{
    return kind == GATES ? 2 : 1;
}

template <int PARTS, int TILES> using part_sums = float[PARTS][TILES][RF_PANEL_ROWS];

template <int PARTS, int TILES>
__device__ inline float sum_of(const part_sums<PARTS, TILES> &sums, int tile, int row)
{
    return sum_parts<PARTS, TILES * RF_PANEL_ROWS>(&sums[0][tile][row]);
}

// Called as the functions of struct rotation are.
template <int PARTS, int KIND> struct one_end {
    struct result mine;
    float old;

    __device__ void load_early(const struct gpu_linear &args, const struct place &place)
    {
        mine = find_result<RF_PANEL_ROWS>(args, place, threadIdx.x);
    }
    __device__ void load_late(const struct gpu_linear &args, const struct place &)
    {
        old = old_of(args, mine);
    }
    __device__ void put_results(const struct gpu_linear &args, const struct place &place,
                                const part_sums<PARTS, 1> *sums) const
    {
        if (mine.y) put_result(args, place, mine, old, sum_of<PARTS, 1>(*sums, 0, threadIdx.x));
    }
};

template <int PARTS> struct one_end<PARTS, GATES> {
    __device__ void load_early(const struct gpu_linear &, const struct place &)
    {
    }
    __device__ void load_late(const struct gpu_linear &, const struct place &)
    {
    }
    __device__ void put_results(const struct gpu_linear &args, const struct place &place,
                                const part_sums<PARTS, 2> *sums) const
    {
        if (threadIdx.x >= WARP) return;
        int set = threadIdx.x / RF_PANEL_ROWS, at = threadIdx.x % RF_PANEL_ROWS,
            first = place.tile * RF_PANEL_ROWS;
        float y[2];
        for (int m = 0; m < 2; m++) {
            const float *bias = args.matrices[m].bias;
            y[m] = sum_of<PARTS, 2>(sums[set], m, at);
            if (bias) y[m] += bias[first + threadIdx.x];
        }
        put_values(args.gated, 0, first, silu(y[0]) * y[1]);
    }
};

template <int PARTS> struct one_end<PARTS, ROTATES> {
    struct rotation rotation;

    __device__ int row(const struct place &place) const
    {
        return place.tile * RF_PANEL_ROWS + (int)threadIdx.x;
    }
    __device__ void load_early(const struct gpu_linear &args, const struct place &place)
    {
        if (threadIdx.x < RF_PANEL_ROWS) rotation.load_early(args, place, 0, row(place));
    }
    __device__ void load_late(const struct gpu_linear &args, const struct place &place)
    {
        if (threadIdx.x < RF_PANEL_ROWS) rotation.load_late(args, 0, row(place));
    }
    __device__ void put_results(const struct gpu_linear &args, const struct place &place,
                                const part_sums<PARTS, 2> *sums) const
    {
        if (threadIdx.x >= RF_PANEL_ROWS) return;
        float2 y = {sum_of<PARTS, 2>(*sums, 0, threadIdx.x),
                    sum_of<PARTS, 2>(*sums, 1, threadIdx.x)};
        rotation.put(args, place, 0, row(place), y);
    }
};

// ---- the kernel ----

// Tile m of a warp.
template <int PARTS, enum linear_kind KIND>
__device__ inline const char *tile_of(const struct gpu_linear &args, const struct place &place,
                                      size_t bytes, int m)
{
    size_t tile = (size_t)place.tile;
    if constexpr (KIND == GATES)
        return (const char *)args.matrices[m].tiles + (tile + threadIdx.x / WARP / PARTS) * bytes;
    if constexpr (KIND == ROTATES) tile += m * (args.rope.heads.dim / 2 / RF_PANEL_ROWS);
    return place.tiles + tile * bytes;
}

// The sums of a warp's part times the row.
template <int FORMAT, int TILES, typename RING, typename ROW>
__device__ inline void add_row_part(float (&acc)[TILES], RING &weights, ROW row, int begin, int end)
{
    using source = tiles_source<FORMAT, TILES>;
    int lane = threadIdx.x % WARP;
    struct one_row x[2];
    if (begin < end) row.load_pair_of_row(x[0], 0);
#pragma unroll 1
    for (int p = begin; p < end; p += source::steps) {
        uint32_t group = weights.take();
#pragma unroll
        for (int i = 0; i < source::steps; i++) {
            if (p + i >= end) break;
            if (p + i + 1 < end) row.load_pair_of_row(x[(i + 1) % 2], i + 1);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                struct pair_data<FORMAT> data;
                read_pair<FORMAT>(data, group + m * source::panel::bytes, p, i, lane);
                acc[m] = add_pair<FORMAT>(acc[m], data, x[i % 2], lane % 4);
            }
        }
        row.skip_pairs(source::steps);
    }
}

// NORMS: may do the norm of the row.
template <int FORMAT, int PARTS, int STAGES, int BLOCKS, enum linear_kind KIND, bool NORMS>
__global__ void __launch_bounds__(sets_of(KIND) * PARTS * WARP, BLOCKS)
    linear_one(const __grid_constant__ struct gpu_linear args,
               const __grid_constant__ struct gpu_layout layout)
{
    constexpr int TILES = tiles_of(KIND), SETS = sets_of(KIND), WARPS = SETS * PARTS;
    using source = tiles_source<FORMAT, TILES>;
    extern __shared__ char shared[];
    __shared__ part_sums<PARTS, TILES> sums[SETS];
    let_next_begin();
    struct place place = find_place<TILES, 1, KIND>(args);
    if (KIND == EXPERTS && place.first >= place.end) return;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, t = lane % 4, begin, end;
    take_part<PARTS>(args.x.pairs, &begin, &end);
    source from;
    for (int m = 0; m < TILES; m++)
        from.of[m] =
            panel_source<FORMAT>(tile_of<PARTS, KIND>(args, place, layout.bytes, m), layout);
    struct ring<source, STAGES> weights(from, shared, begin, end, policy_of<1, KIND>());
    struct one_end<PARTS, KIND> ending;
    ending.load_early(args, place);
    wait_for_previous(); // weights do not depend on the kernels before, the row does

    float acc[TILES] = {};
    ending.load_late(args, place);
    if (NORMS && args.unnormed.x) {
        const struct normed_part part(shared + BARRIER_BYTES + WARPS * STAGES * source::bytes,
                                      (args.x.pairs + PARTS - 1) / PARTS, warp % PARTS);
        float scale = norm_scale<WARPS>(args.unnormed.x, args.k, args.unnormed.eps);
        norm_part<PARTS, SETS>(args.unnormed, part, scale, begin, end);
        const row_place<true> row = {(const uint4 *)part.codes + t, part.scales};
        add_row_part<FORMAT, TILES>(acc, weights, row, begin, end);
    } else {
        size_t at = (size_t)(place.first / GPU_ROW_GROUP) * args.x.pairs + begin;
        const row_place<false> row = {(const uint4 *)args.x.codes + at * WARP + t,
                                      (const float2 *)args.x.scales + at * 2 * GPU_ROW_GROUP};
        add_row_part<FORMAT, TILES>(acc, weights, row, begin, end);
    }
    for (int m = 0; t < 2 && m < TILES; m++)
        sums[warp / PARTS][warp % PARTS][m][lane / 4 + 8 * t] = acc[m];
    __syncthreads();
    ending.put_results(args, place, sums);
}

template <int FORMAT, int PARTS, int STAGES, int BLOCKS, enum linear_kind KIND, bool NORMS>
static cudaError_t launch_one(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    constexpr int TILES = tiles_of(KIND), WARPS = sets_of(KIND) * PARTS;
    constexpr size_t ring = STAGES * tiles_source<FORMAT, TILES>::bytes,
                     norm = NORMS ? NORM_BYTES + WARPS * GPU_PAIR * 2 : 0;
    dim3 grid = grid_of<TILES, 1>(args);
    if (KIND == GATES) grid.x /= 2; // a block of threads has both matrices
    return launch_shared(gpu, linear_one<FORMAT, PARTS, STAGES, BLOCKS, KIND, NORMS>, grid, WARPS,
                         BARRIER_BYTES + WARPS * ring + norm, *args,
                         gpu_layout(FORMAT, (size_t)args->k));
}

template <int FORMAT>
static cudaError_t choose_one(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if constexpr (format_traits<FORMAT>::group == RF_BLOCK) {
        int more_parts = args->parts == GPU_MORE_PARTS;
        if (args->groups) return launch_one<FORMAT, 8, 2, 4, EXPERTS, false>(gpu, args);
        if (args->gates) return launch_one<FORMAT, 8, 1, 2, GATES, true>(gpu, args);
        if (args->rotates)
            return more_parts ? launch_one<FORMAT, 16, 1, 2, ROTATES, true>(gpu, args)
                              : launch_one<FORMAT, 8, 2, 2, ROTATES, true>(gpu, args);
        if (args->unnormed.x)
            return more_parts ? launch_one<FORMAT, 16, 2, 2, PLAIN, true>(gpu, args)
                              : launch_one<FORMAT, 8, 2, 4, PLAIN, true>(gpu, args);
        return more_parts ? launch_one<FORMAT, 16, 2, 2, PLAIN, false>(gpu, args)
                          : launch_one<FORMAT, 8, 2, 4, PLAIN, false>(gpu, args);
    }
    return cudaErrorInvalidValue;
}

int gpu_gates_one(const struct gpu_linear *args)
{
    int group = gpu_group_pairs(args->format);
    return args->parts == GPU_PARTS && args->x.pairs <= GPU_PARTS * group;
}

// Each block of threads does the norm, so there must not be many.
int gpu_norms_one(const struct gpu_linear *args)
{
    int tiles =
        args->gates ? tiles_of(GATES) * sets_of(GATES) : tiles_of(args->rotates ? ROTATES : PLAIN);
    return args->k <= NORM_WIDTH && args->k % GPU_PAIR == 0 &&
           weight_rows(args) <= MOST_NORMS * RF_PANEL_ROWS * tiles;
}

cudaError_t gpu_linear_one(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    switch (args->format) {
#define RF_ROW(name, FORMAT, ...) \
    case RF_FORMAT_##FORMAT: return choose_one<RF_FORMAT_##FORMAT>(gpu, args);
        RF_EACH_DEVICE_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return cudaErrorInvalidValue;
    }
}
