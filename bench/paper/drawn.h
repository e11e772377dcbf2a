/* Levels that make real passes for the time that these take, and then draw what they choose.
 *
 * Every text has one true continuation, a function of its tokens, which the target always chooses.
 * A draft chooses it with a fixed probability, else some other token. Its confidence is that
 * probability whatever it chose: it knows no more. */
#ifndef RF_BENCH_DRAWN_H
#define RF_BENCH_DRAWN_H

#include "speculate/level.h"
#include "speculate/model_level.h"

struct drawn_level {
    struct rf_model_level model;
    double rate;     /* 1: the target */
    uint64_t luck;   /* levels with the same find the same tokens easy: the one with the higher rate
                      * is right where the   other is */
    uint64_t errors; /* levels with different ones are wrong in different ways */
    int32_t n_vocab; /* number of different true tokens */
};

extern const struct rf_level_ops drawn_level_ops;

/* The true token after text[0 .. n). */
int32_t drawn_truth(const int32_t *text, int32_t n, int32_t n_vocab);

/* The probability of each token at which a fraction `ratio` of drafts of `length` tokens is kept:
 * those before the first that is not. */
double drawn_rate(double ratio, int32_t length);

#endif
