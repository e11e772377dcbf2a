/* Places where a text may be cut before sentencepiece encodes it, without a change of its tokens:
 * between two characters that no piece has side by side. Each part is encoded by itself, so memory
 * is bounded by a part: sentencepiece takes hundreds of bytes for each one of the text. 128 KiB
 * without such a place, such as a run of one letter, are cut all the same: sentencepiece's time
 * grows with more than a part's length. */
#ifndef RF_TEXT_SPM_CUT_H
#define RF_TEXT_SPM_CUT_H

#include "text/spm_model.h"

struct rf_spm_cut {
    uint64_t *pairs; /* an open hash table of two code points each */
    size_t mask;
    uint64_t factor; /* the hash's: random, so that no file can foresee collisions */
    int trims;       /* the model removes white space at the ends: no part ends with it */
};

/* In the reading's arena. */
void rf_spm_cut_init(struct rf_spm_cut *cut, const struct rf_spm_model *model,
                     struct rf_reading *reading);
/* The bytes of the first part of a text. */
size_t rf_spm_cut_part(const struct rf_spm_cut *cut, const char *text, size_t n);

#endif
