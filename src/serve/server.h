/* What the threads of the server share: the network's, which take requests and send replies, and
 * the one that computes. */
#ifndef RF_SERVE_SERVER_H
#define RF_SERVE_SERVER_H

#include <microhttpd.h>

#include "base/alloc.h"
#include "platform/condition.h"
#include "serve/metrics.h"
#include "serve/reply.h"

enum exchange_state {
    EXCHANGE_OPEN,    /* the network's alone */
    EXCHANGE_WAITING, /* in the server's list, for the batch */
    EXCHANGE_ASKED,   /* in the list; the batch has it */
    EXCHANGE_ANSWERED /* the network's alone again */
};

/* A request and its reply. */
struct exchange {
    struct server *server;
    struct exchange *next; /* in the server's list */
    struct MHD_Connection *connection;
    double began;
    struct rf_bytes body;
    int has_failed; /* a reply was queued before the body's end */
    struct question question;
    struct reply reply;

    /* Under the server's lock: */
    enum exchange_state state;
    int is_gone;      /* the connection is closed: who has it last frees it */
    int is_suspended; /* the network waits for output */
    int socket;
    int64_t answer;         /* of the batch */
    struct refusal refusal; /* status 0: none */
    struct rf_bytes out;    /* text, or events */
    size_t sent;            /* of the events */
    int has_begun;          /* an event is out */
    double last_token;
};

struct server {
    const struct rf_serve_options *options;
    struct MHD_Daemon *daemon;
    int is_local;
    int64_t started;
    riffle_batch *batch; /* the computing thread's alone */

    struct rf_lock lock; /* of what follows */
    struct rf_condition news;
    struct exchange *exchanges; /* waiting and asked, the oldest first */
    int32_t n_waiting, n_asked;
    int32_t n_open; /* requests whose connection has not ended them */
    int is_ending;  /* no new answers */
    struct metrics metrics;
};

/* ---- http.c ---- */

int http_start(struct server *server, struct rf_error *error);
/* The port that it listens on. */
int32_t http_port(const struct server *server);
void http_stop_listening(struct server *server);
/* Waits a little for clients to take what is left, and closes all connections. */
void http_stop(struct server *server);

/* ---- exchange.c ---- */

void exchange_free(struct exchange *exchange);
/* Under the lock: adds output; lets the network go on. A failure becomes the refusal. */
void exchange_send(struct exchange *exchange, const char *text, size_t bytes);
void exchange_wake(struct exchange *exchange);

/* ---- log.c ---- */

/* One line of JSON with the time, the event and what the format of json_pack, an object, holds. */
void log_event(const char *event, const char *format, ...);
void log_answer(const riffle_answer *answer);

#endif
