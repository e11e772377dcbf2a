/* Drafters without a model. A new one is a file that defines its row, rf_NAME_drafter, and its name
 * in the list below. */
#ifndef RF_SPECULATE_DRAFTERS_H
#define RF_SPECULATE_DRAFTERS_H

#include "base/alloc.h"
#include "speculate/level.h"

#define RF_EACH_DRAFTER(X) X(ngram)

struct rf_drafter {
    const char *name;  /* in a chain: "ngram" */
    double acceptance; /* the first guess of the share of its tokens that are kept */
    struct rf_level_ops ops;
    /* For texts of up to n_ctx tokens. */
    int (*open)(void **self, int32_t n_ctx, const struct rf_allocator *allocator,
                struct rf_error *error);
    void (*close)(void *self); /* NULL is allowed */
};

#define RF_DECLARE(name) extern const struct rf_drafter rf_##name##_drafter;
RF_EACH_DRAFTER(RF_DECLARE)
#undef RF_DECLARE

/* The row of that name, or NULL. */
const struct rf_drafter *rf_drafter_find(const char *name, size_t bytes);

#endif
