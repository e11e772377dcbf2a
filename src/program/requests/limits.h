/* What limits the text of an answer: schemas, grammars, expressions and lists of choices, by the
 * names that OpenAI, llama.cpp and vLLM have for them. Endpoints with text answers call it, and
 * tool_choice.c for a call that must come. */
#ifndef REQUESTS_LIMITS_H
#define REQUESTS_LIMITS_H

#include <jansson.h>

#include "requests/question.h"

/* Takes every member of the body that limits the answer. 0, or -1 with a refusal. */
int limits_take(const json_t *body, struct question *question, struct refusal *refusal);
/* Limits the answer to a schema or a choice, which the member `name` asked for; refused where
 * another one did. */
int limits_add(const char *name, const json_t *schema, riffle_grammar_kind kind,
               struct question *question, struct refusal *refusal);

#endif
