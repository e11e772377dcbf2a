/* Comparison of two vocabularies: whether their tokens are the same, and which control tokens
 * correspond. */
#ifndef RF_SPECULATE_VOCAB_PAIR_H
#define RF_SPECULATE_VOCAB_PAIR_H

#include "text/tokenizer.h"

/* 1 when every id that both vocabularies have means the same text. *n_shared (may be NULL) is then
 * how many ids, from 0 on, both know. These may differ: the number of rows; places that are unused
 * in one; names of control and added tokens; and, after the end of the shorter vocabulary, a few
 * text tokens: at most one for sixteen that are the same. Reads every token once, about a
 * millisecond for 150 000. */
int rf_vocab_same(const struct rf_tokenizer *a, const struct rf_tokenizer *b, int32_t *n_shared);

/* Tells vocabularies apart: a checksum of the bytes of all tokens. */
uint64_t rf_vocab_fingerprint(const struct rf_tokenizer *tokenizer);

/* A map from the control tokens of one vocabulary to those of another. */
struct rf_control_map {
    int32_t *to; /* [n]: of each token of the one; -1: no token corresponds */
    int32_t n;
};

/* Tokens are mapped by name. Those without a counterpart: tokens that end an answer to EOS, BOS to
 * BOS. */
int rf_control_map_init(struct rf_control_map *map, const struct rf_tokenizer *from,
                        const struct rf_tokenizer *to, const struct rf_allocator *allocator,
                        struct rf_error *error);
void rf_control_map_free(struct rf_control_map *map, const struct rf_allocator *allocator);
/* -1: no token corresponds. */
int32_t rf_control_map_find(const struct rf_control_map *map, int32_t token);

/* 1 for tokens without text: control tokens and the unknown token. */
int rf_token_is_control(const struct rf_tokenizer *tokenizer, int32_t token);

#endif
