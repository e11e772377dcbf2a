// Panels in shared memory as the lanes of a warp read them: codes, scales and minima of a pair of
// blocks. The kernels of linear_one.cu, linear_panels.cu and wide_panels.cu decode with it.
#ifndef RF_GPU_PANELS_CUH
#define RF_GPU_PANELS_CUH

#include "gpu/linear.cuh"

// Integers below 2^22 that are added to this pattern make a float of 1.5 * 2^23 more.
static constexpr int MAGIC = 0x4b400000;

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

// A lane's part of a pair of blocks, as it lies in memory.
template <int FORMAT> struct pair_data {
    uint4 codes[format_traits<FORMAT>::bits == 8 ? 2 : 1];
    uint2 upper;  // 6 bits
    uint4 scales; // gpu_scale_bytes of them
    uint2 unit;   // gpu_unit_bytes
};

// A step is a pair of blocks. A group has its codes, its scales and those of its units.
template <int FORMAT> struct panel_source {
    static constexpr bool by_engine = true;
    static constexpr int bits = format_traits<FORMAT>::bits, steps = gpu_group_pairs(FORMAT),
                         codes = bits * 128, scales = 8 * (int)gpu_scale_bytes(FORMAT),
                         units = 8 * (int)gpu_unit_bytes(FORMAT), scales_at = steps * codes,
                         units_at = scales_at + steps * scales, bytes = units_at + 2 * units;
    const char *tile, *tile_scales, *tile_units;

    __device__ panel_source()
    {
    }
    __device__ panel_source(const char *from, const struct gpu_layout &layout)
        : tile(from), tile_scales(from + layout.scales), tile_units(from + layout.units)
    {
    }
    static __device__ int units_of(int pair, int n)
    {
        return (pair + n - 1) / 4 - pair / 4 + 1;
    }
    __device__ uint32_t step_bytes(int pair, int n) const
    {
        return n * (codes + scales) + units_of(pair, n) * units;
    }
    template <typename COPIER>
    __device__ void copy_steps(const COPIER &copier, uint32_t to, int pair, int n) const
    {
        copier.copy(to, tile + (size_t)pair * codes, n * codes);
        copier.copy(to + scales_at, tile_scales + (size_t)pair * scales, n * scales);
        if (units > 0)
            copier.copy(to + units_at, tile_units + (size_t)(pair / 4) * units,
                        units_of(pair, n) * units);
    }
};

// The panels of TILES tiles side by side.
template <int FORMAT, int TILES> struct tiles_source {
    using panel = panel_source<FORMAT>;
    static constexpr bool by_engine = true;
    static constexpr int steps = panel::steps, bytes = TILES * panel::bytes;
    panel of[TILES];

    __device__ uint32_t step_bytes(int pair, int n) const
    {
        return TILES * of[0].step_bytes(pair, n);
    }
    template <typename COPIER>
    __device__ void copy_steps(const COPIER &copier, uint32_t to, int pair, int n) const
    {
#pragma unroll
        for (int m = 0; m < TILES; m++) of[m].copy_steps(copier, to + m * panel::bytes, pair, n);
    }
};

// Loads a pair; codes, and scales and unit of rows g and g + 8: their places in shared memory.
template <int FORMAT>
__device__ inline void load_pair(struct pair_data<FORMAT> &data, uint32_t codes, uint32_t scales,
                                 uint32_t unit, int lane)
{
    constexpr int bits = format_traits<FORMAT>::bits, scale_bytes = (int)gpu_scale_bytes(FORMAT),
                  unit_bytes = (int)gpu_unit_bytes(FORMAT);
    data.codes[0] = load_shared_4(codes + lane * 16);
    if constexpr (bits == 8) data.codes[1] = load_shared_4(codes + 512 + lane * 16);
    if constexpr (bits == 6) data.upper = load_shared_2(codes + 512 + lane * 8);
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

// Pair i of a group that begins with pair `first`; at: the group, in shared memory.
template <int FORMAT>
__device__ inline void read_pair(struct pair_data<FORMAT> &data, uint32_t at, int first, int i,
                                 int lane)
{
    using source = panel_source<FORMAT>;
    load_pair<FORMAT>(data, at + i * source::codes,
                      at + source::scales_at + i * source::scales +
                          lane / 4 * (int)gpu_scale_bytes(FORMAT),
                      at + source::units_at + ((first + i) / 4 - first / 4) * source::units +
                          lane / 4 * (int)gpu_unit_bytes(FORMAT),
                      lane);
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
    __half2 both;
    memcpy(&both, &word, sizeof both);
    return i ? __high2float(both) : __low2float(both);
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

// Scale, times `times`, and minimum of rows g and g + 8, block b and half h of it.
template <int FORMAT>
__device__ inline void scales_of(const struct pair_data<FORMAT> &data, int b, int h, float s[2],
                                 float m[2], float times = 1.0f)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if constexpr (FORMAT == RF_FORMAT_MXFP4) {
            s[r] = times * __uint_as_float((data.scales.x >> 8 * (2 * b + r) & 255) << 23);
        } else if constexpr (FORMAT == RF_FORMAT_Q4_K) {
            s[r] = scaled_byte(times * half_of(data.unit.x, r), data.scales.x, 2 * b + r);
            m[r] = scaled_byte(half_of(data.unit.y, r), data.scales.y, 2 * b + r);
        } else if constexpr (FORMAT == RF_FORMAT_Q6_K) {
            s[r] = scaled_signed_byte(times * half_of(data.unit.x, r),
                                      b ? data.scales.y : data.scales.x, 2 * h + r);
        } else if constexpr (FORMAT == RF_FORMAT_Q8_K) {
            s[r] = scaled_signed_byte(times * half_of(data.unit.x, r),
                                      b ? data.scales.y : data.scales.x, 2 * h + r);
            m[r] = scaled_signed_byte(half_of(data.unit.y, r), b ? data.scales.w : data.scales.z,
                                      2 * h + r);
        } else {
            s[r] = times * half_of(b ? data.scales.y : data.scales.x, r);
            if constexpr (format_traits<FORMAT>::has_min)
                m[r] = half_of(b ? data.scales.w : data.scales.z, r);
        }
    }
}

#endif
