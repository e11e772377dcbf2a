/* Evening: the columns of ffn_down may be scaled if the rows of ffn_up are, inversely, and the
 * model computes the same. A row's scales of any grid take its factor, so that ffn_up rounds as
 * before; ffn_down, in which a few columns are much larger than others, rounds better with all of
 * one size where codes are evenly spaced. QQQ's smoothing (section 3.1) moves ranges between
 * weights and activations instead. */
#ifndef RF_CALIBRATE_EVEN_H
#define RF_CALIBRATE_EVEN_H

#include "base/alloc.h"
#include "base/error.h"
#include "model/source.h"

/* `factors`: [ne[0]], the columns' root mean squares by their geometric mean. By these the columns
 * of `down` are to be divided. */
int rf_even_columns(const struct rf_tensor *down, float *factors,
                    const struct rf_allocator *allocator, struct rf_error *error);

#endif
