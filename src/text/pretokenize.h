/* Splits a text into the words within which byte-level BPE merges. */
#ifndef RF_TEXT_PRETOKENIZE_H
#define RF_TEXT_PRETOKENIZE_H

#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

/* The properties of a named pre-tokenizer. */
struct rf_pretokenizer_info {
    const char *name;    /* "qwen2" */
    const char *pattern; /* a PCRE2 pattern; its matches are the words */
    int nfc;             /* the tokenizer normalises to form C first */
    int adds_bos;
    int ignores_merges; /* a word that is a token becomes that token, without merges */
};

/* Finds a pre-tokenizer by GGUF's name; NULL for an unknown one. */
const struct rf_pretokenizer_info *rf_pretokenizer_find(struct rf_str name);
/* All names, for an error sentence. */
#define RF_PRETOKENIZERS \
    "gpt-2, llama-bpe, dbrx, qwen2, qwen35, smollm, gpt-4o, tekken and others with their words"

/* A compiled pattern. Immutable; threads may share it. */
struct rf_pretokenizer;
int rf_pretokenizer_new(struct rf_pretokenizer **pre, const struct rf_pretokenizer_info *info,
                        const struct rf_allocator *allocator, struct rf_error *error);
void rf_pretokenizer_free(struct rf_pretokenizer *pre);

/* An iteration over the words of a text. Every byte is in exactly one word. A run of bytes that are
 * not UTF-8 is a word of its own. */
struct rf_words {
    const struct rf_pretokenizer *pre;
    void *match; /* PCRE2's match data */
    const char *text;
    size_t bytes;
    size_t at;    /* where the next word begins */
    size_t valid; /* the end of the well-formed text at `at` */
};

int rf_words_begin(struct rf_words *words, const struct rf_pretokenizer *pre, const char *text,
                   size_t bytes, struct rf_error *error);
/* 1 and the next word, 0 at the end, or a negative code. */
int rf_words_next(struct rf_words *words, struct rf_str *word, struct rf_error *error);
void rf_words_end(struct rf_words *words);

#endif
