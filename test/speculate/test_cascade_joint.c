/* Several texts that a head drafts for together, on machines that cost what passes over so many
 * rows are modelled to: together they never get fewer tokens than without drafts, but for what
 * looking costs, and a head that is good gains. With a number as its argument the test prints the
 * figures of so many servings for each case. */
#include <stdlib.h>

#include "speculate/balance.h"
#include "speculate/joint.h"
#include "speculate/moving.h"

enum { MOST_TEXTS = 16, CONTEXT = 2048, TABLES = 3, HEADS = 5, SIZES = 4 };

static const struct table {
    const char *name;
    int is_quantised;
    double rows[5];
} tables[TABLES] = {{"Q4_K, Zen 4", 1, {1.0, 1.1, 1.3, 1.8, 3.0}},
                    {"Q4_K, AVX2", 1, {1.0, 1.3, 1.8, 3.0, 5.5}},
                    {"BF16", 0, {1.0, 1.02, 1.03, 1.08, 1.7}}};
static const struct head {
    const char *name;
    double cost, right[2];
    int informative;
} heads[HEADS] = {{"good", 0.05, {0.85, 0.85}, 1},
                  {"fair, sure of itself", 0.05, {0.5, 0.5}, 0},
                  {"changing", 0.08, {0.8, 0.1}, 0},
                  {"bad", 0.05, {0.1, 0.1}, 0},
                  {"dear", 0.4, {0.7, 0.5}, 1}};
static const int32_t sizes[SIZES] = {2, 4, 8, 16};

/* ---- a head for several texts ---- */

static uint64_t joint_passes, joint_rows; /* so far */

/* A pass over a row of each text. */
static void joint_next(struct rf_next *const *asked, int32_t n)
{
    const struct mover *first = asked[0]->self;
    joint_passes++;
    joint_rows += (uint64_t)n;
    machine_run(first->machine, first->cost, n);
    for (int32_t i = 0; i < n; i++) {
        const struct mover *mover = asked[i]->self;
        for (int k = 0; k < RF_RUNNERS_UP; k++) asked[i]->runners_up[k].token = -1;
        asked[i]->choice = mover_say(mover, asked[i]->n, 0);
        asked[i]->runners_up[0] = mover_say(mover, asked[i]->n, 1);
        asked[i]->runners_up[0].confidence *= 1.0f - asked[i]->choice.confidence;
        asked[i]->code = 0;
    }
}

static const struct rf_level_ops joint_head = {.next = joint_next, .unread = mover_unread};

/* ---- serving ---- */

struct text {
    struct mover movers[2];
    struct rf_sequence *sequence;
    struct rf_cascade *cascade;
    struct rf_batch_part part;
    int32_t made, left; /* tokens, and those left of its answer */
};

struct serving {
    struct machine machine;
    struct text texts[MOST_TEXTS];
    int32_t n;
};

static void open_text(struct serving *serving, const struct head *head, int is_quantised, int32_t i,
                      uint64_t seed)
{
    static const int32_t beginning[MOVING_START];
    const struct rf_sequence_shape shape = {.n_ctx = CONTEXT};
    struct text *text = &serving->texts[i];
    struct rf_error error;
    struct rf_level levels[2] = {{.ops = &joint_head,
                                  .self = &text->movers[0],
                                  .cost = head->cost,
                                  .is_quantised = is_quantised,
                                  .acceptance = 0.7,
                                  .has_passes = 1},
                                 {.ops = &mover_ops[TARGET],
                                  .self = &text->movers[1],
                                  .cost = 1.0,
                                  .is_quantised = is_quantised,
                                  .has_passes = 1}};
    for (int l = 0; l < 2; l++)
        text->movers[l] =
            (struct mover){.kind = l ? TARGET : HEAD,
                           .cost = levels[l].cost,
                           .informative = head->informative,
                           .n_read = MOVING_START - 1,
                           .machine = &serving->machine,
                           .seed = (seed * MOST_TEXTS + (uint64_t)i) * 2 + (uint64_t)l};
    memcpy(text->movers[0].right, head->right, sizeof head->right);
    text->made = text->left = 0;
    CHECK_INT(rf_sequence_new(&text->sequence, NULL, &shape, &rf_system_allocator, &error), 0);
    CHECK_INT(rf_sequence_append(text->sequence, beginning, MOVING_START, &error), 0);
    CHECK_INT(
        rf_cascade_new(&text->cascade, levels, 2, text->sequence, &rf_system_allocator, &error), 0);
    rf_cascade_set_clock(text->cascade, moving_now);
    rf_cascade_learn_reading(text->cascade, 128,
                             8.0 * machine_pass(&serving->machine, 1.0, 16, moving_clock));
}

/* The target's tokens after the text and after each row of the draft. */
static void answer(struct text *text)
{
    struct rf_round *round = &text->part.round;
    int32_t depth[RF_DRAFT_ROWS];
    round->choices[0] = mover_say(&text->movers[1], round->question.n, 0);
    for (int32_t r = 0; r < round->offer.draft.n; r++) {
        int32_t parent = round->offer.draft.parents[r];
        depth[r] = parent < 0 ? 1 : depth[parent] + 1;
        round->choices[r + 1] = mover_say(&text->movers[1], round->question.n + depth[r], 0);
        if (r >= text->part.room) round->choices[r + 1].token = -1;
    }
}

