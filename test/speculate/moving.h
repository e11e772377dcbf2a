/* A machine whose speed moves, and levels that run on it, for the tests of the pace: passes take
 * what the machine gives at the moment, and texts are numbered tokens, so that plain decoding of
 * the same text on the same machine is a sum (moving_plain). Everything follows from seeds. */
#ifndef RF_TEST_SPECULATE_MOVING_H
#define RF_TEST_SPECULATE_MOVING_H

#include <math.h>

#include "infer/sequence.h"
#include "platform/memory.h"
#include "speculate/cascade_state.h"
#include "speculate/tuning.h"
#include "support/check.h"

static inline uint64_t moving_mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A number in [0, 1) that belongs to a, b and c. */
static inline double moving_hash(uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(moving_mix(moving_mix(moving_mix(a) ^ b) ^ c) >> 11) * 0x1p-53;
}

/* ---- the machine ---- */

enum disturbance { STILL, ALIKE, MEMORY, COMPUTE, DRIFT, DISTURBANCES };

/* A pass of one row takes `unit` seconds of memory's time. Further rows take arithmetic besides. */
struct machine {
    double unit;
    double rows[5]; /* passes over 1, 2, 4, 8, 16 rows; more grow as the last ones do */
    enum disturbance disturbance;
    double hold; /* seconds of a disturbance */
    uint64_t seed;
};

static double moving_clock;
static uint64_t moving_passes; /* counts, for the noise of single passes */

static inline double moving_now(void)
{
    return moving_clock;
}

/* 1 while somebody else works: one stretch of `hold` seconds at a random time of each two. */
static inline int machine_is_disturbed(const struct machine *machine, double at)
{
    double cell = floor(at / (2.0 * machine->hold)),
           offset = at - cell * 2.0 * machine->hold -
                    machine->hold * moving_hash(machine->seed, (uint64_t)cell, 1);
    return offset >= 0.0 && offset < machine->hold;
}

/* Factors on the times of memory and arithmetic. */
static inline void machine_factors(const struct machine *machine, double at, double *memory,
                                   double *arithmetic)
{
    *memory = *arithmetic = 1.0;
    if (machine->disturbance == DRIFT)
        *memory = *arithmetic =
            exp(0.35 * sin(6.2832 * (at / 30.0 + moving_hash(machine->seed, 0, 2))));
    if (machine->disturbance == STILL || machine->disturbance == DRIFT ||
        !machine_is_disturbed(machine, at))
        return;
    if (machine->disturbance != COMPUTE) *memory = 2.0;
    if (machine->disturbance != MEMORY) *arithmetic = 2.0;
}

/* Seconds of a pass over `rows` rows that begins now, at a level that costs `cost`. */
static inline double machine_pass(const struct machine *machine, double cost, int32_t rows,
                                  double at)
{
    double memory, arithmetic;
    int k = 0;
    machine_factors(machine, at, &memory, &arithmetic);
    while (k < 3 && rows > 2 << k) k++;
    double part = (double)(rows - (1 << k)) / (1 << k),
           all = machine->rows[k] + part * (machine->rows[k + 1] - machine->rows[k]);
    return machine->unit * cost * (memory + (all - 1.0) * arithmetic);
}

/* Moves the clock by a pass, with some noise; returns its seconds. */
static inline double machine_run(const struct machine *machine, double cost, int32_t rows)
{
    double noise = 0.96 + 0.08 * moving_hash(machine->seed, ++moving_passes, 3),
           seconds = noise * machine_pass(machine, cost, rows, moving_clock);
    moving_clock += seconds;
    return seconds;
}

/* Seconds of plain decoding of n tokens from a moment on. */
static inline double machine_plain(const struct machine *machine, int32_t n, double from)
{
    double at = from;
    for (int32_t i = 0; i < n; i++) at += machine_pass(machine, 1.0, 1, at);
    return at - from;
}

/* ---- the levels ---- */

enum moving_kind { FREE, HEAD, CAST, TARGET };

struct mover {
    enum moving_kind kind;
    double cost;
    double right[2]; /* shares of right tokens, in turns of 64 tokens */
    int informative; /* its confidence is the probability; else it is always the same */
    int32_t n_read;  /* tokens of the text that it has read */
    const struct machine *machine;
    uint64_t seed;
};

