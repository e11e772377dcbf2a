/* A model, as ollama's endpoints describe it. */
#ifndef SERVE_ENDPOINTS_OLLAMA_TAGS_H
#define SERVE_ENDPOINTS_OLLAMA_TAGS_H

#include "serve/server.h"

/* The members that all have: name, size, digest and details. For json_decref(); NULL: no memory. */
json_t *ollama_entry(const struct answerer *of);

#endif
