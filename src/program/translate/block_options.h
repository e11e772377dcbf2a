/* The members of Anthropic's requests beside the conversation, as members of a request for a chat.
 * blocks.c calls it. */
#ifndef TRANSLATE_BLOCK_OPTIONS_H
#define TRANSLATE_BLOCK_OPTIONS_H

#include <jansson.h>

#include "requests/question.h"

/* Adds them to the chat's body. 0, or -1 with a refusal. */
int block_options_add(json_t *chat, const json_t *body, const struct answerer *of, int has_most,
                      struct refusal *refusal);

#endif
