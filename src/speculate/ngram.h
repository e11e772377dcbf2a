/* A drafter without a model: what followed the longest of the text's endings that occurred before
 * (prompt lookup: Saxena 2023; counts and backing off as in SPECTRA's backward dictionary, Le et
 * al. 2025).
 *
 * Constant time for each token, and no allocation after rf_ngram_new. */
#ifndef RF_SPECULATE_NGRAM_H
#define RF_SPECULATE_NGRAM_H

#include "base/alloc.h"
#include "base/error.h"
#include "speculate/draft.h"

struct rf_ngram;

/* For texts of up to `capacity` tokens. */
int rf_ngram_new(struct rf_ngram **ngram, int32_t capacity, const struct rf_allocator *allocator,
                 struct rf_error *error);
void rf_ngram_free(struct rf_ngram *ngram);

/* Makes the dictionary that of tokens[0 .. n): what it has of them already stays (the caller says
 * with `kept` how many tokens at the beginning are those of the last call), the rest is added, and
 * what was beyond is forgotten. */
void rf_ngram_sync(struct rf_ngram *ngram, const int32_t *tokens, int32_t n, int32_t kept);

/* Drafts up to `max` tokens after tokens[0 .. n), which may go beyond the text of the last sync
 * (tokens that are drafted themselves). Returns how many; 0 when no ending of the text occurred
 * before. A confidence is an estimate of the probability that the token is right if all before it
 * are, from the length of the ending, the number of times that it went on so, and their share of
 * all. */
int32_t rf_ngram_draft(const struct rf_ngram *ngram, const int32_t *tokens, int32_t n, int32_t max,
                       struct rf_choice *draft);

#endif
