/* A small vocabulary for tests of grammars: all single bytes, given texts, a token without a text
 * and two that end. */
#ifndef RF_TEST_VOCABULARY_H
#define RF_TEST_VOCABULARY_H

#include <stdlib.h>

#include "grammar/grammar.h"

enum { VOCABULARY_MOST = 1024 };

struct vocabulary {
    char bytes[256];
    struct rf_str texts[VOCABULARY_MOST];
    int32_t ends[2];
    struct rf_grammar_vocab of;
};

static inline void vocabulary_make(struct vocabulary *v, const struct rf_str *texts, int32_t n)
{
    int32_t count = 0;
    for (int i = 0; i < 256; i++) {
        v->bytes[i] = (char)i;
        v->texts[count++] = (struct rf_str){&v->bytes[i], 1};
    }
    for (int32_t i = 0; i < n; i++) v->texts[count++] = texts[i];
    for (int32_t i = 0; i < 3; i++) v->texts[count++] = (struct rf_str){"", 0};
    v->ends[0] = count - 2;
    v->ends[1] = count - 1;
    v->of = (struct rf_grammar_vocab){
        .n_vocab = count + 5, .n_texts = count, .texts = v->texts, .ends = v->ends, .n_ends = 2};
}

#endif
