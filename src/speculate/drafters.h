/* Drafters without a model: one row each. A new one is a file with its operations and a row here.
 */
#ifndef RF_SPECULATE_DRAFTERS_H
#define RF_SPECULATE_DRAFTERS_H

#include "base/alloc.h"
#include "speculate/level.h"

struct rf_drafter {
    const char *name;  /* in a chain: "ngram" */
    double acceptance; /* the first guess of the share of its tokens that are kept */
    const struct rf_level_ops *ops;
    /* For texts of up to n_ctx tokens. */
    int (*open)(void **self, int32_t n_ctx, const struct rf_allocator *allocator,
                struct rf_error *error);
    void (*close)(void *self); /* NULL is allowed */
};

/* The row of that name, or NULL. */
const struct rf_drafter *rf_drafter_find(const char *name, size_t bytes);

#endif
