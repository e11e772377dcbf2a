/* The network's thread: it waits for all sockets, takes connections, makes room for new ones and
 * moves each on. serve/http.c starts and stops it. */
#include <stdlib.h>

#include "http/connection.h"
#include "platform/clock.h"
#include "platform/threads.h"

enum { TICK_MS = 250, SPARE_DESCRIPTORS = 64 };

/* Makes room: closes the connection that has waited longest, one without a request before others.
 * Never one whose answer is being computed. */
static int network_evict(struct http_network *network)
{
    struct connection *found = NULL;
    for (struct connection *c = network->connections; c; c = c->next) {
        int rank = c->state == REPLYING       ? 2
                   : c->state == READING_BODY ? 1
                                              : 0,
            best = !found                         ? 3
                   : found->state == REPLYING     ? 2
                   : found->state == READING_BODY ? 1
                                                  : 0;
        if (rank == 2) {
            rf_lock_take(&network->lock);
            int is_complete = c->is_complete;
            rf_lock_release(&network->lock);
            if (!is_complete) continue;
        }
        if (rank < best || (rank == best && c->last < found->last)) found = c;
    }
    if (found) connection_drop(found);
    return found != NULL;
}

/* ---- the thread ---- */

static void network_accept_all(struct http_network *network)
{
    for (int i = 0; i < HTTP_CONNECTIONS; i++) {
        if (network->n_connections >= network->most_connections && !network_evict(network)) return;
        int made = rf_socket_accept(network->listener);
        if (made == RF_SOCKET_FULL && network_evict(network)) continue;
        if (made < 0) return;
        struct connection *c = calloc(1, sizeof *c);
        if (!c) {
            rf_socket_close(made);
            return;
        }
        c->network = network;
        c->socket = made;
        connection_enter(c, READING_HEAD);
        c->next = network->connections;
        network->connections = c;
        network->n_connections++;
    }
}

/* Fills the list of sockets: the waker, the listener, the connections. */
static size_t list_sockets(struct http_network *network)
{
    struct rf_socket_wait *waits = network->waits;
    size_t n = 0;
    waits[n++] = (struct rf_socket_wait){.socket = network->waker[0], .wants_read = 1};
    for (struct connection *c = network->connections; c; c = c->next) {
        rf_lock_take(&network->lock);
        int has_output = c->sent < c->out.count;
        rf_lock_release(&network->lock);
        c->wait = &waits[n];
        waits[n++] = (struct rf_socket_wait){
            .socket = c->socket, .wants_read = connection_wants_read(c), .wants_write = has_output};
    }
    if (network->listener >= 0)
        waits[n++] = (struct rf_socket_wait){.socket = network->listener, .wants_read = 1};
    return n;
}

static int network_is_over(struct http_network *network)
{
    int is_busy = 0;
    rf_lock_take(&network->lock);
    if (network->is_refusing && network->listener >= 0) {
        rf_socket_close(network->listener);
        network->listener = -1;
    }
    for (struct connection *c = network->connections; c; c = c->next)
        is_busy |= c->state == REPLYING;
    int ends = network->is_stopping && (!is_busy || rf_clock_seconds() > network->stop);
    rf_lock_release(&network->lock);
    return ends;
}

static void *run_network(void *user)
{
    struct http_network *network = user;
    char bytes[64];
    rf_thread_set_name("http");
    while (!network_is_over(network)) {
        size_t n = list_sockets(network);
        rf_sockets_wait(network->waits, n, TICK_MS);
        if (network->waits[0].can_read) {
            /* In this order: a byte of a later call, received after is_woken was cleared, would
             * leave it set, and nothing would wake this thread again. */
            rf_socket_receive(network->waker[0], bytes, sizeof bytes);
            rf_lock_take(&network->lock);
            network->is_woken = 0;
            rf_lock_release(&network->lock);
        }
        int can_accept = network->listener >= 0 && network->waits[n - 1].can_read;
        for (struct connection *c = network->connections, *next; c; c = next) {
            next = c->next;
            connection_go_on(c);
        }
        if (can_accept) network_accept_all(network);
    }
    while (network->connections) connection_drop(network->connections);
    return NULL;
}

static void free_network(struct http_network *network)
{
    if (network->listener >= 0) rf_socket_close(network->listener);
    if (network->waker[0] >= 0) rf_socket_close(network->waker[0]);
    if (network->waker[1] >= 0 && network->waker[1] != network->waker[0])
        rf_socket_close(network->waker[1]);
    rf_lock_destroy(&network->lock);
    free(network->waits);
    free(network);
}

int http_network_start(struct http_network **out, const struct rf_address *address,
                       const struct http_handler *handler, struct rf_error *error)
{
    struct http_network *network = calloc(1, sizeof *network);
    size_t most = rf_sockets_most();
    if (!network) return rf_fail(error, RF_ERR_MEMORY, "out of memory");
    network->handler = handler;
    network->waker[0] = network->waker[1] = -1;
    network->most_connections = most > HTTP_CONNECTIONS + SPARE_DESCRIPTORS ? HTTP_CONNECTIONS
                                : most > 2 * SPARE_DESCRIPTORS ? most - SPARE_DESCRIPTORS
                                                               : SPARE_DESCRIPTORS;
    network->waits = calloc(network->most_connections + 2, sizeof *network->waits);
    rf_lock_init(&network->lock);
    network->listener = rf_socket_listen(address, &network->port, error);
    int code = network->listener < 0 ? network->listener : 0;
    if (!code && (!network->waits || rf_socket_pair(network->waker)))
        code = rf_fail(error, RF_ERR_SYSTEM, "out of memory or of sockets");
    if (!code && rf_thread_start(&network->thread, run_network, network))
        code = rf_fail(error, RF_ERR_SYSTEM, "no thread");
    if (code)
        free_network(network);
    else
        *out = network;
    return code;
}

int32_t http_network_port(const struct http_network *network)
{
    return network->port;
}

void http_network_refuse(struct http_network *network)
{
    rf_lock_take(&network->lock);
    network->is_refusing = 1;
    network_wake(network);
    rf_lock_release(&network->lock);
}

void http_network_stop(struct http_network *network, double seconds)
{
    rf_lock_take(&network->lock);
    network->is_refusing = network->is_stopping = 1;
    network->stop = rf_clock_seconds() + seconds;
    network_wake(network);
    rf_lock_release(&network->lock);
    pthread_join(network->thread, NULL);
    free_network(network);
}
