/* What a request's body asks, as OpenAI's reference has it. */
#ifndef SERVE_QUESTION_H
#define SERVE_QUESTION_H

#include <riffle_experimental.h>

#include "messages/refusal.h"
#include "messages/thoughts.h"
#include "messages/tools.h"

enum question_kind { QUESTION_CHAT, QUESTION_COMPLETION, QUESTION_EMBEDDING };

enum { MOST_STOPS = 16, MOST_CHOICES = 16, MOST_PROMPTS = 256 };

/* What questions are asked of. */
struct answerer {
    riffle_model *model;
    const char *name;
    const riffle_sampling *sampling; /* where a request leaves it open; its seed is not used */
    enum tool_form tool_form;
    const struct thought_form *thoughts;
};

struct prompt {
    int32_t *tokens;
    size_t n;
};

struct question {
    enum question_kind kind;
    int streams, tells_usage;
    struct prompt *prompts; /* [n_prompts]; of a chat there is one */
    int32_t n_prompts, n;   /* answers to each */
    riffle_sampling sampling;
    riffle_generate_options generate;
    char *stops[MOST_STOPS];
    int wants_logprobs;
    int32_t top_logprobs;
    riffle_logit_bias *bias; /* [n_bias] */
    size_t n_bias;
    json_t *tools; /* NULL: none may be called */
    enum tool_form tool_form;
    char *opening;      /* of a call that the prompt has begun, or NULL */
    int32_t most_calls; /* 0: any number */
    int echoes;         /* the prompt comes before the answer */
    int only_echoes;    /* and of the answer, which has one token, nothing is told */
    char *schema;       /* what limits the answer, for question_compile; NULL: any text */
    riffle_grammar_kind schema_kind;
    riffle_grammar *grammar;
    riffle_pooling pooling;
    int wants_base64;
};

/* 0, or -1 with a refusal and nothing to free. */
int question_parse(struct question *question, enum question_kind kind, const char *body,
                   size_t bytes, const struct answerer *of, struct refusal *refusal);
/* Compiles the schema, until `stops` says otherwise. 0, or -1 with a refusal. */
int question_compile(struct question *question, const riffle_model *model, riffle_stops_fn stops,
                     void *user, struct refusal *refusal);
void question_free(struct question *question);

#endif
