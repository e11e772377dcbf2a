// Linear layers on tensor cores. The 16 rows of a tile are operand A, 8 rows of activations are
// operand B, so 1 to 8 rows cost the same, and all numbers of rows take the same instructions in
// the same order.
#include "gpu/formats.cuh"

// ---- what both kinds of weights share ----

// The tile that a block of threads works on.
struct place {
    const struct gpu_matrix *matrix;
    int tile;
};

template <int TILES> __device__ inline struct place find_place(const struct gpu_linear &args)
{
    int block = blockIdx.x, m = 0;
    for (; m < args.n_matrices - 1; m++) {
        int blocks = (args.matrices[m].rows + 16 * TILES - 1) / (16 * TILES);
        if (block < blocks) break;
        block -= blocks;
    }
    return {&args.matrices[m], block * TILES};
}

// The part of `n` steps that this warp takes.
template <int PARTS> __device__ inline void take_part(int n, int *begin, int *end)
{
    int each = (n + PARTS - 1) / PARTS, part = threadIdx.x / WARP;
    *begin = min(n, part * each);
    *end = min(n, *begin + each);
}

// Adds the sums of all parts in their order, and writes them. Of a lane's four sums, the first two
// belong to weight row g and the columns 2t and 2t + 1, the others to row g + 8.
template <int PARTS, int TILES, int COLUMNS>
__device__ inline void finish(const struct gpu_linear &args, const struct place &place, int first,
                              float acc[TILES][COLUMNS][4])
{
    extern __shared__ float sums[]; // [PARTS][8 * COLUMNS][16 * TILES + 4]
    constexpr int ROWS = 16 * TILES, STRIDE = ROWS + 4, SIZE = 8 * COLUMNS * STRIDE;
    int part = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    for (int m = 0; m < TILES; m++)
        for (int c = 0; c < COLUMNS; c++)
            for (int i = 0; i < 4; i++)
                sums[part * SIZE + (8 * c + 2 * t + i % 2) * STRIDE + 16 * m + g + i / 2 * 8] =
                    acc[m][c][i];
    __syncthreads();
    const struct gpu_matrix &matrix = *place.matrix;
    int columns = min(8 * COLUMNS, args.n - first);
    for (int at = threadIdx.x; at < columns * ROWS; at += blockDim.x) {
        int column = at / ROWS, row = place.tile * 16 + at % ROWS;
        if (row >= matrix.rows) continue;
        float sum = sums[column * STRIDE + at % ROWS];
        for (int p = 1; p < PARTS; p++) sum += sums[p * SIZE + column * STRIDE + at % ROWS];
        float *y = matrix.y + (size_t)(first + column) * matrix.rows + row;
        if (matrix.bias) sum += matrix.bias[row];
        *y = args.accumulate ? *y + sum : sum;
    }
}

template <int PARTS, int TILES, int COLUMNS> constexpr size_t shared_bytes()
{
    return (size_t)PARTS * 8 * COLUMNS * (16 * TILES + 4) * sizeof(float);
}

__device__ inline uint4 load_once(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

__device__ inline uint2 load_once(const uint2 *p)
{
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(p));
    return v;
}

// ---- BF16 ----

__device__ inline void multiply_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                     uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A step is 32 values of k. Loads are STEPS steps ahead of their use.
template <int PARTS, int TILES, int COLUMNS, int STEPS, int BLOCKS>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_bf16(const __grid_constant__ struct gpu_linear args)
{
    struct place place = find_place<TILES>(args);
    int lane = threadIdx.x % WARP, first = blockIdx.y * 8 * COLUMNS, begin, end;
    int steps = args.x.pairs * 2, last_tile = (place.matrix->rows - 1) / 16;
    take_part<PARTS>(steps, &begin, &end);
    const uint4 *w[TILES], *x[COLUMNS];
    for (int m = 0; m < TILES; m++)
        w[m] = (const uint4 *)place.matrix->tiles +
               (size_t)min(place.tile + m, last_tile) * steps * 2 * WARP + lane;
    for (int c = 0; c < COLUMNS; c++)
        x[c] = (const uint4 *)args.x.bf16 +
               (size_t)min(first + 8 * c + lane / 4, args.n - 1) * steps * 4 + lane % 4;

    float acc[TILES][COLUMNS][4] = {};
    uint4 a[STEPS][TILES][2];
    auto load = [&](int i, int s) {
#pragma unroll
        for (int m = 0; m < TILES; m++)
            for (int half = 0; half < 2; half++)
                a[i][m][half] = load_once(w[m] + ((size_t)s * 2 + half) * WARP);
    };
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        if (begin + i < end) load(i, begin + i); // weights do not depend on the kernel before
    wait_for_previous();
    for (int s = begin; s < end; s += STEPS) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            if (s + i >= end) break;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                uint4 b = x[c][(size_t)(s + i) * 4];
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    uint4 low = a[i][m][0], high = a[i][m][1];
                    multiply_bf16(acc[m][c], low.x, high.x, low.y, high.y, b.x, b.y);
                    multiply_bf16(acc[m][c], low.z, high.z, low.w, high.w, b.z, b.w);
                }
            }
            if (s + i + STEPS < end) load(i, s + i + STEPS);
        }
    }
    finish<PARTS, TILES, COLUMNS>(args, place, first, acc);
}

