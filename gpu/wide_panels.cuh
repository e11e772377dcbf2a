// Linear layers of panels on wgmma, up to their results: stages of shared memory, copies, products
// and scaling. wide_panels.cu has the kernel.
#ifndef RF_GPU_WIDE_PANELS_CUH
#define RF_GPU_WIDE_PANELS_CUH

#include "gpu/panels.cuh"
#include "gpu/wgmma.cuh"

enum {
    CONSUMERS = 256, // two groups of four warps
    THREADS = CONSUMERS + 4 * WARP,
    PAIRS = 2, // pairs of blocks in a stage
    TILES = 2, // tiles of 64 weight rows that a group of warps takes
    GROUP_TILES = TILES * 64 / RF_PANEL_ROWS,
    WEIGHT_TILES = 2 * GROUP_TILES, // both groups'
    WEIGHT_ROWS = WEIGHT_TILES * RF_PANEL_ROWS,
    MOST_SHARED = 227 * 1024,
    MOST_STAGES = 8
};

// ---- forms of tiles ----

// N rows of activations.
template <int FORMAT_, int N_> struct form {
    static constexpr int FORMAT = FORMAT_, N = N_, bits = format_traits<FORMAT>::bits;
    static constexpr int CODES = bits * 128, SCALES = 8 * (int)gpu_scale_bytes(FORMAT),
                         UNITS = 8 * (int)gpu_unit_bytes(FORMAT); // for a pair of blocks of a tile
    // A stage has the rows of each pair, then the codes and scales of each pair, then units.
    static constexpr int ROW_BYTES = N / GPU_ROW_GROUP * GPU_PIECE,
                         CODE_BYTES = WEIGHT_TILES * CODES, SCALE_BYTES = WEIGHT_TILES * SCALES,
                         CODES_AT = PAIRS * ROW_BYTES, SCALES_AT = CODES_AT + PAIRS * CODE_BYTES,
                         UNITS_AT = SCALES_AT + PAIRS * SCALE_BYTES,
                         STAGE_BYTES = UNITS_AT + WEIGHT_TILES * UNITS;
    static constexpr int TOTAL_BYTES = CONSUMERS * N * (int)sizeof(float),
                         FIT = (MOST_SHARED - TOTAL_BYTES) / (STAGE_BYTES + 16),
                         STAGES = FIT < MOST_STAGES ? FIT : (int)MOST_STAGES,
                         BYTES = STAGES * (STAGE_BYTES + 16) + TOTAL_BYTES;
    static_assert(STAGE_BYTES % 128 == 0 && STAGES > 1);
};

