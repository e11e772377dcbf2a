/* A grammar of an engine's vocabulary, with a store of matchers: a generation takes one and gives
 * it back, so that its automaton serves the next one. Threads may share a store. */
#ifndef RF_ENGINE_GRAMMAR_STORE_H
#define RF_ENGINE_GRAMMAR_STORE_H

#include <riffle.h>

#include "engine/engine.h"
#include "grammar/grammar.h"

struct rf_grammar_store;

/* stops: asked many times a second while the text is compiled; non-zero ends it with
 * RF_ERR_CANCELLED. NULL: nobody asks. */
int rf_grammar_store_new(struct rf_grammar_store **store, const struct rf_engine *engine,
                         enum rf_grammar_kind kind, struct rf_str text, int (*stops)(void *user),
                         void *user, struct rf_error *error);
void rf_grammar_store_free(struct rf_grammar_store *store);

/* A matcher for one generation. RF_ERR_ARGUMENT: the grammar is another engine's. */
int rf_grammar_store_take(struct rf_matcher **matcher, struct rf_grammar_store *store,
                          const struct rf_engine *engine, struct rf_error *error);
/* Keeps it for the next generation. A matcher whose generation failed is freed instead. */
void rf_grammar_store_return(struct rf_matcher *matcher, struct rf_grammar_store *store);

#endif
