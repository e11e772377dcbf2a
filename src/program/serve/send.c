/* Sends replies with the headers that all of them have, and counts them by status. */
#include "serve/send.h"

#include <assert.h>
#include <inttypes.h>
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

/* The lines of all heads. `cache`: what caches may do. */
static void common_lines(const struct exchange *exchange, char lines[MOST_LINES], int status,
                         const char *cache, const char *more)
{
    char cors[CORS_LINES];
    cors_lines(exchange, cors);
    int n = snprintf(lines, MOST_LINES,
                     "Cache-Control: %s\r\nX-Content-Type-Options: nosniff\r\n%s%s%s%s", cache,
                     cors, status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
                     status == 429 || status == 503 ? "Retry-After: 1\r\n" : "", more);
    assert(n > 0 && n < MOST_LINES); /* a line is never cut */
    (void)n;
}

void send_bytes(struct exchange *exchange, int status, const char *type, const char *more,
                const char *text, size_t n)
{
    char lines[MOST_LINES];
    common_lines(exchange, lines, status, "no-store", more);
    send_count(exchange->server, status);
    http_reply(exchange->request, status, type, lines, text, n);
}

/* FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

void send_file(struct exchange *exchange, const char *type, const char *more, const char *text)
{
    char lines[MOST_LINES], tag[24], all[MOST_LINES];
    const char *known = http_head_field(&exchange->request->head, "If-None-Match");
    snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", hash_of(text));
    int is_known = known && (strstr(known, tag) || strcmp(known, "*") == 0);
    int status = is_known ? 304 : 200;
    snprintf(all, sizeof all, "ETag: %s\r\n%s", tag, more);
    common_lines(exchange, lines, status, "no-cache", all);
    send_count(exchange->server, status);
    http_reply(exchange->request, status, type, lines, text, status == 304 ? 0 : strlen(text));
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
    common_lines(exchange, lines, 200, "no-store", "");
    send_count(exchange->server, 200);
    const char *media = exchange->reply.form->media;
    http_stream_begin(exchange->request, 200, media ? media : "text/event-stream; charset=utf-8",
                      lines);
}
