/* Sockets of a server by Winsock: TCP without blocking, and WSAPoll. src/program/http calls it. */
#include "platform/socket.h"

#include <stdlib.h>
#include <string.h>
#include <winsock2.h>
#include <ws2tcpip.h>

static int result_of_error(void)
{
    int error = WSAGetLastError();
    return error == WSAEWOULDBLOCK || error == WSAEINTR ? RF_SOCKET_AGAIN
           : error == WSAEMFILE || error == WSAENOBUFS  ? RF_SOCKET_FULL
                                                        : RF_SOCKET_ERROR;
}

static void start_sockets(void)
{
    WSADATA data;
    WSAStartup(MAKEWORD(2, 2), &data);
}

static void set_flag(SOCKET socket, int level, int name)
{
    BOOL on = TRUE;
    setsockopt(socket, level, name, (const char *)&on, sizeof on);
}

static void set_not_blocking(SOCKET socket)
{
    u_long on = 1;
    ioctlsocket(socket, (long)FIONBIO, &on);
}

static int32_t bound_port(SOCKET socket)
{
    struct sockaddr_storage bound;
    int bytes = sizeof bound;
    if (getsockname(socket, (struct sockaddr *)&bound, &bytes)) return -1;
    return bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
                                       : ntohs(((struct sockaddr_in *)&bound)->sin_port);
}

int rf_socket_listen(const struct rf_address *address, int32_t *port, struct rf_error *error)
{
    int bytes = address->is_ip6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    start_sockets();
    SOCKET made = socket(address->is_ip6 ? AF_INET6 : AF_INET, SOCK_STREAM, IPPROTO_TCP);
    if (made == INVALID_SOCKET) return rf_fail(error, RF_ERR_SYSTEM, "no socket");
    set_flag(made, SOL_SOCKET, SO_EXCLUSIVEADDRUSE);
    set_not_blocking(made);
    if (bind(made, (const struct sockaddr *)&address->socket, bytes) || listen(made, 511)) {
        rf_fail(error, RF_ERR_SYSTEM, "error %d of Winsock", WSAGetLastError());
        closesocket(made);
        return RF_ERR_SYSTEM;
    }
    *port = bound_port(made);
    return (int)made; /* 64 bits wide, but small */
}

int rf_socket_accept(int listener)
{
    SOCKET made = accept((SOCKET)listener, NULL, NULL);
    if (made == INVALID_SOCKET) return result_of_error();
    set_not_blocking(made);
    set_flag(made, IPPROTO_TCP, TCP_NODELAY);
    set_flag(made, SOL_SOCKET, SO_KEEPALIVE);
    return (int)made;
}

int64_t rf_socket_receive(int socket, void *data, size_t most)
{
    int n = recv((SOCKET)socket, data, most > 1 << 20 ? 1 << 20 : (int)most, 0);
    return n < 0 ? result_of_error() : n;
}

int64_t rf_socket_send(int socket, const void *data, size_t n)
{
    int sent = send((SOCKET)socket, data, n > 1 << 20 ? 1 << 20 : (int)n, 0);
    return sent < 0 ? result_of_error() : sent;
}

void rf_socket_end(int socket)
{
    shutdown((SOCKET)socket, SD_SEND);
}

void rf_socket_close(int socket)
{
    closesocket((SOCKET)socket);
}

/* Winsock has no pairs: one socket for datagrams, connected to itself, is both ends. */
int rf_socket_pair(int pair[2])
{
    struct sockaddr_in self = {.sin_family = AF_INET};
    int bytes = sizeof self;
    start_sockets();
    SOCKET made = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
    self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (made == INVALID_SOCKET) return RF_SOCKET_ERROR;
    if (bind(made, (struct sockaddr *)&self, sizeof self) ||
        getsockname(made, (struct sockaddr *)&self, &bytes) ||
        connect(made, (struct sockaddr *)&self, sizeof self)) {
        closesocket(made);
        return RF_SOCKET_ERROR;
    }
    set_not_blocking(made);
    pair[0] = pair[1] = (int)made;
    return 0;
}

void rf_sockets_wait(struct rf_socket_wait *waits, size_t n, int milliseconds)
{
    WSAPOLLFD *polls = calloc(n ? n : 1, sizeof *polls);
    if (!polls) return;
    for (size_t i = 0; i < n; i++) {
        polls[i].fd = (SOCKET)waits[i].socket;
        polls[i].events = (short)((waits[i].wants_read ? POLLRDNORM : 0) |
                                  (waits[i].wants_write ? POLLWRNORM : 0));
    }
    int found = WSAPoll(polls, (ULONG)n, milliseconds);
    for (size_t i = 0; i < n; i++) {
        int has = found > 0 ? polls[i].revents : 0;
        /* POLLHUP also tells that the other side has ended its sending half. */
        waits[i].is_broken = (has & (POLLERR | POLLNVAL)) != 0;
        waits[i].can_read = (has & (POLLRDNORM | POLLHUP)) != 0 && waits[i].wants_read;
        waits[i].can_write = (has & POLLWRNORM) != 0;
    }
    free(polls);
}

size_t rf_sockets_most(void)
{
    return 16384;
}
