// Panels times many rows of 8 bits, on Hopper's wgmma, with the bits of linear_panels.cu.
//
// Codes and rows are F16 numbers: F32 sums of 16 or 32 products are exact, since all are multiples
// of one power of 2, and need no conversion from integers. Weights are operand A: a warp decodes
// them from shared memory to registers. Rows of activations are operand B, in shared memory.
//
// Scaling takes most instructions, and most loads from shared memory are scales of rows. So a warp
// has two tiles of 16 weight rows, which share these loads; while one is scaled, the products of
// the other one's next group are on their way.
#include "gpu/wide_panels.cuh"

// ---- results ----

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <typename FORM>
__device__ inline void put_area(const struct gpu_linear &args, const struct area &area,
                                const struct consumer<FORM> &of)
{
    const struct gpu_matrix &matrix = args.matrices[area.matrix];
    int lane = threadIdx.x % WARP, row = area.row + lane % 4 * 2;
#    pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        int first = area.first + ((int)of.first_tile + 4 * tile) * RF_PANEL_ROWS + lane / 4;
        float bias[2] = {0.0f, 0.0f};
        for (int r = 0; r < 2; r++)
            if (matrix.bias && first + 8 * r < matrix.rows) bias[r] = matrix.bias[first + 8 * r];
#    pragma unroll
        for (int j = 0; j < FORM::N / 8; j++) {
            float4 total = of.total(tile, 4 * j);
            float sums[4] = {total.x, total.y, total.z, total.w}, old[4];
            float *y = matrix.y + (size_t)(row + 8 * j) * matrix.rows + first;
            auto has = [&](int i) {
                return row + 8 * j + i % 2 < args.n && first + i / 2 * 8 < matrix.rows;
            };
            auto at = [&](int i) { return y + i % 2 * (size_t)matrix.rows + i / 2 * 8; };
#    pragma unroll
            for (int i = 0; i < 4; i++) old[i] = args.accumulate && has(i) ? *at(i) : 0.0f;
#    pragma unroll
            for (int i = 0; i < 4; i++) {
                float sum = matrix.bias ? sums[i] + bias[i / 2] : sums[i];
                if (has(i)) *at(i) = args.accumulate ? old[i] + sum : sum;
            }
        }
    }
}
#endif

// ---- the kernel ----

template <typename FORM>
static __global__ void __launch_bounds__(THREADS, 1)
    wide_panels(const __grid_constant__ struct gpu_linear args,
                const __grid_constant__ struct maps maps, int areas)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char shared[];
    const struct shared_memory<FORM> stages = {
        (uint32_t) __cvta_generic_to_shared(shared)
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < FORM::STAGES; i++) {
            init_barrier(stages.is_there(i), 1);
            init_barrier(stages.is_read(i), CONSUMERS / WARP);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        const struct producer<FORM> producer = {
            stages, args, maps
        };
        if (threadIdx.x == CONSUMERS) producer.load_all(areas);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        wait_for_previous();
        struct consumer<FORM> consumer(stages);
        int pairs = args.x.pairs, each = (pairs + args.parts - 1) / args.parts;
        consumer.begin();
        for (int tile = 0; tile < TILES; tile++)
            for (int i = 0; i < FORM::N / 2; i++) consumer.parts[tile][i] = 0.0f;
        for (int at = blockIdx.x; at < areas; at += gridDim.x) {
            consumer.sum_area(pairs, each, at + gridDim.x >= areas);
            put_area(args, find_area<FORM>(args, at), consumer);
        }
    }
#endif
}

// ---- launching ----

template <typename FORM>
static cudaError_t make_panel_maps(struct maps *maps, const struct gpu_linear *args)
{
    size_t pairs = (size_t)args->x.pairs, units = (pairs + 3) / 4,
           groups = ((size_t)args->n + GPU_ROW_GROUP - 1) / GPU_ROW_GROUP;
    const struct gpu_layout layout = gpu_layout(FORM::FORMAT, (size_t)args->k);
    cudaError_t error = make_map(&maps->rows, args->x.pieces, GPU_PIECE, pairs, groups,
                                 pairs * GPU_PIECE, FORM::N / GPU_ROW_GROUP);
    for (int m = 0; m < args->n_matrices && error == cudaSuccess; m++) {
        const struct gpu_matrix *matrix = &args->matrices[m];
        const char *tiles = (const char *)matrix->tiles;
        struct panel_maps *of = &maps->of[m];
        size_t n = ((size_t)matrix->rows + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
        error = make_map(&of->codes, tiles, FORM::CODES, pairs, n, layout.bytes, WEIGHT_TILES);
        if (error == cudaSuccess)
            error = make_map(&of->scales, tiles + layout.scales, FORM::SCALES, pairs, n,
                             layout.bytes, WEIGHT_TILES);
        if (error == cudaSuccess && FORM::UNITS > 0)
            error = make_map(&of->units, tiles + layout.units, FORM::UNITS, units, n, layout.bytes,
                             WEIGHT_TILES);
    }
    return error;
}

static int count_areas(const struct gpu_linear *args, int n)
{
    int blocks = 0;
    for (int m = 0; m < args->n_matrices; m++)
        blocks += (args->matrices[m].rows + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
    return (args->n + n - 1) / n * blocks;
}

template <int FORMAT, int N>
static cudaError_t launch_panels_form(const struct gpu_launch *launch,
                                      const struct gpu_linear *args, int processors)
{
    using FORM = form<FORMAT, N>;
    int areas = count_areas(args, FORM::N);
    struct maps maps = {};
    cudaError_t error = make_panel_maps<FORM>(&maps, args);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(wide_panels<FORM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     FORM::BYTES);
    if (error != cudaSuccess) return error;
    return launch_kernel(launch, wide_panels<FORM>,
                         dim3((unsigned)(areas < processors ? areas : processors)), THREADS,
                         FORM::BYTES, *args, maps, areas);
}

// The cost of a step beside scaling, in rows of activations. Measured with 8192 x 8192 times 512
// rows on an H100.
enum { STEP_COST = 20 };

// The form whose areas are done first if all processors take as many at a time.
template <int FORMAT>
static cudaError_t choose_wide_panels(const struct gpu_launch *gpu, const struct gpu_linear *args,
                                      int processors)
{
    static const struct {
        int n;
        cudaError_t (*launch)(const struct gpu_launch *, const struct gpu_linear *, int);
    } forms[] = {{64, launch_panels_form<FORMAT, 64>},
                 {48, launch_panels_form<FORMAT, 48>},
                 {32, launch_panels_form<FORMAT, 32>}};
    int best = -1, least = 0;
    for (int f = 0; f < (int)(sizeof forms / sizeof *forms); f++) {
        int areas = count_areas(args, forms[f].n),
            cost = (areas + processors - 1) / processors * (forms[f].n + STEP_COST);
        if (best < 0 || cost < least) best = f, least = cost;
    }
    return forms[best].launch(gpu, args, processors);
}

extern "C" cudaError_t gpu_linear_wide_panels(const struct gpu_launch *launch,
                                              const struct gpu_linear *args)
{
    int device = 0, processors = 1;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return error;
    switch (args->format) {
#define RF_ROW(name, FORMAT, ...) \
    case RF_FORMAT_##FORMAT:      \
        return choose_wide_panels<RF_FORMAT_##FORMAT>(launch, args, processors);
        RF_EACH_DEVICE_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return cudaErrorInvalidValue;
    }
}
