// Linear layers in BF16 times few rows, on mma.sync. Warps take parts of k; rows come from the
// second cache, weights through a ring in shared memory. linear.cu chooses this kernel, and wide.cu
// takes many rows where the device has wgmma.
#include <type_traits>

#include "gpu/linear.cuh"

__device__ inline void multiply_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                     uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The values 8t .. 8t + 7 of row g, from where lane l gives the place of piece l of 16 bytes.
__device__ inline uint4 load_tile_rows(uint32_t at)
{
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

// A step is 32 values of k.
template <int TILES, int STEPS> struct bf16_source {
    static constexpr bool by_engine = false; // lanes are faster: copies are few
    static constexpr int steps = STEPS, of_step = 1024, bytes = TILES * steps * of_step;
    const char *tiles[TILES];

    __device__ uint32_t step_bytes(int, int n) const
    {
        return TILES * n * of_step;
    }
    template <typename COPIER>
    __device__ void copy_steps(const COPIER &copier, uint32_t to, int step, int n) const
    {
#pragma unroll
        for (int m = 0; m < TILES; m++)
            copier.copy(to + m * steps * of_step, tiles[m] + (size_t)step * of_step, n * of_step);
    }
};

// Finds 1 / rms of the rows of x. Where there are few, each warp adds up the squares of one.
template <int PARTS, int COLUMNS>
__device__ inline void find_scales(const struct gpu_linear &args, const struct place &place,
                                   float *scales)
{
    int n = min(8 * COLUMNS, place.end - place.first);
    if constexpr (COLUMNS > 2) {
        if (threadIdx.x < n) scales[threadIdx.x] = args.fold.scales[place.first + threadIdx.x];
    } else {
        for (int c = threadIdx.x / WARP; c < n; c += PARTS) {
            const float *squares =
                args.fold.squares + (size_t)(place.first + c) * (args.k / GPU_SQUARES);
            float scale = folded_scale(squares, args.k, args.fold.eps);
            if (threadIdx.x % WARP == 0) scales[c] = scale;
        }
    }
}

// ---- what becomes of the sums ----
//
// Thread `at` has result at / 16 of x's rows and at % 16 of a tile's. While weights are on their
// way, `load_early` loads what results need beside the sums and does not depend on the kernels
// before; behind the wait for them, `load_late` loads the rest.

template <int PARTS, int TILES, int COLUMNS> struct plain_end {
    static constexpr int ROWS = 16 * TILES, STRIDE = ROWS + 4, SIZE = 8 * COLUMNS * STRIDE;
    struct result mine;
    float old;

    __device__ void load_early(const struct gpu_linear &args, const struct place &place)
    {
        mine = find_result<ROWS>(args, place, threadIdx.x);
    }
    __device__ void load_late(const struct gpu_linear &args, const struct place &)
    {
        old = old_of(args, mine);
    }
    __device__ void put_results(const struct gpu_linear &args, const struct place &place,
                                const float *sums, const float *scales)
    {
        for (int at = threadIdx.x; at < 8 * COLUMNS * ROWS; at += PARTS * WARP) {
            if (at >= PARTS * WARP) {
                mine = find_result<ROWS>(args, place, at);
                old = old_of(args, mine);
            }
            float sum = sum_parts<PARTS, SIZE>(sums + at / ROWS * STRIDE + at % ROWS);
            if (args.fold.squares) sum = __fmul_rn(sum, scales[at / ROWS]);
            float y = put_result(args, place, mine, old, sum);
            if (args.next.gain) put_next<ROWS>(args, place, at, mine, y);
        }
    }
};

// Two tiles, of which thread `at` has the sums `at` of both.
template <int PARTS, int COLUMNS> struct pair_end {
    static constexpr int STRIDE = 2 * 16 + 4, SIZE = 8 * COLUMNS * STRIDE;

    static __device__ bool has_result(const struct place &place, int *column, int *row)
    {
        *column = place.first + threadIdx.x / 16;
        *row = place.tile * RF_PANEL_ROWS + threadIdx.x % 16;
        return threadIdx.x < 8 * COLUMNS * 16 && *column < place.end;
    }
    static __device__ float2 sum_pair(const struct gpu_linear &args, const float *sums,
                                      const float *scales)
    {
        const float *of = sums + threadIdx.x / 16 * STRIDE + threadIdx.x % 16;
        float2 pair = {sum_parts<PARTS, SIZE>(of), sum_parts<PARTS, SIZE>(of + 16)};
        float scale = args.fold.squares ? scales[threadIdx.x / 16] : 1.0f;
        return make_float2(__fmul_rn(pair.x, scale), __fmul_rn(pair.y, scale));
    }
};

// A tile of the gate and one of up, whose gated product is written.
template <int PARTS, int COLUMNS> struct gate_end {
    using pair = pair_end<PARTS, COLUMNS>;
    float2 bias;

    __device__ void load_early(const struct gpu_linear &args, const struct place &place)
    {
        const float *gate = args.matrices[0].bias, *up = args.matrices[1].bias;
        int column, row;
        bias = make_float2(0.0f, 0.0f);
        if (!pair::has_result(place, &column, &row)) return;
        if (gate) bias.x = gate[row];
        if (up) bias.y = up[row];
    }
    __device__ void load_late(const struct gpu_linear &, const struct place &)
    {
    }
    __device__ void put_results(const struct gpu_linear &args, const struct place &place,
                                const float *sums, const float *scales)
    {
        const struct gpu_rows &out = args.gated;
        int column, row;
        if (!pair::has_result(place, &column, &row)) return;
        float2 y = pair::sum_pair(args, sums, scales);
        if (args.matrices[0].bias) y.x += bias.x;
        if (args.matrices[1].bias) y.y += bias.y;
        size_t block = gpu_row_place(column, out.pairs * 2, row / RF_BLOCK);
        out.bf16[block * RF_BLOCK + row % RF_BLOCK] = bf16_bits(silu(y.x) * y.y);
    }
};

// Two tiles of both halves of a head of q, k or v.
template <int PARTS, int COLUMNS> struct rotate_end {
    using pair = pair_end<PARTS, COLUMNS>;
    struct rotation rotation;

    __device__ void load_early(const struct gpu_linear &args, const struct place &place)
    {
        int column, row;
        if (pair::has_result(place, &column, &row)) rotation.load_early(args, place, column, row);
    }
    __device__ void load_late(const struct gpu_linear &args, const struct place &place)
    {
        int column, row;
        if (pair::has_result(place, &column, &row)) rotation.load_late(args, column, row);
    }
    __device__ void put_results(const struct gpu_linear &args, const struct place &place,
                                const float *sums, const float *scales)
    {
        int column, row;
        if (!pair::has_result(place, &column, &row)) return;
        rotation.put(args, place, column, row, pair::sum_pair(args, sums, scales));
    }
};

template <int PARTS, int TILES, int COLUMNS, enum linear_kind KIND>
using end_of = std::conditional_t<KIND == GATES, gate_end<PARTS, COLUMNS>,
                                  std::conditional_t<KIND == ROTATES, rotate_end<PARTS, COLUMNS>,
                                                     plain_end<PARTS, TILES, COLUMNS>>>;

// ---- the kernel ----

// STEPS of weights come together. Rows are loaded DEPTH - 1 steps before their use: they come from
// the second cache, and take longer than a step's products.
template <int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS, enum linear_kind KIND,
          int STEPS, int DEPTH>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_bf16(const __grid_constant__ struct gpu_linear args)
{
    using source = bf16_source<TILES, STEPS>;
    constexpr int OF_MATRIX = KIND == GATES ? 1 : TILES, UNROLL = DEPTH > STEPS ? DEPTH : STEPS;
    extern __shared__ char shared[];
    __shared__ float scales[8 * COLUMNS];
    let_next_begin();
    struct place place = find_place<OF_MATRIX, COLUMNS, KIND>(args);
    if (KIND == EXPERTS && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, begin, end;
    int steps = args.x.pairs * 2, last_tile = (place.matrix->rows - 1) / 16;
    take_part<PARTS>(steps, &begin, &end);
    source from;
    for (int m = 0; m < TILES; m++) {
        const char *tiles = KIND == GATES ? (const char *)args.matrices[m].tiles : place.tiles;
        int tile = KIND == GATES     ? place.tile
                   : KIND == ROTATES ? place.tile + m * (args.rope.heads.dim / 2 / RF_PANEL_ROWS)
                                     : min(place.tile + m, last_tile);
        from.tiles[m] = tiles + (size_t)tile * steps * source::of_step;
    }
    struct ring<source, STAGES> weights(from, shared, begin, end, policy_of<COLUMNS, KIND>());
    end_of<PARTS, TILES, COLUMNS, KIND> ending;
    ending.load_early(args, place);
    wait_for_previous(); // weights do not depend on the kernels before, rows do

    const uint4 *x[COLUMNS];
    uint4 b[DEPTH][COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        x[c] = (const uint4 *)args.x.bf16 +
               gpu_row_place(min(place.first + 8 * c + lane / 4, place.end - 1), steps, begin) * 4 +
               lane % 4;
        for (int i = 0; i < DEPTH - 1; i++)
            if (begin + i < end) b[i][c] = x[c][i * WARP];
    }
    ending.load_late(args, place);
    if (args.fold.squares) find_scales<PARTS, COLUMNS>(args, place, scales);
    float acc[TILES][COLUMNS][4] = {};
#pragma unroll 1
    for (int s = begin; s < end; s += UNROLL) {
        uint32_t w = 0;
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            if (s + i >= end) break;
            if (i % STEPS == 0) w = weights.take() + lane * 16;
            uint4 a[TILES][2];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                if (DEPTH == 1 || s + i + DEPTH - 1 < end)
                    b[(i + DEPTH - 1) % DEPTH][c] = x[c][(i + DEPTH - 1) * WARP];
#pragma unroll
            for (int m = 0; m < TILES; m++)
                for (int half = 0; half < 2; half++)
                    a[m][half] =
                        load_tile_rows(w + (m * STEPS + i % STEPS) * source::of_step + half * 512);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    uint4 low = a[m][0], high = a[m][1], of = b[i % DEPTH][c];
                    multiply_bf16(acc[m][c], low.x, high.x, low.y, high.y, of.x, of.y);
                    multiply_bf16(acc[m][c], low.z, high.z, low.w, high.w, of.z, of.w);
                }
        }
        for (int c = 0; c < COLUMNS; c++) x[c] += UNROLL * WARP;
    }
    float *sums = (float *)shared;
    put_sums<PARTS, TILES, COLUMNS>(sums, acc);
    ending.put_results(args, place, sums, scales);
}

