/* A grammar as somebody wrote it: a JSON schema where it begins with '{', else GBNF. What is
 * accepted can be walked, and only along the masks; what is not says why. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "grammar/vocabulary.h"
#include "platform/memory.h"

enum { STEPS = 24 };

static void expect(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static int has_bit(const struct rf_token_mask *mask, int32_t token)
{
    return (int)(mask->bits[token / 64] >> token % 64 & 1);
}

/* Always the next token that may follow. */
static void walk(struct rf_matcher *matcher, const struct rf_grammar_vocab *vocab)
{
    struct rf_error error = {.text = ""};
    struct rf_token_mask mask;
    int32_t state = rf_matcher_start(matcher, &error), token = 0;
    for (int step = 0; step < STEPS && state > RF_STATE_FINAL; step++) {
        if (rf_matcher_mask(matcher, state, &mask, &error)) break;
        expect(mask.count > 0, "a state without a way on, though there is a token for each byte");
        for (int32_t t = 0; t < 3; t++) {
            do token = (token + 7) % vocab->n_texts;
            while (vocab->texts[token].bytes == 0);
            int32_t after = rf_matcher_advance(matcher, state, token, &error);
            expect(after < 0 || (after != RF_STATE_REJECTED) == has_bit(&mask, token),
                   "a mask that says something else than the step");
        }
        while (!has_bit(&mask, token)) token = (token + 1) % vocab->n_vocab;
        state = rf_matcher_advance(matcher, state, token, &error);
        expect(state != RF_STATE_REJECTED, "a token of the mask is rejected");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct rf_str texts[] = {{"ab", 2}, {"\",\"", 3}, {"  ", 2}, {"}]", 2}, {"12", 2}};
    static struct vocabulary vocabulary;
    vocabulary_make(&vocabulary, texts, 5);
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    struct rf_matcher *matcher;
    struct rf_str text = {(const char *)data, bytes};
    enum rf_grammar_kind kind = bytes && data[0] == '{' ? RF_GRAMMAR_JSON_SCHEMA : RF_GRAMMAR_GBNF;
    if (bytes > 4096) return 0;
    int code =
        rf_grammar_new(&grammar, kind, text, &vocabulary.of, NULL, &rf_system_allocator, &error);
    expect(code == 0 || (error.code == code && error.text[0]), "an error without a sentence");
    if (code) return 0;
    if (rf_matcher_new(&matcher, grammar, &error) == 0)
        walk(matcher, &vocabulary.of);
    else
        matcher = NULL;
    rf_matcher_free(matcher);
    rf_grammar_free(grammar);
    return 0;
}
