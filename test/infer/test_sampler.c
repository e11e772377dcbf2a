/* The sampling chain: order of operations, ranges, ties, seeds, and agreement with a plain one
 * written twice over. Whether draws follow the probabilities is test/speculate/test_sampling.c. */
#include <math.h>

#include "infer/sampler.h"
#include "platform/memory.h"
#include "support/check.h"
#include "support/plain_sampler.h"

enum { N = 8 };

static const struct rf_sampling plain = {.temperature = 1.0f,
                                         .top_k = 0,
                                         .top_p = 1.0f,
                                         .min_p = 0.0f,
                                         .repeat_penalty = 1.0f,
                                         .repeat_last_n = 64,
                                         .seed = 7};

static struct rf_sampler *sampler;

static size_t first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

static int32_t choose(const float *logits, const int32_t *history, int32_t n)
{
    struct rf_error error = {0};
    struct rf_choice choice = {.token = -1};
    CHECK_MSG(rf_sampler_choose(sampler, logits, history, n, &choice, &error) == 0, "%s",
              error.text);
    CHECK(choice.confidence > 0.0f && choice.confidence <= 1.0f);
    return choice.token;
}

/* The ids that 2000 draws give, each with a seed of its own, as a bit mask. */
static unsigned reached(const struct rf_sampling *sampling, const float *logits,
                        const int32_t *history, int32_t n)
{
    struct rf_error error;
    struct rf_sampling seeded = *sampling;
    unsigned mask = 0;
    for (; seeded.seed < 2000; seeded.seed++) {
        CHECK_INT(rf_sampler_set(sampler, &seeded, &error), 0);
        mask |= 1u << choose(logits, history, n);
    }
    return mask;
}

static void check_greedy(void)
{
    struct rf_error error;
    struct rf_sampling greedy = plain;
    greedy.temperature = 0.0f;
    CHECK_INT(rf_sampler_set(sampler, &greedy, &error), 0);
    CHECK_INT(choose((float[N]){0, 3, 1, 3, 2, 3, 0, 0}, NULL, 0), 1);
    CHECK_INT(choose((float[N]){-5, NAN, -1, -2, -INFINITY, -3, NAN, -9}, NULL, 0), 2);
    /* The penalty acts on greedy choices too: 3/2 falls under 2, and -1 becomes -2. */
    greedy.repeat_penalty = 2.0f;
    CHECK_INT(rf_sampler_set(sampler, &greedy, &error), 0);
    CHECK_INT(choose((float[N]){0, 3, 2, 0, 0, 0, 0, 0}, (int32_t[]){1, 1, 1}, 3), 2);
    CHECK_INT(choose((float[N]){-1, -1.5f, -9, -9, -9, -9, -9, -9}, (int32_t[]){0}, 1), 1);
    greedy.repeat_last_n = 1;
    CHECK_INT(rf_sampler_set(sampler, &greedy, &error), 0);
    CHECK_INT(choose((float[N]){0, 3, 2, 0, 0, 0, 0, 0}, (int32_t[]){1, 5}, 2), 1);
    /* Token 1 is in the answer, from position 1 on, twice: 3 - 2 * 0.5 falls under 2.25, and with
     * presence under 1.9. */
    greedy = plain;
    greedy.temperature = 0.0f;
    greedy.frequency_penalty = 0.5f;
    const float answer[N] = {1.9f, 3, 2.25f, 0, 0, 0, 0, 0};
    const int32_t history[] = {2, 1, 1, 3};
    CHECK_INT(rf_sampler_set(sampler, &greedy, &error), 0);
    rf_sampler_set_answer(sampler, 1);
    CHECK(!rf_sampler_is_greedy(sampler));
    CHECK_INT(choose(answer, history, 2), 1);
    CHECK_INT(choose(answer, history, 3), 2);
    CHECK_INT(choose(answer, history, 4), 2);
    rf_sampler_set_answer(sampler, 0);
    CHECK_INT(choose(answer, history, 3), 1); /* the first token, too, loses 0.5 */
    greedy.presence_penalty = 0.25f;
    CHECK_INT(rf_sampler_set(sampler, &greedy, &error), 0);
    CHECK_INT(choose(answer, history, 3), 0);
    /* An encouraged token comes again. */
    greedy.frequency_penalty = 0.0f;
    greedy.presence_penalty = -2.0f;
    CHECK_INT(rf_sampler_set(sampler, &greedy, &error), 0);
    CHECK_INT(choose(answer, (int32_t[]){3, 0}, 2), 0);
    rf_sampler_set_answer(sampler, 0);
    /* Runners-up in order, the lower id among equals; -1 where nothing is left. */
    struct rf_choice choice, next[RF_RUNNERS_UP];
    const float three[N] = {0.0f, 3, 2, 3, -INFINITY, -INFINITY, NAN, -INFINITY};
    CHECK_INT(
        rf_sampler_choose_after(sampler, three, NULL, NULL, 0, NULL, 0, &choice, next, &error), 0);
    CHECK(choice.token == 1 && next[0].token == 3 && next[1].token == 2);
    double left = exp(0) + exp(-1) + exp(-3);
    CHECK(fabs((double)next[0].confidence - 1.0 / left) < 1e-5);
    CHECK(fabs((double)next[1].confidence - exp(-1) / (left - 1.0)) < 1e-5);
    const struct rf_best best = {.top = {{5, 2.0f}, {4, 1.0f}}, .n = 2, .mass = 1.0f + expf(-1.0f)};
    CHECK_INT(rf_sampler_take(&best, 0, &choice, next, &error), 0);
    CHECK(choice.token == 5 && next[0].token == 4 && next[1].token == -1);
    CHECK(fabs((double)next[0].confidence - 1.0) < 1e-5);
}