// ---- panel formats times 8-bit rows ----

// Integers below 2^22 that are added to this pattern make a float of 1.5 * 2^23 more.
static constexpr int MAGIC = 0x4b400000;

__device__ inline float to_float(int sum)
{
    return __int_as_float(sum) - 12582912.0f;
}

__device__ inline void multiply_32(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void multiply_16(int c[4], uint32_t a0, uint32_t a1, uint32_t b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// Four codes of MXFP4, rf_mxfp4_codes[nibble], from 16 bits.
__device__ inline uint32_t mxfp4_codes(uint32_t nibbles)
{
    uint32_t which = nibbles & 0x7777u, sign = nibbles >> 3 & 0x1111u;
    uint32_t above = __byte_perm(0x0f0e0d0cu, 0x18141210u, which),
             below = __byte_perm(0x090a0b0cu, 0x00040608u, which),
             mask = __byte_perm(0x0000ff00u, 0, sign);
    return (above & ~mask) | (below & mask);
}

// What a lane takes from memory of a pair of blocks.
template <int FORMAT> struct pair_data {
    uint4 codes[format_traits<FORMAT>::bits == 8 ? 2 : 1];
    uint2 upper;  // 6 bits
    uint4 scales; // gpu_scale_bytes of them
    uint2 unit;   // gpu_unit_bytes
};

struct tile_pointers {
    const char *codes, *scales, *units;
};

template <int FORMAT>
__device__ inline void load_pair(struct pair_data<FORMAT> &data, const struct tile_pointers &tile,
                                 int pair, int lane)
{
    constexpr int bits = format_traits<FORMAT>::bits;
    constexpr size_t scale_bytes = gpu_scale_bytes(FORMAT), unit_bytes = gpu_unit_bytes(FORMAT);
    const char *codes = tile.codes + (size_t)pair * bits * 128;
    data.codes[0] = load_once((const uint4 *)codes + lane);
    if constexpr (bits == 8) data.codes[1] = load_once((const uint4 *)codes + WARP + lane);
    if constexpr (bits == 6) data.upper = load_once((const uint2 *)(codes + 512) + lane);
    const char *scales = tile.scales + ((size_t)pair * 8 + lane / 4) * scale_bytes;
    if constexpr (scale_bytes == 4) data.scales.x = __ldg((const uint32_t *)scales);
    if constexpr (scale_bytes == 8) {
        uint2 two = __ldg((const uint2 *)scales);
        data.scales.x = two.x;
        data.scales.y = two.y;
    }
    if constexpr (scale_bytes == 16) data.scales = __ldg((const uint4 *)scales);
    const char *unit = tile.units + ((size_t)(pair / 4) * 8 + lane / 4) * unit_bytes;
    if constexpr (unit_bytes == 4) data.unit.x = __ldg((const uint32_t *)unit);
    if constexpr (unit_bytes == 8) data.unit = __ldg((const uint2 *)unit);
}

// Operand A of block b: row g and values 4t .., row g + 8, then both with the values 16 + 4t ...
template <int FORMAT>
__device__ inline void codes_of(const struct pair_data<FORMAT> &data, int b, uint32_t a[4])
{
    constexpr int bits = format_traits<FORMAT>::bits;
    if constexpr (bits == 8) {
        a[0] = data.codes[b].x;
        a[1] = data.codes[b].y;
        a[2] = data.codes[b].z;
        a[3] = data.codes[b].w;
        return;
    }
    uint32_t row = b ? data.codes[0].z : data.codes[0].x,
             later = b ? data.codes[0].w : data.codes[0].y;
    if constexpr (FORMAT == RF_FORMAT_MXFP4) {
        a[0] = mxfp4_codes(row);
        a[1] = mxfp4_codes(later);
        a[2] = mxfp4_codes(row >> 16);
        a[3] = mxfp4_codes(later >> 16);
        return;
    }
    a[0] = row & 0x0f0f0f0fu;
    a[1] = later & 0x0f0f0f0fu;
    a[2] = row >> 4 & 0x0f0f0f0fu;
    a[3] = later >> 4 & 0x0f0f0f0fu;
    if constexpr (bits == 6) {
        uint32_t upper = b ? data.upper.y : data.upper.x;
        a[0] |= upper << 4 & 0x30303030u;
        a[1] |= upper & 0x30303030u;
        a[2] |= upper << 2 & 0x30303030u;
        a[3] |= upper >> 2 & 0x30303030u;
    }
}

__device__ inline float half_of(uint32_t word, int i)
{
    return __half2float(__ushort_as_half((unsigned short)(word >> 16 * i)));
}

// Conversions of integers take many cycles. A byte behind the bits of 2^23 is a float of 2^23 more.
__device__ inline float byte_of(uint32_t word, int i)
{
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + i)) - 8388608.0f;
}

