/* What both forms of `riffle bench` share, and what its suites have measured. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/bench_prompts.h"
#include "cli/engine.h"

/* ---- plain decoding ---- */

enum { BENCH_PASS_SIZES = 5 };
/* Rows of the passes that are timed. */
extern const int32_t bench_pass_rows[BENCH_PASS_SIZES];
/* Seconds of a pass of each size after `context` tokens, each the median of a few passes. 0 or a
 * code of the library. */
int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES]);

struct bench_plain {
    const char *cpu;
    int32_t threads;
    double read; /* memory bandwidth, bytes per second */
    double decode_tps, prefill_tps, percent_of_read;
    double first_token_seconds; /* negative: not measured */
    const double *pass_seconds; /* [BENCH_PASS_SIZES] */
};
/* The members "model", "machine" and "plain" of an object. */
void bench_write_plain(struct json_writer *json, const struct engine *engine,
                       const struct bench_plain *plain);

/* ---- suites ---- */

/* One prompt answered with one chain. With several repeats, the one with the median speed-up. */
struct bench_row {
    const char *prompt;
    riffle_stats stats;
    int32_t prompt_tokens, tokens;
    double plain_seconds; /* of plain decoding: the mean of just before and just after */
    double tps, plain_tps, speedup;
    double first_token_seconds, plain_first_token_seconds; /* since reading the prompt began */
    double plain_prefill_tps;
    double read; /* memory bandwidth in bytes per second, before and after the prompt */
    double percent_of_read;
    /* The first token that differs from plain decoding in any repeat; -1: none. */
    int32_t differs_at;
    int32_t expected, got;
};

/* A session with its own chain, and its last answer. */
struct bench_lane {
    riffle_session *session;
    int32_t prompt_tokens, tokens;
    double first_token_seconds;
    riffle_stats stats;
    int32_t *ids; /* [max_tokens] */
};

struct bench_suite {
    const struct cli_options *options;
    struct engine engine;
    struct bench_prompts prompts;
    riffle_machine machine;
    size_t n_chains;
    int32_t repeats, max_tokens;
    struct bench_lane *lanes; /* plain decoding, then each chain */

    struct bench_row *repeat_rows; /* [repeats][n_chains] of the current prompt */
    struct bench_row *rows;        /* all chains of a prompt, then of the next */
    size_t n_rows;
    double *reads; /* each measurement of the memory bandwidth in bytes per second */
    size_t n_reads;
    double pass_seconds[BENCH_PASS_SIZES]; /* of the target */

    struct progress_line progress;
    uint64_t answers_done, answers;
};

/* `riffle bench --suite`: an exit status. */
int bench_suite(const struct cli_options *options);

/* Text: before the first row, the last row, and after it. */
void bench_print_head(const struct bench_suite *suite);
void bench_print_row(const struct bench_suite *suite);
void bench_print_summary(const struct bench_suite *suite);
void bench_print_json(const struct bench_suite *suite);

#endif