// Rows [rows / 8][pairs][GPU_PIECE]; of matrices [tiles][pairs] of codes and of scales, and
// [tiles][units] of the units' numbers.
struct panel_maps {
    CUtensorMap codes, scales, units;
};
struct maps {
    CUtensorMap rows;
    struct panel_maps of[GPU_MATRICES];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Shared memory: stages; totals of all parts; and two barriers for each stage: it is there; it is
// read.
template <typename FORM> struct shared_memory {
    uint32_t memory;

    __device__ uint32_t rows(int i) const
    {
        return memory + i * FORM::STAGE_BYTES;
    }
    __device__ uint32_t totals() const
    {
        return memory + FORM::STAGES * FORM::STAGE_BYTES;
    }
    __device__ uint32_t is_there(int i) const
    {
        return totals() + FORM::TOTAL_BYTES + i * 16;
    }
    __device__ uint32_t is_read(int i) const
    {
        return is_there(i) + 8;
    }
};

// A block of threads' results: from the weight row `first` of a matrix and from row `row` on.
struct area {
    int matrix, first, row;
};

// Neighbours have the same weights.
template <typename FORM>
__device__ inline struct area find_area(const struct gpu_linear &args, int at)
{
    int across = (args.n + FORM::N - 1) / FORM::N, block = at / across, m = 0;
    for (; m < args.n_matrices - 1; m++) {
        int blocks = (args.matrices[m].rows + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
        if (block < blocks) break;
        block -= blocks;
    }
    return {m, block * WEIGHT_ROWS, at % across * FORM::N};
}

__device__ inline int count_stages(const struct gpu_linear &args)
{
    return (args.x.pairs + PAIRS - 1) / PAIRS;
}

// ---- copies ----

template <typename FORM> struct producer {
    struct shared_memory<FORM> stages;
    const struct gpu_linear &args;
    const struct maps &maps;

    // Tiles and rows behind the last ones are filled with zeros.
    __device__ void load_weights(const struct area &area, int pair, int i) const
    {
        const struct panel_maps &of = maps.of[area.matrix];
        int tile = area.first / RF_PANEL_ROWS;
        uint32_t to = stages.rows(i), barrier = stages.is_there(i);
        expect_bytes(barrier, FORM::STAGE_BYTES);
#    pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            copy_box(to + FORM::CODES_AT + p * FORM::CODE_BYTES, of.codes, 0, pair + p, tile,
                     barrier);
            copy_box(to + FORM::SCALES_AT + p * FORM::SCALE_BYTES, of.scales, 0, pair + p, tile,
                     barrier);
        }
        if constexpr (FORM::UNITS > 0)
            copy_box(to + FORM::UNITS_AT, of.units, 0, pair / 4, tile, barrier);
    }
    __device__ void load_rows(const struct area &area, int pair, int i) const
    {
#    pragma unroll
        for (int p = 0; p < PAIRS; p++)
            copy_box(stages.rows(i) + p * FORM::ROW_BYTES, maps.rows, 0, pair + p,
                     area.row / GPU_ROW_GROUP, stages.is_there(i));
    }
    // The first weights do not depend on the kernels before.
    __device__ void load_all(int areas) const
    {
        int n = count_stages(args), early = min(n, (int)FORM::STAGES);
        struct area area = find_area<FORM>(args, blockIdx.x);
        for (int p = 0; p < early; p++) load_weights(area, p * PAIRS, p);
        wait_for_previous();
        for (int p = 0; p < early; p++) load_rows(area, p * PAIRS, p);
        struct turn<FORM::STAGES> turn = {
            early % FORM::STAGES, early < FORM::STAGES
        };
        for (int at = blockIdx.x; at < areas; at += gridDim.x, early = 0) {
            area = find_area<FORM>(args, at);
            for (int p = early; p < n; p++, turn.advance()) {
                wait_barrier(stages.is_read(turn.i), turn.parity);
                load_weights(area, p * PAIRS, turn.i);
                load_rows(area, p * PAIRS, turn.i);
            }
        }
    }
};

// ---- operand A ----

// Four codes, one in each byte, as F16 numbers: of even, then of odd values. Codes without an
// offset are subnormal numbers, 2^-24 of what they are; others are 2^-9 of code - offset.
template <int FORMAT> __device__ inline uint32_t halves_of(uint32_t codes, int odd)
{
    constexpr int offset = format_traits<FORMAT>::offset;
    uint32_t halves = look_up(codes, offset ? 0x64646464u : 0, odd ? 0x4341 : 0x4240);
    if constexpr (offset == 0) return halves;
    __half2 scale = __float2half2_rn(1.0f / 512.0f),
            start = __float2half2_rn((float)-(1024 + offset) / 512.0f), value;
    memcpy(&value, &halves, sizeof value);
    value = __hfma2(value, scale, start);
    memcpy(&halves, &value, sizeof value);
    return halves;
}

// Rows are 2^9 of their codes, so sums of codes without an offset are 2^-15 of the integers, and
// the scales take the rest. (Products of sums and d, at least 2^-122, stay normal numbers.)
template <int FORMAT>
static constexpr float SCALE_UNIT = format_traits<FORMAT>::offset ? 1.0f : 32768.0f;

// ---- products and scaling ----

// Scales of two rows of activations, 2t and 2t + 1 of 8.
struct row_scales {
    float d[2], d_sum[2];
};

