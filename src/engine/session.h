/* A session: one text of an engine, with its keys and values, its sampler, and the levels that
 * write it. It is used by one thread at a time; only rf_session_cancel may be called from any. The
 * public handle (src/api), batches and the building of corpora use sessions through these calls.
 *
 * Invariant: between calls all tokens of the sequence are committed; a round places tokens ahead
 * and whoever ran it commits or drops them before returning. */
#ifndef RF_ENGINE_SESSION_H
#define RF_ENGINE_SESSION_H

#include <riffle_experimental.h>

#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/levels.h"
#include "infer/program.h"
#include "infer/sampler.h"
#include "infer/sequence.h"

struct rf_session {
    struct rf_engine *engine;
    struct rf_queue *queue;
    struct rf_view *view; /* the target's */
    int borrows_view;     /* 1: `view` is another session's (rf_session_fork) */
    struct rf_sequence *sequence;
    struct rf_sampler *sampler;
    struct levels levels;
    atomic_int cancel; /* set from anywhere; stops the pass under way */
    riffle_progress_fn progress;
    void *progress_user;
    riffle_finish finish;
    char finish_sentence[512];
    riffle_stats stats;  /* sums over calls; rf_session_stats adds the rest */
    uint64_t first_pass; /* view's passes before the last reset of the statistics */
};

/* The context and KV type that such a session has. */
int rf_session_shape(const struct rf_engine *engine, const riffle_session_options *options,
                     struct rf_sequence_shape *shape, struct rf_error *error);
uint64_t rf_session_kv_bytes(const struct rf_engine *engine, const struct rf_sequence_shape *shape);

/* `options` are complete (defaults taken). The sampling is greedy until it is set.
 * RF_ERR_ARGUMENT: the engine has no weights, or an option is out of range. */
int rf_session_open(struct rf_session **session, struct rf_engine *engine,
                    const riffle_session_options *options, struct rf_error *error);
void rf_session_close(struct rf_session *session);
/* A session with the same tokens, settings and learnt costs. With `lend` the copy reads with the
 * view of the original: it may take part in its passes, must be closed before it, and is used on
 * the same thread. */
int rf_session_fork(struct rf_session **copy, const struct rf_session *session, int lend,
                    struct rf_error *error);

/* Appends tokens and reads them. RF_ERR_CONTEXT: they do not fit. */
int rf_session_prefill(struct rf_session *session, const int32_t *tokens, size_t n_tokens,
                       struct rf_error *error);
/* Appends tokens; logprobs[i] is the log-probability of token first + i. */
int rf_session_score(struct rf_session *session, const int32_t *tokens, size_t n_tokens,
                     size_t first, double *logprobs, struct rf_error *error);
/* riffle_score_logits. */
int rf_session_score_logits(struct rf_session *session, const int32_t *tokens, size_t n_tokens,
                            size_t first, riffle_on_logits on_logits, void *user,
                            struct rf_error *error);
/* Copies the logits [n_logits], one for each token of the vocabulary, that follow the text. */
int rf_session_logits(struct rf_session *session, float *logits, size_t n_logits,
                      struct rf_error *error);
/* Keeps the first n_tokens tokens. */
int rf_session_rewind(struct rf_session *session, int32_t n_tokens, struct rf_error *error);
void rf_session_cancel(struct rf_session *session);
/* riffle_measure_pass. */
int rf_session_time_passes(struct rf_session *session, int32_t rows, int32_t context,
                           int32_t repeats, double *seconds, struct rf_error *error);

/* Sets the sampling of all levels. RF_ERR_ARGUMENT names a value out of range. */
int rf_session_set_sampling(struct rf_session *session, const riffle_sampling *sampling,
                            struct rf_error *error);
int rf_session_check_bias(const struct rf_session *session, const riffle_logit_bias *bias, size_t n,
                          struct rf_error *error);
/* The list must live until it is set again. */
void rf_session_set_bias(struct rf_session *session, const struct rf_bias *bias, int32_t n);
/* Says that an answer begins, whose first token has this position. */
void rf_session_set_answer(struct rf_session *session, int32_t first);
/* Says why the last answer ended. */
void rf_session_finish(struct rf_session *session, riffle_finish why, const char *sentence);

void rf_session_stats(const struct rf_session *session, riffle_stats *stats);
void rf_session_reset_stats(struct rf_session *session);
/* Writes the first `cap` rows of the last round's draft and returns how many rows it had. */
int32_t rf_session_draft(const struct rf_session *session, riffle_draft_row *rows, size_t cap);

#endif
