/* Keeps the list of open connections and closes slow ones. The list is under the server's lock. */
#include "serve/clients.h"

#include <stdlib.h>

#include "platform/clock.h"
#include "platform/socket.h"

enum { LOOK_SECONDS = 1 }; /* seconds between looks at all connections */

void client_give(struct client *client, double seconds)
{
    client->end = rf_clock_seconds() + seconds;
}

void clients_on_connection(void *user, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode code)
{
    struct server *server = user;
    struct client *client = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = client = calloc(1, sizeof *client);
        if (!client) return; /* requests of this connection will not begin */
        client->server = server;
        client->socket = /* Windows's are of 64 bits, and small */
            (int)MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        client_give(client, CLIENT_HEAD_SECONDS);
        rf_lock_take(&server->lock);
        client->next = server->clients;
        client->at = &server->clients;
        if (client->next) client->next->at = &client->next;
        server->clients = client;
        rf_lock_release(&server->lock);
    } else if (client) {
        rf_lock_take(&server->lock);
        *client->at = client->next;
        if (client->next) client->next->at = client->at;
        rf_lock_release(&server->lock);
        free(client);
    }
}

void clients_drop_slow(struct server *server)
{
    double now = rf_clock_seconds();
    if (now < server->next_look) return;
    server->next_look = now + LOOK_SECONDS;
    for (struct client *client = server->clients; client; client = client->next)
        if (now > client->end || rf_peer_is_gone(client->socket)) rf_socket_shut(client->socket);
}
