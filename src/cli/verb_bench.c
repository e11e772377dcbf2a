/* Speed against the machine's memory bandwidth. Clocks and other load change within seconds, so the
 * bandwidth is measured before and after each round of passes. A round's figure is a ratio to the
 * mean of the two, and the median of the rounds is shown. */
#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "cli/bench.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

enum { PROMPT_TOKENS = 128, DECODE_TOKENS = 24, SESSION_TOKENS = 512, REPEATS = 5, PASSES = 3 };

static const char prompt_text[] =
    "A riffle is a shallow stretch of a river where the water runs fast over stones. The stream "
    "breaks into small waves, takes up air, and clears. Anglers like such places, because trout "
    "wait behind the larger stones for what the current brings. A pool lies below each riffle, "
    "deep and slow; there the river drops the gravel that it carried and begins to cut a new bank. "
    "Seen from a hill, pools and riffles follow each other at even distances, about five to seven "
    "times the width of the bed. Nobody laid them out: they come from the water's own pace. ";

/* Rows of the passes that are timed. */
static const int32_t pass_rows[BENCH_PASS_SIZES] = {1, 2, 4, 8, 16};

int bench_passes(riffle_session *session, int32_t context, double figures[FIGURES])
{
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        double values[PASSES];
        for (int pass = 0; pass < PASSES; pass++) {
            if (rf_interrupts() > 0) return RIFFLE_ERR_CANCELLED;
            int code = riffle_measure_pass(session, pass_rows[r], context, 1, &values[pass]);
            if (code < 0) return code;
        }
        figures[PASS + r] = rf_median(values, PASSES);
    }
    return RIFFLE_OK;
}

void bench_write_plain(struct json_writer *json, const struct engine *engine, const char *cpu,
                       int32_t threads, const double figures[FIGURES])
{
    engine_write(engine, json, cpu, threads, figures[READ]);
    jw_put(json, "plain { decode_tps %g prefill_tps %g percent_of_read %g", figures[DECODE_TPS],
           figures[PREFILL_TPS], figures[PERCENT_OF_READ]);
    if (figures[FIRST_TOKEN] >= 0) jw_put(json, "first_token_s %g", figures[FIRST_TOKEN]);
    jw_put(json, "pass_seconds {");
    for (int r = 0; r < BENCH_PASS_SIZES; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", pass_rows[r]);
        jw_number(json, key, figures[PASS + r]);
    }
    jw_put(json, "} }");
}

/* Repeats the prompt's tokens to exactly PROMPT_TOKENS. */
static int make_prompt(const struct engine *engine, int32_t prompt[PROMPT_TOKENS])
{
    int32_t *tokens;
    int64_t n =
        engine_tokenize(engine, prompt_text, sizeof prompt_text - 1, RIFFLE_TOKENIZE_BOS, &tokens);
    for (int i = 0; i < PROMPT_TOKENS && n > 0; i++) prompt[i] = tokens[i % n];
    free(tokens);
    return n ? cli_status(n) : cli_fail("the model's tokenizer makes no token of an English text");
}

/* Measures prefill and decoding as a user sees them, then single passes. 0 or a code of the
 * library. */
static int measure_round(struct engine *engine, const int32_t *prompt, double figures[FIGURES])
{
    riffle_session *session = engine->session;
    riffle_generate_options generate;
    riffle_stats stats;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = 1 + DECODE_TOKENS; /* the prompt's last pass gives the first token */
    generate.ignore_eos = 1;
    generate.ignore_repetition = 1;

    int code = riffle_rewind(session, 0);
    riffle_session_reset_stats(session);
    if (code == RIFFLE_OK) code = riffle_prefill(session, prompt, PROMPT_TOKENS);
    progress_clear(&engine->progress);
    int64_t n = code == RIFFLE_OK ? riffle_generate(session, &generate, NULL, NULL) : code;
    if (n < 0) return (int)n;
    code = riffle_session_get_stats(session, &stats, sizeof stats);
    if (code == RIFFLE_OK) code = riffle_rewind(session, PROMPT_TOKENS);
    if (code != RIFFLE_OK) return code;
    figures[PREFILL_TPS] = tokens_per_second(stats.prefill_tokens, stats.prefill_seconds);
    figures[FIRST_TOKEN] = -1;
    figures[DECODE_TPS] = tokens_per_second(DECODE_TOKENS, stats.decode_seconds);
    return bench_passes(session, PROMPT_TOKENS, figures);
}

