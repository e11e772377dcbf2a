/* The offer of a round: how drafts are merged to a tree, and which rows the pace finds worth a row
 * of the judge's pass. */
#include "speculate/scripts.h"

#include <math.h>
#include <stdlib.h>

static int by_probability(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a < b) - (a > b);
}

/* The value of the best choice of rows: the likeliest ones. */
static double best_offer(const struct rf_pace *pace, const struct rf_draft *tree, double lambda,
                         int32_t *n, double *yield)
{
    double p[RF_DRAFT_ROWS], best = 1.0 - lambda * rf_pace_cost(pace, 1, 1), sum = 1.0;
    for (int32_t row = 0; row < tree->n; row++) {
        p[row] = 1.0;
        for (int32_t i = row; i >= 0; i = tree->parents[i])
            p[row] *= rf_pace_acceptance(pace, 1, &tree->by[i], (double)tree->confidence[i]);
    }
    qsort(p, (size_t)tree->n, sizeof *p, by_probability);
    *n = 0;
    *yield = 1.0;
    for (int32_t rows = 1; rows <= tree->n; rows++) {
        sum += p[rows - 1];
        double worth = sum - lambda * rf_pace_cost(pace, 1, rows + 1);
        if (worth > best) best = worth, *n = rows, *yield = sum;
    }
    return best;
}

static double yield_of(const struct rf_pace *pace, const struct rf_draft *tree)
{
    double p[RF_DRAFT_ROWS], yield = 1.0;
    for (int32_t i = 0; i < tree->n; i++) {
        CHECK(tree->parents[i] < i);
        p[i] = rf_pace_acceptance(pace, 1, &tree->by[i], (double)tree->confidence[i]);
        if (tree->parents[i] >= 0) p[i] *= p[tree->parents[i]];
        yield += p[i];
    }
    return yield;
}

static float confidence_of(const struct rf_draft *draft, int32_t parent, int32_t token)
{
    for (int32_t i = 0; i < draft->n; i++)
        if (draft->parents[i] == parent && draft->tokens[i] == token) return draft->confidence[i];
    return -1.0f;
}

/* The first drafter's rows stay; the second one's tokens share the probability that is left, and
 * continue the first one's branches. */
static void test_merge(void)
{
    struct rf_draft draft = {
        .n = 3, .tokens = {5, 6, 7}, .parents = {-1, 0, -1}, .confidence = {0.5f, 0.9f, 0.25f}};
    struct rf_draft more = {.n = 4,
                            .tokens = {5, 8, 9, 6},
                            .parents = {-1, -1, 0, 0},
                            .confidence = {0.8f, 0.8f, 0.6f, 0.2f},
                            .by = {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}}};
    rf_draft_merge(&draft, -1, &more);
    CHECK_INT(draft.n, 5);
    CHECK(confidence_of(&draft, -1, 5) == 0.5f && confidence_of(&draft, 0, 6) == 0.9f);
    CHECK(fabsf(confidence_of(&draft, -1, 8) - 0.8f * 0.25f) < 1e-6f);
    CHECK(fabsf(confidence_of(&draft, 0, 9) - 0.6f * 0.1f) < 1e-6f);
    CHECK(draft.by[0].origin == 0 && draft.by[3].origin == 1 && draft.by[4].origin == 1);
    for (int32_t i = 0; i < RF_DRAFT_ROWS; i++) {
        more.tokens[i] = 100 + i;
        more.parents[i] = i - 1;
    }
    more.n = RF_DRAFT_ROWS;
    rf_draft_merge(&draft, -1, &more); /* there is not space for all */
    CHECK_INT(draft.n, RF_DRAFT_ROWS);
    CHECK(confidence_of(&draft, -1, 100) >= 0.0f);
    int keep[RF_DRAFT_ROWS] = {1, 0, 1, 1, 1};
    rf_draft_filter(&draft, keep);
    CHECK_INT(draft.n, 4); /* 5, 7, 8 and, after the first, 9 */
    CHECK(confidence_of(&draft, 0, 9) > 0 && confidence_of(&draft, 0, 6) < 0);
}

