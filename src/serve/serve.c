/* The thread that computes: it brings requests to the batch, runs its passes, and brings what comes
 * out to the connections. */
#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/socket.h"
#include "platform/terminal.h"
#include "serve/server.h"

enum {
    IDLE_MS = 100,     /* between looks at signals */
    GRACE_SECONDS = 60 /* for answers that are under way when the server is stopped */
};

int rf_serve_check(const struct rf_serve_options *options, struct rf_error *error)
{
    struct rf_address address;
    int code = rf_address_parse(&address, options->host, options->port, error);
    if (code || address.is_local || options->api_key) return code;
    return rf_fail(error, RF_ERR_ARGUMENT, "host %s: others reach it, so it needs an API key",
                   options->host);
}

/* Takes it out of the list; the network has the rest, unless it is gone. */
static void release(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct exchange **at = &server->exchanges;
    while (*at != exchange) at = &(*at)->next;
    *at = exchange->next;
    if (exchange->state == EXCHANGE_WAITING)
        server->n_waiting--;
    else
        server->n_asked--;
    exchange->state = EXCHANGE_ANSWERED;
    if (exchange->is_gone)
        exchange_free(exchange);
    else
        exchange_wake(exchange);
}

static void send_event(struct exchange *exchange, char *event)
{
    exchange_send(exchange, event, event ? strlen(event) : 0);
    exchange->has_begun = 1;
    free(event);
    exchange_wake(exchange);
}

static int on_event(void *user, const riffle_event *event)
{
    struct exchange *exchange = user;
    struct server *server = exchange->server;
    double now = rf_clock_seconds();
    rf_lock_take(&server->lock);
    if (event->token >= 0) {
        if (exchange->last_token > 0.0)
            histogram_add(&server->metrics.between_tokens, now - exchange->last_token);
        exchange->last_token = now;
    }
    if (exchange->question.streams && event->text_bytes)
        send_event(exchange, reply_piece(&exchange->reply, event->text, event->text_bytes,
                                         !exchange->has_begun, NULL));
    else if (event->text_bytes)
        exchange_send(exchange, event->text, event->text_bytes);
    int is_over = exchange->is_gone || exchange->refusal.status;
    rf_lock_release(&server->lock);
    return is_over;
}

/* The last events of a stream. */
static void end_stream(struct exchange *exchange, const riffle_answer *answer)
{
    if (exchange->refusal.status) {
        send_event(exchange, reply_cut(&exchange->refusal));
        return;
    }
    send_event(exchange, reply_piece(&exchange->reply, NULL, 0, !exchange->has_begun,
                                     reply_finish(answer->finish)));
    if (exchange->question.tells_usage) send_event(exchange, reply_usage(&exchange->reply, answer));
    exchange_send(exchange, "data: [DONE]\n\n", 14);
}

static void end_whole(struct exchange *exchange, const riffle_answer *answer)
{
    struct rf_bytes *out = &exchange->out;
    if (exchange->refusal.status) return;
    char *text = reply_whole(&exchange->reply, out->data, out->count, answer);
    out->count = 0;
    exchange_send(exchange, text, text ? strlen(text) : 0);
    free(text);
}

static void judge(struct exchange *exchange, const riffle_answer *answer)
{
    int code = answer->code;
    if (exchange->refusal.status) return;
    if (code < 0)
        refuse(&exchange->refusal,
               code == RIFFLE_ERR_ARGUMENT  ? 400
               : code == RIFFLE_ERR_CONTEXT ? 400
               : code == RIFFLE_ERR_MEMORY  ? 503
                                            : 500,
               NULL, "%s", answer->sentence);
    else if (answer->finish == RIFFLE_FINISH_CANCELLED)
        refuse(&exchange->refusal, 503, "stopped", "the server was stopped within the answer");
}

static void on_answer(void *user, const riffle_answer *answer)
{
    struct exchange *exchange = user;
    struct server *server = exchange->server;
    rf_lock_take(&server->lock);
    judge(exchange, answer);
    metrics_answer(&server->metrics, answer);
    log_answer(answer);
    if (exchange->question.streams && (exchange->has_begun || !exchange->refusal.status))
        end_stream(exchange, answer);
    else
        end_whole(exchange, answer);
    release(exchange);
    rf_lock_release(&server->lock);
}

