// Linear layers in BF16 times many rows, on Hopper's wgmma. It adds up as mma.sync does
// (test_cuda_kernels compares the bits), and sums the parts of k as linear.cu does.
//
// A block of threads computes tiles of GPU_WIDE_ROWS rows times N weight rows. Two groups of four
// warps multiply 64 rows each; a thread of a third group asks the copy engine for rows and weights.
#include "gpu/wgmma.cuh"

enum {
    GROUP_BYTES = GPU_WIDE_ROWS * RF_BLOCK * 2, // GPU_WIDE_ROWS rows of 32 values of k
    TILE_BYTES = RF_PANEL_ROWS * RF_BLOCK * 2,  // 16 weight rows of 32 values of k
    CONSUMERS = 256,
    THREADS = CONSUMERS + 4 * WARP,
    MOST_SHARED = 227 * 1024,
    MOST_KEPT = 192 // columns of a part whose totals registers hold, too
};

// ---- forms of tiles ----

// N weight rows; with GATES half of them are of the gate, the others of up. A stage has GROUPS
// times 32 values of k. Registers hold the totals of KEPT columns beside the sums of a part; the
// others are in shared memory.
template <int N_, int GROUPS_, int STAGES_, bool GATES_> struct form {
    static constexpr int N = N_, GROUPS = GROUPS_, STAGES = STAGES_;
    static constexpr bool GATES = GATES_;
    static constexpr int KEPT = N > MOST_KEPT ? 144 : N;
    static constexpr int MATRICES = GATES ? 2 : 1, OF_MATRIX = N / MATRICES;
    static constexpr int BOX = OF_MATRIX / RF_PANEL_ROWS; // tiles of 16 rows that a copy brings
    static constexpr int WEIGHT_BYTES = N / RF_PANEL_ROWS * TILE_BYTES; // for 32 values of k
    static constexpr int STAGE_BYTES = GROUPS * (GROUP_BYTES + WEIGHT_BYTES);
    static constexpr int TOTAL_BYTES = (N - KEPT) * GPU_WIDE_ROWS * (int)sizeof(float);
    static constexpr int BYTES = STAGES * (STAGE_BYTES + 16) + TOTAL_BYTES;
    static_assert(BYTES <= MOST_SHARED);
};

