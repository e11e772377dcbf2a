/* The network: routes, keys, bodies, and replies that wait for the thread that computes. A
 * connection sleeps while its question is answered. */
#include "serve/http.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/random.h"
#include "platform/socket.h"
#include "serve/clients.h"
#include "serve/exchange.h"
#include "serve/send.h"

enum {
    THREADS = 2,
    MOST_CONNECTIONS = 1024,
    HEADER_BYTES = 32 << 10, /* memory of a connection */
    IDLE_SECONDS = 60, /* limit without a byte, while nothing is computed for the connection */
    FLUSH_SECONDS = 5,
    TICK_MS = 50
};

/* ---- who may ask ---- */

static const char *request_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* Takes as long for any text of the key's length. */
static int is_key(const char *text, const char *key)
{
    size_t n = strlen(key);
    unsigned char differs = 0;
    if (strlen(text) != n) return 0;
    for (size_t i = 0; i < n; i++) differs |= (unsigned char)(text[i] ^ key[i]);
    return !differs;
}

static int has_key(const struct exchange *exchange)
{
    const char *key = exchange->server->options->api_key;
    const char *given = request_header(exchange, "Authorization");
    if (!key) return 1;
    return given && strncmp(given, "Bearer ", 7) == 0 && is_key(given + 7, key);
}

/* A page of another site may have its own name mean this machine (DNS rebinding). */
static int names_this_machine(const struct exchange *exchange)
{
    static const char *const names[] = {"localhost", "127.", "[::1]"};
    const char *host = request_header(exchange, "Host");
    if (!exchange->server->is_local || exchange->server->options->api_key || !host) return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(host, names[i], strlen(names[i])) == 0 &&
            strspn(host + strlen(names[i]), ".:0123456789") == strlen(host + strlen(names[i])))
            return 1;
    return 0;
}

/* ---- questions ---- */

/* Has the computing thread answer; the connection sleeps until there is something to send. */
static enum MHD_Result submit_question(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct refusal refusal = {0};
    rf_lock_take(&server->lock);
    if (exchange_begin(exchange)) {
        refusal = exchange->refusal;
    } else if (server->is_ending) {
        refuse(&refusal, 503, "stopping", "the server is stopping");
    } else if (server->n_waiting >= server->options->queue) {
        refuse(&refusal, 429, "queue_full", "%d answers are under way and %d wait; try again later",
               server->n_asked, server->n_waiting);
    } else {
        struct exchange **last = &server->exchanges;
        while (*last) last = &(*last)->next;
        *last = exchange;
        exchange->state = exchange->question.schema ? EXCHANGE_COMPILING : EXCHANGE_WAITING;
        exchange->is_suspended = 1;
        exchange->socket = exchange->client->socket;
        client_give(exchange->client, INFINITY);
        server->n_waiting++;
        MHD_suspend_connection(exchange->connection);
        rf_condition_signal(exchange->question.schema ? &server->to_compile : &server->news);
    }
    rf_lock_release(&server->lock);
    return refusal.status ? send_refusal(exchange, &refusal) : MHD_YES;
}

static ssize_t http_read_events(void *user, uint64_t position, char *data, size_t most)
{
    struct exchange *exchange = user;
    struct server *server = exchange->server;
    (void)position;
    rf_lock_take(&server->lock);
    size_t left = exchange->out.count - exchange->sent, n = left < most ? left : most;
    int is_over = exchange->state == EXCHANGE_ANSWERED;
    if (n) memcpy(data, exchange->out.data + exchange->sent, n);
    exchange->sent += n;
    if (exchange->sent == exchange->out.count) exchange->sent = exchange->out.count = 0;
    if (!n && !is_over) {
        exchange->is_suspended = 1;
        MHD_suspend_connection(exchange->connection);
    }
    rf_lock_release(&server->lock);
    return n ? (ssize_t)n : is_over ? MHD_CONTENT_READER_END_OF_STREAM : 0;
}

