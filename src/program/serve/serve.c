/* The thread that computes: it brings requests to the batch and runs its passes. Beside it some
 * threads prepare questions (JSON, prompts, schemas), and others open models (loading.c). */
#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/terminal.h"
#include "platform/threads.h"
#include "serve/cors.h"
#include "serve/exchange.h"
#include "serve/http.h"
#include "serve/log.h"
#include "serve/send.h"

enum {
    IDLE_MS = 100,       /* time between looks at signals */
    GRACE_SECONDS = 60,  /* limit for answers that are under way when the server is stopped */
    COMPILE_SECONDS = 5, /* limit for one schema */
    PREPARERS = 8        /* questions that are prepared at the same time */
};

int rf_serve_check(const struct rf_serve_options *options, struct rf_error *error)
{
    struct rf_address address;
    int code = rf_address_parse(&address, options->host, options->port, error);
    for (size_t i = 0; !code && i < options->n_origins; i++)
        code = cors_check(options->origins[i], error);
    if (code || address.is_local || options->api_key) return code;
    return rf_fail(error, RF_ERR_ARGUMENT, "host %s: others reach it, so it needs an API key",
                   options->host);
}

/* ---- preparing ---- */

static struct exchange *next_to_prepare(const struct server *server)
{
    struct exchange *exchange = server->exchanges;
    while (exchange && exchange->state != EXCHANGE_ARRIVED) exchange = exchange->next;
    return exchange;
}

struct compiling {
    struct exchange *exchange;
    double end;
};

static int is_unwanted(const struct exchange *exchange)
{
    struct server *server = exchange->server;
    rf_lock_take(&server->lock);
    int is_unwanted = exchange->is_gone || server->is_ending;
    rf_lock_release(&server->lock);
    return is_unwanted;
}

/* Whether compiling takes too long, or nobody waits for it. */
static int stops_compiling(void *user)
{
    const struct compiling *compiling = user;
    return is_unwanted(compiling->exchange) || rf_clock_seconds() > compiling->end;
}

/* 1 if the exchange has to wait for its model. */
static int find_served(struct exchange *exchange, const char *model, struct refusal *refusal)
{
    struct server *server = exchange->server;
    if (exchange->served) return 0; /* it has waited */
    enum asked asked =
        models_ask(&server->models, model, &exchange->served, &exchange->awaited, refusal);
    return asked == MODEL_AWAITED;
}

/* Makes the question, and its choices, for the model that was found. */
static void make_question(struct exchange *exchange, const json_t *body, struct refusal *refusal)
{
    const struct served *served = exchange->served;
    struct compiling compiling = {exchange, 0.0};
    exchange->reply.model = served->answerer.name;
    exchange->reply.fingerprint = served->answerer.fingerprint;
    if (question_take(&exchange->question, exchange->endpoint->take, body, &served->answerer,
                      refusal) ||
        is_unwanted(exchange))
        return;
    if (exchange_begin(exchange)) {
        *refusal = exchange->refusal;
        return;
    }
    compiling.end = rf_clock_seconds() + COMPILE_SECONDS;
    if (exchange->question.schema)
        question_compile(&exchange->question, served->model.model, stops_compiling, &compiling,
                         refusal);
}

/* Returns 1 if the model is to be awaited; then the body is read again. The network keeps it until
 * the request ends: so this is a copy. */
static int prepare_question(struct exchange *exchange, struct rf_bytes *body,
                            struct refusal *refusal)
{
    const char *model;
    json_t *parsed = question_read(body->data, body->count,
                                   exchange->endpoint->is_ollama ? "name" : NULL, &model, refusal);
    rf_bytes_free(&rf_system_allocator, body);
    int waits = parsed && find_served(exchange, model, refusal);
    if (parsed && !waits && !refusal->status && !is_unwanted(exchange))
        make_question(exchange, parsed, refusal);
    json_decref(parsed);
    return waits;
}

/* Replies without a model. Called under the lock, which is released meanwhile. */
static void tell_exchange(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct refusal refusal = {0};
    rf_lock_release(&server->lock);
    char *text = exchange->endpoint->tell(server, exchange->rest, &refusal);
    rf_lock_take(&server->lock);
    exchange->refusal = refusal;
    if (!refusal.status && !exchange->is_gone)
        send_text(exchange, 200, json_media, text);
    else
        free(text);
    exchange_release(exchange);
}