// Steps whose rows registers hold beside the sums.
constexpr int depth_of(int columns)
{
    return columns == 1 ? 4 : columns == 2 ? 2 : 1;
}

template <int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS, enum linear_kind KIND = PLAIN,
          int STEPS = 2, int DEPTH = depth_of(COLUMNS)>
static cudaError_t launch_bf16(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * bf16_source<TILES, STEPS>::bytes;
    dim3 grid = grid_of<TILES, COLUMNS>(args);
    if (KIND == GATES) grid.x = (unsigned)args->matrices[0].rows / RF_PANEL_ROWS;
    return launch_shared(gpu,
                         linear_bf16<PARTS, TILES, COLUMNS, STAGES, BLOCKS, KIND, STEPS, DEPTH>,
                         grid, PARTS, shared_bytes<PARTS, TILES, COLUMNS>(ring), *args);
}

// Stages and sums take 99 KB at most, which all devices have.
static cudaError_t choose_parts(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->n <= 8)
        return args->k <= 4096 ? launch_bf16<8, 1, 1, 2, 4>(gpu, args)
                               : launch_bf16<8, 1, 1, 3, 4>(gpu, args);
    if (args->n <= 16)
        return args->k <= 8192 ? launch_bf16<8, 1, 2, 2, 4>(gpu, args)
                               : launch_bf16<8, 1, 2, 3, 3>(gpu, args);
    if (args->n <= 32) return launch_bf16<8, 2, 4, 2, 2>(gpu, args);
    return launch_bf16<8, 2, 8, 2, 1>(gpu, args);
}

