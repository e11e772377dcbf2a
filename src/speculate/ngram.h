/* A drafter without a model: it drafts what followed the longest of the text's endings that
 * occurred before (prompt lookup: Saxena 2023; counts and backing off as in SPECTRA's backward
 * dictionary, Le et al. 2025).
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

/* Adds what text[0 .. n) has beyond what was followed before. `text` is the same array in every
 * call and holds what was followed; it must outlive the dictionary's use. */
void rf_ngram_follow(struct rf_ngram *ngram, const int32_t *text, int32_t n);
/* Forgets all tokens after the first n. To be called before they change. */
void rf_ngram_rewind(struct rf_ngram *ngram, int32_t n);

/* Drafts up to `max` tokens after tokens[0 .. n). These may extend the text that was followed
 * by tokens that are drafts themselves. Returns how many; 0 when no ending of the text occurred
 * before. A confidence estimates the probability that a token is right if all before it are. It
 * depends on the length of the ending, on how often that was continued with this token, and on the
 * share of these cases. */
int32_t rf_ngram_draft(const struct rf_ngram *ngram, const int32_t *tokens, int32_t n, int32_t max,
                       struct rf_choice *draft);

#endif
