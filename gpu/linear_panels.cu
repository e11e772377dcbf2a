// Panel formats times rows of 8 or 16 bits, on tensor cores. linear.cuh has the order of the sums
// and the copies of weights.
#include "gpu/panels.cuh"

// Sums of products that begin with `start`. Rows are signed; of 16 bits, the lower bytes are not.
template <bool IS_SIGNED>
__device__ inline void multiply_32(int c[4], int start, const uint32_t a[4], uint32_t b0,
                                   uint32_t b1)
{
    if constexpr (IS_SIGNED)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%10, %10, %10, %10};"
            : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(start));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%10, %10, %10, %10};"
            : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(start));
}

template <bool IS_SIGNED>
__device__ inline void multiply_16(int c[4], int start, uint32_t a0, uint32_t a1, uint32_t b)
{
    if constexpr (IS_SIGNED)
        asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%7, %7, %7, %7};"
            : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
            : "r"(a0), "r"(a1), "r"(b), "r"(start));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%7, %7, %7, %7};"
            : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
            : "r"(a0), "r"(a1), "r"(b), "r"(start));
}

// What a lane takes of the rows for a pair of blocks: of its column g the codes, or both bytes of
// them, and of its columns 2t and 2t + 1 the scales.
template <int FORMAT, bool IN_16> struct rows_data {
    uint4 codes, low;
    uint4 scales[2]; // for each block and both columns: d and the sum of the codes
    uint4 halves[2]; // for each block and both columns: the sums of both halves
};

// The place of a lane's part of a group of 8 rows, which advances with the pairs.
template <int FORMAT, bool IN_16> struct rows_place {
    const uint4 *codes, *low, *scales, *halves;

    __device__ void point_at(const struct gpu_linear &args, int row, int last, int pair, int lane)
    {
        size_t group = min(row, last) / GPU_ROW_GROUP,
               at = group * args.x.pairs + pair; // rows behind the last are not written
        codes = (const uint4 *)args.x.codes + at * WARP + lane;
        if constexpr (IN_16) low = (const uint4 *)args.x.low + at * WARP + lane;
        scales = (const uint4 *)args.x.scales + at * 8 + lane % 4;
        if constexpr (format_traits<FORMAT>::group < RF_BLOCK)
            halves = (const uint4 *)args.x.halves + at * 8 + lane % 4;
    }
    __device__ void skip_pairs(int pairs)
    {
        codes += pairs * WARP;
        if constexpr (IN_16) low += pairs * WARP;
        scales += pairs * 8;
        if constexpr (format_traits<FORMAT>::group < RF_BLOCK) halves += pairs * 8;
    }
    __device__ void load_pair_of_rows(struct rows_data<FORMAT, IN_16> &data, int pair) const
    {
        data.codes = codes[pair * WARP];
        if constexpr (IN_16) data.low = low[pair * WARP];
        for (int b = 0; b < 2; b++) {
            data.scales[b] = scales[pair * 8 + b * 4];
            if constexpr (format_traits<FORMAT>::group < RF_BLOCK)
                data.halves[b] = halves[pair * 8 + b * 4];
        }
    }
};

// The exact sums of half h of a block, or of all of it, as floats that are rounded once.
template <int FORMAT, bool IN_16>
__device__ inline void sum_products(float sums[4], const uint32_t a[4],
                                    const struct rows_data<FORMAT, IN_16> &x, int b, int h,
                                    const float of_rows[2])
{
    using traits = format_traits<FORMAT>;
    int c[4], low[4];
    uint32_t b0 = b ? x.codes.z : x.codes.x, b1 = b ? x.codes.w : x.codes.y;
    constexpr int start = IN_16 ? 0 : MAGIC;
    if constexpr (traits::group == RF_BLOCK)
        multiply_32<true>(c, start, a, b0, b1);
    else
        multiply_16<true>(c, start, a[2 * h], a[2 * h + 1], h ? b1 : b0);
    if constexpr (IN_16) {
        b0 = b ? x.low.z : x.low.x, b1 = b ? x.low.w : x.low.y;
        if constexpr (traits::group == RF_BLOCK)
            multiply_32<false>(low, 0, a, b0, b1);
        else
            multiply_16<false>(low, 0, a[2 * h], a[2 * h + 1], h ? b1 : b0);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[i] = __int2float_rn(c[i] * 256 + low[i] - traits::offset * (int)of_rows[i % 2]);
    } else {
        float over[2]; // excess of the sums
        for (int i = 0; i < 2; i++)
            over[i] = traits::offset ? __fmaf_rn((float)traits::offset, of_rows[i], 12582912.0f)
                                     : 12582912.0f;
#pragma unroll
        for (int i = 0; i < 4; i++) sums[i] = __int_as_float(c[i]) - over[i % 2];
    }
}

