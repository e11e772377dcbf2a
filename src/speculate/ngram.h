/* A drafter without a model (SPECTRA-CORE, Le et al. 2025). It drafts what followed the longest of
 * the text's endings that occurred before (prompt lookup: Saxena 2023; counts and backing off as in
 * the paper's backward dictionary), and what the target found likely after the last tokens
 * (successors.h). Its drafts are trees.
 *
 * Constant time for each token, and no allocation after rf_ngram_new. */
#ifndef RF_SPECULATE_NGRAM_H
#define RF_SPECULATE_NGRAM_H

#include "base/alloc.h"
#include "base/error.h"
#include "speculate/draft.h"

struct rf_ngram;
struct rf_successors;

/* Makes a drafter for texts of up to `capacity` tokens. */
int rf_ngram_new(struct rf_ngram **ngram, int32_t capacity, const struct rf_allocator *allocator,
                 struct rf_error *error);
void rf_ngram_free(struct rf_ngram *ngram);

/* Adds what text[0 .. n) has beyond what was followed before. `text` is the same array in every
 * call and holds what was followed; it must outlive the drafter's use. */
void rf_ngram_follow(struct rf_ngram *ngram, const int32_t *text, int32_t n);
/* Forgets all tokens after the first n. To be called before they change. */
void rf_ngram_rewind(struct rf_ngram *ngram, int32_t n);

/* The target found best[0] likely after text[0 .. n), and best[1 + i] after draft row i; .n is 0
 * where it tells nothing. */
void rf_ngram_observe(struct rf_ngram *ngram, const int32_t *text, int32_t n,
                      const struct rf_draft *draft, const struct rf_best *best);

/* The part of its knowledge that the text does not tell. */
struct rf_successors *rf_ngram_dictionary(struct rf_ngram *ngram);

/* Drafts a tree after tokens[0 .. n) whose branches have up to `max` <= RF_MAX_DRAFT tokens; its
 * rows come in descending order of the probability that they and all that they follow are right.
 * The tokens may extend the text that was followed by tokens that are drafts themselves. Empty when
 * no ending of the text occurred before. A confidence estimates the probability that a token is
 * right if all before it are: by the length of the ending, how often that was continued with this
 * token, the share of these cases, and what the target found likely after the last tokens. */
void rf_ngram_draft(const struct rf_ngram *ngram, const int32_t *tokens, int32_t n, int32_t max,
                    struct rf_draft *draft);
/* The same after ahead[0 .. k), k <= RF_MAX_DRAFT, which would come after tokens[0 .. n). */
void rf_ngram_draft_behind(const struct rf_ngram *ngram, const int32_t *tokens, int32_t n,
                           const int32_t *ahead, int32_t k, int32_t max, struct rf_draft *draft);

#endif
