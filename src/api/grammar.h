/* The matchers of a caller's grammar. */
#ifndef RF_API_GRAMMAR_H
#define RF_API_GRAMMAR_H

#include <riffle.h>

#include "base/error.h"
#include "grammar/grammar.h"

/* A matcher for one generation. RF_ERR_ARGUMENT: the grammar is another model's. */
int rf_api_take_matcher(struct rf_matcher **matcher, riffle_grammar *grammar,
                        const riffle_model *model, struct rf_error *error);
/* Keeps it for the next generation. One whose generation failed is freed instead. */
void rf_api_return_matcher(struct rf_matcher *matcher, riffle_grammar *grammar);

#endif