/* Probes are for rows that cost next to nothing, for one text alone, and for texts whose drafts are
 * kept. */
static void test_probes(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    chain_add(&chain, TREES, 0.9, 0.0, 0.0, 1);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    for (int32_t r = 0; r < RF_PACE_ROWS; r++)
        pace.costs[1].seconds[r] = r < 8 ? 1.0 + 0.005 * r : 1.035 + 0.05 * (r - 7);
    CHECK_INT(rf_pace_probes(&pace, 1, 0), RF_PACE_PROBES);
    CHECK_INT(rf_pace_probes(&pace, 1, 5), 2); /* the ninth row is dear */
    CHECK_INT(rf_pace_probes(&pace, 1, 8), 0);
    CHECK_INT(rf_pace_probes(&pace, 1, RF_DRAFT_ROWS), 0);
    for (int i = 0; i < 40; i++) rf_pace_round(&pace, -1, 1, 0, 3, 1, 0.0);
    CHECK_INT(rf_pace_probes(&pace, 1, 0), 0);
    for (int i = 0; i < 40; i++) rf_pace_round(&pace, -1, 1, 0, 3, 2, 0.0);
    CHECK_INT(rf_pace_probes(&pace, 1, 0), RF_PACE_PROBES);
    pace.company.others = (struct rf_other_rows){1, 10};
    CHECK_INT(rf_pace_probes(&pace, 1, 0), 0);
}

/* How much of a draft is worth its rows, with costs and an acceptance that were learnt. */
static void test_offers(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    chain_add(&chain, LINES, 0.9, 0.0, 0.0, 1);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    static const struct rf_proposal by = {.proposer = 0};
    for (uint64_t i = 0; i < 500; i++) {
        double confidence = (double)(mix(i) >> 11) * 0x1p-53;
        rf_pace_judged(&pace, 1, &by, confidence,
                       (double)(mix(i + 500) >> 11) * 0x1p-53 < confidence);
    }
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
        for (int i = 0; i < 20; i++) rf_pace_pass(&pace, 1, rows, 0.1 * (1.0 + 0.05 * rows));
    double value, yield;
    struct rf_draft tree = {.n = 0};
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 0);
    double lambda = (1.0 - value) / rf_pace_cost(&pace, 1, 1);
    CHECK(fabs(lambda - 1.0 / rf_pace_cost(&pace, 1, 1)) < 1e-9);
    int32_t n_lines = 0, n_trees = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        int is_line = (int)(seed & 1);
        uint64_t h = mix(seed);
        tree.n = 1 + (int32_t)(h % (is_line ? RF_MAX_DRAFT : RF_DRAFT_ROWS));
        for (int32_t i = 0; i < tree.n; i++) {
            h = mix(h);
            tree.confidence[i] = (float)(0.3 + 0.7 * (double)(h >> 40) * 0x1p-24);
            tree.parents[i] = is_line ? i - 1 : (int32_t)(h & 255) % (i + 1) - 1;
        }
        int32_t offered = tree.n, n;
        double wanted = best_offer(&pace, &tree, lambda, &n, &yield);
        CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), n);
        CHECK_INT(tree.n, n);
        CHECK(fabs(value - wanted) < 1e-9 && fabs(yield_of(&pace, &tree) - yield) < 1e-9);
        *(is_line ? &n_lines : &n_trees) += n > 0 && n < offered;
    }
    CHECK(n_lines > 50 && n_trees > 50); /* offers that were cut */

    /* A likely token is worth little after an unlikely one, and worth a row beside it. */
    tree = (struct rf_draft){.n = 2, .parents = {-1, 0}, .confidence = {0.02f, 0.97f}};
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 0);
    tree = (struct rf_draft){.n = 2, .parents = {-1, -1}, .confidence = {0.02f, 0.97f}};
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 1);
    CHECK(tree.confidence[0] > 0.9f && tree.parents[0] == -1);

    /* A row costs the time of all who share the pass, so its price grows with them: 0.05 of a token
     * for one text, 0.29 for eight. */
    for (int32_t r = 0; r < RF_PACE_ROWS; r++)
        pace.costs[1].seconds[r] = 0.1 * (1.0 + 0.05 * (r + 1));
    for (int others = 0; others <= 7; others += 7) {
        pace.company.tokens = pace.company.others.rows = others;
        tree = (struct rf_draft){.n = 1, .parents = {-1}, .confidence = {0.15f}};
        CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), others ? 0 : 1);
        tree = (struct rf_draft){.n = 1, .parents = {-1}, .confidence = {0.6f}};
        CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 1);
    }

    /* However cheap rows are, a pass has no more of them. */
    for (int32_t r = 0; r < RF_PACE_ROWS; r++) pace.costs[1].seconds[r] = 0.1;
    pace.company.others.rows = RF_PACE_ROWS - 4;
    tree = (struct rf_draft){.n = 10};
    for (int32_t i = 0; i < tree.n; i++) tree.parents[i] = -1, tree.confidence[i] = 0.9f;
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 3);
}

