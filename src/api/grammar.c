/* Handles of grammars: making one for a model's vocabulary, and freeing it. */
#include "api/handles.h"

int riffle_grammar_new(riffle_grammar **grammar, const riffle_model *model,
                       riffle_grammar_kind kind, const char *text, size_t text_bytes)
{
    return riffle_grammar_new_watched(grammar, model, kind, text, text_bytes, NULL, NULL);
}

int riffle_grammar_new_watched(riffle_grammar **grammar, const riffle_model *model,
                               riffle_grammar_kind kind, const char *text, size_t text_bytes,
                               riffle_stops_fn stops, void *user)
{
    if (grammar) *grammar = NULL;
    if (!grammar || !model || (!text && text_bytes))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !grammar ? "grammar"
                            : !model ? "model"
                                     : "text");
    if (kind != RIFFLE_GRAMMAR_GBNF && kind != RIFFLE_GRAMMAR_JSON_SCHEMA &&
        kind != RIFFLE_GRAMMAR_CHOICE)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "kind %d is none of grammars", (int)kind);
    const enum rf_grammar_kind inner = kind == RIFFLE_GRAMMAR_GBNF     ? RF_GRAMMAR_GBNF
                                       : kind == RIFFLE_GRAMMAR_CHOICE ? RF_GRAMMAR_CHOICE
                                                                       : RF_GRAMMAR_JSON_SCHEMA;
    const struct rf_str given = {text_bytes ? text : "", text_bytes};
    struct rf_error error;
    riffle_grammar *made = rf_calloc(&model->engine->allocator, 1, sizeof *made, "grammar", &error);
    if (!made) return rf_api_fail(&error);
    made->allocator = model->engine->allocator;
    if (rf_grammar_store_new(&made->store, model->engine, inner, given, stops, user, &error)) {
        rf_free(&made->allocator, made);
        return rf_api_fail(&error);
    }
    *grammar = made;
    return 0;
}

void riffle_grammar_free(riffle_grammar *grammar)
{
    if (!grammar) return;
    struct rf_allocator allocator = grammar->allocator;
    rf_grammar_store_free(grammar->store);
    rf_free(&allocator, grammar);
}
