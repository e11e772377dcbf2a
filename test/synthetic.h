/* Models made up in memory: the parameters that no small real model has, with weights from a fixed seed. */
#ifndef RF_TEST_SYNTHETIC_H
#define RF_TEST_SYNTHETIC_H

#include "model/source.h"

/* A source with all tensors that `params` asks for: matrices of type `matrix_type` (RF_F32 or RF_BF16) scaled so that
 * activations keep their size, vectors of RF_F32. NULL when memory runs out. Freed with synthetic_free only. */
struct rf_source *synthetic_new(const struct rf_params *params, enum rf_dtype matrix_type);
void synthetic_free(struct rf_source *source);

#endif
