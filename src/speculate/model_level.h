/* Models as levels of the cascade: the target, other weights of the target that share its context,
 * and models of their own. */
#ifndef RF_SPECULATE_MODEL_LEVEL_H
#define RF_SPECULATE_MODEL_LEVEL_H

#include "infer/sampler.h"
#include "infer/session.h"
#include "speculate/level.h"

struct rf_model_level {
    struct rf_session *session;
    struct rf_sampler
        *sampler; /* with the target's settings, so that every level draws with the same luck */
    /* Of a model with a context of its own: the text from this token on is what it has been given.
     * A long text begins late, so that a draft costs no second reading of everything. */
    int32_t start;
    int32_t n_vocab; /* tokens from here on are the target's alone */
    int is_windowed;
};

/* `session` is the target's, or shares its context. */
void rf_model_level_of_target(struct rf_model_level *level, struct rf_session *session,
                              struct rf_sampler *sampler);
/* `session` has a context of its own. n_vocab: the tokens that mean the same in both vocabularies,
 * which are the first ones and those that the sampler chooses from. */
void rf_model_level_of_draft(struct rf_model_level *level, struct rf_session *session,
                             struct rf_sampler *sampler, int32_t n_vocab);

extern const struct rf_level_ops rf_model_level_ops;

#endif