// The weights of all matrices: [tiles of 16 rows][groups of 32 values][TILE_BYTES].
struct maps {
    CUtensorMap of[GPU_MATRICES];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Shared memory: stages, each of rows and then of weights; totals; and two barriers for each stage:
// it is there; it is read.
template <typename FORM> struct stages {
    uint32_t memory;

    __device__ uint32_t rows(int i) const
    {
        return memory + i * FORM::STAGE_BYTES;
    }
    __device__ uint32_t weights(int i) const
    {
        return rows(i) + FORM::GROUPS * GROUP_BYTES;
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

// A tile of results: from the weight row `first` of a matrix and from row `row` on.
struct place {
    int matrix, first, row;
};

template <typename FORM>
__device__ inline struct place find_wide_place(const struct gpu_linear &args, int tile)
{
    int row_tiles = (args.n + GPU_WIDE_ROWS - 1) / GPU_WIDE_ROWS, block = tile / row_tiles, m = 0;
    for (; !FORM::GATES && m < args.n_matrices - 1; m++) {
        int blocks = (args.matrices[m].rows + FORM::OF_MATRIX - 1) / FORM::OF_MATRIX;
        if (block < blocks) break;
        block -= blocks;
    }
    return {m, block * FORM::OF_MATRIX, tile % row_tiles * GPU_WIDE_ROWS};
}

// ---- copies ----

template <typename FORM> struct producer {
    struct stages<FORM> stages;
    const struct gpu_linear &args;
    const struct maps &maps;

    // Tiles behind a matrix are filled with zeros.
    __device__ void load_weights(const struct place &place, int group, int i) const
    {
        expect_bytes(stages.is_there(i), FORM::STAGE_BYTES);
#    pragma unroll
        for (int j = 0; j < FORM::GROUPS; j++)
#    pragma unroll
            for (int m = 0; m < FORM::MATRICES; m++)
                copy_box(stages.weights(i) + j * FORM::WEIGHT_BYTES + m * FORM::BOX * TILE_BYTES,
                         maps.of[place.matrix + m], 0, group + j, place.first / RF_PANEL_ROWS,
                         stages.is_there(i));
    }
    __device__ void load_rows(const struct place &place, int group, int i) const
    {
        size_t groups = (size_t)args.x.pairs * 2;
        copy_bulk(stages.rows(i),
                  (const char *)args.x.arranged +
                      (place.row / GPU_WIDE_ROWS * groups + group) * GROUP_BYTES,
                  FORM::GROUPS * GROUP_BYTES, stages.is_there(i));
    }
    // The first weights do not depend on the kernels before.
    __device__ void load_all(int tiles) const
    {
        constexpr int AT_ONCE = FORM::STAGES * FORM::GROUPS;
        int groups = args.x.pairs * 2, early = min(groups, AT_ONCE);
        struct place place = find_wide_place<FORM>(args, blockIdx.x);
        for (int p = 0; p < early; p += FORM::GROUPS) load_weights(place, p, p / FORM::GROUPS);
        wait_for_previous();
        for (int p = 0; p < early; p += FORM::GROUPS) load_rows(place, p, p / FORM::GROUPS);
        struct turn<FORM::STAGES> turn = {
            early / FORM::GROUPS % FORM::STAGES, early < AT_ONCE
        };
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, early = 0) {
            place = find_wide_place<FORM>(args, tile);
            for (int p = early; p < groups; p += FORM::GROUPS, turn.advance()) {
                wait_barrier(stages.is_read(turn.i), turn.parity);
                load_weights(place, p, turn.i);
                load_rows(place, p, turn.i);
            }
        }
    }
};

// ---- products ----

// A thread's totals, in the order of multiply_wide.
template <typename FORM> struct consumer {
    static constexpr int KEPT_SUMS = FORM::KEPT / 2, SUMS = FORM::N / 2;
    struct stages<FORM> stages;
    struct turn<FORM::STAGES> turn;
    float kept[KEPT_SUMS];

    // The place of the four totals from i on, in shared memory.
    __device__ uint32_t total_place(int i) const
    {
        return stages.totals() + ((i - KEPT_SUMS) / 4 * CONSUMERS + threadIdx.x) * 16;
    }
    __device__ float4 total(int i) const
    {
        if (i < KEPT_SUMS) return make_float4(kept[i], kept[i + 1], kept[i + 2], kept[i + 3]);
        float4 v;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "r"(total_place(i)));
        return v;
    }
    __device__ void put_total(int i, float4 v)
    {
        if (i < KEPT_SUMS)
            kept[i] = v.x, kept[i + 1] = v.y, kept[i + 2] = v.z, kept[i + 3] = v.w;
        else
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(total_place(i)), "f"(v.x),
                         "f"(v.y), "f"(v.z), "f"(v.w)
                         : "memory");
    }
    __device__ void add_part_sums(const float (&sums)[SUMS])
    {
#    pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            float4 v = total(i);
            put_total(i, make_float4(v.x + sums[i], v.y + sums[i + 1], v.z + sums[i + 2],
                                     v.w + sums[i + 3]));
        }
    }
    __device__ void release_stage(int i) const
    {
        if (threadIdx.x % (4 * WARP) == 0) arrive_at(stages.is_read(i));
    }
    // `each`: groups of 32 values of a part. A stage is released when the next one's products have
    // begun.
    __device__ void sum_tile(int groups, int each)
    {
        float sums[SUMS];
        int adds = 0, left = each;
        uint32_t of_warps = threadIdx.x / (4 * WARP) * 64 * 16;
#    pragma unroll
        for (int i = 0; i < SUMS; i += 4) // -0 + x is x
            put_total(i, make_float4(-0.0f, -0.0f, -0.0f, -0.0f));
        for (int p = 0; p < groups; p += FORM::GROUPS, turn.advance()) {
            wait_barrier(stages.is_there(turn.i), turn.parity);
            uint64_t rows = operand_at(stages.rows(turn.i) + of_warps, GPU_WIDE_ROWS * 16, 128),
                     weights = operand_at(stages.weights(turn.i), 128, TILE_BYTES / 2);
#    pragma unroll
            for (int j = 0; j < FORM::GROUPS; j++) {
                begin_products();
                multiply_wide<FORM::N>(sums, rows + j * (GROUP_BYTES >> 4),
                                       weights + j * (FORM::WEIGHT_BYTES >> 4), adds);
                multiply_wide<FORM::N>(sums, rows + (j * GROUP_BYTES + GROUP_BYTES / 2 >> 4),
                                       weights + (j * FORM::WEIGHT_BYTES + 256 >> 4), 1);
                end_products();
                adds = 1;
                if (--left > 0) continue;
                wait_products<0>();
                add_part_sums(sums);
                adds = 0;
                left = each;
            }
            wait_products<FORM::GROUPS>();
            if (p > 0) release_stage(turn.before());
        }
        wait_products<0>();
        release_stage(turn.before());
        if (left < each) add_part_sums(sums);
    }
};

