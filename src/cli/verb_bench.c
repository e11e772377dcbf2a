/* Speed against the machine's memory bandwidth. Clocks and other load change within seconds, so the
 * bandwidth is measured before and after each round of passes. A round's figure is a ratio to the
 * mean of the two, and the median of the rounds is shown. */
#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "riffle_experimental.h"

enum { PROMPT_TOKENS = 128, DECODE_TOKENS = 24, SESSION_TOKENS = 512, REPEATS = 5 };

static const char prompt_text[] =
    "A riffle is a shallow stretch of a river where the water runs fast over stones. The stream "
    "breaks into small waves, takes up air, and clears. Anglers like such places, because trout "
    "wait behind the larger stones for what the current brings. A pool lies below each riffle, "
    "deep and slow; there the river drops the gravel that it carried and begins to cut a new bank. "
    "Seen from a hill, pools and riffles follow each other at even distances, about five to seven "
    "times the width of the bed. Nobody laid them out: they come from the water's own pace. ";

/* The figures of a round. */
enum figure {
    READ,
    DECODE_TPS,
    PREFILL_TPS,
    PERCENT_OF_READ,
    PASS,
    FIGURES = PASS + BENCH_PASS_SIZES
};

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
    figures[DECODE_TPS] = tokens_per_second(DECODE_TOKENS, stats.decode_seconds);
    return bench_passes(session, PROMPT_TOKENS, &figures[PASS]);
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

static void print_json(const struct engine *engine, const struct bench_plain *plain)
{
    struct json_writer json = {0};
    jw_put(&json, "{");
    bench_write_plain(&json, engine, plain);
    jw_put(&json, "rows [ ] summary [ ] }");
    jw_print(&json);
}

static void print_text(const struct engine *engine, const struct bench_plain *plain)
{
    char bytes[32];
    print_name(stdout, engine_model_name(engine));
    printf(", weights %s, %s\n", engine->info.weights,
           human_bytes(engine->info.weight_bytes, bytes));
    printf("machine   %s, %d thread%s, reads memory at %.1f GB/s\n", plain->cpu, plain->threads,
           plural(plain->threads), plain->read / 1e9);
    printf("prefill   %.1f tokens/s (%d tokens)\n", plain->prefill_tps, PROMPT_TOKENS);
    printf("decode    %.2f tokens/s, %.1f %% of the read bandwidth\n", plain->decode_tps,
           plain->percent_of_read);
    for (int r = 0; r < BENCH_PASS_SIZES; r++)
        printf("pass      %2d row%s %8.2f ms\n", bench_pass_rows[r],
               bench_pass_rows[r] == 1 ? " " : "s", 1e3 * plain->pass_seconds[r]);
}

static void print(const struct engine *engine, const riffle_machine *machine, int32_t threads,
                  double (*rounds)[FIGURES], size_t n, int as_json)
{
    double medians[FIGURES], *values = cli_allocate(n, sizeof *values);
    for (int f = 0; f < FIGURES; f++) {
        for (size_t i = 0; i < n; i++) values[i] = rounds[i][f];
        medians[f] = rf_median(values, n);
    }
    free(values);
    const struct bench_plain plain = {.cpu = machine->cpu,
                                      .threads = threads,
                                      .read = medians[READ],
                                      .decode_tps = medians[DECODE_TPS],
                                      .prefill_tps = medians[PREFILL_TPS],
                                      .percent_of_read = medians[PERCENT_OF_READ],
                                      .first_token_seconds = -1,
                                      .pass_seconds = &medians[PASS]};
    if (as_json)
        print_json(engine, &plain);
    else
        print_text(engine, &plain);
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
    if (status == CLI_OK) print(&engine, &machine, stats.threads, rounds, (size_t)n, options->json);
    free(rounds);
    engine_close(&engine);
    return status;
}