static void check_cuts(void)
{
    /* Probabilities 1/2, 1/4, 1/8, ... of the first five, the rest impossible. */
    const float logits[N] = {-1.3862944f, -0.6931472f, -2.0794415f, -3.4657359f,
                             -2.7725887f, -INFINITY,   -INFINITY,   -INFINITY};
    struct rf_sampling s = plain;
    CHECK_INT(reached(&s, logits, NULL, 0), 0x1f);
    s.top_k = 2;
    CHECK_INT(reached(&s, logits, NULL, 0), 0x03);
    s = plain;
    s.top_p = 0.6f; /* 1/2 is not enough, 3/4 is */
    CHECK_INT(reached(&s, logits, NULL, 0), 0x03);
    s.top_p = 0.001f;
    CHECK_INT(reached(&s, logits, NULL, 0), 0x02);
    s.top_p = 0.0f; /* the likeliest, whatever else is set */
    CHECK_INT(reached(&s, logits, NULL, 0), 0x02);
    s.top_k = 3;
    s.min_p = 0.1f;
    CHECK_INT(reached(&s, logits, NULL, 0), 0x02);
    s = plain;
    s.min_p = 0.3f; /* a share of the greatest: 1/4 is half of 1/2, 1/8 a quarter */
    CHECK_INT(reached(&s, logits, NULL, 0), 0x03);
    /* Top-p counts what top-k left: of {1/2, 1/4} the first holds 2/3. */
    s = plain;
    s.top_k = 2;
    s.top_p = 0.6f;
    CHECK_INT(reached(&s, logits, NULL, 0), 0x02);
    /* Temperature comes last: however high, it brings nothing back that the cuts removed. */
    s.temperature = 50.0f;
    s.top_p = 0.7f;
    CHECK_INT(reached(&s, logits, NULL, 0), 0x03);
}

