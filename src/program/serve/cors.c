/* Origins that a browser may let ask, and the lines of heads that tell it so. */
#include "serve/cors.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMES = CORS_PREFLIGHT_LINES - 256 };

static const char name_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_";

static int fail(const char *origin, struct rf_error *error)
{
    return rf_fail(error, RF_ERR_ARGUMENT,
                   "--cors %.200s: not an origin such as https://chat.example or "
                   "http://localhost:3000, in small letters and without a path",
                   origin);
}

/* The host, or [ADDRESS], and what follows it. NULL: there is none. */
static const char *skip_host(const char *at)
{
    size_t n = *at == '[' ? strspn(at + 1, "0123456789abcdef:.") : strspn(at, name_bytes);
    if (!n) return NULL;
    if (*at != '[') return at + n;
    return at[n + 1] == ']' ? at + n + 2 : NULL;
}

int cors_check(const char *origin, struct rf_error *error)
{
    size_t scheme = strspn(origin, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
    if (strcmp(origin, "*") == 0) return 0;
    if (!scheme || strncmp(origin + scheme, "://", 3) != 0 || strlen(origin) > CORS_ORIGIN)
        return fail(origin, error);
    const char *at = skip_host(origin + scheme + 3);
    if (!at) return fail(origin, error);
    if (*at == ':') {
        size_t digits = strspn(at + 1, "0123456789");
        if (!digits || digits > 5) return fail(origin, error);
        at += digits + 1;
    }
    return *at ? fail(origin, error) : 0;
}

/* Access-Control-Allow-Origin for the request's origin; NULL: it may not ask. */
static const char *allowed_origin(const struct exchange *exchange, const char *origin)
{
    const struct rf_serve_options *options = exchange->server->options;
    for (size_t i = 0; i < options->n_origins; i++)
        if (strcmp(options->origins[i], "*") == 0 || strcmp(options->origins[i], origin) == 0)
            return options->origins[i];
    return NULL;
}

static const char *origin_of(const struct exchange *exchange)
{
    if (!exchange->server->options->n_origins) return NULL;
    return http_head_field(&exchange->request->head, "Origin");
}

void cors_lines(const struct exchange *exchange, char lines[CORS_LINES])
{
    const char *origin = origin_of(exchange);
    const char *allowed = origin ? allowed_origin(exchange, origin) : NULL;
    lines[0] = 0;
    if (!exchange->server->options->n_origins) return;
    snprintf(lines, CORS_LINES, "Vary: Origin\r\n");
    if (allowed)
        snprintf(lines, CORS_LINES,
                 "Vary: Origin\r\nAccess-Control-Allow-Origin: %s\r\n"
                 "Access-Control-Expose-Headers: Retry-After, WWW-Authenticate, Allow\r\n",
                 allowed);
}

int cors_is_preflight(const struct exchange *exchange)
{
    const struct http_head *head = &exchange->request->head;
    return strcmp(head->method, "OPTIONS") == 0 && origin_of(exchange) &&
           http_head_field(head, "Access-Control-Request-Method");
}

/* Names of headers, as the browser lists them. Others than these bytes are not repeated. */
static int are_names(const char *text)
{
    static const char bytes[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_., ";
    size_t n = strlen(text);
    return n && n < MOST_NAMES && strspn(text, bytes) == n;
}

void cors_preflight_lines(const struct exchange *exchange, const char *methods,
                          char lines[CORS_PREFLIGHT_LINES])
{
    const char *names = http_head_field(&exchange->request->head, "Access-Control-Request-Headers");
    lines[0] = 0;
    if (!allowed_origin(exchange, origin_of(exchange))) return; /* the browser then refuses */
    int n =
        snprintf(lines, CORS_PREFLIGHT_LINES,
                 "Access-Control-Allow-Methods: %s\r\nAccess-Control-Max-Age: 600\r\n", methods);
    if (names && are_names(names))
        snprintf(lines + n, CORS_PREFLIGHT_LINES - (size_t)n,
                 "Access-Control-Allow-Headers: %s\r\n", names);
}
