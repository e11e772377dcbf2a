/* The thread that computes: it brings requests to the batch and runs its passes. Beside it some
 * threads prepare questions (JSON, prompts, schemas) and one reloads the model. */
#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/terminal.h"
#include "platform/threads.h"
#include "serve/exchange.h"
#include "serve/http.h"
#include "serve/log.h"

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
    if (code || address.is_local || options->api_key) return code;
    return rf_fail(error, RF_ERR_ARGUMENT, "host %s: others reach it, so it needs an API key",
                   options->host);
}

/* ---- models ---- */

static void close_served(struct server *server, struct served *served)
{
    if (served->batch) riffle_batch_close(served->batch);
    server->options->close(server->options->user, &served->model);
    free(served);
}

static int open_served(struct server *server, struct served **opened, int *is_told,
                       struct rf_error *error)
{
    const struct rf_serve_options *options = server->options;
    riffle_batch_options batch;
    struct served *served = calloc(1, sizeof *served);
    *is_told = 0;
    if (!served) return rf_fail(error, RF_ERR_MEMORY, "out of memory");
    if (options->open(options->user, &served->model)) {
        free(served);
        *is_told = 1;
        return rf_fail(error, RF_ERR_IO, "the model was not opened");
    }
    riffle_batch_options_init(&batch, sizeof batch);
    batch.session = options->session;
    batch.answers = options->answers;
    batch.kept_bytes = (uint64_t)options->kept_bytes;
    int32_t n_ctx = 0;
    int code = riffle_batch_open(&served->batch, served->model.model, &batch);
    if (!code) code = riffle_session_cost(served->model.model, options->session, &n_ctx, NULL);
    if (code) {
        rf_fail(error, code, "%s", riffle_last_error());
        close_served(server, served);
        return code;
    }
    served->answerer = (struct answerer){.model = served->model.model,
                                         .name = options->name,
                                         .n_ctx = n_ctx,
                                         .sampling = &served->model.sampling,
                                         .has_effort = rf_template_has_effort(served->model.model),
                                         .thinking = rf_template_thinking(served->model.model),
                                         .tools = rf_tools_manner(served->model.model),
                                         .thoughts = rf_thought_form_of(served->model.model)};
    if (!served->answerer.thoughts) {
        close_served(server, served);
        return rf_fail(error, RF_ERR_MEMORY, "out of memory");
    }
    *opened = served;
    return 0;
}

/* Opens the model anew whenever that is wanted. */
static void *reload_models(void *user)
{
    struct server *server = user;
    rf_lock_take(&server->lock);
    while (!server->is_over) {
        struct served *served;
        struct rf_error error;
        int is_told;
        if (!server->wants_reload || server->is_ending) {
            rf_condition_wait(&server->to_reload, &server->lock, IDLE_MS);
            continue;
        }
        server->wants_reload = 0;
        rf_lock_release(&server->lock);
        log_event("reloading", "{}");
        int code = open_served(server, &served, &is_told, &error);
        if (code)
            log_event("not_reloaded", "{s:s}", "sentence", error.text);
        else
            log_event("reloaded", "{}");
        rf_lock_take(&server->lock);
        if (code) continue;
        served->next = server->served;
        server->served = served;
    }
    rf_lock_release(&server->lock);
    return NULL;
}