__device__ inline float signed_byte_of(uint32_t word, int i)
{
    return __uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7440 + i)) - 8388736.0f;
}

// Scale and minimum of rows g and g + 8, block b and half h of it.
template <int FORMAT>
__device__ inline void scales_of(const struct pair_data<FORMAT> &data, int b, int h, float s[2],
                                 float m[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if constexpr (FORMAT == RF_FORMAT_MXFP4) {
            s[r] = __uint_as_float((data.scales.x >> 8 * (2 * b + r) & 255) << 23);
        } else if constexpr (FORMAT == RF_FORMAT_Q4_K) {
            s[r] = half_of(data.unit.x, r) * byte_of(data.scales.x, 2 * b + r);
            m[r] = half_of(data.unit.y, r) * byte_of(data.scales.y, 2 * b + r);
        } else if constexpr (FORMAT == RF_FORMAT_Q6_K) {
            s[r] = half_of(data.unit.x, r) *
                   signed_byte_of(b ? data.scales.y : data.scales.x, 2 * h + r);
        } else if constexpr (FORMAT == RF_FORMAT_Q8_K) {
            s[r] = half_of(data.unit.x, r) *
                   signed_byte_of(b ? data.scales.y : data.scales.x, 2 * h + r);
            m[r] = half_of(data.unit.y, r) *
                   signed_byte_of(b ? data.scales.w : data.scales.z, 2 * h + r);
        } else {
            s[r] = half_of(b ? data.scales.y : data.scales.x, r);
            if constexpr (format_traits<FORMAT>::has_min)
                m[r] = half_of(b ? data.scales.w : data.scales.z, r);
        }
    }
}

// Of a row and a block: the scale, and the sums of its codes, all in the lower 16 bits and of the
// second half in the upper ones.
struct row_scale {
    float d;
    int sums;
};

template <int GROUP> __device__ inline int sum_of(const struct row_scale &x, int h)
{
    int all = (short)x.sums, later = x.sums >> 16;
    return GROUP == RF_BLOCK ? all : h ? later : all - later;
}

// One block of a tile times 8 rows: acc = fma(i * d, s, acc), then acc = fma(b, d_sum, acc), for
// each group (microkernels/kernels.h).
template <int FORMAT>
__device__ inline void multiply_block(float acc[4], const struct pair_data<FORMAT> &data, int b,
                                      const uint32_t a[4], uint32_t b0, uint32_t b1,
                                      const struct row_scale x[2])
{
    using traits = format_traits<FORMAT>;
#pragma unroll
    for (int h = 0; h < RF_BLOCK / traits::group; h++) {
        float s[2], m[2];
        int sums[2], c[4];
        scales_of<FORMAT>(data, b, h, s, m);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            sums[i] = sum_of<traits::group>(x[i], h);
            c[i] = c[2 + i] = MAGIC - traits::offset * sums[i];
        }
        if constexpr (traits::group == RF_BLOCK)
            multiply_32(c, a, b0, b1);
        else
            multiply_16(c, a[2 * h], a[2 * h + 1], h ? b1 : b0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            acc[i] = __fmaf_rn(__fmul_rn(to_float(c[i]), x[i % 2].d), s[i / 2], acc[i]);
            if constexpr (traits::has_min)
                acc[i] = __fmaf_rn(m[i / 2], __fmul_rn(to_float(MAGIC + sums[i % 2]), x[i % 2].d),
                                   acc[i]);
        }
    }
}

