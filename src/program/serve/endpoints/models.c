/* GET /v1/models: the model that is served. There is always exactly one. */
#include "serve/endpoint.h"
#include "serve/send.h"

static char *models_reply(const char *name, int64_t created)
{
    return reply_write(json_pack("{s:s, s:[{s:s, s:s, s:I, s:s}]}", "object", "list", "data", "id",
                                 name, "object", "model", "created", (json_int_t)created,
                                 "owned_by", "riffle"),
                       0);
}

static void send_models(struct exchange *exchange)
{
    const struct server *server = exchange->server;
    send_text(exchange, 200, json_media, models_reply(server->options->name, server->started));
}

const struct endpoint endpoint_models = {"GET", "/v1/models", .send = send_models};