/* Luck depends on the seed, the position and the token, and on nothing that was asked before. */
static void check_seeds(void)
{
    struct rf_error error;
    enum { PLACES = 200 };
    const float logits[N] = {0};
    int32_t history[PLACES] = {0}, first[PLACES], other_seed = 0, neighbours = 0;
    struct rf_sampling s = plain;
    CHECK_INT(rf_sampler_set(sampler, &s, &error), 0);
    for (int i = 0; i < PLACES; i++) first[i] = choose(logits, history, i);
    for (int i = PLACES; i-- > 0;) CHECK_INT(choose(logits, history, i), first[i]);
    struct rf_sampler *twin;
    CHECK_INT(rf_sampler_new(&twin, N, first_above, &rf_system_allocator, &error), 0);
    rf_sampler_copy(twin, sampler);
    for (int i = 0; i < PLACES; i++) {
        struct rf_choice choice;
        CHECK_INT(rf_sampler_choose(twin, logits, history, i, &choice, &error), 0);
        CHECK_INT(choice.token, first[i]);
    }
    rf_sampler_free(twin);
    s.seed = 8;
    CHECK_INT(rf_sampler_set(sampler, &s, &error), 0);
    for (int i = 0; i < PLACES; i++) other_seed += choose(logits, history, i) == first[i];
    for (int i = 1; i < PLACES; i++) neighbours += first[i] == first[i - 1];
    /* An eighth is 25, with a standard deviation of 4.7. */
    CHECK_MSG(other_seed > 5 && other_seed < 45, "%d of %d are the other seed's", other_seed,
              PLACES);
    CHECK_MSG(neighbours > 5 && neighbours < 45, "%d of %d are their neighbours'", neighbours,
              PLACES);
}

static void check_confidence(void)
{
    struct rf_error error;
    struct rf_choice choice;
    const float logits[N] = {-1.3862944f, -0.6931472f, -2.0794415f, -3.4657359f,
                             -2.7725887f, -INFINITY,   NAN,         -INFINITY};
    struct rf_sampling s = plain;
    s.temperature = 0.0f;
    CHECK_INT(rf_sampler_set(sampler, &s, &error), 0);
    CHECK_INT(rf_sampler_choose(sampler, logits, NULL, 0, &choice, &error), 0);
    /* 1/2 of 31/32. */
    CHECK_MSG(fabs((double)choice.confidence - 16.0 / 31.0) < 1e-6, "%g",
              (double)choice.confidence);
    for (int cut = 0; cut < 2; cut++) {
        s.temperature = 0.5f;
        s.top_k = cut ? 2 : 0;
        CHECK_INT(rf_sampler_set(sampler, &s, &error), 0);
        CHECK_INT(rf_sampler_choose(sampler, logits, NULL, 0, &choice, &error), 0);
        double total = 0.0;
        for (int i = 0; i < 5; i++)
            if (!cut || i < 2) total += exp((double)logits[i] / 0.5);
        double wanted = exp((double)logits[choice.token] / 0.5) / total;
        CHECK_MSG(fabs((double)choice.confidence - wanted) < 1e-6, "%g, not %g",
                  (double)choice.confidence, wanted);
    }
    /* The lowest temperatures there are give the greatest. */
    s = plain;
    s.temperature = 1e-45f;
    CHECK_INT(rf_sampler_set(sampler, &s, &error), 0);
    CHECK_INT(rf_sampler_choose(sampler, logits, NULL, 0, &choice, &error), 0);
    CHECK_INT(choice.token, 1);
    CHECK(choice.confidence == 1.0f);
}

enum { MANY = 20000 };

static double random_normal(uint64_t *state)
{
    double sum = 0.0;
    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) * 0x1p-53 - 0.5;
    }
    return sum;
}

/* Asking for runners-up changes no choice, and each is the choice among what is left. */
static void check_runners_up(const float *logits, const int32_t *history, int32_t n, uint64_t seed,
                             double *p)
{
    struct rf_error error;
    struct rf_choice choice, runners_up[RF_RUNNERS_UP];
    CHECK_INT(rf_sampler_choose_after(sampler, logits, NULL, history, n, NULL, 0, &choice,
                                      runners_up, &error),
              0);
    CHECK_INT(choice.token, plain_choice(seed, n, p, MANY));
    p[choice.token] = 0.0;
    for (int k = 0; k < RF_RUNNERS_UP; k++) {
        double left = 0.0;
        for (int i = 0; i < MANY; i++) left += p[i];
        CHECK_INT(runners_up[k].token, left > 0.0 ? plain_choice(seed, n, p, MANY) : -1);
        if (runners_up[k].token < 0) continue;
        CHECK(runners_up[k].confidence >= 0.0f && runners_up[k].confidence <= 0.5f);
        p[runners_up[k].token] = 0.0;
    }
}

