// Linear layers in BF16 times many rows, on Hopper's wgmma. It adds up as mma.sync does
// (test_cuda_kernels compares the bits), and sums the parts of k as linear.cu does.
//
// A block of threads computes 128 weight rows times 128 rows. Two groups of four warps multiply; a
// ninth warp asks the copy engine for weights and rows, STAGES groups of 32 values of k ahead.
#include "gpu/launch.cuh"

enum {
    WIDE = 128, // rows of either kind
    TILES = WIDE / RF_PANEL_ROWS,
    STAGES = 10,
    GROUP_BYTES = WIDE * RF_BLOCK * 2, // of either kind, of a stage
    CONSUMERS = 256,
    THREADS = CONSUMERS + WARP,
    WIDE_CHAIN = 16 // instructions without a wait, of a measurement
};

// ---- rows as wgmma takes them ----

// For each 128 rows and 32 values [2 steps h][2 halves c][16][8 rows][8 values], of which the
// values are 8 t + 4 h + 2 c + (0, 1), t = 0 .. 3. So the weights' tiles are operand A as they are.
static __global__ void arrange(uint4 *out, const uint32_t *rows, int n, int groups)
{
    wait_for_previous();
    int at = blockIdx.x * blockDim.x + threadIdx.x, of_group = GROUP_BYTES / 16;
    int place = at % of_group, group = at / of_group % groups,
        row = at / of_group / groups * WIDE + place % WIDE;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row < n) {
        const uint32_t *from =
            rows + gpu_row_place(row, groups, group) * (RF_BLOCK / 2) + place / WIDE;
        v = make_uint4(from[0], from[4], from[8], from[12]);
    }
    out[at] = v;
}

// ---- products ----

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ inline void wait_barrier(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ inline void copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// 64 weight rows times 128 rows and 16 values of k.
__device__ inline void multiply_wide(float (&c)[64], const uint32_t (&a)[4], uint64_t b, int adds)
{
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
        "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
          "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
          "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
          "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
          "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]),
          "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
          "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
          "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
          "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
          "+f"(c[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

// What the two groups of warps and the ninth warp share: STAGES groups of weights, then of rows,
// and for each stage a barrier that it is there and one that it is read.
struct stages {
    uint32_t memory, barriers;

    __device__ uint32_t weights(int i) const
    {
        return memory + i * 2 * GROUP_BYTES;
    }
    __device__ uint32_t rows(int i) const
    {
        return weights(i) + GROUP_BYTES;
    }
    __device__ uint32_t is_there(int i) const
    {
        return barriers + i * 16;
    }
    __device__ uint32_t is_read(int i) const
    {
        return barriers + i * 16 + 8;
    }
};

__device__ inline void load_stages(const struct stages &stages, const char *const (&tiles)[TILES],
                                   const char *rows, int groups)
{
    for (int p = 0, i = 0, parity = 1; p < groups; p++) {
        wait_barrier(stages.is_read(i), parity);
        asm volatile(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(stages.is_there(i)),
            "r"(2 * GROUP_BYTES)
            : "memory");
        copy_bulk(stages.rows(i), rows + (size_t)p * GROUP_BYTES, GROUP_BYTES, stages.is_there(i));
#    pragma unroll
        for (int m = 0; m < TILES; m++)
            copy_bulk(stages.weights(i) + m * (GROUP_BYTES / TILES),
                      tiles[m] + (size_t)p * (GROUP_BYTES / TILES), GROUP_BYTES / TILES,
                      stages.is_there(i));
        i = i + 1 == STAGES ? 0 : i + 1;
        if (i == 0) parity ^= 1;
    }
}

// Where the next stage lies.
struct turn {
    int i, parity;

    __device__ void advance()
    {
        i = i + 1 == STAGES ? 0 : i + 1;
        if (i == 0) parity ^= 1;
    }
};

// Adds the products of N stages to a warp's 16 weight rows and 128 rows.
template <int N>
__device__ inline void multiply_stages(const struct stages &stages, struct turn &turn,
                                       uint32_t of_warp, float (&sums)[64], int adds)
{
    uint32_t a[N][2][4];
    uint64_t rows[N];
    struct turn first = turn;
#    pragma unroll
    for (int n = 0; n < N; n++, turn.advance()) {
        uint4 low, high;
        wait_barrier(stages.is_there(turn.i), turn.parity);
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(low.x), "=r"(low.y), "=r"(low.z), "=r"(low.w)
                     : "r"(stages.weights(turn.i) + of_warp));
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(high.x), "=r"(high.y), "=r"(high.z), "=r"(high.w)
                     : "r"(stages.weights(turn.i) + of_warp + 512));
        a[n][0][0] = low.x, a[n][0][1] = high.x, a[n][0][2] = low.y, a[n][0][3] = high.y;
        a[n][1][0] = low.z, a[n][1][1] = high.z, a[n][1][2] = low.w, a[n][1][3] = high.w;
        // Between halves of 8 values 2048 bytes, between 8 rows 128.
        rows[n] = (uint64_t)((stages.rows(turn.i) & 0x3ffff) >> 4) | (uint64_t)(2048 >> 4) << 16 |
                  (uint64_t)(128 >> 4) << 32;
    }
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#    pragma unroll
    for (int n = 0; n < N; n++)
#    pragma unroll
        for (int h = 0; h < 2; h++)
            multiply_wide(sums, a[n][h], rows[n] + h * (4096 >> 4), adds | n | h);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x % (4 * WARP) > 0) return;
#    pragma unroll
    for (int n = 0; n < N; n++, first.advance())
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(stages.is_read(first.i))
                     : "memory");
}

