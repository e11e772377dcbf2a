/* What is written to clients: objects of OpenAI's reference, as JSON and as server-sent events.
 * Texts are for free(); NULL: out of memory. */
#ifndef RF_SERVE_REPLY_H
#define RF_SERVE_REPLY_H

#include <riffle_experimental.h>

#include "serve/question.h"

/* What all parts of an answer have in common. */
struct reply {
    enum question_kind kind;
    uint64_t id;
    int64_t created; /* seconds since 1970 */
    const char *model;
};

/* 1 if replies can have the name. */
int reply_can_name(const char *name);

/* "stop" or "length". */
const char *reply_finish(riffle_finish finish);

char *reply_whole(const struct reply *reply, const char *text, size_t bytes,
                  const riffle_answer *answer);
/* An event with a piece of the text; `finish` NULL: more comes. */
char *reply_piece(const struct reply *reply, const char *text, size_t bytes, int is_first,
                  const char *finish);
/* The event with the usage. */
char *reply_usage(const struct reply *reply, const riffle_answer *answer);
char *reply_refusal(const struct refusal *refusal);
/* The same as an event of an answer that had begun. */
char *reply_cut(const struct refusal *refusal);
char *reply_models(const char *name, int64_t created);

#endif
