/* What the files of this tier share. */
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

/* The least number of 8-bit rows for tiles; fewer are left to avx512's kernels. */
enum { RF_AMX_LEAST_ROWS = 17 };

void rf_amx_init_panels(struct rf_kernels *kernels);
void rf_amx_init_attention(struct rf_kernels *kernels);

#endif
