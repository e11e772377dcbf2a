/* Computes divergences and the figures that describe many of them. */
#include "divergence/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "output/buffer.h"

/* Log-probabilities that count. */
static const float least_counted = -16.0f;

static size_t greatest_of(const float *values, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (values[i] > values[at]) at = i;
    return at;
}

/* log(sum(exp(logits))), of which `max` is the greatest. */
static double log_sum(const float *logits, size_t n, float max)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)expf(logits[i] - max);
    return (double)max + log(sum);
}

void log_probabilities(const float *logits, size_t n, float *logprobs)
{
    double all = log_sum(logits, n, logits[greatest_of(logits, n)]);
    for (size_t i = 0; i < n; i++) logprobs[i] = (float)((double)logits[i] - all);
}

double log_probability(const float *logits, size_t n, int32_t token)
{
    return (double)logits[token] - log_sum(logits, n, logits[greatest_of(logits, n)]);
}

static void append_value(struct divergence *divergence, double value)
{
    if (divergence->count == divergence->cap) {
        divergence->cap = divergence->cap ? 2 * divergence->cap : 1024;
        divergence->values =
            cli_reallocate(divergence->values, divergence->cap, sizeof *divergence->values);
    }
    divergence->values[divergence->count++] = (float)value;
    divergence->sum += value;
    divergence->squares += value * value;
}

int divergence_add(struct divergence *divergence, const float *logits, const float *reference,
                   size_t n, int32_t token)
{
    size_t first = greatest_of(logits, n);
    double all = log_sum(logits, n, logits[first]), value = 0;
    if (!isfinite(all) || !isfinite(reference[token])) return -1;
    for (size_t i = 0; i < n; i++)
        if (reference[i] > least_counted)
            value += (double)expf(reference[i]) * ((double)(reference[i] - logits[i]) + all);
    append_value(divergence, value);

    double own = all - (double)logits[token], other = -(double)reference[token];
    divergence->own += own;
    divergence->own_squares += own * own;
    divergence->other += other;
    divergence->other_squares += other * other;
    divergence->both += own * other;
    divergence->same += first == greatest_of(reference, n);
    return 0;
}

void divergence_free(struct divergence *divergence)
{
    free(divergence->values);
    *divergence = (struct divergence){0};
}

/* The variance of the mean of n values by their sums and sums of products. */
static double variance_of_mean(double sum_a, double sum_b, double products, size_t n)
{
    double count = (double)n;
    return n > 1 ? (products / count - sum_a / count * (sum_b / count)) / (count - 1) : 0;
}

static double root_of(double variance)
{
    return variance > 0 ? sqrt(variance) : 0;
}

struct estimate perplexity_of(double sum, double squares, size_t count)
{
    double value = exp(sum / (double)count);
    return (struct estimate){value, value * root_of(variance_of_mean(sum, sum, squares, count))};
}

struct estimate divergence_own(const struct divergence *d)
{
    return perplexity_of(d->own, d->own_squares, d->count);
}

struct estimate divergence_other(const struct divergence *d)
{
    return perplexity_of(d->other, d->other_squares, d->count);
}

/* The same tokens surprise both, so the ratio is known better than either perplexity. */
struct estimate divergence_ratio(const struct divergence *d)
{
    double value = exp((d->own - d->other) / (double)d->count);
    double variance = variance_of_mean(d->own, d->own, d->own_squares, d->count) +
                      variance_of_mean(d->other, d->other, d->other_squares, d->count) -
                      2 * variance_of_mean(d->own, d->other, d->both, d->count);
    return (struct estimate){value, value * root_of(variance)};
}

struct estimate divergence_mean(const struct divergence *d)
{
    return (struct estimate){d->sum / (double)d->count,
                             root_of(variance_of_mean(d->sum, d->sum, d->squares, d->count))};
}

struct estimate divergence_same(const struct divergence *d)
{
    double share = (double)d->same / (double)d->count;
    double n = d->count > 1 ? (double)d->count - 1 : 1;
    return (struct estimate){share, sqrt(share * (1 - share) / n)};
}

static int compare_values(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void divergence_sort(struct divergence *divergence)
{
    qsort(divergence->values, divergence->count, sizeof *divergence->values, compare_values);
}

/* The sorted value at a place between 0 and count - 1, between two by their distances. */
static double value_at(const struct divergence *divergence, double place)
{
    double last = (double)divergence->count - 1;
    place = place < 0 ? 0 : place > last ? last : place;
    size_t below = (size_t)place, above = below + (place < last);
    double part = place - (double)below;
    return (1 - part) * (double)divergence->values[below] +
           part * (double)divergence->values[above];
}

struct estimate divergence_quantile(const struct divergence *divergence, double p)
{
    double n = (double)divergence->count, place = p * (n - 1), deviation = sqrt(n * p * (1 - p));
    return (struct estimate){
        value_at(divergence, place),
        (value_at(divergence, place + deviation) - value_at(divergence, place - deviation)) / 2};
}
