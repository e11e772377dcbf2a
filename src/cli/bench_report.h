/* What `riffle bench --suite` has measured, and how it is shown. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "cli/bench_plain.h"
#include "cli/bench_prompts.h"
#include "cli/engine.h"
#include "cli/options.h"

/* One prompt answered with one chain. With several repeats, the one with the median speed-up. */
struct bench_row {
    size_t prompt, chain;
    int32_t prompt_tokens, tokens;
    double seconds;       /* decoding `tokens` with the chain */
    double plain_seconds; /* mean of plain decoding just before and after it */
    double first_token_seconds, plain_first_token_seconds; /* since reading the prompt began */
    double plain_prefill_tps;
    double read; /* memory bandwidth in bytes per second, before and after the prompt */
    /* The first token that differs from plain decoding in any repeat; -1: none. */
    int32_t differs_at;
    int32_t expected, got;
    riffle_stats stats;
};

struct bench_report {
    /* Known before measuring. */
    const struct cli_options *options;
    const struct engine *engine;
    const struct bench_prompts *prompts;
    const riffle_stats *chains; /* of each chain: its name and its levels */
    size_t n_chains;
    int32_t repeats, max_tokens;
    riffle_machine machine;

    struct bench_row *rows; /* all chains of a prompt, then of the next */
    size_t n_rows;
    double *reads; /* each measurement of the memory bandwidth in bytes per second */
    size_t n_reads;
    double pass_seconds[BENCH_PASS_SIZES]; /* of the target */
};

double bench_speedup(const struct bench_row *row);
/* Text: before the first row, each row when it is known, and after the last. */
void bench_print_head(const struct bench_report *report);
void bench_print_row(const struct bench_report *report, const struct bench_row *row);
void bench_print_summary(const struct bench_report *report);
void bench_print_json(const struct bench_report *report);

#endif
