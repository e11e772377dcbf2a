/* What both forms of `riffle bench` share, and what its suites have measured. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "engine/engine.h"
#include "output/origin.h"
#include "output/progress.h"
#include "riffle_experimental.h"

/* ---- the ceiling ---- */

/* Each measurement of the read bandwidth. All zero is empty. */
struct bench_reads {
    double *values; /* bytes per second; for free() */
    size_t count;
    char pattern[128]; /* the fastest way of reading in the last one */
};

/* Adds a measurement of the memory that the model computes from. 0 or a code of the library. */
int bench_read(struct bench_reads *reads, const riffle_model *model, int32_t threads);
/* The mean of the last two: those before and after what was measured between them. */
double bench_reads_around(const struct bench_reads *reads);
double bench_reads_median(const struct bench_reads *reads);
/* What a reader of the figures must know: sentences, each with a newline; "" if all is well.
 * `percent`: of the read bandwidth, with `bytes` that are read again and again. */
void bench_notes(const struct bench_reads *reads, double percent, uint64_t bytes,
                 struct buffer *notes);

/* ---- plain decoding ---- */

enum { BENCH_PASS_SIZES = 5 };
/* Rows of the passes that are timed. */
extern const int32_t bench_pass_rows[BENCH_PASS_SIZES];

/* The figures of plain decoding that every bench has. FIRST_TOKEN and those from PASS on, one for
 * each size, are seconds. A negative FIRST_TOKEN is not measured. */
enum bench_plain_figure {
    DECODE_TPS,
    PREFILL_TPS,
    PERCENT_OF_READ,
    FIRST_TOKEN,
    PASS,
    FIGURES = PASS + BENCH_PASS_SIZES
};

/* Measures a pass of each size after `context` tokens, each as the median of a few passes, and
 * writes seconds. 0 or a code of the library. */
int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES]);
/* The members "date", "version", "commit", "model", "machine", "notes" and "plain" of an object. */
void bench_write_plain(struct json_writer *json, const struct engine *engine,
                       const struct origin *origin, const struct bench_reads *reads,
                       const struct buffer *notes, const double figures[FIGURES]);

/* ---- at depths ---- */

enum bench_kind { BENCH_PROMPT, BENCH_DECODE, BENCH_PASS };

/* One figure: what it is of, and its value in each round. */
struct bench_figure {
    enum bench_kind kind;
    int32_t depth;   /* tokens that the context held before the prompt */
    int32_t tokens;  /* of the prompt, decoded, or rows of the pass */
    double *values;  /* [repeats]: tokens per second, or seconds of a pass; sorted at the end */
    double *of_read; /* [repeats]: of decoding, in per cent; else NULL */
};

struct bench_plain {
    const struct cli_options *options;
    struct engine engine;
    struct origin origin;
    struct bench_reads reads;
    int32_t *prompts, *depths; /* sorted upwards */
    size_t n_prompts, n_depths;
    int32_t n_gen, repeats;
    int32_t *tokens; /* a text of the greatest depth and prompt */
    /* For each depth: one of each prompt, one of decoding, one of each pass. */
    struct bench_figure *figures;
    size_t n_figures;
    uint64_t rounds_done;
    struct progress_line progress;
};

/* When all is measured: text, JSON or CSV on standard output, notes on standard error. */
void bench_report(struct bench_plain *bench);

/* ---- the prompts of suites ---- */

/* The suites of bench/prompts, embedded by the build. */
extern const char bench_code_jsonl[], bench_qa_jsonl[], bench_hard_jsonl[], bench_long_jsonl[];

struct bench_prompt {
    char *name;
    char *text;
    size_t bytes;
};

struct bench_prompts {
    struct bench_prompt *items;
    size_t count;
    struct bench_prompt *excerpts; /* texts that prompts quote */
    size_t n_excerpts;
};

/* Reads the suite "code", "qa", "hard" or "long", or a file: JSONL, or any other text as one
 * prompt. At most `most` prompts; 0: all. `raw`: a HumanEval prompt is code to continue, not a
 * message that asks for it. CLI_OK, or an exit status with a sentence and nothing to free. */
int bench_prompts_read(struct bench_prompts *prompts, const char *suite, int32_t most, int raw);
void bench_prompts_free(struct bench_prompts *prompts);

/* The text that a session reads for a prompt: formatted with the model's chat template, or as it is
 * if `raw` is set. CLI_OK, or an exit status with a sentence. */
int bench_prompt_text(const struct engine *engine, const struct bench_prompt *prompt, int raw,
                      struct buffer *text);

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
    double first_token_seconds, prefill_tps; /* when the prompt was last read */
    riffle_stats stats;
    int32_t *ids; /* [max_tokens] */
};

struct bench_suite {
    const struct cli_options *options;
    struct engine engine;
    struct bench_prompts prompts;
    size_t prompt; /* the current one */
    struct origin origin;
    size_t n_chains;
    int32_t repeats, max_tokens;
    struct bench_lane *lanes; /* plain decoding, then each chain */

    struct bench_row *repeat_rows; /* [n_chains][repeats] of the current prompt */
    struct bench_row *rows;        /* all chains of a prompt, then of the next */
    size_t n_rows;
    struct bench_reads reads;
    double figures[FIGURES]; /* of plain decoding */

    struct progress_line progress;
    uint64_t answers_done, answers;
};

/* `riffle bench --suite`: an exit status. */
int bench_suite(const struct cli_options *options);

/* Sets the figures when all rows are known. */
void bench_finish(struct bench_suite *suite);
/* Text: before the first row, the last row, and after it. */
void bench_print_head(const struct bench_suite *suite);
void bench_print_row(const struct bench_suite *suite);
void bench_print_summary(const struct bench_suite *suite);
void bench_print_json(const struct bench_suite *suite, const struct buffer *notes);

#endif
