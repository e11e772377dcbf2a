/* GET /health: whether the server takes requests. Balancers see 503 while it stops. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>

#include "serve/endpoint.h"
#include "serve/send.h"

static void send_health(struct exchange *exchange)
{
    rf_lock_take(&exchange->server->lock);
    int is_ending = exchange->server->is_ending;
    rf_lock_release(&exchange->server->lock);
    send_text(exchange, is_ending ? 503 : 200, json_media,
              strdup(is_ending ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}"));
}

const struct endpoint endpoint_health = {"GET", "/health", .is_open = 1, .send = send_health};
