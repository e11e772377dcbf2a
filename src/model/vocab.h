/* The vocabulary as a model file states it: plain data, from which text/ builds a tokenizer. */
#ifndef RF_MODEL_VOCAB_H
#define RF_MODEL_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "model/str.h"

enum rf_vocab_kind {
    RF_VOCAB_NONE = 0,
    RF_VOCAB_SENTENCEPIECE = 1, /* "llama": pieces with scores */
    RF_VOCAB_BPE = 2,           /* "gpt2": byte-level BPE with merges */
    RF_VOCAB_WORDPIECE = 3 /* "bert": pieces of words; those that begin one begin with U+2581 */
};

/* GGUF's tokenizer.ggml.token_type; the numbers are sentencepiece's. */
enum rf_token_type {
    RF_TOKEN_NORMAL = 1,
    RF_TOKEN_UNKNOWN = 2,
    RF_TOKEN_CONTROL = 3,
    RF_TOKEN_USER_DEFINED = 4,
    RF_TOKEN_UNUSED = 5,
    RF_TOKEN_BYTE = 6
};

/* White space that an added token swallows. */
enum rf_strip { RF_STRIP_LEFT = 1, RF_STRIP_RIGHT = 2 };

/* The space that SentencePiece puts before a text. */
enum rf_space_prefix {
    RF_PREFIX_ON = 1,
    RF_PREFIX_ONCE = 2,   /* not behind special tokens */
    RF_PREFIX_UNLESS = 4, /* not before a space */
};

struct rf_merge {
    struct rf_str left, right;
};

/* Splits "a b". 0 when it is not two pieces with one space between. */
int rf_merge_split(struct rf_str text, struct rf_merge *merge);

/* 1 for "<0x00>" to "<0xff>", in either case. */
int rf_is_byte_token(struct rf_str token);

struct rf_vocab {
    enum rf_vocab_kind kind;
    /* BPE: GGUF's name of the pre-tokenizer ("gpt-2", "llama-bpe", "qwen2", ...). The
     * safetensors reader derives it from tokenizer.json. */
    struct rf_str pre;
    int32_t n_tokens;
    struct rf_str
        *tokens; /* [n_tokens]; BPE: in the byte-to-unicode alphabet, special ones as plain text */
    float *scores;   /* [n_tokens] or NULL */
    uint8_t *types;  /* [n_tokens], enum rf_token_type */
    uint8_t *strips; /* [n_tokens] of enum rf_strip bits, or NULL: none */
    /* [n_merges], by rank; text/ checks the halves. SentencePiece: merges of characters take the
     * place of scores. */
    struct rf_merge *merges;
    size_t n_merges;
    /* A serialised sentencepiece ModelProto (tokenizer.model); bytes is 0 when there is none.
     * tokens, scores and types contain its pieces, followed by added tokens. */
    struct rf_str spm_proto;
    int8_t unigram; /* SentencePiece without such a proto: 1: the pieces of the greatest sum of
                       scores, 0: BPE */
    /* SentencePiece: the precompiled map of characters that a text goes through first; bytes is 0
     * when there is none. */
    struct rf_str charsmap;
    int8_t by_clusters; /* of a tokenizer.json: words and clusters of characters are looked up as
                           the package tokenizers does, not as sentencepiece does */
    int32_t bos, eos, unk, pad;      /* -1: none. All are < n_tokens. */
    int32_t sep;                     /* ends a text of an encoder; -1: none */
    int8_t lowercase, strip_accents; /* word pieces: of characters; -1: yes; as lowercase */
    int32_t eot;             /* end of turn, where the file names one besides eos; -1: none */
    int8_t add_bos, add_eos; /* 1, 0, or -1: not stated, the default of the kind applies */
    int8_t add_space_prefix; /* enum rf_space_prefix bits, or -1 as above */
    int8_t remove_extra_whitespaces;
    int8_t ignore_merges; /* BPE: a word that is a token becomes that token, whatever the merges say
                             (llama3); -1: the default of the pre-tokenizer */
    int8_t nfc; /* 1: normalise to NFC first, 0: do not, -1: the default of the pre-tokenizer */
};

#endif
