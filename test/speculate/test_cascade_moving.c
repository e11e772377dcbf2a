/* Speculation on machines whose speed moves: a prompt takes no longer than plain decoding of the
 * same text from the same moment on, but for what looking costs. With a number as its argument the
 * test prints the figures of so many prompts for each case, as docs/lab has them; a second one is
 * the first seed. */
#include <stdlib.h>

#include "speculate/moving.h"

enum { TABLES = 3, CHAINS = 3, MOST_RUNS = 1000 };
enum start { COLD, WARM, KEPT_SLOW, KEPT_FAST, KEPT_BUSY, STARTS };

static const struct table {
    const char *name;
    int is_quantised;
    double rows[5];
} tables[TABLES] = {{"Q4_K, Zen 4", 1, {1.0, 1.1, 1.3, 1.8, 3.0}},
                    {"Q4_K, AVX2", 1, {1.0, 1.3, 1.8, 3.0, 5.5}},
                    {"BF16", 0, {1.0, 1.02, 1.03, 1.08, 1.7}}};
static const char *const chains[CHAINS] = {"table", "table > head", "table > draft"};
static const char *const disturbances[DISTURBANCES] = {"still", "alike", "memory", "arithmetic",
                                                       "drift"};
static const char *const starts[STARTS] = {"cold", "warm", "kept, slow", "kept, fast",
                                           "kept, busy"};

struct scenario {
    int table, chain;
    enum disturbance disturbance;
    enum start start;
    uint64_t seed;
};

static struct moving_chain make_chain(const struct scenario *scenario)
{
    static const double holds[] = {0.5, 2.0, 5.0, 20.0};
    const struct table *table = &tables[scenario->table];
    struct moving_chain chain = {.is_quantised = table->is_quantised};
    chain.machine = (struct machine){.unit = 0.05,
                                     .disturbance = scenario->disturbance,
                                     .hold = holds[moving_mix(scenario->seed) % 4],
                                     .seed = scenario->seed};
    memcpy(chain.machine.rows, table->rows, sizeof table->rows);
    moving_add(&chain, FREE, 0.0);
    if (scenario->chain == 1) moving_add(&chain, HEAD, 0.05);
    if (scenario->chain == 2) moving_add(&chain, CAST, 0.25);
    moving_add(&chain, TARGET, 1.0);
    moving_start(&chain);
    return chain;
}

/* How good the drafters are at the next text: half of them change within it. */
static void draw_drafters(struct moving_chain *chain, uint64_t seed)
{
    static const double shares[] = {0.05, 0.2, 0.3, 0.5, 0.75, 0.9};
    for (int32_t l = 0; l + 1 < chain->n; l++) {
        uint64_t h = moving_mix(seed * 8 + (uint64_t)l);
        struct mover *mover = &chain->movers[l];
        mover->right[0] = mover->right[1] = shares[h % 6];
        if (h >> 8 & 1) mover->right[1] = shares[(h >> 16) % 6];
        mover->informative = (int)(h >> 9 & 1);
    }
}

/* Takes over of the pace what pace_file.c does. */
static void keep_pace(struct moving_chain *chain)
{
    const struct rf_pace before = chain->pace;
    int32_t target = chain->n - 1;
    moving_start(chain);
    chain->pace.has_unit = 1;
    for (int32_t l = 0; l < chain->n; l++) {
        struct rf_pace_cost *cost = &chain->pace.costs[l];
        for (int r = 0; r < RF_PACE_ROWS; r++) {
            uint32_t seen = before.costs[l].seen[r], most = rf_tuning.file.trusted_passes;
            cost->seconds[r] = before.costs[l].seconds[r];
            cost->seen[r] = seen < most ? seen : most;
        }
        struct rf_pace_count all = before.pairs[l][target].all;
        double most = rf_tuning.file.trusted_tokens,
               share = all.judged > most ? most / all.judged : 1.0;
        if (l < target)
            chain->pace.pairs[l][target].all =
                (struct rf_pace_count){.judged = share * all.judged, .kept = share * all.kept};
    }
}

