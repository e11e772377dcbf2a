/* Which model an exchange is about. Each exchange gets its model here, once, and keeps it until it
 * is freed. */
#include "serve/server.h"

const struct answerer *served_hold(struct exchange *exchange)
{
    struct served *served = exchange->server->served;
    exchange->served = served;
    atomic_fetch_add(&served->users, 1);
    return &served->answerer;
}
