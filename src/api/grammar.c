/* Grammars of a model, with a store of matchers: a generation takes one and gives it back, so that
 * what it found out serves the next one. */
#include <string.h>

#include "api/grammar.h"

#include "api/handles.h"
#include "grammar/ir.h"
#include "platform/lock.h"

struct riffle_grammar {
    const riffle_model *model;
    struct rf_grammar *grammar;
    struct rf_str *texts;
    char *names; /* of control tokens, where the grammar may name them */
    int32_t *ends;
    struct rf_lock lock; /* of the rest */
    struct rf_matcher **matchers;
    size_t n_matchers, cap_matchers;
};

/* Text that a grammar may be written with. Control tokens and unused ones have none. */
static struct rf_str text_of(const struct rf_tokenizer *tokenizer, int32_t token)
{
    enum rf_token_type type = rf_token_kind(tokenizer, token);
    int is_text = type == RF_TOKEN_NORMAL || type == RF_TOKEN_BYTE || type == RF_TOKEN_USER_DEFINED;
    return is_text && !rf_token_is_end(tokenizer, token) ? rf_token_text(tokenizer, token, 0)
                                                         : (struct rf_str){"", 0};
}

/* Masks are read by all models of the chain, so they have bits for the largest vocabulary. */
static int32_t widest_vocab(const riffle_model *model)
{
    int32_t widest = model->source->params.n_vocab;
    for (int32_t l = 0; l < model->drafts.chain.n_levels; l++) {
        const struct rf_source *source = model->drafts.weights[l].source;
        if (source && source->params.n_vocab > widest) widest = source->params.n_vocab;
    }
    return widest;
}

static int is_control(const struct rf_tokenizer *tokenizer, int32_t token)
{
    return rf_token_kind(tokenizer, token) == RF_TOKEN_CONTROL &&
           !rf_token_is_end(tokenizer, token);
}

/* Control tokens get the text by which a grammar names them (struct rf_grammar_vocab). */
static int name_control_tokens(riffle_grammar *grammar, int32_t n, struct rf_error *error)
{
    const struct rf_tokenizer *tokenizer = grammar->model->tokenizer;
    size_t bytes = 1;
    for (int32_t t = 0; t < n; t++)
        if (is_control(tokenizer, t)) bytes += 1 + rf_token_text(tokenizer, t, 1).bytes;
    grammar->names = rf_malloc(&grammar->model->allocator, bytes, 1, "vocabulary", error);
    if (!grammar->names) return RF_ERR_MEMORY;
    char *at = grammar->names;
    for (int32_t t = 0; t < n; t++) {
        struct rf_str name = rf_token_text(tokenizer, t, 1);
        if (!is_control(tokenizer, t) || !name.bytes) continue;
        grammar->texts[t] = (struct rf_str){at, name.bytes + 1};
        *at++ = '\xff';
        memcpy(at, name.data, name.bytes);
        at += name.bytes;
    }
    return 0;
}

static int list_tokens(riffle_grammar *grammar, riffle_grammar_kind kind,
                       struct rf_grammar_vocab *vocab, struct rf_error *error)
{
    const riffle_model *model = grammar->model;
    int32_t n = rf_tokenizer_n_tokens(model->tokenizer);
    if (n > model->source->params.n_vocab) n = model->source->params.n_vocab;
    grammar->texts =
        rf_malloc(&model->allocator, (size_t)n, sizeof *grammar->texts, "vocabulary", error);
    grammar->ends =
        rf_malloc(&model->allocator, (size_t)n, sizeof *grammar->ends, "vocabulary", error);
    if (!grammar->texts || !grammar->ends) return RF_ERR_MEMORY;
    *vocab = (struct rf_grammar_vocab){.n_vocab = widest_vocab(model),
                                       .n_texts = n,
                                       .texts = grammar->texts,
                                       .ends = grammar->ends};
    for (int32_t t = 0; t < n; t++) {
        grammar->texts[t] = text_of(model->tokenizer, t);
        if (rf_token_is_end(model->tokenizer, t)) grammar->ends[vocab->n_ends++] = t;
    }
    return kind == RIFFLE_GRAMMAR_CHOICE ? name_control_tokens(grammar, n, error) : 0;
}

