/* Renders the known chat templates exactly as Jinja renders the originals. */
#ifndef RF_TEXT_CHAT_TEMPLATE_H
#define RF_TEXT_CHAT_TEMPLATE_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "text/tokenizer.h"

struct rf_chat_message {
    const char *role;
    const char *content;
};

/* A recognised template. Immutable. */
struct rf_chat_template;

/* From the file's Jinja source, or by name ("chatml", "llama3", ...) when `name` is not NULL. A
 * source that is not recognised, or an unknown name, is an error that lists the names and says how
 * to choose. bos and eos are the texts of those tokens, "" if there are none; some
 * templates write them. */
int rf_chat_template_new(struct rf_chat_template **chat, const char *source, size_t source_bytes,
                         const char *name, const char *bos, const char *eos,
                         const struct rf_allocator *allocator, struct rf_error *error);
void rf_chat_template_free(struct rf_chat_template *chat);
const char *rf_chat_template_name(const struct rf_chat_template *chat);

/* Renders a conversation to segments. `special` is set for the template's own text, not for
 * contents. An unknown role, or one that the template does not accept at its place, is an error
 * that says so. `rendered` owns the texts. */
struct rf_rendered {
    struct rf_bytes text;
    struct rf_segment *segments; /* their text points into text.data */
    size_t n_segments, cap_segments;
};
int rf_chat_render(const struct rf_chat_template *chat, const struct rf_chat_message *messages,
                   size_t n_messages, int add_generation_prompt,
                   const struct rf_allocator *allocator, struct rf_rendered *rendered,
                   struct rf_error *error);
void rf_rendered_free(const struct rf_allocator *allocator, struct rf_rendered *rendered);

#endif
