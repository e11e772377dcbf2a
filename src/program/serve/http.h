/* The network: it takes requests, finds their endpoints and sends replies. serve.c starts and stops
 * it. */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include "serve/server.h"

int http_start(struct server *server, struct rf_error *error);
/* The port that it listens on. */
int32_t http_port(const struct server *server);
void http_stop_listening(struct server *server);
/* Waits a little for clients to take what is left, and closes all connections. */
void http_stop(struct server *server);

#endif
