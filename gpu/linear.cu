// Linear layers on tensor cores. The 16 rows of a tile are operand A, 8 rows of activations are
// operand B, and all numbers of rows take their sums in the same order. Where integers are exact,
// or wgmma has the same bits (wide.cu), other instructions may give the products.
#include "gpu/formats.cuh"

// ---- what both kinds of weights share ----

static constexpr int BARRIER_BYTES = 1024; // at the beginning of shared memory

// The tile and the rows [first, end) of x that a block of threads works on.
struct place {
    const struct gpu_matrix *matrix;
    const char *tiles; // of the matrix, or of one expert
    const float *bias;
    int tile, first, end;
};

template <int TILES, int COLUMNS, bool BY_EXPERT>
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
    if constexpr (!BY_EXPERT)
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
__device__ inline void finish(const struct gpu_linear &args, const struct place &place,
                              float acc[TILES][COLUMNS][4])
{
    extern __shared__ char shared[];
    float *sums = (float *)(shared + BARRIER_BYTES); // [PARTS][8 * COLUMNS][16 * TILES + 4]
    constexpr int ROWS = 16 * TILES, STRIDE = ROWS + 4, SIZE = 8 * COLUMNS * STRIDE;
    int part = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    __syncthreads(); // the weights were there
    for (int m = 0; m < TILES; m++)
        for (int c = 0; c < COLUMNS; c++)
            for (int i = 0; i < 4; i++)
                sums[part * SIZE + (8 * c + 2 * t + i % 2) * STRIDE + 16 * m + g + i / 2 * 8] =
                    acc[m][c][i];
    __syncthreads();
    const struct gpu_matrix &matrix = *place.matrix;
    int columns = min(8 * COLUMNS, place.end - place.first);
    for (int at = threadIdx.x; at < columns * ROWS; at += blockDim.x) {
        int column = at / ROWS, row = place.tile * 16 + at % ROWS;
        if (row >= matrix.rows) continue;
        float sum = sums[column * STRIDE + at % ROWS];
        for (int p = 1; p < PARTS; p++) sum += sums[p * SIZE + column * STRIDE + at % ROWS];
        float *y = matrix.y + (size_t)(place.first + column) * matrix.rows + row;
        if (place.bias) sum += place.bias[row];
        *y = args.accumulate ? *y + sum : sum;
    }
}

// Of the parts' sums, or of the weights on their way, PARTS times `ring` bytes.
template <int PARTS, int TILES, int COLUMNS> constexpr size_t shared_bytes(size_t ring)
{
    size_t sums = (size_t)8 * COLUMNS * (16 * TILES + 4) * sizeof(float);
    return BARRIER_BYTES + PARTS * (sums > ring ? sums : ring);
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

// Copies by a warp of a multiple of 16 bytes. One lane asks the copy engine, which tells a barrier;
// or each lane copies, and waits for its own copies.
template <bool BY_ENGINE> struct copier {
    uint32_t barrier;
    int lane;

    __device__ void copy(uint32_t to, const char *from, uint32_t bytes) const
    {
        if constexpr (BY_ENGINE)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                         "[%1], %2, [%3];" ::"r"(to),
                         "l"(from), "r"(bytes), "r"(barrier)
                         : "memory");
        else
            for (uint32_t i = lane * 16; i < bytes; i += WARP * 16)
                asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to + i),
                             "l"(from + i)
                             : "memory");
    }
};

