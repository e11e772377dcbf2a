/* Multiples of a number: multipleOf of JSON schemas. */
#ifndef RF_GRAMMAR_MULTIPLE_TEXT_H
#define RF_GRAMMAR_MULTIPLE_TEXT_H

#include "grammar/json_text.h"

enum {
    RF_MULTIPLE_PLACES = 6, /* most digits behind the point */
    RF_MULTIPLE_MOST = 1000 /* greatest remainder that is told apart, about */
};

/* size / 10^places; size is no multiple of 10. */
struct rf_multiple {
    uint64_t size;
    int32_t places;
};

/* Room for the alternatives of a digit, and for some lengths. */
struct rf_choice_parts {
    const struct rf_expr *items[64];
    size_t n;
};

/* 1 and the number that a JSON number is; 0: it is not above 0, or has too many digits. */
int rf_multiple_of(struct rf_str number, struct rf_multiple *multiple);
/* Makes it the least common multiple of both; 0: that is too large. */
int rf_multiple_join(struct rf_multiple *multiple, struct rf_multiple other);
/* Whether a JSON number is a multiple; for a size of up to 15 digits. */
int rf_multiple_divides(struct rf_multiple multiple, struct rf_str number);

/* Multiples between the limits, without exponents, and without zeros at the end that `places` does
 * not have. Fails where the remainders are too many. */
const struct rf_expr *rf_text_multiples(struct rf_ir *ir, const struct rf_number_limits *limits,
                                        struct rf_multiple of, int is_integer);

#endif