/* One pass of the target for all texts. Returns how many tokens it yields. */
static int32_t serve_pass(struct serving *serving, int32_t room, int *is_bare)
{
    struct rf_batch_part *parts[MOST_TEXTS];
    int32_t rows = 0, made = 0;
    for (int32_t i = 0; i < serving->n; i++) {
        struct text *text = &serving->texts[i];
        if (text->left <= 0) rf_cascade_begin_answer(text->cascade, text->left = 300);
        parts[i] = &text->part;
        text->part.cascade = text->cascade;
        text->part.max = RF_MAX_DRAFT + 1;
        text->part.own = 1;
    }
    rf_joint_begin(parts, serving->n, room, 0);
    for (int32_t i = 0; i < serving->n; i++) {
        CHECK_INT(parts[i]->n, 0);
        CHECK(parts[i]->rows >= 1 && parts[i]->rows <= 1 + parts[i]->room);
        rows += parts[i]->rows;
    }
    CHECK(rows <= serving->n + room);
    *is_bare = rows == serving->n;
    for (int32_t i = 0; i < serving->n; i++) *is_bare &= !parts[i]->round.drafting.made;
    double seconds = machine_run(&serving->machine, 1.0, rows);
    for (int32_t i = 0; i < serving->n; i++) {
        struct text *text = &serving->texts[i];
        struct rf_question *question = &text->part.round.question;
        struct rf_error error;
        answer(text);
        question->rows = rows;
        question->others = rf_joint_beside(parts, serving->n, parts[i]);
        question->seconds = seconds;
        int32_t n = rf_cascade_end(text->cascade, &text->part.round, text->part.yield, &error);
        CHECK(n > 0);
        for (int32_t k = 0; k < n; k++, text->made++) {
            CHECK_INT(text->part.yield[k].token, moving_truth(MOVING_START + text->made));
            CHECK_INT(rf_sequence_commit(text->sequence, &error), 0);
        }
        rf_cascade_set_company(text->cascade, &(struct rf_pace_company){0});
        text->left -= n;
        made += n;
    }
    return made;
}

struct outcome {
    double plain, taken; /* seconds */
};

/* Serves n texts until they have so many tokens each, on average. */
static struct outcome serve(const struct table *table, const struct head *head, int32_t n,
                            enum disturbance disturbance, uint64_t seed)
{
    enum { EACH = 500 };
    struct serving serving = {.n = n};
    double from = 1000.0 + 40.0 * moving_hash(seed, 8, 8);
    struct outcome outcome = {0.0, 0.0};
    int32_t made = 0;
    struct rf_balance balance = {.won = 0.0};
    serving.machine =
        (struct machine){.unit = 0.05, .disturbance = disturbance, .hold = 5.0, .seed = seed};
    memcpy(serving.machine.rows, table->rows, sizeof table->rows);
    moving_clock = from;
    moving_passes = 0;
    for (int32_t i = 0; i < n; i++) open_text(&serving, head, table->is_quantised, i, seed);
    while (made < n * EACH) {
        double start = moving_clock;
        int is_bare = !rf_balance_allows(&balance, n);
        int32_t yielded = serve_pass(&serving, is_bare ? 0 : RF_TREE_ROWS - n, &is_bare);
        rf_balance_pass(&balance, n, is_bare, yielded, moving_clock - start);
        made += yielded;
    }
    outcome.taken = moving_clock - from;
    for (int32_t k = 0; k < made; k += n)
        outcome.plain += machine_pass(&serving.machine, 1.0, n, from + outcome.plain);
    for (int32_t i = 0; i < n; i++) {
        rf_cascade_free(serving.texts[i].cascade);
        rf_sequence_free(serving.texts[i].sequence);
    }
    return outcome;
}

/* The mean of so many servings, and the worst one, as rates with plain decoding's as 1. */
static void check_case(int table, int head, int32_t n, uint64_t seed, uint64_t runs, int prints)
{
    double gain = 0.0, worst = HUGE_VAL;
    joint_passes = joint_rows = 0;
    for (uint64_t r = 0; r < runs; r++) {
        struct outcome outcome = serve(&tables[table], &heads[head], n, STILL, seed + r);
        double rate = outcome.plain / outcome.taken;
        gain += log(rate) / (double)runs;
        if (rate < worst) worst = rate;
    }
    if (prints)
        printf("%-12s %-20s %2d %6.3f %6.3f\n", tables[table].name, heads[head].name, n, exp(gain),
               worst);
    CHECK_MSG(worst > 0.98, "%s, a head that is %s, %d texts: %.3f of plain decoding",
              tables[table].name, heads[head].name, n, worst);
    if (head == 0 && n <= 4) CHECK(exp(gain) > 1.0 && 2 * joint_rows > joint_passes * (uint64_t)n);
}

/* However costs move, drafts do not lose for long. */
static void losses_end(uint64_t seed)
{
    for (int d = ALIKE; d < DISTURBANCES; d++) {
        struct outcome outcome = serve(&tables[1], &heads[2], 8, (enum disturbance)d, seed);
        CHECK_MSG(outcome.plain > 0.93 * outcome.taken, "disturbance %d: %.3f of plain decoding", d,
                  outcome.plain / outcome.taken);
    }
}

int main(int argc, char **argv)
{
    uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
             seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (int t = 0; t < TABLES; t++)
        for (int h = 0; h < HEADS; h++)
            for (int s = 0; s < SIZES; s++)
                if (!IS_SANITIZED || (t + h + s) % 3 == 0) /* each of every kind */
                    check_case(t, h, sizes[s], seed, runs, argc > 1);
    losses_end(seed);
    return check_result();
}
