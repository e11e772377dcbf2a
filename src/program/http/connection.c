/* One connection: requests are read, handled and answered, one after the other. A connection is
 * read by the network's thread alone; its output is under the lock. A client that ends its sending
 * half still gets its reply: the first bytes of one are sent at once, and a client that has gone
 * altogether answers them with a reset. */
#include "http/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/memory.h"

enum { READ_BYTES = 64 << 10, KEPT_BYTES = 64 << 10 };

static const char probe[] = "HTTP/1.1 ";
static const struct rf_allocator *const allocator = &rf_system_allocator;

static struct connection *connection_of(struct http_request *request)
{
    return (struct connection *)request;
}

/* ---- output; called under the lock ---- */

static void output_put(struct connection *c, const char *text, size_t bytes)
{
    struct rf_error error;
    if (c->out.count - c->sent + bytes > HTTP_OUTPUT ||
        (bytes && rf_bytes_append(allocator, &c->out, text, bytes, &error)))
        c->is_out_of_memory = 1;
}

static void output_put_text(struct connection *c, const char *text)
{
    output_put(c, text, strlen(text));
}

void network_wake(struct http_network *network)
{
    if (network->is_woken) return;
    network->is_woken = 1;
    rf_socket_send(network->waker[1], "", 1);
}

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {{200, "OK"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) return texts[i].text;
    return "Error";
}

/* `framing`: the line that says how the body ends. */
static void output_put_head(struct connection *c, int status, const char *type, const char *framing,
                            const char *more)
{
    char code[16];
    if (c->has_reply) return;
    c->has_reply = 1;
    snprintf(code, sizeof code, "%d ", status);
    output_put_text(c, c->has_probe ? "" : probe);
    output_put_text(c, code);
    output_put_text(c, status_text(status));
    output_put_text(c, "\r\nContent-Type: ");
    output_put_text(c, type);
    output_put_text(c, "\r\n");
    output_put_text(c, framing);
    output_put_text(c, more);
    output_put_text(c, c->closes ? "Connection: close\r\n\r\n" : "\r\n");
}

void http_reply(struct http_request *request, int status, const char *type, const char *more,
                const char *text, size_t bytes)
{
    struct connection *c = connection_of(request);
    char framing[64] = "";
    /* 304 has no body, and a length would be that of the body it stands for. */
    if (status != 304) snprintf(framing, sizeof framing, "Content-Length: %zu\r\n", bytes);
    rf_lock_take(&c->network->lock);
    if (!c->has_reply) {
        output_put_head(c, status, type, framing, more);
        if (!c->is_head) output_put(c, text, bytes);
        c->is_complete = 1;
        network_wake(c->network);
    }
    rf_lock_release(&c->network->lock);
}

void http_stream_begin(struct http_request *request, int status, const char *type, const char *more)
{
    struct connection *c = connection_of(request);
    rf_lock_take(&c->network->lock);
    c->is_chunked = c->request.head.minor > 0;
    if (!c->is_chunked) c->closes = 1;
    output_put_head(c, status, type, c->is_chunked ? "Transfer-Encoding: chunked\r\n" : "", more);
    network_wake(c->network);
    rf_lock_release(&c->network->lock);
}

void http_stream_add(struct http_request *request, const char *text, size_t bytes)
{
    struct connection *c = connection_of(request);
    char size[32];
    if (!bytes) return;
    rf_lock_take(&c->network->lock);
    int n = snprintf(size, sizeof size, "%zx\r\n", bytes);
    if (c->is_chunked) output_put(c, size, (size_t)n);
    output_put(c, text, bytes);
    if (c->is_chunked) output_put(c, "\r\n", 2);
    network_wake(c->network);
    rf_lock_release(&c->network->lock);
}

void http_stream_end(struct http_request *request)
{
    struct connection *c = connection_of(request);
    rf_lock_take(&c->network->lock);
    if (c->is_chunked) output_put(c, "0\r\n\r\n", 5);
    c->is_complete = 1;
    network_wake(c->network);
    rf_lock_release(&c->network->lock);
}

/* ---- a request's end ---- */

void connection_enter(struct connection *c, enum connection_state state)
{
    c->state = state;
    c->began = c->last = rf_clock_seconds();
}

static void connection_end_request(struct connection *c)
{
    struct http_network *network = c->network;
    if (c->is_handled) network->handler->on_end(network->handler->user, &c->request);
    c->is_handled = 0;
    network->body_bytes -= c->request.body.count;
    rf_bytes_free(allocator, &c->request.body);
    rf_bytes_free(allocator, &c->head_text);
}

void connection_drop(struct connection *c)
{
    struct http_network *network = c->network;
    struct connection **at = &network->connections;
    connection_end_request(c);
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    network->n_connections--;
    rf_socket_close(c->socket);
    rf_bytes_free(allocator, &c->in);
    rf_bytes_free(allocator, &c->out);
    free(c);
}

