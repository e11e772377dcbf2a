/* The declarations that the files of the AMX tier share: macros for tiles, the numbers of rows from
 * which tiles are used, and the layout of packed rows. */
#ifndef RF_MICROKERNELS_AMX_TIER_H
#define RF_MICROKERNELS_AMX_TIER_H

#include <immintrin.h>

#include "microkernels/kernels.h"

struct rf_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* gcc 12's own macros pass the stride as a long, which is half a register on Windows. */
#if defined(__GNUC__) && !defined(__clang__) && __SIZEOF_LONG__ < __SIZEOF_POINTER__
#    undef _tile_loadd
#    undef _tile_stored
#    define _tile_loadd(tile, base, stride) \
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(base), "r"((size_t)(stride)))
#    define _tile_stored(tile, base, stride)                                                       \
        __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(base), "r"((size_t)(stride)) \
                         : "memory")
#endif

enum {
    RF_AMX_SIDE = 16, /* rows of a tile */
    /* The least numbers of rows of 8 and of 16 bits beside panels that tiles multiplied faster on
     * all cores measured (docs/design/kernels.md). Fewer are left to avx512's kernels. */
    RF_AMX_LEAST_A8 = 17,
    RF_AMX_LEAST_A16 = 9,
    RF_AMX_LEAST_ROW = 9,   /* fewer rows of RF_OPERAND_A8_ROW are left to avx512's kernels */
    RF_AMX_LEAST_SUPER = 3, /* fewer rows of RF_OPERAND_A16_SUPER are multiplied without tiles */
    RF_AMX_EIGHT = 8 /* rows of RF_OPERAND_A16_SUPER in a tile: upper and lower bytes of each */
};

/* Rows of 8 or 16 bits beside panels: first as many as are left to avx512's kernels, as these take
 * them, padded to 64 bytes; then all rows by sixteens, [row / 16][block of 32 values] of the
 * following. Integers are BF16, each four k in the order 0, 2, 1, 3. */
struct rf_amx_numbers {
    float d[RF_AMX_SIDE];
    float d_sum[RF_AMX_SIDE];     /* factor of a block's minima */
    float d_half[2][RF_AMX_SIDE]; /* the same for its halves, where groups have 16 values */
};
struct rf_amx_a8 {
    uint16_t q[RF_AMX_SIDE][RF_BLOCK];
    struct rf_amx_numbers numbers;
};
struct rf_amx_a16 {
    uint16_t q[RF_AMX_SIDE][RF_BLOCK];   /* upper bytes, times 256 */
    uint16_t low[RF_AMX_SIDE][RF_BLOCK]; /* lower bytes, signed */
    struct rf_amx_numbers numbers;
};

/* Rows of RF_OPERAND_A16_SUPER: first as many as are multiplied without tiles, as struct
 * rf_a16_super; then all rows by eights, [row / 8][superblock] of the following. */
struct rf_amx_super {
    /* 64 values each, in the order of k: the upper bytes of the rows, then their lower bytes:
     * q = 256 upper + lower, both signed. */
    int8_t q[RF_SUPERBLOCK / 64][RF_AMX_SIDE][64];
    struct rf_a16_super_numbers numbers[RF_AMX_EIGHT];
};

/* Offset of the eights in packed rows of RF_OPERAND_A16_SUPER. */
static inline size_t rf_amx_eights_at(size_t k)
{
    return (RF_AMX_LEAST_SUPER - 1) * rf_a16_supers(k) * sizeof(struct rf_a16_super);
}

/* Offset of the sixteens in packed rows. */
static inline size_t rf_amx_sixteens_at(enum rf_operand form, size_t k)
{
    size_t bytes = form == RF_OPERAND_A8
                       ? (RF_AMX_LEAST_A8 - 1) * rf_a8_stride(k) * sizeof(struct rf_a8)
                       : (RF_AMX_LEAST_A16 - 1) * rf_a16_stride(k) * sizeof(struct rf_a16_split);
    return (bytes + 63) & ~(size_t)63;
}

void rf_amx_init_panels(struct rf_kernels *kernels);
void rf_amx_init_panels_row(struct rf_kernels *kernels);
void rf_amx_init_panels_super(struct rf_kernels *kernels);
void rf_amx_init_pack(struct rf_kernels *kernels);
void rf_amx_init_attention(struct rf_kernels *kernels);
void rf_amx_init_attention_kv(struct rf_kernels *kernels);

#endif
