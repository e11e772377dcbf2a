/* The tokenizers of test/data, opened by number. */
#ifndef RF_TEST_SPEC_VOCABULARIES_H
#define RF_TEST_SPEC_VOCABULARIES_H

#include "model/source.h"
#include "text/fixture.h"
#include "text/tokenizer.h"

enum { GPT2, LLAMA3, QWEN2, SMOLLM, SPM_BPE, SPM_UNIGRAM, STORIES, N_VOCABULARIES };

struct vocabulary {
    const char *name;
    /* 1: every text comes back from its ids byte by byte, but for U+2581 and what follows a
     * user-defined token in sentencepiece's. */
    int exact;
    struct fixture_vocab fixture;
    char *proto;              /* SPM_UNIGRAM only */
    struct rf_source *source; /* STORIES only */
    struct rf_tokenizer *tokenizer;
};

/* 0, or -1 with a message. Either way to be closed. */
int vocabulary_open(struct vocabulary *vocabulary, int number);
void vocabulary_close(struct vocabulary *vocabulary);

/* The ids of a text, without special tokens. flags: RF_ENCODE_*. */
struct rf_tokens vocabulary_encode(const struct vocabulary *vocabulary, struct rf_str text,
                                   unsigned flags);

#endif
