/* The speed that the pace reaches with good and bad drafters, by the clock that the scripts move:
 * near the best fixed draft length, and never far below plain decoding. */
#include "speculate/scripts.h"

#include <math.h>

/* Speed-ups that the pace reaches over plain decoding, 600 tokens. */
static double speed_up(struct chain *chain)
{
    double plain = chain->scripts[chain->n - 1].row_cost * 595;
    chain_start(chain, N_CTX);
    double taken = chain_go(chain, 600);
    chain_finish(chain);
    return plain / taken;
}

static void test_useless_drafts(void)
{
    for (int informative = 0; informative < 2; informative++) {
        for (int chance = 0; chance <= 4; chance++) {
            struct chain one = {0}, two = {0}, three = {0}, four = {0};
            double agrees = chance / 20.0;
            chain_add(&one, JUDGE, agrees, 0.025, 0.05, informative);
            chain_add_target(&one, 0.1);
            double reached = speed_up(&one);
            CHECK_MSG(reached > 0.98, "a cast that is right in %.2f of cases gives %.3f", agrees,
                      reached);
            chain_add(&two, LINES, agrees, 0.0, 0.0, informative);
            chain_add_target(&two, 0.1);
            reached = speed_up(&two);
            CHECK_MSG(reached > 0.98, "a table that is right in %.2f of cases gives %.3f", agrees,
                      reached);
            chain_add(&four, TREES, agrees, 0.0, 0.0, informative);
            chain_add_target(&four, 0.1);
            reached = speed_up(&four);
            CHECK_MSG(reached > 0.98, "trees that are right in %.2f of cases give %.3f", agrees,
                      reached);
            chain_add(&three, LINES, agrees, 0.0, 0.0, informative);
            chain_add(&three, JUDGE, agrees, 0.01, 0.05, informative);
            chain_add(&three, JUDGE, agrees, 0.025, 0.05, informative);
            chain_add_target(&three, 0.1);
            reached = speed_up(&three);
            CHECK_MSG(reached > 0.97, "a chain that is right in %.2f of cases gives %.3f", agrees,
                      reached);
        }
    }
}

/* The best that one drafter allows with a fixed length (Leviathan et al., equation 3.8, with our
 * costs). */
static double best_fixed(double agrees, double draft_cost, double target_cost)
{
    double best = 0.0;
    for (int g = 0; g <= RF_MAX_DRAFT; g++) {
        double tokens = (1 - pow(agrees, g + 1)) / (1 - agrees),
               seconds = g * draft_cost + target_cost * (1 + 0.012 * g);
        if (tokens / seconds > best) best = tokens / seconds;
    }
    return best * target_cost;
}

static void test_good_drafts(void)
{
    for (int i = 0; i < 4; i++) {
        static const double agrees[] = {0.6, 0.8, 0.9, 0.98};
        struct chain plain = {0}, sure = {0}, deep = {0};
        chain_add(&plain, JUDGE, agrees[i], 0.025, 0.05, 0);
        chain_add_target(&plain, 0.1);
        double possible = best_fixed(agrees[i], 0.025, 0.1), reached = speed_up(&plain);
        CHECK_MSG(reached > 0.93 * possible, "acceptance %.2f: %.3f of %.3f", agrees[i], reached,
                  possible);
        chain_add(&sure, JUDGE, agrees[i], 0.025, 0.05, 1);
        chain_add_target(&sure, 0.1);
        double informed = speed_up(&sure);
        CHECK_MSG(informed > 0.96 * possible, "confidence that tells: %.3f of %.3f", informed,
                  possible);
        chain_add(&deep, JUDGE, agrees[i] * 0.9, 0.006, 0.05, 0);
        chain_add(&deep, JUDGE, agrees[i], 0.025, 0.05, 0);
        chain_add_target(&deep, 0.1);
        double with_tiny = speed_up(&deep);
        CHECK_MSG(with_tiny > 1.05 * reached, "a tiny draft below it: %.3f after %.3f", with_tiny,
                  reached);
    }
}

/* The speed-up by a cast whose runner-up is right in `second` of the cases where it errs, 0: it has
 * none. `row`: the target's costs for a further row, as a share. */
static double with_runners_up(double agrees, double second, double row, int informative)
{
    struct chain chain = {0};
    chain_add(&chain, JUDGE, agrees, 0.025, 0.05, informative)->second = second;
    chain_add(&chain, JUDGE, 1.0, 0.1, row, 1);
    return speed_up(&chain);
}

/* Branches at the tokens that a draft is not sure of gain where rows are cheap, and lose nothing
 * where they are dear or useless. */
