/* Chooses a token from logits. The choice is a function of logits, settings, seed, position and
 * token, so that it does not depend on drafts. The candidate with the earliest event of an
 * exponential race wins, which is a draw from softmax (struct race). The cascade calls it for
 * every row of a pass that the pass itself does not answer. */
#include "infer/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    float logit;
    int32_t id;
};

struct rf_sampler {
    const struct rf_allocator *allocator;
    struct rf_sampling sampling;
    const struct rf_bias *bias; /* [n_bias] */
    int32_t n_bias;
    int32_t answer; /* position of its first token */
    int32_t n_vocab;
    rf_first_above_fn *first_above;
    uint32_t round;
    /* All in the sampler's own block. */
    struct candidate *candidates; /* [n_vocab] */
    float *changed;               /* [n_vocab]: logits after the penalty and the mask */
    uint32_t *seen;               /* [n_vocab]: the round in which a penalty met the token */
};

static int check_penalty(const char *name, float penalty, struct rf_error *error)
{
    if (penalty >= -2.0f && penalty <= 2.0f) return 0;
    return rf_fail(error, RF_ERR_ARGUMENT, "%s %g is not between -2 and 2", name, (double)penalty);
}

int rf_sampling_check(const struct rf_sampling *sampling, struct rf_error *error)
{
    if (!(sampling->temperature >= 0.0f && sampling->temperature <= 100.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "temperature %g is not between 0 and 100",
                       (double)sampling->temperature);
    if (sampling->top_k < 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "top_k %d is negative", sampling->top_k);
    if (!(sampling->top_p >= 0.0f && sampling->top_p <= 1.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "top_p %g is not between 0 and 1",
                       (double)sampling->top_p);
    if (!(sampling->min_p >= 0.0f && sampling->min_p <= 1.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "min_p %g is not between 0 and 1",
                       (double)sampling->min_p);
    if (!(sampling->repeat_penalty > 0.0f && sampling->repeat_penalty <= 100.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "repeat_penalty %g is not over 0 and at most 100",
                       (double)sampling->repeat_penalty);
    if (sampling->repeat_last_n < -1)
        return rf_fail(error, RF_ERR_ARGUMENT, "repeat_last_n %d is under -1",
                       sampling->repeat_last_n);
    int code = check_penalty("frequency_penalty", sampling->frequency_penalty, error);
    return code ? code : check_penalty("presence_penalty", sampling->presence_penalty, error);
}

int rf_sampler_set(struct rf_sampler *sampler, const struct rf_sampling *sampling,
                   struct rf_error *error)
{
    int code = rf_sampling_check(sampling, error);
    if (code) return code;
    sampler->sampling = *sampling;
    if (sampling->top_p == 0.0f) sampler->sampling.temperature = 0.0f; /* the greatest alone */
    return 0;
}

void rf_sampler_set_bias(struct rf_sampler *sampler, const struct rf_bias *bias, int32_t n)
{
    sampler->bias = bias;
    sampler->n_bias = n;
}

void rf_sampler_set_answer(struct rf_sampler *sampler, int32_t first)
{
    sampler->answer = first;
}

void rf_sampler_copy(struct rf_sampler *to, const struct rf_sampler *from)
{
    to->sampling = from->sampling;
    to->bias = from->bias;
    to->n_bias = from->n_bias;
    to->answer = from->answer;
}

int rf_sampler_new(struct rf_sampler **sampler, int32_t n_vocab, rf_first_above_fn *first_above,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    *sampler = rf_calloc(allocator, 1, sizeof **sampler, "sampler", error);
    if (!*sampler) return RF_ERR_MEMORY;
    (*sampler)->allocator = allocator;
    (*sampler)->n_vocab = n_vocab;
    (*sampler)->first_above = first_above;
    return 0;
}

void rf_sampler_free(struct rf_sampler *sampler)
{
    if (!sampler) return;
    rf_free(sampler->allocator, sampler->candidates);
    rf_free(sampler->allocator, sampler);
}

/* Made for the first choice, so that greedy sessions and forks do without. */
static int make_lists(struct rf_sampler *sampler, struct rf_error *error)
{
    size_t n = (size_t)sampler->n_vocab;
    if (sampler->candidates) return 0;
    sampler->candidates =
        rf_malloc(sampler->allocator, n,
                  sizeof *sampler->candidates + sizeof *sampler->changed + sizeof *sampler->seen,
                  "sampler", error);
    if (!sampler->candidates) return RF_ERR_MEMORY;
    sampler->changed = (float *)(sampler->candidates + n);
    sampler->seen = (uint32_t *)(sampler->changed + n);
    memset(sampler->seen, 0, n * sizeof *sampler->seen);
    return 0;
}

/* The order of candidates: greater logits first, lower ids among equals. A NaN comes after
 * everything. */
static int ranks_before(const struct candidate *a, const struct candidate *b)
{
    if (a->logit > b->logit) return 1;
    if (a->logit < b->logit) return 0;
    if (isnan(a->logit) != isnan(b->logit)) return !isnan(a->logit);
    return a->id < b->id;
}

/* Changes the copy of the logits. A drafter's vocabulary may be shorter than the target's. */
static void add_bias(struct rf_sampler *sampler)
{
    for (int32_t i = 0; i < sampler->n_bias; i++)
        if (sampler->bias[i].token < sampler->n_vocab)
            sampler->changed[sampler->bias[i].token] += sampler->bias[i].logit;
}

/* Forgets which tokens were seen. */
static void next_round(struct rf_sampler *sampler)
{
    if (++sampler->round) return;
    memset(sampler->seen, 0, (size_t)sampler->n_vocab * sizeof *sampler->seen);
    sampler->round = 1;
}

/* 1 the first time in a round. */
static int is_new(struct rf_sampler *sampler, int32_t id)
{
    int seen = sampler->seen[id] == sampler->round;
    sampler->seen[id] = sampler->round;
    return !seen;
}

/* llama.cpp's rule: divide positive logits, multiply the others, each token of the window once.
 * Changes the copy of the logits. */
static void penalise_repeated(struct rf_sampler *sampler, const int32_t *text, int32_t n,
                              const int32_t *path, int32_t n_path)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    int32_t window = n + n_path;
    if (sampling->repeat_last_n >= 0 && sampling->repeat_last_n < window)
        window = sampling->repeat_last_n;
    next_round(sampler);
    for (int32_t i = n + n_path - window; i < n + n_path; i++) {
        int32_t id = i < n ? text[i] : path[i - n];
        if (!is_new(sampler, id)) continue;
        float *logit = &sampler->changed[id];
        *logit =
            *logit > 0.0f ? *logit / sampling->repeat_penalty : *logit * sampling->repeat_penalty;
    }
}

/* OpenAI's rule: less by `frequency` each time that the answer has the token, and once by
 * `presence`. Changes the copy of the logits. */
static void penalise_counted(struct rf_sampler *sampler, const int32_t *text, int32_t n,
                             const int32_t *path, int32_t n_path)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    next_round(sampler);
    for (int32_t i = sampler->answer; i < n + n_path; i++) {
        int32_t id = i < n ? text[i] : path[i - n];
        sampler->changed[id] -= sampling->frequency_penalty;
        if (is_new(sampler, id)) sampler->changed[id] -= sampling->presence_penalty;
    }
}

/* Only tokens of the mask can be chosen. Changes the copy of the logits. */
static void apply_mask(struct rf_sampler *sampler, const uint64_t *mask)
{
    for (int32_t word = 0; word <= (sampler->n_vocab - 1) / 64; word++) {
        int32_t first = 64 * word, left = sampler->n_vocab - first;
        uint64_t dropped = ~mask[word];
        if (left < 64) dropped &= ((uint64_t)1 << left) - 1;
        for (; dropped; dropped &= dropped - 1)
            sampler->changed[first + __builtin_ctzll(dropped)] = -INFINITY;
    }
}

static int repeats_cost(const struct rf_sampling *sampling)
{
    return sampling->repeat_penalty != 1.0f;
}

static int counts_cost(const struct rf_sampling *sampling)
{
    return sampling->frequency_penalty != 0.0f || sampling->presence_penalty != 0.0f;
}

static int is_penalised(const struct rf_sampling *sampling)
{
    return repeats_cost(sampling) || counts_cost(sampling);
}

/* The logits that the choice is made from. */
static const float *changed_logits(struct rf_sampler *sampler, const float *logits,
                                   const uint64_t *mask, const int32_t *text, int32_t n,
                                   const int32_t *path, int32_t n_path)
{
    if (!is_penalised(&sampler->sampling) && !mask && !sampler->n_bias) return logits;
    memcpy(sampler->changed, logits, (size_t)sampler->n_vocab * sizeof *logits);
    add_bias(sampler);
    if (repeats_cost(&sampler->sampling)) penalise_repeated(sampler, text, n, path, n_path);
    if (counts_cost(&sampler->sampling)) penalise_counted(sampler, text, n, path, n_path);
    if (mask) apply_mask(sampler, mask);
    return sampler->changed;
}

/* The greatest logit's lowest id, or n_vocab if none is greater than minus infinity. */
static size_t greatest_above(const struct rf_sampler *sampler, const float *logits)
{
    size_t n = (size_t)sampler->n_vocab, best = n;
    float top = -INFINITY;
    for (size_t i = 0; (i += sampler->first_above(logits + i, n - i, top)) < n; i++) {
        best = i;
        top = logits[i];
    }
    return best;
}

/* Moves element i down in a heap that has the last in order at its root. */
static void heap_sink(struct candidate *heap, size_t n, size_t i)
{
    struct candidate moving = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && ranks_before(&heap[child], &heap[child + 1])) child++;
        if (!ranks_before(&moving, &heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* Collects the k best candidates, or fewer where fewer are greater than minus infinity; returns how
 * many. Ids come in ascending order, so among equals the first ones stay. */
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
            for (size_t at = k / 2; at-- > 0;) heap_sink(heap, k, at);
        } else {
            heap[0] = found;
            heap_sink(heap, k, 0);
        }
        threshold = heap[0].logit;
    }
    return count;
}

/* Collects the candidates with logits over `threshold`; returns how many. */
static size_t collect_above(const struct rf_sampler *sampler, const float *logits, float threshold)
{
    size_t n = (size_t)sampler->n_vocab, count = 0;
    for (size_t i = 0; (i += sampler->first_above(logits + i, n - i, threshold)) < n; i++)
        sampler->candidates[count++] = (struct candidate){logits[i], (int32_t)i};
    return count;
}

static double sum_of_candidates(const struct candidate *candidates, size_t n, float max)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)expf(candidates[i].logit - max);
    return sum;
}

