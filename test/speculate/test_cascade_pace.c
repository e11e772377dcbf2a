#define _GNU_SOURCE
/* The knowledge of the pace: the acceptance of drafts, and the seconds of passes by rows, length of
 * the text, other texts and experts; and the file that keeps both. */
#include "speculate/scripts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "speculate/tuning.h"

/* Tokens of low confidence are kept half as often as was said: all are worth half, and the likelier
 * ones still more. */
static void test_calibration(void)
{
    static const struct rf_proposal by = {.proposer = 0};
    struct chain chain = {0};
    struct rf_pace pace;
    chain_add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    CHECK(fabs(rf_pace_acceptance(&pace, 1, &by, 0.08) - 0.08) < 1e-12);
    for (int i = 0; i < 1000; i++)
        rf_pace_judged(&pace, 1, &by, i & 1 ? 0.08 : 0.02, i & 1 ? i % 50 == 1 : i % 200 == 0);
    double low = rf_pace_acceptance(&pace, 1, &by, 0.02),
           high = rf_pace_acceptance(&pace, 1, &by, 0.08);
    CHECK(high > 0.03 && high < 0.07 && fabs(high - 4.0 * low) < 1e-12);
    for (int i = 0; i < 1000; i++) rf_pace_judged(&pace, 1, &by, 0.4, 1);
    CHECK(rf_pace_acceptance(&pace, 1, &by, 0.4) > 0.9);
    CHECK(rf_pace_acceptance(&pace, 1, &by, 0.49) <= 1.0);
}

/* A first pass that was disturbed spoils no guesses. Where guesses are bad all the same, a row is
 * tried although no draft seems to be worth it. */
static void test_slow_start(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    struct rf_draft draft;
    double value;
    chain_add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    rf_pace_pass(&pace, 1, 1, 2.3);
    for (int i = 0; i < 100; i++) rf_pace_pass(&pace, 1, 1, 0.1);
    for (int32_t rows = 1; rows <= 8; rows++)
        CHECK_MSG(rf_pace_cost(&pace, 1, rows) < 0.14, "%d rows are expected to take %.3f", rows,
                  rf_pace_cost(&pace, 1, rows));
    for (int32_t r = 1; r < RF_PACE_ROWS; r++) pace.costs[1].seconds[r] *= 3.0;
    for (int tried = 0; tried < 2; tried++) {
        draft = (struct rf_draft){.n = 1, .parents = {-1}, .confidence = {0.9f}};
        CHECK_INT(rf_pace_offer(&pace, 1, &draft, &value), tried);
        for (int i = 0; i < 500; i++) rf_pace_round(&pace, -1, 1, 0, 0, 1, 0.0);
    }
}

static void test_costs(void)
{
    struct chain chain = {0};
    chain_add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    chain_add_target(&chain, 0.1);
    chain_start(&chain, N_CTX);
    struct rf_pace *pace = chain_pace(&chain);
    for (int i = 0; i < 60; i++)
        for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++) {
            rf_pace_pass(pace, 1, rows, 0.2 * (1 + 0.02 * rows));
            rf_pace_pass(pace, 0, rows, 0.04 * (1 + 0.1 * rows));
        }
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++) {
        double target = rf_pace_cost(pace, 1, rows) / (0.2 * (1 + 0.02 * rows));
        double cast = rf_pace_cost(pace, 0, rows) / (0.04 * (1 + 0.1 * rows));
        CHECK_MSG(target > 0.97 && target < 1.03, "%d rows of the target: %.3f", rows, target);
        CHECK_MSG(cast > 0.95 && cast < 1.05, "%d rows of the cast: %.3f", rows, cast);
    }

    /* Measurements come back from a file, and a damaged file changes nothing. */
    static const char names[2][RF_PACE_NAME_BYTES] = {"cast", "target"};
    char path[] = "/tmp/riffle-test-pace-XXXXXX";
    struct rf_error error;
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_INT(rf_pace_save(pace, names, path, &error), 0);
    struct rf_pace loaded;
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
        CHECK(fabs(rf_pace_cost(&loaded, 0, rows) / rf_pace_cost(pace, 0, rows) - 1) < 1e-2);
    /* One slow pass to begin with says little of the others. */
    double single = rf_pace_cost(&loaded, 1, 1), eight = rf_pace_cost(&loaded, 1, 8);
    rf_pace_pass(&loaded, 1, 8, 3.0 * eight);
    CHECK(rf_pace_cost(&loaded, 1, 1) < 1.05 * single && rf_pace_cost(&loaded, 1, 8) < 1.3 * eight);
    static const char others[2][RF_PACE_NAME_BYTES] = {"tiny", "target"};
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, others, path);
    CHECK(fabs(rf_pace_cost(&loaded, 0, 1) / rf_pace_cost(&loaded, 1, 1) - 0.25) < 1e-2);
    CHECK_INT(rf_pace_save(pace, others, path, &error), 0);
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    CHECK(fabs(rf_pace_cost(&loaded, 0, 1) / rf_pace_cost(pace, 0, 1) - 1) < 1e-2);
    FILE *damaged = fopen(path, "wb");
    fputs("riffle pace 3\n\"target\" 0.1 3 nonsense\n\"cast\" -1", damaged);
    fclose(damaged);
    struct rf_pace fresh;
    rf_pace_init(&fresh, chain.levels, 2);
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    CHECK(memcmp(&loaded, &fresh, sizeof fresh) == 0);
    remove(path);
    rf_pace_load(&loaded, names, path);
    CHECK(memcmp(&loaded, &fresh, sizeof fresh) == 0);
    CHECK_INT(rf_pace_save(pace, names, "/nonexistent/folder/file", &error), RF_ERR_IO);
    chain_finish(&chain);
}