/* What earlier prompts have taught, on this machine or as it was on another day. */
static void teach(struct moving_chain *chain, const struct scenario *scenario)
{
    const struct machine today = chain->machine;
    if (scenario->start == COLD) return;
    if (scenario->start == KEPT_SLOW) chain->machine.unit *= 2.5;
    if (scenario->start == KEPT_FAST) chain->machine.unit /= 2.5;
    if (scenario->start == KEPT_BUSY) {
        chain->machine.disturbance = scenario->seed & 1 ? MEMORY : COMPUTE;
        chain->machine.hold = 1e6; /* all the time */
    }
    for (uint64_t i = 0; i < 3; i++) {
        draw_drafters(chain, scenario->seed * 7 + i);
        moving_prompt(chain, 200, scenario->start == KEPT_BUSY ? 1e6 : 100.0 * (double)(i + 1),
                      scenario->seed * 5 + i + 100);
    }
    chain->machine = today;
    if (scenario->start > WARM) keep_pace(chain);
}

struct outcome {
    int32_t tokens;
    double plain, taken; /* seconds */
};

static struct outcome run_scenario(const struct scenario *scenario, int knows_costs)
{
    struct moving_chain chain = make_chain(scenario);
    double from = 1000.0 + 40.0 * moving_hash(scenario->seed, 8, 8);
    struct outcome outcome = {
        .tokens = 64 + (int32_t)(moving_mix(scenario->seed * 3 + 1) % 337)}; /* up to 400 */
    chain.knows_costs = knows_costs;
    teach(&chain, scenario);
    draw_drafters(&chain, scenario->seed * 7 + 3);
    outcome.plain = machine_plain(&chain.machine, outcome.tokens, from);
    outcome.taken = moving_prompt(&chain, outcome.tokens, from, scenario->seed);
    return outcome;
}

/* ---- the test ---- */

struct tally {
    double prompts, over, gain; /* sums; over: those that lose more than 2 % */
    double loss;                /* of the prompts that lose, as a share of plain decoding */
    double worst, worst_tokens; /* the latter beyond 2 %, in tokens of plain decoding */
};

static void tally_add(struct tally *tally, const struct outcome *outcome)
{
    double loss = outcome->taken / outcome->plain - 1.0, tokens = (loss - 0.02) * outcome->tokens;
    tally->prompts++;
    tally->gain -= log(1.0 + loss);
    tally->over += loss > 0.02;
    if (loss > 0.0) tally->loss += loss;
    if (loss > tally->worst) tally->worst = loss;
    if (tokens > tally->worst_tokens) tally->worst_tokens = tokens;
}

/* Calls for each table, chain and way to begin, on machines with this disturbance. */
static void run_all(enum disturbance disturbance, int runs, uint64_t seed, int knows_costs,
                    struct tally of_all[TABLES][CHAINS][STARTS])
{
    for (int i = 0; i < TABLES * CHAINS * STARTS * runs; i++) {
        const struct scenario scenario = {.table = i % TABLES,
                                          .chain = i / TABLES % CHAINS,
                                          .start = (enum start)(i / TABLES / CHAINS % STARTS),
                                          .disturbance = disturbance,
                                          .seed = seed + moving_mix((uint64_t)i) % 1000003};
        struct outcome outcome = run_scenario(&scenario, knows_costs);
        tally_add(&of_all[scenario.table][scenario.chain][scenario.start], &outcome);
    }
}

