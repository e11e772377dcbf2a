/* An endpoint: one method of one path. Each is a file of endpoints/, which defines endpoint_NAME
 * for NAME.c; the build writes their list. The network finds them here: routing, refusals of other
 * methods, keys and the limit of bodies follow from these fields. */
#ifndef SERVE_ENDPOINT_H
#define SERVE_ENDPOINT_H

#include "requests/reply.h"

struct exchange;
struct server;

struct endpoint {
    const char *method, *path;
    int is_open;    /* needs no key */
    int takes_rest; /* the path ends with a slash, and is followed by a text */

    /* Sends the reply at once, on the network's thread. */
    void (*send)(struct exchange *exchange);
    /* Writes the reply, JSON for free(), on a thread that prepares: it may read files. NULL: a
     * refusal, or out of memory. Called without the server's lock. */
    char *(*tell)(struct server *server, const char *rest, struct refusal *refusal);
    /* Else a model is asked, as follows. */

    size_t most_body;  /* bytes; larger bodies are refused with 413 */
    int is_ollama;     /* JSON under any Content-Type, but from browsers; "name" names models */
    question_fn *take; /* reads the body's question */
    const struct reply_form *form;
};

enum { ENDPOINT_BODY = 4 << 20 }; /* the usual limit */

/* Ended by NULL. */
extern const struct endpoint *const endpoints[];

#endif
