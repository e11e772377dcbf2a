/* Chat templates: a conversation to the text that a model reads, by the template's Jinja source
 * (jinja.h). */
#ifndef RF_TEMPLATE_CHAT_TEMPLATE_H
#define RF_TEMPLATE_CHAT_TEMPLATE_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/json.h"
#include "template/jinja.h"
#include "text/tokenizer.h"

struct rf_chat_message {
    const char *role;
    const char *content;
};

/* A compiled template. Immutable. */
struct rf_chat_template;

/* Compiles the file's Jinja source, or a built-in one ("chatml", "llama3", ...) when `name` is not
 * NULL. A source that does not compile, or an unknown name, is an error that lists the names. bos
 * and eos are the texts of those tokens, "" if there are none. */
int rf_chat_template_new(struct rf_chat_template **chat, const char *source, size_t source_bytes,
                         const char *name, const char *bos, const char *eos,
                         const struct rf_allocator *allocator, struct rf_error *error);
void rf_chat_template_free(struct rf_chat_template *chat);
/* "jinja" for the file's own. */
const char *rf_chat_template_name(const struct rf_chat_template *chat);
/* Its Jinja source. */
const char *rf_chat_template_source(const struct rf_chat_template *chat);

/* The time that strftime_now() states, in seconds of Unix, instead of the clock's. */
void rf_chat_template_set_time(struct rf_chat_template *chat, int64_t unix_seconds);

/* A built-in template; NULL behind the last. */
struct rf_chat_builtin {
    const char *name, *source;
};
const struct rf_chat_builtin *rf_chat_builtin_at(size_t index);

/* Renders a conversation to segments. `special` is set for the template's own text, not for
 * contents. Fails where the template raises an exception, and where something of the conversation
 * would be lost without a word: a role that the template does not know, a content, calls of tools,
 * the tools, the documents. "developer" is "system" for a template that does not name it, and
 * "function" is "tool". Thoughts of earlier answers are the template's to keep or leave out.
 * `stop` may be NULL; a rendering that it stops fails with RF_ERR_CANCELLED. Tools and documents
 * that are not given are None, as transformers passes them; a template that fails with None is
 * rendered without these variables. `rendered` owns the texts. */
struct rf_rendered {
    struct rf_bytes text;
    struct rf_segment *segments; /* segments point into text.data */
    size_t n_segments, cap_segments;
};
int rf_chat_render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n_messages, int add_generation_prompt, const struct rf_jinja_stop *stop,
                   const struct rf_allocator *allocator, struct rf_rendered *rendered,
                   struct rf_error *error);
/* The same for a JSON object with "messages" as transformers takes them, and maybe "tools",
 * "documents" and other variables of the template. */
int rf_chat_render_json(const struct rf_chat_template *chat, const struct rf_json *conversation,
                        int add_generation_prompt, const struct rf_jinja_stop *stop,
                        const struct rf_allocator *allocator, struct rf_rendered *rendered,
                        struct rf_error *error);
void rf_rendered_free(const struct rf_allocator *allocator, struct rf_rendered *rendered);

#endif
