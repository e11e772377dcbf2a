/* A chain as somebody wrote it: what is accepted keeps the promises of chain.h, what is not says
 * why. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speculate/chain.h"

static void expect(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_levels(const struct rf_chain *chain)
{
    expect(chain->n_levels >= 1 && chain->n_levels <= RF_MAX_LEVELS, "number of levels");
    for (int32_t i = 0; i < chain->n_levels; i++) {
        const struct rf_chain_level *level = &chain->levels[i];
        expect(memchr(level->name, 0, sizeof level->name) != NULL && level->name[0],
               "a name without an end");
        expect((level->kind == RF_LEVEL_TARGET) == (i == chain->n_levels - 1),
               "the target's place");
        expect((level->kind == RF_LEVEL_DRAFTER) == (level->drafter != NULL),
               "a drafter without a row, or a row without a drafter");
        expect(!level->drafter || strcmp(level->drafter->name, level->name) == 0,
               "the row of another drafter");
        expect(i == 0 || level->kind >= level[-1].kind, "the order of costs");
        for (int32_t before = 0; before < i; before++) {
            const struct rf_chain_level *other = &chain->levels[before];
            expect(other->kind != level->kind || other->form != level->form ||
                       strcmp(other->name, level->name) != 0,
                   "a level twice");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1), whole[8192];
    if (!text) return 0;
    if (bytes) memcpy(text, data, bytes);
    text[bytes] = 0;
    struct rf_chain chain;
    struct rf_error error = {0};
    int code = rf_chain_parse_all(&chain, text, &error);
    expect(code == 0 || (code == RF_ERR_ARGUMENT && error.code == code && error.text[0]),
           "an error without a sentence");
    if (code || chain.choice == RF_CHAIN_AUTO)
        expect(chain.n_levels == 0, "levels without a chain");
    else
        check_levels(&chain);

    rf_chain_format(&chain, whole, sizeof whole);
    size_t n = strlen(whole);
    for (size_t cap = 0; cap < 70; cap++) {
        char *part = malloc(cap ? cap : 1); /* exact size, so that a sanitizer sees overruns */
        if (!part) break;
        rf_chain_format(&chain, part, cap);
        if (cap)
            expect(strlen(part) <= n && memcmp(part, whole, strlen(part)) == 0,
                   "a cut is no beginning");
        free(part);
    }
    free(text);
    return 0;
}
