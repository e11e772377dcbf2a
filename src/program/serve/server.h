/* The state that the threads of the server share: the network's thread, which takes requests and
 * sends replies, those that prepare questions, the one that computes, and those that open and fetch
 * models. Members are under the lock where that is said. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "http/network.h"
#include "platform/condition.h"
#include "serve/endpoint.h"
#include "serve/models.h"

enum exchange_state {
    EXCHANGE_OPEN,      /* the network's alone */
    EXCHANGE_ARRIVED,   /* a thread is to take it from the server's list and prepare it */
    EXCHANGE_PREPARING, /* that thread has it */
    EXCHANGE_AWAITING,  /* waits in the list for its model; then it has arrived again */
    EXCHANGE_WAITING,   /* waits in the list for the batch */
    EXCHANGE_ASKED,     /* still in the list; the batch has it */
    EXCHANGE_ANSWERED   /* the network's alone again */
};

/* A request and its reply. */
struct exchange {
    struct server *server;
    struct exchange *next;           /* next one in the server's list */
    struct http_request *request;    /* not to be used when the exchange is gone */
    const struct endpoint *endpoint; /* NULL: it was refused */
    char *rest;                      /* of the path, for endpoints that take one; or NULL */
    struct served *served;           /* NULL: no model yet */
    struct question question;
    struct reply reply;
    struct reply_blocks blocks; /* the reply's */

    /* Guarded by the server's lock: */
    enum exchange_state state;
    struct served_model *awaited; /* while the state is EXCHANGE_AWAITING */
    double wait_end;              /* the clock when it stops waiting */
    int is_gone;                  /* the connection is closed: who has it last frees it */
    struct choice *choices;       /* [n_choices] */
    int32_t n_choices, n_left, width;
    struct reply_usage usage;
    struct refusal refusal; /* status 0: none */
    size_t token_bytes;     /* log-probabilities */
    int has_begun;          /* an event is out */
};

struct server {
    const struct rf_serve_options *options;
    struct http_network *network;
    struct http_handler handler;
    int is_local;
    int64_t started;
    _Atomic uint64_t replies[METRICS_STATUSES]; /* by status */

    struct rf_lock lock; /* guards the members below */
    struct rf_condition news, to_prepare;
    struct served_models models;
    struct exchange *exchanges; /* all that are not answered, the oldest first */
    int32_t n_waiting, n_asked; /* waiting: also those that are being prepared */
    int is_ending;              /* no new answers */
    int is_over;                /* no answers are left */
};

#endif