// The sums of a warp's 16 weight rows and 128 rows, part after part.
__device__ inline void sum_stages(const struct stages &stages, int groups, int each,
                                  float (&total)[64])
{
    float sums[64];
    uint32_t of_warp =
        threadIdx.x / WARP * (GROUP_BYTES / TILES) + threadIdx.x % WARP * (uint32_t)sizeof(uint4);
    struct turn turn = {0, 0};
    for (int begin = 0; begin < groups; begin += each) {
        int end = min(groups, begin + each), p = begin;
        for (; p + 4 <= end; p += 4) multiply_stages<4>(stages, turn, of_warp, sums, p > begin);
        for (; p < end; p++) multiply_stages<1>(stages, turn, of_warp, sums, p > begin);
#    pragma unroll
        for (int j = 0; j < 64; j++) total[j] = begin ? total[j] + sums[j] : sums[j];
    }
}
#endif

static __global__ void __launch_bounds__(THREADS, 1)
    linear_wide(const __grid_constant__ struct gpu_linear args)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char shared[];
    int m = 0, block = blockIdx.y, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (; m < args.n_matrices - 1; m++) {
        int blocks = (args.matrices[m].rows + WIDE - 1) / WIDE;
        if (block < blocks) break;
        block -= blocks;
    }
    const struct gpu_matrix &matrix = args.matrices[m];
    int groups = 2 * args.x.pairs, last_tile = (matrix.rows - 1) / RF_PANEL_ROWS;
    uint32_t memory = (uint32_t)__cvta_generic_to_shared(shared);
    const struct stages stages = {memory, memory + STAGES * 2 * GROUP_BYTES};
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(stages.is_there(i)));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(stages.is_read(i)));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    wait_for_previous();
    if (warp == CONSUMERS / WARP) {
        const char *tiles[TILES];
#    pragma unroll
        for (int i = 0; i < TILES; i++)
            tiles[i] = (const char *)matrix.tiles +
                       (size_t)min(block * TILES + i, last_tile) * groups * (GROUP_BYTES / TILES);
        const char *rows =
            (const char *)args.x.arranged + (size_t)blockIdx.x * groups * GROUP_BYTES;
        if (lane == 0) load_stages(stages, tiles, rows, groups);
        return;
    }
    float total[64];
    sum_stages(stages, groups, (groups + args.parts - 1) / args.parts, total);
    int g = lane / 4, t = lane % 4;
