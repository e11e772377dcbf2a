#include "support/plain_sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    float logit;
    int32_t id;
};

static int descending(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

void plain_probabilities(const struct rf_sampling *sampling, const float *logits, int32_t n,
                         double *p)
{
    memset(p, 0, (size_t)n * sizeof *p);
    struct entry *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted || sampling->temperature == 0.0f) {
        free(sorted);
        return;
    }
    for (int32_t i = 0; i < n; i++) sorted[i] = (struct entry){logits[i], i};
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    double max = (double)sorted[0].logit, of_top_k = 0.0, reached = 0.0, total = 0.0;
    int32_t top_k = sampling->top_k && sampling->top_k < n ? sampling->top_k : n, kept = 0;
    for (int32_t i = 0; i < top_k; i++) of_top_k += exp((double)sorted[i].logit - max);
    while (kept < top_k &&
           (sampling->top_p == 1.0f || reached < (double)sampling->top_p * of_top_k))
        reached += exp((double)sorted[kept++].logit - max);
    for (int32_t i = 0; i < kept; i++) {
        double below = (double)sorted[i].logit - max;
        if (sampling->min_p > 0.0f && below < log((double)sampling->min_p)) break;
        total += p[sorted[i].id] = exp(below / (double)sampling->temperature);
    }
    for (int32_t i = 0; i < n; i++) p[i] /= total;
    free(sorted);
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int32_t plain_choice(uint64_t seed, int32_t position, const double *p, int32_t n)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    uint64_t place = mix(mix(seed + golden) + golden * ((uint64_t)position + 1));
    int32_t first = -1;
    double first_key = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        if (p[i] == 0.0) continue;
        uint64_t bits = mix(place + golden * ((uint64_t)i + 1)) >> 1;
        double luck = fmin(((double)bits + 0.5) / 9223372036854775808.0, 1.0 - 0x1p-53);
        double key = log(-log1p(-luck)) - log(p[i]);
        if (key < first_key) {
            first_key = key;
            first = i;
        }
    }
    return first;
}
