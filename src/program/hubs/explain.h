/* Sentences for what a hub refuses. The readers of lists and whoever fetches files call it. */
#ifndef HUBS_EXPLAIN_H
#define HUBS_EXPLAIN_H

#include "fetch/http.h"
#include "hubs/name.h"

/* Replaces the sentence of a refused request by one that says what can be done; others stay.
 * Returns the code. */
int hub_explain(const struct hub_name *name, const struct http_refusal *refusal,
                struct rf_error *error);

#endif
