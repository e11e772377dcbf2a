/* The first halves of the rounds of several texts that are answered in one pass: who drafts, and
 * the drafts. Texts whose drafts a level writes token by token are drafted for together, a token of
 * each in one pass of that level. A token costs its share of the pass, so it is decided together,
 * too: the greatest set of texts for which another token is worth that. */
#ifndef RF_SPECULATE_JOINT_H
#define RF_SPECULATE_JOINT_H

#include "speculate/batch.h"

/* Begins the rounds of these parts and poses their questions. part->own has the rows of each text
 * itself; their drafts share `room` rows of the pass, in the order of the parts. Fills in part->n
 * (0, or a code), part->rows, and part->room, the rows that its draft may have. The cascades keep
 * their company until the rounds are ended. */
void rf_joint_begin(struct rf_batch_part *const *rounds, int32_t n, int32_t room, int has_slices);

/* The rows of the pass beside those of one part, as far as they are known. */
struct rf_other_rows rf_joint_beside(struct rf_batch_part *const *rounds, int32_t n,
                                     const struct rf_batch_part *one);

#endif
