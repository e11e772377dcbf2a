/* Rounding of weights that compensates its errors on given inputs: GPTQ (Frantar et al., 2022), the
 * "Hessian-based quantization compensation" of QQQ (section 3.2). A layer's output error is
 * (w - q)^T H (w - q) for each row of weights, H = X^T X over the inputs X. Columns are rounded one
 * after another, the last one first; each error is made up for in the columns that are left. */
#ifndef RF_QUANT_GPTQ_H
#define RF_QUANT_GPTQ_H

#include "base/alloc.h"
#include "platform/team.h"
#include "quant/blas.h"
#include "quant/grid.h"

struct rf_gptq {
    const struct rf_blas *blas;
    struct rf_team *team;
    const struct rf_allocator *allocator;
};

/* Replaces H, of which the lower triangle counts, by what rf_gptq_round needs: L^-1 of H + damping
 * = L L^T. `damping`: [k], positive, of the diagonal; ten times as much is taken as often as H is
 * not positive definite with it. h is [k + 1][k]: H + damping stays above its diagonal, which goes
 * to the last row. */
int rf_gptq_factor(const struct rf_gptq *gptq, float *h, size_t k, const float *damping,
                   struct rf_error *error);

/* Exchanges the diagonal for the last row: L^-1 with its diagonal becomes H + damping with its. */
void rf_gptq_swap_diagonal(float *h, size_t k);

/* Rounds w, [m][k], to blocks of `dtype`, [m][k / block_elems], a type that rf_grid_layout knows.
 * `group`: values of a row that share a scale, whole blocks; 0: all of the row. In w it leaves
 * errors of which each column's were made up for: w - q = errors L^-1. */
int rf_gptq_round(const struct rf_gptq *gptq, const float *factor, float *w, size_t m, size_t k,
                  enum rf_dtype dtype, size_t group, void *blocks, struct rf_error *error);

#endif
