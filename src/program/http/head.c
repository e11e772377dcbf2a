/* Reads heads strictly, so that a proxy in front and this server never see different requests: one
 * Host, one way of framing, no folded lines, no blank before a colon. network.c calls it. */
#include "http/head.h"

#include <string.h>

static int is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int same_n(const char *a, const char *b, size_t n)
{
    size_t i = 0;
    while (i < n && lower(a[i]) == lower(b[i])) i++;
    return i == n;
}

int http_same(const char *a, const char *b)
{
    return strlen(a) == strlen(b) && same_n(a, b, strlen(a));
}

int http_list_has(const char *list, const char *word)
{
    for (size_t n; *list; list += n) {
        list += strspn(list, ", \t");
        n = strcspn(list, ",");
        size_t end = n;
        while (end && strchr(" \t", list[end - 1])) end--;
        if (end == strlen(word) && same_n(list, word, end)) return 1;
    }
    return 0;
}

static int fail(struct http_fault *fault, int status, const char *sentence)
{
    *fault = (struct http_fault){status, sentence};
    return -1;
}

size_t http_head_find(const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != '\n') continue;
        if (i + 1 < bytes && data[i + 1] == '\n') return i + 2;
        if (i + 2 < bytes && data[i + 1] == '\r' && data[i + 2] == '\n') return i + 3;
    }
    return 0;
}

const char *http_head_field(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_fields; i++)
        if (http_same(head->fields[i].name, name)) return head->fields[i].value;
    return NULL;
}

static size_t count_fields(const struct http_head *head, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < head->n_fields; i++) n += (size_t)http_same(head->fields[i].name, name);
    return n;
}

/* ---- lines ---- */

/* Ends the line at *at with a zero and moves *at behind it. NULL: there is none. */
static char *next_line(char **at, const char *end)
{
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) return NULL;
    *at = stop + 1;
    if (stop > line && stop[-1] == '\r') stop--;
    *stop = 0;
    return memchr(line, 0, (size_t)(stop - line)) ? NULL : line;
}

static int hex_digit(char c)
{
    c = lower(c);
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Cuts the query off and decodes %XX. */
static int decode_path(char *path)
{
    char *out = path;
    for (const char *at = path; *at && *at != '?' && *at != '#'; at++) {
        if (*at != '%') {
            *out++ = *at;
            continue;
        }
        int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
        if (low < 0 || high + low == 0) return -1;
        *out++ = (char)(high * 16 + low);
        at += 2;
    }
    *out = 0;
    return 0;
}

/* A target is a path, or "http://authority/path". */
static int read_target(struct http_head *head, char *target, struct http_fault *fault)
{
    static char root[] = "/";
    size_t scheme = same_n(target, "http://", 7) ? 7 : same_n(target, "https://", 8) ? 8 : 0;
    head->path = target;
    if (scheme) {
        char *authority = target + scheme;
        size_t n = strcspn(authority, "/?#");
        if (!n) return fail(fault, 400, "the target has no host");
        head->path = root;
        if (authority[n] == '/') {
            /* The authority moves one byte down, which makes room for its end. */
            memmove(authority - 1, authority, n);
            authority[n - 1] = 0;
            head->host = authority - 1;
            head->path = authority + n;
        } else {
            authority[n] = 0;
            head->host = authority;
        }
    } else if (*target != '/' && strcmp(target, "*") != 0) {
        return fail(fault, 400, "the target is no path");
    }
    if (head->path != root && decode_path(head->path))
        return fail(fault, 400, "the target has a broken % escape");
    return 0;
}

static int read_request_line(struct http_head *head, char *line, struct http_fault *fault)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || strchr(version + 1, ' ')) return fail(fault, 400, "the request line is broken");
    *target++ = 0;
    *version++ = 0;
    head->method = line;
    if (!*line || !*target) return fail(fault, 400, "the request line is broken");
    for (const char *c = line; *c; c++)
        if (!is_token_char(*c)) return fail(fault, 400, "the method is no word");
    for (const char *c = target; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return fail(fault, 400, "the target has a control character");
    if (strncmp(version, "HTTP/", 5) != 0 || version[5] < '0' || version[5] > '9' ||
        version[6] != '.' || version[7] < '0' || version[7] > '9' || version[8])
        return fail(fault, 400, "the version of HTTP is broken");
    if (version[5] != '1') return fail(fault, 505, "the version of HTTP is not 1.0 or 1.1");
    head->minor = version[7] - '0';
    return read_target(head, target, fault);
}

