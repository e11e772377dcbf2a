/* Models as levels of the cascade: the target, other views of the target that share its sequence,
 * and models with a sequence of their own. */
#ifndef RF_SPECULATE_MODEL_LEVEL_H
#define RF_SPECULATE_MODEL_LEVEL_H

#include "infer/sampler.h"
#include "infer/sequence.h"
#include "speculate/level.h"

struct rf_model_level {
    struct rf_view *view;
    struct rf_sequence *sequence;
    struct rf_sampler *sampler; /* with the target's settings, so that every level draws alike */
    /* Of a sequence of its own: it holds the text from token `start` on. A long text begins late,
     * so that a draft costs no second reading of everything. */
    int is_own;
    int32_t start;
    int32_t n_vocab; /* tokens from here on are the target's alone */
    int32_t n_known; /* tokens of the text that have been looked at: all are below n_vocab */
};

/* `sequence` is the target's. */
void rf_model_level_of_target(struct rf_model_level *level, struct rf_view *view,
                              struct rf_sequence *sequence, struct rf_sampler *sampler);
/* `sequence` is the level's own. n_vocab: the tokens that mean the same in both vocabularies, which
 * are the first ones and those that the sampler chooses from. */
void rf_model_level_of_draft(struct rf_model_level *level, struct rf_view *view,
                             struct rf_sequence *sequence, struct rf_sampler *sampler,
                             int32_t n_vocab);

extern const struct rf_level_ops rf_model_level_ops;

#endif
