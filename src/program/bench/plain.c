/* Measures plain decoding. Clocks and other load change within seconds, so the bandwidth is
 * measured before and after each round of passes. A round's figure is a ratio to the mean of the
 * two; medians and quartiles of the rounds become the results. */
#include "bench/plain.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "options/numbers.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"

enum { PROMPT_TOKENS = 128, DECODE_TOKENS = 24, SPARE_TOKENS = 16, REPEATS = 5 };

static const char prompt_text[] =
    "A riffle is a shallow stretch of a river where the water runs fast over stones. The stream "
    "breaks into small waves, takes up air, and clears. Anglers like such places, because trout "
    "wait behind the larger stones for what the current brings. A pool lies below each riffle, "
    "deep and slow; there the river drops the gravel that it carried and begins to cut a new bank. "
    "Seen from a hill, pools and riffles follow each other at even distances, about five to seven "
    "times the width of the bed. Nobody laid them out: they come from the water's own pace. ";

/* One figure: its kind, and its value in each round. */
struct round_values {
    enum bench_kind kind;
    int32_t depth, tokens; /* see struct bench_figure */
    double *values;        /* [repeats] */
    double *of_read;       /* [repeats] of BENCH_DECODE; else NULL */
};

struct plain_run {
    const struct cli_options *options;
    struct bench_plain *results;
    int32_t *prompts, *depths; /* sorted upwards */
    size_t n_prompts, n_depths;
    int32_t n_gen;
    int32_t *tokens;              /* a text of the greatest depth and prompt */
    struct round_values *figures; /* the order is that of bench_plain.figures */
    size_t n_figures;
    uint64_t rounds_done;
    struct progress_line progress;
};

/* ---- what is measured ---- */

