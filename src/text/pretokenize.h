/* Splits a text into the words within which byte-level BPE merges. */
#ifndef RF_TEXT_PRETOKENIZE_H
#define RF_TEXT_PRETOKENIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

/* A PCRE2 pattern that cuts a text: each match is a piece, and so is each stretch between matches.
 * It sees one byte for each character, which states the character's kind (pretokenize.c). */
struct rf_word_step {
    const char *pattern;
    int on_bytes; /* matches the bytes of the text instead; so do the steps that follow */
};

enum { RF_WORD_STEPS = 6 /* most steps of a pre-tokenizer */ };

/* The properties of a named pre-tokenizer. */
struct rf_pretokenizer_info {
    const char *name; /* "qwen2" */
    /* 8 * kind + flags of a character beyond ASCII; NULL: the kind of unicode_kinds.h alone. */
    unsigned (*bits)(uint32_t code_point);
    /* Each step cuts every piece of the one before as a text of its own. The pieces of the last are
     * the words. The pattern behind the last is NULL. */
    struct rf_word_step steps[RF_WORD_STEPS];
    int nfc; /* the tokenizer normalises to form C first */
    int adds_bos;
    int ignores_merges; /* a word that is a token becomes that token, without merges */
};

/* Finds a pre-tokenizer by GGUF's name; NULL for an unknown one. */
const struct rf_pretokenizer_info *rf_pretokenizer_find(struct rf_str name);
/* All names, for an error sentence. */
#define RF_PRETOKENIZERS                                                                    \
    "gpt-2, llama-bpe, dbrx, qwen2, qwen35, smollm, gpt-4o, tekken, falcon, deepseek-llm, " \
    "deepseek-coder, deepseek-v3, glm4, seed-coder and others with their words"

/* Compiled patterns. Immutable; threads may share it. */
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
    size_t at;        /* begin of the next stretch of UTF-8, or of other bytes */
    uint8_t *symbols; /* kinds of the stretch of UTF-8 that is being cut */
    size_t done;      /* the end of what the steps on symbols have cut, in the text */
    int broken;       /* the last word is not UTF-8 */
    /* The stretch that each step is cutting, as offsets in the symbols, for steps on bytes in the
     * text: a stretch of UTF-8 or a piece of the step before. */
    struct rf_word_piece {
        size_t begin, at, end; /* `at`: where its next piece begins */
    } pieces[RF_WORD_STEPS];
};

int rf_words_begin(struct rf_words *words, const struct rf_pretokenizer *pre, const char *text,
                   size_t bytes, struct rf_error *error);
/* 1 and the next word, 0 at the end, or a negative code. */
int rf_words_next(struct rf_words *words, struct rf_str *word, struct rf_error *error);
void rf_words_end(struct rf_words *words);

#endif