/* The state after preparing. Called under the lock. */
static void end_preparing(struct exchange *exchange, int waits, const struct refusal *refusal)
{
    struct server *server = exchange->server;
    exchange->state = waits ? EXCHANGE_AWAITING : EXCHANGE_WAITING;
    exchange->refusal = *refusal;
    if (waits && exchange->wait_end <= 0)
        exchange->wait_end = rf_clock_seconds() + server->options->model_wait;
    if (refusal->status && server->is_ending)
        refuse(&exchange->refusal, 503, "stopping", "the server is stopping");
    if (refusal->status)
        exchange_release(exchange);
    else if (!waits && exchange->question.only_counts && !server->is_ending)
        exchange_tell_count(exchange);
}

/* Prepares one exchange. Called under the lock, which is released meanwhile. */
static void prepare_exchange(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct refusal refusal = {0};
    struct rf_bytes body = {0};
    struct rf_error error;
    int waits = 0;
    exchange->state = EXCHANGE_PREPARING;
    if (exchange->is_gone || server->is_ending)
        refuse(&refusal, 503, "stopping", "the server is stopping");
    else if (exchange->endpoint->tell) {
        tell_exchange(exchange);
        return;
    } else if (rf_bytes_append(&rf_system_allocator, &body, exchange->request->body.data,
                               exchange->request->body.count, &error))
        refuse_memory(&refusal);
    rf_lock_release(&server->lock);
    if (!refusal.status) waits = prepare_question(exchange, &body, &refusal);
    rf_lock_take(&server->lock);
    end_preparing(exchange, waits, &refusal);
}

/* Each takes one question after the other, so that a slow one holds no other. */
static void *prepare_questions(void *user)
{
    struct server *server = user;
    rf_lock_take(&server->lock);
    while (!server->is_over) {
        struct exchange *exchange = next_to_prepare(server);
        if (!exchange) {
            rf_condition_wait(&server->to_prepare, &server->lock, IDLE_MS);
            continue;
        }
        prepare_exchange(exchange);
        rf_condition_signal(&server->news);
    }
    rf_lock_release(&server->lock);
    return NULL;
}

/* ---- passes ---- */

/* A request that waits for its model: it is prepared when the model is open. */
static void look_after_awaiting(struct exchange *exchange, double now)
{
    struct server *server = exchange->server;
    struct served_model *row = exchange->awaited;
    enum asked asked = MODEL_REFUSED;
    if (exchange->is_gone || server->is_ending) {
        models_leave(row);
        refuse(&exchange->refusal, 503, "stopping", "the server is stopping");
    } else if (now > exchange->wait_end && !models_is_decided(&server->models, row)) {
        models_leave(row);
        refuse(&exchange->refusal, 503, "model_loading",
               "the model %.100s is not open yet; try again later", row->name);
    } else {
        asked = models_ask_again(&server->models, row, &exchange->served, &exchange->refusal);
    }
    if (asked == MODEL_REFUSED) exchange_release(exchange);
    if (asked != MODEL_TAKEN) return;
    exchange->state = EXCHANGE_ARRIVED;
    rf_condition_signal(&server->to_prepare);
}

/* Brings new requests to their batches while there are places, and ends requests that nobody waits
 * for. Called under the lock. */
static void look_after_requests(struct server *server, double now)
{
    for (struct exchange *exchange = server->exchanges, *next; exchange; exchange = next) {
        next = exchange->next;
        int is_gone = exchange->is_gone;
        if (exchange->state == EXCHANGE_ASKED && is_gone) {
            exchange_cancel(exchange);
        } else if (exchange->state == EXCHANGE_AWAITING) {
            look_after_awaiting(exchange, now);
        } else if (exchange->state == EXCHANGE_WAITING && (is_gone || server->is_ending)) {
            refuse(&exchange->refusal, 503, "stopping", "the server is stopping");
            exchange_release(exchange);
        } else if (exchange->state == EXCHANGE_WAITING &&
                   server->n_asked < server->options->answers) {
            exchange_ask(exchange);
        }
    }
}

/* Cuts the answers that are under way. Called under the lock. */
static void cut_answers(struct server *server)
{
    for (struct exchange *exchange = server->exchanges; exchange; exchange = exchange->next)
        if (exchange->state == EXCHANGE_ASKED) exchange_cancel(exchange);
}

/* A pass of each model, one after the other: so their workers do not compete for the cores. Returns
 * 1 if there was nothing to do. */
static int step_batches(const struct served *list)
{
    int is_idle = 1;
    for (; list; list = list->next_step) is_idle &= riffle_batch_step(list->batch) <= 0;
    return is_idle;
}

/* Reacts to signals. Called under the lock. */
static void look_at_signals(struct server *server, double now, double *end)
{
    if (rf_hangups_take()) models_reload(&server->models);
    if (rf_interrupts() && !server->is_ending) {
        server->is_ending = server->models.is_ending = 1;
        *end = now + GRACE_SECONDS;
        http_stop_listening(server);
        log_event("stopping", "{s:i}", "under_way", server->n_asked);
    }
    if (server->is_ending && (rf_interrupts() > 1 || now > *end)) cut_answers(server);
}

