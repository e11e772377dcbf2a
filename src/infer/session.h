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
    struct rf_team *team; /* that computes; must outlive the session */
    enum rf_kv_type kv;
};

struct rf_session {
    const struct rf_model *model;
    struct rf_context *context;
    struct rf_session *owner;  /* of the context, where it is shared; NULL: its own */
    struct rf_session *writer; /* of an owner: who wrote to the KV cache last */
    struct rf_activations activations;
    struct rf_session_shape shape;
    int32_t *tokens;   /* [n_ctx] */
    int32_t n_tokens;  /* committed */
    int32_t n_read;    /* of these, in the KV cache */
    int has_logits;    /* of the token after the last one, n_read == n_tokens */
    atomic_int cancel; /* set from anywhere; stops the pass under way */
    const atomic_int *
        stop; /* the flag that passes look at: its own, or that of the session that it drafts for */
    uint64_t passes;
};

/* Called between the blocks of a long read; non-zero cancels. */
typedef int (*rf_read_progress)(void *user, int32_t done, int32_t total);

int rf_session_new(struct rf_session **session, const struct rf_model *model,
                   const struct rf_session_shape *shape, struct rf_error *error);
/* A reader of the same text with other weights, which shares the owner's context (QSpec,
 * section 3.3): it takes the owner's keys and values for the tokens that the owner has read, writes
 * its own only after those, and the owner overwrites them when it comes there. `model` has the
 * shape of the owner's; the owner must outlive the session. Passes of both must not be under way at
 * once. */
int rf_session_new_sharing(struct rf_session **session, const struct rf_model *model,
                           struct rf_session *owner, struct rf_error *error);
void rf_session_free(struct rf_session *session);

/* Commits one token. RF_ERR_CONTEXT when the context is full. */
int rf_session_commit(struct rf_session *session, int32_t token, struct rf_error *error);

/* Commits and reads tokens, in blocks. Tokens out of the vocabulary and tokens that do not fit are
 * refused before anything happens. When cancelled, the blocks that were read stay committed. */
int rf_session_read(struct rf_session *session, const int32_t *tokens, int32_t n,
                    rf_read_progress progress, void *user, struct rf_error *error);

/* Commits and reads tokens, and writes log p(tokens[i] | everything before) for i in [first, n) to
 * logprobs[i - first]. */
int rf_session_score(struct rf_session *session, const int32_t *tokens, int32_t n, int32_t first,
                     double *logprobs, struct rf_error *error);

/* The logits [n_vocab] after the last committed token, reading what has not been read; NULL on
 * failure. Valid until the next call. A session without tokens has none: RF_ERR_ARGUMENT. */
const float *rf_session_logits(struct rf_session *session, struct rf_error *error);

enum { RF_SESSION_LOGITS = 16 }; /* rows whose logits are kept at a time */

/* Makes tokens[0 .. n) the committed ones. What has been read of what they share with the present
 * ones stays read. */
int rf_session_follow(struct rf_session *session, const int32_t *tokens, int32_t n,
                      struct rf_error *error);
/* Tokens that the next verification has to read, if tokens[0 .. n) are committed then; never 0
 * without logits. */
int32_t rf_session_unread(struct rf_session *session, const int32_t *tokens, int32_t n);

/* Reads what is unread of the committed tokens and n_draft < RF_SESSION_LOGITS rows after them, in
 * one pass but for the blocks of a long text. Row i <= n_draft of rf_session_row is then what
 * follows the last committed token (0) or draft row i - 1. parents[i] < i: the draft row that row i
 * follows, or -1; NULL: each follows the one before. `prepared`, if not NULL, is called before that
 * last pass, with the number of its rows. The session's tokens stay as they are. */
int rf_session_verify(struct rf_session *session, const int32_t *draft, const int32_t *parents,
                      int32_t n_draft, void (*prepared)(void *user, int32_t rows), void *user,
                      struct rf_error *error);
const float *rf_session_row(const struct rf_session *session, int32_t i);
/* Commits the draft rows path[0 .. n) of the last verification (ascending, each the child of the
 * one before), as read. */
void rf_session_keep(struct rf_session *session, const int32_t *path, int32_t n);

/* Workers that a pass over one token has by now. */
int32_t rf_session_workers(const struct rf_session *session);

/* Forgets all tokens after the first n <= n_tokens. */
void rf_session_rewind(struct rf_session *session, int32_t n);

/* Seconds of each of `repeats` passes over n_rows rows after `context` tokens; leaves the session
 * as it was. */
int rf_session_time_passes(struct rf_session *session, int32_t n_rows, int32_t context,
                           int32_t repeats, double *seconds, struct rf_error *error);

#endif
