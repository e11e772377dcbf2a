// What the kernels of linear layers share: parts of k and their sums, weights on their way to
// shared memory, launches. The order of the sums is here, so all kernels have the same bits.
#ifndef RF_GPU_LINEAR_CUH
#define RF_GPU_LINEAR_CUH

#include "gpu/formats.cuh"
#include "gpu/reduce.cuh"

// At the beginning of shared memory, where the copy engine brings weights.
static constexpr int BARRIER_BYTES = 1024;

// The tile and the rows [first, end) of x that a block of threads works on.
struct place {
    const struct gpu_matrix *matrix;
    const char *tiles; // the matrix's, or one expert's
    const float *bias;
    int tile, first, end;
};

// EXPERTS: each group of rows has an expert's matrices. GATES, ROTATES: a block of threads has two
// tiles, of the gate and of up, or of both halves of a head.
enum linear_kind { PLAIN, EXPERTS, GATES, ROTATES };

template <int TILES, int COLUMNS, enum linear_kind KIND>
__device__ inline struct place find_place(const struct gpu_linear &args)
{
    int block = blockIdx.x, m = 0;
    for (; m < args.n_matrices - 1; m++) {
        int blocks = (args.matrices[m].rows + 16 * TILES - 1) / (16 * TILES);
        if (block < blocks) break;
        block -= blocks;
    }
    const struct gpu_matrix &matrix = args.matrices[m];
    const char *tiles = (const char *)matrix.tiles;
    if constexpr (KIND == ROTATES) {
        int half = args.rope.heads.dim / 2 / RF_PANEL_ROWS,
            tile = block / half * 2 * half + block % half;
        return {&matrix, tiles, matrix.bias, tile, (int)blockIdx.y * 8 * COLUMNS, args.n};
    }
    if constexpr (KIND != EXPERTS)
        return {&matrix, tiles, matrix.bias, block * TILES, (int)blockIdx.y * 8 * COLUMNS, args.n};
    wait_for_previous(); // the experts were not chosen before
    const struct gpu_group group = args.groups[blockIdx.y];
    return {&matrix,
            tiles + group.expert * matrix.of_expert,
            matrix.bias ? matrix.bias + (size_t)group.expert * matrix.rows : NULL,
            block * TILES,
            group.first,
            group.first + group.n};
}

// The part of `n` steps that this warp takes, of PARTS or of twice as many warps.
template <int PARTS> __device__ inline void take_part(int n, int *begin, int *end)
{
    int each = (n + PARTS - 1) / PARTS, part = threadIdx.x / WARP % PARTS;
    *begin = min(n, part * each);
    *end = min(n, *begin + each);
}

// Gathers the sums of all parts: [PARTS][8 * COLUMNS][16 * TILES + 4]. Of a lane's four, the first
// two belong to weight row g and the columns 2t and 2t + 1, the others to row g + 8.
template <int PARTS, int TILES, int COLUMNS>
__device__ inline void put_sums(float *sums, float acc[TILES][COLUMNS][4])
{
    constexpr int STRIDE = 16 * TILES + 4, SIZE = 8 * COLUMNS * STRIDE;
    int part = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    __syncthreads(); // the weights were there
    for (int m = 0; m < TILES; m++)
        for (int c = 0; c < COLUMNS; c++)
            for (int i = 0; i < 4; i++)
                sums[part * SIZE + (8 * c + 2 * t + i % 2) * STRIDE + 16 * m + g + i / 2 * 8] =
                    acc[m][c][i];
    __syncthreads();
}

// The sum of the parts' sums at `of`, SIZE apart, in their order.
template <int PARTS, int SIZE> __device__ inline float sum_parts(const float *of)
{
    float sum = of[0];
    for (int p = 1; p < PARTS; p++) sum += of[p * SIZE];
    return sum;
}

// The place of a result, and the numbers that it takes beside the sums.
struct result {
    float *y; // NULL: the thread has none
    float bias, gain;
};

