// Linear layers in BF16.
#include "gpu/linear.cuh"

__device__ inline void multiply_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                     uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A step is 32 values of k.
template <int TILES> struct bf16_source {
    static constexpr bool by_engine = false; // lanes are faster: copies are few
    static constexpr int steps = 2, of_step = 1024, bytes = TILES * steps * of_step;
    const char *tiles[TILES];

    __device__ uint32_t bytes_of(int, int n) const
    {
        return TILES * n * of_step;
    }
    template <typename COPIER>
    __device__ void copy(const COPIER &copier, uint32_t to, int step, int n) const
    {
#pragma unroll
        for (int m = 0; m < TILES; m++)
            copier.copy(to + m * steps * of_step, tiles[m] + (size_t)step * of_step, n * of_step);
    }
};

template <int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS, enum linear_kind KIND>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_bf16(const __grid_constant__ struct gpu_linear args)
{
    using source = bf16_source<TILES>;
    constexpr int OF_MATRIX = KIND == GATES ? 1 : TILES;
    extern __shared__ char shared[];
    struct place place = find_place<OF_MATRIX, COLUMNS, KIND>(args);
    if (KIND == EXPERTS && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, begin, end;
    int steps = args.x.pairs * 2, last_tile = (place.matrix->rows - 1) / 16;
    take_part<PARTS>(steps, &begin, &end);
    source from;
    for (int m = 0; m < TILES; m++) {
        const char *tiles = KIND == GATES ? (const char *)args.matrices[m].tiles : place.tiles;
        int tile = KIND == GATES ? place.tile : min(place.tile + m, last_tile);
        from.tiles[m] = tiles + (size_t)tile * steps * source::of_step;
    }
    struct ring<source, STAGES> weights(from, shared, begin, end);
    wait_for_previous(); // weights do not depend on the kernels before, rows do

    constexpr int AHEAD = COLUMNS <= 2; // steps that rows are loaded before their use
    const uint4 *x[COLUMNS];
    uint4 b[1 + AHEAD][COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        x[c] = (const uint4 *)args.x.bf16 +
               gpu_row_place(min(place.first + 8 * c + lane / 4, place.end - 1), steps, begin) * 4 +
               lane % 4;
        if (AHEAD && begin < end) b[0][c] = x[c][0];
    }
    float acc[TILES][COLUMNS][4] = {};
#pragma unroll 1
    for (int s = begin; s < end; s += source::steps) {
        uint32_t w = weights.take() + lane * 16;
#pragma unroll
        for (int i = 0; i < source::steps; i++) {
            if (s + i >= end) break;
            uint4 a[TILES][2];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                if (!AHEAD || s + i + 1 < end)
                    b[(i + AHEAD) % (1 + AHEAD)][c] = x[c][(i + AHEAD) * WARP];
#pragma unroll
            for (int m = 0; m < TILES; m++)
                for (int half = 0; half < 2; half++)
                    a[m][half] =
                        load_shared_4(w + (m * source::steps + i) * source::of_step + half * 512);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    uint4 low = a[m][0], high = a[m][1], of = b[i % (1 + AHEAD)][c];
                    multiply_bf16(acc[m][c], low.x, high.x, low.y, high.y, of.x, of.y);
                    multiply_bf16(acc[m][c], low.z, high.z, low.w, high.w, of.z, of.w);
                }
        }
        for (int c = 0; c < COLUMNS; c++) x[c] += source::steps * WARP;
    }
    if constexpr (KIND == GATES)
        finish_gate<PARTS, COLUMNS>(args, place, acc);
    else
        finish<PARTS, TILES, COLUMNS>(args, place, acc);
}

template <int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS, enum linear_kind KIND = PLAIN>
static cudaError_t launch(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * bf16_source<TILES>::bytes;
    dim3 grid = grid_of<TILES, COLUMNS>(args);
    if (KIND == GATES) grid.x = (unsigned)args->matrices[0].rows / RF_PANEL_ROWS;
    return launch_shared(gpu, linear_bf16<PARTS, TILES, COLUMNS, STAGES, BLOCKS, KIND>, grid, PARTS,
                         shared_bytes<PARTS, TILES, COLUMNS>(ring), *args);
}

// Stages and sums take 99 KB at most, which all devices have.
static cudaError_t choose_parts(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->n <= 8)
        return args->k <= 4096 ? launch<8, 1, 1, 2, 4>(gpu, args)
                               : launch<8, 1, 1, 3, 4>(gpu, args);
    if (args->n <= 16)
        return args->k <= 8192 ? launch<8, 1, 2, 2, 3>(gpu, args)
                               : launch<8, 1, 2, 3, 3>(gpu, args);
    if (args->n <= 32) return launch<8, 2, 4, 2, 2>(gpu, args);
    return launch<8, 2, 8, 2, 1>(gpu, args);
}

static cudaError_t choose_more_parts(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->n <= 8) return launch<16, 1, 1, 3, 2>(gpu, args);
    if (args->n <= 16) return launch<16, 1, 2, 3, 2>(gpu, args);
    return launch<16, 1, 8, 2, 1>(gpu, args);
}

// From so many weight rows on, wide.cu has blocks of threads for most processors.
enum { MANY_ROWS = 3072 };

cudaError_t gpu_linear_bf16(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->groups)
        return gpu_group_rows(args->n) == 8 ? launch<8, 1, 1, 3, 4, EXPERTS>(gpu, args)
                                            : launch<8, 1, 4, 2, 2, EXPERTS>(gpu, args);
    if (args->gates)
        return args->n <= 8 ? launch<8, 2, 1, 2, 3, GATES>(gpu, args)
                            : launch<8, 2, 2, 2, 3, GATES>(gpu, args);
    if (args->x.arranged && args->n > 64 && weight_rows(args) >= MANY_ROWS)
        return gpu_linear_wide(gpu, args);
    return args->parts == GPU_MORE_PARTS ? choose_more_parts(gpu, args) : choose_parts(gpu, args);
}
