/* Replies to requests. They are counted here and get the headers that all replies have. Any thread
 * may call these while the exchange is not gone. */
#ifndef SERVE_SEND_H
#define SERVE_SEND_H

#include "serve/server.h"

extern const char json_media[]; /* "application/json" */

/* Sends n bytes, with further header lines. */
void send_bytes(struct exchange *exchange, int status, const char *type, const char *more,
                const char *text, size_t n);
/* Sends a file that only another build changes, or 304 to a client that has it already. */
void send_file(struct exchange *exchange, const char *type, const char *more, const char *text);
/* Sends a text, which is for free(); NULL: out of memory. */
void send_text(struct exchange *exchange, int status, const char *type, char *text);
void send_refusal(struct exchange *exchange, const struct refusal *refusal);
/* Begins a stream. */
void send_stream(struct exchange *exchange);
/* Counts a reply. */
void send_count(struct server *server, int status);

#endif
