/* The question of a request, as OpenAI's reference defines it. An endpoint fills it from the body;
 * the server has it answered and then frees it. */
#ifndef REQUESTS_QUESTION_H
#define REQUESTS_QUESTION_H

#include <riffle_experimental.h>

#include "answers/thoughts.h"
#include "answers/tools.h"
#include "messages/refusal.h"

enum { MOST_STOPS = 16, MOST_CHOICES = 16, MOST_PROMPTS = 256, MOST_VALUES = 250000 };

/* The model that answers, and how it writes calls and thoughts. */
struct answerer {
    riffle_model *model;
    const char *name;
    char fingerprint[24];            /* of the build and the model */
    int32_t n_ctx;                   /* tokens of the context */
    const riffle_sampling *sampling; /* values that a request leaves open; its seed is not used */
    struct tool_manner tools;
    const struct thought_form *thoughts;
    int has_effort; /* the chat template reads reasoning_effort */
    enum template_thinking thinking;
};

struct prompt {
    int32_t *tokens;
    size_t n;
    int32_t most; /* tokens of the context; 0: unknown */
};

struct question {
    int streams, tells_usage, tells_levels;
    int32_t n_ctx;
    struct prompt *prompts; /* [n_prompts]; a chat has one */
    int32_t n_prompts, n;   /* n: answers to each prompt */
    riffle_sampling sampling;
    riffle_generate_options generate;
    char *stops[MOST_STOPS];
    int wants_logprobs;
    int32_t top_logprobs;
    riffle_logit_bias *bias; /* [n_bias] */
    size_t n_bias;
    json_t *tools; /* NULL: none may be called */
    json_t *told;  /* members that the reply repeats; NULL: none */
    const struct tool_form *tool_form;
    char *opening;          /* beginning of a call, which the prompt ends with; or NULL */
    int32_t most_calls;     /* 0: any number */
    int echoes;             /* the prompt comes before the answer */
    int only_echoes;        /* the answer, which has one token, is not told */
    char *schema;           /* limit of the answer, for question_compile; NULL: any text */
    const char *limited_by; /* the member that asked for it */
    riffle_grammar_kind schema_kind;
    riffle_grammar *grammar;
    int has_thoughts; /* the answer may begin with thoughts */
    int only_counts;  /* the prompt's tokens are told, and nothing is computed */
    char *known;      /* the reply, which needs no answer; or NULL */
    int wants_vector; /* an embedding, no text */
    riffle_pooling pooling;
    int wants_base64;
};

/* An endpoint's own part of the work: takes the members of a body. 0, or -1 with a refusal. */
typedef int question_fn(const json_t *body, const struct answerer *of, struct question *question,
                        struct refusal *refusal);

/* Reads a body as JSON, for json_decref; NULL: a refusal. *model: the name of a model that is in
 * it; NULL: none. `other`: another name of the member "model", or NULL. */
json_t *question_read(const char *body, size_t bytes, const char *other, const char **model,
                      struct refusal *refusal);
/* Fills the question for the model that was found, and has `take` do all that endpoints differ in.
 * 0, or -1 with a refusal and nothing to free. */
int question_take(struct question *question, question_fn *take, const json_t *body,
                  const struct answerer *of, struct refusal *refusal);
/* Takes the members that all questions answered with text have: how many answers, how long, how
 * they are chosen and where they stop. generate.max_tokens has its default before. */
int question_take_answer(const json_t *body, int32_t least_tokens, struct question *question,
                         struct refusal *refusal);
/* The member "logit_bias": {"token": bias, ...}. */
int question_take_bias(const json_t *body, struct question *question, struct refusal *refusal);
/* Compiles the schema, until `stops` says otherwise. 0, or -1 with a refusal. */
int question_compile(struct question *question, const riffle_model *model, riffle_stops_fn stops,
                     void *user, struct refusal *refusal);
void question_free(struct question *question);

#endif
