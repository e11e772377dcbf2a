/* Parts of JSON texts as expressions. Each returns NULL after a failure of the reader. */
#ifndef RF_GRAMMAR_JSON_TEXT_H
#define RF_GRAMMAR_JSON_TEXT_H

#include "grammar/ir.h"

/* An expression that no text meets. */
const struct rf_expr *rf_text_none(struct rf_ir *ir);
int rf_text_is_none(const struct rf_expr *expr);
const struct rf_expr *rf_text(struct rf_ir *ir, const char *text);
const struct rf_expr *rf_text_optional(struct rf_ir *ir, const struct rf_expr *expr);
/* The expressions up to a NULL. */
#define rf_text_sequence(ir, ...)                                         \
    rf_ir_sequence((ir), (const struct rf_expr *const[]){__VA_ARGS__},    \
                   sizeof((const struct rf_expr *const[]){__VA_ARGS__}) / \
                       sizeof(const struct rf_expr *))
#define rf_text_choice(ir, ...)                                         \
    rf_ir_choice((ir), (const struct rf_expr *const[]){__VA_ARGS__},    \
                 sizeof((const struct rf_expr *const[]){__VA_ARGS__}) / \
                     sizeof(const struct rf_expr *))

/* One of these characters, as it is written inside a JSON string. */
const struct rf_expr *rf_text_string_chars(struct rf_ir *ir, const struct rf_range *ranges,
                                           size_t n);
/* Any character of a JSON string, also written as an escape; never a lone surrogate. */
const struct rf_expr *rf_text_string_any(struct rf_ir *ir);

/* A text that the ECMA 262 pattern matches, as it is written between quotation marks. Patterns must
 * be regular: no assertions but ^ and $ around an alternative, no back references. `pointer` begins
 * sentences. */
const struct rf_expr *rf_text_pattern(struct rf_ir *ir, struct rf_str pattern, const char *pointer);

/* Limits of a number; a bound of INT64_MIN or INT64_MAX is none. */
struct rf_number_limits {
    int64_t low, high;
    int low_excluded, high_excluded;
};
/* Integers between the limits, which are included; of at most 15 digits unless these have more. */
const struct rf_expr *rf_text_integer(struct rf_ir *ir, const struct rf_number_limits *limits);
/* Numbers between the limits. A number with a limit has no exponent. */
const struct rf_expr *rf_text_number(struct rf_ir *ir, const struct rf_number_limits *limits);

#endif
