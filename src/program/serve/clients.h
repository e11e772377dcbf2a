/* The open connections, and how long their clients may take. A client has time until `end` for its
 * next step, however slowly it sends or takes bytes; then its connection is closed. */
#ifndef SERVE_CLIENTS_H
#define SERVE_CLIENTS_H

#include "serve/server.h"

enum {
    CLIENT_HEAD_SECONDS = 120, /* limit for a request's headers and the time before them */
    CLIENT_BODY_SECONDS = 60,  /* limit for the whole body */
    CLIENT_TAKE_SECONDS = 120  /* limit for the rest of an ended answer */
};

struct client {
    struct client *next, **at; /* links of the server's list */
    struct server *server;
    int socket;
    double end;
};

/* Gives the client so many seconds from now; INFINITY: any time. Called under the server's lock. */
void client_give(struct client *client, double seconds);
/* The callback of MHD_OPTION_NOTIFY_CONNECTION; user is the server, *context becomes the client. */
void clients_on_connection(void *user, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode code);
/* Closes, now and then, connections whose clients take too long or have closed their sending half.
 * Called under the lock. */
void clients_drop_slow(struct server *server);

#endif