static int by_size(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

int bench_take_list(const char *option, const char *list, int32_t least, int32_t otherwise,
                    int32_t **items, size_t *count)
{
    size_t kept = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", otherwise);
    *items = parse_wholes(list ? list : number, least, count);
    if (!*items)
        return cli_usage_error("%s needs whole numbers from %d on, separated by commas, such as "
                               "%d,4096, not '%s'",
                               option, least, otherwise, list);
    qsort(*items, *count, sizeof **items, by_size);
    for (size_t i = 0; i < *count; i++)
        if (i == 0 || (*items)[i] != (*items)[kept - 1]) (*items)[kept++] = (*items)[i];
    *count = kept;
    return CLI_OK;
}

/* Tokens of context that all figures need. */
static int64_t plain_context(const struct plain_run *run)
{
    int64_t prompt = run->prompts[run->n_prompts - 1],
            after = (int64_t)run->prompts[0] + 1 + run->n_gen;
    return run->depths[run->n_depths - 1] + (prompt > after ? prompt : after) +
           bench_pass_rows[BENCH_PASS_SIZES - 1] + SPARE_TOKENS;
}

/* Decides on the figures. CLI_OK or CLI_USAGE. */
static int plain_choose(struct plain_run *run, const struct cli_options *options)
{
    run->options = options;
    run->n_gen = options->n_gen ? options->n_gen : DECODE_TOKENS;
    run->results->repeats = options->repeats ? options->repeats : REPEATS;
    int status = bench_take_list("--prompt-tokens", options->prompt_tokens, 1, PROMPT_TOKENS,
                                 &run->prompts, &run->n_prompts);
    if (status == CLI_OK)
        status = bench_take_list("--depth", options->depths, 0, 0, &run->depths, &run->n_depths);
    if (status != CLI_OK) return status;
    int64_t needed = plain_context(run);
    if (options->n_ctx && options->n_ctx < needed)
        return cli_usage_error("--ctx %d is less than the %lld tokens that the greatest depth, the "
                               "prompts, --gen and the passes take",
                               options->n_ctx, (long long)needed);
    if (needed > INT32_MAX)
        return cli_usage_error("--depth, --prompt-tokens and --gen take %lld tokens: no context is "
                               "that large",
                               (long long)needed);
    return CLI_OK;
}

static void add_figure(struct plain_run *run, enum bench_kind kind, int32_t depth, int32_t tokens)
{
    size_t n = (size_t)run->results->repeats, i = run->n_figures;
    struct round_values figure = {.kind = kind, .depth = depth, .tokens = tokens};
    figure.values = cli_allocate(n, sizeof *figure.values);
    if (kind == BENCH_DECODE) figure.of_read = cli_allocate(n, sizeof *figure.of_read);
    run->figures = cli_reallocate(run->figures, i + 1, sizeof *run->figures);
    run->figures[run->n_figures++] = figure;
}

static void add_figures(struct plain_run *run)
{
    for (size_t d = 0; d < run->n_depths; d++) {
        int32_t depth = run->depths[d];
        for (size_t p = 0; p < run->n_prompts; p++)
            add_figure(run, BENCH_PROMPT, depth, run->prompts[p]);
        add_figure(run, BENCH_DECODE, depth, run->n_gen);
        for (int r = 0; r < BENCH_PASS_SIZES; r++)
            add_figure(run, BENCH_PASS, depth, bench_pass_rows[r]);
    }
}

int bench_text(const struct engine *engine, size_t length, int32_t **tokens)
{
    int32_t *text;
    int64_t n =
        engine_tokenize(engine, prompt_text, sizeof prompt_text - 1, RIFFLE_TOKENIZE_BOS, &text);
    *tokens = cli_allocate(length, sizeof **tokens);
    for (size_t i = 0; i < length && n > 0; i++) (*tokens)[i] = text[i % (size_t)n];
    free(text);
    return n ? cli_status(n) : cli_fail("the model's tokenizer makes no token of an English text");
}

/* ---- measuring ---- */

/* Reads a prompt after `depth` tokens and decodes as a user sees it. 0 or a code of the library. */
static int read_and_decode(struct plain_run *run, int32_t depth, int32_t prompt, int32_t n_decoded,
                           riffle_stats *stats)
{
    riffle_session *session = run->results->engine.session;
    riffle_generate_options generate;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = 1 + n_decoded; /* the prompt's last pass gives the first token */
    generate.ignore_eos = 1;
    generate.ignore_repetition = 1;

    int code = riffle_rewind(session, depth);
    /* A cache that quantises may read some of the text again now, which must not be measured. */
    if (code == RIFFLE_OK) code = riffle_prefill(session, NULL, 0);
    riffle_session_reset_stats(session);
    if (code == RIFFLE_OK) code = riffle_prefill(session, run->tokens + depth, (size_t)prompt);
    progress_clear(&run->results->engine.progress);
    int64_t n = code == RIFFLE_OK ? riffle_generate(session, &generate, NULL, NULL) : code;
    return n < 0 ? (int)n : riffle_session_get_stats(session, stats, sizeof *stats);
}

/* The figures of one depth, from `figures` on, in one round. 0 or a code of the library. */
static int plain_measure_round(struct plain_run *run, struct round_values *figures, size_t round)
{
    riffle_session *session = run->results->engine.session;
    riffle_stats stats;
    double seconds[BENCH_PASS_SIZES];
    struct round_values *decode = figures + run->n_prompts, *passes = decode + 1;
    int32_t depth = figures->depth, first = run->prompts[0];
    /* Decoding follows the shortest prompt, which is therefore the last one to be read. */
    for (size_t p = run->n_prompts; p-- > 0;) {
        int code = read_and_decode(run, depth, run->prompts[p], p ? 0 : run->n_gen, &stats);
        if (code != RIFFLE_OK) return code;
        figures[p].values[round] = tokens_per_second(stats.prefill_tokens, stats.prefill_seconds);
    }
    decode->values[round] = tokens_per_second((uint64_t)run->n_gen, stats.decode_seconds);
    int code = riffle_rewind(session, depth + first);
    if (code == RIFFLE_OK) code = bench_passes(session, depth + first, seconds);
    for (int r = 0; r < BENCH_PASS_SIZES && code == RIFFLE_OK; r++)
        passes[r].values[round] = seconds[r];
    return code;
}

/* Bytes that each token of a figure of decoding reads: weights, keys and values. */
static double bytes_of_token(const struct plain_run *run, const struct round_values *decode)
{
    const riffle_model_info *info = &run->results->engine.info;
    double positions = decode->depth + run->prompts[0] + decode->tokens / 2.0;
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.kv = run->options->kv;
    options.n_ctx = riffle_session_n_ctx(run->results->engine.session);
    uint64_t kv_bytes = 0;
    riffle_session_cost(run->results->engine.model, &options, NULL, &kv_bytes);
    return (double)info->weight_bytes + (double)kv_bytes / options.n_ctx * positions;
}

static int plain_show_progress(struct plain_run *run, int32_t depth, int32_t round)
{
    char note[64];
    snprintf(note, sizeof note, "depth %d, round %d of %d", depth, round, run->results->repeats);
    return progress_update_note(&run->progress, "measuring", ++run->rounds_done,
                                (uint64_t)run->results->repeats * run->n_depths, note)
               ? RIFFLE_ERR_CANCELLED
               : RIFFLE_OK;
}

/* All rounds of a depth. 0 or a code of the library. */
static int plain_measure_depth(struct plain_run *run, struct round_values *figures)
{
    riffle_session *session = run->results->engine.session;
    struct round_values *decode = figures + run->n_prompts;
    int32_t depth = figures->depth, held = riffle_session_tokens(session, NULL);
    /* A round of a smaller depth has left a prompt. */
    int code = held > depth ? riffle_rewind(session, depth) : RIFFLE_OK;
    if (code == RIFFLE_OK && held < depth)
        code = riffle_prefill(session, run->tokens + held, (size_t)(depth - held));
    progress_clear(&run->results->engine.progress);
    /* The first round warms everything up and is not counted. */
    if (code == RIFFLE_OK) code = plain_measure_round(run, figures, 0);
    if (code == RIFFLE_OK)
        code = bench_read(&run->results->reads, run->results->engine.model,
                          run->results->origin.threads);
    for (int32_t i = 0; i < run->results->repeats && code == RIFFLE_OK; i++) {
        code = plain_measure_round(run, figures, (size_t)i);
        if (code == RIFFLE_OK)
            code = bench_read(&run->results->reads, run->results->engine.model,
                              run->results->origin.threads);
        if (code != RIFFLE_OK) break;
        decode->of_read[i] = 100 * decode->values[i] * bytes_of_token(run, decode) /
                             bench_reads_around(&run->results->reads);
        code = plain_show_progress(run, depth, i + 1);
    }
    progress_clear(&run->progress);
    return code;
}

static int plain_measure(struct plain_run *run)
{
    riffle_stats stats;
    int code = riffle_session_get_stats(run->results->engine.session, &stats, sizeof stats);
    int status =
        code == RIFFLE_OK ? origin_take(&run->results->origin, stats.threads) : cli_status(code);
    size_t length =
        (size_t)run->depths[run->n_depths - 1] + (size_t)run->prompts[run->n_prompts - 1];
    if (status == CLI_OK) status = bench_text(&run->results->engine, length, &run->tokens);
    if (status != CLI_OK) return status;
    size_t each = run->n_figures / run->n_depths;
    for (size_t i = 0; i < run->n_figures && code == RIFFLE_OK; i += each)
        code = plain_measure_depth(run, &run->figures[i]);
    return cli_status(code);
}

static int plain_open_and_measure(struct plain_run *run)
{
    struct cli_options plain = *run->options;
    struct engine *engine = &run->results->engine;
    int64_t needed = plain_context(run);
    plain.chain = "none";
    int status = engine_open_model(engine, &plain, 0);
    if (status != CLI_OK) return status;
    int32_t trained = engine->info.n_ctx_train;
    if (!plain.n_ctx && needed > trained) {
        status = cli_fail("the greatest --depth, the prompts, --gen and the passes take %lld "
                          "tokens; the model was trained on %d",
                          (long long)needed, trained);
        engine_close(engine);
        return status;
    }
    status = engine_begin_session(engine, &plain, plain.n_ctx ? plain.n_ctx : (int)needed);
    if (status != CLI_OK) return status;
    add_figures(run);
    return plain_measure(run);
}

static struct bench_spread spread_of(double *values, size_t n)
{
    double median = rf_median(values, n); /* sorts them */
    return (struct bench_spread){median, rf_quantile(values, n, 0.25),
                                 rf_quantile(values, n, 0.75)};
}

/* The medians and quartiles of all figures. */
static void take_spreads(const struct plain_run *run)
{
    struct bench_plain *results = run->results;
    size_t n = (size_t)results->repeats;
    results->n_depths = run->n_depths;
    results->n_figures = run->n_figures;
    results->figures = cli_allocate(run->n_figures, sizeof *results->figures);
    for (size_t i = 0; i < run->n_figures; i++) {
        const struct round_values *figure = &run->figures[i];
        results->figures[i] = (struct bench_figure){.kind = figure->kind,
                                                    .depth = figure->depth,
                                                    .tokens = figure->tokens,
                                                    .value = spread_of(figure->values, n)};
        if (figure->of_read) results->figures[i].of_read = spread_of(figure->of_read, n);
    }
}

int bench_plain_measure(struct bench_plain *results, const struct cli_options *options)
{
    struct plain_run run = {.results = results};
    *results = (struct bench_plain){0};
    int status = plain_choose(&run, options);
    if (status == CLI_OK) status = plain_open_and_measure(&run);
    if (status == CLI_OK) take_spreads(&run);
    for (size_t i = 0; i < run.n_figures; i++) {
        free(run.figures[i].values);
        free(run.figures[i].of_read);
    }
    free(run.figures);
    free(run.prompts);
    free(run.depths);
    free(run.tokens);
    return status;
}

void bench_plain_free(struct bench_plain *results)
{
    engine_close(&results->engine);
    bench_reads_free(&results->reads);
    free(results->figures);
}
