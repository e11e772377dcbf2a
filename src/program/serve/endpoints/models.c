/* GET /v1/models: the models that requests may name, with their states. */
#include "serve/endpoints/models.h"

#include "serve/endpoint.h"
#include "serve/send.h"

json_t *models_object(struct server *server, const char *name, const char *path)
{
    enum model_state state = MODEL_CLOSED;
    rf_lock_take(&server->lock);
    const struct served_model *row = models_row(&server->models, name, path);
    if (row) state = row->state;
    rf_lock_release(&server->lock);
    if (!reply_can_name(name)) return NULL;
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", name, "object", "model", "created",
                     (json_int_t)server->started, "owned_by", "riffle", "state",
                     model_states[state]);
}

struct listing {
    struct server *server;
    json_t *list;
};

static void list_model(void *to, const char *name, const char *path)
{
    struct listing *listing = to;
    json_t *object = models_object(listing->server, name, path);
    if (object) json_array_append_new(listing->list, object);
}

static char *tell_models(struct server *server, const char *rest, struct refusal *refusal)
{
    const struct rf_serve_options *options = server->options;
    struct listing listing = {server, json_array()};
    (void)rest, (void)refusal;
    if (!listing.list) return NULL;
    options->each(options->user, list_model, &listing);
    return reply_write(json_pack("{s:s, s:o}", "object", "list", "data", listing.list), 0);
}

const struct endpoint endpoint_models = {"GET", "/v1/models", .tell = tell_models};