/* The connection was woken: there are events, or the answer has ended. */
static enum MHD_Result send_answer(struct exchange *exchange)
{
    struct server *server = exchange->server;
    rf_lock_take(&server->lock);
    int is_over = exchange->state == EXCHANGE_ANSWERED, has_begun = exchange->has_begun;
    rf_lock_release(&server->lock);
    if (exchange->question.streams && has_begun)
        return send_response(exchange, 200, "text/event-stream; charset=utf-8",
                             MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10,
                                                               http_read_events, exchange, NULL));
    if (!is_over) return MHD_YES;
    if (exchange->refusal.status) return send_refusal(exchange, &exchange->refusal);
    return send_response(exchange, 200, json_media,
                         MHD_create_response_from_buffer(exchange->out.count, exchange->out.data,
                                                         MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t *bytes)
{
    struct rf_error error;
    size_t n = *bytes, most = exchange->endpoint ? exchange->endpoint->most_body : 0;
    *bytes = 0;
    if (exchange->body.count + n > most) {
        exchange->is_too_long = 1; /* the rest is read and dropped */
        return MHD_YES;
    }
    return rf_bytes_append(&rf_system_allocator, &exchange->body, data, n, &error) ? MHD_NO
                                                                                   : MHD_YES;
}

static enum MHD_Result ask_model(struct exchange *exchange)
{
    struct server *server = exchange->server;
    const struct endpoint *endpoint = exchange->endpoint;
    struct refusal refusal = {0};
    const char *type = request_header(exchange, "Content-Type");
    exchange->reply = (struct reply){.form = endpoint->form,
                                     .question = &exchange->question,
                                     .id = rf_random(),
                                     .created = (int64_t)time(NULL),
                                     .model = server->options->name};
    rf_lock_take(&server->lock);
    exchange->served = server->served;
    atomic_fetch_add(&exchange->served->users, 1);
    rf_lock_release(&server->lock);
    if (exchange->is_too_long)
        refuse(&refusal, 413, NULL, "the body has more than %zu bytes", endpoint->most_body);
    else if (!type || strncmp(type, json_media, strlen(json_media)) != 0)
        /* Browsers send no JSON to another site without asking it. */
        refuse(&refusal, 415, NULL, "the body's Content-Type must be application/json");
    else
        question_parse(&exchange->question, endpoint->take, exchange->body.data,
                       exchange->body.count, &exchange->served->answerer, &refusal);
    rf_bytes_free(&rf_system_allocator, &exchange->body);
    return refusal.status ? send_refusal(exchange, &refusal) : submit_question(exchange);
}

/* ---- routes ---- */

/* The endpoint of a request; NULL: a refusal. */
static const struct endpoint *find_endpoint(const struct exchange *exchange, const char *path,
                                            const char *method, struct refusal *refusal)
{
    int exists = 0;
    for (const struct endpoint *const *at = endpoints; *at; at++) {
        const struct endpoint *endpoint = *at;
        if (strcmp(path, endpoint->path) != 0) continue;
        exists = 1;
        if (strcmp(method, endpoint->method) != 0) continue;
        if (!names_this_machine(exchange))
            refuse(refusal, 403, NULL, "the Host header names another machine");
        else if (!endpoint->is_open && !has_key(exchange))
            refuse(refusal, 401, "invalid_api_key", "the API key is missing or wrong");
        return refusal->status ? NULL : endpoint;
    }
    if (exists)
        refuse(refusal, 405, NULL, "%.100s does not take %.20s", path, method);
    else
        refuse(refusal, 404, NULL, "there is no %.100s", path);
    return NULL;
}

static struct exchange *begin_exchange(struct server *server, struct MHD_Connection *connection)
{
    struct client *client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct exchange *exchange = client ? calloc(1, sizeof *exchange) : NULL;
    if (!exchange) return NULL;
    exchange->server = server;
    exchange->connection = connection;
    exchange->client = client;
    rf_lock_take(&server->lock);
    client_give(client, CLIENT_BODY_SECONDS);
    server->n_open++;
    rf_lock_release(&server->lock);
    return exchange;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **state)
{
    struct exchange *exchange = *state;
    struct refusal refusal = {0};
    (void)version;
    if (!exchange) { /* the headers are there */
        *state = exchange = begin_exchange(user, connection);
        if (!exchange) return MHD_NO;
        exchange->endpoint = find_endpoint(exchange, path, method, &refusal);
        return refusal.status ? send_refusal(exchange, &refusal) : MHD_YES;
    }
    if (*bytes) return take_body(exchange, data, bytes);
    if (!exchange->endpoint) return MHD_YES; /* the refusal was sent with the headers */
    if (exchange->reply.form) return send_answer(exchange);
    return exchange->endpoint->send ? exchange->endpoint->send(exchange) : ask_model(exchange);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct server *server = user;
    struct exchange *exchange = *state;
    (void)connection;
    (void)why;
    if (!exchange) return;
    *state = NULL;
    rf_lock_take(&server->lock);
    int is_busy = exchange->state != EXCHANGE_OPEN && exchange->state != EXCHANGE_ANSWERED;
    exchange->is_gone = 1;
    client_give(exchange->client, CLIENT_HEAD_SECONDS);
    server->n_open--;
    rf_lock_release(&server->lock);
    if (!is_busy) exchange_free(exchange);
}

int http_start(struct server *server, struct rf_error *error)
{
    const struct rf_serve_options *options = server->options;
    struct rf_address address;
    int code = rf_address_parse(&address, options->host, options->port, error);
    if (code) return code;
    server->is_local = address.is_local;
    server->started = (int64_t)time(NULL);
    unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     (address.is_ip6 ? MHD_USE_IPv6 : 0U);
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR, &address.socket,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        clients_on_connection, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADER_BYTES, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_END);
    if (server->daemon) return 0;
    return rf_fail(error, RF_ERR_SYSTEM, "cannot listen on %s, port %d; is it taken?",
                   options->host, options->port);
}

int32_t http_port(const struct server *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void http_stop_listening(struct server *server)
{
    MHD_quiesce_daemon(server->daemon);
}

void http_stop(struct server *server)
{
    double end = rf_clock_seconds() + FLUSH_SECONDS;
    rf_lock_take(&server->lock);
    while (server->n_open > 0 && rf_clock_seconds() < end)
        rf_condition_wait(&server->news, &server->lock, TICK_MS);
    rf_lock_release(&server->lock);
    MHD_stop_daemon(server->daemon);
}