// Operands of a pair: the rows' codes, and the scales of the two columns that are this lane's.
template <int FORMAT> struct rows_in_8 {
    const uint4 *codes, *scales[2];

    __device__ void begin(const struct gpu_linear &args, int first, int lane)
    {
        int row = min(first + lane / 4, args.n - 1);
        codes = (const uint4 *)args.x.codes + (size_t)row * args.x.pairs * 4 + lane % 4;
        for (int i = 0; i < 2; i++) {
            int column = min(first + lane % 4 * 2 + i, args.n - 1);
            scales[i] = (const uint4 *)args.x.scales + (size_t)column * args.x.pairs;
        }
    }
    __device__ void multiply(float acc[4], const struct pair_data<FORMAT> &data, int pair) const
    {
        uint4 b = codes[(size_t)pair * 4], of[2] = {scales[0][pair], scales[1][pair]};
        uint32_t a[4];
#pragma unroll
        for (int block = 0; block < 2; block++) {
            struct row_scale x[2];
            for (int i = 0; i < 2; i++) {
                x[i].d = __uint_as_float(block ? of[i].z : of[i].x);
                x[i].sums = (int)(block ? of[i].w : of[i].y);
            }
            codes_of<FORMAT>(data, block, a);
            multiply_block<FORMAT>(acc, data, block, a, block ? b.z : b.x, block ? b.w : b.y, x);
        }
    }
};

// ---- panel formats times rows of BF16 ----

// Two codes, the lower two bytes of a word from byte `first` on, as weights rounded to BF16.
template <int FORMAT>
__device__ inline uint32_t two_weights(uint32_t codes, int first, float s, float m)
{
    float w[2];
    for (int i = 0; i < 2; i++) {
        float code = byte_of(codes, first + i) - format_traits<FORMAT>::offset;
        w[i] = format_traits<FORMAT>::has_min ? __fmaf_rn(code, s, m) : __fmul_rn(code, s);
    }
    __nv_bfloat162 two = __floats2bfloat162_rn(w[0], w[1]);
    return *(uint32_t *)&two;
}

template <int FORMAT> struct rows_in_16 {
    const uint2 *values; // BF16

    __device__ void begin(const struct gpu_linear &args, int first, int lane)
    {
        int row = min(first + lane / 4, args.n - 1);
        values = (const uint2 *)args.x.bf16 + (size_t)row * args.x.pairs * 16 + lane % 4;
    }
    __device__ void multiply(float acc[4], const struct pair_data<FORMAT> &data, int pair) const
    {
        uint32_t a[4];
#pragma unroll
        for (int block = 0; block < 2; block++) {
            codes_of<FORMAT>(data, block, a);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float s[2], m[2];
                uint2 b = values[(size_t)pair * 16 + block * 8 + h * 4];
                scales_of<FORMAT>(data, block, format_traits<FORMAT>::group == RF_BLOCK ? 0 : h, s,
                                  m);
                multiply_bf16(acc, two_weights<FORMAT>(a[2 * h], 0, s[0], m[0]),
                              two_weights<FORMAT>(a[2 * h + 1], 0, s[1], m[1]),
                              two_weights<FORMAT>(a[2 * h], 2, s[0], m[0]),
                              two_weights<FORMAT>(a[2 * h + 1], 2, s[1], m[1]), b.x, b.y);
            }
        }
    }
};

// Loads are STEPS pairs ahead of their use.
template <int FORMAT, template <int> class ROWS, int PARTS, int COLUMNS, int STEPS, int BLOCKS>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_panels(const __grid_constant__ struct gpu_linear args,
                  const __grid_constant__ struct gpu_layout layout)
{
    struct place place = find_place<1>(args);
    int lane = threadIdx.x % WARP, first = blockIdx.y * 8 * COLUMNS, begin, end;
    take_part<PARTS>(args.x.pairs, &begin, &end);
    const char *tile = (const char *)place.matrix->tiles + (size_t)place.tile * layout.bytes;
    const struct tile_pointers from = {tile, tile + layout.scales, tile + layout.units};

    float acc[1][COLUMNS][4] = {};
    struct pair_data<FORMAT> data[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        if (begin + i < end) load_pair<FORMAT>(data[i], from, begin + i, lane);
    wait_for_previous(); // weights do not depend on the kernel before, rows do
    ROWS<FORMAT> rows[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) rows[c].begin(args, first + 8 * c, lane);
    for (int p = begin; p < end; p += STEPS) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            if (p + i >= end) break;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) rows[c].multiply(acc[0][c], data[i], p + i);
            if (p + i + STEPS < end) load_pair<FORMAT>(data[i], from, p + i + STEPS, lane);
        }
    }
    finish<PARTS, 1, COLUMNS>(args, place, first, acc);
}