// One block of a tile times 8 rows: acc = fma(i * d, s, acc), then acc = fma(b, d_sum, acc), for
// each group (microkernels/kernels.h).
template <int FORMAT, bool IN_16>
__device__ inline void multiply_block(float acc[4], const uint32_t a[4], const float s[2],
                                      const float m[2], const struct rows_data<FORMAT, IN_16> &x,
                                      int b, int h)
{
    using traits = format_traits<FORMAT>;
    float d[2], of_rows[2], d_sum[2], sums[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        d[i] = __uint_as_float(i ? x.scales[b].z : x.scales[b].x);
        if constexpr (traits::group == RF_BLOCK)
            of_rows[i] = __uint_as_float(i ? x.scales[b].w : x.scales[b].y);
        else if (h)
            of_rows[i] = __uint_as_float(i ? x.halves[b].w : x.halves[b].y);
        else
            of_rows[i] = __uint_as_float(i ? x.halves[b].z : x.halves[b].x);
        d_sum[i] = __fmul_rn(d[i], of_rows[i]);
    }
    sum_products<FORMAT, IN_16>(sums, a, x, b, h, of_rows);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        acc[i] = __fmaf_rn(__fmul_rn(sums[i], d[i % 2]), s[i / 2], acc[i]);
        if constexpr (traits::has_min) acc[i] = __fmaf_rn(m[i / 2], d_sum[i % 2], acc[i]);
    }
}

// A pair of blocks of a tile: operand A, and scales and minima of rows g and g + 8.
template <int FORMAT> struct panel_values {
    static constexpr int GROUPS = RF_BLOCK / format_traits<FORMAT>::group;
    uint32_t codes[2][4];
    float s[2][GROUPS][2], m[2][GROUPS][2];

    __device__ void read(uint32_t at, int first, int i, int lane)
    {
        struct pair_data<FORMAT> data;
        read_pair<FORMAT>(data, at, first, i, lane);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            codes_of<FORMAT>(data, b, codes[b]);
#pragma unroll
            for (int h = 0; h < GROUPS; h++) scales_of<FORMAT>(data, b, h, s[b][h], m[b][h]);
        }
    }
};

template <int FORMAT, bool IN_16, int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS,
          enum linear_kind KIND>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_panels(const __grid_constant__ struct gpu_linear args,
                  const __grid_constant__ struct gpu_layout layout)
{
    using source = tiles_source<FORMAT, TILES>;
    extern __shared__ char shared[];
    let_next_begin();
    struct place place = find_place<TILES, COLUMNS, KIND>(args);
    if (KIND == EXPERTS && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, begin, end;
    take_part<PARTS>(args.x.pairs, &begin, &end);
    int last_tile = (place.matrix->rows - 1) / RF_PANEL_ROWS;
    source from;
    for (int m = 0; m < TILES; m++)
        from.of[m] = panel_source<FORMAT>(
            place.tiles + (size_t)min(place.tile + m, last_tile) * layout.bytes, layout);
    struct ring<source, STAGES> weights(from, shared, begin, end, policy_of<COLUMNS, KIND>());
    wait_for_previous(); // weights do not depend on the kernels before, rows do

    constexpr int AHEAD = COLUMNS <= 2, GROUPS = RF_BLOCK / format_traits<FORMAT>::group;
    struct rows_place<FORMAT, IN_16> rows[AHEAD ? COLUMNS : 1];
    struct rows_data<FORMAT, IN_16> x[1 + AHEAD][AHEAD ? COLUMNS : 1];
    if (AHEAD)
        for (int c = 0; c < COLUMNS; c++) {
            rows[c].point_at(args, place.first + 8 * c, place.end - 1, begin, lane);
            if (begin < end) rows[c].load_pair_of_rows(x[0][c], 0);
        }
    float acc[TILES][COLUMNS][4] = {};
#pragma unroll 1
    for (int p = begin; p < end; p += source::steps) {
        uint32_t group = weights.take();
#pragma unroll
        for (int i = 0; i < source::steps; i++) {
            if (p + i >= end) break;
#pragma unroll
            for (int c = 0; AHEAD && c < COLUMNS; c++)
                if (p + i + 1 < end) rows[c].load_pair_of_rows(x[(i + 1) % (1 + AHEAD)][c], i + 1);
            struct panel_values<FORMAT> w[TILES];
#pragma unroll
            for (int m = 0; m < TILES; m++) w[m].read(group + m * source::panel::bytes, p, i, lane);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                struct rows_data<FORMAT, IN_16> &of = x[i % (1 + AHEAD)][AHEAD ? c : 0];
                if (!AHEAD) {
                    rows[0].point_at(args, place.first + 8 * c, place.end - 1, p + i, lane);
                    rows[0].load_pair_of_rows(of, 0);
                }
#pragma unroll
                for (int m = 0; m < TILES; m++)
#pragma unroll
                    for (int b = 0; b < 2; b++)
#pragma unroll
                        for (int h = 0; h < GROUPS; h++)
                            multiply_block<FORMAT, IN_16>(acc[m][c], w[m].codes[b], w[m].s[b][h],
                                                          w[m].m[b][h], of, b, h);
            }
        }
        for (int c = 0; AHEAD && c < COLUMNS; c++) rows[c].skip_pairs(source::steps);
    }
    finish<PARTS, TILES, COLUMNS>(args, place, acc);
}

