/* Medians, means and sums over the rows of a suite. The rows of all chains alternate: chain i has
 * the rows i, i + n_chains, ... */
#include "bench/summary.h"

#include <math.h>
#include <stdlib.h>

#include "base/median.h"
#include "output/buffer.h"

/* The median of the double at `offset` in rows `first`, `first` + `step`, ... */
static double median_over_rows(const struct bench_suite *suite, size_t first, size_t step,
                               size_t offset)
{
    double *values = cli_allocate(suite->n_rows, sizeof *values);
    size_t n = 0;
    for (size_t i = first; i < suite->n_rows; i += step)
        values[n++] = *(const double *)((const char *)&suite->rows[i] + offset);
    double median = rf_median(values, n);
    free(values);
    return median;
}

/* Medians of a field over the rows of one chain, and over all rows. */
#define CHAIN_MEDIAN(suite, chain, field) \
    median_over_rows(suite, chain, (suite)->n_chains, offsetof(struct bench_row, field))
#define MEDIAN(suite, field) median_over_rows(suite, 0, 1, offsetof(struct bench_row, field))

static void summarise_chain(const struct bench_suite *suite, size_t index)
{
    struct bench_chain *chain = &suite->chains[index];
    double logarithms = 0;
    chain->least = INFINITY;
    chain->least_prompt = "";
    for (size_t i = index; i < suite->n_rows; i += suite->n_chains) {
        const struct bench_row *row = &suite->rows[i];
        logarithms += log(row->speedup);
        chain->n_different += row->differs_at >= 0;
        if (row->speedup >= chain->least) continue;
        chain->least = row->speedup;
        chain->least_prompt = row->prompt;
    }
    chain->mean = exp(logarithms / (double)suite->prompts.count);
    chain->tps = CHAIN_MEDIAN(suite, index, tps);
    chain->first_token_seconds = CHAIN_MEDIAN(suite, index, first_token_seconds);
}

/* Adds up the tokens that a level of a chain proposed in the whole suite, and the kept ones.
 */
static void add_up_level(const struct bench_suite *suite, size_t chain, int32_t level)
{
    riffle_level_stats *sum = &suite->chains[chain].stats.levels[level];
    sum->drafted = sum->accepted = sum->passes = 0;
    sum->seconds = 0;
    for (size_t i = chain; i < suite->n_rows; i += suite->n_chains) {
        const riffle_level_stats *one = &suite->rows[i].stats.levels[level];
        sum->drafted += one->drafted;
        sum->accepted += one->accepted;
        sum->passes += one->passes;
        sum->seconds += one->seconds;
    }
}

void bench_summarise(struct bench_suite *suite)
{
    double *figures = suite->figures;
    figures[DECODE_TPS] = CHAIN_MEDIAN(suite, 0, plain_tps);
    figures[PREFILL_TPS] = CHAIN_MEDIAN(suite, 0, plain_prefill_tps);
    figures[PERCENT_OF_READ] = MEDIAN(suite, percent_of_read);
    figures[FIRST_TOKEN] = CHAIN_MEDIAN(suite, 0, plain_first_token_seconds);
    for (size_t i = 0; i < suite->n_chains; i++) {
        summarise_chain(suite, i);
        for (int32_t l = 0; l < suite->chains[i].stats.n_levels; l++) add_up_level(suite, i, l);
    }
}
