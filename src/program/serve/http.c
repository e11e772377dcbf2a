/* The network: routes, limits, and replies that wait for output of the thread that computes. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/random.h"
#include "platform/socket.h"
#include "serve/page.h"
#include "serve/server.h"

enum {
    THREADS = 2,
    MOST_CONNECTIONS = 1024,
    MOST_BODY = 4 << 20,
    HEADER_BYTES = 32 << 10, /* of a connection */
    IDLE_SECONDS = 60,       /* without a byte, while nothing is computed for the connection */
    BODY_SECONDS = 60,       /* for the whole body */
    HEAD_SECONDS = 120,      /* until a request's headers are there, with the time before them */
    TAKE_SECONDS = 120,      /* for what an ended answer has left */
    LOOK_SECONDS = 1,        /* between looks at all connections */
    FLUSH_SECONDS = 5,
    TICK_MS = 50
};

/* An open connection. Its client has time until `end` for the next step, however slowly it sends or
 * takes bytes. */
struct client {
    struct client *next, **at; /* in the server's list */
    struct server *server;
    int socket;
    double end;
};

static void set_time(struct client *client, double seconds)
{
    client->end = rf_clock_seconds() + seconds;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = user;
    struct client *client = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = client = calloc(1, sizeof *client);
        if (!client) return; /* its requests will not begin */
        client->server = server;
        client->socket = /* Windows's are of 64 bits, and small */
            (int)MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        set_time(client, HEAD_SECONDS);
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

void http_drop_slow(struct server *server)
{
    double now = rf_clock_seconds();
    if (now < server->next_look) return;
    server->next_look = now + LOOK_SECONDS;
    for (struct client *client = server->clients; client; client = client->next)
        if (now > client->end || rf_peer_is_gone(client->socket)) rf_socket_shut(client->socket);
}

void http_answered(struct exchange *exchange)
{
    set_time(exchange->client, TAKE_SECONDS);
}

static void count_reply(struct server *server, unsigned status)
{
    rf_lock_take(&server->lock);
    if (status < METRICS_STATUSES) server->metrics.replies[status]++;
    rf_lock_release(&server->lock);
}

/* Takes the response. */
static enum MHD_Result queue(struct exchange *exchange, unsigned status, const char *type,
                             struct MHD_Response *response)
{
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503) MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result result = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    count_reply(exchange->server, status);
    return result;
}

/* `text` is for free(); it may be NULL. */
static enum MHD_Result send_text(struct exchange *exchange, unsigned status, const char *type,
                                 char *text)
{
    if (!text) return MHD_NO;
    return queue(exchange, status, type,
                 MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

static const char *const json_media = "application/json";

static enum MHD_Result send_refusal(struct exchange *exchange, const struct refusal *refusal)
{
    return send_text(exchange, (unsigned)refusal->status, json_media, reply_refusal(refusal));
}

/* ---- who may ask ---- */

static const char *header(const struct exchange *exchange, const char *name)
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
    const char *given = header(exchange, "Authorization");
    if (!key) return 1;
    return given && strncmp(given, "Bearer ", 7) == 0 && is_key(given + 7, key);
}

/* A page of another site may have its own name mean this machine (DNS rebinding). */
static int names_this_machine(const struct exchange *exchange)
{
    static const char *const names[] = {"localhost", "127.", "[::1]"};
    const char *host = header(exchange, "Host");
    if (!exchange->server->is_local || exchange->server->options->api_key || !host) return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(host, names[i], strlen(names[i])) == 0 &&
            strspn(host + strlen(names[i]), ".:0123456789") == strlen(host + strlen(names[i])))
            return 1;
    return 0;
}

/* ---- GET ---- */

static enum MHD_Result send_page(struct exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(serve_page), (void *)serve_page, MHD_RESPMEM_PERSISTENT);
    if (response)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'none'; connect-src 'self'; style-src "
                                "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'");
    return queue(exchange, 200, "text/html; charset=utf-8", response);
}

