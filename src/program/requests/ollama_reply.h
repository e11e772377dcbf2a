/* The text of replies in ollama's form: objects, and streams of one object a line. The endpoints of
 * ollama name these forms; other files make what their `known` replies say. */
#ifndef REQUESTS_OLLAMA_REPLY_H
#define REQUESTS_OLLAMA_REPLY_H

#include "requests/reply.h"

extern const struct reply_form ollama_chat_form, ollama_generate_form, ollama_embed_form,
    ollama_embedding_form;
/* Replies that are known already, and errors of any path. */
extern const struct reply_form ollama_form;

/* The reply to a request that only has the model loaded, which it is. For free(). */
char *ollama_reply_loaded(const struct reply_form *form, const char *model);

#endif
