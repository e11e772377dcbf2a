/* A draft model with another vocabulary as a level of the cascade: it drafts through text and
 * judges nothing. */
#ifndef RF_SPECULATE_TRANSLATED_LEVEL_H
#define RF_SPECULATE_TRANSLATED_LEVEL_H

#include "infer/sampler.h"
#include "infer/session.h"
#include "speculate/level.h"
#include "speculate/translate.h"

struct rf_translated_level {
    struct rf_session *session;
    struct rf_sampler
        *sampler; /* greedy: luck is keyed by tokens, which the vocabularies do not share */
    struct rf_translator *translator;
    int32_t start, n_before; /* what of the text the draft has been given (rf_model_level) */
};

extern const struct rf_level_ops rf_translated_level_ops;

#endif
