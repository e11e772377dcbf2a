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

/* How a text that meets a pattern is written: between quotation marks of JSON, or as it is. */
enum rf_pattern_form {
    RF_PATTERN_QUOTED, /* the pattern matches somewhere */
    RF_PATTERN_PLAIN,  /* likewise */
    RF_PATTERN_WHOLE   /* as it is; the pattern matches from begin to end */
};
/* A text that the ECMA 262 pattern matches. Patterns must be regular: no assertions but ^ and $
 * around an alternative, no back references. `pointer` begins sentences. */
const struct rf_expr *rf_text_pattern(struct rf_ir *ir, struct rf_str pattern,
                                      enum rf_pattern_form form, const char *pointer);

/* Any text without `end`, whose first character is in it only once. */
const struct rf_expr *rf_text_without(struct rf_ir *ir, struct rf_str end);
/* A character that `end` does not begin with. */
const struct rf_expr *rf_text_character_without(struct rf_ir *ir, struct rf_str end);

/* One of the characters between each two of `ends`: "09af" is a digit of hexadecimal numbers. */
const struct rf_expr *rf_text_class(struct rf_ir *ir, const char *ends);

/* ---- number_text.c ---- */

enum { RF_NUMBER_DIGITS = 1000 /* most digits of a limit, before the point and behind it */ };

/* One limit of a number: the digits before the decimal point ("0", or without zeros in front) and
 * behind it (without zeros at the end). NULL for `whole`: there is none. */
struct rf_number_limit {
    const char *whole, *part;
    int is_negative, is_excluded;
};
struct rf_number_limits {
    struct rf_number_limit low, high;
};

/* The limit that a JSON number is. `whole` NULL after a failure, and where it has too many digits,
 * which *is_too_long says. */
struct rf_number_limit rf_number_limit_of(struct rf_ir *ir, struct rf_str number, int is_excluded,
                                          int *is_too_long);
/* < 0, 0 or > 0 by their values. */
int rf_number_limit_order(const struct rf_number_limit *a, const struct rf_number_limit *b);

/* Integers between the limits, without exponents. */
const struct rf_expr *rf_text_integer(struct rf_ir *ir, const struct rf_number_limits *limits);
/* Numbers between the limits. A number with a limit has no exponent. */
const struct rf_expr *rf_text_number(struct rf_ir *ir, const struct rf_number_limits *limits);

#endif
