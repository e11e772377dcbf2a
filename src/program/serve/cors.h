/* Pages of other origins, as browsers let them ask (the Fetch standard's CORS protocol). Without
 * --cors none may, and replies say nothing of it. */
#ifndef SERVE_CORS_H
#define SERVE_CORS_H

#include "base/error.h"
#include "serve/server.h"

enum { CORS_ORIGIN = 200, CORS_LINES = 512, CORS_PREFLIGHT_LINES = 1280 };

/* RF_ERR_ARGUMENT: it is neither "*" nor SCHEME://HOST[:PORT]. */
int cors_check(const char *origin, struct rf_error *error);
/* Writes the lines of the head of a reply to the request, or "". */
void cors_lines(const struct exchange *exchange, char lines[CORS_LINES]);
/* Whether a browser asks for a page if it may send a request. */
int cors_is_preflight(const struct exchange *exchange);
/* Writes the further lines of the reply to that; `methods`: those of the path, separated by ", ".
 */
void cors_preflight_lines(const struct exchange *exchange, const char *methods,
                          char lines[CORS_PREFLIGHT_LINES]);

#endif
