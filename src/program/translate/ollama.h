/* Requests of ollama's interface, as requests for chats, completions and embeddings. So the answers
 * have the tokens of those. The endpoints of ollama call it. */
#ifndef TRANSLATE_OLLAMA_H
#define TRANSLATE_OLLAMA_H

#include <jansson.h>

#include "requests/question.h"

/* The body of /v1/chat/completions that asks for the same. For json_decref(); NULL: a refusal. */
json_t *ollama_to_chat(const json_t *body, const struct answerer *of, struct refusal *refusal);

/* /api/generate asks for a chat of one message, or, with "raw" or "suffix", for a completion. */
enum ollama_target { OLLAMA_TO_CHAT, OLLAMA_TO_COMPLETION };

json_t *ollama_generate_to(const json_t *body, const struct answerer *of,
                           enum ollama_target *target, struct refusal *refusal);
/* The body of /v1/embeddings; `name`: the member with the texts. */
json_t *ollama_to_embedding(const json_t *body, const char *name, struct refusal *refusal);
/* 1 if the body asks for nothing, but only has a server load the model; `name`: the member with
 * what would be asked. */
int ollama_only_loads(const json_t *body, const char *name);

#endif
