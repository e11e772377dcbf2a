/* A full context: counts the tokens of a conversation and drops its oldest turns. Answers call it
 * before they read the conversation, and when the context is full. */
#ifndef CHAT_CONTEXT_H
#define CHAT_CONTEXT_H

#include "chat/chat.h"

/* Whether a full context drops the oldest turns instead of ending the answer. */
int chat_drops(const struct chat *chat);
/* Says once what may be done about a full context. */
void chat_explain_full(struct chat *chat);
/* Drops whole turns, the oldest first, until the conversation, n_answer tokens of an answer that
 * has begun, and room for more fit the context; says how many. The system message and the last turn
 * stay. CLI_FAILED with a sentence, and nothing dropped, if these alone do not fit. */
int chat_make_room(struct chat *chat, size_t n_answer);

#endif
