/* The shared parts of ollama's endpoints: a context that a request makes smaller, and requests that
 * ask nothing. */
#ifndef SERVE_ENDPOINTS_OLLAMA_GENERATE_H
#define SERVE_ENDPOINTS_OLLAMA_GENERATE_H

#include "requests/accepted.h"
#include "serve/endpoint.h"

/* Has the endpoint take the translated body, within the context that the request asks for. 0, or -1
 * with a refusal. */
int ollama_take_within(const struct endpoint *endpoint, const json_t *translated,
                       const json_t *body, const struct answerer *of, struct question *question,
                       struct refusal *refusal);
/* Takes a body that only has the model loaded, which it is. `endpoint`, `form`: the reply's. */
int ollama_take_loading(const json_t *body, enum accepted_by endpoint,
                        const struct reply_form *form, const struct answerer *of,
                        struct question *question, struct refusal *refusal);

#endif