// Totals of a thread: [tiles][8 rows of activations][weight row g or g + 8][rows 2t and 2t + 1].
template <typename FORM> struct consumer {
    static constexpr int FORMAT = FORM::FORMAT, SUMS = FORM::N / 2, EIGHTS = FORM::N / 8;
    static constexpr int HALVES = RF_BLOCK / format_traits<FORMAT>::group, STEPS = 2 * HALVES;
    static constexpr bool has_min = format_traits<FORMAT>::has_min;
    static constexpr int KEPT = has_min && HALVES == 2 ? 1 : STEPS; // steps whose scales are known
    static constexpr int ALL = PAIRS * STEPS;                       // steps of a stage
    struct shared_memory<FORM> stages;
    struct turn<FORM::STAGES> turn;
    uint32_t stage;      // the stage that is read next
    uint32_t first_tile; // the warp's, in a stage
    float sums[TILES][SUMS], parts[TILES][SUMS];
    struct pair_data<FORMAT> data[TILES];
    uint32_t a[TILES][2 / HALVES][4];
    float s[KEPT][TILES][2], m[KEPT][TILES][2];
    struct row_scales rows[EIGHTS];

    __device__ consumer(const struct shared_memory<FORM> &from) : stages(from), turn({0, 0})
    {
        int group = __shfl_sync(~0u, (int)threadIdx.x / (4 * WARP), 0),
            warp = threadIdx.x / WARP % 4;
        first_tile = warp + group * GROUP_TILES;
        stage = stages.rows(0);
    }
    __device__ uint32_t pieces(int step) const
    {
        return stage + step / STEPS * FORM::ROW_BYTES;
    }
    // Reads a tile's weights of the pair of a step.
    __device__ void read_weights(int tile, int step)
    {
        int lane = threadIdx.x % WARP, at = first_tile + 4 * tile, pair = step / STEPS;
        uint32_t codes = stage + FORM::CODES_AT + pair * FORM::CODE_BYTES + at * FORM::CODES,
                 scales = stage + FORM::SCALES_AT + pair * FORM::SCALE_BYTES + at * FORM::SCALES +
                          lane / 4 * FORM::SCALES / 8,
                 unit = stage + FORM::UNITS_AT + at * FORM::UNITS + lane / 4 * FORM::UNITS / 8;
        load_pair<FORMAT>(data[tile], codes, scales, unit, lane);
    }
    // Reads the scales of 8 rows for a step: a block, or half of one.
    __device__ void read_rows(int j, int step)
    {
        int block = step % STEPS / HALVES, half = step % HALVES;
        uint32_t at = pieces(step) + j * GPU_PIECE + 1024 + block * 128 + threadIdx.x % 4 * 16;
        if constexpr (has_min && HALVES == 1) {
            uint4 v = load_shared_4(at);
            rows[j] = {{__uint_as_float(v.x), __uint_as_float(v.y)},
                       {__uint_as_float(v.z), __uint_as_float(v.w)}};
            return;
        }
        if (half == 0) {
            uint2 v = load_shared_2(at);
            rows[j].d[0] = __uint_as_float(v.x);
            rows[j].d[1] = __uint_as_float(v.y);
        }
        if constexpr (has_min) {
            uint2 v = load_shared_2(at + 64 + half * 8);
            rows[j].d_sum[0] = __uint_as_float(v.x);
            rows[j].d_sum[1] = __uint_as_float(v.y);
        }
    }
    // Operand A of a step.
    __device__ void decode(int tile, int step)
    {
        int block = step % STEPS / HALVES, half = step % HALVES;
        uint32_t codes[4];
        codes_of<FORMAT>(data[tile], block, codes);
#    pragma unroll
        for (int q = 0; q < 2 / HALVES; q++)
#    pragma unroll
            for (int i = 0; i < 4; i++)
                a[tile][q][i] = halves_of<FORMAT>(codes[2 * (half + q) + i % 2], i / 2);
    }
    // Reads the scales of the pair's steps from `first` on, KEPT of them.
    __device__ void read_scales(int first)
    {
#    pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#    pragma unroll
            for (int i = 0; i < KEPT; i++)
                scales_of<FORMAT>(data[tile], (first + i) / HALVES, (first + i) % HALVES,
                                  s[i][tile], m[i][tile], SCALE_UNIT<FORMAT>);
    }
    __device__ void multiply(int tile, int step)
    {
        uint64_t b = operand_at(pieces(step), 128, GPU_PIECE);
        begin_products();
#    pragma unroll
        for (int q = 0; q < 2 / HALVES; q++)
            multiply_halves<FORM::N>(sums[tile], a[tile][q],
                                     b + ((step % STEPS * 2 / HALVES + q) * 256 >> 4), q);
        end_products();
    }
    // acc = fma(i * d, s, acc), then acc = fma(b, d_sum, acc) (microkernels/kernels.h). The last
    // tile to need the rows' scales reads those of the next step.
    __device__ void scale(int tile, int step)
    {
        keep_order(sums[tile]);
#    pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
#    pragma unroll
            for (int i = 0; i < 4; i++) {
                float &acc = parts[tile][4 * j + i],
                      product = __fmul_rn(sums[tile][4 * j + i], rows[j].d[i % 2]);
                acc = __fmaf_rn(product, s[step % KEPT][tile][i / 2], acc);
                if constexpr (has_min)
                    acc = __fmaf_rn(m[step % KEPT][tile][i / 2], rows[j].d_sum[i % 2], acc);
            }
            if (tile == TILES - 1) read_rows(j, (step + 1) % ALL);
        }
        keep_order(parts[tile]);
    }
    // The first step of a stage.
    __device__ void begin()
    {
        wait_barrier(stages.is_there(0), 0);
#    pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            read_weights(tile, 0);
            decode(tile, 0);
        }
        read_scales(0);