// A warp's steps [next, end) of weights: STAGES groups of them lie in shared memory or are on their
// way. SOURCE: `steps` of a group, at most `bytes`; bytes_of(step, n) and copy(copier, to, step, n)
// of n steps; `by_engine`: many small copies are the engine's, where there is one.
template <typename SOURCE, int STAGES> struct ring {
    static constexpr bool BY_ENGINE = HAS_COPY_ENGINE && SOURCE::by_engine;
    SOURCE source;
    uint32_t base, barriers, parity;
    int next, end, lane, slot;

    __device__ ring(const SOURCE &from, char *shared, int first, int last)
        : source(from), parity(0), next(first), end(last), slot(0)
    {
        uint32_t memory = (uint32_t)__cvta_generic_to_shared(shared), warp = threadIdx.x / WARP;
        lane = kept((int)threadIdx.x % WARP);
        base = kept(memory + BARRIER_BYTES + warp * STAGES * SOURCE::bytes);
        barriers = memory + warp * STAGES * 8;
        if constexpr (BY_ENGINE) {
            barriers = kept(barriers);
            for (int i = 0; lane == 0 && i < STAGES; i++)
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + i * 8));
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            __syncwarp();
        }
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) fetch(i);
    }
    __device__ void fetch(int to)
    {
        int n = min(end - next, (int)SOURCE::steps);
        const struct copier<BY_ENGINE> copier = {
            barriers + to * 8, lane
        };
        if (n > 0 && (!BY_ENGINE || lane == 0)) {
            if constexpr (BY_ENGINE)
                asm volatile(
                    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(copier.barrier),
                    "r"(source.bytes_of(next, n))
                    : "memory");
            source.copy(copier, base + to * SOURCE::bytes, next, n);
        }
        if constexpr (!BY_ENGINE) asm volatile("cp.async.commit_group;");
        next += SOURCE::steps;
    }
    // Where the next group lies. The memory of the one before is filled again.
    __device__ uint32_t take()
    {
        __syncwarp();
        fetch(slot == 0 ? STAGES - 1 : slot - 1);
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

// ---- BF16 ----

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

template <int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS, bool BY_EXPERT>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_bf16(const __grid_constant__ struct gpu_linear args)
{
    using source = bf16_source<TILES>;
    extern __shared__ char shared[];
    struct place place = find_place<TILES, COLUMNS, BY_EXPERT>(args);
    if (BY_EXPERT && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, begin, end;
    int steps = args.x.pairs * 2, last_tile = (place.matrix->rows - 1) / 16;
    take_part<PARTS>(steps, &begin, &end);
    source from;
    for (int m = 0; m < TILES; m++)
        from.tiles[m] =
            place.tiles + (size_t)min(place.tile + m, last_tile) * steps * source::of_step;
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
    finish<PARTS, TILES, COLUMNS>(args, place, acc);
}

// ---- panel formats times 8-bit rows ----

// Integers below 2^22 that are added to this pattern make a float of 1.5 * 2^23 more.
static constexpr int MAGIC = 0x4b400000;

__device__ inline float to_float(int sum)
{
    return __int_as_float(sum) - 12582912.0f;
}

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

// prmt: a nibble of `which` selects a byte; its fourth bit turns that into the byte's sign, 0 here.
__device__ inline uint32_t look_up(uint32_t low, uint32_t high, uint32_t which)
{
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(which));
    return bytes;
}

// Four codes of MXFP4, rf_mxfp4_codes[nibble], from the lower 16 bits; negated: with other signs.
__device__ inline uint32_t mxfp4_codes(uint32_t nibbles, uint32_t negated)
{
    return look_up(0x0f0e0d0cu, 0x18141210u, nibbles) | look_up(0x090a0b0cu, 0x00040608u, negated);
}

// What a lane takes from memory of a pair of blocks.
template <int FORMAT> struct pair_data {
    uint4 codes[format_traits<FORMAT>::bits == 8 ? 2 : 1];
    uint2 upper;  // 6 bits
    uint4 scales; // gpu_scale_bytes of them
    uint2 unit;   // gpu_unit_bytes
};

// A step is a pair of blocks. A group has its codes, its scales and those of its units.
template <int FORMAT> struct panel_source {
    static constexpr bool by_engine = true;
    static constexpr int bits = format_traits<FORMAT>::bits, steps = bits == 4 ? 4 : 2,
                         codes = bits * 128, scales = 8 * (int)gpu_scale_bytes(FORMAT),
                         units = 8 * (int)gpu_unit_bytes(FORMAT), scales_at = steps * codes,
                         units_at = scales_at + steps * scales, bytes = units_at + 2 * units;
    const char *tile, *tile_scales, *tile_units;

    __device__ panel_source(const char *from, const struct gpu_layout &layout)
        : tile(from), tile_scales(from + layout.scales), tile_units(from + layout.units)
    {
    }
    static __device__ int units_of(int pair, int n)
    {
        return (pair + n - 1) / 4 - pair / 4 + 1;
    }
    __device__ uint32_t bytes_of(int pair, int n) const
    {
        return n * (codes + scales) + units_of(pair, n) * units;
    }
    template <typename COPIER>
    __device__ void copy(const COPIER &copier, uint32_t to, int pair, int n) const
    {
        copier.copy(to, tile + (size_t)pair * codes, n * codes);
        copier.copy(to + scales_at, tile_scales + (size_t)pair * scales, n * scales);
        if (units > 0)
            copier.copy(to + units_at, tile_units + (size_t)(pair / 4) * units,
                        units_of(pair, n) * units);
    }
};

// Pair i of a group that begins with pair `first`; at: the group, in shared memory.
template <int FORMAT>
__device__ inline void read_pair(struct pair_data<FORMAT> &data, uint32_t at, int first, int i,
                                 int lane)
{
    using source = panel_source<FORMAT>;
    constexpr int scale_bytes = (int)gpu_scale_bytes(FORMAT), unit_bytes = gpu_unit_bytes(FORMAT);
    uint32_t codes = at + i * source::codes + lane * 16,
             scales = at + source::scales_at + i * source::scales + lane / 4 * scale_bytes,
             unit = at + source::units_at + ((first + i) / 4 - first / 4) * source::units +
                    lane / 4 * unit_bytes;
    data.codes[0] = load_shared_4(codes);
    if constexpr (source::bits == 8) data.codes[1] = load_shared_4(codes + 512);
    if constexpr (source::bits == 6)
        data.upper = load_shared_2(at + i * source::codes + 512 + lane * 8);
    if constexpr (scale_bytes == 4) data.scales.x = load_shared_1(scales);
    if constexpr (scale_bytes == 8) {
        uint2 two = load_shared_2(scales);
        data.scales.x = two.x;
        data.scales.y = two.y;
    }
    if constexpr (scale_bytes == 16) data.scales = load_shared_4(scales);
    if constexpr (unit_bytes == 4) data.unit.x = load_shared_1(unit);
    if constexpr (unit_bytes == 8) data.unit = load_shared_2(unit);
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
        uint32_t negated = row ^ 0x88888888u, negated_later = later ^ 0x88888888u;
        a[0] = mxfp4_codes(row, negated);
        a[1] = mxfp4_codes(later, negated_later);
        a[2] = mxfp4_codes(row >> 16, negated >> 16);
        a[3] = mxfp4_codes(later >> 16, negated_later >> 16);
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
__device__ inline float byte_behind(uint32_t word, int i)
{
    return __uint_as_float(look_up(word, 0x4b000000u, 0x7440 + i));
}

__device__ inline float byte_of(uint32_t word, int i)
{
    return byte_behind(word, i) - 8388608.0f;
}

// unit * byte, rounded once: products of 2^23 and a unit are exact.
__device__ inline float scaled_byte(float unit, uint32_t word, int i)
{
    return __fmaf_rn(byte_behind(word, i), unit, -8388608.0f * unit);
}

__device__ inline float scaled_signed_byte(float unit, uint32_t word, int i)
{
    return __fmul_rn(unit, byte_behind(word ^ 0x80808080u, i) - 8388736.0f);
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
            s[r] = scaled_byte(half_of(data.unit.x, r), data.scales.x, 2 * b + r);
            m[r] = scaled_byte(half_of(data.unit.y, r), data.scales.y, 2 * b + r);
        } else if constexpr (FORMAT == RF_FORMAT_Q6_K) {
            s[r] = scaled_signed_byte(half_of(data.unit.x, r), b ? data.scales.y : data.scales.x,
                                      2 * h + r);
        } else if constexpr (FORMAT == RF_FORMAT_Q8_K) {
            s[r] = scaled_signed_byte(half_of(data.unit.x, r), b ? data.scales.y : data.scales.x,
                                      2 * h + r);
            m[r] = scaled_signed_byte(half_of(data.unit.y, r), b ? data.scales.w : data.scales.z,
                                      2 * h + r);
        } else {
            s[r] = half_of(b ? data.scales.y : data.scales.x, r);
            if constexpr (format_traits<FORMAT>::has_min)
                m[r] = half_of(b ? data.scales.w : data.scales.z, r);
        }
    }
}

