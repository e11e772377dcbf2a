/* Sockets of a server by POSIX: TCP without blocking, and poll. src/program/http calls it. */
#define _GNU_SOURCE /* accept4 */
#include "platform/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int result_of_errno(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? RF_SOCKET_AGAIN
           : errno == EMFILE || errno == ENFILE                      ? RF_SOCKET_FULL
                                                                     : RF_SOCKET_ERROR;
}

static void set_flag(int socket, int level, int name)
{
    int on = 1;
    setsockopt(socket, level, name, &on, sizeof on);
}

/* The port that the socket has got; -1: unknown. */
static int32_t bound_port(int socket)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    if (getsockname(socket, (struct sockaddr *)&bound, &bytes)) return -1;
    return bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
                                       : ntohs(((struct sockaddr_in *)&bound)->sin_port);
}

int rf_socket_listen(const struct rf_address *address, int32_t *port, struct rf_error *error)
{
    socklen_t bytes = address->is_ip6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int made =
        socket(address->is_ip6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return rf_fail(error, RF_ERR_SYSTEM, "no socket: %s", strerror(errno));
    set_flag(made, SOL_SOCKET, SO_REUSEADDR);
    if (address->is_ip6) set_flag(made, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(made, (const struct sockaddr *)&address->socket, bytes) || listen(made, 511)) {
        rf_fail(error, RF_ERR_SYSTEM, "%s", strerror(errno));
        close(made);
        return RF_ERR_SYSTEM;
    }
    *port = bound_port(made);
    return made;
}

int rf_socket_accept(int listener)
{
    int made = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) return result_of_errno();
    set_flag(made, IPPROTO_TCP, TCP_NODELAY);
    set_flag(made, SOL_SOCKET, SO_KEEPALIVE);
    return made;
}

int64_t rf_socket_receive(int socket, void *data, size_t most)
{
    ssize_t n = recv(socket, data, most, 0);
    return n < 0 ? result_of_errno() : n;
}

int64_t rf_socket_send(int socket, const void *data, size_t n)
{
    ssize_t sent = send(socket, data, n, MSG_NOSIGNAL);
    return sent < 0 ? result_of_errno() : sent;
}

void rf_socket_end(int socket)
{
    shutdown(socket, SHUT_WR);
}

void rf_socket_close(int socket)
{
    close(socket);
}

int rf_socket_pair(int pair[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)
               ? RF_SOCKET_ERROR
               : 0;
}

void rf_sockets_wait(struct rf_socket_wait *waits, size_t n, int milliseconds)
{
    struct pollfd *polls = calloc(n ? n : 1, sizeof *polls);
    if (!polls) return;
    for (size_t i = 0; i < n; i++) {
        polls[i].fd = waits[i].socket;
        polls[i].events =
            (short)((waits[i].wants_read ? POLLIN : 0) | (waits[i].wants_write ? POLLOUT : 0));
    }
    int found = poll(polls, (nfds_t)n, milliseconds);
    for (size_t i = 0; i < n; i++) {
        int has = found > 0 ? polls[i].revents : 0;
        waits[i].is_broken = (has & (POLLERR | POLLHUP | POLLNVAL)) != 0;
        waits[i].can_read = (has & POLLIN) != 0;
        waits[i].can_write = (has & POLLOUT) != 0;
    }
    free(polls);
}

size_t rf_sockets_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return 256;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        if (getrlimit(RLIMIT_NOFILE, &limit)) return 256;
    }
    return limit.rlim_cur > 1 << 20 ? (size_t)1 << 20 : (size_t)limit.rlim_cur;
}