/* Texts of different lengths, passes of different rows, and a machine that is disturbed: costs are
 * known at each length, whatever the first guess of attention was. */
static void test_costs_by_length(void)
{
    static const int32_t lengths[] = {100, 1000, 8000};
    static const double guesses[] = {3e-6, 1e-5, 3e-5};
    const double more = rf_tuning.cost.attention_row;
    for (int g = 0; g < 3; g++) {
        struct chain chain = {0};
        struct rf_pace pace;
        uint64_t h = 1;
        chain_add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
        chain_add_target(&chain, 1.0);
        chain.levels[1].attention = guesses[g]; /* it is 1e-5 passes */
        rf_pace_init(&pace, chain.levels, 2);
        for (int text = 0; text < 60; text++)
            for (int pass = 0; pass < 40; pass++) {
                h = mix(h);
                pace.length = lengths[text % 3] + pass;
                int32_t rows = 1 + (int32_t)(h % 9);
                double noise = 0.9 + 0.2 * (double)(h >> 11) * 0x1p-53;
                rf_pace_pass(&pace, 1, rows,
                             0.1 * noise *
                                 (1 + 0.02 * rows + 1e-5 * (1 + more * (rows - 1)) * pace.length));
            }
        for (int l = 0; l < 3; l++)
            for (int32_t rows = 1; rows <= 9; rows += 4) {
                pace.length = lengths[l];
                double read = (1 + more * (rows - 1)) * pace.length,
                       wanted = 0.1 * (1 + 0.02 * rows + 1e-5 * read),
                       ratio = rf_pace_cost(&pace, 1, rows) / wanted;
                CHECK_MSG(ratio > 0.9 && ratio < 1.1, "guess %g, %d rows after %d tokens: %.3f",
                          guesses[g], rows, pace.length, ratio);
            }
        chain.levels[1].window = 100; /* most tokens that it reads */
        rf_pace_init(&pace, chain.levels, 2);
        pace.length = 100;
        double near = rf_pace_cost(&pace, 1, 8);
        pace.length = 8000;
        CHECK(rf_pace_cost(&pace, 1, 8) == near);
    }
}

/* Noise of single passes, over many texts, does not move what attention costs. */
static void test_attention_in_noise(void)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct chain chain = {0};
        struct rf_pace pace;
        uint64_t h = seed;
        chain_add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
        chain_add_target(&chain, 1.0);
        chain.levels[1].attention = 2e-4;
        rf_pace_init(&pace, chain.levels, 2);
        double speed = 1.0;
        for (int text = 0; text < 200; text++)
            for (int pass = 0; pass < 150; pass++) {
                h = mix(h);
                double noise = 0.9 + 0.2 * (double)(h >> 11) * 0x1p-53;
                if (h % 50 == 0) speed = speed > 1.0 ? 1.0 : 1.8;
                pace.length = 50 + pass;
                rf_pace_pass(&pace, 1, 1, 0.1 * noise * speed * (1 + 2e-4 * pace.length));
            }
        double ratio = pace.costs[1].attention / pace.costs[1].seconds[0] / 2e-4;
        CHECK_MSG(ratio > 0.4 && ratio < 2.5, "seed %d: attention %.3f", (int)seed, ratio);
    }
}