// ---- results ----

__device__ inline float result_of(const float *bias, int row, float sum, float scale)
{
    float scaled = __fmul_rn(sum, scale);
    return bias ? scaled + bias[row] : scaled;
}

// The place of a thread's results of a row of x, from the weight row `first` on.
struct results {
    const struct gpu_matrix &matrix;
    float *y;
    float scale;
    int first, accumulate;
    bool has_row;

    __device__ results(const struct gpu_linear &args, const struct place &place, int row, int first)
        : matrix(args.matrices[place.matrix]), y(matrix.y + (size_t)row * matrix.rows + first),
          scale(1.0f), first(first), accumulate(args.accumulate), has_row(row < args.n)
    {
        if (args.fold.squares && has_row) scale = args.fold.scales[row];
    }
    __device__ bool has_result_at(int at) const
    {
        return has_row && first + at < matrix.rows;
    }
    // The old results of the weight rows first + at and the next one. They lie together if the
    // number of rows is even.
    __device__ float2 old_pair(int at) const
    {
        if (!accumulate || !has_result_at(at)) return make_float2(0.0f, 0.0f);
        if (matrix.rows % 2 == 0) return *(const float2 *)(y + at);
        return make_float2(y[at], has_result_at(at + 1) ? y[at + 1] : 0.0f);
    }
    __device__ void put_pair(int at, float2 old, float upper, float lower) const
    {
        if (!has_result_at(at)) return;
        float2 v = {result_of(matrix.bias, first + at, upper, scale), 0.0f};
        if (has_result_at(at + 1)) v.y = result_of(matrix.bias, first + at + 1, lower, scale);
        if (accumulate) v = make_float2(old.x + v.x, old.y + v.y);
        if (matrix.rows % 2 == 0) {
            *(float2 *)(y + at) = v;
        } else {
            y[at] = v.x;
            if (has_result_at(at + 1)) y[at + 1] = v.y;
        }
    }
};

