/* GET /v1/models/ID: one of the models that requests may name, by any of its names. */
#include <stdlib.h>

#include "serve/endpoint.h"
#include "serve/endpoints/models.h"

static char *tell_model(struct server *server, const char *rest, struct refusal *refusal)
{
    const struct rf_serve_options *options = server->options;
    struct rf_serve_entry entry = {NULL, NULL};
    if (options->find(options->user, rest, &entry)) {
        models_refuse(&server->models, rest, refusal);
        return NULL;
    }
    json_t *object = models_object(server, entry.name, entry.path);
    free(entry.name);
    free(entry.path);
    if (!object) refuse_memory(refusal);
    return object ? reply_write(object, 0) : NULL;
}

const struct endpoint endpoint_model = {"GET", "/v1/models/", .takes_rest = 1, .tell = tell_model};