enum { MOVING_START = 5, MOVING_TEXT = 512, MOVING_VOCAB = 50 };

static inline int32_t moving_truth(int32_t n)
{
    return (int32_t)(moving_mix((uint64_t)n) % MOVING_VOCAB);
}

/* What the level thinks comes after n tokens; its runner-up where `second`. */
static inline struct rf_choice mover_say(const struct mover *mover, int32_t n, int second)
{
    int32_t truth = moving_truth(n);
    if (mover->kind == TARGET) return (struct rf_choice){truth, 1.0f};
    double mean = mover->right[n / 64 % 2], least = mean < 0.5 ? mean : 1.0 - mean,
           p = mover->informative
                   ? mean + 1.8 * (moving_hash(mover->seed, (uint64_t)n, 4) - 0.5) * least
                   : mean,
           said = mover->informative    ? p
                  : mover->kind == FREE ? 0.5
                                        : 0.7;
    int is_right = moving_hash(mover->seed, (uint64_t)n, 5) < p,
        is_second = !is_right && moving_hash(mover->seed, (uint64_t)n, 6) < 0.3;
    if (second) return (struct rf_choice){(truth + 2 * !is_second) % MOVING_VOCAB, 0.3f};
    return (struct rf_choice){(truth + !is_right) % MOVING_VOCAB, (float)said};
}

static inline int32_t mover_unread(void *self, const int32_t *text, int32_t n)
{
    const struct mover *mover = self;
    (void)text;
    return mover->kind == HEAD || mover->n_read >= n ? 1 : n - mover->n_read;
}

static inline void mover_rewind(void *self, int32_t n)
{
    struct mover *mover = self;
    if (mover->n_read > n) mover->n_read = n;
}

static inline int mover_choose(void *self, struct rf_question *question, struct rf_choice *choices,
                               struct rf_error *error)
{
    struct mover *mover = self;
    const struct rf_draft *draft = question->draft;
    int32_t unread = mover_unread(mover, question->text, question->n), depth[RF_DRAFT_ROWS];
    (void)error;
    choices[0] = mover_say(mover, question->n, 0);
    for (int32_t i = 0; i < draft->n; i++) {
        depth[i] = draft->parents[i] < 0 ? 1 : depth[draft->parents[i]] + 1;
        choices[i + 1] = mover_say(mover, question->n + depth[i], 0);
    }
    int reads_before = unread > 1 && unread + draft->n > RF_PACE_FEW;
    if (reads_before)
        for (int32_t left = unread; left > 0; left -= RF_PACE_FEW)
            machine_run(mover->machine, mover->cost, RF_PACE_FEW);
    question->rows = (reads_before ? 1 : unread) + draft->n;
    question->seconds = machine_run(mover->machine, mover->cost, question->rows);
    mover->n_read = question->n;
    return 0;
}

static inline int mover_keep(void *self, const int32_t *text, int32_t n, const int32_t *path,
                             int32_t k, struct rf_error *error)
{
    struct mover *mover = self;
    (void)text, (void)path, (void)k, (void)error;
    mover->n_read = n;
    return 0;
}

/* A head drafts token by token. A table has a line with runners-up, in two stretches of three. */
static inline int mover_draft(void *self, const int32_t *text, int32_t n, int32_t max,
                              struct rf_draft *draft, struct rf_error *error)
{
    struct mover *mover = self;
    (void)text, (void)error;
    draft->n = 0;
    if (mover->kind == FREE && moving_hash(mover->seed, (uint64_t)n / 8, 7) < 0.33) return 0;
    if (mover->kind == HEAD) machine_run(mover->machine, mover->cost, 1);
    for (int32_t i = 0, at = -1; i < (mover->kind == HEAD ? 1 : max); i++) {
        struct rf_choice first = mover_say(mover, n + i, 0), second = mover_say(mover, n + i, 1);
        int32_t next = rf_draft_add(draft, at, &first, (struct rf_proposal){0});
        second.confidence *= 1.0f - first.confidence;
        if (mover->kind == FREE && second.token != first.token)
            rf_draft_add(draft, at, &second, (struct rf_proposal){0});
        at = next;
    }
    return 0;
}

