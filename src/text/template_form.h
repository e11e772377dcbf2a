/* What a Jinja chat template does, written in one way only, so that templates can be compared.
 *
 * Two templates with the same form render alike: the form is the template after Jinja's own lexical
 * rules (trim_blocks and lstrip_blocks, as transformers sets them), with comments, layout inside
 * tags, quoting styles and constant output resolved, and with the branches gone that cannot be
 * taken where there are no tools, no documents, no date function and add_generation_prompt is
 * given. The text of a default system prompt between <|im_start|>system and <|im_end|> is taken out
 * and stated beside the form. */
#ifndef RF_TEXT_TEMPLATE_FORM_H
#define RF_TEXT_TEMPLATE_FORM_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

struct rf_template_form {
    struct rf_bytes text;           /* for people who compare two of them */
    uint64_t fingerprint;           /* of the text */
    struct rf_bytes default_system; /* the default system prompt, if has_default_system */
    int has_default_system;
};

/* 0; 1 with *why when the template uses something that this reader does not know; or a negative
 * code. */
int rf_template_form(const char *source, size_t n, const struct rf_allocator *allocator,
                     struct rf_template_form *form, const char **why, struct rf_error *error);
void rf_template_form_free(const struct rf_allocator *allocator, struct rf_template_form *form);

#endif