/* Every short cut (what is not sorted, not summed, not entered into the race) leaves the choice as
 * it is. */
static void check_against_plain(void)
{
    struct rf_error error;
    static float logits[MANY];
    static double p[MANY];
    int32_t history[40] = {0};
    struct rf_sampler *narrow = sampler;
    CHECK_INT(rf_sampler_new(&sampler, MANY, first_above, &rf_system_allocator, &error), 0);
    /* The widths of the logits: nearly flat, a model's, peaked. */
    static const double widths[] = {0.01, 2.5, 12.0};
    static const struct rf_sampling cuts[] = {{1.0f, 0, 1.0f, 0.0f, 1.0f, 64, 1, 0, 0},
                                              {1.0f, 40, 1.0f, 0.0f, 1.0f, 64, 2, 0, 0},
                                              {0.7f, 40, 0.95f, 0.05f, 1.0f, 0, 3, 0, 0},
                                              {1.0f, 0, 0.9f, 0.0f, 1.0f, 64, 4, 0, 0},
                                              {1.0f, 0, 0.999999f, 0.0f, 1.0f, 64, 5, 0, 0},
                                              {1.5f, 0, 1.0f, 0.01f, 1.0f, 64, 6, 0, 0},
                                              {0.2f, 0, 0.5f, 0.1f, 1.0f, 64, 7, 0, 0},
                                              {100.0f, 0, 1.0f, 0.0f, 1.0f, 64, 8, 0, 0},
                                              {0.01f, 0, 1.0f, 0.0f, 1.0f, 64, 9, 0, 0},
                                              {1.0f, MANY - 1, 0.3f, 0.0f, 1.0f, 64, 10, 0, 0}};
    uint64_t state = 1;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            CHECK_INT(rf_sampler_set(sampler, &cuts[c], &error), 0);
            for (int32_t n = 0; n < 8; n++) {
                for (int i = 0; i < MANY; i++)
                    logits[i] = (float)(widths[w] * random_normal(&state));
                plain_probabilities(&cuts[c], logits, MANY, p);
                CHECK_INT(choose(logits, history, n), plain_choice(cuts[c].seed, n, p, MANY));
                check_runners_up(logits, history, n, cuts[c].seed, p);
            }
        }
    rf_sampler_free(sampler);
    sampler = narrow;
}

static void check_refusals(void)
{
    struct rf_error error;
    struct rf_choice choice;
    enum { N_BAD = 10 };
    struct rf_sampling bad[N_BAD];
    for (int i = 0; i < N_BAD; i++) bad[i] = plain;
    bad[0].temperature = -1.0f;
    bad[1].temperature = NAN;
    bad[2].top_k = -1;
    bad[3].top_p = -0.1f;
    bad[4].top_p = 1.5f;
    bad[5].min_p = NAN;
    bad[6].repeat_penalty = 0.0f;
    bad[7].repeat_last_n = -2;
    bad[8].frequency_penalty = 2.5f;
    bad[9].presence_penalty = NAN;
    for (int i = 0; i < N_BAD; i++)
        CHECK_INT(rf_sampler_set(sampler, &bad[i], &error), RF_ERR_ARGUMENT);
    CHECK_INT(rf_sampler_set(sampler, &plain, &error), 0);
    const float nothing[N] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    CHECK_INT(rf_sampler_choose(sampler, nothing, NULL, 0, &choice, &error), RF_ERR_FORMAT);
    const float overflow[N] = {0, INFINITY};
    CHECK_INT(rf_sampler_choose(sampler, overflow, NULL, 0, &choice, &error), RF_ERR_FORMAT);
}

int main(void)
{
    struct rf_error error = {0};
    CHECK_MSG(rf_sampler_new(&sampler, N, first_above, &rf_system_allocator, &error) == 0, "%s",
              error.text);
    check_greedy();
    check_cuts();
    check_seeds();
    check_confidence();
    check_against_plain();
    check_refusals();
    rf_sampler_free(sampler);
    return check_result();
}
