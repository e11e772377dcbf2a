/* What the two endpoints of Anthropic's messages share: the question and the form of errors. */
#ifndef SERVE_ENDPOINTS_MESSAGES_H
#define SERVE_ENDPOINTS_MESSAGES_H

#include "requests/reply.h"

/* Reads a body of messages. `has_most`: "max_tokens" must be there. 0, or -1 with a refusal. */
int messages_take(const json_t *body, const struct answerer *of, int has_most,
                  struct question *question, struct refusal *refusal);
/* A refusal in Anthropic's form; `begun`: the stream that it ends, or NULL. For
 * free(). */
char *messages_refusal(const struct refusal *refusal, const struct reply *begun);

#endif
