/* A draft model with another vocabulary as a level of the cascade: it drafts through text,
 * greedily, and judges nothing. */
#ifndef RF_SPECULATE_TRANSLATED_LEVEL_H
#define RF_SPECULATE_TRANSLATED_LEVEL_H

#include "infer/sequence.h"
#include "speculate/level.h"
#include "speculate/translate.h"

struct rf_translated_level {
    struct rf_view *view;
    struct rf_sequence *sequence; /* its own, in the draft's tokens */
    struct rf_translator *translator;
    int32_t start, n_before; /* the draft was given text[start .. n_before) */
};

extern const struct rf_level_ops rf_translated_level_ops;

#endif