/* Replies itself, and closes: the bytes that follow have no known meaning. */
static void refuse_request(struct connection *c, const struct http_fault *fault)
{
    const struct http_handler *handler = c->network->handler;
    char *text = handler->write_fault(handler->user, &c->request, fault);
    connection_enter(c, REPLYING);
    c->closes = 1;
    http_reply(&c->request, fault->status, "application/json",
               fault->status == 503 ? "Retry-After: 1\r\n" : "", text ? text : "",
               text ? strlen(text) : 0);
    free(text);
}

static void bytes_consume(struct rf_bytes *bytes, size_t n)
{
    bytes->count -= n;
    if (bytes->count) memmove(bytes->data, bytes->data + n, bytes->count);
    if (!bytes->count && bytes->cap > KEPT_BYTES) rf_bytes_free(allocator, bytes);
}

/* ---- reading ---- */

static void connection_take_whole(struct connection *c)
{
    connection_enter(c, REPLYING);
    c->network->handler->on_body(c->network->handler->user, &c->request);
}

/* The handler may have replied to the head. */
static void connection_after_head(struct connection *c)
{
    const struct http_head *head = &c->request.head;
    const struct http_handler *handler = c->network->handler;
    int has_body = head->is_chunked || head->length;
    c->is_handled = 1;
    c->is_head = strcmp(head->method, "HEAD") == 0;
    c->closes = has_body || !head->keeps_open; /* should it be refused without its body */
    handler->on_head(handler->user, &c->request);
    rf_lock_take(&c->network->lock);
    int has_reply = c->has_reply;
    rf_lock_release(&c->network->lock);
    if (has_reply) {
        connection_enter(c, REPLYING);
        return;
    }
    c->closes = !head->keeps_open;
    connection_enter(c, READING_BODY);
    if (head->expects_continue && has_body && !c->in.count &&
        head->length <= c->request.most_body) {
        static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
        rf_lock_take(&c->network->lock);
        output_put(c, text, sizeof text - 1);
        rf_lock_release(&c->network->lock);
    }
}

/* 1 if it went on. */
static int connection_read_head(struct connection *c)
{
    struct http_fault fault = {0};
    struct rf_error error;
    size_t blank = 0;
    while (blank < c->in.count && strchr("\r\n", c->in.data[blank]) && c->in.data[blank]) blank++;
    if (blank) bytes_consume(&c->in, blank); /* empty lines before a request */
    size_t n =
        http_head_find(c->in.data, c->in.count < HTTP_MOST_HEAD ? c->in.count : HTTP_MOST_HEAD);
    if (!n && c->in.count < HTTP_MOST_HEAD) return 0;
    if (!n) {
        int is_target = !memchr(c->in.data, '\n', HTTP_MOST_HEAD);
        fault = (struct http_fault){is_target ? 414 : 431, "the head has more than 32 KiB"};
    } else if (rf_bytes_append(allocator, &c->head_text, c->in.data, n, &error)) {
        fault = (struct http_fault){503, "out of memory"};
    } else {
        bytes_consume(&c->in, n);
        http_head_parse(&c->request.head, c->head_text.data, n, &fault);
    }
    if (fault.status)
        refuse_request(c, &fault);
    else
        connection_after_head(c);
    return 1;
}

static int connection_add_body(struct connection *c, size_t n)
{
    struct http_network *network = c->network;
    struct http_fault fault = {0};
    struct rf_error error;
    char sentence[64];
    if (n > c->request.most_body - c->request.body.count) {
        snprintf(sentence, sizeof sentence, "the body has more than %zu bytes",
                 c->request.most_body);
        fault = (struct http_fault){413, sentence};
    } else if (network->body_bytes + n > HTTP_BODIES ||
               rf_bytes_append(allocator, &c->request.body, c->in.data, n, &error)) {
        fault = (struct http_fault){503, "too many bodies are being read; try again later"};
    } else {
        network->body_bytes += n;
        return 0;
    }
    refuse_request(c, &fault);
    return -1;
}

/* 1 if it went on. */
static int connection_read_body(struct connection *c)
{
    const struct http_head *head = &c->request.head;
    struct http_fault fault = {0};
    size_t used = c->in.count, decoded;
    int is_whole;
    if (head->is_chunked) {
        is_whole = http_chunks_read(&c->chunks, c->in.data, &used, &decoded, &fault);
        if (is_whole < 0) {
            refuse_request(c, &fault);
            return 1;
        }
    } else {
        uint64_t left = head->length - c->request.body.count;
        if (head->length > c->request.most_body)
            return connection_add_body(c, c->request.most_body + 1) != 0;
        used = decoded = used < left ? used : (size_t)left;
        is_whole = decoded == left;
    }
    if (connection_add_body(c, decoded)) return 1;
    bytes_consume(&c->in, used);
    if (is_whole) connection_take_whole(c);
    return is_whole;
}

