/* Thoughts: what a model writes between markers, before its reply. Servers and chats divide them.
 */
#ifndef ANSWERS_THOUGHTS_H
#define ANSWERS_THOUGHTS_H

#include <riffle_experimental.h>

#include "base/alloc.h"
#include "base/error.h"

enum thought_part {
    PART_MARKER, /* a marker, and the blanks beside it */
    PART_THOUGHT,
    PART_REPLY
};

enum { THOUGHTS_CONTROL = 64 };

/* A model's markers. Static. */
struct thought_form;

/* The form whose markers the model's template writes; that of <think> for a template without.
 * NULL: out of memory. */
const struct thought_form *rf_thought_form_of(const riffle_model *model);
/* Finds a form by the text that opens a thought; NULL: no such form. */
const struct thought_form *rf_thought_form_find(const char *opening);

/* A chat template's answer to whether its model thinks. */
enum template_thinking {
    THINKS_NOT,
    THINKS_AS_ASKED, /* it reads enable_thinking */
    THINKS_ALWAYS    /* it does not, but shows thoughts or opens one */
};

enum template_thinking rf_template_thinking(const riffle_model *model);

/* The next n > 0 bytes of the answer are of `part`. */
typedef void (*thought_fn)(void *user, enum thought_part part, const char *text, size_t n);

/* Divides an answer that arrives in pieces of whole characters. The parts that it passes on are, in
 * their order, the answer. Without a marker at its beginning, all of it is the reply. */
struct thoughts {
    const struct thought_form *form;
    thought_fn on_part;
    void *user;
    /* The rest is private. */
    struct rf_bytes held;   /* may belong to a marker */
    enum thought_part part; /* PART_MARKER: nothing but blanks came yet */
    int is_behind_marker;
};

/* `prompt`, n bytes, is the end of the text that the answer continues: it may have opened a
 * thought. */
void rf_thoughts_begin(struct thoughts *thoughts, const struct thought_form *form,
                       const char *prompt, size_t n, thought_fn on_part, void *user);
/* RF_ERR_MEMORY: the text is lost. */
int rf_thoughts_push(struct thoughts *thoughts, const char *text, size_t n, struct rf_error *error);
/* 1 if what was pushed ends within a thought. */
int rf_thoughts_go_on(const struct thoughts *thoughts);
/* Passes on what was held back. */
void rf_thoughts_end(struct thoughts *thoughts);
void rf_thoughts_free(struct thoughts *thoughts);

/* The text of a control token, which answers do not show; "": it is none, or a long one. */
void rf_thoughts_control(const riffle_model *model, int32_t token, char text[THOUGHTS_CONTROL]);

/* The text that ends a thought which a prompt, whose end are the n bytes, has opened; NULL: it has
 * opened none. */
const char *rf_thoughts_closing(const struct thought_form *form, const char *prompt, size_t n);

/* Whether the text of a control token belongs to a marker and is to be pushed. */
int rf_thoughts_want(const struct thoughts *thoughts, const char *control);

#endif