#    pragma unroll
        for (int j = 0; j < EIGHTS; j++) read_rows(j, 0);
    }
    // A stage whose first step is decoded, as is then that of the next one. Products of a tile run
    // while the other one is scaled, but none between stages, which the compiler would not follow.
    template <typename END> __device__ void take_stage(bool is_last, const END &end_pair)
    {
        uint32_t is_there, old = turn.i;
#    pragma unroll
        for (int tile = 0; tile < TILES; tile++) multiply(tile, 0);
#    pragma unroll
        for (int step = 0; step < ALL; step++) {
            int next = (step + 1) % ALL;
            if (step == ALL - 2) {
                turn.advance();
                is_there = test_barrier(stages.is_there(turn.i), turn.parity);
            }
            if (next == 0) {
                stage = stages.rows(turn.i);
                if (!is_last && !is_there) wait_barrier(stages.is_there(turn.i), turn.parity);
            }
#    pragma unroll
            for (int tile = 0; tile < TILES && next % STEPS == 0; tile++) read_weights(tile, next);
#    pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                if (next == 0 && tile == TILES - 1)
                    wait_products<0>();
                else
                    wait_products<1>();
                scale(tile, step);
                decode(tile, next);
                if (next != 0) multiply(tile, next);
            }
            if (next == 0 && threadIdx.x % WARP == 0) arrive_at(stages.is_read(old));
            if (next % STEPS == 0 || KEPT == 1) read_scales(next % STEPS);
            if (next % STEPS == 0) end_pair();
        }
    }

    // ---- totals ----

    __device__ uint32_t total_at(int i) const
    {
        return stages.totals() + (i / 4 * CONSUMERS + threadIdx.x) * 16;
    }
    __device__ float4 total(int tile, int i) const
    {
        uint4 v = load_shared_4(total_at(tile * SUMS + i));
        return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                           __uint_as_float(v.w));
    }
    __device__ void put_total(int i, const float *of) const
    {
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(total_at(i)), "f"(of[0]),
                     "f"(of[1]), "f"(of[2]), "f"(of[3])
                     : "memory");
    }
    __device__ void end_part(bool is_first)
    {
#    pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#    pragma unroll
            for (int i = 0; i < SUMS; i += 4) {
                float *of = &parts[tile][i];
                if (!is_first) {
                    float4 v = total(tile, i);
                    of[0] += v.x, of[1] += v.y, of[2] += v.z, of[3] += v.w;
                }
                put_total(tile * SUMS + i, of);
                of[0] = of[1] = of[2] = of[3] = 0.0f;
            }
    }
    // each: pairs of a part
    __device__ void sum_area(int pairs, int each, bool is_last)
    {
        bool is_first = true;
        int left = each;
        for (int p = 0; p < pairs; p += PAIRS) {
            int of_stage = min(pairs - p, (int)PAIRS), pair = 0;
            take_stage(is_last && p + PAIRS >= pairs, [&] {
                if (pair++ >= of_stage || (--left > 0 && p + pair < pairs)) return;
                end_part(is_first);
                is_first = false;
                left = each;
            });
        }
    }
};

#endif
#endif
