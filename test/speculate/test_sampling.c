/* Tests that answers have the target's distribution and no other: chi-square tests of two
 * tokens together, over thousands of seeds, for the sampler alone, for every level of chains of two
 * and three levels through the cascade, and for broken ones, which must be caught.
 *
 * A right program fails one of these tests for one choice of seeds in ten thousand; the seeds are
 * fixed, so it either always passes or never. */
#include <math.h>

#include "infer/sequence.h"
#include "platform/memory.h"
#include "speculate/cascade.h"
#include "support/check.h"
#include "support/chi_square.h"
#include "support/plain_sampler.h"

enum { V = 8, CELLS = V * V, SEEDS = IS_SANITIZED ? 5000 : 40000, PROMPT = 3, LEVELS = 3 };

static size_t first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

/* ---- levels whose logits are written down ---- */

enum fault {
    FAULTLESS,
    KEEPS_EVERYTHING, /* says yes to each draft */
    FORGETS_RESIDUAL, /* rejection sampling, but what is rejected is drawn from p, not from what p
                         has over q */
    FORGETS_THE_POSITION /* the same luck everywhere */
};

static float logits_of[LEVELS][V][V]; /* [level][last token] */

struct scripted {
    int index;
    enum fault fault;
    struct rf_sampler *sampler;
    const struct rf_sampling *sampling;
    int32_t first_question[2],
        n_first_question; /* the first drafts that it was asked about after the prompt */
};

static int64_t runners_up_at[LEVELS]; /* runners-up that each level judged */

