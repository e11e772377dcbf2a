/* An n-gram dictionary as a level of the cascade. */
#ifndef RF_SPECULATE_NGRAM_LEVEL_H
#define RF_SPECULATE_NGRAM_LEVEL_H

#include "speculate/level.h"
#include "speculate/ngram.h"

/* `self` of the level is the struct rf_ngram. */
extern const struct rf_level_ops rf_ngram_level_ops;

#endif
