/* An answer between its rounds: its text up to stop texts and whole characters, and the reasons to
 * end it. rf_session_generate and batches both make answers with it. */
#ifndef RF_ENGINE_GENERATION_H
#define RF_ENGINE_GENERATION_H

#include <riffle_experimental.h>

#include "engine/grammar_store.h"
#include "engine/session.h"
#include "infer/repetition.h"
#include "text/utf8_stream.h"

/* Options of an answer, defaults taken. The grammar is options.grammar's own store. */
struct rf_answer_options {
    riffle_generate_options options;
    struct rf_grammar_store *grammar; /* NULL: any text */
};

struct generation {
    struct rf_session *session;
    struct rf_answer_options wanted;
    riffle_on_event on_event;       /* may be NULL */
    riffle_on_logprobs on_logprobs; /* may be NULL */
    void *user;
    struct rf_log_probs *log_probs; /* [RF_DRAFT_ROWS + 1]: the last round's; NULL: not wanted */
    struct rf_matcher *matcher;     /* follows the grammar; or NULL */
    /* Text that was generated but not yet given to the caller: unfinished characters, and the
     * possible beginning of a stop text. */
    struct rf_utf8_stream characters;
    struct rf_bytes held;
    const char *stopped; /* the stop text that was found, one of the options; or NULL */
    int64_t generated;
    struct rf_repetition repetition;
};

/* Tells the caller the log-probabilities found at a token's place. */
void rf_generation_tell_logprobs(const struct rf_log_probs *found, int32_t token,
                                 riffle_on_logprobs on_logprobs, void *user);

/* Checks the options; what they point to must outlive the generation. On failure nothing is open.
 */
int rf_generation_begin(struct generation *g, struct rf_session *session,
                        const struct rf_answer_options *wanted, riffle_on_event on_event,
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

/* A whole answer: riffle_generate. Returns the number of tokens, or a code. */
int64_t rf_session_generate(struct rf_session *session, const struct rf_answer_options *wanted,
                            riffle_on_event on_event, void *user, struct rf_error *error);
/* One round: riffle_step. Writes up to `cap` >= 1 tokens and returns how many, or a code. */
int64_t rf_session_step(struct rf_session *session, int32_t *tokens, size_t cap,
                        struct rf_error *error);

#endif
