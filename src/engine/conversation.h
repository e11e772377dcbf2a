/* Conversations: messages, or a JSON object, to text and tokens by the model's chat template.
 * Tokens that a session has already read are kept. */
#ifndef RF_ENGINE_CONVERSATION_H
#define RF_ENGINE_CONVERSATION_H

#include <riffle.h>

#include "engine/session.h"

/* Messages [n_messages], or a JSON text where json.data is not NULL. */
struct rf_conversation {
    const riffle_message *messages;
    size_t n_messages;
    struct rf_str json;
};

/* Renders the conversation; `stop` may be NULL. The caller frees *rendered, also after a failure.
 */
int rf_conversation_render(const struct rf_engine *engine,
                           const struct rf_conversation *conversation, int add_generation_prompt,
                           const struct rf_jinja_stop *stop, struct rf_rendered *rendered,
                           struct rf_error *error);
/* The tokens of a conversation up to the assistant's answer. The caller frees *tokens, also after a
 * failure. */
int rf_conversation_tokenize(const struct rf_engine *engine,
                             const struct rf_conversation *conversation, struct rf_tokens *tokens,
                             struct rf_error *error);
/* Makes the conversation the session's text and reads its new tokens. Returns how many tokens were
 * read, or a code. */
int64_t rf_conversation_prefill(struct rf_session *session,
                                const struct rf_conversation *conversation, struct rf_error *error);

#endif