static int read_field(struct http_head *head, char *line, struct http_fault *fault)
{
    char *colon = strchr(line, ':'), *value, *end;
    if (*line == ' ' || *line == '\t') return fail(fault, 400, "a header line is folded");
    if (!colon || colon == line) return fail(fault, 400, "a header line has no name");
    for (const char *c = line; c < colon; c++)
        if (!is_token_char(*c)) return fail(fault, 400, "a header's name is no word");
    if (head->n_fields == HTTP_MOST_FIELDS) return fail(fault, 431, "there are too many headers");
    *colon = 0;
    value = colon + 1;
    value += strspn(value, " \t");
    end = value + strlen(value);
    while (end > value && strchr(" \t", end[-1])) end--;
    *end = 0;
    for (const char *c = value; *c; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
            return fail(fault, 400, "a header has a control character");
    head->fields[head->n_fields++] = (struct http_field){line, value};
    return 0;
}

/* ---- what the fields say ---- */

static int read_host(struct http_head *head, struct http_fault *fault)
{
    size_t n = count_fields(head, "Host");
    const char *host = http_head_field(head, "Host");
    if (n > 1) return fail(fault, 400, "there is more than one Host header");
    if (!n && head->minor) return fail(fault, 400, "the Host header is missing");
    if (host && strpbrk(host, " \t,/\\@?#\"<>"))
        return fail(fault, 400, "the Host header names no host");
    if (!head->host) head->host = host;
    return 0;
}

static int read_length(struct http_head *head, const char *text, struct http_fault *fault)
{
    uint64_t length = 0;
    if (!*text || text[strspn(text, "0123456789")])
        return fail(fault, 400, "Content-Length is no number");
    for (; *text; text++) {
        if (length > (UINT64_MAX - 9) / 10) return fail(fault, 413, "the body is too long");
        length = length * 10 + (uint64_t)(*text - '0');
    }
    head->length = length;
    return 0;
}

static int read_framing(struct http_head *head, struct http_fault *fault)
{
    size_t n_codings = count_fields(head, "Transfer-Encoding");
    const char *coding = http_head_field(head, "Transfer-Encoding"),
               *length = http_head_field(head, "Content-Length");
    for (size_t i = 0; length && i < head->n_fields; i++)
        if (http_same(head->fields[i].name, "Content-Length") &&
            strcmp(head->fields[i].value, length) != 0)
            return fail(fault, 400, "there are two values of Content-Length");
    if (n_codings && length) return fail(fault, 400, "Content-Length is beside Transfer-Encoding");
    if (n_codings && !head->minor) return fail(fault, 400, "Transfer-Encoding is not for HTTP/1.0");
    if (n_codings > 1 || (coding && !http_same(coding, "chunked")))
        return fail(fault, 501, "the only known Transfer-Encoding is chunked");
    head->is_chunked = n_codings > 0;
    return length ? read_length(head, length, fault) : 0;
}

static int read_connection(struct http_head *head, struct http_fault *fault)
{
    const char *expect = http_head_field(head, "Expect");
    head->keeps_open = head->minor > 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        if (!http_same(head->fields[i].name, "Connection")) continue;
        if (http_list_has(head->fields[i].value, "keep-alive")) head->keeps_open = 1;
    }
    for (size_t i = 0; i < head->n_fields; i++)
        if (http_same(head->fields[i].name, "Connection") &&
            http_list_has(head->fields[i].value, "close"))
            head->keeps_open = 0;
    if (!expect || !head->minor) return 0;
    if (count_fields(head, "Expect") > 1 || !http_same(expect, "100-continue"))
        return fail(fault, 417, "the only known expectation is 100-continue");
    head->expects_continue = 1;
    return 0;
}