static void test_runners_up(void)
{
    static const double agrees[] = {0.5, 0.7, 0.9}, seconds[] = {0.02, 0.8};
    for (int a = 0; a < 3; a++) {
        for (int informative = 0; informative < 2; informative++) {
            double cheap = with_runners_up(agrees[a], 0.0, 0.01, informative),
                   gain = with_runners_up(agrees[a], 0.8, 0.01, informative) / cheap;
            CHECK_MSG(gain > (agrees[a] < 0.8 ? 1.05 : 0.98),
                      "right in %.2f, informative %d: %.3f by runners-up", agrees[a], informative,
                      gain);
            for (int s = 0; s < 2; s++) {
                double dear = with_runners_up(agrees[a], 0.0, 0.3, informative),
                       kept = with_runners_up(agrees[a], seconds[s], 0.3, informative) / dear,
                       spent = with_runners_up(agrees[a], 0.02, 0.01, informative) / cheap;
                CHECK_MSG(kept > 0.94, "dear rows, right in %.2f, runners-up in %.2f: %.3f",
                          agrees[a], seconds[s], kept);
                CHECK_MSG(spent > 0.97, "useless runners-up, right in %.2f: %.3f", agrees[a],
                          spent);
            }
        }
    }
}

/* A draft by the same weights in another precision (QSpec) is nearly always right, and costs nearly
 * what the target does: nothing is lost where it is no faster. */
static void test_dear_drafts(void)
{
    static const double costs[] = {0.5, 0.7, 0.8, 0.9, 1.0, 1.06}, rows[] = {0.01, 0.05, 0.25};
    for (int c = 0; c < 6; c++) {
        for (int r = 0; r < 3; r++) {
            for (int with_table = 0; with_table < 2; with_table++) {
                struct chain chain = {0};
                if (with_table) chain_add(&chain, LINES, 0.1, 0.0, 0.0, 0);
                chain_add(&chain, JUDGE, 0.97, 0.1 * costs[c], rows[r], 0)->shares = 1;
                chain.levels[with_table].cost = 0.08; /* the guess of "a8" */
                chain_add(&chain, JUDGE, 1.0, 0.1, rows[r], 1);
                double reached = speed_up(&chain);
                CHECK_MSG(reached > 0.98, "%.2f of the target's cost, rows %.2f, table %d: %.3f",
                          costs[c], rows[r], with_table, reached);
                if (costs[c] < 0.6 && rows[r] < 0.1)
                    CHECK_MSG(reached > 1.35, "half the target's cost, rows %.2f, table %d: %.3f",
                              rows[r], with_table, reached);
            }
        }
    }
}

/* A pass that a neighbour on the machine made slow must not put the pace off a drafter that is
 * good. */
static void test_disturbed(void)
{
    struct chain chain = {0};
    chain_add(&chain, JUDGE, 0.95, 0.025, 0.05, 0);
    chain_add_target(&chain, 0.1);
    chain_start(&chain, N_CTX);
    struct rf_pace *pace = chain_pace(&chain);
    rf_pace_pass(pace, 1, 1, 0.1);
    rf_pace_pass(pace, 0, 1, 0.3);
    double seconds = chain_go(&chain, 300);
    CHECK_MSG(29.5 / seconds > 1.8, "a slow first pass leaves %.3f", 29.5 / seconds);
    chain_finish(&chain);
}

/* The speed-up of a text of 160 tokens by a cast, and by a table beside it, on a machine that is
 * disturbed. Rows are as dear as after 8,000 tokens on AVX2
 * (docs/lab/2026-11-25-drafts-of-long-texts.md). */
static double of_long_text(double table, int informative)
{
    struct chain chain = {0};
    if (table > 0) chain_add(&chain, TREES, table, 0.0, 0.0, informative);
    chain_add(&chain, JUDGE, 0.87, 0.017, 0.2, 1);
    chain_add(&chain, JUDGE, 1.0, 0.042, 0.18, 1);
    chain_start(&chain, N_CTX);
    quiet_seconds = 0.0;
    is_disturbed = 1;
    chain_go(&chain, 165);
    is_disturbed = 0;
    chain_finish(&chain);
    return 160 * 0.042 / quiet_seconds;
}

/* A disturbed machine makes nothing slower, and a table takes no rounds from a model that drafts
 * better. */
static void test_table_beside_model(void)
{
    enum { RUNS = 30 };
    static const double tables[] = {0.1, 0.3, 0.5, 0.7};
    for (int t = 0; t < 8; t++) {
        double alone = 0.0, both = 0.0, least = HUGE_VAL;
        for (int i = 0; i < RUNS; i++) {
            double reached = of_long_text(tables[t / 2], t % 2);
            alone += of_long_text(0.0, 0) / RUNS;
            both += reached / RUNS;
            if (reached < least) least = reached;
        }
        CHECK_MSG(least > 1.0, "a table right in %.2f: %.3f at least", tables[t / 2], least);
        CHECK_MSG(both > 0.97 * alone, "a table right in %.2f: %.3f, without it %.3f",
                  tables[t / 2], both, alone);
        CHECK_MSG(alone > 1.25, "a cast alone: %.3f", alone);
    }
}

int main(void)
{
    test_useless_drafts();
    test_good_drafts();
    test_runners_up();
    test_dear_drafts();
    test_disturbed();
    test_table_beside_model();
    return check_result();
}