/* A threshold: logits with at least min_p of the greatest probability are above it. */
static float under_min_p(const struct rf_sampling *sampling, float max)
{
    if (sampling->min_p == 0.0f) return -INFINITY;
    double lowest = (double)max + log((double)sampling->min_p);
    float threshold = (float)lowest;
    return (double)threshold < lowest ? threshold : nextafterf(threshold, -INFINITY);
}

/* The finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014; its constants are Stafford's variant 13), and that generator's increment. */
static const uint64_t golden = 0x9e3779b97f4a7c15u;

static uint64_t splitmix64_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void swap_candidates(struct candidate *a, struct candidate *b)
{
    struct candidate other = *a;
    *a = *b;
    *b = other;
}

/* Moves the likeliest candidates to the front, as few as have `enough` probability together.
 * Returns how many. This is a quickselect by mass; any choice of pivots is correct. */
static size_t keep_until(struct candidate *candidates, size_t count, float max, double enough)
{
    size_t low = 0, high = count;
    double reached = 0.0; /* mass of the candidates before `low`: less than enough; with those
                             before `high` it is enough */
    while (high - low > 1) {
        size_t middle = low, last = high - 1;
        swap_candidates(
            &candidates[low + splitmix64_mix((uint64_t)low ^ (uint64_t)high << 32) % (high - low)],
            &candidates[last]);
        double mass = 0.0;
        for (size_t i = low; i < last; i++) {
            if (!ranks_before(&candidates[i], &candidates[last])) continue;
            mass += (double)expf(candidates[i].logit - max);
            swap_candidates(&candidates[i], &candidates[middle++]);
        }
        if (reached + mass >= enough) {
            high = middle;
        } else {
            swap_candidates(&candidates[middle], &candidates[last]);
            reached += mass + (double)expf(candidates[middle].logit - max);
            low = middle + 1;
            if (reached >= enough) return low;
        }
    }
    return high;
}

