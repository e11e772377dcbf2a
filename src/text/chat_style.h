/* How the known chat templates render a conversation. */
#ifndef RF_TEXT_CHAT_STYLE_H
#define RF_TEXT_CHAT_STYLE_H

#include <stddef.h>
#include <stdint.h>

#include "text/chat_template.h"

enum rf_chat_role { RF_CHAT_SYSTEM, RF_CHAT_USER, RF_CHAT_ASSISTANT };

/* Placeholders in the texts of a style: the model's BOS and EOS tokens. */
#define RF_CHAT_BOS "\1"
#define RF_CHAT_EOS "\2"

/* The state of a rendering. After the first failure nothing is appended. */
struct rf_chat_output {
    struct rf_writer text; /* its code is the rendering's */
    struct rf_rendered *rendered;
    const struct rf_chat_template *chat;
    int add_generation_prompt;
};

typedef void rf_chat_render_fn(struct rf_chat_output *out, const struct rf_chat_message *messages,
                               size_t n_messages);

enum {
    RF_CHAT_TRIM_USER = 1, /* contents are stripped at both ends, like Python's strip() */
    RF_CHAT_TRIM_ASSISTANT = 2,
    RF_CHAT_TRIM_SYSTEM = 4,
    RF_CHAT_TRIM = 7,
    RF_CHAT_SKIP_EMPTY_SYSTEM = 8, /* a system message without content is left out */
    RF_CHAT_ANSWERED = 16,         /* no generation prompt after an assistant's message */
    RF_CHAT_SYSTEM_LAST = 32       /* [INST] styles: it goes before the last user message */
};

struct rf_chat_style {
    const char *name;
    rf_chat_render_fn *render; /* NULL: rf_chat_render_turns */
    unsigned flags;
    const char *begin;              /* before the first message; NULL: nothing */
    const char *open[3], *close[3]; /* around a message, by role; open NULL: refused */
    const char *head; /* opens the system message; set where the template always writes one */
    const char *default_system; /* of the template that the name refers to; NULL: none */
    /* After the last message, with and without a generation prompt; NULL: nothing. */
    const char *generation, *no_generation;
    /* Error texts of the template. */
    const char *alternate_error; /* where user and assistant must alternate */
    const char *system_error;    /* where the first message must not be a system message */
    const char *other_error;     /* [INST] styles: for a later system message */
};

struct rf_chat_template {
    const struct rf_allocator *allocator;
    const struct rf_chat_style *style;
    const char *name;
    char *bos, *eos;
    char *default_system; /* NULL: none */
};

/* The styles that can be chosen by name; NULL behind the last. */
const struct rf_chat_style *rf_chat_style_at(size_t index);
/* By the fingerprint of a template's form (template_form.h); NULL for an unknown one. */
const struct rf_chat_style *rf_chat_style_of_form(uint64_t fingerprint);

/* Appends to the rendering. `special`: the text is the template's own. */
void rf_chat_put(struct rf_chat_output *out, const char *text, size_t n, int special);

/* The ways to render; chat_render.c. */
rf_chat_render_fn rf_chat_render_turns, rf_chat_render_inst, rf_chat_render_qwen3;

#endif