// ---- launching ----

template <int TILES, int COLUMNS> static dim3 grid_of(const struct gpu_linear *args)
{
    int blocks = 0;
    for (int m = 0; m < args->n_matrices; m++)
        blocks += (args->matrices[m].rows + 16 * TILES - 1) / (16 * TILES);
    return dim3((unsigned)blocks, (unsigned)((args->n + 8 * COLUMNS - 1) / (8 * COLUMNS)));
}

// Launches with as much shared memory as the parts' sums take.
template <typename Kernel, typename... Arguments>
static cudaError_t launch_sums(const struct gpu_launch *launch, Kernel kernel, dim3 grid, int parts,
                               size_t bytes, const Arguments &...arguments)
{
    if (bytes > 48 * 1024) {
        cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (error != cudaSuccess) return error;
    }
    return launch_kernel(launch, kernel, grid, (unsigned)parts * WARP, bytes, arguments...);
}

template <int PARTS, int TILES, int COLUMNS, int STEPS, int BLOCKS>
static cudaError_t launch_bf16(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    return launch_sums(launch, linear_bf16<PARTS, TILES, COLUMNS, STEPS, BLOCKS>,
                       grid_of<TILES, COLUMNS>(args), PARTS, shared_bytes<PARTS, TILES, COLUMNS>(),
                       *args);
}

template <int FORMAT, template <int> class ROWS, int PARTS, int COLUMNS, int STEPS, int BLOCKS>
static cudaError_t launch_panels(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    return launch_sums(launch, linear_panels<FORMAT, ROWS, PARTS, COLUMNS, STEPS, BLOCKS>,
                       grid_of<1, COLUMNS>(args), PARTS, shared_bytes<PARTS, 1, COLUMNS>(), *args,
                       gpu_layout(FORMAT, (size_t)args->k));
}

template <int FORMAT, template <int> class ROWS>
static cudaError_t choose_panels(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    constexpr int steps = 16 / format_traits<FORMAT>::bits; // as many as registers hold
    if (args->parts == GPU_MORE_PARTS) {
        if (args->n <= 8) return launch_panels<FORMAT, ROWS, 16, 1, 2, 1>(launch, args);
        if (args->n <= 16) return launch_panels<FORMAT, ROWS, 16, 2, 2, 1>(launch, args);
        return launch_panels<FORMAT, ROWS, 16, 8, 1, 1>(launch, args);
    }
    if (args->n <= 8) return launch_panels<FORMAT, ROWS, 8, 1, steps, 3>(launch, args);
    if (args->n <= 16) return launch_panels<FORMAT, ROWS, 8, 2, steps, 2>(launch, args);
    return launch_panels<FORMAT, ROWS, 8, 8, 1, 2>(launch, args);
}

static cudaError_t choose_bf16(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    if (args->parts == GPU_MORE_PARTS) {
        if (args->n <= 8) return launch_bf16<16, 1, 1, 4, 2>(launch, args);
        if (args->n <= 16) return launch_bf16<16, 1, 2, 4, 1>(launch, args);
        return launch_bf16<16, 1, 8, 1, 1>(launch, args);
    }
    if (args->n <= 8) return launch_bf16<8, 1, 1, 4, 4>(launch, args);
    if (args->n <= 16) return launch_bf16<8, 1, 2, 4, 3>(launch, args);
    if (args->n <= 32) return launch_bf16<8, 2, 4, 1, 2>(launch, args);
    return launch_bf16<8, 2, 8, 1, 2>(launch, args);
}

extern "C" cudaError_t gpu_linear(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    switch (args->format) {
    case RF_FORMAT_BF16: return choose_bf16(launch, args);
#define RF_ROW(name, FORMAT, ...)                                                        \
    case RF_FORMAT_##FORMAT:                                                             \
        return args->in_16 ? choose_panels<RF_FORMAT_##FORMAT, rows_in_16>(launch, args) \
                           : choose_panels<RF_FORMAT_##FORMAT, rows_in_8>(launch, args);
        RF_EACH_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return cudaErrorInvalidValue;
    }
}
