/* BPE over characters by a list of merges: a tokenizer.json holds a SentencePiece model in this
 * form. Unlike libsentencepiece, it joins only the pairs that are listed, in their order. */
#ifndef RF_TEXT_SPM_MERGE_H
#define RF_TEXT_SPM_MERGE_H

#include "text/spm_model.h"
#include "text/tokens.h"

struct rf_spm_merge;

/* Lives in the reading's arena; NULL after a failure. Model and vocabulary must outlive it. The
 * model must have byte pieces: a character without a piece becomes those of its bytes. */
struct rf_spm_merge *rf_spm_merge_new(const struct rf_spm_model *model,
                                      const struct rf_vocab *vocab, struct rf_reading *reading);
/* Frees the parts that are not in the arena. */
void rf_spm_merge_free(struct rf_spm_merge *merge);

/* Appends the ids of n bytes of UTF-8. `prefix`: with a space in front. */
void rf_spm_merge_encode(const struct rf_spm_merge *merge, const char *text, size_t n, int prefix,
                         struct rf_token_writer *out);

#endif
