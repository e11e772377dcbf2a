/* Requests of Anthropic's Messages interface, as requests for chats. Both interfaces then ask the
 * same question, so that they get the same tokens. The endpoints of messages call it. */
#ifndef TRANSLATE_BLOCKS_H
#define TRANSLATE_BLOCKS_H

#include <jansson.h>

#include "requests/question.h"

/* The body of /v1/chat/completions that asks for the same. What the chat's reader would refuse by a
 * name of its own is refused here, by the name of the body's member. `has_most`: "max_tokens" must
 * be there. For json_decref(); NULL: a refusal. */
json_t *blocks_to_chat(const json_t *body, const struct answerer *of, int has_most,
                       struct refusal *refusal);

#endif
