/* Statistics of how far a model's probabilities are from a reference's, token by token. The verb
 * perplexity gathers them.
 *
 * The divergence of a token is KL(reference || model), the sum of p (log p - log q) over the
 * vocabulary, in nats. Tokens whose log p is -16 or less are left out, as by llama.cpp, whose files
 * do not tell them apart. */
#ifndef DIVERGENCE_STATISTICS_H
#define DIVERGENCE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* Sums over the scored tokens. All zero: none. */
struct divergence {
    float *values; /* [count]: the divergences, for divergence_free */
    size_t count, cap;
    double sum, squares;
    double own, own_squares, other, other_squares, both; /* of -log p: model, reference, product */
    size_t same; /* tokens before which both have the same first choice */
};

/* A figure and its standard error; the tokens count as independent. */
struct estimate {
    double value, error;
};

/* Turns logits [n] into log-probabilities; that of one token. */
void log_probabilities(const float *logits, size_t n, float *logprobs);
double log_probability(const float *logits, size_t n, int32_t token);

/* Adds a token. `logits` [n] are the model's, `reference` [n] log-probabilities. 0, or -1 if the
 * logits are not finite. */
int divergence_add(struct divergence *divergence, const float *logits, const float *reference,
                   size_t n, int32_t token);
void divergence_free(struct divergence *divergence);

/* All but the first need at least two tokens for an error. */
struct estimate perplexity_of(double sum, double squares, size_t count); /* sums of -log p */
struct estimate divergence_own(const struct divergence *divergence);     /* perplexities */
struct estimate divergence_other(const struct divergence *divergence);
struct estimate divergence_ratio(const struct divergence *divergence); /* of both perplexities */
struct estimate divergence_mean(const struct divergence *divergence);
struct estimate divergence_same(const struct divergence *divergence); /* share of `same` */
/* Sorts the values for divergence_quantile. */
void divergence_sort(struct divergence *divergence);
/* The value that the share p of all do not exceed. The error is half the distance between the
 * values that stand a standard deviation of the binomial distribution lower and higher. */
struct estimate divergence_quantile(const struct divergence *divergence, double p);

#endif
