/* What the files of this tier share. */
#ifndef RF_MICROKERNELS_AMX_TIER_H
#define RF_MICROKERNELS_AMX_TIER_H

#include "microkernels/kernels.h"

struct rf_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* The least number of 8-bit rows for tiles; fewer are left to avx512's kernels. */
enum { RF_AMX_LEAST_ROWS = 17 };

void rf_amx_init_panels(struct rf_kernels *kernels);
void rf_amx_init_attention(struct rf_kernels *kernels);

#endif
