/* Speed against the machine's memory bandwidth. Clocks and other load change within seconds, so the
 * bandwidth is measured before and after each round of passes. A round's figure is a ratio to the
 * mean of the two, and the median of the rounds is shown. */
#include <stdio.h>
#include <stdlib.h>

#include "base/median.h"
#include "cli/bench_plain.h"
#include "cli/bench_suite.h"
#include "cli/buffer.h"
#include "cli/cli.h"
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

/* One value for each round. */
enum series {
    READ,
    DECODE_TPS,
    PREFILL_TPS,
    PERCENT_OF_READ,
    PASS,
    SERIES = PASS + BENCH_PASS_SIZES
};
struct rounds {
    int32_t count;
    double *values[SERIES];
};

/* Repeats the prompt's tokens to exactly PROMPT_TOKENS. */
static int make_prompt(const struct engine *engine, int32_t prompt[PROMPT_TOKENS])
{
    size_t n;
    int32_t *tokens =
        engine_tokenize(engine, prompt_text, sizeof prompt_text - 1, RIFFLE_TOKENIZE_BOS, &n);
    if (!tokens) return CLI_FAILED;
    for (size_t i = 0; i < PROMPT_TOKENS && n; i++) prompt[i] = tokens[i % n];
    free(tokens);
    return n ? CLI_OK : cli_fail("the model's tokenizer makes no token of an English text");
}

/* Measures prefill and decoding as a user sees them, then single passes. 0 or a code of the
 * library. */
static int measure_round(struct engine *engine, const int32_t *prompt, struct rounds *rounds,
                         int32_t i)
{
    riffle_session *session = engine->session;
    riffle_generate_options generate;
    riffle_stats stats;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = 1 + DECODE_TOKENS; /* the prompt's last pass gives the first token */
    generate.ignore_eos = 1;

    int code = riffle_rewind(session, 0);
    if (code < 0) return code;
    riffle_session_reset_stats(session);
    code = riffle_prefill(session, prompt, PROMPT_TOKENS);
    progress_clear(&engine->progress);
    if (code < 0) return code;
    int64_t n = riffle_generate(session, &generate, NULL, NULL);
    if (n < 0) return (int)n;
    code = riffle_session_get_stats(session, &stats, sizeof stats);
    if (code < 0) return code;
    rounds->values[PREFILL_TPS][i] = tokens_per_second(stats.prefill_tokens, stats.prefill_seconds);
    rounds->values[DECODE_TPS][i] = tokens_per_second(DECODE_TOKENS, stats.decode_seconds);
    code = riffle_rewind(session, PROMPT_TOKENS);
    if (code < 0) return code;
    double seconds[BENCH_PASS_SIZES];
    code = bench_passes(session, PROMPT_TOKENS, seconds);
    for (int r = 0; r < BENCH_PASS_SIZES && code == RIFFLE_OK; r++)
        rounds->values[PASS + r][i] = seconds[r];
    return code;
}

static int measure(struct engine *engine, struct rounds *rounds)
{
    int32_t prompt[PROMPT_TOKENS];
    struct progress_line progress = {0};
    double before, after;
    riffle_stats stats;
    int status = make_prompt(engine, prompt);
    if (status != CLI_OK) return status;

    /* The first round warms everything up and is not counted. */
    int code = measure_round(engine, prompt, rounds, 0);
    if (code == RIFFLE_OK) code = riffle_session_get_stats(engine->session, &stats, sizeof stats);
    if (code == RIFFLE_OK) code = riffle_measure_read(stats.threads, &before);
    for (int32_t i = 0; i < rounds->count && code == RIFFLE_OK; i++) {
        char note[32];
        code = measure_round(engine, prompt, rounds, i);
        if (code == RIFFLE_OK) code = riffle_measure_read(stats.threads, &after);
        if (code != RIFFLE_OK) break;
        rounds->values[READ][i] = (before + after) / 2;
        rounds->values[PERCENT_OF_READ][i] = 100 * rounds->values[DECODE_TPS][i] *
                                             (double)engine->info.weight_bytes /
                                             rounds->values[READ][i];
        before = after;
        snprintf(note, sizeof note, "round %d of %d", i + 1, rounds->count);
        if (progress_update_note(&progress, "measuring", (uint64_t)i + 1, (uint64_t)rounds->count,
                                 note))
            code = RIFFLE_ERR_CANCELLED;
    }
    progress_clear(&progress);
    return code == RIFFLE_OK ? CLI_OK : cli_library_failed(code);
}

static void print_json(const struct engine *engine, const struct bench_plain *plain)
{
    struct json_writer json = {0};
    jw_object(&json, NULL);
    bench_write_plain(&json, engine, plain);
    jw_array(&json, "rows");
    jw_end_array(&json);
    jw_array(&json, "summary");
    jw_end_array(&json);
    jw_end_object(&json);
    jw_print(&json);
}

static void print_text(const struct engine *engine, const struct bench_plain *plain)
{
    char bytes[32];
    print_name(stdout, engine_model_name(engine));
    printf(", weights %s, %s\n", engine->info.weights,
           human_bytes(engine->info.weight_bytes, bytes));
    printf("machine   %s, %d thread%s, reads memory at %.1f GB/s\n", plain->cpu, plain->threads,
           plain->threads == 1 ? "" : "s", plain->read / 1e9);
    printf("prefill   %.1f tokens/s (%d tokens)\n", plain->prefill_tps, PROMPT_TOKENS);
    printf("decode    %.2f tokens/s, %.1f %% of the read bandwidth\n", plain->decode_tps,
           plain->percent_of_read);
    for (int r = 0; r < BENCH_PASS_SIZES; r++)
        printf("pass      %2d row%s %8.2f ms\n", bench_pass_rows[r],
               bench_pass_rows[r] == 1 ? " " : "s", 1e3 * plain->pass_seconds[r]);
}

static void print(const struct engine *engine, struct rounds *rounds, const char *cpu,
                  int32_t threads, int as_json)
{
    double medians[SERIES];
    for (int s = 0; s < SERIES; s++)
        medians[s] = rf_median(rounds->values[s], (size_t)rounds->count);
    const struct bench_plain plain = {.cpu = cpu,
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
    plain.chain = "none";
    int status = engine_open_session(&engine, &plain, SESSION_TOKENS);
    if (status != CLI_OK) return status;

    struct rounds rounds = {.count = options->repeats ? options->repeats : REPEATS};
    for (int s = 0; s < SERIES; s++)
        rounds.values[s] = cli_allocate((size_t)rounds.count, sizeof *rounds.values[s]);
    status = measure(&engine, &rounds);
    if (status == CLI_OK) {
        int code = riffle_machine_get(&machine, sizeof machine);
        if (code == RIFFLE_OK)
            code = riffle_session_get_stats(engine.session, &stats, sizeof stats);
        if (code != RIFFLE_OK)
            status = cli_library_failed(code);
        else
            print(&engine, &rounds, machine.cpu, stats.threads, options->json);
    }
    for (int s = 0; s < SERIES; s++) free(rounds.values[s]);
    engine_close(&engine);
    return status;
}