/* Whether a request may have its answer begun, or its question prepared. */
static int has_news(const struct server *server)
{
    const struct exchange *exchange = server->exchanges;
    while (exchange && exchange->state != EXCHANGE_WAITING &&
           !(exchange->state == EXCHANGE_AWAITING &&
             models_is_decided(&server->models, exchange->awaited)))
        exchange = exchange->next;
    return exchange != NULL;
}

/* Stores a text of a model, when nothing else is to be done: a request that comes now waits for it.
 */
static void store_text(struct server *server)
{
    rf_lock_take(&server->lock);
    struct served *served = models_to_store(&server->models);
    rf_lock_release(&server->lock);
    if (!served) return;
    int32_t left = riffle_batch_store(served->batch);
    rf_lock_take(&server->lock);
    served->may_store = left > 0;
    models_release(served);
    rf_lock_release(&server->lock);
}

static void compute_answers(struct server *server)
{
    double end = 0.0;
    int is_idle = 0, is_over = 0;
    while (!is_over) {
        double now = rf_clock_seconds();
        rf_lock_take(&server->lock);
        if (is_idle && !has_news(server)) rf_condition_wait(&server->news, &server->lock, IDLE_MS);
        look_at_signals(server, now, &end);
        look_after_requests(server, now);
        is_over = server->is_over = server->is_ending && !server->exchanges;
        struct served *list = models_to_step(&server->models);
        rf_lock_release(&server->lock);
        is_idle = step_batches(list);
        rf_lock_take(&server->lock);
        models_stepped(list);
        rf_lock_release(&server->lock);
        if (is_idle && !is_over) store_text(server);
    }
}

static int start_thread(pthread_t *thread, void *(*fn)(void *), void *user, struct rf_error *error)
{
    int failed = rf_thread_start(thread, fn, user);
    return failed ? rf_fail(error, RF_ERR_SYSTEM, "no thread: %s", strerror(failed)) : 0;
}

/* Ends the other threads, also where compute() was not reached. */
static void join_thread(struct server *server, pthread_t thread)
{
    rf_lock_take(&server->lock);
    server->is_over = server->models.is_over = 1;
    rf_lock_release(&server->lock);
    pthread_join(thread, NULL);
}

static int serve_requests(struct server *server, struct rf_error *error)
{
    const struct rf_serve_options *options = server->options;
    int code = http_start(server, error);
    if (code) return code;
    log_event("listening", "{s:s, s:i, s:s?}", "host", options->host, "port", http_port(server),
              "model", options->n_given ? options->given[0] : NULL);
    compute_answers(server);
    http_stop(server);
    log_event("stopped", "{}");
    return 0;
}

static int run_threads(struct server *server, struct rf_error *error)
{
    pthread_t threads[PREPARERS + 2];
    int n = 0, code = 0;
    while (!code && n < PREPARERS)
        if (!(code = start_thread(&threads[n], prepare_questions, server, error))) n++;
    if (!code && !(code = start_thread(&threads[n], models_load, &server->models, error))) n++;
    if (!code && server->options->fetch &&
        !(code = start_thread(&threads[n], models_fetch, &server->models, error)))
        n++;
    if (!code) code = serve_requests(server, error);
    while (n) join_thread(server, threads[--n]);
    return code;
}

static int check_names(const struct rf_serve_options *options, struct rf_error *error)
{
    for (size_t i = 0; i < options->n_given; i++)
        if (!reply_can_name(options->given[i]))
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "the model's name %s is not UTF-8; --name gives another",
                           options->given[i]);
    return 0;
}

int rf_serve(const struct rf_serve_options *options, int *is_told, struct rf_error *error)
{
    struct server server = {.options = options};
    *is_told = 0;
    int code = rf_serve_check(options, error);
    if (!code) code = check_names(options, error);
    if (code) return code;
    rf_lock_init(&server.lock);
    rf_condition_init(&server.news);
    rf_condition_init(&server.to_prepare);
    models_init(&server.models, options, &server.lock, &server.news);
    code = models_open_given(&server.models, is_told, error);
    if (!code) {
        rf_interrupts_catch(NULL, NULL);
        rf_interrupts_catch_all();
        rf_hangups_catch();
        code = run_threads(&server, error);
    }
    models_free(&server.models);
    rf_condition_destroy(&server.to_prepare);
    rf_condition_destroy(&server.news);
    rf_lock_destroy(&server.lock);
    return code;
}
