/* What the parts of `riffle bench` share. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "cli/buffer.h"
#include "cli/engine.h"
#include "cli/options.h"
#include "riffle.h"

/* The suites of bench/prompts, embedded by the build. */
extern const char bench_code_jsonl[], bench_qa_jsonl[], bench_hard_jsonl[];

struct bench_prompt {
    char *name;
    char *text;
    size_t bytes;
};

struct bench_prompts {
    struct bench_prompt *items;
    size_t count;
};

/* The prompts of a suite, "code", "qa" or "hard", or of a file: JSONL, or any other text as one
 * prompt. At most `most`, 0: all. `raw`: a prompt of HumanEval is code to go on with, not a message
 * that asks for it. CLI_OK, or an exit status with a sentence; then there is nothing to free. */
int bench_prompts_read(struct bench_prompts *prompts, const char *suite, int32_t most, int raw);
void bench_prompts_free(struct bench_prompts *prompts);

/* The text that a session reads for a prompt: with the model's chat template around it, or as it
 * is. CLI_OK, or an exit status with a sentence. */
int bench_prompt_text(const struct engine *engine, const struct bench_prompt *prompt, int raw,
                      struct buffer *text);

enum { BENCH_PASS_SIZES = 5 };
/* Rows of the passes that are timed. */
extern const int32_t bench_pass_rows[BENCH_PASS_SIZES];
/* Seconds of a pass of each size, medians of some, with `context` tokens before it. 0 or a
 * library's code. */
int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES]);
/* 0 of no values. */
double bench_median(const double *values, size_t n);
/* The member "pass_seconds" of an object. */
void bench_write_passes(struct json_writer *json, const double seconds[BENCH_PASS_SIZES]);

/* One prompt answered with one chain. Of several repeats it is the one with the median speed-up. */
struct bench_row {
    size_t prompt, chain;
    int32_t prompt_tokens, tokens;
    double seconds, plain_seconds; /* of decoding `tokens`; the plain ones just before and after */
    double first_token_seconds,
        plain_first_token_seconds; /* from the start of reading the prompt */
    double plain_prefill_tps;
    double read; /* of memory, bytes per second, before and after the prompt */
    /* The first token that differed from plain decoding's in any repeat; -1: none did. */
    int32_t differs_at;
    int32_t expected, got;
    riffle_stats stats;
};

/* What is known when a suite begins, then what it measured. */
struct bench_report {
    const struct cli_options *options;
    const struct engine *engine;
    const struct bench_prompts *prompts;
    const riffle_stats *chains; /* of each chain: its name and its levels */
    size_t n_chains;
    int32_t repeats, max_tokens;
    riffle_machine machine;

    struct bench_row *rows; /* of a prompt all chains, then of the next */
    size_t n_rows;
    double *reads; /* each measurement of the memory's bandwidth, in bytes per second */
    size_t n_reads;
    double pass_seconds[BENCH_PASS_SIZES]; /* of the target */
};

double bench_speedup(const struct bench_row *row);
/* For people: before the first row, each row as it comes, and behind the last. */
void bench_print_head(const struct bench_report *report);
void bench_print_row(const struct bench_report *report, const struct bench_row *row);
void bench_print_summary(const struct bench_report *report);
void bench_print_json(const struct bench_report *report);

/* `riffle bench --suite`: an exit status. */
int bench_suite(const struct cli_options *options);

#endif