/* The time of a text's rows bounds the cost of rows that no pass had. */
static void test_costs_by_reading(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    chain_add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    double guess = rf_pace_cost(&pace, 1, 8) / rf_pace_cost(&pace, 1, 1);
    rf_pace_read(&pace, 100, 100 * 0.05);
    CHECK(fabs(rf_pace_cost(&pace, 1, 8) / rf_pace_cost(&pace, 1, 1) - guess) < 1e-9); /* no unit */
    rf_pace_pass(&pace, 1, 1, 0.1);
    CHECK(fabs(rf_pace_cost(&pace, 1, 1) - 0.1) < 1e-9);
    CHECK(rf_pace_cost(&pace, 1, 8) > 8 * 0.035 && rf_pace_cost(&pace, 1, 8) < 8 * 0.05);
    rf_pace_read(&pace, 10, 10 * 0.001); /* too short to say anything */
    CHECK(rf_pace_cost(&pace, 1, 8) > 8 * 0.035);
    rf_pace_read(&pace, 200, 200 * 0.001); /* the one before was disturbed */
    CHECK(fabs(rf_pace_cost(&pace, 1, 8) - 0.1 * guess) < 1e-9);
    rf_pace_read(&pace, 200, 200 * 0.05); /* and so was this one */
    CHECK(fabs(rf_pace_cost(&pace, 1, 8) - 0.1 * guess) < 1e-9);
    rf_pace_init(&pace, chain.levels, 2);
    rf_pace_read(&pace, 100, 100 * 0.05);
    for (int i = 0; i < 40; i++) rf_pace_pass(&pace, 1, 1 + 7 * (i & 1), i & 1 ? 0.15 : 0.1);
    CHECK(rf_pace_cost(&pace, 1, 8) < 0.17); /* the measured cost */
}

/* Rows that choose 8 of 128 experts each are dearer than rows that read the same weights, so fewer
 * tokens are worth a row, and measured passes take the place of that guess. */
static void test_costs_of_experts(void)
{
    struct chain chain = {0};
    struct rf_pace dense, sparse;
    chain_add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&dense, chain.levels, 2);
    chain.levels[1].experts = 0.8;
    chain.levels[1].experts_left = 1 - 8.0 / 128;
    rf_pace_init(&sparse, chain.levels, 2);
    CHECK(rf_pace_cost(&sparse, 1, 1) == rf_pace_cost(&dense, 1, 1));
    double growth = rf_pace_cost(&sparse, 1, 8) / rf_pace_cost(&dense, 1, 8),
           read = (1 - pow(1 - 8.0 / 128, 8)) * 128 / 8;
    CHECK_MSG(fabs(growth - (0.2 + 0.8 * read)) < 1e-9, "eight rows cost %.3f times as much",
              growth);
    CHECK_INT(rf_pace_worth_row(&dense, 1, 2, 0.6), 1);
    CHECK_INT(rf_pace_worth_row(&sparse, 1, 2, 0.6), 0);
    for (int pass = 0; pass < 200; pass++)
        rf_pace_pass(&sparse, 1, 1 + pass % 9, 0.1 * (1 + 0.3 * (pass % 9)));
    for (int32_t rows = 1; rows <= 9; rows += 4) {
        double ratio = rf_pace_cost(&sparse, 1, rows) / (0.1 * (1 + 0.3 * (rows - 1)));
        CHECK_MSG(ratio > 0.9 && ratio < 1.1, "%d rows: %.3f", rows, ratio);
    }
}

/* Passes that several texts share: what each text's length adds is told apart, and the costs of any
 * text beside any others are known. */
static void test_costs_beside_others(void)
{
    static const int32_t lengths[] = {100, 1000, 8000};
    struct chain chain = {0};
    struct rf_pace pace;
    uint64_t h = 1;
    chain_add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    chain_add_target(&chain, 1.0);
    chain.levels[1].attention = 3e-6; /* it is 1e-5 passes */
    rf_pace_init(&pace, chain.levels, 2);
    for (int pass = 0; pass < 2400; pass++) {
        h = mix(h);
        int32_t own = 1 + (int32_t)(h % 3), n = (int32_t)(h >> 8 & 3);
        struct rf_other_rows others = {.rows = n, .context = n * lengths[(h >> 16) % 3]};
        double noise = 0.9 + 0.2 * (double)(h >> 11) * 0x1p-53;
        pace.length = lengths[pass % 3];
        double reads = 1 + rf_tuning.cost.attention_row * (own - 1),
               context = (double)others.context + reads * pace.length;
        rf_pace_shared_pass(&pace, 1, own + n, &others,
                            0.1 * noise * (1 + 0.02 * (own + n) + 1e-5 * context));
    }
    for (int own = 0; own < 3; own++)
        for (int other = 0; other < 3; other++) {
            pace.length = lengths[own];
            pace.company.others = (struct rf_other_rows){.rows = 3, .context = 3 * lengths[other]};
            double wanted = 0.1 * (1 + 0.02 * 4 + 1e-5 * (lengths[own] + 3 * lengths[other])),
                   ratio = rf_pace_cost(&pace, 1, 1) / wanted;
            CHECK_MSG(ratio > 0.9 && ratio < 1.1, "a row after %d tokens, 3 after %d: %.3f",
                      lengths[own], lengths[other], ratio);
            double beside = rf_pace_cost(&pace, 0, 1); /* the passes of drafts are not shared */
            pace.company.others = (struct rf_other_rows){0};
            CHECK(rf_pace_cost(&pace, 0, 1) == beside);
        }
}

