/* Replies that are known as a whole. Endpoints and the network queue them here, where they are
 * counted and get the headers that all replies have. */
#ifndef SERVE_SEND_H
#define SERVE_SEND_H

#include "serve/server.h"

extern const char json_media[]; /* "application/json" */

/* Queues the response, which is taken; NULL: out of memory, and the connection is closed. */
enum MHD_Result send_response(struct exchange *exchange, unsigned status, const char *type,
                              struct MHD_Response *response);
/* Sends a text, which is for free(); it may be NULL. */
enum MHD_Result send_text(struct exchange *exchange, unsigned status, const char *type, char *text);
enum MHD_Result send_refusal(struct exchange *exchange, const struct refusal *refusal);

#endif
