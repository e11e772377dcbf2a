/* The members of requests of the Responses interface beside the conversation, as members of a
 * request for a chat. items.c calls it. */
#ifndef TRANSLATE_ITEM_OPTIONS_H
#define TRANSLATE_ITEM_OPTIONS_H

#include <jansson.h>

#include "requests/question.h"

/* Adds them to the chat's body. 0, or -1 with a refusal. */
int item_options_add(json_t *chat, const json_t *body, const struct answerer *of,
                     struct refusal *refusal);

#endif
