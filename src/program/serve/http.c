/* Requests become questions here: routes, keys, media types, and the queue of those that wait for
 * the model. All runs on the network's thread and takes no time. */
#define _POSIX_C_SOURCE 200809L
#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/clock.h"
#include "platform/random.h"
#include "platform/socket.h"
#include "requests/ollama_reply.h"
#include "serve/cors.h"
#include "serve/exchange.h"
#include "serve/send.h"

enum { FLUSH_SECONDS = 5, MOST_ALLOWED = 64 };

static const char *request_header(const struct exchange *exchange, const char *name)
{
    return http_head_field(&exchange->request->head, name);
}

/* ---- who may ask ---- */

/* Takes as long for any text of the key's length. */
static int is_key(const char *text, const char *key)
{
    size_t n = strlen(key);
    unsigned char differs = 0;
    if (strlen(text) != n) return 0;
    for (size_t i = 0; i < n; i++) differs |= (unsigned char)(text[i] ^ key[i]);
    return !differs;
}

/* "Bearer KEY", where the scheme is in any case, or Anthropic's header with the key alone. */
static int has_key(const struct exchange *exchange)
{
    const char *key = exchange->server->options->api_key;
    const char *given = request_header(exchange, "Authorization"),
               *plain = request_header(exchange, "x-api-key");
    char scheme[8] = "";
    if (!key || (plain && is_key(plain, key))) return 1;
    if (!given || strcspn(given, " ") != 6) return 0;
    memcpy(scheme, given, 6);
    return http_same(scheme, "Bearer") && is_key(given + 6 + strspn(given + 6, " "), key);
}

/* "localhost", 127.x.x.x or [::1], with or without a port. */
static int is_local_name(const char *host)
{
    static const char *const names[] = {"localhost", "127.", "[::1]"};
    char lower[64];
    size_t n = strlen(host);
    if (n >= sizeof lower) return 0;
    for (size_t i = 0; i <= n; i++)
        lower[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] - 'A' + 'a' : host[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rest = lower + strlen(names[i]);
        if (strncmp(lower, names[i], strlen(names[i])) == 0 &&
            strspn(rest, ".:0123456789") == strlen(rest))
            return 1;
    }
    return 0;
}

/* A page of another site may have its own name mean this machine (DNS rebinding). */
static int names_this_machine(const struct exchange *exchange)
{
    const char *host = exchange->request->head.host;
    if (!exchange->server->is_local || exchange->server->options->api_key || !host) return 1;
    return is_local_name(host);
}

/* Browsers send no JSON to another site without asking it. */
static int is_json(const char *type)
{
    char media[32] = "";
    size_t n = type ? strcspn(type, "; \t") : 0;
    if (!n || n >= sizeof media) return 0;
    memcpy(media, type, n);
    return http_same(media, json_media);
}

/* Ollama's clients often name no media type, or that of a form. A page of another site could send
 * such a body without being asked, but browsers say that a page sends it. */
static int may_lack_media(const struct exchange *exchange, const struct endpoint *endpoint)
{
    return endpoint->is_ollama && !request_header(exchange, "Origin") &&
           !request_header(exchange, "Referer") && !request_header(exchange, "Sec-Fetch-Site") &&
           !request_header(exchange, "Sec-Fetch-Mode");
}

/* ---- questions ---- */

/* Has a thread prepare the question, and the computing thread answer it. */
static void submit_question(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct refusal refusal = {0};
    rf_lock_take(&server->lock);
    int32_t room = server->options->answers - server->n_asked;
    if (server->is_ending) {
        refuse(&refusal, 503, "stopping", "the server is stopping");
    } else if (server->n_waiting >= server->options->queue + (room > 0 ? room : 0)) {
        refuse(&refusal, 429, "queue_full", "%d answers are under way and %d wait; try again later",
               server->n_asked, server->n_waiting);
    } else {
        struct exchange **last = &server->exchanges;
        while (*last) last = &(*last)->next;
        *last = exchange;
        exchange->state = EXCHANGE_ARRIVED;
        server->n_waiting++;
        rf_condition_signal(&server->to_prepare);
    }
    rf_lock_release(&server->lock);
    if (refusal.status) send_refusal(exchange, &refusal);
}

