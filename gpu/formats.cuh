// The panel formats as the kernels see them: where codes and scales lie in a tile.
#ifndef RF_GPU_FORMATS_CUH
#define RF_GPU_FORMATS_CUH

#include "gpu/launch.cuh"

template <int FORMAT> struct format_traits;

#define RF_ROW(name, FORMAT, BITS, OFFSET, GROUP, MIN, ...) \
    template <> struct format_traits<RF_FORMAT_##FORMAT> {  \
        static constexpr int bits = BITS;                   \
        static constexpr int offset = OFFSET;               \
        static constexpr int group = GROUP;                 \
        static constexpr bool has_min = MIN;                \
    };
RF_EACH_DEVICE_PANEL_FORMAT(RF_ROW)
#undef RF_ROW

// Pairs of blocks of a tile that are brought to shared memory together.
__host__ __device__ constexpr int gpu_group_pairs(int format)
{
    switch (format) {
#define RF_ROW(name, FORMAT, BITS, ...) \
case RF_FORMAT_##FORMAT: return BITS == 4 ? 4 : 2;
        RF_EACH_DEVICE_PANEL_FORMAT(RF_ROW)
#undef RF_ROW
    default: return 0;
    }
}

// Bytes of the scales of a pair of blocks, and of the F16 numbers of a unit, for two rows. Where
// there are two rows or blocks, numbers of row g come before those of row g + 8, and those of the
// first block before those of the second.
__host__ __device__ constexpr size_t gpu_scale_bytes(int format)
{
    switch (format) {
    case RF_FORMAT_MXFP4: return 4; // e
    case RF_FORMAT_Q4_0:
    case RF_FORMAT_Q8_0: return 8; // d
    case RF_FORMAT_Q4_1:
    case RF_FORMAT_Q8_1: return 16; // d, then b
    case RF_FORMAT_Q4_K: return 8;  // a, then the minima's
    case RF_FORMAT_Q6_K: return 8;  // a of each half
    case RF_FORMAT_Q8_K: return 16; // a of each half, then m
    default: return 0;
    }
}

__host__ __device__ constexpr size_t gpu_unit_bytes(int format)
{
    return format == RF_FORMAT_Q6_K                               ? 4 // d
           : format == RF_FORMAT_Q4_K || format == RF_FORMAT_Q8_K ? 8 // d, then n
                                                                  : 0;
}

#endif
