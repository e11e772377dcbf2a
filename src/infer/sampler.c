#include "infer/sampler.h"

#include <math.h>
#include <string.h>

struct candidate {
    float logit;
    int32_t id;
};

struct rf_sampler {
    const struct rf_allocator *allocator;
    struct rf_sampling sampling;
    int32_t n_vocab;
    rf_first_above_fn *first_above;
    struct candidate *candidates; /* [n_vocab] */
    float *penalised;             /* [n_vocab] */
    uint32_t *seen;               /* [n_vocab]: the round in which the penalty met the token */
    uint32_t round;
    uint64_t random[4];
};

/* splitmix64, which xoshiro's authors recommend for seeding. */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* xoshiro256++ (Blackman, Vigna), as a double in [0, 1). */
static double random_unit(struct rf_sampler *sampler)
{
    uint64_t *s = sampler->random, result = rotate_left(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return (double)(result >> 11) * 0x1p-53;
}

int rf_sampler_set(struct rf_sampler *sampler, const struct rf_sampling *sampling, struct rf_error *error)
{
    if (!(sampling->temperature >= 0.0f && sampling->temperature <= 100.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "temperature %g is not between 0 and 100",
                       (double)sampling->temperature);
    if (sampling->top_k < 0) return rf_fail(error, RF_ERR_ARGUMENT, "top_k %d is negative", sampling->top_k);
    if (!(sampling->top_p > 0.0f && sampling->top_p <= 1.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "top_p %g is not over 0 and at most 1", (double)sampling->top_p);
    if (!(sampling->min_p >= 0.0f && sampling->min_p <= 1.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "min_p %g is not between 0 and 1", (double)sampling->min_p);
    if (!(sampling->repeat_penalty > 0.0f && sampling->repeat_penalty <= 100.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "repeat_penalty %g is not over 0 and at most 100",
                       (double)sampling->repeat_penalty);
    if (sampling->repeat_last_n < -1)
        return rf_fail(error, RF_ERR_ARGUMENT, "repeat_last_n %d is under -1", sampling->repeat_last_n);
    sampler->sampling = *sampling;
    uint64_t state = sampling->seed;
    for (int i = 0; i < 4; i++) sampler->random[i] = split_mix(&state);
    return 0;
}

void rf_sampler_copy(struct rf_sampler *to, const struct rf_sampler *from)
{
    to->sampling = from->sampling;
    memcpy(to->random, from->random, sizeof to->random);
}

int rf_sampler_new(struct rf_sampler **sampler, int32_t n_vocab, rf_first_above_fn *first_above,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    *sampler = NULL;
    struct rf_sampler *made = rf_calloc(allocator, 1, sizeof *made, "sampler", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->n_vocab = n_vocab;
    made->first_above = first_above;
    made->candidates = rf_malloc(allocator, (size_t)n_vocab, sizeof *made->candidates, "sampler", error);
    made->penalised = rf_malloc(allocator, (size_t)n_vocab, sizeof *made->penalised, "sampler", error);
    made->seen = rf_calloc(allocator, (size_t)n_vocab, sizeof *made->seen, "sampler", error);
    if (!made->candidates || !made->penalised || !made->seen) {
        rf_sampler_free(made);
        return RF_ERR_MEMORY;
    }
    *sampler = made;
    return 0;
}

void rf_sampler_free(struct rf_sampler *sampler)
{
    if (!sampler) return;
    const struct rf_allocator *allocator = sampler->allocator;
    rf_free(allocator, sampler->candidates);
    rf_free(allocator, sampler->penalised);
    rf_free(allocator, sampler->seen);
    rf_free(allocator, sampler);
}

/* The order of candidates: greater logits first, lower ids among equals. A NaN comes after everything. */
static int before(const struct candidate *a, const struct candidate *b)
{
    if (a->logit > b->logit) return 1;
    if (a->logit < b->logit) return 0;
    if (isnan(a->logit) != isnan(b->logit)) return !isnan(a->logit);
    return a->id < b->id;
}

static void sift_down(struct candidate *heap, size_t n, size_t i)
{
    struct candidate moving = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &moving)) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* Takes the first candidate off a heap of n: it goes to heap[n - 1]. */
static void pop(struct candidate *heap, size_t n)
{
    struct candidate top = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = top;
    sift_down(heap, n - 1, 0);
}

/* llama.cpp's rule: divide what is positive, multiply what is not, each token of the window once. Returns the logits or,
 * changed, a copy of them. */
static const float *penalise(struct rf_sampler *sampler, const float *logits, const int32_t *history, int32_t n)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    if (sampling->repeat_penalty == 1.0f) return logits;
    int32_t window = sampling->repeat_last_n < 0 || sampling->repeat_last_n > n ? n : sampling->repeat_last_n;
    if (++sampler->round == 0) {
        memset(sampler->seen, 0, (size_t)sampler->n_vocab * sizeof *sampler->seen);
        sampler->round = 1;
    }
    memcpy(sampler->penalised, logits, (size_t)sampler->n_vocab * sizeof *logits);
    for (int32_t i = n - window; i < n; i++) {
        int32_t id = history[i];
        if (sampler->seen[id] == sampler->round) continue;
        sampler->seen[id] = sampler->round;
        float *logit = &sampler->penalised[id];
        *logit = *logit > 0.0f ? *logit / sampling->repeat_penalty : *logit * sampling->repeat_penalty;
    }
    return sampler->penalised;
}

/* The greatest logit's lowest id, or n_vocab if none is greater than minus infinity. */
static size_t greatest(const struct rf_sampler *sampler, const float *logits)
{
    size_t n = (size_t)sampler->n_vocab, best = n;
    float top = -INFINITY;
    for (size_t i = 0; (i += sampler->first_above(logits + i, n - i, top)) < n; i++) {
        best = i;
        top = logits[i];
    }
    return best;
}

/* Moves what is at i down in a heap that has the last in order at its root. */
static void sink(struct candidate *heap, size_t n, size_t i)
{
    struct candidate moving = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child], &heap[child + 1])) child++;
        if (!before(&moving, &heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* Collects the k best candidates, or fewer where fewer are greater than minus infinity; returns how many. Ids come in
 * ascending order, so among equals the first ones stay. */
static size_t collect_best(const struct rf_sampler *sampler, const float *logits, size_t k)
{
    struct candidate *heap = sampler->candidates;
    size_t n = (size_t)sampler->n_vocab, count = 0;
    float threshold = -INFINITY;
    for (size_t i = 0; (i += sampler->first_above(logits + i, n - i, threshold)) < n; i++) {
        struct candidate found = {logits[i], (int32_t)i};
        if (count < k) {
            heap[count++] = found;
            if (count < k) continue;
            for (size_t at = k / 2; at-- > 0;) sink(heap, k, at);
        } else {
            heap[0] = found;
            sink(heap, k, 0);
        }
        threshold = heap[0].logit;
    }
    return count;
}

/* Sorts as far as needed: returns how many candidates top-k, top-p and min-p leave, at least one, and in `count` how many
 * there are in the array. The best is the last of it, the next best before it, and so on. */
static size_t keep_best(const struct rf_sampler *sampler, const float *logits, float max, size_t *count_out)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    struct candidate *heap = sampler->candidates;
    size_t count = (size_t)sampler->n_vocab, sorted = 0, kept = 0;
    if (sampling->top_k && (size_t)sampling->top_k < count) {
        count = collect_best(sampler, logits, (size_t)sampling->top_k);
    } else {
        for (size_t i = 0; i < count; i++) heap[i] = (struct candidate){logits[i], (int32_t)i};
    }
    for (size_t i = count / 2; i-- > 0;) sift_down(heap, count, i);

    double total = 0.0, reached = 0.0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(heap[i].logit)) total += exp((double)(heap[i].logit - max));
    double lowest = sampling->min_p > 0.0f ? (double)max + log((double)sampling->min_p) : -INFINITY;
    while (kept < count) {
        if (kept == sorted) pop(heap, count - sorted++);
        float logit = heap[count - 1 - kept].logit;
        if (isnan(logit) || (kept && (double)logit < lowest)) break;
        kept++;
        reached += exp((double)(logit - max));
        if (sampling->top_p < 1.0f && reached >= (double)sampling->top_p * total) break;
    }
    *count_out = count;
    return kept;
}

int rf_sampler_choose(struct rf_sampler *sampler, const float *logits, const int32_t *history, int32_t n,
                      int32_t *token, struct rf_error *error)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    logits = penalise(sampler, logits, history, n);
    size_t best = greatest(sampler, logits), count;
    if (best == (size_t)sampler->n_vocab || !isfinite(logits[best]))
        return rf_fail(error, RF_ERR_FORMAT, "the model's logits are not finite numbers after %d tokens", n);
    *token = (int32_t)best;
    if (sampling->temperature == 0.0f) return 0;

    float max = logits[best];
    size_t kept = keep_best(sampler, logits, max, &count);
    const struct candidate *last = sampler->candidates + count - 1;
    double temperature = (double)sampling->temperature, total = 0.0;
    for (size_t i = 0; i < kept; i++) total += exp((double)(last[-(ptrdiff_t)i].logit - max) / temperature);
    double left = random_unit(sampler) * total;
    for (size_t i = 0; i < kept; i++) {
        *token = last[-(ptrdiff_t)i].id;
        left -= exp((double)(last[-(ptrdiff_t)i].logit - max) / temperature);
        if (left < 0.0) break;
    }
    return 0;
}
