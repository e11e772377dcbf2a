/* The normal form of a Jinja chat template, for comparing templates.
 *
 * Two templates with the same form render alike. The form is the template after Jinja's lexical
 * rules, with trim_blocks and lstrip_blocks as transformers sets them. Comments, layout inside
 * tags, quoting styles and constant output are resolved. Branches are gone that need tools,
 * documents or a date function, or that need add_generation_prompt to be missing. The default
 * system prompt between <|im_start|>system and <|im_end|> is not part of the form; it is stored
 * beside it. */
#ifndef RF_TEXT_TEMPLATE_FORM_H
#define RF_TEXT_TEMPLATE_FORM_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

struct rf_template_form {
    struct rf_bytes text;           /* readable, for comparing two templates by eye */
    uint64_t fingerprint;           /* of the text */
    struct rf_bytes default_system; /* the default system prompt, if has_default_system */
    int has_default_system;
};

/* 0; 1 and *why when the template uses something that this reader does not know; or a negative
 * code. */
int rf_template_form(const char *source, size_t n, const struct rf_allocator *allocator,
                     struct rf_template_form *form, const char **why, struct rf_error *error);
void rf_template_form_free(const struct rf_allocator *allocator, struct rf_template_form *form);

#endif
