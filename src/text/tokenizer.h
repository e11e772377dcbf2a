/* Text <-> token ids. One interface over sentencepiece and byte-level BPE.
 *
 * A tokenizer is immutable once made and may be used by several threads at a time. */
#ifndef RF_TEXT_TOKENIZER_H
#define RF_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

struct rf_tokenizer;

/* The vocabulary must outlive the tokenizer. Fails on an unknown pre-tokenizer (named), merges of
 * unknown tokens, malformed byte tokens, duplicate or empty tables. `path` names the file in error
 * sentences. */
int rf_tokenizer_new(struct rf_tokenizer **tokenizer, const struct rf_vocab *vocab,
                     const char *path, const struct rf_allocator *allocator,
                     struct rf_error *error);
void rf_tokenizer_free(struct rf_tokenizer *tokenizer);

/* A stretch of text. Control tokens are recognised only where they lie wholly inside segments that
 * have `special` set: a chat template's own text has it, what a person wrote has not. User-defined
 * tokens are recognised everywhere. */
struct rf_segment {
    const char *text;
    size_t bytes;
    int special;
};

enum {
    RF_ENCODE_BOS =
        1, /* put BOS first where the model adds one and the text does not already begin with it */
    RF_ENCODE_CONTINUE = 2 /* the text goes on from earlier text: no BOS, no space prefix */
};

/* Encodes the concatenation of the segments: borders between them do not split words. Appends ids
 * to *tokens, which starts zeroed and is given back with rf_tokens_free. Broken UTF-8 is encoded
 * byte by byte where the vocabulary can, as U+FFFD otherwise. No EOS is put at the end, whatever
 * the file says: a prompt goes on. On failure *tokens has what it had. Time grows as n log n at
 * worst. */
struct rf_tokens {
    int32_t *ids;
    size_t count, cap;
};
int rf_tokenizer_encode(const struct rf_tokenizer *tokenizer, const struct rf_segment *segments,
                        size_t n_segments, unsigned flags, const struct rf_allocator *allocator,
                        struct rf_tokens *tokens, struct rf_error *error);
void rf_tokens_free(const struct rf_allocator *allocator, struct rf_tokens *tokens);

/* The bytes of one token in the middle of a text; the view lives as long as the tokenizer. Control
 * tokens have none unless `special` is set, then their name. For sentencepiece the word marker is a
 * space here. An id outside the vocabulary has no bytes. */
struct rf_str rf_token_text(const struct rf_tokenizer *tokenizer, int32_t token, int special);

int32_t rf_tokenizer_n_tokens(const struct rf_tokenizer *tokenizer);
/* What a token is; of an id outside the vocabulary RF_TOKEN_UNUSED. Control tokens that a file
 * calls user-defined are set right. */
enum rf_token_type rf_token_kind(const struct rf_tokenizer *tokenizer, int32_t token);

/* 1 if sentencepiece's convention drops one space from the beginning of a decoded text that starts
 * a session. */
int rf_tokenizer_strips_first_space(const struct rf_tokenizer *tokenizer);

/* 1 if the token ends an answer: eos, eot, and the end tokens that chat models use (<|im_end|>,
 * <|eot_id|>, <end_of_turn>, <|end|>, <|endoftext|>, ...) where the vocabulary has them as control
 * tokens. */
int rf_token_is_end(const struct rf_tokenizer *tokenizer, int32_t token);

int32_t rf_tokenizer_bos(const struct rf_tokenizer *tokenizer); /* -1: none */
int32_t rf_tokenizer_eos(const struct rf_tokenizer *tokenizer);
int rf_tokenizer_adds_bos(const struct rf_tokenizer *tokenizer);
/* "sentencepiece" or "bpe:qwen2". */
const char *rf_tokenizer_name(const struct rf_tokenizer *tokenizer);

#endif
