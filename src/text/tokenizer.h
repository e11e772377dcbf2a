/* Text <-> token ids: one interface to sentencepiece and byte-level BPE.
 *
 * A tokenizer is immutable; threads may share it. */
#ifndef RF_TEXT_TOKENIZER_H
#define RF_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/vocab.h"

struct rf_tokenizer;

/* The vocabulary must outlive the tokenizer. Fails on an unknown pre-tokenizer (the sentence names
 * it), merges of unknown tokens, malformed byte tokens, and duplicate or empty tables. `path` names
 * the file in error sentences. */
int rf_tokenizer_new(struct rf_tokenizer **tokenizer, const struct rf_vocab *vocab,
                     const char *path, const struct rf_allocator *allocator,
                     struct rf_error *error);
void rf_tokenizer_free(struct rf_tokenizer *tokenizer);

/* A piece of text. Control tokens are recognised only where they lie wholly inside segments with
 * `special` set: a chat template sets it for its own text, not for a user's. User-defined
 * tokens are recognised everywhere. */
struct rf_segment {
    const char *text;
    size_t bytes;
    int special;
};

enum {
    RF_ENCODE_BOS = 1, /* begin with BOS where the model adds one, unless the text already does; end
                          with the token that ends texts if it is an encoder's */
    RF_ENCODE_CONTINUE = 2 /* the text continues earlier text: no BOS, no space prefix */
};

/* Encodes the concatenation of the segments; segment borders do not split words. Appends ids to
 * *tokens, which starts zeroed, but for a limit, and is freed with rf_tokens_free. Invalid UTF-8 is
 * encoded byte by byte where the vocabulary has byte tokens, else as U+FFFD. Appends no EOS to
 * prompts, which go on. On failure *tokens is unchanged. The worst case takes O(n log n) time. */
struct rf_tokens {
    int32_t *ids;
    size_t count, cap;
    size_t limit; /* a text of more tokens fails with RF_ERR_CONTEXT; 0: there is no limit */
};
int rf_tokenizer_encode(const struct rf_tokenizer *tokenizer, const struct rf_segment *segments,
                        size_t n_segments, unsigned flags, const struct rf_allocator *allocator,
                        struct rf_tokens *tokens, struct rf_error *error);
void rf_tokens_free(const struct rf_allocator *allocator, struct rf_tokens *tokens);

/* The bytes of one token in the middle of a text; the view lives as long as the tokenizer. A
 * control token has bytes only if `special` is set: its name. The word marker of sentencepiece
 * becomes a space. An id outside the vocabulary has no bytes. */
struct rf_str rf_token_text(const struct rf_tokenizer *tokenizer, int32_t token, int special);

int32_t rf_tokenizer_n_tokens(const struct rf_tokenizer *tokenizer);
/* The type of a token; RF_TOKEN_UNUSED for an id outside the vocabulary. Control tokens that a file
 * calls user-defined count as control tokens. */
enum rf_token_type rf_token_kind(const struct rf_tokenizer *tokenizer, int32_t token);

/* 1 if, by sentencepiece's convention, decoded text loses one leading space at the start of a
 * session. */
int rf_tokenizer_strips_first_space(const struct rf_tokenizer *tokenizer);

/* 1 if the token ends an answer: eos, eot, and the end tokens of chat models (<|im_end|>,
 * <|eot_id|>, <end_of_turn>, <|end|>, <|endoftext|> and others) where they are control tokens. */
int rf_token_is_end(const struct rf_tokenizer *tokenizer, int32_t token);

int32_t rf_tokenizer_bos(const struct rf_tokenizer *tokenizer); /* -1: none */
int32_t rf_tokenizer_eos(const struct rf_tokenizer *tokenizer);
int rf_tokenizer_adds_bos(const struct rf_tokenizer *tokenizer);
/* The token that ends texts of an encoder; -1: none. */
int32_t rf_tokenizer_sep(const struct rf_tokenizer *tokenizer);
/* "sentencepiece", "wordpiece" or "bpe:qwen2". */
const char *rf_tokenizer_name(const struct rf_tokenizer *tokenizer);

#endif
