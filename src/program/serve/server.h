/* The state that the threads of the server share: the network's threads, which take requests and
 * send replies, the one that computes, one that compiles schemas and one that reloads the model.
 * Members are under the lock where that is said. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "platform/condition.h"
#include "serve/endpoint.h"
#include "serve/metrics.h"
#include "serve/serve.h"

/* A model that answers. After a reload the one before ends the answers that it has begun. */
struct served {
    struct served *next; /* older */
    struct rf_serve_model model;
    struct answerer answerer;
    riffle_batch *batch; /* the computing thread's alone */
    atomic_int users;    /* exchanges */
};

enum exchange_state {
    EXCHANGE_OPEN,      /* the network's alone */
    EXCHANGE_COMPILING, /* the compiling thread takes it from the server's list */
    EXCHANGE_WAITING,   /* waits in the list for the batch */
    EXCHANGE_ASKED,     /* still in the list; the batch has it */
    EXCHANGE_ANSWERED   /* the network's alone again */
};

/* A request and its reply. */
struct exchange {
    struct server *server;
    struct exchange *next; /* next one in the server's list */
    struct MHD_Connection *connection;
    struct client *client;
    const struct endpoint *endpoint; /* NULL: it was refused */
    struct rf_bytes body;
    int is_too_long;       /* the body; its rest is dropped */
    struct served *served; /* NULL: no question yet */
    struct question question;
    struct reply reply;

    /* Guarded by the server's lock: */
    enum exchange_state state;
    int is_gone;      /* the connection is closed: who has it last frees it */
    int is_suspended; /* the network waits for output */
    int socket;
    struct choice *choices; /* [n_choices] */
    int32_t n_choices, n_left, width;
    struct reply_usage usage;
    struct refusal refusal; /* status 0: none */
    struct rf_bytes out;    /* text, or events */
    size_t sent;            /* bytes of the events that were sent */
    int has_begun;          /* an event is out */
};

struct server {
    const struct rf_serve_options *options;
    struct MHD_Daemon *daemon;
    int is_local;
    int64_t started;

    struct rf_lock lock; /* guards the members below */
    struct rf_condition news, to_compile, to_reload;
    struct served *served; /* the newest; only the computing thread takes old ones out */
    struct client *clients;
    double next_look;           /* time of the next look at the clients */
    struct exchange *exchanges; /* compiling, waiting and asked, the oldest first */
    int32_t n_waiting, n_asked; /* waiting: also compiling */
    int32_t n_open;             /* requests whose connection has not ended them */
    int is_ending;              /* no new answers */
    int is_over;                /* no answers are left */
    int wants_reload;
    struct metrics metrics;
};

#endif
