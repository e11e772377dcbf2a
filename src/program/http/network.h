/* HTTP/1.1 on sockets: one thread reads requests of all connections and sends replies that other
 * threads make. Limits of memory and time are here, one for each resource (enum http_limits). */
#ifndef HTTP_NETWORK_H
#define HTTP_NETWORK_H

#include "base/alloc.h"
#include "http/head.h"
#include "platform/socket.h"

enum http_limits {
    HTTP_CONNECTIONS = 1024, /* then the one that idles longest is closed for a new one */
    HTTP_BODIES = 256 << 20, /* bytes of all bodies together; then 503 */
    HTTP_OUTPUT = 64 << 20,  /* bytes that a client has not taken; then it is closed */
    HTTP_IDLE_SECONDS = 60,  /* without a byte, while nothing is computed */
    HTTP_HEAD_SECONDS = 60,  /* a whole head */
    HTTP_BODY_SECONDS = 60,  /* a whole body */
    HTTP_TAKE_SECONDS = 120, /* the rest of an ended reply */
    HTTP_LINGER_SECONDS = 5, /* reading on after a refusal, so that it arrives */
    HTTP_LINGER_BYTES = 32 << 20
};

/* A request, from its head to the end of its reply. */
struct http_request {
    struct http_head head;
    struct rf_bytes body;
    size_t most_body; /* bytes; a longer body is refused with 413 */
    void *user;       /* the handler's */
};

/* All are called on the network's thread, which holds no lock then. */
struct http_handler {
    void *user;
    /* The head is there: sets most_body, or replies. */
    void (*on_head)(void *user, struct http_request *request);
    /* The body is there too: replies, at once or later, from any thread. */
    void (*on_body)(void *user, struct http_request *request);
    /* The reply was sent, or the client has gone: nobody may use the request from now on. It
     * follows each on_head. */
    void (*on_end)(void *user, struct http_request *request);
    /* The reply to what the network itself refuses: JSON for free(), or NULL. A request whose head
     * is not there has no `user`. */
    char *(*write_fault)(void *user, const struct http_request *request,
                         const struct http_fault *fault);
};

struct http_network;

/* Listens, and starts the thread. 0, or RF_ERR_*. The handler must outlive the network. */
int http_network_start(struct http_network **network, const struct rf_address *address,
                       const struct http_handler *handler, struct rf_error *error);
int32_t http_network_port(const struct http_network *network);
/* Takes no further connections. */
void http_network_refuse(struct http_network *network);
/* Gives replies that are under way so many seconds, closes all connections and frees it. */
void http_network_stop(struct http_network *network, double seconds);

/* The functions below may be called by any thread while the request has not ended. `more`: further
 * lines of the head, each with its end, or "". */

/* Replies with a text, which is copied. */
void http_reply(struct http_request *request, int status, const char *type, const char *more,
                const char *text, size_t bytes);
/* Replies with a text whose length is not known yet: begins, adds pieces, ends. */
void http_stream_begin(struct http_request *request, int status, const char *type,
                       const char *more);
void http_stream_add(struct http_request *request, const char *text, size_t bytes);
void http_stream_end(struct http_request *request);

#endif
