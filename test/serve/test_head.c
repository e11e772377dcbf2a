/* Heads of HTTP requests: what is read, and the status of what is refused. Chunked bodies, cut at
 * every place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/head.h"
#include "support/check.h"

#define GET "GET /a HTTP/1.1\r\nHost: h\r\n"

static const struct example {
    const char *text;
    int status; /* 0: read */
    const char *path, *host;
} examples[] = {
    {GET "\r\n", 0, "/a", "h"},
    {"GET /a HTTP/1.1\nhOST:h\n\n", 0, "/a", "h"},
    {"GET /a?b=c HTTP/1.0\r\n\r\n", 0, "/a", NULL},
    {"GET http://x:80/a?b HTTP/1.1\r\nHost: y\r\n\r\n", 0, "/a", "x:80"},
    {"GET HTTPS://x HTTP/1.1\r\nHost: y\r\n\r\n", 0, "/", "x"},
    {"GET /%61%2fb HTTP/1.1\r\nHost: y\r\n\r\n", 0, "/a/b", "y"},
    {"GET /%00 HTTP/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET /%6 HTTP/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET a HTTP/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET http:///a HTTP/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET /a\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET  /a HTTP/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"G(T /a HTTP/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET /a HTTP/1.1 x\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET /a http/1.1\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET /a HTTP/2.0\r\nHost: y\r\n\r\n", 505, NULL, NULL},
    {"GET /a HTTP/1.1\r\n\r\n", 400, NULL, NULL},
    {GET "Host: h\r\n\r\n", 400, NULL, NULL},
    {"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n", 400, NULL, NULL},
    {GET " folded: a\r\n\r\n", 400, NULL, NULL},
    {GET "X: a\r\n b\r\n\r\n", 400, NULL, NULL},
    {GET "X : a\r\n\r\n", 400, NULL, NULL},
    {GET ": a\r\n\r\n", 400, NULL, NULL},
    {GET "no colon\r\n\r\n", 400, NULL, NULL},
    {GET "X: a\rb\r\n\r\n", 400, NULL, NULL},
    {GET "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 0, "/a", "h"},
    {GET "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", 400, NULL, NULL},
    {GET "Content-Length: 5, 5\r\n\r\n", 400, NULL, NULL},
    {GET "Content-Length: +5\r\n\r\n", 400, NULL, NULL},
    {GET "Content-Length:\r\n\r\n", 400, NULL, NULL},
    {GET "Content-Length: 99999999999999999999\r\n\r\n", 413, NULL, NULL},
    {GET "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, NULL, NULL},
    {GET "Transfer-Encoding: CHUNKED\r\n\r\n", 0, "/a", "h"},
    {GET "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, NULL, NULL},
    {GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501, NULL, NULL},
    {"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, NULL, NULL},
    {GET "Expect: 100-Continue\r\n\r\n", 0, "/a", "h"},
    {GET "Expect: 200-ok\r\n\r\n", 417, NULL, NULL},
};

static void check_examples(void)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *example = &examples[i];
        struct http_fault fault = {0};
        struct http_head head;
        size_t n = strlen(example->text);
        char *copy = malloc(n);
        memcpy(copy, example->text, n);
        CHECK_INT(http_head_find(copy, n), n);
        CHECK_INT(http_head_find(copy, n - 1), 0);
        int code = http_head_parse(&head, copy, n, &fault);
        CHECK_MSG(code == (example->status ? -1 : 0) && fault.status == example->status,
                  "%s: %d %s", example->text, fault.status, fault.sentence ? fault.sentence : "");
        if (!code) {
            CHECK_STR(head.path, example->path);
            CHECK(example->host ? head.host && strcmp(head.host, example->host) == 0 : !head.host);
        }
        free(copy);
    }
}

/* Connections stay open as version and options say. */
static void check_connection(void)
{
    static const struct {
        const char *text;
        int keeps_open;
    } cases[] = {{GET "\r\n", 1},
                 {GET "Connection: Close\r\n\r\n", 0},
                 {GET "Connection: keep-alive, CLOSE\r\n\r\n", 0},
                 {"GET /a HTTP/1.0\r\n\r\n", 0},
                 {"GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_fault fault = {0};
        struct http_head head;
        char copy[128];
        snprintf(copy, sizeof copy, "%s", cases[i].text);
        CHECK_INT(http_head_parse(&head, copy, strlen(copy), &fault), 0);
        CHECK_INT(head.keeps_open, cases[i].keeps_open);
    }
}

/* Reads a body in two parts. Returns the result, with the body in `out`. */
static int read_chunks(const char *text, size_t cut, char *out, size_t *used)
{
    struct http_chunks chunks = {0};
    struct http_fault fault = {0};
    size_t ends[] = {cut, strlen(text)}, at = 0, bytes = 0;
    int result = 0;
    for (int i = 0; i < 2 && !result; i++) {
        char copy[256];
        size_t n = ends[i] - at, decoded = 0;
        memcpy(copy, text + at, n);
        result = http_chunks_read(&chunks, copy, &n, &decoded, &fault);
        if (result < 0) break;
        memcpy(out + bytes, copy, decoded);
        bytes += decoded;
        at += n;
    }
    out[bytes] = 0;
    *used = at;
    return result < 0 ? -fault.status : result;
}

static void check_chunks(void)
{
    static const struct {
        const char *text, *body;
        int result;
    } cases[] = {{"3\r\nabc\r\n0\r\n\r\n", "abc", 1},
                 {"03;x=\"y\"\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n", "abc0123456789", 1},
                 {"3\nabc\n0\n\n", "abc", 1},
                 {"3\r\nabc\r\n", "abc", 0},
                 {"zz\r\n", "", -400},
                 {"\r\n", "", -400},
                 {"-3\r\nabc\r\n", "", -400},
                 {"3\r\nabcd\r\n", "abc", -400},
                 {"11111111111111111\r\n", "", -400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].text), used;
        char out[256];
        for (size_t cut = 0; cut <= n; cut++) {
            int result = read_chunks(cases[i].text, cut, out, &used);
            CHECK_MSG(result == cases[i].result, "%s, cut at %zu: %d", cases[i].text, cut, result);
            if (result >= 0) CHECK_STR(out, cases[i].body);
            if (result == 1) CHECK_INT(used, n);
        }
    }
}

int main(void)
{
    check_examples();
    check_connection();
    check_chunks();
    return check_result();
}
