/* What the threads of the server share: the network's, which take requests and send replies, the
 * one that computes, one that compiles schemas and one that reloads the model. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "platform/condition.h"
#include "serve/metrics.h"
#include "serve/reply.h"
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
    EXCHANGE_COMPILING, /* in the server's list, for the compiling thread */
    EXCHANGE_WAITING,   /* in the list, for the batch */
    EXCHANGE_ASKED,     /* in the list; the batch has it */
    EXCHANGE_ANSWERED   /* the network's alone again */
};

/* One of the answers of a request, or one of its vectors. */
struct choice {
    struct exchange *exchange;
    int32_t index;
    int64_t answer;                /* of the batch; 0: it has ended, or not begun */
    struct rf_bytes text, thought; /* not sent yet */
    json_t *tokens;                /* likewise, with log-probabilities; NULL: not wanted */
    json_t *calls;                 /* likewise, of tools */
    int32_t n_calls;               /* sent */
    size_t characters;             /* of tokens that were sent */
    size_t n_prompt;               /* tokens of the prompt in `tokens` */
    int has_echoed;                /* the text of these is not empty */
    struct thoughts thoughts;
    int divides; /* the answer may begin with thoughts */
    struct tool_reader tools;
    int has_enough; /* calls: it was ended */
    float *vector;
    int has_begun; /* a piece was sent */
    riffle_finish finish;
    double last_token;
};

/* A request and its reply. */
struct exchange {
    struct server *server;
    struct exchange *next; /* in the server's list */
    struct MHD_Connection *connection;
    struct client *client;
    struct rf_bytes body;
    int has_failed;        /* a reply was queued before the body's end */
    struct served *served; /* NULL: no question yet */
    struct question question;
    struct reply reply;

    /* Under the server's lock: */
    enum exchange_state state;
    int is_gone;      /* the connection is closed: who has it last frees it */
    int is_suspended; /* the network waits for output */
    int socket;
    struct choice *choices; /* [n_choices] */
    int32_t n_choices, n_left, width;
    struct reply_usage usage;
    struct refusal refusal; /* status 0: none */
    struct rf_bytes out;    /* text, or events */
    size_t sent;            /* of the events */
    int has_begun;          /* an event is out */
};

struct server {
    const struct rf_serve_options *options;
    struct MHD_Daemon *daemon;
    int is_local;
    int64_t started;

    struct rf_lock lock; /* of what follows */
    struct rf_condition news, to_compile, to_reload;
    struct served *served; /* the newest; only the computing thread takes old ones out */
    struct client *clients;
    double next_look;           /* at the clients */
    struct exchange *exchanges; /* compiling, waiting and asked, the oldest first */
    int32_t n_waiting, n_asked; /* waiting: also compiling */
    int32_t n_open;             /* requests whose connection has not ended them */
    int is_ending;              /* no new answers */
    int is_over;                /* no answers are left */
    int wants_reload;
    struct metrics metrics;
};

/* ---- http.c ---- */

int http_start(struct server *server, struct rf_error *error);
/* The port that it listens on. */
int32_t http_port(const struct server *server);
void http_stop_listening(struct server *server);
/* Waits a little for clients to take what is left, and closes all connections. */
void http_stop(struct server *server);
/* Under the lock: now and then closes connections whose clients take too long, or have closed their
 * sending half. */
void http_drop_slow(struct server *server);
/* Under the lock: the client has its answer, and must take it in time. */
void http_answered(struct exchange *exchange);

/* ---- exchange.c ---- */

/* Makes the choices of the question. */
int exchange_begin(struct exchange *exchange);
void exchange_free(struct exchange *exchange);
/* Under the lock: takes it out of the list; the network has the rest, unless it is gone. */
void exchange_release(struct exchange *exchange);
/* Under the lock: has the batch answer, or refuses. */
void exchange_ask(struct exchange *exchange);
/* Under the lock: ends what the batch still answers. */
void exchange_cancel(struct exchange *exchange);

/* ---- log.c ---- */

/* One line of JSON with the time, the event and what the format of json_pack, an object, holds. */
void log_event(const char *event, const char *format, ...);
void log_answer(const riffle_answer *answer);

#endif