int riffle_grammar_new(riffle_grammar **grammar, const riffle_model *model,
                       riffle_grammar_kind kind, const char *text, size_t text_bytes)
{
    return riffle_grammar_new_watched(grammar, model, kind, text, text_bytes, NULL, NULL);
}

int riffle_grammar_new_watched(riffle_grammar **grammar, const riffle_model *model,
                               riffle_grammar_kind kind, const char *text, size_t text_bytes,
                               riffle_stops_fn stops, void *user)
{
    struct rf_watch watch = {stops, user, 0};
    if (grammar) *grammar = NULL;
    if (!grammar || !model || (!text && text_bytes))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL",
                            !grammar ? "grammar"
                            : !model ? "model"
                                     : "text");
    if (kind != RIFFLE_GRAMMAR_GBNF && kind != RIFFLE_GRAMMAR_JSON_SCHEMA &&
        kind != RIFFLE_GRAMMAR_CHOICE)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "kind %d is none of grammars", (int)kind);
    struct rf_error error;
    struct rf_grammar_vocab vocab;
    riffle_grammar *made = rf_calloc(&model->allocator, 1, sizeof *made, "grammar", &error);
    if (!made) return rf_api_fail(&error);
    made->model = model;
    rf_lock_init(&made->lock);
    int code = list_tokens(made, kind, &vocab, &error);
    if (!code)
        code = rf_grammar_new(&made->grammar,
                              kind == RIFFLE_GRAMMAR_GBNF     ? RF_GRAMMAR_GBNF
                              : kind == RIFFLE_GRAMMAR_CHOICE ? RF_GRAMMAR_CHOICE
                                                              : RF_GRAMMAR_JSON_SCHEMA,
                              (struct rf_str){text_bytes ? text : "", text_bytes}, &vocab,
                              stops ? &watch : NULL, &model->allocator, &error);
    if (code) {
        riffle_grammar_free(made);
        return rf_api_fail(&error);
    }
    *grammar = made;
    return 0;
}

void riffle_grammar_free(riffle_grammar *grammar)
{
    if (!grammar) return;
    const struct rf_allocator *allocator = &grammar->model->allocator;
    for (size_t i = 0; i < grammar->n_matchers; i++) rf_matcher_free(grammar->matchers[i]);
    rf_free(allocator, grammar->matchers);
    rf_grammar_free(grammar->grammar);
    rf_free(allocator, grammar->texts);
    rf_free(allocator, grammar->names);
    rf_free(allocator, grammar->ends);
    rf_lock_destroy(&grammar->lock);
    rf_free(allocator, grammar);
}

int rf_api_take_matcher(struct rf_matcher **matcher, riffle_grammar *grammar,
                        const riffle_model *model, struct rf_error *error)
{
    *matcher = NULL;
    if (grammar->model != model)
        return rf_fail(error, RF_ERR_ARGUMENT, "the grammar was made for another model");
    rf_lock_take(&grammar->lock);
    if (grammar->n_matchers) *matcher = grammar->matchers[--grammar->n_matchers];
    rf_lock_release(&grammar->lock);
    return *matcher ? 0 : rf_matcher_new(matcher, grammar->grammar, error);
}

void rf_api_return_matcher(struct rf_matcher *matcher, riffle_grammar *grammar)
{
    struct rf_error ignored; /* without room the matcher goes */
    rf_lock_take(&grammar->lock);
    struct rf_matcher **grown =
        rf_grow(&grammar->model->allocator, grammar->matchers, grammar->n_matchers, 1,
                &grammar->cap_matchers, sizeof *grown, "grammar", &ignored);
    if (grown) {
        grammar->matchers = grown;
        grammar->matchers[grammar->n_matchers++] = matcher;
    }
    rf_lock_release(&grammar->lock);
    if (!grown) rf_matcher_free(matcher);
}
