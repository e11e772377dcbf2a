/* A session: committed tokens, what of them the model has read, and the logits after the last.
 *
 * Committing a token only appends it; the model reads it with the next pass that needs it. */
#ifndef RF_INFER_SESSION_H
#define RF_INFER_SESSION_H

#include <stdatomic.h>

#include "infer/forward.h"
#include "infer/model.h"

struct rf_session_shape {
    int32_t n_ctx;
    int32_t threads;
    enum rf_kv_type kv;
};

struct rf_session {
    const struct rf_model *model;
    struct rf_context *context;
    struct rf_activations activations;
    struct rf_session_shape shape;
    int32_t *tokens;   /* [n_ctx] */
    int32_t n_tokens;  /* committed */
    int32_t n_read;    /* of these, in the KV cache */
    int has_logits;    /* of the token after the last one, n_read == n_tokens */
    atomic_int cancel; /* set from anywhere; stops the pass under way */
    uint64_t passes;
};

/* Called between the blocks of a long read; non-zero cancels. */
typedef int (*rf_read_progress)(void *user, int32_t done, int32_t total);

int rf_session_new(struct rf_session **session, const struct rf_model *model, const struct rf_session_shape *shape,
                   struct rf_error *error);
void rf_session_free(struct rf_session *session);

/* Commits one token. RF_ERR_CONTEXT when the context is full. */
int rf_session_commit(struct rf_session *session, int32_t token, struct rf_error *error);

/* Commits and reads tokens, in blocks. Tokens out of the vocabulary and tokens that do not fit are refused before
 * anything happens. When cancelled, the blocks that were read stay committed. */
int rf_session_read(struct rf_session *session, const int32_t *tokens, int32_t n, rf_read_progress progress, void *user,
                    struct rf_error *error);

/* Commits and reads tokens, and writes log p(tokens[i] | everything before) for i in [first, n) to logprobs[i - first]. */
int rf_session_score(struct rf_session *session, const int32_t *tokens, int32_t n, int32_t first, double *logprobs,
                     struct rf_error *error);

/* The logits [n_vocab] after the last committed token, reading what has not been read; NULL on failure. Valid until the
 * next call. A session without tokens has none: RF_ERR_ARGUMENT. */
const float *rf_session_logits(struct rf_session *session, struct rf_error *error);

/* Forgets all tokens after the first n <= n_tokens. */
void rf_session_rewind(struct rf_session *session, int32_t n);

/* Seconds of each of `repeats` passes over n_rows rows after `context` tokens; leaves the session as it was. */
int rf_session_time_passes(struct rf_session *session, int32_t n_rows, int32_t context, int32_t repeats,
                           double *seconds, struct rf_error *error);

#endif
