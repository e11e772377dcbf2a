/* The results of both forms of `riffle bench`. Measuring fills these structs, the verb owns them,
 * and the reports only read them. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "bench/ceiling.h"
#include "bench/passes.h"
#include "bench/prompts.h"
#include "output/origin.h"
#include "session/engine.h"

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

/* ---- at depths ---- */

enum bench_kind { BENCH_PROMPT, BENCH_DECODE, BENCH_PASS };

/* The median and the quartiles of all rounds. */
struct bench_spread {
    double median, low, high;
};

struct bench_figure {
    enum bench_kind kind;
    int32_t depth;               /* tokens that the context held before the prompt */
    int32_t tokens;              /* tokens of the prompt, decoded tokens, or rows of the pass */
    struct bench_spread value;   /* tokens per second, or seconds of a pass */
    struct bench_spread of_read; /* BENCH_DECODE only: per cent of the read bandwidth */
};

struct bench_plain {
    struct engine engine; /* open, for the name and the types of the model */
    struct origin origin;
    struct bench_reads reads;
    int32_t repeats;
    /* Figures depth by depth: one for each prompt, the shortest first, one for decoding, and one
     * for each pass. */
    struct bench_figure *figures;
    size_t n_figures, n_depths;
};

/* ---- suites ---- */

/* One prompt answered with one chain. With several repeats, the one with the median speed-up. */
struct bench_row {
    const char *prompt;
    riffle_stats stats;
    int32_t prompt_tokens, tokens;
    double plain_seconds; /* plain decoding: the mean of just before and just after */
    double tps, plain_tps, speedup;
    double first_token_seconds, plain_first_token_seconds; /* since reading the prompt began */
    double plain_prefill_tps;
    double read; /* memory bandwidth in bytes per second, before and after the prompt */
    double percent_of_read;
    /* The first token that differs from plain decoding in any repeat; -1: none. */
    int32_t differs_at;
    int32_t expected, got;
};

/* The rows of one chain. */
struct bench_chain {
    riffle_stats
        stats; /* the chain's name and levels; bench_summarise() makes them sums over all rows */
    double mean, least; /* speed-ups: geometric mean, minimum */
    const char *least_prompt;
    double tps, first_token_seconds; /* medians */
    size_t n_different;
};

struct bench_suite {
    struct engine engine; /* open, for the name, the types and the template of the model */
    const char *name;     /* "code", or a file */
    int raw;              /* prompts are read without the chat template */
    struct bench_prompts prompts;
    struct origin origin;
    int32_t repeats, max_tokens;
    struct bench_chain *chains;
    size_t n_chains;
    struct bench_row *rows; /* all chains of a prompt, then of the next */
    size_t n_rows;
    struct bench_reads reads;
    double figures[FIGURES]; /* figures of plain decoding */
};

#endif