// What a lane takes of the rows for a pair of blocks: of its column g the codes, or both bytes of
// them, and of its columns 2t and 2t + 1 the scales.
template <int FORMAT, bool IN_16> struct rows_data {
    uint4 codes, low;
    uint4 scales[2]; // of each block: for both columns d and the sum of the codes
    uint4 halves[2]; // of each block: for both columns the sums of both halves
};

// Where a lane's part of a group of 8 rows begins, which advances with the pairs.
template <int FORMAT, bool IN_16> struct rows_place {
    const uint4 *codes, *low, *scales, *halves;

    __device__ void begin(const struct gpu_linear &args, int row, int last, int pair, int lane)
    {
        size_t group = min(row, last) / GPU_ROW_GROUP,
               at = group * args.x.pairs + pair; // rows behind the last are not written
        codes = (const uint4 *)args.x.codes + at * WARP + lane;
        if constexpr (IN_16) low = (const uint4 *)args.x.low + at * WARP + lane;
        scales = (const uint4 *)args.x.scales + at * 8 + lane % 4;
        if constexpr (format_traits<FORMAT>::group < RF_BLOCK)
            halves = (const uint4 *)args.x.halves + at * 8 + lane % 4;
    }
    __device__ void advance(int pairs)
    {
        codes += pairs * WARP;
        if constexpr (IN_16) low += pairs * WARP;
        scales += pairs * 8;
        if constexpr (format_traits<FORMAT>::group < RF_BLOCK) halves += pairs * 8;
    }
    __device__ void load(struct rows_data<FORMAT, IN_16> &data, int pair) const
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
        float over[2]; // what the sums have too much
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

template <int FORMAT, bool IN_16, int PARTS, int COLUMNS, int STAGES, int BLOCKS, bool BY_EXPERT>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_panels(const __grid_constant__ struct gpu_linear args,
                  const __grid_constant__ struct gpu_layout layout)
{
    using source = panel_source<FORMAT>;
    extern __shared__ char shared[];
    struct place place = find_place<1, COLUMNS, BY_EXPERT>(args);
    if (BY_EXPERT && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, begin, end;
    take_part<PARTS>(args.x.pairs, &begin, &end);
    const char *tile = place.tiles + (size_t)place.tile * layout.bytes;
    struct ring<source, STAGES> weights(source(tile, layout), shared, begin, end);
    wait_for_previous(); // weights do not depend on the kernels before, rows do

    constexpr int AHEAD = COLUMNS <= 2, GROUPS = RF_BLOCK / format_traits<FORMAT>::group;
    struct rows_place<FORMAT, IN_16> rows[AHEAD ? COLUMNS : 1];
    struct rows_data<FORMAT, IN_16> x[1 + AHEAD][AHEAD ? COLUMNS : 1];
    if (AHEAD)
        for (int c = 0; c < COLUMNS; c++) {
            rows[c].begin(args, place.first + 8 * c, place.end - 1, begin, lane);
            if (begin < end) rows[c].load(x[0][c], 0);
        }
    float acc[1][COLUMNS][4] = {};
#pragma unroll 1
    for (int p = begin; p < end; p += source::steps) {
        uint32_t group = weights.take();
#pragma unroll
        for (int i = 0; i < source::steps; i++) {
            if (p + i >= end) break;
            uint32_t a[2][4];
            float s[2][GROUPS][2], m[2][GROUPS][2];
            struct pair_data<FORMAT> data;
#pragma unroll
            for (int c = 0; AHEAD && c < COLUMNS; c++)
                if (p + i + 1 < end) rows[c].load(x[(i + 1) % (1 + AHEAD)][c], i + 1);
            read_pair<FORMAT>(data, group, p, i, lane);
#pragma unroll
            for (int b = 0; b < 2; b++) {
                codes_of<FORMAT>(data, b, a[b]);
#pragma unroll
                for (int h = 0; h < GROUPS; h++) scales_of<FORMAT>(data, b, h, s[b][h], m[b][h]);
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                struct rows_data<FORMAT, IN_16> &of = x[i % (1 + AHEAD)][AHEAD ? c : 0];
                if (!AHEAD) {
                    rows[0].begin(args, place.first + 8 * c, place.end - 1, p + i, lane);
                    rows[0].load(of, 0);
                }
#pragma unroll
                for (int b = 0; b < 2; b++)
#pragma unroll
                    for (int h = 0; h < GROUPS; h++)
                        multiply_block<FORMAT, IN_16>(acc[0][c], a[b], s[b][h], m[b][h], of, b, h);
            }
        }
        for (int c = 0; AHEAD && c < COLUMNS; c++) rows[c].advance(source::steps);
    }
    finish<PARTS, 1, COLUMNS>(args, place, acc);
}

// ---- panel formats with groups of 32 values times one row of 8 bits ----

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

template <int FORMAT, int PARTS, int STAGES, int BLOCKS, bool BY_EXPERT>
__global__ void __launch_bounds__(PARTS *WARP, BLOCKS)
    linear_one(const __grid_constant__ struct gpu_linear args,
               const __grid_constant__ struct gpu_layout layout)
{
    using source = panel_source<FORMAT>;
    extern __shared__ char shared[];
    __shared__ float sums[PARTS][RF_PANEL_ROWS];
    struct place place = find_place<1, 1, BY_EXPERT>(args);
    if (BY_EXPERT && place.first >= place.end) return;
    int lane = threadIdx.x % WARP, t = lane % 4, begin, end;
    take_part<PARTS>(args.x.pairs, &begin, &end);
    const char *tile = place.tiles + (size_t)place.tile * layout.bytes;
    struct ring<source, STAGES> weights(source(tile, layout), shared, begin, end);
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

// ---- launching ----

template <int TILES, int COLUMNS> static dim3 grid_of(const struct gpu_linear *args)
{
    int blocks = 0;
    for (int m = 0; m < args->n_matrices; m++)
        blocks += (args->matrices[m].rows + 16 * TILES - 1) / (16 * TILES);
    int groups = args->groups ? args->n_groups : (args->n + 8 * COLUMNS - 1) / (8 * COLUMNS);
    return dim3((unsigned)blocks, (unsigned)groups);
}

template <typename Kernel, typename... Arguments>
static cudaError_t launch_shared(const struct gpu_launch *launch, Kernel kernel, dim3 grid,
                                 int parts, size_t bytes, const Arguments &...arguments)
{
    if (bytes > 48 * 1024) {
        cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        if (error != cudaSuccess) return error;
    }
    return launch_kernel(launch, kernel, grid, (unsigned)parts * WARP, bytes, arguments...);
}

template <int PARTS, int TILES, int COLUMNS, int STAGES, int BLOCKS, bool BY_EXPERT = false>
static cudaError_t launch_bf16(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * bf16_source<TILES>::bytes;
    return launch_shared(launch, linear_bf16<PARTS, TILES, COLUMNS, STAGES, BLOCKS, BY_EXPERT>,
                         grid_of<TILES, COLUMNS>(args), PARTS,
                         shared_bytes<PARTS, TILES, COLUMNS>(ring), *args);
}

template <int FORMAT, bool IN_16, int PARTS, int COLUMNS, int STAGES, int BLOCKS,
          bool BY_EXPERT = false>
static cudaError_t launch_panels(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * panel_source<FORMAT>::bytes;
    return launch_shared(launch,
                         linear_panels<FORMAT, IN_16, PARTS, COLUMNS, STAGES, BLOCKS, BY_EXPERT>,
                         grid_of<1, COLUMNS>(args), PARTS, shared_bytes<PARTS, 1, COLUMNS>(ring),
                         *args, gpu_layout(FORMAT, (size_t)args->k));
}

template <int FORMAT, int PARTS, int STAGES, int BLOCKS, bool BY_EXPERT = false>
static cudaError_t launch_one(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    constexpr size_t ring = STAGES * panel_source<FORMAT>::bytes;
    return launch_shared(launch, linear_one<FORMAT, PARTS, STAGES, BLOCKS, BY_EXPERT>,
                         grid_of<1, 1>(args), PARTS, BARRIER_BYTES + PARTS * ring, *args,
                         gpu_layout(FORMAT, (size_t)args->k));
}

template <int FORMAT, bool IN_16>
static cudaError_t choose_experts_panels(const struct gpu_launch *launch,
                                         const struct gpu_linear *args)
{
    if constexpr (!IN_16 && format_traits<FORMAT>::group == RF_BLOCK)
        if (args->n == 1) return launch_one<FORMAT, 8, 2, 4, true>(launch, args);
    if (gpu_group_rows(args->n) == 8)
        return launch_panels<FORMAT, IN_16, 8, 1, 3, 3, true>(launch, args);
    return launch_panels<FORMAT, IN_16, 8, 4, 2, 2, true>(launch, args);
}

template <int FORMAT, bool IN_16>
static cudaError_t choose_panels(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    if (args->groups) return choose_experts_panels<FORMAT, IN_16>(launch, args);
    // Stages and sums take 99 KB at most, which all devices have.
    if constexpr (!IN_16 && format_traits<FORMAT>::group == RF_BLOCK)
        if (args->n == 1)
            return args->parts == GPU_MORE_PARTS ? launch_one<FORMAT, 16, 2, 1>(launch, args)
                                                 : launch_one<FORMAT, 8, 2, 4>(launch, args);
    if (args->parts == GPU_MORE_PARTS) {
        if (args->n <= 8) return launch_panels<FORMAT, IN_16, 16, 1, 2, 1>(launch, args);
        if (args->n <= 16) return launch_panels<FORMAT, IN_16, 16, 2, 2, 1>(launch, args);
        return launch_panels<FORMAT, IN_16, 16, 8, 2, 1>(launch, args);
    }
    if (args->n <= 8) return launch_panels<FORMAT, IN_16, 8, 1, 3, 3>(launch, args);
    if (args->n <= 16) return launch_panels<FORMAT, IN_16, 8, 2, 3, 2>(launch, args);
    return launch_panels<FORMAT, IN_16, 8, 8, 2, 2>(launch, args);
}

static cudaError_t choose_bf16(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    if (args->groups)
        return gpu_group_rows(args->n) == 8 ? launch_bf16<8, 1, 1, 3, 4, true>(launch, args)
                                            : launch_bf16<8, 1, 4, 2, 2, true>(launch, args);
    if (args->n > 64 && args->x.arranged && args->parts == GPU_PARTS)
        return gpu_linear_wide(launch, args);
    if (args->parts == GPU_MORE_PARTS) {
        if (args->n <= 8) return launch_bf16<16, 1, 1, 3, 2>(launch, args);
        if (args->n <= 16) return launch_bf16<16, 1, 2, 3, 2>(launch, args);
        return launch_bf16<16, 1, 8, 2, 1>(launch, args);
    }
    if (args->n <= 8)
        return args->k <= 4096 ? launch_bf16<8, 1, 1, 2, 4>(launch, args)
                               : launch_bf16<8, 1, 1, 3, 4>(launch, args);
    if (args->n <= 16)
        return args->k <= 8192 ? launch_bf16<8, 1, 2, 2, 3>(launch, args)
                               : launch_bf16<8, 1, 2, 3, 3>(launch, args);
    if (args->n <= 32) return launch_bf16<8, 2, 4, 2, 2>(launch, args);
    return launch_bf16<8, 2, 8, 2, 1>(launch, args);
}

extern "C" cudaError_t gpu_linear(const struct gpu_launch *launch, const struct gpu_linear *args)
{
    switch (args->format) {
    case RF_FORMAT_BF16: return choose_bf16(launch, args);
#define RF_ROW(name, FORMAT, ...)                                                  \
    case RF_FORMAT_##FORMAT:                                                       \
        return args->x.low ? choose_panels<RF_FORMAT_##FORMAT, true>(launch, args) \
                           : choose_panels<RF_FORMAT_##FORMAT, false>(launch, args);
        RF_EACH_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return cudaErrorInvalidValue;
    }
}