static void on_body(void *user, struct http_request *request)
{
    struct exchange *exchange = request->user;
    const struct endpoint *endpoint = exchange->endpoint;
    (void)user;
    exchange->reply = (struct reply){.form = endpoint->form,
                                     .question = &exchange->question,
                                     .id = rf_random(),
                                     .created = (int64_t)time(NULL),
                                     .arrived = rf_clock_seconds(),
                                     .blocks = &exchange->blocks};
    if (endpoint->send)
        endpoint->send(exchange);
    else
        submit_question(exchange);
}

/* ---- routes ---- */

/* Adds the methods of a path to a list. */
static void add_method(char list[MOST_ALLOWED], const char *method)
{
    int is_get = strcmp(method, "GET") == 0;
    size_t n = strlen(list);
    snprintf(list + n, MOST_ALLOWED - n, "%s%s%s", n ? ", " : "", method, is_get ? ", HEAD" : "");
}

/* Whether the path is the endpoint's: "/a/" stands for all paths "/a/REST" where it takes a rest.
 */
static int is_exactly(const struct endpoint *endpoint, const char *path, const char *own)
{
    size_t n = strlen(own);
    if (!endpoint->takes_rest) return strcmp(path, own) == 0;
    return strncmp(path, own, n) == 0 && path[n];
}

/* Paths below /v1 are also there without it, as llama.cpp has them. Returns how many bytes the
 * request's path is shorter then; -1: it is another path. */
static int path_difference(const struct endpoint *endpoint, const char *path)
{
    enum { VERSION = 3 };
    if (is_exactly(endpoint, path, endpoint->path)) return 0;
    int is_short = strncmp(endpoint->path, "/v1/", VERSION + 1) == 0 &&
                   is_exactly(endpoint, path, endpoint->path + VERSION);
    return is_short ? VERSION : -1;
}

/* The endpoint of a request, where HEAD is GET; NULL: a refusal, with the methods that the path
 * has. */
static const struct endpoint *find_endpoint(const struct exchange *exchange,
                                            char allowed[MOST_ALLOWED], struct refusal *refusal)
{
    const char *path = exchange->request->head.path, *method = exchange->request->head.method;
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (const struct endpoint *const *at = endpoints; *at; at++) {
        const struct endpoint *endpoint = *at;
        if (path_difference(endpoint, path) < 0) continue;
        if (strcmp(wanted, endpoint->method) == 0) return endpoint;
        add_method(allowed, endpoint->method);
    }
    if (*allowed)
        refuse(refusal, 405, NULL, "%.100s does not take %.20s, but %s", path, method, allowed);
    else
        refuse(refusal, 404, NULL, "there is no %.100s", path);
    return NULL;
}

/* The form of errors: the path's, also where it has no such method, or that of the interface. */
static const struct reply_form *form_of_path(const char *path)
{
    for (const struct endpoint *const *at = endpoints; *at; at++)
        if (path_difference(*at, path) >= 0) return (*at)->form;
    return strncmp(path, "/api/", 5) == 0 ? &ollama_form : NULL;
}

static void check_request(struct exchange *exchange, const struct endpoint *endpoint,
                          struct refusal *refusal)
{
    const char *coding = request_header(exchange, "Content-Encoding");
    if (!names_this_machine(exchange))
        refuse(refusal, 403, NULL, "the Host header names another machine");
    else if (!endpoint->is_open && !has_key(exchange))
        refuse(refusal, 401, "invalid_api_key", "the API key is missing or wrong");
    else if (endpoint->take && !is_json(request_header(exchange, "Content-Type")) &&
             !may_lack_media(exchange, endpoint))
        refuse(refusal, 415, NULL, "the body's Content-Type must be application/json");
    else if (endpoint->take && coding && !http_same(coding, "identity"))
        refuse(refusal, 415, NULL, "a body with a Content-Encoding is not supported");
}

