/* The vocabulary as a grammar sees it, and the matchers that wait for a generation
 * (grammar_store.h). */
#include "engine/grammar_store.h"

#include <string.h>

#include "grammar/ir.h"
#include "platform/lock.h"

struct rf_grammar_store {
    const struct rf_engine *engine;
    struct rf_grammar *grammar;
    struct rf_str *texts;
    char *names; /* names of control tokens, where the grammar may name them */
    int32_t *ends;
    struct rf_lock lock; /* guards the members below */
    struct rf_matcher **matchers;
    size_t n_matchers, cap_matchers;
};

/* Text that a grammar may be written with. Control tokens and unused ones have none. */
static struct rf_str grammar_text(const struct rf_tokenizer *tokenizer, int32_t token)
{
    enum rf_token_type type = rf_token_kind(tokenizer, token);
    int is_text = type == RF_TOKEN_NORMAL || type == RF_TOKEN_BYTE || type == RF_TOKEN_USER_DEFINED;
    return is_text && !rf_token_is_end(tokenizer, token) ? rf_token_text(tokenizer, token, 0)
                                                         : (struct rf_str){"", 0};
}

/* Masks are read by all models of the chain, so they have bits for the largest vocabulary. */
static int32_t widest_vocab(const struct rf_engine *engine)
{
    int32_t widest = engine->source->params.n_vocab;
    for (int32_t l = 0; l < engine->drafts.chain.n_levels; l++) {
        const struct rf_source *source = engine->drafts.weights[l].source;
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
static int name_control_tokens(struct rf_grammar_store *store, int32_t n, struct rf_error *error)
{
    const struct rf_tokenizer *tokenizer = store->engine->tokenizer;
    size_t bytes = 1;
    for (int32_t t = 0; t < n; t++)
        if (is_control(tokenizer, t)) bytes += 1 + rf_token_text(tokenizer, t, 1).bytes;
    store->names = rf_malloc(&store->engine->allocator, bytes, 1, "vocabulary", error);
    if (!store->names) return RF_ERR_MEMORY;
    char *at = store->names;
    for (int32_t t = 0; t < n; t++) {
        struct rf_str name = rf_token_text(tokenizer, t, 1);
        if (!is_control(tokenizer, t) || !name.bytes) continue;
        store->texts[t] = (struct rf_str){at, name.bytes + 1};
        *at++ = '\xff';
        memcpy(at, name.data, name.bytes);
        at += name.bytes;
    }
    return 0;
}

static int list_tokens(struct rf_grammar_store *store, enum rf_grammar_kind kind,
                       struct rf_grammar_vocab *vocab, struct rf_error *error)
{
    const struct rf_engine *engine = store->engine;
    int32_t n = rf_tokenizer_n_tokens(engine->tokenizer);
    if (n > engine->source->params.n_vocab) n = engine->source->params.n_vocab;
    store->texts =
        rf_malloc(&engine->allocator, (size_t)n, sizeof *store->texts, "vocabulary", error);
    store->ends =
        rf_malloc(&engine->allocator, (size_t)n, sizeof *store->ends, "vocabulary", error);
    if (!store->texts || !store->ends) return RF_ERR_MEMORY;
    *vocab = (struct rf_grammar_vocab){
        .n_vocab = widest_vocab(engine), .n_texts = n, .texts = store->texts, .ends = store->ends};
    for (int32_t t = 0; t < n; t++) {
        store->texts[t] = grammar_text(engine->tokenizer, t);
        if (rf_token_is_end(engine->tokenizer, t)) store->ends[vocab->n_ends++] = t;
    }
    return kind == RF_GRAMMAR_CHOICE ? name_control_tokens(store, n, error) : 0;
}

int rf_grammar_store_new(struct rf_grammar_store **store, const struct rf_engine *engine,
                         enum rf_grammar_kind kind, struct rf_str text, int (*stops)(void *user),
                         void *user, struct rf_error *error)
{
    struct rf_watch watch = {stops, user, 0};
    struct rf_grammar_vocab vocab;
    *store = NULL;
    struct rf_grammar_store *made =
        rf_calloc(&engine->allocator, 1, sizeof *made, "grammar", error);
    if (!made) return RF_ERR_MEMORY;
    made->engine = engine;
    rf_lock_init(&made->lock);
    int code = list_tokens(made, kind, &vocab, error);
    if (!code)
        code = rf_grammar_new(&made->grammar, kind, text, &vocab, stops ? &watch : NULL,
                              &engine->allocator, error);
    if (code)
        rf_grammar_store_free(made);
    else
        *store = made;
    return code;
}

void rf_grammar_store_free(struct rf_grammar_store *store)
{
    if (!store) return;
    const struct rf_allocator *allocator = &store->engine->allocator;
    for (size_t i = 0; i < store->n_matchers; i++) rf_matcher_free(store->matchers[i]);
    rf_free(allocator, store->matchers);
    rf_grammar_free(store->grammar);
    rf_free(allocator, store->texts);
    rf_free(allocator, store->names);
    rf_free(allocator, store->ends);
    rf_lock_destroy(&store->lock);
    rf_free(allocator, store);
}

int rf_grammar_store_take(struct rf_matcher **matcher, struct rf_grammar_store *store,
                          const struct rf_engine *engine, struct rf_error *error)
{
    *matcher = NULL;
    if (store->engine != engine)
        return rf_fail(error, RF_ERR_ARGUMENT, "the grammar was made for another model");
    rf_lock_take(&store->lock);
    if (store->n_matchers) *matcher = store->matchers[--store->n_matchers];
    rf_lock_release(&store->lock);
    return *matcher ? 0 : rf_matcher_new(matcher, store->grammar, error);
}

void rf_grammar_store_return(struct rf_matcher *matcher, struct rf_grammar_store *store)
{
    struct rf_error ignored; /* if there is no room, the matcher is freed */
    rf_lock_take(&store->lock);
    struct rf_matcher **grown =
        rf_grow(&store->engine->allocator, store->matchers, store->n_matchers, 1,
                &store->cap_matchers, sizeof *grown, "grammar", &ignored);
    if (grown) {
        store->matchers = grown;
        store->matchers[store->n_matchers++] = matcher;
    }
    rf_lock_release(&store->lock);
    if (!grown) rf_matcher_free(matcher);
}
