/* The prompts of a question, as tokens. All return 0, or -1 with a refusal; what was made until
 * then is the question's. */
#ifndef REQUESTS_PROMPTS_H
#define REQUESTS_PROMPTS_H

#include <jansson.h>

#include "requests/question.h"

/* Has the text, which is for free(), be the reply; nothing is computed. NULL: no memory. */
int prompts_need_none(struct question *question, char *known, struct refusal *refusal);
/* Makes n empty prompts. */
int prompts_make(struct question *question, size_t n, struct refusal *refusal);
/* Adds the tokens of a text; `flags` are RIFFLE_TOKENIZE_*. */
int prompt_add_text(struct prompt *prompt, const riffle_model *model, const char *text,
                    size_t bytes, unsigned flags, struct refusal *refusal);
/* Makes the empty prompt of a conversation, in the model's chat template. */
int prompt_add_chat(struct prompt *prompt, const riffle_model *model, const json_t *conversation,
                    struct refusal *refusal);
/* Ends a thought that the prompt has opened, if it has. */
int prompt_end_thoughts(struct prompt *prompt, const riffle_model *model,
                        const struct thought_form *form, struct refusal *refusal);
/* Makes the prompts of the member `name`: a text, a list of tokens, or a list of these. */
int prompts_take(const json_t *body, const char *name, const riffle_model *model,
                 struct question *question, struct refusal *refusal);

#endif
