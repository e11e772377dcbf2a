/* Speed against the machine's memory bandwidth. Clocks and other load change within seconds, so the
 * bandwidth is measured before and after each round of passes. A round's figure is a ratio to the
 * mean of the two; medians and quartiles of the rounds are shown. */
#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "bench/bench.h"
#include "options/numbers.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/progress.h"
#include "platform/terminal.h"

enum { PROMPT_TOKENS = 128, DECODE_TOKENS = 24, SPARE_TOKENS = 16, REPEATS = 5, PASSES = 3 };

static const char prompt_text[] =
    "A riffle is a shallow stretch of a river where the water runs fast over stones. The stream "
    "breaks into small waves, takes up air, and clears. Anglers like such places, because trout "
    "wait behind the larger stones for what the current brings. A pool lies below each riffle, "
    "deep and slow; there the river drops the gravel that it carried and begins to cut a new bank. "
    "Seen from a hill, pools and riffles follow each other at even distances, about five to seven "
    "times the width of the bed. Nobody laid them out: they come from the water's own pace. ";

const int32_t bench_pass_rows[BENCH_PASS_SIZES] = {1, 2, 4, 8, 16};

int bench_passes(riffle_session *session, int32_t context, double seconds[BENCH_PASS_SIZES])
{
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        double values[PASSES];
        for (int pass = 0; pass < PASSES; pass++) {
            if (rf_interrupts() > 0) return RIFFLE_ERR_CANCELLED;
            int code = riffle_measure_pass(session, bench_pass_rows[r], context, 1, &values[pass]);
            if (code < 0) return code;
        }
        seconds[r] = rf_median(values, PASSES);
    }
    return RIFFLE_OK;
}

/* ---- the ceiling ---- */

int bench_read(struct bench_reads *reads, const riffle_model *model, int32_t threads)
{
    riffle_read_speed speed;
    int code = riffle_measure_model_read(model, threads, &speed, sizeof speed);
    if (code < 0) return code;
    reads->values = cli_reallocate(reads->values, reads->count + 1, sizeof *reads->values);
    reads->values[reads->count++] = speed.bytes_per_second;
    snprintf(reads->pattern, sizeof reads->pattern, "%s", speed.pattern);
    return RIFFLE_OK;
}

double bench_reads_around(const struct bench_reads *reads)
{
    return (reads->values[reads->count - 2] + reads->values[reads->count - 1]) / 2;
}

double bench_reads_median(const struct bench_reads *reads)
{
    double *values = cli_allocate(reads->count, sizeof *values);
    for (size_t i = 0; i < reads->count; i++) values[i] = reads->values[i];
    double median = rf_median(values, reads->count);
    free(values);
    return median;
}

void bench_notes(const struct bench_reads *reads, double percent, uint64_t bytes,
                 struct buffer *notes)
{
    double best = 0;
    for (size_t i = 0; i < reads->count; i++)
        if (reads->values[i] > best) best = reads->values[i];
    if (ceiling_moved(bench_reads_median(reads), best))
        buffer_printf(notes, "%s\n", ceilings_moved_note);
    if (!is_over_ceiling(percent)) return;
    buffer_puts(notes, "decoding reaches ");
    over_ceiling_note(percent, bytes, notes);
    buffer_puts(notes, "\n");
}

/* ---- what is measured ---- */

