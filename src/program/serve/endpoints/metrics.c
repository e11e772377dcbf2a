/* GET /metrics: the counters of the server and of its models for Prometheus. They are copied under
 * the lock and written outside of it. */
#include <stdlib.h>

#include "platform/memory.h"
#include "serve/endpoint.h"
#include "serve/send.h"

/* Counts the requests that no batch has yet. Called under the lock. */
static void count_waiting(const struct server *server, const struct served_model *row,
                          int32_t *waiting)
{
    for (const struct exchange *at = server->exchanges; at; at = at->next) {
        const struct served_model *of = at->served                       ? at->served->of
                                        : at->state == EXCHANGE_AWAITING ? at->awaited
                                                                         : NULL;
        *waiting += of == row && at->state != EXCHANGE_ASKED;
    }
}

/* 0, or -1: out of memory. Called under the lock. */
static int copy_metrics(const struct server *server, struct metrics_server *copy)
{
    for (const struct served_model *row = server->models.rows; row; row = row->next)
        copy->n += row->path != NULL;
    copy->models = calloc(copy->n + 1, sizeof *copy->models);
    struct metrics_model *to = copy->models;
    if (!to) return -1;
    for (const struct served_model *row = server->models.rows; row; row = row->next) {
        if (!row->path) continue; /* its name may change when it is fetched */
        *to = (struct metrics_model){.name = row->name,
                                     .metrics = row->metrics,
                                     .is_open = row->open != NULL,
                                     .bytes = row->open ? row->bytes : 0};
        count_waiting(server, row, &to++->waiting);
    }
    count_waiting(server, NULL, &copy->preparing);
    return 0;
}

static void send_metrics(struct exchange *exchange)
{
    struct server *server = exchange->server;
    struct metrics_server copy = {.n = 0};
    struct rf_bytes text = {0};
    struct rf_error error;
    rf_lock_take(&server->lock);
    int code = copy_metrics(server, &copy);
    rf_lock_release(&server->lock);
    for (int i = 0; i < METRICS_STATUSES; i++) copy.replies[i] = atomic_load(&server->replies[i]);
    if (code || metrics_write(&copy, &text, &error))
        send_text(exchange, 503, json_media, NULL);
    else
        send_bytes(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", "", text.data,
                   text.count);
    free(copy.models);
    rf_bytes_free(&rf_system_allocator, &text);
}

const struct endpoint endpoint_metrics = {"GET", "/metrics", .send = send_metrics};