enum { ONE_EACH = 128 * RF_PANEL_ROWS }; // weight rows with less than a tile for each processor

// Whether blocks of threads may ask for more shared memory than half a processor has, so that each
// lies on one of its own. Else a few of them share processors while others have none.
static bool has_one_each(const struct gpu_linear *args)
{
    int device, most = 0;
    if (weight_rows(args) > ONE_EACH || cudaGetDevice(&device) != cudaSuccess) return false;
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return most >= 16 * 4 * bf16_source<1, 2>::bytes;
}

static cudaError_t choose_more_parts(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->n <= 8) {
        if (args->k <= 2048) return launch_bf16<16, 1, 1, 2, 2>(gpu, args);
        return has_one_each(args) ? launch_bf16<16, 1, 1, 4, 1, PLAIN, 2, 8>(gpu, args)
                                  : launch_bf16<16, 1, 1, 3, 2>(gpu, args);
    }
    if (args->n <= 16) return launch_bf16<16, 1, 2, 3, 2>(gpu, args);
    return launch_bf16<16, 1, 8, 2, 1>(gpu, args);
}

cudaError_t gpu_linear_bf16(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if (args->x.arranged) return gpu_linear_wide(gpu, args);
    if (args->groups)
        return gpu_group_rows(args->n) == 8 ? launch_bf16<8, 1, 1, 3, 4, EXPERTS>(gpu, args)
                                            : launch_bf16<8, 1, 4, 2, 2, EXPERTS>(gpu, args);
    if (args->gates)
        return args->n <= 8 ? launch_bf16<8, 2, 1, 2, 3, GATES>(gpu, args)
                            : launch_bf16<8, 2, 2, 2, 3, GATES>(gpu, args);
    if (args->rotates) {
        if (args->parts == GPU_MORE_PARTS)
            return args->n <= 8 ? launch_bf16<16, 2, 1, 3, 2, ROTATES, 1, 3>(gpu, args)
                                : launch_bf16<16, 2, 2, 3, 1, ROTATES, 1>(gpu, args);
        return args->n <= 8 ? launch_bf16<8, 2, 1, 2, 3, ROTATES>(gpu, args)
                            : launch_bf16<8, 2, 2, 2, 3, ROTATES>(gpu, args);
    }
    return args->parts == GPU_MORE_PARTS ? choose_more_parts(gpu, args) : choose_parts(gpu, args);
}