static enum MHD_Result send_openapi(struct exchange *exchange)
{
    return queue(exchange, 200, json_media,
                 MHD_create_response_from_buffer(strlen(serve_openapi), (void *)serve_openapi,
                                                 MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result send_health(struct exchange *exchange)
{
    rf_lock_take(&exchange->server->lock);
    int is_ending = exchange->server->is_ending;
    rf_lock_release(&exchange->server->lock);
    return send_text(exchange, is_ending ? 503 : 200, json_media,
                     strdup(is_ending ? "{\"status\":\"stopping\"}" : "{\"status\":\"ok\"}"));
}

static enum MHD_Result send_metrics(struct exchange *exchange)
{
    struct rf_bytes text = {0};
    struct rf_error error;
    rf_lock_take(&exchange->server->lock);
    struct metrics metrics = exchange->server->metrics;
    rf_lock_release(&exchange->server->lock);
    int code = metrics_write(&metrics, &text, &error);
    struct MHD_Response *response =
        code ? NULL : MHD_create_response_from_buffer(text.count, text.data, MHD_RESPMEM_MUST_COPY);
    rf_bytes_free(&rf_system_allocator, &text);
    return queue(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", response);
}

static enum MHD_Result send_models(struct exchange *exchange)
{
    const struct server *server = exchange->server;
    return send_text(exchange, 200, json_media,
                     reply_models(server->options->name, server->started));
}

/* ---- POST ---- */

/* Has the computing thread answer; the connection sleeps until there is something to send. */
static enum MHD_Result submit(struct exchange *exchange)
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
        exchange->client->end = INFINITY;
        server->n_waiting++;
        MHD_suspend_connection(exchange->connection);
        rf_condition_signal(exchange->question.schema ? &server->to_compile : &server->news);
    }
    rf_lock_release(&server->lock);
    return refusal.status ? send_refusal(exchange, &refusal) : MHD_YES;
}

static ssize_t read_events(void *user, uint64_t position, char *data, size_t most)
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
        return queue(exchange, 200, "text/event-stream; charset=utf-8",
                     MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_events,
                                                       exchange, NULL));
    if (!is_over) return MHD_YES;
    if (exchange->refusal.status) return send_refusal(exchange, &exchange->refusal);
    return queue(exchange, 200, json_media,
                 MHD_create_response_from_buffer(exchange->out.count, exchange->out.data,
                                                 MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t *bytes)
{
    struct rf_error error;
    size_t n = *bytes;
    *bytes = 0;
    if (exchange->body.count + n > MOST_BODY) {
        exchange->has_failed = 1; /* what still comes is read and dropped */
        return MHD_YES;
    }
    return rf_bytes_append(&rf_system_allocator, &exchange->body, data, n, &error) ? MHD_NO
                                                                                   : MHD_YES;
}

static enum MHD_Result ask(struct exchange *exchange, enum question_kind kind)
{
    struct server *server = exchange->server;
    struct refusal refusal = {0};
    const char *type = header(exchange, "Content-Type");
    rf_lock_take(&server->lock);
    exchange->served = server->served;
    atomic_fetch_add(&exchange->served->users, 1);
    rf_lock_release(&server->lock);
    if (exchange->has_failed)
        refuse(&refusal, 413, NULL, "the body has more than %d bytes", MOST_BODY);
    else if (!type || strncmp(type, json_media, strlen(json_media)) != 0)
        /* Browsers send no JSON to another site without asking it. */
        refuse(&refusal, 415, NULL, "the body's Content-Type must be application/json");
    else
        question_parse(&exchange->question, kind, exchange->body.data, exchange->body.count,
                       &exchange->served->answerer, &refusal);
    rf_bytes_free(&rf_system_allocator, &exchange->body);
    if (refusal.status) return send_refusal(exchange, &refusal);
    exchange->reply.kind = kind;
    return submit(exchange);
}

/* ---- routes ---- */

static const struct route {
    const char *path, *method;
    int is_open; /* without a key */
    enum MHD_Result (*send)(struct exchange *exchange);
    enum question_kind kind; /* without `send` */
} routes[] = {
    {"/", "GET", 1, send_page, QUESTION_CHAT},
    {"/openapi.json", "GET", 1, send_openapi, QUESTION_CHAT},
    {"/health", "GET", 1, send_health, QUESTION_CHAT},
    {"/metrics", "GET", 0, send_metrics, QUESTION_CHAT},
    {"/v1/models", "GET", 0, send_models, QUESTION_CHAT},
    {"/v1/chat/completions", "POST", 0, NULL, QUESTION_CHAT},
    {"/v1/completions", "POST", 0, NULL, QUESTION_COMPLETION},
    {"/v1/embeddings", "POST", 0, NULL, QUESTION_EMBEDDING},
};

static const struct route *find_route(struct exchange *exchange, const char *path,
                                      const char *method, struct refusal *refusal)
{
    int exists = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *route = &routes[i];
        if (strcmp(path, route->path) != 0) continue;
        exists = 1;
        if (strcmp(method, route->method) != 0) continue;
        if (!names_this_machine(exchange))
            refuse(refusal, 403, NULL, "the Host header names another machine");
        else if (!route->is_open && !has_key(exchange))
            refuse(refusal, 401, "invalid_api_key", "the API key is missing or wrong");
        return route;
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
    set_time(client, BODY_SECONDS);
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
        find_route(exchange, path, method, &refusal);
        return refusal.status ? send_refusal(exchange, &refusal) : MHD_YES;
    }
    if (*bytes) return take_body(exchange, data, bytes);
    if (exchange->reply.model) return send_answer(exchange);
    const struct route *route = find_route(exchange, path, method, &refusal);
    if (refusal.status) return MHD_YES; /* it was sent with the headers */
    if (route->send) return route->send(exchange);
    exchange->reply = (struct reply){.id = rf_random(),
                                     .created = (int64_t)time(NULL),
                                     .model = exchange->server->options->name};
    return ask(exchange, route->kind);
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
    set_time(exchange->client, HEAD_SECONDS);
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
        on_connection, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
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