template <int FORMAT, bool IN_16, int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS,
          enum linear_kind KIND = PLAIN>
static cudaError_t launch_panels(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * tiles_source<FORMAT, TILES>::bytes;
    return launch_shared(gpu,
                         linear_panels<FORMAT, IN_16, PARTS, TILES, COLUMNS, STAGES, BLOCKS, KIND>,
                         grid_of<TILES, COLUMNS>(args), PARTS,
                         BARRIER_BYTES + shared_bytes<PARTS, TILES, COLUMNS>(ring), *args,
                         gpu_layout(FORMAT, (size_t)args->k));
}

// Weight rows that keep all processors busy although blocks of threads take two tiles, which share
// the loads of rows.
enum { MANY_ROWS = 8192 };

// Stages and sums take 99 KB at most, which all devices have.
template <int FORMAT, bool IN_16>
static cudaError_t choose_panels(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->groups)
        return gpu_group_rows(args->n) == 8
                   ? launch_panels<FORMAT, IN_16, 8, 1, 1, 3, 3, EXPERTS>(gpu, args)
                   : launch_panels<FORMAT, IN_16, 8, 1, 4, 2, 2, EXPERTS>(gpu, args);
    if (args->parts == GPU_MORE_PARTS) {
        if (args->n <= 8) return launch_panels<FORMAT, IN_16, 16, 1, 1, 2, 1>(gpu, args);
        if (args->n <= 16) return launch_panels<FORMAT, IN_16, 16, 1, 2, 2, 1>(gpu, args);
        return launch_panels<FORMAT, IN_16, 16, 1, 8, 2, 1>(gpu, args);
    }
    if constexpr (!IN_16 && format_traits<FORMAT>::group == RF_BLOCK)
        if (weight_rows(args) >= MANY_ROWS) {
            if (args->n <= 8) return launch_panels<FORMAT, IN_16, 8, 2, 1, 2, 2>(gpu, args);
            if (args->n <= 16) return launch_panels<FORMAT, IN_16, 8, 2, 2, 2, 2>(gpu, args);
        }
    if (args->n <= 8) return launch_panels<FORMAT, IN_16, 8, 1, 1, 3, 3>(gpu, args);
    if (args->n <= 16) return launch_panels<FORMAT, IN_16, 8, 1, 2, 3, 2>(gpu, args);
    return launch_panels<FORMAT, IN_16, 8, 1, 8, 2, 2>(gpu, args);
}

cudaError_t gpu_linear_panels(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    switch (args->format) {
#define RF_ROW(name, FORMAT, ...)                                               \
    case RF_FORMAT_##FORMAT:                                                    \
        return args->x.low ? choose_panels<RF_FORMAT_##FORMAT, true>(gpu, args) \
                           : choose_panels<RF_FORMAT_##FORMAT, false>(gpu, args);
        RF_EACH_DEVICE_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return cudaErrorInvalidValue;
    }
}