int http_head_parse(struct http_head *head, char *data, size_t bytes, struct http_fault *fault)
{
    char *at = data, *line;
    const char *end = data + bytes;
    *head = (struct http_head){.method = "GET", .path = NULL};
    if (!(line = next_line(&at, end))) return fail(fault, 400, "the request line is broken");
    if (read_request_line(head, line, fault)) return -1;
    while (at < end) {
        if (!(line = next_line(&at, end))) return fail(fault, 400, "a header line is broken");
        if (!*line) break;
        if (read_field(head, line, fault)) return -1;
    }
    if (read_framing(head, fault) || read_host(head, fault)) return -1;
    return read_connection(head, fault);
}

/* ---- chunks ---- */

enum chunk_state {
    CHUNK_SIZE,      /* digits */
    CHUNK_EXTENSION, /* up to the end of the line */
    CHUNK_DATA,
    CHUNK_DATA_END, /* the line's end behind it */
    CHUNK_TRAILER,
    CHUNK_OVER
};

enum { MOST_LINE = 1024, MOST_TRAILERS = 8192 };

static int chunk_fail(struct http_fault *fault)
{
    return fail(fault, 400, "a chunk of the body is broken");
}

/* Takes a byte of a line with a size. */
static int chunk_take_size(struct http_chunks *chunks, char c, struct http_fault *fault)
{
    int digit = hex_digit(c);
    if (++chunks->n_line > MOST_LINE) return chunk_fail(fault);
    if (chunks->state == CHUNK_SIZE && digit >= 0) {
        if (chunks->left >> 56) return chunk_fail(fault);
        chunks->left = chunks->left * 16 + (uint64_t)digit;
        return 0;
    }
    if (chunks->n_line == 1) return chunk_fail(fault); /* no digit */
    if (c == '\n') {
        chunks->n_line = 0;
        chunks->state = chunks->left ? CHUNK_DATA : CHUNK_TRAILER;
        return 0;
    }
    if (chunks->state == CHUNK_SIZE && !strchr(";\r \t", c)) return chunk_fail(fault);
    chunks->state = CHUNK_EXTENSION;
    return 0;
}

/* Trailers are read and dropped; an empty line ends them. */
static int chunk_take_trailer(struct http_chunks *chunks, char c, struct http_fault *fault)
{
    if (++chunks->n_lines > MOST_TRAILERS) return fail(fault, 431, "the trailers are too long");
    if (c == '\n' && !chunks->n_line) chunks->state = CHUNK_OVER;
    if (c == '\n')
        chunks->n_line = 0;
    else if (c != '\r')
        chunks->n_line++;
    return 0;
}

static int chunk_take(struct http_chunks *chunks, char c, struct http_fault *fault)
{
    switch (chunks->state) {
    case CHUNK_SIZE:
    case CHUNK_EXTENSION: return chunk_take_size(chunks, c, fault);
    case CHUNK_DATA_END:
        if (c == '\r' && !chunks->n_line) {
            chunks->n_line = 1;
            return 0;
        }
        if (c != '\n') return chunk_fail(fault);
        chunks->n_line = 0;
        chunks->state = CHUNK_SIZE;
        return 0;
    default: return chunk_take_trailer(chunks, c, fault);
    }
}

int http_chunks_read(struct http_chunks *chunks, char *data, size_t *n, size_t *decoded,
                     struct http_fault *fault)
{
    size_t at = 0, out = 0, bytes = *n;
    while (at < bytes && chunks->state != CHUNK_OVER) {
        if (chunks->state == CHUNK_DATA) {
            size_t some = chunks->left < bytes - at ? (size_t)chunks->left : bytes - at;
            memmove(data + out, data + at, some);
            out += some;
            at += some;
            chunks->left -= some;
            if (!chunks->left) chunks->state = CHUNK_DATA_END;
        } else if (chunk_take(chunks, data[at++], fault)) {
            return -1;
        }
    }
    *n = at;
    *decoded = out;
    return chunks->state == CHUNK_OVER;
}
