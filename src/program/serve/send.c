/* Sends replies with the headers that all of them have, and counts them by status. */
#include "serve/send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/cors.h"

const char json_media[] = "application/json";

void send_count(struct server *server, int status)
{
    if (status >= 0 && status < METRICS_STATUSES)
        atomic_fetch_add(&server->replies[status], (uint64_t)1);
}

enum { MOST_LINES = 2560 };

/* The lines of all heads. */
static void common_lines(const struct exchange *exchange, char lines[MOST_LINES], int status,
                         const char *more)
{
    char cors[CORS_LINES];
    cors_lines(exchange, cors);
    snprintf(lines, MOST_LINES,
             "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s%s%s%s", cors,
             status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
             status == 429 || status == 503 ? "Retry-After: 1\r\n" : "", more);
}

void send_bytes(struct exchange *exchange, int status, const char *type, const char *more,
                const char *text, size_t n)
{
    char lines[MOST_LINES];
    common_lines(exchange, lines, status, more);
    send_count(exchange->server, status);
    http_reply(exchange->request, status, type, lines, text, n);
}

void send_text(struct exchange *exchange, int status, const char *type, char *text)
{
    static const char no_memory[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                                    "\"server_error\",\"param\":null,\"code\":null}}";
    if (text)
        send_bytes(exchange, status, type, "", text, strlen(text));
    else
        send_bytes(exchange, 503, json_media, "", no_memory, sizeof no_memory - 1);
    free(text);
}

void send_refusal(struct exchange *exchange, const struct refusal *refusal)
{
    send_text(exchange, refusal->status, json_media,
              reply_refusal(exchange->reply.form, refusal, NULL));
}

void send_stream(struct exchange *exchange)
{
    char lines[MOST_LINES];
    common_lines(exchange, lines, 200, "");
    send_count(exchange->server, 200);
    const char *media = exchange->reply.form->media;
    http_stream_begin(exchange->request, 200, media ? media : "text/event-stream; charset=utf-8",
                      lines);
}
