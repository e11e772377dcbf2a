/* Addresses and connections of a server. Sockets never block. */
#ifndef RF_PLATFORM_SOCKET_H
#define RF_PLATFORM_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* An address to listen on. */
struct rf_address {
    union {
        uint64_t align;
        char bytes[128]; /* a struct sockaddr */
    } socket;
    int is_ip6;
    int is_local; /* only this machine reaches it */
};

/* `host`: "localhost", or an IPv4 or IPv6 address in digits. RF_ERR_ARGUMENT: none of these. */
int rf_address_parse(struct rf_address *address, const char *host, int32_t port,
                     struct rf_error *error);

/* Results of the calls below. */
enum {
    RF_SOCKET_AGAIN = -1, /* not now */
    RF_SOCKET_ERROR = -2, /* the connection is broken */
    RF_SOCKET_FULL = -3   /* the process has no further descriptors */
};

/* A listening socket, and its port. Or a negative code: RF_ERR_SYSTEM. */
int rf_socket_listen(const struct rf_address *address, int32_t *port, struct rf_error *error);
/* A connection, or RF_SOCKET_*. */
int rf_socket_accept(int listener);
/* The number of bytes, 0 at the end of what the other side sends, or RF_SOCKET_*. */
int64_t rf_socket_receive(int socket, void *data, size_t most);
/* The number of bytes, or RF_SOCKET_*. */
int64_t rf_socket_send(int socket, const void *data, size_t n);
/* Ends the sending half. */
void rf_socket_end(int socket);
void rf_socket_close(int socket);
/* Two sockets: what is sent to the second can be received from the first. 0, or RF_SOCKET_ERROR. */
int rf_socket_pair(int pair[2]);

/* A socket that is waited for. */
struct rf_socket_wait {
    int socket;
    int wants_read, wants_write;
    int can_read, can_write, is_broken; /* results */
};

/* Waits until one of them is ready, at most so long. */
void rf_sockets_wait(struct rf_socket_wait *waits, size_t n, int milliseconds);
/* Raises the limit of descriptors as far as the process may, and returns it. */
size_t rf_sockets_most(void);

#endif