/* More rows than were measured are tried where a trial costs little of the time since the last, and
 * what was measured stays as it is then. */
static void test_trials(void)
{
    struct chain chain = {0};
    struct rf_pace pace;
    struct rf_draft tree;
    double value;
    chain_add(&chain, TREES, 0.9, 0.0, 0.0, 1);
    chain_add_target(&chain, 1.0);
    rf_pace_init(&pace, chain.levels, 2);
    for (int i = 0; i < 3; i++)
        for (int32_t rows = 1; rows <= 8; rows++)
            rf_pace_pass(&pace, 1, rows, 0.1 * (1 + 0.012 * rows));
    static const struct {
        int32_t tokens, others, offered, kept;
    } steps[] = {{50, 0, 40, 7}, {400, 3, 40, 7}, {0, 0, 40, 15}, {0, 0, 12, 12}};
    for (int s = 0; s < 4; s++) {
        for (int32_t i = 0; i < steps[s].tokens; i++) rf_pace_round(&pace, -1, 1, 0, 0, 1, 0.0);
        pace.company.others.rows = steps[s].others;
        tree = (struct rf_draft){.n = steps[s].offered};
        for (int32_t i = 0; i < tree.n; i++) {
            tree.tokens[i] = i;
            tree.parents[i] = -1;
            tree.confidence[i] = 0.05f;
        }
        int32_t kept = rf_pace_offer(&pace, 1, &tree, &value);
        if (steps[s].others)
            CHECK_MSG(kept <= 7, "beside others %d rows", kept);
        else
            CHECK_INT(kept, steps[s].kept);
    }
    double known[8];
    for (int32_t rows = 1; rows <= 8; rows++) known[rows - 1] = rf_pace_cost(&pace, 1, rows);
    struct rf_pace slower = pace;
    rf_pace_pass(&slower, 1, 16, 0.3);
    rf_pace_pass(&pace, 1, 16, 0.1 * (1 + 0.012 * 16));
    for (int32_t rows = 1; rows <= 8; rows++)
        CHECK(rf_pace_cost(&slower, 1, rows) == known[rows - 1] &&
              rf_pace_cost(&pace, 1, rows) == known[rows - 1]);
    CHECK(rf_pace_cost(&slower, 1, 16) > 0.25);
    CHECK(rf_pace_cost(&pace, 1, 16) < 0.125);
    tree = (struct rf_draft){.n = 15};
    for (int32_t i = 0; i < 15; i++) tree.parents[i] = -1, tree.confidence[i] = 0.05f;
    CHECK_INT(rf_pace_offer(&pace, 1, &tree, &value), 15); /* no trial any more */
}

int main(void)
{
    test_merge();
    test_offers();
    test_probes();
    test_trials();
    return check_result();
}
