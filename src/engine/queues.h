/* The queues that compute. One session at a time uses the queue that loaded the model; others get
 * their own. Forks share the queue of their origin. */
#ifndef RF_ENGINE_QUEUES_H
#define RF_ENGINE_QUEUES_H

#include "engine/engine.h"

/* Opens the engine's own queue, which is freed with the backend. */
int rf_engine_open_queue(struct rf_engine *engine, const riffle_model_options *options,
                         struct rf_error *error);
/* Takes a queue for a session, or returns it. `cores` NULL: the engine's. */
int rf_engine_take_queue(struct rf_queue **queue, struct rf_engine *engine, const char *cores,
                         int32_t threads, struct rf_error *error);
void rf_engine_return_queue(struct rf_engine *engine, struct rf_queue *queue);

#endif
