/* Rotations folded into a model's weights: R1 of QuaRot (Ashkboos et al., 2024) and SpinQuant (Liu
 * et al., 2024) turns the rows between layers, R2 the values of each head. The model computes what
 * it did, but each weight and each input is a sum of many, so that none is much larger than the
 * others and all round well. Gains of norms move into the matrices behind them. */
#ifndef RF_QUANT_ROTATE_H
#define RF_QUANT_ROTATE_H

#include "base/alloc.h"
#include "base/error.h"
#include "model/source.h"
#include "platform/team.h"

struct rf_rotation;

/* Whether folding is exact for a model, else RF_ERR_UNSUPPORTED. */
int rf_rotation_check(const struct rf_source *source, struct rf_error *error);

/* Random, but the same for every model of these dimensions. It is checked first. `source` and
 * `team`, which does the work, must live as long as the rotation. */
int rf_rotation_new(struct rf_rotation **rotation, const struct rf_source *source,
                    struct rf_team *team, const struct rf_allocator *allocator,
                    struct rf_error *error);
void rf_rotation_free(struct rf_rotation *rotation);

/* Whether a tensor changes. *whole: rf_rotate_rows needs all of its rows at once. */
int rf_rotates(const struct rf_rotation *rotation, const struct rf_tensor *tensor, int *whole);
/* Rows [first, first + n) of a tensor that changes, after that: [n][ne[0]] floats. */
void rf_rotate_rows(const struct rf_rotation *rotation, const struct rf_tensor *tensor,
                    size_t first, size_t n, float *rows);

#endif
