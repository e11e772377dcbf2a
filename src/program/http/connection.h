/* A connection and its network, as the two files that have them share them: connection.c moves one
 * connection on, network.c has the thread with all of them. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "http/network.h"
#include "platform/lock.h"

enum connection_state {
    READING_HEAD,
    READING_BODY,
    REPLYING, /* the handler has the request, or the reply is being sent */
    LINGERING /* the reply was sent; what still comes is dropped */
};

struct connection {
    struct http_request request; /* first: a request is its connection */
    struct connection *next;
    struct http_network *network;
    int socket;
    enum connection_state state;
    struct rf_bytes in; /* not read yet */
    struct rf_bytes head_text;
    struct http_chunks chunks;
    int has_ended;  /* the client sends nothing more */
    int is_handled; /* on_end is due */
    int is_broken;
    size_t dropped;     /* bytes, while it lingers */
    double began, last; /* begin of the state; last byte in or out */
    struct rf_socket_wait *wait;

    /* Under the network's lock: */
    struct rf_bytes out;
    size_t sent;
    int has_reply, is_complete, is_chunked, is_head, closes;
    int has_probe; /* the first bytes of the reply are out already */
    int is_out_of_memory;
};

struct http_network {
    const struct http_handler *handler;
    struct rf_lock lock; /* outputs, is_woken, is_refusing, is_stopping, stop */
    pthread_t thread;
    int listener, waker[2];
    int32_t port;
    size_t most_connections;
    struct connection *connections;
    size_t n_connections;
    size_t body_bytes; /* bodies that are being read or answered */
    struct rf_socket_wait *waits;
    int is_woken, is_refusing, is_stopping;
    double stop; /* time when it must end */
};

/* Called by the network's thread. */
void connection_enter(struct connection *c, enum connection_state state);
/* Ends its request and frees it. */
void connection_drop(struct connection *c);
/* 1 if more of the client's bytes can be read now. */
int connection_wants_read(const struct connection *c);
/* Does all that can be done now; c->wait says what. It may drop the connection. */
void connection_go_on(struct connection *c);
/* Has the thread look at all outputs. Called under the lock, by any thread. */
void network_wake(struct http_network *network);

#endif