template <typename FORM>
__device__ inline void put_tile(const struct gpu_linear &args, const struct place &place,
                                const struct consumer<FORM> &consumer, int row)
{
    constexpr int BATCH = 4; // pairs of old values that are loaded together
    int first = place.first + threadIdx.x % 4 * 2;
    const struct results of_row(args, place, row, first), of_later(args, place, row + 8, first);
#    pragma unroll
    for (int begin = 0; begin < FORM::N / 8; begin += BATCH) {
        float2 old[BATCH][2];
#    pragma unroll
        for (int j = begin; j < begin + BATCH && j < FORM::N / 8; j++) {
            old[j - begin][0] = of_row.old_pair(8 * j);
            old[j - begin][1] = of_later.old_pair(8 * j);
        }
#    pragma unroll
        for (int j = begin; j < begin + BATCH && j < FORM::N / 8; j++) {
            float4 v = consumer.total(4 * j);
            of_row.put_pair(8 * j, old[j - begin][0], v.x, v.y);
            of_later.put_pair(8 * j, old[j - begin][1], v.z, v.w);
        }
    }
}

// silu(gate) * up of a weight row and the next one.
__device__ inline uint32_t gate_pair(const struct gpu_linear &args, int row, float2 gate, float2 up,
                                     float scale)
{
    const float *of_gate = args.matrices[0].bias, *of_up = args.matrices[1].bias;
    float first = silu(result_of(of_gate, row, gate.x, scale)) * result_of(of_up, row, up.x, scale),
          second = silu(result_of(of_gate, row + 1, gate.y, scale)) *
                   result_of(of_up, row + 1, up.y, scale);
    return bf16_bits(first) | (uint32_t)bf16_bits(second) << 16;
}

// Puts results in the order of the layer behind: a thread has 16 of a row's 64 bytes for 32 values.
template <typename FORM>
__device__ inline void put_gated(const struct gpu_linear &args, const struct place &place,
                                 const struct consumer<FORM> &consumer, int row)
{
    float scales[2] = {1.0f, 1.0f};
    for (int h = 0; args.fold.squares && h < 2; h++)
        if (row + 8 * h < args.n) scales[h] = args.fold.scales[row + 8 * h];
#    pragma unroll
    for (int block = 0; block < FORM::OF_MATRIX; block += RF_BLOCK) {
        uint32_t words[2][4];
        int first = place.first + block + threadIdx.x % 4 * 2;
        if (place.first + block >= args.matrices[0].rows) return;
#    pragma unroll
        for (int t = 0; t < 4; t++) {
            float4 gate = consumer.total(block / 2 + 4 * t),
                   up = consumer.total((FORM::OF_MATRIX + block) / 2 + 4 * t);
            words[0][t] = gate_pair(args, first + 8 * t, make_float2(gate.x, gate.y),
                                    make_float2(up.x, up.y), scales[0]);
            words[1][t] = gate_pair(args, first + 8 * t, make_float2(gate.z, gate.w),
                                    make_float2(up.z, up.w), scales[1]);
        }
#    pragma unroll
        for (int h = 0; h < 2; h++)
            if (row + 8 * h < args.n)
                *(uint4 *)(args.gated.arranged +
                           gpu_arranged_place(row + 8 * h, args.gated.pairs * 2, first)) =
                    make_uint4(words[h][0], words[h][1], words[h][2], words[h][3]);
    }
}
#endif

// ---- the kernel ----

template <typename FORM>
static __global__ void __launch_bounds__(THREADS, 1)
    linear_wide(const __grid_constant__ struct gpu_linear args,
                const __grid_constant__ struct maps maps, int tiles)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char shared[];
    const struct stages<FORM> stages = {
        (uint32_t) __cvta_generic_to_shared(shared)
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < FORM::STAGES; i++) {
            init_barrier(stages.is_there(i), 1);
            init_barrier(stages.is_read(i), CONSUMERS / (4 * WARP));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const struct producer<FORM> producer = {
            stages, args, maps
        };
        if (threadIdx.x == CONSUMERS) producer.load_all(tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        wait_for_previous();
        struct consumer<FORM> consumer = {
            stages,
            {
                0, 0
            }
        };
        int groups = args.x.pairs * 2, each = (groups + args.parts - 1) / args.parts;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            struct place place = find_wide_place<FORM>(args, tile);
            int row = place.row + threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
            consumer.sum_tile(groups, each);
            if constexpr (FORM::GATES)
                put_gated(args, place, consumer, row);
            else
                put_tile(args, place, consumer, row);
        }
    }
