/* Packs a planned tensor from the file into the layout that kernels read. Backends call this from
 * as many threads as they have: strips are independent of one another. */
#ifndef RF_WEIGHTS_PACK_H
#define RF_WEIGHTS_PACK_H

#include "weights/plan.h"

/* Writes the strips [first, first + n) of a matrix or vector, counted through all experts, to
 * `out`, plan->strip_bytes each. `scratch`: plan->scratch_bytes of the caller's own. `kernels`
 * cast; all of them to the same bits. */
void rf_weight_pack(const struct rf_weight_plan *plan, const struct rf_kernels *kernels,
                    size_t first, size_t n, void *out, void *scratch);

/* Row `row` of a table to out[plan->columns], straight from the file. */
void rf_weight_read_row(const struct rf_weight_plan *plan, size_t row, float *out);

#endif
