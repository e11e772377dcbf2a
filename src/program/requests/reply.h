/* The text of replies: objects of OpenAI's reference, as JSON and as server-sent events. Texts are
 * for free(); NULL: out of memory. */
#ifndef REQUESTS_REPLY_H
#define REQUESTS_REPLY_H

#include "base/alloc.h"
#include "base/error.h"
#include "requests/question.h"

enum {
    REPLY_LISTS = 4,
    REPLY_BYTES = 48 << 20 /* limit of the log-probabilities of one reply, and of a known one */
};

/* Tokens with log-probabilities, as text already: what the form makes of them. */
struct reply_tokens {
    struct rf_bytes lists[REPLY_LISTS]; /* elements with commas between them */
    size_t n;                           /* tokens in the lists */
    size_t offset;                      /* characters of the reply's text before the next token */
    size_t total;                       /* bytes of all lists so far, cleared ones too */
    int has_echoed;                     /* the text of the prompt's tokens so far is not empty */
};

/* An answer, or a piece of one. */
struct reply_part {
    int32_t index;
    const char *text;
    size_t bytes;
    const char *thought; /* the model's, before the text */
    size_t thought_bytes;
    int is_opening;                    /* comes before all other pieces, and says nothing yet */
    const char *finish;                /* NULL: more comes */
    const char *stop;                  /* the stop text that ended it, or NULL */
    const struct reply_tokens *tokens; /* NULL: no log-probabilities are wanted */
    const json_t *calls;               /* calls of tools; NULL: none */
    int32_t n_calls;                   /* number of calls before these */
    const float *vector;               /* vector of an embedding; NULL: none */
    int32_t width;                     /* numbers of the vector */
    int32_t level; /* the level that proposed the last token, as in riffle_event */
};

/* Tokens of a request, and the times of its longest answer. */
struct reply_usage {
    int64_t prompt, kept, generated, drafted, accepted;
    int64_t thought;                      /* of the generated ones */
    double prompt_seconds, token_seconds; /* up to the first token; from there to the end */
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
    int has_opening;                   /* streams begin with an opening */
    const char *media;                 /* of streams; NULL: that of server-sent events */
    json_t *(*say)(const struct reply_part *part, int is_piece); /* the members with the text */
    /* Adds a token to the lists. 0, or a code. */
    int (*add_token)(struct reply_tokens *tokens, const riffle_model *model,
                     const riffle_logprobs *logprobs, int has_logprob);
    /* Writes the value of "logprobs". */
    void (*write_tokens)(struct rf_writer *out, const struct reply_tokens *tokens);
    /* Endpoints with events of their own, else NULL: a piece and the end of a stream, and a
     * refusal, also the one that ends `begun`, a stream. */
    char *(*piece)(const struct reply *reply, const struct reply_part *part);
    char *(*end)(const struct reply *reply, const struct reply_usage *usage);
    char *(*refusal)(const struct refusal *refusal, const struct reply *begun);
};

/* How far a stream of blocks, or of items, is (endpoints/messages.c, responses.c). */
struct reply_blocks {
    int has_begun, n; /* n: blocks that were opened */
    int open;         /* kind of the open block, of the endpoint's; 0: none */
    const char *finish, *stop;
    int64_t n_events;
    struct rf_bytes text; /* of the open item; like `items` only where events repeat them */
    json_t *items;        /* ended ones; NULL: none */
};

/* The members that all parts of a reply have in common. */
struct reply {
    const struct reply_form *form;
    const struct question *question;
    uint64_t id;
    int64_t created; /* seconds since 1970 */
    double arrived;  /* by rf_clock_seconds */
    const char *model, *fingerprint;
    struct reply_blocks *blocks;
};

/* Takes the value and writes it as JSON, or as a server-sent event. */
char *reply_write(json_t *value, int is_event);
/* A text that may be empty. */
json_t *reply_text(const char *text, size_t bytes);
/* 1 if replies can have the name. */
int reply_can_name(const char *name);

/* Takes the times of an answer that took longer than those before. One without a token has only the
 * time of its prompt. */
void reply_count_seconds(struct reply_usage *usage, const riffle_answer *answer);
/* "stop" or "length". */
const char *reply_finish(riffle_finish finish);
/* A token of an answer, and the last of the n tokens that a prompt begins with (logprobs NULL: it
 * is the first one). 0, or a code. */
int reply_add_token(const struct reply_form *form, struct reply_tokens *tokens,
                    const riffle_model *model, const riffle_logprobs *logprobs);
int reply_add_prompt_token(const struct reply_form *form, struct reply_tokens *tokens,
                           const riffle_model *model, const int32_t *ids, size_t n,
                           const riffle_logprobs *logprobs);
/* reply_form.add_token of chats: an object in the first list. */
int reply_add_chat_token(struct reply_tokens *tokens, const riffle_model *model,
                         const riffle_logprobs *logprobs, int has_logprob);
size_t reply_tokens_bytes(const struct reply_tokens *tokens);
void reply_tokens_clear(struct reply_tokens *tokens);
void reply_tokens_free(struct reply_tokens *tokens);

/* Parts of a text that is being written. reply_take gives the text, for free(), and frees `bytes`;
 * NULL: something failed. */
struct rf_writer reply_writer(struct rf_bytes *bytes, struct rf_error *error);
char *reply_take(struct rf_bytes *bytes, const struct rf_writer *out);
/* Take the value. An event has the name that the value's "type" says. */
void reply_write_json(struct rf_writer *out, json_t *value);
void reply_write_event(struct rf_writer *out, json_t *value);
void reply_write_real(struct rf_writer *out, float value);
void reply_write_vector(struct rf_writer *out, const float *vector, int32_t width);
/* A text that need not be UTF-8, quoted: U+FFFD stands for what is none. */
void reply_write_broken_text(struct rf_writer *out, const char *text, size_t bytes);
void reply_write_logprob(struct rf_writer *out, float logprob);
void reply_write_token_text(struct rf_writer *out, const riffle_model *model, int32_t token);
void reply_write_token_bytes(struct rf_writer *out, const riffle_model *model, int32_t token);

char *reply_whole(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage);
/* The reply that is known already (question.known); in place of reply_whole. */
char *reply_known(const struct reply *reply, const struct reply_part *parts, int32_t n_parts,
                  const struct reply_usage *usage);
/* An event with a piece of an answer; "usage" is null where the last event tells it. */
char *reply_piece(const struct reply *reply, const struct reply_part *part);
/* The events at the end of a stream, with the usage if it is wanted. */
char *reply_end(const struct reply *reply, const struct reply_usage *usage);
/* In the form of the endpoint; NULL: in OpenAI's. `begun`: the stream that it ends, or NULL. */
char *reply_refusal(const struct reply_form *form, const struct refusal *refusal,
                    const struct reply *begun);

#endif