/* Collects the candidates that top-k, top-p and min-p leave, in no order; the greatest is always
 * among them. Returns how many. */
static size_t keep_candidates(const struct rf_sampler *sampler, const float *logits, float max)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    struct candidate *candidates = sampler->candidates;
    size_t n = (size_t)sampler->n_vocab, count;
    float lowest = under_min_p(sampling, max), top_p = sampling->top_p;
    double total = 0.0;
    if (sampling->top_k && (size_t)sampling->top_k < n) {
        count = collect_best(sampler, logits, (size_t)sampling->top_k);
        if (top_p < 1.0f) total = sum_of_candidates(candidates, count, max);
        size_t left = 0;
        for (size_t i = 0; i < count; i++)
            if (candidates[i].logit > lowest) candidates[left++] = candidates[i];
        count = left;
    } else {
        for (size_t i = 0; i < n && top_p < 1.0f; i++)
            if (!isnan(logits[i])) total += (double)expf(logits[i] - max);
        /* Usually a few candidates have nearly all of the probability. */
        float near = max - 10.0f > lowest && top_p < 1.0f ? max - 10.0f : lowest;
        count = collect_above(sampler, logits, near);
        if (near > lowest && sum_of_candidates(candidates, count, max) < (double)top_p * total)
            count = collect_above(sampler, logits, lowest);
    }
    return top_p < 1.0f ? keep_until(candidates, count, max, (double)top_p * total) : count;
}