// Result `at` of a block of threads: [rows of x][ROWS]. Does not depend on the kernels before.
template <int ROWS>
__device__ inline struct result find_result(const struct gpu_linear &args,
                                            const struct place &place, int at)
{
    int column = place.first + at / ROWS, row = place.tile * RF_PANEL_ROWS + at % ROWS;
    struct result result = {};
    if (column >= place.end || row >= place.matrix->rows) return result;
    result.y = place.matrix->y + (size_t)column * place.matrix->rows + row;
    if (place.bias) result.bias = place.bias[row];
    if (args.next.gain) result.gain = args.next.gain[row];
    return result;
}

// The number that the result is added to.
__device__ inline float old_of(const struct gpu_linear &args, const struct result &result)
{
    return args.accumulate && result.y ? *result.y : 0.0f;
}

__device__ inline float put_result(const struct gpu_linear &args, const struct place &place,
                                   const struct result &result, float old, float sum)
{
    if (place.bias) sum += result.bias;
    if (args.accumulate) sum = old + sum;
    if (result.y) *result.y = sum;
    return sum;
}

// Leaves what the norm of the results needs: all lanes have a result of GPU_SQUARES rows.
template <int ROWS>
__device__ inline void put_next(const struct gpu_linear &args, const struct place &place, int at,
                                const struct result &result, float y)
{
    int column = place.first + at / ROWS, row = place.tile * RF_PANEL_ROWS + at % ROWS,
        n = place.matrix->rows;
    float sum = sum_squares(result.y ? y : 0.0f);
    if (!result.y) return;
    size_t block = gpu_row_place(column, args.normed.pairs * 2, row / RF_BLOCK);
    args.normed.bf16[block * RF_BLOCK + row % RF_BLOCK] = bf16_bits(__fmul_rn(y, result.gain));
    if (at % GPU_SQUARES == 0)
        args.next.squares[(size_t)column * (n / GPU_SQUARES) + row / GPU_SQUARES] = sum;
}

// Rotates values `row` of a row of q or k and half a head behind it, and stores those of k and v.
// `load_early` loads everything that does not depend on the kernels before, `load_late` the rest.
struct rotation {
    float2 bias, turn; // cosine and sine
    uint16_t *entry;   // NULL: q

    __device__ void load_early(const struct gpu_linear &args, const struct place &place, int column,
                               int row)
    {
        const struct gpu_rope &rope = args.rope;
        const struct gpu_heads &heads = rope.heads;
        int half = heads.dim / 2, head = row / heads.dim, i = row % heads.dim;
        if (place.bias) bias = make_float2(place.bias[row], place.bias[row + half]);
        entry = NULL;
        if (place.matrix == &args.matrices[0]) return;
        const struct gpu_row &at = rope.pass.rows[column];
        size_t plane =
            (size_t)(rope.layer * heads.n_head_kv + head) * 2 + (place.matrix == &args.matrices[2]);
        entry = rope.pass.blocks[at.table + at.slot / GPU_KV_BLOCK] +
                (plane * GPU_KV_BLOCK + at.slot % GPU_KV_BLOCK) * heads.padded + i;
    }
    __device__ void load_late(const struct gpu_linear &args, int column, int row)
    {
        const struct gpu_rope &rope = args.rope;
        int half = rope.heads.dim / 2;
        turn = ((const float2 *)rope
                    .rotations)[((size_t)column * 2 + rope.is_local) * half + row % rope.heads.dim];
    }
    __device__ void put(const struct gpu_linear &args, const struct place &place, int column,
                        int row, float2 y) const
    {
        int half = args.rope.heads.dim / 2;
        if (place.bias) y = make_float2(y.x + bias.x, y.y + bias.y);
        if (place.matrix != &args.matrices[2])
            y = make_float2(__fsub_rn(__fmul_rn(y.x, turn.x), __fmul_rn(y.y, turn.y)),
                            __fadd_rn(__fmul_rn(y.x, turn.y), __fmul_rn(y.y, turn.x)));
        if (entry) {
            entry[0] = half_bits(y.x, args.rope.heads.is_bf16);
            entry[half] = half_bits(y.y, args.rope.heads.is_bf16);
        } else {
            float *q = args.rope.q + (size_t)column * place.matrix->rows + row;
            q[0] = y.x;
            q[half] = y.y;
        }
    }
};