static const struct rf_level_ops mover_ops[] = {
    [FREE] = {.draft = mover_draft},
    [HEAD] = {.draft = mover_draft, .unread = mover_unread},
    [CAST] = {.choose = mover_choose,
              .keep = mover_keep,
              .unread = mover_unread,
              .rewind = mover_rewind},
    [TARGET] = {.choose = mover_choose,
                .keep = mover_keep,
                .unread = mover_unread,
                .rewind = mover_rewind},
};

/* ---- prompts ---- */

/* A chain, with what it has learnt so far. */
struct moving_chain {
    struct machine machine;
    struct mover movers[RF_MAX_LEVELS];
    struct rf_level levels[RF_MAX_LEVELS];
    int32_t n;
    int is_quantised;
    struct rf_pace pace;
    int knows_costs; /* 1: the pace is told the costs of the moment before each round */
};

static inline struct mover *moving_add(struct moving_chain *chain, enum moving_kind kind,
                                       double cost)
{
    struct mover *mover = &chain->movers[chain->n];
    *mover = (struct mover){.kind = kind, .cost = cost, .seed = (uint64_t)chain->n + 1};
    chain->levels[chain->n++] =
        (struct rf_level){.ops = &mover_ops[kind],
                          .cost = cost,
                          .is_quantised = kind != FREE && chain->is_quantised,
                          .acceptance = kind == FREE ? 0.5 : 0.7,
                          .is_trained = kind == HEAD,
                          .has_passes = kind != FREE};
    return mover;
}

static inline void moving_start(struct moving_chain *chain)
{
    rf_pace_init(&chain->pace, chain->levels, chain->n);
}

/* Tells the pace what passes take now. */
static inline void moving_tell_costs(const struct moving_chain *chain, struct rf_pace *pace)
{
    for (int32_t l = 0; l < chain->n; l++) {
        struct rf_pace_cost *cost = &pace->costs[l];
        for (int32_t r = 0; r < RF_PACE_ROWS && pace->has_passes[l]; r++) {
            cost->seconds[r] =
                machine_pass(&chain->machine, chain->movers[l].cost, r + 1, moving_clock);
            cost->seen[r] = 1000;
        }
        cost->measured = 1000;
        cost->since_single = cost->since_trial = 0.0;
    }
    pace->has_unit = 1;
}

/* The next prompt, of `tokens` tokens from a moment on. Returns its seconds. */
static inline double moving_prompt(struct moving_chain *chain, int32_t tokens, double from,
                                   uint64_t seed)
{
    static const int32_t text[MOVING_START];
    const struct rf_sequence_shape shape = {.n_ctx = MOVING_TEXT};
    struct rf_sequence *sequence;
    struct rf_cascade *cascade;
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    struct rf_error error;
    for (int32_t l = 0; l < chain->n; l++) {
        chain->movers[l].machine = &chain->machine;
        chain->movers[l].n_read = MOVING_START - 1;
        chain->movers[l].seed = seed * 16 + (uint64_t)l;
        chain->levels[l].self = &chain->movers[l];
    }
    CHECK_INT(rf_sequence_new(&sequence, NULL, &shape, &rf_system_allocator, &error), 0);
    CHECK_INT(rf_sequence_append(sequence, text, MOVING_START, &error), 0);
    CHECK_INT(
        rf_cascade_new(&cascade, chain->levels, chain->n, sequence, &rf_system_allocator, &error),
        0);
    rf_cascade_set_clock(cascade, moving_now);
    cascade->pace = chain->pace;
    moving_clock = from;
    moving_passes = 0;
    rf_cascade_learn_reading(cascade, 128,
                             8.0 * machine_pass(&chain->machine, 1.0, 16, moving_clock));
    rf_cascade_begin_answer(cascade, tokens);
    for (int32_t n = 0; n < tokens;) {
        if (chain->knows_costs) moving_tell_costs(chain, &cascade->pace);
        int32_t made = rf_cascade_round(cascade, tokens - n, yield, &error);
        CHECK(made > 0);
        if (made <= 0) break;
        for (int32_t i = 0; i < made; i++, n++) {
            CHECK_INT(yield[i].token, moving_truth(MOVING_START + n));
            CHECK_INT(rf_sequence_commit(sequence, &error), 0);
        }
    }
    chain->pace = cascade->pace;
    rf_cascade_free(cascade);
    rf_sequence_free(sequence);
    return moving_clock - from;
}

#endif
