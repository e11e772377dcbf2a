#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/levels.h"
#include "cli/output.h"

enum { NAME_WIDTH = 20 };

double bench_speedup(const struct bench_row *row)
{
    return row->seconds > 0 ? row->plain_seconds / row->seconds : 0;
}

static double plain_tps(const struct bench_row *row)
{
    return tokens_per_second((uint64_t)row->tokens, row->plain_seconds);
}

static double prefill_tps(const struct bench_row *row)
{
    return row->plain_prefill_tps;
}

static double plain_first_token(const struct bench_row *row)
{
    return row->plain_first_token_seconds;
}

static double first_token(const struct bench_row *row)
{
    return row->first_token_seconds;
}

/* Plain decoding reads all weights for each token except the first, which the prompt's last pass
 * gives. */
static double percent_of_read(const struct bench_report *report, const struct bench_row *row)
{
    double bytes = (double)report->engine->info.weight_bytes * (row->tokens - 1);
    return row->plain_seconds > 0 ? 100 * bytes / row->plain_seconds / row->read : 0;
}

/* The rows of one chain. */
struct summary {
    double mean, least; /* of the speed-ups: geometric mean, minimum */
    const char *least_prompt;
    double tps, first_token_seconds; /* medians */
    size_t n_different;
};

static double median_of(const struct bench_report *report, size_t chain,
                        double (*value)(const struct bench_row *row))
{
    double *values = cli_allocate(report->n_rows, sizeof *values);
    size_t n = 0;
    for (size_t i = 0; i < report->n_rows; i++)
        if (report->rows[i].chain == chain) values[n++] = value(&report->rows[i]);
    double median = rf_median(values, n);
    free(values);
    return median;
}

static double tps(const struct bench_row *row)
{
    return tokens_per_second((uint64_t)row->tokens, row->seconds);
}

static double median_percent_of_read(const struct bench_report *report)
{
    double *values = cli_allocate(report->n_rows, sizeof *values);
    for (size_t i = 0; i < report->n_rows; i++)
        values[i] = percent_of_read(report, &report->rows[i]);
    double median = rf_median(values, report->n_rows);
    free(values);
    return median;
}

static struct summary summarise(const struct bench_report *report, size_t chain)
{
    struct summary summary = {.least_prompt = ""};
    double logarithms = 0;
    size_t n = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct bench_row *row = &report->rows[i];
        if (row->chain != chain) continue;
        double speedup = bench_speedup(row);
        logarithms += log(speedup);
        if (n == 0 || speedup < summary.least) {
            summary.least = speedup;
            summary.least_prompt = report->prompts->items[row->prompt].name;
        }
        summary.n_different += row->differs_at >= 0;
        n++;
    }
    summary.mean = n ? exp(logarithms / (double)n) : 0;
    summary.tps = median_of(report, chain, tps);
    summary.first_token_seconds = median_of(report, chain, first_token);
    return summary;
}

/* ---- for people ---- */

static void print_padded(const char *name)
{
    int shown = print_name(stdout, name);
    printf("%*s", shown < NAME_WIDTH ? NAME_WIDTH - shown : 1, "");
}

/* A letter for each chain if there are several. */
static char letter(const struct bench_report *report, size_t chain)
{
    return report->n_chains > 1 ? (char)('A' + chain % 26) : ' ';
}

void bench_print_head(const struct bench_report *report)
{
    char bytes[32];
    print_name(stdout, engine_model_name(report->engine));
    printf(", weights %s, %s; %s, %d thread%s\n", report->engine->info.weights,
           human_bytes(report->engine->info.weight_bytes, bytes), report->machine.cpu,
           report->chains[0].threads, report->chains[0].threads == 1 ? "" : "s");
    printf("suite ");
    print_name(stdout, report->options->suite);
    printf(": %zu prompt%s, %d tokens each", report->prompts->count,
           report->prompts->count == 1 ? "" : "s", report->max_tokens);
    if (report->repeats > 1) printf(", medians of %d repeats", report->repeats);
    printf("\n");
    for (size_t i = 0; i < report->n_chains; i++)
        printf("chain %c %s\n", letter(report, i), report->chains[i].chain);
    printf("\n%-*s  %9s %9s %9s  kept of what each level drafted\n", NAME_WIDTH, "prompt",
           "plain t/s", "t/s", "speed-up");
    fflush(stdout);
}