static struct rf_choice own_choice(const struct scripted *level, const int32_t *text, int32_t n,
                                   struct rf_choice *runners_up)
{
    struct rf_error error = {.text = ""};
    struct rf_choice choice = {.token = 0};
    int32_t position = level->fault == FORGETS_THE_POSITION ? PROMPT : n;
    int code = rf_sampler_choose_after(level->sampler, logits_of[level->index][text[n - 1]], NULL,
                                       text, position, NULL, 0, &choice, runners_up, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    return choice;
}

/* Accepts a draft of the level below with probability min(1, p / q), by luck of its own. */
static struct rf_choice reject_wrongly(const struct scripted *level, const int32_t *text, int32_t n,
                                       int32_t drafted)
{
    double p[V], q[V];
    plain_probabilities(level->sampling, logits_of[level->index][text[n - 1]], V, p);
    plain_probabilities(level->sampling, logits_of[level->index - 1][text[n - 1]], V, q);
    uint64_t other = level->sampling->seed + 1000000007u;
    double keep[2] = {fmin(1.0, p[drafted] / q[drafted]), 1.0 - fmin(1.0, p[drafted] / q[drafted])};
    int32_t token =
        plain_choice(other, n, keep, 2) == 0 ? drafted : plain_choice(other + 1, n, p, V);
    return (struct rf_choice){token, 0.5f};
}

/* Copies the tokens that lead to draft row i, and its own, behind the text; returns its length. */
static int32_t text_to(const struct rf_draft *draft, int32_t i, int32_t *text, int32_t n)
{
    if (i < 0) return n;
    n = text_to(draft, draft->parents[i], text, n);
    text[n] = draft->tokens[i];
    return n + 1;
}

/* The first row that follows row i (-1: the text), or -1. */
static int32_t first_child(const struct rf_draft *draft, int32_t i)
{
    for (int32_t k = i + 1; k < draft->n; k++)
        if (draft->parents[k] == i) return k;
    return -1;
}

static int choose(void *self, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error)
{
    (void)error;
    struct scripted *level = self;
    const struct rf_draft *draft = question->draft;
    int32_t text[PROMPT + 4 * (RF_MAX_DRAFT + 1)];
    memcpy(text, question->text, (size_t)question->n * sizeof *text);
    question->rows = draft->n + 1;
    for (int32_t i = 0; i < draft->n; i++) runners_up_at[level->index] += draft->by[i].runner_up;
    question->seconds = 1e-3 * (level->index + 1);
    if (question->n == PROMPT && level->n_first_question == 0) {
        level->n_first_question = draft->n < 2 ? draft->n : 2;
        for (int32_t i = 0; i < level->n_first_question; i++)
            level->first_question[i] = draft->tokens[i];
    }
    for (int32_t i = -1; i < draft->n; i++) {
        int32_t n = text_to(draft, i, text, question->n), next = first_child(draft, i);
        if (next >= 0 && level->fault == KEEPS_EVERYTHING)
            choices[i + 1] = (struct rf_choice){draft->tokens[next], 0.9f};
        else if (next >= 0 && level->fault == FORGETS_RESIDUAL)
            choices[i + 1] = reject_wrongly(level, text, n, draft->tokens[next]);
        else
            choices[i + 1] = own_choice(level, text, n,
                                        question->runners_up ? question->runners_up[i + 1] : NULL);
    }
    return 0;
}

static int keep(void *self, const int32_t *text, int32_t n, const int32_t *path, int32_t k,
                struct rf_error *error)
{
    (void)self;
    (void)text;
    (void)n;
    (void)path;
    (void)k;
    (void)error;
    return 0;
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    (void)self;
    (void)text;
    (void)n;
    return 1;
}

/* A table that draws nothing: the token after the last one, always. */
static int count_up(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_draft *draft,
                    struct rf_error *error)
{
    (void)self;
    (void)error;
    struct rf_choice choices[RF_MAX_DRAFT];
    for (int32_t i = 0; i < max; i++)
        choices[i] = (struct rf_choice){(text[n - 1] + 1 + i) % V, 0.5f};
    rf_draft_line(draft, choices, max);
    return 0;
}

/* A drafter that offers a tree: 2 of the tokens that may come next, and 2 after each. */
static int branch_out(void *self, const int32_t *text, int32_t n, int32_t max,
                      struct rf_draft *draft, struct rf_error *error)
{
    (void)self;
    (void)error;
    draft->n = 0;
    for (int32_t at = -1; at < (max > 1 ? 2 : 0); at++) {
        for (int32_t step = 1; step <= 2; step++) {
            int32_t i = draft->n++;
            draft->tokens[i] = ((at < 0 ? text[n - 1] : draft->tokens[at]) + step) % V;
            draft->parents[i] = at;
            draft->confidence[i] = 0.5f;
        }
    }
    return 0;
}

enum { COUNTS = 1, BRANCHES = 2 };
static const struct rf_level_ops scripted_ops = {.choose = choose, .keep = keep, .unread = unread};
static const struct rf_level_ops drafting_ops[] = {{.draft = count_up}, {.draft = branch_out}};

/* ---- runs ---- */

struct chain {
    const char *name;
    int first, last;  /* numbers of the scripted levels */
    int drafters;     /* drafters before them: COUNTS, BRANCHES, or both, whose trees are merged */
    int32_t gamma;    /* 0: the pace's choice */
    enum fault fault; /* fault of the last level */
};

static const int32_t prompt[PROMPT] = {1, 5, 2};

/* p[a * V + b] of the two tokens that `level` puts after the prompt. */
static void joint(const struct rf_sampling *sampling, int level, double p[CELLS])
{
    double first[V], second[V];
    plain_probabilities(sampling, logits_of[level][prompt[PROMPT - 1]], V, first);
    for (int a = 0; a < V; a++) {
        plain_probabilities(sampling, logits_of[level][a], V, second);
        for (int b = 0; b < V; b++) p[a * V + b] = first[a] * second[b];
    }
}

static struct scripted scripted[LEVELS];

static struct rf_cascade *open_cascade(const struct chain *chain, struct rf_sequence *sequence)
{
    struct rf_error error = {.text = ""};
    struct rf_level levels[LEVELS + 2];
    int32_t n = 0;
    for (int kind = 0; kind < 2; kind++)
        if (chain->drafters & 1 << kind)
            levels[n++] = (struct rf_level){.ops = &drafting_ops[kind], .acceptance = 0.3};
    for (int l = chain->first; l <= chain->last; l++) {
        scripted[l].fault = l == chain->last ? chain->fault : FAULTLESS;
        levels[n++] = (struct rf_level){.ops = &scripted_ops,
                                        .self = &scripted[l],
                                        .cost = 0.05 * (l + 1),
                                        .acceptance = 0.7,
                                        .has_passes = 1};
    }
    levels[n - 1].cost = 1.0;
    struct rf_cascade *cascade;
    int code = rf_cascade_new(&cascade, levels, n, sequence, &rf_system_allocator, &error);
    CHECK_MSG(code == 0, "%s", error.text);
    if (code) return NULL;
    rf_cascade_set_gamma(cascade, chain->gamma, 0.0f);
    return cascade;
}

/* The first two tokens after the prompt. */
static void two_tokens(struct rf_cascade *cascade, int32_t tokens[2])
{
    struct rf_error error = {.text = ""};
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_sequence *sequence = rf_cascade_sequence(cascade);
    rf_sequence_rewind(sequence, PROMPT);
    while (rf_sequence_n_committed(sequence) < PROMPT + 2) {
        int32_t made = rf_cascade_round(cascade, 4, yield, &error);
        CHECK_MSG(made > 0, "%s", error.text);
        if (made <= 0) return;
        for (int32_t i = 0; i < made; i++) CHECK_INT(rf_sequence_commit(sequence, &error), 0);
    }
    memcpy(tokens, rf_sequence_tokens(sequence) + PROMPT, 2 * sizeof *tokens);
}

/* Runs a chain over all seeds. counts: of what came out; drafts: of what the level under the last
 * one offered first; same: how many seeds gave what the plain sampler draws from the last level. */
static void run(const struct chain *chain, const struct rf_sampling *settings,
                int32_t counts[CELLS], int32_t drafts[CELLS], int32_t *same)
{
    struct rf_error error;
    const struct rf_sequence_shape shape = {.n_ctx = 64};
    struct rf_sequence *sequence;
    CHECK_INT(rf_sequence_new(&sequence, NULL, &shape, &rf_system_allocator, &error), 0);
    CHECK_INT(rf_sequence_append(sequence, prompt, PROMPT, &error), 0);
    struct rf_cascade *cascade = open_cascade(chain, sequence);
    memset(counts, 0, CELLS * sizeof *counts);
    memset(drafts, 0, CELLS * sizeof *drafts);
    *same = 0;
    for (uint64_t seed = 0; cascade && seed < SEEDS; seed++) {
        struct rf_sampling sampling = *settings;
        sampling.seed = seed;
        for (int l = 0; l < LEVELS; l++) {
            CHECK_INT(rf_sampler_set(scripted[l].sampler, &sampling, &error), 0);
            scripted[l].sampling = &sampling;
            scripted[l].n_first_question = 0;
        }
        int32_t tokens[2] = {0};
        two_tokens(cascade, tokens);
        counts[tokens[0] * V + tokens[1]]++;
        const struct scripted *last = &scripted[chain->last];
        if (last->n_first_question == 2)
            drafts[last->first_question[0] * V + last->first_question[1]]++;
        double p[V];
        plain_probabilities(&sampling, logits_of[chain->last][prompt[PROMPT - 1]], V, p);
        int32_t first = plain_choice(seed, PROMPT, p, V);
        plain_probabilities(&sampling, logits_of[chain->last][first], V, p);
        *same += tokens[0] == first && tokens[1] == plain_choice(seed, PROMPT + 1, p, V);
    }
    rf_cascade_free(cascade);
    rf_sequence_free(sequence);
}

static int64_t sum(const int32_t counts[CELLS])
{
    int64_t total = 0;
    for (int i = 0; i < CELLS; i++) total += counts[i];
    return total;
}

static const struct rf_sampling settings[] = {
    {.temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .repeat_penalty = 1.0f},
    {.temperature = 1.4f, .top_k = 6, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1.0f}};

static void check_sound(void)
{
    static const struct chain chains[] = {
        {"target", 2, 2, 0, 0, FAULTLESS},
        {"count > target", 2, 2, COUNTS, 3, FAULTLESS},
        {"branches > target", 2, 2, BRANCHES, 3, FAULTLESS},
        {"branches > target", 2, 2, BRANCHES, 0, FAULTLESS},
        {"small > target", 1, 2, 0, 1, FAULTLESS},
        {"small > target", 1, 2, 0, 3, FAULTLESS},
        {"small > target", 1, 2, 0, 0, FAULTLESS},
        {"tiny > small > target", 0, 2, 0, 3, FAULTLESS},
        {"tiny > small > target", 0, 2, 0, 0, FAULTLESS},
        {"count > tiny > small > target", 0, 2, COUNTS, 3, FAULTLESS},
        {"count > tiny > small > target", 0, 2, COUNTS, 0, FAULTLESS},
        {"count > branches > target", 2, 2, COUNTS | BRANCHES, 3, FAULTLESS},
        {"count > branches > target", 2, 2, COUNTS | BRANCHES, 0, FAULTLESS},
        {"branches > tiny > small > target", 0, 2, BRANCHES, 3, FAULTLESS},
        {"branches > tiny > small > target", 0, 2, BRANCHES, 0, FAULTLESS},
    };
    int32_t counts[CELLS], drafts[CELLS], same;
    double p[CELLS];
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
            const struct chain *chain = &chains[c];
            run(chain, &settings[s], counts, drafts, &same);
            joint(&settings[s], chain->last, p);
            double out = chi_square_excess(counts, p, CELLS);
            printf("%-33s gamma %d: chi-square %.2f of its limit", chain->name, chain->gamma, out);
            CHECK_MSG(out < 1.0, "%s, gamma %d: chi-square is %.2f of its limit", chain->name,
                      chain->gamma, out);
            /* More than the distribution: of every seed, the very text. */
            CHECK_INT(same, SEEDS);
            /* The offers of the level below, two tokens at a time, are a sample of its own
             * distribution. */
            if (chain->first < chain->last && chain->gamma == 3) {
                CHECK_INT(sum(drafts), SEEDS);
                joint(&settings[s], chain->last - 1, p);
                double below = chi_square_excess(drafts, p, CELLS);
                printf(", of the level below %.2f", below);
                CHECK_MSG(below < 1.0,
                          "%s: of the level below the target chi-square is %.2f of its limit",
                          chain->name, below);
            }
            printf("\n");
        }
}