static int by_size(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* The numbers of a list upwards, without repetitions; `otherwise` if it is not given. */
static int take_list(const char *option, const char *list, int32_t least, int32_t otherwise,
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
static int64_t context_of(const struct bench_plain *bench)
{
    int64_t prompt = bench->prompts[bench->n_prompts - 1],
            after = (int64_t)bench->prompts[0] + 1 + bench->n_gen;
    return bench->depths[bench->n_depths - 1] + (prompt > after ? prompt : after) +
           bench_pass_rows[BENCH_PASS_SIZES - 1] + SPARE_TOKENS;
}

/* Decides on the figures. CLI_OK or CLI_USAGE. */
static int choose(struct bench_plain *bench, const struct cli_options *options)
{
    bench->options = options;
    bench->n_gen = options->n_gen ? options->n_gen : DECODE_TOKENS;
    bench->repeats = options->repeats ? options->repeats : REPEATS;
    int status = take_list("--prompt-tokens", options->prompt_tokens, 1, PROMPT_TOKENS,
                           &bench->prompts, &bench->n_prompts);
    if (status == CLI_OK)
        status = take_list("--depth", options->depths, 0, 0, &bench->depths, &bench->n_depths);
    if (status != CLI_OK) return status;
    int64_t needed = context_of(bench);
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

static void add_figure(struct bench_plain *bench, enum bench_kind kind, int32_t depth,
                       int32_t tokens)
{
    size_t n = (size_t)bench->repeats;
    struct bench_figure figure = {.kind = kind, .depth = depth, .tokens = tokens};
    figure.values = cli_allocate(n, sizeof *figure.values);
    if (kind == BENCH_DECODE) figure.of_read = cli_allocate(n, sizeof *figure.of_read);
    bench->figures = cli_reallocate(bench->figures, bench->n_figures + 1, sizeof *bench->figures);
    bench->figures[bench->n_figures++] = figure;
}

static void add_figures(struct bench_plain *bench)
{
    for (size_t d = 0; d < bench->n_depths; d++) {
        int32_t depth = bench->depths[d];
        for (size_t p = 0; p < bench->n_prompts; p++)
            add_figure(bench, BENCH_PROMPT, depth, bench->prompts[p]);
        add_figure(bench, BENCH_DECODE, depth, bench->n_gen);
        for (int r = 0; r < BENCH_PASS_SIZES; r++)
            add_figure(bench, BENCH_PASS, depth, bench_pass_rows[r]);
    }
}

/* Repeats an English text to the length of the longest context and prompt. */
static int make_tokens(struct bench_plain *bench)
{
    size_t length =
        (size_t)bench->depths[bench->n_depths - 1] + (size_t)bench->prompts[bench->n_prompts - 1];
    int32_t *text;
    int64_t n = engine_tokenize(&bench->engine, prompt_text, sizeof prompt_text - 1,
                                RIFFLE_TOKENIZE_BOS, &text);
    bench->tokens = cli_allocate(length, sizeof *bench->tokens);
    for (size_t i = 0; i < length && n > 0; i++) bench->tokens[i] = text[i % (size_t)n];
    free(text);
    return n ? cli_status(n) : cli_fail("the model's tokenizer makes no token of an English text");
}

/* ---- measuring ---- */

/* Reads a prompt after `depth` tokens and decodes as a user sees it. 0 or a code of the library. */
static int read_and_decode(struct bench_plain *bench, int32_t depth, int32_t prompt,
                           int32_t n_decoded, riffle_stats *stats)
{
    riffle_session *session = bench->engine.session;
    riffle_generate_options generate;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = 1 + n_decoded; /* the prompt's last pass gives the first token */
    generate.ignore_eos = 1;
    generate.ignore_repetition = 1;

    int code = riffle_rewind(session, depth);
    /* A cache that quantises may have to read some of it again, which is not to be measured. */
    if (code == RIFFLE_OK) code = riffle_prefill(session, NULL, 0);
    riffle_session_reset_stats(session);
    if (code == RIFFLE_OK) code = riffle_prefill(session, bench->tokens + depth, (size_t)prompt);
    progress_clear(&bench->engine.progress);
    int64_t n = code == RIFFLE_OK ? riffle_generate(session, &generate, NULL, NULL) : code;
    return n < 0 ? (int)n : riffle_session_get_stats(session, stats, sizeof *stats);
}

/* The figures of one depth, from `figures` on, in one round. 0 or a code of the library. */
static int measure_round(struct bench_plain *bench, struct bench_figure *figures, size_t round)
{
    riffle_session *session = bench->engine.session;
    riffle_stats stats;
    double seconds[BENCH_PASS_SIZES];
    struct bench_figure *decode = figures + bench->n_prompts, *passes = decode + 1;
    int32_t depth = figures->depth, first = bench->prompts[0];
    /* Decoding follows the shortest prompt, which is therefore the last one to be read. */
    for (size_t p = bench->n_prompts; p-- > 0;) {
        int code = read_and_decode(bench, depth, bench->prompts[p], p ? 0 : bench->n_gen, &stats);
        if (code != RIFFLE_OK) return code;
        figures[p].values[round] = tokens_per_second(stats.prefill_tokens, stats.prefill_seconds);
    }
    decode->values[round] = tokens_per_second((uint64_t)bench->n_gen, stats.decode_seconds);
    int code = riffle_rewind(session, depth + first);
    if (code == RIFFLE_OK) code = bench_passes(session, depth + first, seconds);
    for (int r = 0; r < BENCH_PASS_SIZES && code == RIFFLE_OK; r++)
        passes[r].values[round] = seconds[r];
    return code;
}

/* Bytes that each token of a figure of decoding reads: weights, keys and values. */
static double bytes_of_token(const struct bench_plain *bench, const struct bench_figure *decode)
{
    const riffle_model_info *info = &bench->engine.info;
    double positions = decode->depth + bench->prompts[0] + decode->tokens / 2.0;
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.kv = bench->options->kv;
    options.n_ctx = riffle_session_n_ctx(bench->engine.session);
    uint64_t kv_bytes = 0;
    riffle_session_cost(bench->engine.model, &options, NULL, &kv_bytes);
    return (double)info->weight_bytes + (double)kv_bytes / options.n_ctx * positions;
}

static int show_progress(struct bench_plain *bench, int32_t depth, int32_t round)
{
    char note[64];
    snprintf(note, sizeof note, "depth %d, round %d of %d", depth, round, bench->repeats);
    return progress_update_note(&bench->progress, "measuring", ++bench->rounds_done,
                                (uint64_t)bench->repeats * bench->n_depths, note)
               ? RIFFLE_ERR_CANCELLED
               : RIFFLE_OK;
}

/* All rounds of a depth. 0 or a code of the library. */
static int measure_depth(struct bench_plain *bench, struct bench_figure *figures)
{
    riffle_session *session = bench->engine.session;
    struct bench_figure *decode = figures + bench->n_prompts;
    int32_t depth = figures->depth, held = riffle_session_tokens(session, NULL);
    /* A round of a smaller depth has left a prompt. */
    int code = held > depth ? riffle_rewind(session, depth) : RIFFLE_OK;
    if (code == RIFFLE_OK && held < depth)
        code = riffle_prefill(session, bench->tokens + held, (size_t)(depth - held));
    progress_clear(&bench->engine.progress);
    /* The first round warms everything up and is not counted. */
    if (code == RIFFLE_OK) code = measure_round(bench, figures, 0);
    if (code == RIFFLE_OK)
        code = bench_read(&bench->reads, bench->engine.model, bench->origin.threads);
    for (int32_t i = 0; i < bench->repeats && code == RIFFLE_OK; i++) {
        code = measure_round(bench, figures, (size_t)i);
        if (code == RIFFLE_OK)
            code = bench_read(&bench->reads, bench->engine.model, bench->origin.threads);
        if (code != RIFFLE_OK) break;
        decode->of_read[i] = 100 * decode->values[i] * bytes_of_token(bench, decode) /
                             bench_reads_around(&bench->reads);
        code = show_progress(bench, depth, i + 1);
    }
    progress_clear(&bench->progress);
    return code;
}

static int measure(struct bench_plain *bench)
{
    riffle_stats stats;
    int code = riffle_session_get_stats(bench->engine.session, &stats, sizeof stats);
    int status = code == RIFFLE_OK ? origin_take(&bench->origin, stats.threads) : cli_status(code);
    if (status == CLI_OK) status = make_tokens(bench);
    if (status != CLI_OK) return status;
    size_t each = bench->n_figures / bench->n_depths;
    for (size_t i = 0; i < bench->n_figures && code == RIFFLE_OK; i += each)
        code = measure_depth(bench, &bench->figures[i]);
    return cli_status(code);
}

static int open_and_measure(struct bench_plain *bench)
{
    struct cli_options plain = *bench->options;
    int64_t needed = context_of(bench);
    plain.chain = "none";
    int status = engine_open_model(&bench->engine, &plain, 0);
    if (status != CLI_OK) return status;
    int32_t trained = bench->engine.info.n_ctx_train;
    if (!plain.n_ctx && needed > trained) {
        status = cli_fail("the greatest --depth, the prompts, --gen and the passes take %lld "
                          "tokens; the model was trained on %d",
                          (long long)needed, trained);
        engine_close(&bench->engine);
        return status;
    }
    status = engine_begin_session(&bench->engine, &plain, plain.n_ctx ? plain.n_ctx : (int)needed);
    if (status != CLI_OK) return status;
    add_figures(bench);
    status = measure(bench);
    if (status == CLI_OK) bench_report(bench);
    engine_close(&bench->engine);
    return status;
}

int verb_bench(const struct cli_options *options)
{
    if (options->suite) return bench_suite(options);
    struct bench_plain bench = {0};
    int status = choose(&bench, options);
    if (status == CLI_OK) status = open_and_measure(&bench);
    for (size_t i = 0; i < bench.n_figures; i++) {
        free(bench.figures[i].values);
        free(bench.figures[i].of_read);
    }
    free(bench.figures);
    free(bench.prompts);
    free(bench.depths);
    free(bench.tokens);
    free(bench.reads.values);
    return status;
}