/* The draw: the token with the least E_i / p_i wins, where the E_i are independent and exponential.
 * Token i wins with probability p_i (docs/design/sampling.md). */
struct race {
    uint64_t place;   /* the state of splitmix64 at this position, before token 0 */
    int32_t n_prizes; /* 1, or also the runners-up */
    struct runner {
        double key; /* log(E / p) */
        struct candidate candidate;
    } first[1 + RF_RUNNERS_UP]; /* [n_prizes]: candidates with the least keys so far, in order */
    double time;                /* exp(the greatest of these keys), rounded up */
};

static struct race race_start(uint64_t seed, int32_t position, int32_t n_prizes)
{
    uint64_t place =
        splitmix64_mix(splitmix64_mix(seed + golden) + golden * ((uint64_t)position + 1));
    struct race race = {.place = place, .n_prizes = n_prizes, .time = INFINITY};
    for (int32_t i = 0; i < n_prizes; i++) race.first[i] = (struct runner){INFINITY, {.id = -1}};
    return race;
}

/* A number in (0, 1], in steps of 2^-63 while it is small. Small numbers win. */
static double draw_uniform(const struct race *race, int32_t id)
{
    uint64_t bits = splitmix64_mix(race->place + golden * ((uint64_t)id + 1));
    return ((double)(int64_t)(bits >> 1) + 0.5) * 0x1p-63;
}

static int is_ahead(double key, int32_t id, const struct runner *of)
{
    return key < of->key || (key == of->key && id < of->candidate.id);
}

/* `x`: log p plus a constant that makes the greatest 0. For a uniform number u, E = -log(1 - u) is
 * between 2^-64 and 36.8 and greater than u. So a candidate whose u reaches `time` cannot win, and
 * no logarithm is needed. The margin in `time` is far above the rounding of keys, so the winner is
 * exact. */
static void race_enter(struct race *race, struct candidate candidate, double x)
{
    double chance = draw_uniform(race, candidate.id);
    if (chance >= race->time) return;
    double key = log(-log1p(-fmin(chance, 1.0 - 0x1p-53))) - x;
    struct runner *first = race->first;
    int32_t last = race->n_prizes - 1, at = last;
    if (!is_ahead(key, candidate.id, &first[last])) return;
    for (; at > 0 && is_ahead(key, candidate.id, &first[at - 1]); at--) first[at] = first[at - 1];
    first[at] = (struct runner){key, candidate};
    race->time = exp(first[last].key) * (1.0 + 1e-9);
}

/* The draw among all tokens. A token with p <= p_far cannot win unless its uniform number is below
 * p_far times the best time. So nearly all of these need no logarithm. Of n others about n / sum(p)
 * need one, which is below e^8 for any distribution. */