static void check_faults_are_caught(void)
{
    static const struct chain chains[] = {
        {"keeps every draft", 1, 2, 0, 3, KEEPS_EVERYTHING},
        {"forgets the residual", 1, 2, 0, 3, FORGETS_RESIDUAL},
        {"forgets the position", 2, 2, 0, 0, FORGETS_THE_POSITION},
    };
    int32_t counts[CELLS], drafts[CELLS], same;
    double p[CELLS];
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        run(&chains[c], &settings[0], counts, drafts, &same);
        joint(&settings[0], chains[c].last, p);
        double out = chi_square_excess(counts, p, CELLS);
        printf("%-33s chi-square %.2f times its limit\n", chains[c].name, out);
        CHECK_MSG(out > 2.0, "%s, and chi-square is only %.2f of its limit", chains[c].name, out);
    }
}

int main(void)
{
    struct rf_error error = {.text = ""};
    uint64_t state = 3;
    for (int l = LEVELS; l-- > 0;)
        for (int i = 0; i < CELLS; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            double noise = (double)(state >> 11) * 0x1p-53 - 0.5;
            float *logit = &logits_of[l][i / V][i % V];
            *logit = l == LEVELS - 1 ? (float)(4.0 * noise)
                                     : logits_of[l + 1][i / V][i % V] + (float)(1.5 * noise);
        }
    for (int l = 0; l < LEVELS; l++) {
        scripted[l].index = l;
        int code =
            rf_sampler_new(&scripted[l].sampler, V, first_above, &rf_system_allocator, &error);
        CHECK_MSG(code == 0, "%s", error.text);
        if (code) return check_result();
    }
    check_sound();
    check_faults_are_caught();
    for (int l = 1; l < LEVELS; l++) /* trees with runners-up were judged */
        CHECK_MSG(runners_up_at[l] > SEEDS / 40, "level %d judged %lld runners-up", l,
                  (long long)runners_up_at[l]);
    for (int l = 0; l < LEVELS; l++) rf_sampler_free(scripted[l].sampler);
    return check_result();
}
