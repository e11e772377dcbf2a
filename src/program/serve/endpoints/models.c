/* GET /v1/models: the model that is served. There is always exactly one. */
#include "serve/endpoint.h"
#include "serve/send.h"

static json_t *say_model(const struct answerer *of, const struct server *server)
{
    return json_pack("{s:s, s:s, s:I, s:s}", "id", of->name, "object", "model", "created",
                     (json_int_t)server->started, "owned_by", "riffle");
}

static void send_list(struct exchange *exchange)
{
    send_models(exchange, json_pack("{s:s}", "object", "list"), "data", say_model);
}

const struct endpoint endpoint_models = {"GET", "/v1/models", .send = send_list};