/* Closes older models whose answers have ended. Only the newest gets new users. */
static void close_old(struct server *server)
{
    struct served *old = NULL;
    rf_lock_take(&server->lock);
    for (struct served **at = &server->served->next; *at && !old;) {
        if (atomic_load(&(*at)->users) == 0) {
            old = *at;
            *at = old->next;
        } else {
            at = &(*at)->next;
        }
    }
    rf_lock_release(&server->lock);
    if (!old) return;
    close_served(server, old);
    log_event("closed", "{}");
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

/* Reads the body, which the network keeps until the request ends: so the exchange has a copy. */
static void prepare_question(struct exchange *exchange, struct rf_bytes *body,
                             struct refusal *refusal)
{
    const struct served *served = exchange->served;
    struct compiling compiling = {exchange, 0.0};
    int code = question_parse(&exchange->question, exchange->endpoint->take, body->data,
                              body->count, &served->answerer, refusal);
    rf_bytes_free(&rf_system_allocator, body);
    if (code || is_unwanted(exchange)) return;
    if (exchange_begin(exchange)) {
        *refusal = exchange->refusal;
        return;
    }
    compiling.end = rf_clock_seconds() + COMPILE_SECONDS;
    if (exchange->question.schema)
        question_compile(&exchange->question, served->model.model, stops_compiling, &compiling,
                         refusal);
}

/* Each takes one question after the other, so that a slow one holds no other. */
static void *prepare_questions(void *user)
{
    struct server *server = user;
    rf_lock_take(&server->lock);
    while (!server->is_over) {
        struct exchange *exchange = next_to_prepare(server);
        struct refusal refusal = {0};
        struct rf_bytes body = {0};
        struct rf_error error;
        if (!exchange) {
            rf_condition_wait(&server->to_prepare, &server->lock, IDLE_MS);
            continue;
        }
        exchange->state = EXCHANGE_PREPARING;
        if (exchange->is_gone || server->is_ending)
            refuse(&refusal, 503, "stopping", "the server is stopping");
        else if (rf_bytes_append(&rf_system_allocator, &body, exchange->request->body.data,
                                 exchange->request->body.count, &error))
            refuse_memory(&refusal);
        rf_lock_release(&server->lock);
        if (!refusal.status) prepare_question(exchange, &body, &refusal);
        rf_lock_take(&server->lock);
        if (refusal.status && server->is_ending)
            refuse(&refusal, 503, "stopping", "the server is stopping");
        exchange->state = EXCHANGE_WAITING;
        exchange->refusal = refusal;
        if (refusal.status)
            exchange_release(exchange);
        else if (exchange->question.only_counts && !server->is_ending)
            exchange_tell_count(exchange);
        rf_condition_signal(&server->news);
    }
    rf_lock_release(&server->lock);
    return NULL;
}

/* ---- passes ---- */

/* Brings new requests to the batch while it has places, and ends requests that nobody waits for.
 * Called under the lock. */
static void look_after_requests(struct server *server)
{
    for (struct exchange *exchange = server->exchanges, *next; exchange; exchange = next) {
        next = exchange->next;
        int is_gone = exchange->is_gone;
        if (exchange->state == EXCHANGE_ASKED && is_gone) {
            exchange_cancel(exchange);
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

/* A pass of each model. Returns 1 if there was nothing to do. */
static int step_batches(struct server *server)
{
    int is_idle = 1;
    rf_lock_take(&server->lock);
    struct served *served = server->served;
    rf_lock_release(&server->lock);
    for (; served; served = served->next) is_idle &= riffle_batch_step(served->batch) <= 0;
    return is_idle;
}

/* Reacts to signals. Called under the lock. */
static void look_at_signals(struct server *server, double now, double *end)
{
    if (rf_hangups_take()) {
        server->wants_reload = 1;
        rf_condition_signal(&server->to_reload);
    }
    if (rf_interrupts() && !server->is_ending) {
        server->is_ending = 1;
        *end = now + GRACE_SECONDS;
        http_stop_listening(server);
        log_event("stopping", "{s:i}", "under_way", server->n_asked);
    }
    if (server->is_ending && (rf_interrupts() > 1 || now > *end)) cut_answers(server);
}

static void compute_answers(struct server *server)
{
    double end = 0.0;
    int is_idle = 0, is_over = 0;
    while (!is_over) {
        double now = rf_clock_seconds();
        rf_lock_take(&server->lock);
        riffle_batch_get_stats(server->served->batch, &server->metrics.batch,
                               sizeof(riffle_batch_stats));
        server->metrics.waiting = server->n_waiting;
        if (is_idle && !server->n_waiting) rf_condition_wait(&server->news, &server->lock, IDLE_MS);
        look_at_signals(server, now, &end);
        look_after_requests(server);
        is_over = server->is_over = server->is_ending && !server->exchanges;
        rf_lock_release(&server->lock);
        is_idle = step_batches(server);
        close_old(server);
    }
}

static int start_thread(struct server *server, pthread_t *thread, void *(*fn)(void *),
                        struct rf_error *error)
{
    int failed = rf_thread_start(thread, fn, server);
    return failed ? rf_fail(error, RF_ERR_SYSTEM, "no thread: %s", strerror(failed)) : 0;
}

/* Ends the other threads, also where compute() was not reached. */
static void join_thread(struct server *server, pthread_t thread)
{
    rf_lock_take(&server->lock);
    server->is_over = 1;
    rf_lock_release(&server->lock);
    pthread_join(thread, NULL);
}

static int serve_requests(struct server *server, struct rf_error *error)
{
    int code = http_start(server, error);
    if (code) return code;
    log_event("listening", "{s:s, s:i, s:s}", "host", server->options->host, "port",
              http_port(server), "model", server->options->name);
    compute_answers(server);
    http_stop(server);
    log_event("stopped", "{}");
    return 0;
}

static int run_threads(struct server *server, struct rf_error *error)
{
    pthread_t preparers[PREPARERS], reloader;
    int n = 0, code = 0;
    while (!code && n < PREPARERS)
        if (!(code = start_thread(server, &preparers[n], prepare_questions, error))) n++;
    if (!code) code = start_thread(server, &reloader, reload_models, error);
    if (!code) {
        code = serve_requests(server, error);
        join_thread(server, reloader);
    }
    while (n) join_thread(server, preparers[--n]);
    return code;
}

int rf_serve(const struct rf_serve_options *options, int *is_told, struct rf_error *error)
{
    struct server server = {.options = options};
    *is_told = 0;
    int code = rf_serve_check(options, error);
    if (!code && !reply_can_name(options->name))
        code = rf_fail(error, RF_ERR_ARGUMENT,
                       "the model's name %s is not UTF-8; --name gives another", options->name);
    if (!code) code = open_served(&server, &server.served, is_told, error);
    if (code) return code;
    rf_lock_init(&server.lock);
    rf_condition_init(&server.news);
    rf_condition_init(&server.to_prepare);
    rf_condition_init(&server.to_reload);
    rf_interrupts_catch(NULL, NULL);
    rf_interrupts_catch_all();
    rf_hangups_catch();
    code = run_threads(&server, error);
    for (struct served *served = server.served, *next; served; served = next) {
        next = served->next;
        close_served(&server, served);
    }
    rf_condition_destroy(&server.to_reload);
    rf_condition_destroy(&server.to_prepare);
    rf_condition_destroy(&server.news);
    rf_lock_destroy(&server.lock);
    return code;
}
