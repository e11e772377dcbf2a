/* The text of replies: objects of OpenAI's reference, as JSON and as server-sent events. Texts are
 * for free(); NULL: out of memory. */
#ifndef REQUESTS_REPLY_H
#define REQUESTS_REPLY_H

#include "requests/question.h"

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
    size_t offset;        /* characters of a completion before these tokens */
    const json_t *calls;  /* calls of tools; NULL: none */
    int32_t n_calls;      /* number of calls before these */
    const float *vector;  /* vector of an embedding; NULL: none */
    int32_t width;        /* numbers of the vector */
};

/* Tokens of a request. */
struct reply_usage {
    int64_t prompt, kept, generated, drafted, accepted;
};

struct reply;

/* How the replies of an endpoint look. */
struct reply_form {
    /* Writes the reply that is not streamed; reply_whole, unless there are no answers. */
    char *(*whole)(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                   const struct reply_usage *usage);
    /* The rest is for reply_whole, reply_piece and reply_usage. */
    const char *id;                    /* beginning of ids */
    const char *object, *piece_object; /* the member "object" of a whole reply, of a piece */
    json_t *(*say)(const struct reply_part *part, int is_piece); /* the members with the text */
    json_t *(*logprobs)(const struct reply_part *part); /* value of "logprobs" for part->tokens */
};

/* The members that all parts of a reply have in common. */
struct reply {
    const struct reply_form *form;
    const struct question *question;
    uint64_t id;
    int64_t created; /* seconds since 1970 */
    const char *model;
};

/* Takes the value and writes it as JSON, or as a server-sent event. */
char *reply_write(json_t *value, int is_event);
/* A text that may be empty. */
json_t *reply_text(const char *text, size_t bytes);
/* 1 if replies can have the name. */
int reply_can_name(const char *name);

/* "stop" or "length". */
const char *reply_finish(riffle_finish finish);
/* A token with its log-probabilities, as "logprobs" of chats has them. For json_decref(). */
json_t *reply_token(const riffle_model *model, const riffle_logprobs *logprobs);
/* The entry of the last of the n tokens that a prompt begins with; "bytes" are the bytes that the
 * prompt's text has of it. begins: the text of those before is empty. logprobs NULL: it is the
 * first token.
 */
json_t *reply_prompt_token(const riffle_model *model, const int32_t *tokens, size_t n, int begins,
                           const riffle_logprobs *logprobs);
/* Characters of such a token, of an array of them. */
size_t reply_token_characters(const json_t *entry);
size_t reply_characters(const json_t *tokens);

char *reply_whole(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage);
/* An event with a piece of an answer; "usage" is null where the last event tells it. */
char *reply_piece(const struct reply *reply, const struct reply_part *part);
/* The event with the usage. */
char *reply_usage(const struct reply *reply, const struct reply_usage *usage);
char *reply_refusal(const struct refusal *refusal);
/* The refusal as an event of an answer that had begun. */
char *reply_cut(const struct refusal *refusal);

#endif
