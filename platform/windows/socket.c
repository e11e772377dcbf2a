/* Tells that a client has gone, and ends a connection that another thread waits on. */
#include "platform/socket.h"

#include <winsock2.h>

int rf_peer_is_gone(int socket)
{
    char byte;
    WSAPOLLFD ready = {.fd = (SOCKET)socket, .events = POLLRDNORM};
    if (WSAPoll(&ready, 1, 0) <= 0) return 0;
    return recv((SOCKET)socket, &byte, 1, MSG_PEEK) <= 0;
}

void rf_socket_shut(int socket)
{
    shutdown((SOCKET)socket, SD_BOTH);
}
