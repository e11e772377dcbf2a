/* An n-gram dictionary as a level of the cascade. */
#ifndef RF_SPECULATE_NGRAM_LEVEL_H
#define RF_SPECULATE_NGRAM_LEVEL_H

#include "speculate/level.h"
#include "speculate/ngram.h"

/* `self` of the level is the struct rf_ngram. */
extern const struct rf_level_ops rf_ngram_level_ops;

int rf_ngram_level_open(void **self, int32_t n_ctx, const struct rf_allocator *allocator,
                        struct rf_error *error);
void rf_ngram_level_close(void *self);

#endif
