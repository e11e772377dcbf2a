/* Tells that a client has gone, and ends a connection that another thread waits on. */
#define _DEFAULT_SOURCE
#include "platform/socket.h"

#include <errno.h>
#include <sys/socket.h>

int rf_peer_is_gone(int socket)
{
    char byte;
    ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void rf_socket_shut(int socket)
{
    shutdown(socket, SHUT_RDWR);
}
