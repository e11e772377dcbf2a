/* Unigram models: the pieces with the greatest sum of scores. Unlike libsentencepiece it adds
 * scores in double precision, as the package tokenizers does, so sums that are equal stay equal. */
#ifndef RF_TEXT_SPM_UNIGRAM_H
#define RF_TEXT_SPM_UNIGRAM_H

#include "text/spm_model.h"
#include "text/tokens.h"

struct rf_spm_unigram;

/* Lives in the reading's arena; NULL after a failure. The model must outlive it. With
 * `keeps_marker` a word that begins with U+2581 gets no other one, as in the package tokenizers. */
struct rf_spm_unigram *rf_spm_unigram_new(const struct rf_spm_model *model, int keeps_marker,
                                          struct rf_reading *reading);

/* Appends the ids of n bytes. `prefix`: with a space in front. Spaces at the ends and beside others
 * are left out where the model says so. */
void rf_spm_unigram_encode(const struct rf_spm_unigram *unigram, const char *text, size_t n,
                           int prefix, struct rf_token_writer *out);

#endif
