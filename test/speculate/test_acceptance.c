/* How often a draft with the judge's luck is the judge's own choice, beside the most that any rule
 * could keep, which is the sum of min(p, q) (what rejection sampling keeps: Leviathan et al. 2023),
 * and the least that this one may, which is (1 - TV) / (1 + TV) (Daliri, Musco and Suresh 2024,
 * theorem 1). Prints a table; docs/lab/2026-11-21-acceptance-of-draws.md quotes it.
 *
 *     test_acceptance MODEL DRAFT [PLACES]
 *
 * Both models must have one vocabulary. The places are those of a text that MODEL writes at
 * temperature 1. */
#include <math.h>
#include <stdlib.h>

#include "platform/memory.h"
#include "riffle.h"
#include "support/check.h"
#include "support/plain_sampler.h"

enum { LUCKS = 200 };

static size_t first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

static double random_normal(uint64_t *state)
{
    double sum = 0.0;
    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) * 0x1p-53 - 0.5;
    }
    return sum;
}

/* One row of the table: sums over places. */
struct rates {
    const char *drafter;
    double noise; /* noise on the drafter's logits; negative: on the draft model's */
    double kept, optimum, least, variance;
};

struct places {
    int32_t n_vocab, n;
    float *target, *draft, *noisy; /* logits of one place, [n_vocab] */
    double *p, *q;
    struct rf_sampler *judge, *drafter;
};

static void add_place(struct places *places, const struct rf_sampling *settings,
                      struct rates *rates, int32_t place)
{
    struct rf_error error = {.text = ""};
    int32_t n_vocab = places->n_vocab, same = 0;
    uint64_t state = (uint64_t)place * 1000003u + 17u;
    const float *logits = places->draft;
    if (rates->noise >= 0.0) {
        for (int32_t i = 0; i < n_vocab; i++)
            places->noisy[i] = places->target[i] + (float)(rates->noise * random_normal(&state));
        logits = places->noisy;
    }
    plain_probabilities(settings, places->target, n_vocab, places->p);
    plain_probabilities(settings, logits, n_vocab, places->q);
    double common = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) common += fmin(places->p[i], places->q[i]);
    struct rf_sampling sampling = *settings;
    for (int32_t luck = 0; luck < LUCKS; luck++) {
        struct rf_choice judged = {.token = -1}, drafted = {.token = -2};
        sampling.seed = (uint64_t)place * LUCKS + (uint64_t)luck;
        CHECK_INT(rf_sampler_set(places->judge, &sampling, &error), 0);
        rf_sampler_copy(places->drafter, places->judge);
        CHECK_INT(rf_sampler_choose(places->judge, places->target, NULL, 0, &judged, &error), 0);
        CHECK_INT(rf_sampler_choose(places->drafter, logits, NULL, 0, &drafted, &error), 0);
        same += judged.token == drafted.token;
    }
    double rate = (double)same / LUCKS;
    rates->kept += rate;
    rates->variance += rate * (1.0 - rate) / LUCKS;
    rates->optimum += common;
    rates->least += common / (2.0 - common); /* TV = 1 - common */
}

static const struct rf_sampling settings[] = {
    {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .repeat_penalty = 1.0f},
    {.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1.0f}};
enum { N_SETTINGS = 2, N_RATES = 5 };

static void print_and_check(const struct places *places, struct rates table[N_SETTINGS][N_RATES])
{
    for (int s = 0; s < N_SETTINGS; s++) {
        printf("temperature %.1f, top-k %d, top-p %.2f, min-p %.2f, %d places:\n",
               (double)settings[s].temperature, settings[s].top_k, (double)settings[s].top_p,
               (double)settings[s].min_p, places->n);
        for (int r = 0; r < N_RATES; r++) {
            const struct rates *rates = &table[s][r];
            double n = places->n, kept = rates->kept / n, deviation = sqrt(rates->variance) / n;
            printf("  %-24s kept %5.1f %%   optimum %5.1f %%   bound %5.1f %%\n", rates->drafter,
                   100.0 * kept, 100.0 * rates->optimum / n, 100.0 * rates->least / n);
            /* Four standard deviations of the draws: once in thirty thousand choices of seeds. */
            CHECK_MSG(kept <= rates->optimum / n + 4.0 * deviation + 1e-9, "%s: more than can be",
                      rates->drafter);
            CHECK_MSG(kept >= rates->least / n - 4.0 * deviation - 1e-9, "%s: less than the bound",
                      rates->drafter);
        }
    }
}

