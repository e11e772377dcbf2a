/* Queues responses, adds the headers that all of them have, and counts them by status. It runs on
 * the network's threads. */
#include "serve/send.h"

#include <string.h>

const char json_media[] = "application/json";

static void count_reply(struct server *server, unsigned status)
{
    rf_lock_take(&server->lock);
    if (status < METRICS_STATUSES) server->metrics.replies[status]++;
    rf_lock_release(&server->lock);
}

enum MHD_Result send_response(struct exchange *exchange, unsigned status, const char *type,
                              struct MHD_Response *response)
{
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503) MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result result = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    count_reply(exchange->server, status);
    return result;
}

enum MHD_Result send_text(struct exchange *exchange, unsigned status, const char *type, char *text)
{
    if (!text) return MHD_NO;
    return send_response(
        exchange, status, type,
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

enum MHD_Result send_refusal(struct exchange *exchange, const struct refusal *refusal)
{
    return send_text(exchange, (unsigned)refusal->status, json_media, reply_refusal(refusal));
}