#endif
}

// ---- launching ----

extern "C" int gpu_has_wide(int major, int minor)
{
#ifdef GPU_HAS_WGMMA
    return major == 9 && minor == 0;
#else
    return 0;
#endif
}

// box: tiles that a copy brings.
static cudaError_t make_wide_maps(struct maps *maps, const struct gpu_linear *args, int box)
{
    size_t groups = (size_t)args->x.pairs * 2;
    cudaError_t error = cudaSuccess;
    for (int m = 0; m < args->n_matrices && error == cudaSuccess; m++) {
        const struct gpu_matrix *matrix = &args->matrices[m];
        size_t tiles = ((size_t)matrix->rows + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
        error = make_map(&maps->of[m], matrix->tiles, TILE_BYTES, groups, tiles,
                         groups * TILE_BYTES, box);
    }
    return error;
}

// Tiles whose parts have `of_matrix` rows of a matrix.
static int count_tiles(const struct gpu_linear *args, int of_matrix)
{
    int blocks = 0, matrices = args->gates ? 1 : args->n_matrices;
    for (int m = 0; m < matrices; m++)
        blocks += (args->matrices[m].rows + of_matrix - 1) / of_matrix;
    return (args->n + GPU_WIDE_ROWS - 1) / GPU_WIDE_ROWS * blocks;
}

template <typename FORM>
static cudaError_t launch_wide_form(const struct gpu_launch *launch, const struct gpu_linear *args,
                                    int processors)
{
    int tiles = count_tiles(args, FORM::OF_MATRIX);
    struct maps maps = {};
    cudaError_t error = make_wide_maps(&maps, args, FORM::BOX);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(linear_wide<FORM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     FORM::BYTES);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, linear_wide<FORM>,
                         dim3((unsigned)(tiles < processors ? tiles : processors)), THREADS,
                         FORM::BYTES, *args, maps, tiles);
}

// N, GROUPS, STAGES, and whether it has gates.
#define EACH_FORM(ROW) \
    ROW(48, 2, 10, 0)  \
    ROW(64, 2, 9, 0)   \
    ROW(96, 2, 8, 0)   \
    ROW(112, 2, 7, 0)  \
    ROW(128, 2, 7, 0)  \
    ROW(144, 2, 6, 0)  \
    ROW(192, 1, 11, 0) \
    ROW(256, 1, 7, 0)  \
    ROW(64, 2, 9, 1)   \
    ROW(128, 2, 7, 1)  \
    ROW(192, 1, 11, 1) \
    ROW(256, 1, 7, 1)

static const struct {
    int n, gates;
    cudaError_t (*launch)(const struct gpu_launch *, const struct gpu_linear *, int);
} forms[] = {
#define ROW(n, groups, stages, gates) \
    {n, gates, launch_wide_form<form<n, groups, stages, gates != 0>>},
    EACH_FORM(ROW)
#undef ROW
};

// The cost of a tile beside its products, in weight rows: rows have to come, too. Measured with
// 8192 x 8192 and 3584 x 18944 times 512 rows on an H100.
enum { TILE_COST = 80 };

// The form whose tiles are done first if all processors take as many at a time.
extern "C" cudaError_t gpu_linear_wide(const struct gpu_launch *launch,
                                       const struct gpu_linear *args)
{
    int device = 0, processors = 1, best = -1, least = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return error;
    for (int f = 0; f < (int)(sizeof forms / sizeof *forms); f++) {
        if (forms[f].gates != args->gates) continue;
        int tiles = count_tiles(args, args->gates ? forms[f].n / 2 : forms[f].n),
            cost = (tiles + processors - 1) / processors * (forms[f].n + TILE_COST);
        if (best < 0 || cost < least) best = f, least = cost;
    }
    return forms[best].launch(launch, args, processors);
}
