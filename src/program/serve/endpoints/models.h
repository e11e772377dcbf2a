/* A model as an object of OpenAI's interface, in lists and alone. */
#ifndef SERVE_ENDPOINTS_MODELS_H
#define SERVE_ENDPOINTS_MODELS_H

#include "serve/server.h"

/* NULL: out of memory, or its name cannot be told. Called without the server's lock. */
json_t *models_object(struct server *server, const char *name, const char *path);

#endif