void bench_print_row(const struct bench_report *report, const struct bench_row *row)
{
    print_padded(report->prompts->items[row->prompt].name);
    printf("%c %9.2f %9.2f %8.2fx ", letter(report, row->chain), plain_tps(row), tps(row),
           bench_speedup(row));
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

void bench_print_summary(const struct bench_report *report)
{
    printf("\nplain   %.2f tokens/s, %.1f %% of the read bandwidth (%.1f GB/s), first token after "
           "%.2f s\n",
           median_of(report, 0, plain_tps), median_percent_of_read(report),
           rf_median(report->reads, report->n_reads) / 1e9,
           median_of(report, 0, plain_first_token));
    for (size_t i = 0; i < report->n_chains; i++) {
        struct summary summary = summarise(report, i);
        printf("chain %c %.2f tokens/s, first token after %.2f s; speed-up %.2fx (geometric mean), "
               "least %.2fx (",
               letter(report, i), summary.tps, summary.first_token_seconds, summary.mean,
               summary.least);
        print_name(stdout, summary.least_prompt);
        if (summary.n_different)
            printf("); tokens DIFFER from plain decoding's in %zu of %zu answers\n",
                   summary.n_different, report->prompts->count);
        else
            printf("); tokens identical\n");
    }
}

/* ---- JSON ---- */

static void write_row(struct json_writer *json, const struct bench_report *report,
                      const struct bench_row *row)
{
    jw_object(json, NULL);
    jw_string(json, "prompt", report->prompts->items[row->prompt].name);
    jw_string(json, "chain", report->chains[row->chain].chain);
    jw_int(json, "prompt_tokens", row->prompt_tokens);
    jw_int(json, "tokens", row->tokens);
    jw_number(json, "tps", tps(row));
    jw_number(json, "plain_tps", plain_tps(row));
    jw_number(json, "speedup", bench_speedup(row));
    jw_bool(json, "identical", row->differs_at < 0);
    jw_number(json, "first_token_s", row->first_token_seconds);
    jw_number(json, "plain_first_token_s", row->plain_first_token_seconds);
    jw_number(json, "read_gbps", row->read / 1e9);
    jw_number(json, "percent_of_read", percent_of_read(report, row));
    levels_write(json, &row->stats);
    jw_end_object(json);
}

static void write_prompt(struct json_writer *json, const struct bench_report *report,
                         const struct bench_prompt *prompt)
{
    struct buffer text = {0};
    jw_object(json, NULL);
    jw_string(json, "name", prompt->name);
    if (bench_prompt_text(report->engine, prompt, report->options->raw, &text) == CLI_OK)
        jw_text(json, "text", text.data, text.count);
    jw_end_object(json);
    buffer_free(&text);
}

static void write_summary(struct json_writer *json, const struct bench_report *report, size_t chain)
{
    struct summary summary = summarise(report, chain);
    jw_object(json, NULL);
    jw_string(json, "chain", report->chains[chain].chain);
    jw_number(json, "mean_speedup", summary.mean);
    jw_number(json, "min_speedup", summary.least);
    jw_string(json, "min_prompt", summary.least_prompt);
    jw_number(json, "tps", summary.tps);
    jw_number(json, "first_token_s", summary.first_token_seconds);
    jw_bool(json, "identical", summary.n_different == 0);
    jw_end_object(json);
}

void bench_print_json(const struct bench_report *report)
{
    struct json_writer json = {0};
    jw_object(&json, NULL);
    const struct bench_plain plain = {.cpu = report->machine.cpu,
                                      .threads = report->chains[0].threads,
                                      .read = rf_median(report->reads, report->n_reads),
                                      .decode_tps = median_of(report, 0, plain_tps),
                                      .prefill_tps = median_of(report, 0, prefill_tps),
                                      .percent_of_read = median_percent_of_read(report),
                                      .first_token_seconds =
                                          median_of(report, 0, plain_first_token),
                                      .pass_seconds = report->pass_seconds};
    bench_write_plain(&json, report->engine, &plain);
    jw_string(&json, "suite", report->options->suite);
    jw_array(&json, "prompts");
    for (size_t i = 0; i < report->prompts->count; i++)
        write_prompt(&json, report, &report->prompts->items[i]);
    jw_end_array(&json);
    jw_array(&json, "rows");
    for (size_t i = 0; i < report->n_rows; i++) write_row(&json, report, &report->rows[i]);
    jw_end_array(&json);
    jw_array(&json, "summary");
    for (size_t i = 0; i < report->n_chains; i++) write_summary(&json, report, i);
    jw_end_array(&json);
    jw_end_object(&json);
    jw_print(&json);
}
