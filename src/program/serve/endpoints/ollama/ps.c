/* GET /api/ps: the models that are loaded, in ollama's form. Those that are served always are. */
#include "requests/ollama_reply.h"
#include "serve/endpoints/ollama/tags.h"
#include "serve/send.h"
#include <string.h>

static json_t *say_loaded(const struct answerer *of, const struct server *server)
{
    riffle_model_info info;
    json_t *entry = ollama_entry(of);
    (void)server;
    riffle_model_get_info(of->model, &info, sizeof info);
    int is_on_processor = strcmp(info.device, "cpu") == 0;
    json_object_set_new(entry, "context_length", json_integer(of->n_ctx));
    json_object_set_new(entry, "size_vram",
                        json_integer(is_on_processor ? 0 : (json_int_t)info.weight_bytes));
    /* It stays; clients show a time beyond a century as that. */
    json_object_set_new(entry, "expires_at", json_string("2300-01-01T00:00:00Z"));
    return entry;
}

static void send_loaded(struct exchange *exchange)
{
    send_models(exchange, json_object(), "models", say_loaded);
}

const struct endpoint endpoint_ollama_ps = {"GET", "/api/ps", .send = send_loaded,
                                            .form = &ollama_form};
