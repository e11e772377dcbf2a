/* How fast each worker of a team is, measured with the kernels and weights that it will work with.
 */
#ifndef RF_CPU_CALIBRATE_H
#define RF_CPU_CALIBRATE_H

#include "infer/backend.h"
#include "platform/split.h"
#include "platform/team.h"

/* Multiplies the weights by one row, then a few of them by many rows, and makes a split from the
 * measurements: the workers' speeds, and how many workers are worth using where memory is the
 * limit. Takes some milliseconds for each number of workers that it tries, 0.2 s at most. *split
 * stays NULL for a team of one. */
int rf_cpu_calibrate(struct rf_split **split, const struct rf_weights *weights,
                     struct rf_team *team, struct rf_error *error);

/* The same without a model, on weights of its own. *bytes_per_second: read by all workers
 * together. */
int rf_cpu_calibrate_machine(struct rf_split **split, int tier, struct rf_team *team,
                             const struct rf_allocator *allocator, double *bytes_per_second,
                             struct rf_error *error);

#endif