static void race_of_all(const struct rf_sampler *sampler, const float *logits, size_t greatest_id,
                        struct race *race)
{
    float max = logits[greatest_id], temperature = sampler->sampling.temperature,
          near = max - 8.0f * temperature;
    double p_far = exp(((double)near - (double)max) / (double)temperature);
    race_enter(race, (struct candidate){max, (int32_t)greatest_id}, 0.0);
    for (int32_t id = 0; id < sampler->n_vocab; id++) {
        if (id == (int32_t)greatest_id) continue;
        if (!(logits[id] > near) && draw_uniform(race, id) >= race->time * p_far) continue;
        race_enter(race, (struct candidate){logits[id], id},
                   ((double)logits[id] - (double)max) / (double)temperature);
    }
}

/* An estimate of the sum of exp((logit - max) / temperature), for a confidence. Only logits near
 * the greatest count. If there are many, the first ones are a sample of the rest. */
static double sum_of_all(const struct rf_sampler *sampler, const float *logits, size_t greatest_id,
                         float temperature)
{
    enum { ENOUGH = 1024 };
    size_t n = (size_t)sampler->n_vocab, count = 0;
    float max = logits[greatest_id],
          far = fminf(max - 12.0f * temperature, nextafterf(max, -INFINITY));
    double others = 0.0;
    for (size_t i = 0; (i += sampler->first_above(logits + i, n - i, far)) < n; i++) {
        if (i != greatest_id) others += (double)expf((logits[i] - max) / temperature);
        if (++count == ENOUGH) return 1.0 + others * ((double)n / (double)(i + 1));
    }
    return 1.0 + others;
}

/* The winner if the runners before it were not there. A model that nearly agrees moves keys a
 * little, so the confidence falls with the distance to the winner. */
static struct rf_choice runner_up(const struct race *race, int32_t i)
{
    if (race->first[i].candidate.id < 0) return (struct rf_choice){-1, 0.0f};
    double distance = race->first[i].key - race->first[0].key;
    return (struct rf_choice){race->first[i].candidate.id, (float)(1.0 / (1.0 + exp(distance)))};
}

static struct rf_choice draw_choice(const struct rf_sampler *sampler, const float *logits,
                                    size_t greatest_id, int32_t position,
                                    struct rf_choice *runners_up)
{
    const struct rf_sampling *sampling = &sampler->sampling;
    struct race race = race_start(sampling->seed, position, runners_up ? 1 + RF_RUNNERS_UP : 1);
    double max = (double)logits[greatest_id], temperature = (double)sampling->temperature,
           total = 0.0;
    int all =
        (sampling->top_k == 0 || sampling->top_k >= sampler->n_vocab) && sampling->top_p == 1.0f;
    if (all && sampling->min_p == 0.0f) {
        race_of_all(sampler, logits, greatest_id, &race);
        total = sum_of_all(sampler, logits, greatest_id, sampling->temperature);
    } else {
        const struct candidate *kept = sampler->candidates;
        size_t n_kept = keep_candidates(sampler, logits, logits[greatest_id]);
        for (size_t i = 0; i < n_kept; i++) {
            double x = ((double)kept[i].logit - max) / temperature;
            race_enter(&race, kept[i], x);
            total += exp(x);
        }
    }
    for (int32_t i = 0; runners_up && i < RF_RUNNERS_UP; i++)
        runners_up[i] = runner_up(&race, 1 + i);
    const struct candidate *won = &race.first[0].candidate;
    double p = exp(((double)won->logit - max) / temperature) / total;
    return (struct rf_choice){won->id, (float)fmin(p, 1.0)};
}

/* The choice and its runners-up among candidates in the order of their logits. mass: as in struct
 * rf_best. */
static void choose_first(const struct rf_candidate *top, int32_t n, double mass,
                         struct rf_choice *choice, struct rf_choice *runners_up)
{
    double left = fmax(mass - 1.0, 0.0); /* mass of all candidates but those before the runner-up */
    *choice = (struct rf_choice){top[0].token, (float)fmin(1.0 / mass, 1.0)};
    for (int32_t i = 0; runners_up && i < RF_RUNNERS_UP; i++) {
        runners_up[i] = (struct rf_choice){-1, 0.0f};
        if (1 + i >= n) continue;
        double own = exp((double)top[1 + i].logit - (double)top[0].logit);
        runners_up[i] = (struct rf_choice){top[1 + i].token, own < left ? (float)(own / left) : 1};
        left = fmax(left - own, 0.0);
    }
}