// Adds the sums of all parts, and writes them.
template <int PARTS, int TILES, int COLUMNS>
__device__ inline void finish(const struct gpu_linear &args, const struct place &place,
                              float acc[TILES][COLUMNS][4])
{
    extern __shared__ char shared[];
    float *sums = (float *)(shared + BARRIER_BYTES);
    constexpr int ROWS = 16 * TILES, STRIDE = ROWS + 4, SIZE = 8 * COLUMNS * STRIDE;
    put_sums<PARTS, TILES, COLUMNS>(sums, acc);
    int columns = min(8 * COLUMNS, place.end - place.first);
    for (int at = threadIdx.x; at < columns * ROWS; at += blockDim.x) {
        float sum = sum_parts<PARTS, SIZE>(sums + at / ROWS * STRIDE + at % ROWS);
        const struct result result = find_result<ROWS>(args, place, at);
        put_result(args, place, result, old_of(args, result), sum);
    }
}

// Shared memory of the parts' sums, or of the weights on their way, PARTS times `ring` bytes.
template <int PARTS, int TILES, int COLUMNS> constexpr size_t shared_bytes(size_t ring)
{
    size_t sums = (size_t)8 * COLUMNS * (16 * TILES + 4) * sizeof(float);
    return PARTS * (sums > ring ? sums : ring);
}

// ---- weights on their way ----

// Keeps a number in a register, where the compiler would compute it again in each loop.
template <typename T> __device__ inline T kept(T x)
{
    asm volatile("mov.b32 %0, %0;" : "+r"(x));
    return x;
}

__device__ inline uint4 load_shared_4(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

__device__ inline uint2 load_shared_2(uint32_t at)
{
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at));
    return v;
}

__device__ inline uint32_t load_shared_1(uint32_t at)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
}

#if __CUDA_ARCH__ >= 900
static constexpr bool HAS_COPY_ENGINE = true;
#else
static constexpr bool HAS_COPY_ENGINE = false;
#endif

// The policy of the second cache for weights. Weights that a pass reads once leave it first, so
// what kernels share stays there: rows, biases, the cache's entries, code. Only passes over many
// rows read weights again.
template <int COLUMNS, enum linear_kind KIND> __device__ inline uint64_t policy_of()
{
    uint64_t once, again;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    if (COLUMNS <= 2 || KIND == EXPERTS) return once;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(again));
    return gridDim.y > 1 ? again : once;
}

// Copies by a warp of a multiple of 16 bytes. One lane asks the copy engine, which tells a barrier;
// or each lane copies, and waits for its own copies.
template <bool BY_ENGINE> struct copier {
    uint64_t policy;
    uint32_t barrier;
    int lane;

    __device__ void copy(uint32_t to, const char *from, uint32_t bytes) const
    {
        if constexpr (BY_ENGINE)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
                         "L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
                         "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                         : "memory");
        else
            for (uint32_t i = lane * 16; i < bytes; i += WARP * 16)
                asm volatile(
                    "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(
                        to + i),
                    "l"(from + i), "l"(policy)
                    : "memory");
    }
};

