/* Coordinate descent on rounded weights (QuantEase, Behdin et al., 2023): each weight is rounded
 * again, with all others as they are, so that the layer's squared error on its inputs falls. GPTQ
 * cannot look ahead; this can look at all. */
#ifndef RF_QUANT_DESCENT_H
#define RF_QUANT_DESCENT_H

#include "quant/gptq.h"

/* Improves `blocks`, the result of rf_gptq_round for the same arguments; w are the unrounded
 * weights, which are used up. `h`: what rf_gptq_factor made, with the diagonal of H
 * (rf_gptq_swap_diagonal). Scales of W4A8's groups are fitted, too; those of other types and of
 * whole rows stay. */
int rf_gptq_descend(const struct rf_gptq *gptq, const float *h, float *w, size_t m, size_t k,
                    enum rf_dtype dtype, size_t group, void *blocks, struct rf_error *error);

#endif
