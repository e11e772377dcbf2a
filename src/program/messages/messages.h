/* Messages of a request, in the form that chat templates take. The server and the chat call it
 * before the library sees a conversation. */
#ifndef MESSAGES_MESSAGES_H
#define MESSAGES_MESSAGES_H

#include <jansson.h>

#include "messages/refusal.h"

/* {"messages": [...], "tools": ...} for riffle_chat_tokenize_json; `tools` may be NULL. Contents
 * are one text each, and the arguments of calls objects. For json_decref(); NULL: a refusal. */
json_t *conversation_make(const json_t *messages, json_t *tools, struct refusal *refusal);

#endif
