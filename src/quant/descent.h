/* Coordinate descent on rounded weights (QuantEase, Behdin et al., 2023): each weight is rounded
 * again, with all others as they are, so that the layer's squared error on its inputs falls. GPTQ
 * cannot look ahead; this can look at all. */
#ifndef RF_QUANT_DESCENT_H
#define RF_QUANT_DESCENT_H

#include "quant/gptq.h"

enum { RF_DESCENT_SWEEPS = 1 };

/* Improves `blocks`, the result of rf_gptq_round for the same arguments; `errors` is what that left
 * of the weights, and is used up. Scales of W4A8's groups are fitted, too; those of other types and
 * of whole rows stay. `factor` is changed and changed back. */
int rf_gptq_descend(const struct rf_gptq *gptq, float *factor, float *errors, size_t m, size_t k,
                    enum rf_dtype dtype, size_t group, int sweeps, void *blocks,
                    struct rf_error *error);

#endif
