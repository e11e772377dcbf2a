/* What is written to clients: objects of OpenAI's reference, as JSON and as server-sent events.
 * Texts are for free(); NULL: out of memory. */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H

#include "serve/question.h"

/* What all parts of a reply have in common. */
struct reply {
    enum question_kind kind;
    uint64_t id;
    int64_t created; /* seconds since 1970 */
    const char *model;
};

/* An answer, or a piece of one. */
struct reply_part {
    int32_t index;
    const char *text;
    size_t bytes;
    const char *thought; /* the model's, before the text */
    size_t thought_bytes;
    int is_first;         /* piece of the answer */
    const char *finish;   /* NULL: more comes */
    const json_t *tokens; /* reply_token of each, where log-probabilities are wanted; else NULL */
    size_t offset;        /* of a completion: characters before these tokens */
    const json_t *calls;  /* of tools; NULL: none */
    int32_t n_calls;      /* before these */
};

/* Tokens of a request. */
struct reply_usage {
    int64_t prompt, kept, generated, drafted, accepted;
};

/* 1 if replies can have the name. */
int reply_can_name(const char *name);

/* "stop" or "length". */
const char *reply_finish(riffle_finish finish);
/* A token with its log-probabilities, as "logprobs" of chats has them. For json_decref(). */
json_t *reply_token(const riffle_model *model, const riffle_logprobs *logprobs);
/* The same of the last of the n tokens that a prompt begins with; "bytes" are what the prompt's
 * text has of it. begins: the text of those before is empty. logprobs NULL: it is the first token.
 */
json_t *reply_prompt_token(const riffle_model *model, const int32_t *tokens, size_t n, int begins,
                           const riffle_logprobs *logprobs);
/* Characters of such tokens. */
size_t reply_characters(const json_t *tokens);

char *reply_whole(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage);
/* An event with a piece of an answer. */
char *reply_piece(const struct reply *reply, const struct reply_part *part);
/* The event with the usage. */
char *reply_usage(const struct reply *reply, const struct reply_usage *usage);
/* vectors[n][width] */
char *reply_embeddings(const struct reply *reply, float *const *vectors, int32_t n, int32_t width,
                       int is_base64, const struct reply_usage *usage);
char *reply_refusal(const struct refusal *refusal);
/* The same as an event of an answer that had begun. */
char *reply_cut(const struct refusal *refusal);
char *reply_models(const char *name, int64_t created);

#endif
