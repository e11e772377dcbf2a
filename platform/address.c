/* Parses the address that a server listens on: an IPv4 or IPv6 number, or "localhost". It asks no
 * name server. src/program/serve calls it. */
#define _DEFAULT_SOURCE
#if defined(_WIN32)
#    include <winsock2.h>
#    include <ws2tcpip.h>
#else
#    include <arpa/inet.h>
#    include <netinet/in.h>
#    include <sys/socket.h>
#endif
#include <string.h>

#include "platform/socket.h"

int rf_address_parse(struct rf_address *address, const char *host, int32_t port,
                     struct rf_error *error)
{
    struct sockaddr_in ip4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    *address = (struct rf_address){.is_ip6 = 0};
    _Static_assert(sizeof ip6 <= sizeof address->socket, "an address has its room");
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &ip4.sin_addr) == 1) {
        address->is_local = ntohl(ip4.sin_addr.s_addr) >> 24 == 127;
        memcpy(&address->socket, &ip4, sizeof ip4);
        return 0;
    }
    if (inet_pton(AF_INET6, host, &ip6.sin6_addr) == 1) {
        address->is_ip6 = 1;
        address->is_local = IN6_IS_ADDR_LOOPBACK(&ip6.sin6_addr);
        memcpy(&address->socket, &ip6, sizeof ip6);
        return 0;
    }
    return rf_fail(error, RF_ERR_ARGUMENT, "host '%s': neither localhost nor an address in digits",
                   host);
}
