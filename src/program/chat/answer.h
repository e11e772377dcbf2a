/* One turn of a chat: the conversation is read, the answer is streamed and becomes a message. The
 * loop of the verb and the command /regen call it. */
#ifndef CHAT_ANSWER_H
#define CHAT_ANSWER_H

#include "chat/chat.h"

/* Handles one message and its answer. A partial answer stays in the conversation; a message without
 * any answer is removed. CLI_OK, CLI_INTERRUPTED or CLI_FAILED. */
int chat_answer(struct chat *chat, const char *message, size_t n_message);
/* Answers the last message of the conversation, which stays in any case. */
int chat_answer_last(struct chat *chat);

#endif
