/* Drafters without a model. A new one is a file that defines its row, rf_NAME_drafter, and its name
 * in the list below: chains, the chain "auto" and sessions find it there. */
#ifndef RF_SPECULATE_DRAFTERS_H
#define RF_SPECULATE_DRAFTERS_H

#include "base/alloc.h"
#include "speculate/level.h"

/* The list, in the order of a chain: drafts of an earlier one come first. */
#define RF_EACH_DRAFTER(X) X(ngram) X(corpus)

struct rf_corpus;
struct rf_successors;

struct rf_drafter_options {
    int32_t n_ctx;                  /* texts have up to so many tokens */
    const struct rf_corpus *corpus; /* outlives the drafter; NULL: there is none */
};

struct rf_drafter {
    const char *name;         /* name in a chain: "ngram" */
    const double *acceptance; /* first guess of the share of its tokens that are kept (tuning.h) */
    int needs_corpus;         /* 1: the chain "auto" has it only where there is a corpus */
    struct rf_level_ops ops;
    /* The part of its state that is saved with a session, and copied to its forks, because the text
     * does not tell it; or NULL. */
    struct rf_successors *(*dictionary)(void *self);
    int (*open)(void **self, const struct rf_drafter_options *options,
                const struct rf_allocator *allocator, struct rf_error *error);
    void (*close)(void *self); /* NULL is allowed */
};

#define RF_DECLARE(name) extern const struct rf_drafter rf_##name##_drafter;
RF_EACH_DRAFTER(RF_DECLARE)
#undef RF_DECLARE

/* All rows, in the order of a chain; NULL ends them. */
extern const struct rf_drafter *const rf_drafters[];

/* The row of that name, or NULL. */
const struct rf_drafter *rf_drafter_find(const char *name, size_t bytes);

#endif
