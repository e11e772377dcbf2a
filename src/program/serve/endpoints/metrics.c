/* GET /metrics: the server's counters for Prometheus. They are copied under the lock and written
 * outside of it. */
#include "platform/memory.h"
#include "serve/endpoint.h"
#include "serve/send.h"

static enum MHD_Result send_metrics(struct exchange *exchange)
{
    struct rf_bytes text = {0};
    struct rf_error error;
    rf_lock_take(&exchange->server->lock);
    struct metrics metrics = exchange->server->metrics;
    rf_lock_release(&exchange->server->lock);
    int code = metrics_write(&metrics, &text, &error);
    struct MHD_Response *response =
        code ? NULL : MHD_create_response_from_buffer(text.count, text.data, MHD_RESPMEM_MUST_COPY);
    rf_bytes_free(&rf_system_allocator, &text);
    return send_response(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", response);
}

const struct endpoint endpoint_metrics = {"GET", "/metrics", .send = send_metrics};