/* 0 or a code of the library. */
static int measure_rounds(struct engine *engine, const int32_t *prompt, int32_t threads,
                          double (*rounds)[FIGURES], int32_t n)
{
    struct progress_line progress = {0};
    double before, after;
    /* The first round warms everything up and is not counted. */
    int code = measure_round(engine, prompt, rounds[0]);
    if (code == RIFFLE_OK) code = riffle_measure_read(threads, &before);
    for (int32_t i = 0; i < n && code == RIFFLE_OK; i++) {
        char note[32];
        double *figures = rounds[i];
        code = measure_round(engine, prompt, figures);
        if (code == RIFFLE_OK) code = riffle_measure_read(threads, &after);
        if (code != RIFFLE_OK) break;
        figures[READ] = (before + after) / 2;
        figures[PERCENT_OF_READ] =
            100 * figures[DECODE_TPS] * (double)engine->info.weight_bytes / figures[READ];
        before = after;
        snprintf(note, sizeof note, "round %d of %d", i + 1, n);
        if (progress_update_note(&progress, "measuring", (uint64_t)i + 1, (uint64_t)n, note))
            code = RIFFLE_ERR_CANCELLED;
    }
    progress_clear(&progress);
    return code;
}

static void print_json(const struct engine *engine, const char *cpu, int32_t threads,
                       const double figures[FIGURES])
{
    struct json_writer json = {0};
    jw_put(&json, "{");
    bench_write_plain(&json, engine, cpu, threads, figures);
    jw_put(&json, "rows [ ] summary [ ] }");
    jw_print(&json);
}

static void print_text(const struct engine *engine, const char *cpu, int32_t threads,
                       const double figures[FIGURES])
{
    char bytes[32];
    print_name(stdout, engine_model_name(engine));
    printf(", weights %s, %s\n", engine->info.weights,
           human_bytes(engine->info.weight_bytes, bytes));
    printf("machine   %s, %d thread%s, reads memory at %.1f GB/s\n", cpu, threads, plural(threads),
           figures[READ] / 1e9);
    printf("prefill   %.1f tokens/s (%d tokens)\n", figures[PREFILL_TPS], PROMPT_TOKENS);
    printf("decode    %.2f tokens/s, %.1f %% of the read bandwidth\n", figures[DECODE_TPS],
           figures[PERCENT_OF_READ]);
    for (int r = 0; r < BENCH_PASS_SIZES; r++)
        printf("pass      %2d row%s %8.2f ms\n", pass_rows[r], pass_rows[r] == 1 ? " " : "s",
               1e3 * figures[PASS + r]);
}

static void take_medians(double (*rounds)[FIGURES], size_t n, double medians[FIGURES])
{
    double *values = cli_allocate(n, sizeof *values);
    for (int f = 0; f < FIGURES; f++) {
        for (size_t i = 0; i < n; i++) values[i] = rounds[i][f];
        medians[f] = rf_median(values, n);
    }
    free(values);
}

int verb_bench(const struct cli_options *options)
{
    if (options->suite) return bench_suite(options);
    struct cli_options plain = *options;
    struct engine engine;
    riffle_machine machine;
    riffle_stats stats;
    int32_t prompt[PROMPT_TOKENS], n = options->repeats ? options->repeats : REPEATS;
    plain.chain = "none";
    int status = engine_open_session(&engine, &plain, SESSION_TOKENS);
    if (status != CLI_OK) return status;

    double(*rounds)[FIGURES] = cli_allocate((size_t)n, sizeof *rounds);
    status = make_prompt(&engine, prompt);
    if (status == CLI_OK) {
        int code = riffle_machine_get(&machine, sizeof machine);
        if (code == RIFFLE_OK)
            code = riffle_session_get_stats(engine.session, &stats, sizeof stats);
        if (code == RIFFLE_OK) code = measure_rounds(&engine, prompt, stats.threads, rounds, n);
        status = cli_status(code);
    }
    if (status == CLI_OK) {
        double figures[FIGURES];
        take_medians(rounds, (size_t)n, figures);
        if (options->json)
            print_json(&engine, machine.cpu, stats.threads, figures);
        else
            print_text(&engine, machine.cpu, stats.threads, figures);
    }
    free(rounds);
    engine_close(&engine);
    return status;
}