static void reply_preflight(struct exchange *exchange, const char *methods)
{
    char lines[CORS_PREFLIGHT_LINES];
    cors_preflight_lines(exchange, methods, lines);
    send_bytes(exchange, 200, "text/plain", lines, "", 0);
}

static void on_head(void *user, struct http_request *request)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    struct refusal refusal = {0};
    char allowed[MOST_ALLOWED] = "", line[MOST_ALLOWED + 16] = "";
    static const char no_memory[] = "{\"error\":{\"message\":\"out of memory\"}}";
    request->user = exchange;
    if (!exchange) {
        http_reply(request, 503, json_media, "", no_memory, sizeof no_memory - 1);
        return;
    }
    exchange->server = user;
    exchange->request = request;
    const struct endpoint *endpoint = find_endpoint(exchange, allowed, &refusal);
    if (!endpoint && *allowed && cors_is_preflight(exchange) && names_this_machine(exchange)) {
        reply_preflight(exchange, allowed);
        return;
    }
    if (endpoint) check_request(exchange, endpoint, &refusal);
    request->most_body = endpoint && endpoint->most_body ? endpoint->most_body : ENDPOINT_BODY;
    if (endpoint && endpoint->takes_rest && !refusal.status) {
        const char *path = request->head.path;
        exchange->rest =
            strdup(path + strlen(endpoint->path) - (size_t)path_difference(endpoint, path));
        if (!exchange->rest) refuse_memory(&refusal);
    }
    if (!refusal.status) {
        exchange->endpoint = endpoint;
        return;
    }
    char *text = reply_refusal(form_of_path(request->head.path), &refusal, NULL);
    if (*allowed) snprintf(line, sizeof line, "Allow: %s\r\n", allowed);
    if (text) send_bytes(exchange, refusal.status, json_media, line, text, strlen(text));
    if (!text) send_text(exchange, 503, json_media, NULL);
    free(text);
}

static void on_end(void *user, struct http_request *request)
{
    struct server *server = user;
    struct exchange *exchange = request->user;
    if (!exchange) return;
    rf_lock_take(&server->lock);
    int is_busy = exchange->state != EXCHANGE_OPEN && exchange->state != EXCHANGE_ANSWERED;
    exchange->is_gone = 1;
    if (is_busy) rf_condition_signal(&server->news);
    rf_lock_release(&server->lock);
    if (!is_busy) exchange_free(exchange);
}

static char *write_fault(void *user, const struct http_request *request,
                         const struct http_fault *fault)
{
    const struct exchange *exchange = request->user; /* NULL: the head has the fault */
    const struct endpoint *endpoint = exchange ? exchange->endpoint : NULL;
    struct refusal refusal;
    send_count(user, fault->status);
    refuse(&refusal, fault->status, NULL, "%s", fault->sentence);
    return reply_refusal(endpoint ? endpoint->form : NULL, &refusal, NULL);
}

/* ---- start and stop ---- */

int http_start(struct server *server, struct rf_error *error)
{
    const struct rf_serve_options *options = server->options;
    struct rf_address address;
    struct rf_error why;
    int code = rf_address_parse(&address, options->host, options->port, error);
    if (code) return code;
    server->is_local = address.is_local;
    server->started = (int64_t)time(NULL);
    server->handler = (struct http_handler){.user = server,
                                            .on_head = on_head,
                                            .on_body = on_body,
                                            .on_end = on_end,
                                            .write_fault = write_fault};
    code = http_network_start(&server->network, &address, &server->handler, &why);
    if (!code) return 0;
    return rf_fail(error, code, "cannot listen on %s, port %d; is it taken? (%s)", options->host,
                   options->port, why.text);
}

int32_t http_port(const struct server *server)
{
    return http_network_port(server->network);
}

void http_stop_listening(struct server *server)
{
    http_network_refuse(server->network);
}

void http_stop(struct server *server)
{
    http_network_stop(server->network, FLUSH_SECONDS);
}
