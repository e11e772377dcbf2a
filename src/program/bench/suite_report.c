#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "bench/bench.h"
#include "engine/levels.h"
#include "output/buffer.h"
#include "output/output.h"

enum { NAME_WIDTH = 20 };

/* The median of the double at `offset` in rows `first`, `first` + `step`, ... */
static double median_of(const struct bench_suite *suite, size_t first, size_t step, size_t offset)
{
    double *values = cli_allocate(suite->n_rows, sizeof *values);
    size_t n = 0;
    for (size_t i = first; i < suite->n_rows; i += step)
        values[n++] = *(const double *)((const char *)&suite->rows[i] + offset);
    double median = rf_median(values, n);
    free(values);
    return median;
}

/* Over the rows of one chain, and over all rows. */
#define CHAIN_MEDIAN(suite, chain, field) \
    median_of(suite, chain, (suite)->n_chains, offsetof(struct bench_row, field))
#define MEDIAN(suite, field) median_of(suite, 0, 1, offsetof(struct bench_row, field))

void bench_finish(struct bench_suite *suite)
{
    double *figures = suite->figures;
    figures[DECODE_TPS] = CHAIN_MEDIAN(suite, 0, plain_tps);
    figures[PREFILL_TPS] = CHAIN_MEDIAN(suite, 0, plain_prefill_tps);
    figures[PERCENT_OF_READ] = MEDIAN(suite, percent_of_read);
    figures[FIRST_TOKEN] = CHAIN_MEDIAN(suite, 0, plain_first_token_seconds);
}

/* The rows of one chain. */
struct summary {
    double mean, least; /* of the speed-ups: geometric mean, minimum */
    const char *least_prompt;
    double tps, first_token_seconds; /* medians */
    size_t n_different;
};

static struct summary summarise(const struct bench_suite *suite, size_t chain)
{
    struct summary summary = {.least = INFINITY, .least_prompt = ""};
    double logarithms = 0;
    for (size_t i = chain; i < suite->n_rows; i += suite->n_chains) {
        const struct bench_row *row = &suite->rows[i];
        logarithms += log(row->speedup);
        summary.n_different += row->differs_at >= 0;
        if (row->speedup >= summary.least) continue;
        summary.least = row->speedup;
        summary.least_prompt = row->prompt;
    }
    summary.mean = exp(logarithms / (double)suite->prompts.count);
    summary.tps = CHAIN_MEDIAN(suite, chain, tps);
    summary.first_token_seconds = CHAIN_MEDIAN(suite, chain, first_token_seconds);
    return summary;
}

static const char *chain_name(const struct bench_suite *suite, size_t chain)
{
    return suite->lanes[1 + chain].stats.chain;
}

/* A letter for each chain if there are several. */
static char letter(const struct bench_suite *suite, size_t chain)
{
    return suite->n_chains > 1 ? (char)('A' + chain % 26) : ' ';
}

void bench_print_head(const struct bench_suite *suite)
{
    const riffle_model_info *info = &suite->engine.info;
    struct buffer from = {0};
    char bytes[32];
    origin_machine(&suite->origin, &from);
    buffer_puts(&from, "\n");
    origin_program(&suite->origin, &from);
    print_name(stdout, engine_model_name(&suite->engine));
    printf(", weights %s, %s\n%s\nsuite ", info->weights, human_bytes(info->weight_bytes, bytes),
           from.data);
    buffer_free(&from);
    print_name(stdout, suite->options->suite);
    printf(": %zu prompt%s, %d tokens each", suite->prompts.count,
           plural((int64_t)suite->prompts.count), suite->max_tokens);
    if (suite->repeats > 1) printf(", medians of %d repeats", suite->repeats);
    printf("\n");
    for (size_t i = 0; i < suite->n_chains; i++)
        printf("chain %c %s\n", letter(suite, i), chain_name(suite, i));
    printf("\n%-*s  %9s %9s %9s  kept of what each level drafted\n", NAME_WIDTH, "prompt",
           "plain t/s", "t/s", "speed-up");
    fflush(stdout);
}

void bench_print_row(const struct bench_suite *suite)
{
    const struct bench_row *row = &suite->rows[suite->n_rows - 1];
    int shown = print_name(stdout, row->prompt);
    printf("%*s%c %9.2f %9.2f %8.2fx ", shown < NAME_WIDTH ? NAME_WIDTH - shown : 1, "",
           letter(suite, (suite->n_rows - 1) % suite->n_chains), row->plain_tps, row->tps,
           row->speedup);
    for (int32_t i = 0; i < row->stats.n_levels - 1; i++) {
        const riffle_level_stats *level = &row->stats.levels[i];
        printf("%s", i > 0 ? ", " : " ");
        print_name(stdout, level->name);
        if (level->drafted)
            printf(" %.0f %% of %llu", 100 * (double)level->accepted / (double)level->drafted,
                   (unsigned long long)level->drafted);
        else
            printf(" -");
    }
    printf("%s\n", row->differs_at >= 0 ? "  TOKENS DIFFER" : "");
    fflush(stdout);
}

