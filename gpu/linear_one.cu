// Panel formats with groups of 32 values times one row of 8 bits.
#include "gpu/panels.cuh"

// The same integers and roundings without tensor cores, whose other columns would take most of the
// time. Each lane has products of two rows and blocks; then lane t of four has row g + t % 2 * 8.

__device__ inline int add_products(uint32_t codes, uint32_t row, int sum)
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

// What a lane takes of the row for a pair of blocks.
struct one_row {
    uint4 codes;
    float2 scales[2]; // of each block: d, the sum of the codes

    __device__ void load(const uint4 *from, const float2 *of)
    {
        codes = *from;
        scales[0] = of[0];
        scales[1] = of[GPU_ROW_GROUP];
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
            of_row[i] = add_products(a[2 + i], b ? x.codes.w : x.codes.y,
                                     add_products(a[i], b ? x.codes.z : x.codes.x, start));
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

template <int FORMAT, int PARTS, int STAGES, int BLOCKS, enum linear_kind KIND>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_one(const __grid_constant__ struct gpu_linear args,
               const __grid_constant__ struct gpu_layout layout)
{
    using source = panel_source<FORMAT>;
    extern __shared__ char shared[];
    __shared__ float sums[PARTS][RF_PANEL_ROWS];
    let_next_begin();
    struct place place = find_place<1, 1, KIND>(args);
    if (KIND == EXPERTS && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, t = lane % 4, begin, end;
    take_part<PARTS>(args.x.pairs, &begin, &end);
    const char *tile = place.tiles + (size_t)place.tile * layout.bytes;
    struct ring<source, STAGES> weights(source(tile, layout), shared, begin, end,
                                        policy_of<1, KIND>());
    wait_for_previous(); // weights do not depend on the kernels before, the row does

    size_t from = (size_t)(place.first / GPU_ROW_GROUP) * args.x.pairs + begin;
    const uint4 *codes = (const uint4 *)args.x.codes + from * WARP + t;
    const float2 *scales = (const float2 *)args.x.scales + from * 2 * GPU_ROW_GROUP;
    struct one_row x[2];
    if (begin < end) x[0].load(codes, scales);
    float acc = 0.0f;
#pragma unroll 1
    for (int p = begin; p < end; p += source::steps) {
        uint32_t group = weights.take();
#pragma unroll
        for (int i = 0; i < source::steps; i++) {
            if (p + i >= end) break;
            struct pair_data<FORMAT> data;
            if (p + i + 1 < end)
                x[(i + 1) % 2].load(codes + (i + 1) * WARP, scales + (i + 1) * 2 * GPU_ROW_GROUP);
            read_pair<FORMAT>(data, group, p, i, lane);
            acc = add_pair<FORMAT>(acc, data, x[i % 2], t);
        }
        codes += source::steps * WARP;
        scales += source::steps * 2 * GPU_ROW_GROUP;
    }
    if (t < 2) sums[threadIdx.x / WARP][lane / 4 + 8 * t] = acc;
    __syncthreads();
    int row = place.tile * RF_PANEL_ROWS + (int)threadIdx.x;
    if (threadIdx.x >= RF_PANEL_ROWS || row >= place.matrix->rows) return;
    float sum = sums[0][threadIdx.x];
    float *y = place.matrix->y + (size_t)place.first * place.matrix->rows + row;
    for (int p = 1; p < PARTS; p++) sum += sums[p][threadIdx.x];
    if (place.bias) sum += place.bias[row];
    *y = args.accumulate ? *y + sum : sum;
}

template <int FORMAT, int PARTS, int STAGES, int BLOCKS, enum linear_kind KIND = PLAIN>
static cudaError_t launch(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * panel_source<FORMAT>::bytes;
    return launch_shared(gpu, linear_one<FORMAT, PARTS, STAGES, BLOCKS, KIND>, grid_of<1, 1>(args),
                         PARTS, BARRIER_BYTES + PARTS * ring, *args,
                         gpu_layout(FORMAT, (size_t)args->k));
}

template <int FORMAT>
static cudaError_t choose(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    if constexpr (format_traits<FORMAT>::group == RF_BLOCK) {
        if (args->groups) return launch<FORMAT, 8, 2, 4, EXPERTS>(gpu, args);
        return args->parts == GPU_MORE_PARTS ? launch<FORMAT, 16, 2, 2>(gpu, args)
                                             : launch<FORMAT, 8, 2, 4>(gpu, args);
    }
    return cudaErrorInvalidValue;
}

cudaError_t gpu_linear_one(const struct gpu_launch *gpu, const struct gpu_linear *args)
{
    switch (args->format) {
#define RF_ROW(name, FORMAT, ...) \
    case RF_FORMAT_##FORMAT: return choose<RF_FORMAT_##FORMAT>(gpu, args);
        RF_EACH_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return cudaErrorInvalidValue;
    }
}
