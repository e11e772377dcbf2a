/* Measurements of this machine and of a model's memory: read bandwidth. */
#ifndef RF_ENGINE_MEASURE_H
#define RF_ENGINE_MEASURE_H

#include <riffle_experimental.h>

#include "engine/engine.h"

/* riffle_measure_read and riffle_measure_model_read. */
int rf_measure_read(int32_t threads, riffle_read_speed *speed, struct rf_error *error);
int rf_engine_measure_read(const struct rf_engine *engine, int32_t threads,
                           riffle_read_speed *speed, struct rf_error *error);

#endif