/* What the drafter `level` of a chain proposed in the whole suite, and what was kept. */
static riffle_level_stats source_of(const struct bench_suite *suite, size_t chain, int32_t level)
{
    riffle_level_stats sum = suite->lanes[1 + chain].stats.levels[level];
    sum.drafted = sum.accepted = sum.passes = 0;
    sum.seconds = 0;
    for (size_t i = chain; i < suite->n_rows; i += suite->n_chains) {
        const riffle_level_stats *one = &suite->rows[i].stats.levels[level];
        sum.drafted += one->drafted;
        sum.accepted += one->accepted;
        sum.passes += one->passes;
        sum.seconds += one->seconds;
    }
    return sum;
}

static int32_t count_sources(const struct bench_suite *suite, size_t chain)
{
    return suite->lanes[1 + chain].stats.n_levels - 1;
}

static void print_sources(const struct bench_suite *suite, size_t chain)
{
    for (int32_t l = 0; l < count_sources(suite, chain); l++) {
        riffle_level_stats source = source_of(suite, chain, l);
        printf("        ");
        print_name(stdout, source.name);
        printf(": %llu of %llu drafted tokens kept (%.0f %%)\n",
               (unsigned long long)source.accepted, (unsigned long long)source.drafted,
               source.drafted ? 100 * (double)source.accepted / (double)source.drafted : 0);
    }
}

static void write_sources(struct json_writer *json, const struct bench_suite *suite, size_t chain)
{
    jw_put(json, "sources [");
    for (int32_t l = 0; l < count_sources(suite, chain); l++) {
        riffle_level_stats source = source_of(suite, chain, l);
        jw_put(json, "{ name %s passes %" PRIu64 " drafted %" PRIu64, source.name, source.passes,
               source.drafted);
        jw_put(json, "accepted %" PRIu64 " seconds %g }", source.accepted, source.seconds);
    }
    jw_put(json, "]");
}

void bench_print_summary(const struct bench_suite *suite)
{
    const double *figures = suite->figures;
    printf("\nplain   %.2f tokens/s, %.1f %% of the read bandwidth (%.1f GB/s), first token after "
           "%.2f s\n",
           figures[DECODE_TPS], figures[PERCENT_OF_READ], bench_reads_median(&suite->reads) / 1e9,
           figures[FIRST_TOKEN]);
    for (size_t i = 0; i < suite->n_chains; i++) {
        struct summary summary = summarise(suite, i);
        printf("chain %c %.2f tokens/s, first token after %.2f s; speed-up %.2fx (geometric mean), "
               "least %.2fx (",
               letter(suite, i), summary.tps, summary.first_token_seconds, summary.mean,
               summary.least);
        print_name(stdout, summary.least_prompt);
        if (summary.n_different)
            printf("); tokens DIFFER from plain decoding's in %zu of %zu answers\n",
                   summary.n_different, suite->prompts.count);
        else
            printf("); tokens identical\n");
        print_sources(suite, i);
    }
}

static void write_row(struct json_writer *json, const struct bench_row *row)
{
    jw_put(json, "{ prompt %s chain %s prompt_tokens %d tokens %d", row->prompt, row->stats.chain,
           row->prompt_tokens, row->tokens);
    jw_put(json, "tps %g plain_tps %g speedup %g", row->tps, row->plain_tps, row->speedup);
    jw_bool(json, "identical", row->differs_at < 0);
    jw_put(json, "first_token_s %g plain_first_token_s %g", row->first_token_seconds,
           row->plain_first_token_seconds);
    jw_put(json, "read_gbps %g percent_of_read %g", row->read / 1e9, row->percent_of_read);
    levels_write(json, &row->stats);
    jw_put(json, "}");
}

static void write_prompt(struct json_writer *json, const struct bench_suite *suite,
                         const struct bench_prompt *prompt)
{
    struct buffer text = {0};
    jw_put(json, "{ name %s", prompt->name);
    if (bench_prompt_text(&suite->engine, prompt, suite->options->raw, &text) == CLI_OK)
        jw_text(json, "text", text.data, text.count);
    jw_put(json, "}");
    buffer_free(&text);
}

static void write_summary(struct json_writer *json, const struct bench_suite *suite, size_t chain)
{
    struct summary summary = summarise(suite, chain);
    jw_put(json, "{ chain %s mean_speedup %g min_speedup %g min_prompt %s",
           chain_name(suite, chain), summary.mean, summary.least, summary.least_prompt);
    jw_put(json, "tps %g first_token_s %g", summary.tps, summary.first_token_seconds);
    jw_bool(json, "identical", summary.n_different == 0);
    write_sources(json, suite, chain);
    jw_put(json, "}");
}

void bench_print_json(const struct bench_suite *suite, const struct buffer *notes)
{
    struct json_writer json = {0};
    jw_put(&json, "{");
    bench_write_plain(&json, &suite->engine, &suite->origin, &suite->reads, notes, suite->figures);
    jw_put(&json, "suite %s prompts [", suite->options->suite);
    for (size_t i = 0; i < suite->prompts.count; i++)
        write_prompt(&json, suite, &suite->prompts.items[i]);
    jw_put(&json, "] rows [");
    for (size_t i = 0; i < suite->n_rows; i++) write_row(&json, &suite->rows[i]);
    jw_put(&json, "] summary [");
    for (size_t i = 0; i < suite->n_chains; i++) write_summary(&json, suite, i);
    jw_put(&json, "] }");
    jw_print(&json);
}
