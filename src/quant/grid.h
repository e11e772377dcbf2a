/* The grids of types of 4 and 6 bits: the 16 or 64 values that a weight can take under the scales
 * of its block. */
#ifndef RF_QUANT_GRID_H
#define RF_QUANT_GRID_H

#include "microkernels/kernels.h"
#include "model/dtype.h"

/* Values of a row that share a grid, in every type. Q6_K has scales for 16 values; two of them are
 * the same here. */
enum { RF_GRID_GROUP = 32 };

/* The places of codes in a block of a type. */
struct rf_grid_layout {
    enum rf_dtype dtype;
    uint32_t first, end; /* bytes of a block that have codes */
    uint32_t half;       /* the two 4-bit values of a byte are so many apart */
    int is_e2m1;         /* codes are E2M1's, else steps */
    int32_t last;        /* code: 15 or 63 */
};

/* NULL for a type without such codes. */
const struct rf_grid_layout *rf_grid_layout(enum rf_dtype dtype);

/* The values of a group's codes: base + scale c, or scale E2M1(c). */
struct rf_grid {
    float scale, inverse, base;
};

/* One grid for each of some rows, whose columns are rounded together. */
enum { RF_GRID_LANES = 16 };

struct rf_grid_lanes {
    float scale[RF_GRID_LANES], inverse[RF_GRID_LANES], base[RF_GRID_LANES];
};

/* Chooses the scales of n values, whole blocks of which a weight's errors count as much as
 * `importance` says, and writes them to the blocks. W4A8, W4A8_ROW: one scale for all; else each
 * block has its own. In scales.c. */
void rf_grid_choose(const struct rf_grid_layout *layout, const float *w, const float *importance,
                    size_t n, void *blocks);
/* W4A8_G128: chooses the scale of a row, whose multiples its groups' scales are. It comes before
 * all rf_grid_choose of the row; other types need none. */
void rf_grid_begin_row(const struct rf_grid_layout *layout, const float *w, const float *importance,
                       size_t k, void *blocks);
/* Reads the grids of a block's groups from its scales; `grids` [block_elems / RF_GRID_GROUP]. */
void rf_grid_read(const struct rf_grid_layout *layout, const void *block, struct rf_grid *grids);
/* The codes of the values next to w, which go to `values`; each lane has its grid. */
void rf_grid_round(const struct rf_grid_layout *layout, const struct rf_grid_lanes *grids,
                   const float *w, float *values, uint8_t *codes);
/* Writes the codes of all values of a block. */
void rf_grid_put(const struct rf_grid_layout *layout, void *block, const uint8_t *codes);

#endif