static void choose_greatest(struct rf_sampler *sampler, const float *logits, size_t greatest_id,
                            struct rf_choice *choice, struct rf_choice *runners_up)
{
    struct rf_candidate top[1 + RF_RUNNERS_UP] = {{(int32_t)greatest_id, logits[greatest_id]}};
    int32_t n = 1;
    size_t found = runners_up ? collect_best(sampler, logits, 1 + RF_RUNNERS_UP) : 0;
    for (size_t i = 0; i < found; i++) {
        struct candidate one = sampler->candidates[i];
        if (one.id == (int32_t)greatest_id) continue;
        int32_t at = n++;
        for (; at > 1 &&
               ranks_before(&one, &(struct candidate){top[at - 1].logit, top[at - 1].token});
             at--)
            top[at] = top[at - 1];
        top[at] = (struct rf_candidate){one.id, one.logit};
    }
    choose_first(top, n, sum_of_all(sampler, logits, greatest_id, 1.0f), choice, runners_up);
}

int rf_not_finite(int32_t n, struct rf_error *error)
{
    return rf_fail(error, RF_ERR_FORMAT,
                   "the model's logits are not finite numbers after %d tokens", n);
}

int rf_sampler_choose_after(struct rf_sampler *sampler, const float *logits, const uint64_t *mask,
                            const int32_t *text, int32_t n, const int32_t *path, int32_t n_path,
                            struct rf_choice *choice, struct rf_choice *runners_up,
                            struct rf_error *error)
{
    if (make_lists(sampler, error)) return RF_ERR_MEMORY;
    logits = changed_logits(sampler, logits, mask, text, n, path, n_path);
    size_t best = greatest_above(sampler, logits);
    if (best == (size_t)sampler->n_vocab || !isfinite(logits[best]))
        return rf_not_finite(n + n_path, error);
    if (sampler->sampling.temperature == 0.0f)
        choose_greatest(sampler, logits, best, choice, runners_up);
    else
        *choice = draw_choice(sampler, logits, best, n + n_path, runners_up);
    return 0;
}

int rf_sampler_choose(struct rf_sampler *sampler, const float *logits, const int32_t *history,
                      int32_t n, struct rf_choice *choice, struct rf_error *error)
{
    return rf_sampler_choose_after(sampler, logits, NULL, history, n, NULL, 0, choice, NULL, error);
}

int rf_sampler_is_greedy(const struct rf_sampler *sampler)
{
    return sampler->sampling.temperature == 0.0f && !is_penalised(&sampler->sampling) &&
           !sampler->n_bias;
}

int rf_sampler_take(const struct rf_best *best, int32_t n, struct rf_choice *choice,
                    struct rf_choice *runners_up, struct rf_error *error)
{
    if (best->n == 0) return rf_not_finite(n, error);
    choose_first(best->top, best->n, (double)best->mass, choice, runners_up);
    return 0;
}

static int candidate_order(const void *a, const void *b)
{
    return ranks_before(a, b) ? -1 : ranks_before(b, a);
}

int rf_sampler_log_probs(struct rf_sampler *sampler, const float *logits, int32_t token,
                         struct rf_log_probs *found, struct rf_error *error)
{
    int code = make_lists(sampler, error);
    if (code) return code;
    size_t n = collect_best(sampler, logits, found->n > 0 ? (size_t)found->n : 1);
    if (n == 0) return rf_not_finite(0, error);
    struct candidate *best = sampler->candidates;
    qsort(best, n, sizeof *best, candidate_order);
    double sum = 0.0;
    for (int32_t i = 0; i < sampler->n_vocab; i++) sum += (double)expf(logits[i] - best[0].logit);
    double mass = (double)best[0].logit + log(sum);
    if (!isfinite(mass)) return rf_not_finite(0, error);
    if (found->n > (int32_t)n) found->n = (int32_t)n;
    for (int32_t i = 0; i < found->n; i++)
        found->top[i] = (struct rf_candidate){best[i].id, (float)((double)best[i].logit - mass)};
    found->chosen = (float)((double)logits[token] - mass);
    return 0;
}
