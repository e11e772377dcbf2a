/* Answers in a batch: requests wait, are begun with the longest text that is already read, have
 * their prompts read in slices, and then take part in every pass (riffle_batch). A batch is used by
 * one thread at a time; callbacks run within rf_engine_batch_step and make no call on the batch. */
#ifndef RF_ENGINE_BATCH_H
#define RF_ENGINE_BATCH_H

#include <riffle_experimental.h>

#include "engine/engine.h"
#include "engine/generation.h"

struct rf_engine_batch;

/* `options` and `session` are complete (defaults taken); options->session is not looked at. */
int rf_engine_batch_open(struct rf_engine_batch **batch, struct rf_engine *engine,
                         const riffle_batch_options *options, const riffle_session_options *session,
                         struct rf_error *error);
/* Ends all answers without telling anybody. */
void rf_engine_batch_close(struct rf_engine_batch *batch);

/* A request with defaults taken: request.sampling and request.generate are not looked at. */
struct rf_batch_request {
    riffle_request request;
    riffle_sampling sampling;
    struct rf_answer_options wanted;
};

/* Returns a number above 0 that names the answer, or a code. */
int64_t rf_engine_batch_add(struct rf_engine_batch *batch, const struct rf_batch_request *request,
                            struct rf_error *error);
/* Ends an answer in the next step. RF_ERR_ARGUMENT: none of that number is under way. */
int rf_engine_batch_cancel(struct rf_engine_batch *batch, int64_t id, struct rf_error *error);
/* One pass at most. Returns how many answers have not ended. */
int32_t rf_engine_batch_step(struct rf_engine_batch *batch);
/* Writes a kept text to the folder. Returns how many are left. */
int32_t rf_engine_batch_store(struct rf_engine_batch *batch);
void rf_engine_batch_stats(const struct rf_engine_batch *batch, riffle_batch_stats *stats);

#endif
