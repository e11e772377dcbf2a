/* GET /health: whether the server takes requests, and which models are open. Balancers see 503
 * while it stops. Where there is a key, which this needs not, models are not told. */
#include "serve/endpoint.h"
#include "serve/send.h"

static json_t *open_models(const struct server *server)
{
    json_t *list = json_array();
    for (const struct served_model *row = server->models.rows; row; row = row->next)
        if (row->open && reply_can_name(row->name))
            json_array_append_new(list, json_string(row->name));
    return list;
}

static void send_health(struct exchange *exchange)
{
    struct server *server = exchange->server;
    rf_lock_take(&server->lock);
    int is_ending = server->is_ending;
    json_t *models = server->options->api_key ? NULL : open_models(server);
    rf_lock_release(&server->lock);
    json_t *health =
        json_pack("{s:s, s:o*}", "status", is_ending ? "stopping" : "ok", "models", models);
    send_text(exchange, is_ending ? 503 : 200, json_media, health ? reply_write(health, 0) : NULL);
}

const struct endpoint endpoint_health = {"GET", "/health", .is_open = 1, .send = send_health};