/* Beside others, too, drafts give way now and then to a pass with one row of the text, but not for
 * a pass that is not measured. */
static void test_single_beside_others(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    struct rf_draft none = {.n = 0};
    double value;
    chain_add(&chain, JUDGE, 0.9, 0.025, 0.1, 0);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    pace.company.others = (struct rf_other_rows){.rows = 3, .context = 300};
    pace.company.tokens = 3;
    rf_pace_offer(&pace, 1, &none, &value);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 1); /* nothing is known */
    rf_pace_shared_pass(&pace, 1, 4, &pace.company.others, 0.1);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 0);
    for (int round = 0; round < 100; round++) {
        rf_pace_shared_pass(&pace, 1, 6, &pace.company.others, 0.1);
        rf_pace_round(&pace, -1, 1, 0, 2, 3, 0.0);
    }
    rf_pace_offer(&pace, 1, &none, &value);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 1);
    pace.company.has_slices = 1;
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 0);
    pace.company.has_slices = 0;
    rf_pace_shared_pass(&pace, 1, 4, &pace.company.others, 0.1);
    CHECK_INT(rf_pace_look_at_single(&pace, 1, value + 0.1), 0);
}

static void next_of_none(struct rf_next *const *asked, int32_t n)
{
    (void)asked, (void)n;
}

/* A token that is drafted together with others' costs its share of the pass, and is worth drafting
 * in a large company where it is not worth a pass of its own. What others yield and what drafting
 * takes for them is part of the rate that it must beat. */
static void test_shares(void)
{
    static const struct rf_level_ops head = {.next = next_of_none};
    const struct rf_level levels[] = {
        {.ops = &head, .cost = 0.5, .has_passes = 1, .acceptance = 0.7},
        {.cost = 1.0, .has_passes = 1}};
    struct rf_pace pace;
    rf_pace_init(&pace, levels, 2);
    for (int i = 0; i < 20; i++)
        for (int32_t n = 1; n <= 16; n++) {
            rf_pace_pass(&pace, 0, n, 0.05 * (1.0 + 0.01 * n));
            rf_pace_pass(&pace, 1, n, 0.1 * (1.0 + 0.02 * n));
        }
    double alone = rf_pace_drafting_cost(&pace, 0);
    for (int32_t others = 1; others < 16; others++) {
        pace.company.drafting = others;
        double share = rf_pace_cost(&pace, 0, others + 1) / (others + 1);
        CHECK(fabs(rf_pace_drafting_cost(&pace, 0) - share) < 1e-9 && share < alone);
    }
    pace.company.others.rows = 7;
    pace.company.tokens = 7.0;
    pace.company.drafting = 0;
    CHECK_INT(rf_pace_go_on(&pace, 0, 1, 0, 1.0), 0);
    pace.company.drafting = 7;
    CHECK_INT(rf_pace_go_on(&pace, 0, 1, 0, 1.0), 1);
    pace.company.drafting = 1;
    int32_t before = rf_pace_go_on(&pace, 0, 1, 0, 0.5);
    pace.company.tokens = 2.0; /* fewer tokens are delayed, and by more */
    pace.company.seconds = 0.2;
    CHECK(!before && rf_pace_go_on(&pace, 0, 1, 0, 0.5));
}

int main(void)
{
    test_calibration();
    test_slow_start();
    test_costs();
    test_costs_by_length();
    test_attention_in_noise();
    test_costs_by_reading();
    test_costs_of_experts();
    test_costs_beside_others();
    test_single_beside_others();
    test_shares();
    return check_result();
}
