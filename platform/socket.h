/* Addresses and connections of a server. */
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

/* 1 if the other side has closed the connection, or its sending half: it waits for no answer. What
 * it has sent stays unread. */
int rf_peer_is_gone(int socket);
/* Ends both directions; the socket stays open. */
void rf_socket_shut(int socket);

#endif
