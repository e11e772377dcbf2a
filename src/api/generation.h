/* An answer between its rounds: its text up to stop texts and whole characters, and the reasons to
 * end it. riffle_generate and batches both make answers so. */
#ifndef RF_API_GENERATION_H
#define RF_API_GENERATION_H

#include <riffle_experimental.h>

#include "api/handles.h"
#include "infer/repetition.h"
#include "text/utf8_stream.h"

struct generation {
    riffle_session *session;
    riffle_generate_options options;
    riffle_on_event on_event;       /* or NULL */
    riffle_on_logprobs on_logprobs; /* or NULL */
    void *user;
    struct rf_log_probs *log_probs; /* [RF_DRAFT_ROWS + 1]: the last round's; NULL: not wanted */
    struct rf_matcher *matcher;     /* of the grammar, or NULL */
    /* Text that was generated but not yet given to the caller: unfinished characters, and what may
     * be the beginning of a stop text. */
    struct rf_utf8_stream characters;
    struct rf_bytes held;
    int stopped; /* by a stop text */
    int64_t generated;
    struct rf_repetition repetition;
};

/* Tells the caller what was found at a token's place. */
void rf_api_tell_logprobs(const struct rf_log_probs *found, int32_t token,
                          riffle_on_logprobs on_logprobs, void *user);

/* The caller's options over the defaults. */
int rf_api_take_generation(riffle_generate_options *ours, const riffle_generate_options *given);

/* Checks the options; what they point to must outlive the generation. On failure nothing is open.
 */
int rf_generation_begin(struct generation *g, riffle_session *session,
                        const riffle_generate_options *options, riffle_on_event on_event,
                        void *user, struct rf_error *error);
/* From then on tells the log-probabilities of each token, with `top` likeliest ones, before the
 * token's event. */
int rf_generation_want_logprobs(struct generation *g, riffle_on_logprobs on_logprobs, int32_t top,
                                struct rf_error *error);
/* How many tokens the next round may yield: at least 1 as long as the answer goes on. */
int32_t rf_generation_room(const struct generation *g);
/* Takes what a round yielded, or its code: commits the tokens one by one and tells the caller.
 * Returns 0 to go on, 1 when the session's `finish` says why it is over, or a code. */
int rf_generation_take(struct generation *g, const struct rf_yield *yield, int32_t n,
                       struct rf_error *error);
/* Tells the rest of the text, unless `code` says that the answer failed. Returns the number of
 * tokens, or a code. */
int64_t rf_generation_end(struct generation *g, int code, struct rf_error *error);

#endif
