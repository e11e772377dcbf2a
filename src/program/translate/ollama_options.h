/* The members of ollama's requests beside the conversation, as members of a request for a chat or a
 * completion. ollama.c calls it. */
#ifndef TRANSLATE_OLLAMA_OPTIONS_H
#define TRANSLATE_OLLAMA_OPTIONS_H

#include <jansson.h>

#include "requests/question.h"

/* Adds the members "options", "format" and "stream" to the body `to`. 0, or -1 with a refusal. */
int ollama_options_add(json_t *to, const json_t *body, struct refusal *refusal);
/* Only checks the options. */
int ollama_options_check(const json_t *body, struct refusal *refusal);
/* Adds "think" to a chat. */
int ollama_options_add_think(json_t *chat, const json_t *body, const struct answerer *of,
                             struct refusal *refusal);
/* Refuses a context that the server does not have; *n_ctx: the one that is asked for, else as it
 * was. */
int ollama_options_context(const json_t *body, int32_t *n_ctx, struct refusal *refusal);

#endif
