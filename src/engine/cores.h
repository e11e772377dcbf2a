/* The plan of the cores that compute, and the speeds of its workers (riffle_cores). */
#ifndef RF_ENGINE_CORES_H
#define RF_ENGINE_CORES_H

#include <riffle.h>

#include "base/error.h"

/* How many threads `wanted` are; 0: one for each core that "auto" chooses. */
int rf_cores_threads(int32_t wanted, int32_t *threads, struct rf_error *error);
/* Fills in *info and calls on_core (NULL is allowed) for each logical processor. RF_ERR_CANCELLED
 * when on_core ends it. */
int rf_cores_describe(const riffle_cores_options *options, riffle_cores_info *info,
                      riffle_on_core on_core, void *user, struct rf_error *error);

#endif