static int measure(riffle_session *target, riffle_session *draft, struct places *places)
{
    struct rates table[N_SETTINGS][N_RATES];
    static const struct rates rows[N_RATES] = {{.drafter = "the draft model", .noise = -1.0},
                                               {.drafter = "noise of 0", .noise = 0.0},
                                               {.drafter = "noise of 0.25", .noise = 0.25},
                                               {.drafter = "noise of 0.5", .noise = 0.5},
                                               {.drafter = "noise of 1", .noise = 1.0}};
    for (int s = 0; s < N_SETTINGS; s++) memcpy(table[s], rows, sizeof rows);
    for (int32_t place = 0; place < places->n; place++) {
        int32_t token;
        if (riffle_logits(target, places->target, (size_t)places->n_vocab)) return -1;
        if (riffle_logits(draft, places->draft, (size_t)places->n_vocab)) return -1;
        for (int s = 0; s < N_SETTINGS; s++)
            for (int r = 0; r < N_RATES; r++) add_place(places, &settings[s], &table[s][r], place);
        if (riffle_step(target, &token, 1) != 1 || riffle_prefill(draft, &token, 1)) return -1;
    }
    print_and_check(places, table);
    for (int s = 0; s < N_SETTINGS; s++) CHECK(table[s][1].kept == (double)places->n);
    return 0;
}

static int open_session(const char *path, riffle_model **model, riffle_session **session)
{
    int32_t tokens[64];
    static const char text[] = "Once upon a time";
    if (riffle_model_open(model, path, NULL) || riffle_session_open(session, *model, NULL))
        return -1;
    int64_t n = riffle_tokenize(*model, text, sizeof text - 1, RIFFLE_TOKENIZE_BOS, tokens, 64);
    return n < 0 || n > 64 || riffle_prefill(*session, tokens, (size_t)n) ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: test_acceptance MODEL DRAFT [PLACES]\n");
        return 2;
    }
    struct rf_error error = {.text = ""};
    riffle_model *models[2] = {NULL};
    riffle_session *sessions[2] = {NULL};
    riffle_model_info info = {.n_vocab = 0};
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 1.0f;
    sampling.top_k = 0;
    sampling.top_p = 1.0f;
    sampling.min_p = 0.0f;
    int code = open_session(argv[1], &models[0], &sessions[0]) ||
               open_session(argv[2], &models[1], &sessions[1]) ||
               riffle_session_set_sampling(sessions[0], &sampling) ||
               riffle_model_get_info(models[0], &info, sizeof info);
    struct places places = {.n_vocab = info.n_vocab, .n = argc > 3 ? atoi(argv[3]) : 40};
    size_t n_vocab = (size_t)info.n_vocab;
    places.target = malloc(n_vocab * sizeof(float));
    places.draft = malloc(n_vocab * sizeof(float));
    places.noisy = malloc(n_vocab * sizeof(float));
    places.p = malloc(n_vocab * sizeof(double));
    places.q = malloc(n_vocab * sizeof(double));
    if (!code)
        code = rf_sampler_new(&places.judge, info.n_vocab, first_above, &rf_system_allocator,
                              &error) ||
               rf_sampler_new(&places.drafter, info.n_vocab, first_above, &rf_system_allocator,
                              &error) ||
               measure(sessions[0], sessions[1], &places);
    CHECK_MSG(code == 0, "%s%s", riffle_last_error(), error.text);
    free(places.target);
    free(places.draft);
    free(places.noisy);
    free(places.p);
    free(places.q);
    rf_sampler_free(places.judge);
    rf_sampler_free(places.drafter);
    for (int i = 0; i < 2; i++) {
        riffle_session_close(sessions[i]);
        riffle_model_close(models[i]);
    }
    return check_result();
}
