/* GET /metrics: the server's counters for Prometheus. They are copied under the lock and written
 * outside of it. */
#include "platform/memory.h"
#include "serve/endpoint.h"
#include "serve/send.h"

static void send_metrics(struct exchange *exchange)
{
    struct rf_bytes text = {0};
    struct rf_error error;
    rf_lock_take(&exchange->server->lock);
    struct metrics metrics = exchange->server->metrics;
    rf_lock_release(&exchange->server->lock);
    for (int i = 0; i < METRICS_STATUSES; i++)
        metrics.replies[i] = atomic_load(&exchange->server->replies[i]);
    if (metrics_write(&metrics, &text, &error))
        send_text(exchange, 503, json_media, NULL);
    else
        send_bytes(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", "", text.data,
                   text.count);
    rf_bytes_free(&rf_system_allocator, &text);
}

const struct endpoint endpoint_metrics = {"GET", "/metrics", .send = send_metrics};