#    pragma unroll
    for (int i = 0; i < 64; i++) {
        int row = (block * TILES + warp) * RF_PANEL_ROWS + g + i % 4 / 2 * 8,
            n = blockIdx.x * WIDE + i / 4 * 8 + 2 * t + i % 2;
        if (row >= matrix.rows || n >= args.n) continue;
        float *y = matrix.y + (size_t)n * matrix.rows + row;
        float sum = args.fold.squares ? total[i] * args.fold.scales[n] : total[i];
        if (matrix.bias) sum += matrix.bias[row];
        *y = args.accumulate ? *y + sum : sum;
    }
#endif
}

extern "C" int gpu_has_wide(int major, int minor)
{
#ifdef GPU_HAS_WGMMA
    return major == 9 && minor == 0;
#else
    return 0;
#endif
}

extern "C" size_t gpu_arranged_bytes(size_t rows, size_t pairs)
{
    return (rows + WIDE - 1) / WIDE * pairs * 2 * GROUP_BYTES;
}

extern "C" cudaError_t gpu_linear_wide(const struct gpu_launch *launch,
                                       const struct gpu_linear *args)
{
    unsigned row_blocks = (unsigned)(args->n + WIDE - 1) / WIDE, blocks = 0;
    size_t pieces = gpu_arranged_bytes((size_t)args->n, (size_t)args->x.pairs) / sizeof(uint4),
           bytes = STAGES * (2 * GROUP_BYTES + 16);
    for (int m = 0; m < args->n_matrices; m++)
        blocks += (unsigned)(args->matrices[m].rows + WIDE - 1) / WIDE;
    cudaError_t error = launch_kernel(launch, arrange, dim3((unsigned)(pieces / 256)), 256, 0,
                                      (uint4 *)args->x.arranged, (const uint32_t *)args->x.bf16,
                                      args->n, args->x.pairs * 2);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(linear_wide, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)bytes);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, linear_wide, dim3(row_blocks, blocks), THREADS, bytes, *args);
}

// ---- measuring ----

// Two groups of warps, 128 rows of the same values.
static __global__ void __launch_bounds__(CONSUMERS) peak_wide(int loops, uint32_t *out)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ __align__(1024) uint32_t rows[GROUP_BYTES / 4];
    uint32_t a[4];
    float sums[64];
    for (int i = threadIdx.x; i < GROUP_BYTES / 4; i += CONSUMERS)
        rows[i] = ((uint32_t)i * 2654435761u & 0x807f807fu) | 0x3f003f00u;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 4; i++) a[i] = rows[threadIdx.x * 4 + i];
    uint32_t memory = (uint32_t)__cvta_generic_to_shared(rows);
    uint64_t b = (uint64_t)((memory & 0x3ffff) >> 4) | (uint64_t)(2048 >> 4) << 16 |
                 (uint64_t)(128 >> 4) << 32;
    for (int l = 0; l < loops; l++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#    pragma unroll
        for (int i = 0; i < WIDE_CHAIN; i++) multiply_wide(sums, a, b, l | i);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::
                         : "memory");
    }
    if (sums[0] == 0.123456f) *out = 1; // keeps the sums
#endif
}

extern "C" cudaError_t gpu_peak_wide(cudaStream_t stream, int32_t loops, unsigned processors,
                                     uint32_t *out, double *operations)
{
    peak_wide<<<processors, CONSUMERS, 0, stream>>>(loops, out);
    *operations = 2.0 * WIDE * WIDE * 16 * WIDE_CHAIN * processors * loops;
    return cudaGetLastError();
}
