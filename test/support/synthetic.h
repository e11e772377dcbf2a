/* Models made up in memory: the parameters that no small real model has, with weights from a fixed
 * seed. */
#ifndef RF_TEST_SYNTHETIC_H
#define RF_TEST_SYNTHETIC_H

#include "model/source.h"

/* A source with all tensors that `params` asks for: matrices of the `n_types` types, one after
 * another, scaled so that activations keep their size; vectors of RF_F32. A quantised matrix is
 * random blocks. NULL when memory runs out. Freed with synthetic_free only. */
struct rf_source *synthetic_new(const struct rf_params *params, const enum rf_dtype *types,
                                size_t n_types);
void synthetic_free(struct rf_source *source);

/* Makes them those of a model with the delta rule in layers with RF_LAYER_DELTA, heads of which are
 * not a whole number of pieces of columns, and with gated attention. */
void synthetic_deltas(struct rf_params *params, const uint8_t *flags, int32_t n_layer);

/* The same with Mamba-2 in layers with RF_LAYER_MAMBA, three heads to a group, and plain attention.
 */
void synthetic_mamba(struct rf_params *params, const uint8_t *flags, int32_t n_layer);

/* Makes them those of a model with latent attention; latent_q may be 0. */
void synthetic_latent(struct rf_params *params, int32_t latent_q);

/* Parameters of what stories260K has not: biases, the other pairing of rotations, a tied head, odd
 * widths, three query heads to one of keys. */
struct rf_params synthetic_qwen2(void);

#endif
