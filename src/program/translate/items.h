/* Requests of OpenAI's Responses interface, as requests for chats. Both interfaces then ask the
 * same question, so that they get the same tokens. The endpoint of responses calls it. */
#ifndef TRANSLATE_ITEMS_H
#define TRANSLATE_ITEMS_H

#include <jansson.h>

#include "requests/question.h"

/* The body of /v1/chat/completions that asks for the same. What the chat's reader would refuse by a
 * name of its own is refused here, by the name of the body's member. For json_decref(); NULL: a
 * refusal. */
json_t *items_to_chat(const json_t *body, const struct answerer *of, struct refusal *refusal);

#endif