/* Sums over those of a table, a chain, a way to begin; -1: all. */
static struct tally sum_of(struct tally of_all[TABLES][CHAINS][STARTS], int table, int chain,
                           int start)
{
    struct tally sum = {0};
    for (int i = 0; i < TABLES * CHAINS * STARTS; i++) {
        int t = i % TABLES, c = i / TABLES % CHAINS, s = i / TABLES / CHAINS;
        const struct tally *one = &of_all[t][c][s];
        if ((table >= 0 && t != table) || (chain >= 0 && c != chain) || (start >= 0 && s != start))
            continue;
        sum.prompts += one->prompts;
        sum.over += one->over;
        sum.gain += one->gain;
        sum.loss += one->loss;
        if (one->worst > sum.worst) sum.worst = one->worst;
        if (one->worst_tokens > sum.worst_tokens) sum.worst_tokens = one->worst_tokens;
    }
    return sum;
}

/* Few prompts lose more than 2 % of plain decoding's time, and these lose a few tokens' more: what
 * a look costs when the machine changes between the passes that are compared. */
static void test_no_prompt_loses(void)
{
    static struct tally of_all[DISTURBANCES][TABLES][CHAINS][STARTS];
    /* Machines run the same code, so sanitized builds have one in three. */
    for (int d = 0; d < DISTURBANCES; d += IS_SANITIZED ? 3 : 1) {
        run_all((enum disturbance)d, 4, 0, 0, of_all[d]);
        struct tally all = sum_of(of_all[d], -1, -1, -1);
        CHECK_MSG(all.over <= (d == STILL ? 0.02 : 0.03) * all.prompts,
                  "%s: %.0f of %.0f prompts lose more than 2 %%", disturbances[d], all.over,
                  all.prompts);
        CHECK_MSG(all.worst_tokens <= (d == STILL ? 2.0 : 8.0),
                  "%s: 2 %% and %.2f tokens are lost, %.3f", disturbances[d], all.worst_tokens,
                  all.worst);
        CHECK_MSG(all.loss <= 0.003 * all.prompts, "%s: %.4f are lost in the mean", disturbances[d],
                  all.loss / all.prompts);
        CHECK_MSG(exp(all.gain / all.prompts) > 1.2, "%s: the gain is %.3f", disturbances[d],
                  exp(all.gain / all.prompts));
    }
}

/* ---- the figures ---- */

static void print_tally(const char *a, const char *b, const struct tally *tally,
                        const struct tally *knowing)
{
    printf("%-10s %-14s %6.0f %6.3f %7.4f %7.3f %6.2f | %6.3f %7.4f\n", a, b, tally->prompts,
           exp(tally->gain / tally->prompts), tally->over / tally->prompts, tally->worst,
           tally->worst_tokens, exp(knowing->gain / knowing->prompts),
           knowing->over / knowing->prompts);
}

static void print_figures(int runs, uint64_t seed)
{
    static struct tally of_all[2][DISTURBANCES][TABLES][CHAINS][STARTS];
    printf("%-10s %-14s %6s %6s %7s %7s %6s | with true costs\n", "machine", "", "n", "gain",
           "over", "worst", "tokens");
    for (int d = 0; d < DISTURBANCES; d++) {
        for (int k = 0; k < 2; k++) run_all((enum disturbance)d, runs, seed, k, of_all[k][d]);
        for (int i = 0; i < TABLES + CHAINS + STARTS; i++) {
            int t = i < TABLES ? i : -1, c = i >= TABLES && i < TABLES + CHAINS ? i - TABLES : -1,
                s = i >= TABLES + CHAINS ? i - TABLES - CHAINS : -1;
            struct tally one = sum_of(of_all[0][d], t, c, s), knows = sum_of(of_all[1][d], t, c, s);
            print_tally(disturbances[d],
                        t >= 0   ? tables[t].name
                        : c >= 0 ? chains[c]
                                 : starts[s],
                        &one, &knows);
        }
        struct tally all = sum_of(of_all[0][d], -1, -1, -1),
                     knows = sum_of(of_all[1][d], -1, -1, -1);
        print_tally(disturbances[d], "all", &all, &knows);
    }
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 0;
    if (runs > 0)
        print_figures(runs < MOST_RUNS ? runs : MOST_RUNS,
                      argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
    test_no_prompt_loses();
    return check_result();
}
