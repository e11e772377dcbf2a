/* A request while the batch answers it. The computing thread calls these under the server's lock;
 * a thread that prepares the question calls exchange_begin, and whoever has it last exchange_free,
 * without. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H

#include "serve/server.h"

/* Makes the choices of the question. 0, or -1 with exchange->refusal. */
int exchange_begin(struct exchange *exchange);
void exchange_free(struct exchange *exchange);
/* Takes it out of the list; the network has the rest, unless it is gone. */
void exchange_release(struct exchange *exchange);
/* Has the batch answer, or refuses. */
void exchange_ask(struct exchange *exchange);
/* Replies with the number of the prompt's tokens; the batch is not asked. */
void exchange_tell_count(struct exchange *exchange);
/* Ends what the batch still answers. */
void exchange_cancel(struct exchange *exchange);

#endif
