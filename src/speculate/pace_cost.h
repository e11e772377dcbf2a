/* The costs of each level's passes: learnt from measured passes, and asked by the decisions of the
 * pace. pace.h declares rf_pace_cost, rf_pace_pass, rf_pace_shared_pass and rf_pace_read. */
#ifndef RF_SPECULATE_PACE_COST_H
#define RF_SPECULATE_PACE_COST_H

#include "speculate/pace.h"

/* The first guess, in passes of the target over one row. *cost is zero before. */
void rf_pace_guess_cost(struct rf_pace_cost *cost, const struct rf_level *level);

/* Rows of other texts in the level's passes. */
struct rf_other_rows rf_pace_others_at(const struct rf_pace *pace, int32_t level);

/* The most rows whose cost is known well. The cost of fewer lies between it and a single row's. */
int32_t rf_pace_known_rows(const struct rf_pace_cost *cost);
/* 1 if a pass over at most so many rows was measured. */
int rf_pace_has_measured(const struct rf_pace_cost *cost, int32_t rows);

#endif