/* The client has ended its sending half. */
static void connection_take_end(struct connection *c)
{
    static const struct http_fault cut = {400, "the request ends early"};
    int has_begun = c->state == READING_BODY || (c->state == READING_HEAD && c->in.count);
    if (has_begun) {
        refuse_request(c, &cut);
    } else if (c->state != REPLYING) {
        c->is_broken = 1;
    } else {
        rf_lock_take(&c->network->lock);
        if (!c->has_reply && !c->has_probe) {
            c->has_probe = 1;
            output_put(c, probe, sizeof probe - 1);
        }
        rf_lock_release(&c->network->lock);
    }
}

static void connection_receive(struct connection *c)
{
    char buffer[READ_BYTES];
    struct rf_error error;
    int64_t n = rf_socket_receive(c->socket, buffer, sizeof buffer);
    if (n == RF_SOCKET_AGAIN) return;
    if (n < 0) {
        c->is_broken = 1;
    } else if (n == 0) {
        c->has_ended = 1;
    } else {
        c->last = rf_clock_seconds();
        if (c->state == LINGERING)
            c->dropped += (size_t)n;
        else if (rf_bytes_append(allocator, &c->in, buffer, (size_t)n, &error))
            c->is_broken = 1;
    }
}

/* ---- sending ---- */

/* 1 if a reply was sent as a whole. */
static int flush_output(struct connection *c)
{
    rf_lock_take(&c->network->lock);
    while (c->sent < c->out.count) {
        int64_t n = rf_socket_send(c->socket, c->out.data + c->sent, c->out.count - c->sent);
        if (n == RF_SOCKET_AGAIN) break;
        if (n < 0) {
            c->is_broken = 1;
            break;
        }
        c->sent += (size_t)n;
        c->last = rf_clock_seconds();
    }
    if (c->is_out_of_memory) c->is_broken = 1;
    int is_sent = c->sent == c->out.count;
    if (is_sent) {
        c->sent = c->out.count = 0;
        if (c->out.cap > KEPT_BYTES) rf_bytes_free(allocator, &c->out);
    }
    int is_over = is_sent && c->is_complete && !c->is_broken;
    rf_lock_release(&c->network->lock);
    return is_over;
}

/* The next request, or the connection's end. */
static void connection_after_reply(struct connection *c)
{
    int closes = c->closes || (c->has_ended && !c->in.count);
    connection_end_request(c);
    rf_lock_take(&c->network->lock);
    closes |= c->network->is_refusing;
    c->has_reply = c->is_complete = c->is_chunked = c->has_probe = 0;
    rf_lock_release(&c->network->lock);
    c->chunks = (struct http_chunks){0};
    c->request = (struct http_request){.user = NULL};
    connection_enter(c, closes ? LINGERING : READING_HEAD);
    if (!closes) return;
    rf_socket_end(c->socket);
    rf_bytes_free(allocator, &c->in);
}

/* ---- time ---- */

static int is_too_slow(struct connection *c, double now)
{
    if (now - c->last > HTTP_IDLE_SECONDS && c->state != REPLYING) return 1;
    switch (c->state) {
    case READING_HEAD: return c->in.count && now - c->began > HTTP_IDLE_SECONDS + HTTP_HEAD_SECONDS;
    case READING_BODY: return now - c->began > HTTP_BODY_SECONDS;
    case LINGERING: return now - c->began > HTTP_LINGER_SECONDS || c->dropped > HTTP_LINGER_BYTES;
    default: break;
    }
    rf_lock_take(&c->network->lock);
    int is_complete = c->is_complete;
    if (!is_complete) c->began = now; /* its time begins when the reply is there */
    rf_lock_release(&c->network->lock);
    return is_complete && now - c->began > HTTP_TAKE_SECONDS;
}

int connection_wants_read(const struct connection *c)
{
    return !c->has_ended && (c->state != REPLYING || c->in.count < HTTP_MOST_HEAD);
}

/* Does all that can be done now. */
void connection_go_on(struct connection *c)
{
    const struct rf_socket_wait *wait = c->wait;
    int goes_on = 1, had_ended = c->has_ended;
    if (wait && wait->is_broken && !wait->can_read) c->is_broken = 1;
    if (wait && wait->can_read && connection_wants_read(c)) connection_receive(c);
    while (goes_on && !c->is_broken) {
        goes_on = c->state == READING_HEAD   ? connection_read_head(c)
                  : c->state == READING_BODY ? connection_read_body(c)
                                             : 0;
        if (flush_output(c) && c->state == REPLYING) {
            connection_after_reply(c);
            goes_on = 1;
        }
    }
    if (c->has_ended && (!had_ended || c->state != REPLYING) && !c->is_broken) {
        connection_take_end(c);
        flush_output(c);
    }
    if (c->is_broken || is_too_slow(c, rf_clock_seconds())) connection_drop(c);
}