/* Under the lock. */
static void ask(struct server *server, struct exchange *exchange)
{
    riffle_request request;
    riffle_request_init(&request, sizeof request);
    request.prompt = exchange->question.tokens;
    request.n_prompt = exchange->question.n_tokens;
    request.sampling = &exchange->question.sampling;
    request.generate = &exchange->question.generate;
    request.on_event = on_event;
    request.on_answer = on_answer;
    request.user = exchange;
    exchange->answer = riffle_batch_add(server->batch, &request);
    if (exchange->answer < 0) {
        refuse(&exchange->refusal, exchange->answer == RIFFLE_ERR_MEMORY ? 503 : 400,
               exchange->answer == RIFFLE_ERR_CONTEXT ? "context_length_exceeded" : NULL, "%s",
               riffle_last_error());
        release(exchange);
        return;
    }
    exchange->state = EXCHANGE_ASKED;
    server->n_waiting--;
    server->n_asked++;
}

/* Under the lock: new requests go to the batch while it has places, and what nobody waits for is
 * ended. */
static void look_after(struct server *server)
{
    for (struct exchange *exchange = server->exchanges, *next; exchange; exchange = next) {
        next = exchange->next;
        int is_gone = exchange->is_gone || rf_peer_is_gone(exchange->socket);
        if (exchange->state == EXCHANGE_ASKED && is_gone) {
            riffle_batch_cancel(server->batch, exchange->answer);
        } else if (exchange->state == EXCHANGE_WAITING && (is_gone || server->is_ending)) {
            refuse(&exchange->refusal, 503, "stopping", "the server is stopping");
            release(exchange);
        } else if (exchange->state == EXCHANGE_WAITING &&
                   server->n_asked < server->options->answers) {
            ask(server, exchange);
        }
    }
}

/* Under the lock: cuts what is under way. */
static void cut(struct server *server)
{
    for (struct exchange *exchange = server->exchanges; exchange; exchange = exchange->next)
        if (exchange->state == EXCHANGE_ASKED) riffle_batch_cancel(server->batch, exchange->answer);
}

static void compute(struct server *server)
{
    double end = 0.0;
    int is_idle = 0, is_over = 0;
    while (!is_over) {
        double now = rf_clock_seconds();
        rf_lock_take(&server->lock);
        riffle_batch_get_stats(server->batch, &server->metrics.batch, sizeof(riffle_batch_stats));
        server->metrics.waiting = server->n_waiting;
        if (is_idle && !server->n_waiting) rf_condition_wait(&server->news, &server->lock, IDLE_MS);
        if (rf_interrupts() && !server->is_ending) {
            server->is_ending = 1;
            end = now + GRACE_SECONDS;
            http_stop_listening(server);
            log_event("stopping", "{s:i}", "under_way", server->n_asked);
        }
        look_after(server);
        if (server->is_ending && (rf_interrupts() > 1 || now > end)) cut(server);
        is_over = server->is_ending && !server->exchanges;
        rf_lock_release(&server->lock);
        is_idle = riffle_batch_step(server->batch) <= 0;
    }
}

int rf_serve(const struct rf_serve_options *options, struct rf_error *error)
{
    struct server server = {.options = options};
    riffle_batch_options batch;
    int code = rf_serve_check(options, error);
    if (!code && !reply_can_name(options->name))
        code = rf_fail(error, RF_ERR_ARGUMENT,
                       "the model's name %s is not UTF-8; --name gives another", options->name);
    if (code) return code;
    riffle_batch_options_init(&batch, sizeof batch);
    batch.session = options->session;
    batch.answers = options->answers;
    batch.kept_bytes = (uint64_t)options->kept_bytes;
    code = riffle_batch_open(&server.batch, options->model, &batch);
    if (code) return rf_fail(error, code, "%s", riffle_last_error());
    rf_lock_init(&server.lock);
    rf_condition_init(&server.news);
    rf_interrupts_catch(NULL, NULL);
    rf_interrupts_catch_all();
    code = http_start(&server, error);
    if (!code) {
        log_event("listening", "{s:s, s:i, s:s}", "host", options->host, "port", http_port(&server),
                  "model", options->name);
        compute(&server);
        http_stop(&server);
        log_event("stopped", "{}");
    }
    riffle_batch_close(server.batch);
    rf_condition_destroy(&server.news);
    rf_lock_destroy(&server.lock);
    return code;
}