// A warp's steps [next, end) of weights: STAGES groups of them lie in shared memory or are on their
// way. SOURCE: `steps` of a group, at most `bytes`; step_bytes(step, n) and copy_steps(copier, to,
// step, n) of n steps; `by_engine`: many small copies are the engine's, where there is one.
template <typename SOURCE, int STAGES> struct ring {
    static constexpr bool BY_ENGINE = HAS_COPY_ENGINE && SOURCE::by_engine;
    static constexpr int BEFORE = SOURCE::by_engine ? BARRIER_BYTES : 0;
    SOURCE source;
    uint64_t policy;
    uint32_t base, barriers, parity;
    int next, end, lane, slot;
    bool is_full; // no group was taken

    __device__ ring(const SOURCE &from, char *shared, int first, int last, uint64_t cache_policy)
        : source(from), policy(cache_policy), parity(0), next(first), end(last), slot(0),
          is_full(true)
    {
        uint32_t memory = (uint32_t)__cvta_generic_to_shared(shared), warp = threadIdx.x / WARP;
        lane = kept((int)threadIdx.x % WARP);
        base = kept(memory + BEFORE + warp * STAGES * SOURCE::bytes);
        barriers = memory + warp * STAGES * 8;
        if constexpr (BY_ENGINE) {
            barriers = kept(barriers);
            for (int i = 0; lane == 0 && i < STAGES; i++)
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + i * 8));
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            __syncwarp();
        }
#pragma unroll
        for (int i = 0; i < STAGES; i++) fetch(i);
    }
    __device__ void fetch(int to)
    {
        int n = min(end - next, (int)SOURCE::steps);
        const struct copier<BY_ENGINE> copier = {
            policy, barriers + to * 8, lane
        };
        if (n > 0 && (!BY_ENGINE || lane == 0)) {
            if constexpr (BY_ENGINE)
                asm volatile(
                    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(copier.barrier),
                    "r"(source.step_bytes(next, n))
                    : "memory");
            source.copy_steps(copier, base + to * SOURCE::bytes, next, n);
        }
        if constexpr (!BY_ENGINE) asm volatile("cp.async.commit_group;");
        next += SOURCE::steps;
    }
    // Returns the place of the next group. The memory of the one before is filled again.
    __device__ uint32_t take()
    {
        __syncwarp();
        if (!is_full) fetch(slot == 0 ? STAGES - 1 : slot - 1);
        is_full = false;
        if constexpr (BY_ENGINE) {
            asm volatile("{\n.reg .pred done;\nagain:\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                         "@!done bra again;\n}" ::"r"(barriers + slot * 8),
                         "r"(parity)
                         : "memory");
        } else {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
            __syncwarp();
        }
        uint32_t taken = base + slot * SOURCE::bytes;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        if (slot == 0) parity ^= 1;
        return taken;
    }
};

// ---- launching ----

template <int TILES, int COLUMNS> static dim3 grid_of(const struct gpu_linear *args)
{
    int blocks = 0;
    for (int m = 0; m < args->n_matrices; m++)
        blocks += (args->matrices[m].rows + 16 * TILES - 1) / (16 * TILES);
    int groups = args->groups ? args->n_groups : (args->n + 8 * COLUMNS - 1) / (8 * COLUMNS);
    return dim3((unsigned)blocks, (unsigned)groups);
}

// The rows of all matrices.
static inline int weight_rows(const struct gpu_linear *args)
{
    int rows = 0;
    for (int m = 0; m < args->n_matrices; m++) rows += args->matrices[m].rows;
    return rows;
}

template <typename Kernel, typename... Arguments>
static cudaError_t launch_shared(const struct gpu_launch *launch, Kernel kernel, dim3 grid,
                                 int parts, size_t bytes, const Arguments &...arguments)
{
    if (bytes > 40 * 1024) { // beside what kernels declare, 48 KB need no permission
        cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (error != cudaSuccess) return error;
    }
    return launch_kernel(launch, kernel, grid, (unsigned)parts * WARP, bytes, arguments...);
}

// linear_bf16.cu, linear_panels.cu and linear_one.cu
cudaError_t gpu_linear_bf16(const struct gpu_launch *launch, const struct gpu_linear *args);
cudaError_t gpu_linear_panels(const struct gpu_launch *launch, const struct gpu_linear *args);
cudaError_t gpu_linear_one(const struct gpu_launch *launch, const struct gpu_linear *args);
// Whether gpu_linear_one can do the gate, or the norm, of a layer that it takes.
int gpu_gates_one(const struct gpu_linear *args);
int gpu_norms_one(const struct gpu_linear *args);

#endif
