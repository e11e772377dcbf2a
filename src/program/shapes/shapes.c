/* Measures shapes: one round warms up, as in llama-bench, and each further one is a sample. */
#include "shapes/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plain.h"
#include "output/errors.h"
#include "platform/terminal.h"

enum { PROMPT_TOKENS = 512, GEN_TOKENS = 128, SPARE_TOKENS = 16, REPEATS = 5 };

/* The five categories that MLPerf Client requires (github.com/mlcommons/mlperf_client). The lengths
 * are nominal, of about its prompts and answers: its own texts are not in this program. */
static const struct shape mlperf[] = {{"content generation", 128, 256, 0, NULL, NULL},
                                      {"creative writing", 512, 512, 0, NULL, NULL},
                                      {"summarization, light", 1024, 128, 0, NULL, NULL},
                                      {"summarization, moderate", 1566, 256, 0, NULL, NULL},
                                      {"code analysis", 2059, 128, 0, NULL, NULL}};

/* ---- what is measured ---- */

static void add_shape(struct shapes *shapes, struct shape shape)
{
    size_t n = (size_t)shapes->repeats;
    shape.prompt_seconds = cli_allocate(n, sizeof *shape.prompt_seconds);
    shape.gen_seconds = cli_allocate(n, sizeof *shape.gen_seconds);
    memset(shape.prompt_seconds, 0, n * sizeof *shape.prompt_seconds);
    memset(shape.gen_seconds, 0, n * sizeof *shape.gen_seconds);
    shapes->items = cli_reallocate(shapes->items, shapes->count + 1, sizeof *shapes->items);
    shapes->items[shapes->count++] = shape;
}

/* Each prompt and the answer have a row of their own, at each depth (--format). */
static int add_listed(struct shapes *shapes, const struct cli_options *options)
{
    int32_t *prompts = NULL, *depths = NULL;
    size_t n_prompts = 0, n_depths = 0;
    int status = bench_take_list("--prompt-tokens", options->prompt_tokens, 1, PROMPT_TOKENS,
                                 &prompts, &n_prompts);
    if (status == CLI_OK)
        status = bench_take_list("--depth", options->depths, 0, 0, &depths, &n_depths);
    int32_t gen = options->n_gen ? options->n_gen : GEN_TOKENS;
    for (size_t d = 0; status == CLI_OK && d < n_depths; d++) {
        for (size_t p = 0; p < n_prompts; p++)
            add_shape(shapes, (struct shape){.prompt = prompts[p], .depth = depths[d]});
        add_shape(shapes, (struct shape){.gen = gen, .depth = depths[d]});
    }
    free(prompts);
    free(depths);
    return status;
}

static int64_t tokens_of(const struct shape *shape)
{
    return (int64_t)shape->depth + (shape->prompt ? shape->prompt : 1);
}

/* Tokens of the longest text without its answer, and with it. */
static void count_tokens(const struct shapes *shapes, int64_t *text, int64_t *context)
{
    *text = *context = 0;
    for (size_t i = 0; i < shapes->count; i++) {
        int64_t n = tokens_of(&shapes->items[i]);
        if (n > *text) *text = n;
        n += shapes->items[i].gen + 1 + SPARE_TOKENS;
        if (n > *context) *context = n;
    }
}

/* ---- measuring ---- */

/* One sample of a shape. 0 or a code of the library. */
static int measure_once(struct shapes *shapes, struct shape *shape, const int32_t *tokens, int at)
{
    riffle_session *session = shapes->engine.session;
    riffle_generate_options generate;
    riffle_stats stats;
    riffle_generate_options_init(&generate, sizeof generate);
    generate.max_tokens = 1 + shape->gen; /* the prompt's last pass gives the first token */
    generate.ignore_eos = 1;
    generate.ignore_repetition = 1;

    if (rf_interrupts() > 0) return RIFFLE_ERR_CANCELLED;
    int32_t held = riffle_session_tokens(session, NULL), prompt = shape->prompt ? shape->prompt : 1;
    int code = riffle_rewind(session, held < shape->depth ? held : shape->depth);
    if (code == RIFFLE_OK && held < shape->depth)
        code = riffle_prefill(session, tokens + held, (size_t)(shape->depth - held));
    /* A cache that quantises may read some of the text again now, which must not be measured. */
    if (code == RIFFLE_OK) code = riffle_prefill(session, NULL, 0);
    riffle_session_reset_stats(session);
    if (code == RIFFLE_OK) code = riffle_prefill(session, tokens + shape->depth, (size_t)prompt);
    progress_clear(&shapes->engine.progress);
    int64_t n = code == RIFFLE_OK ? riffle_generate(session, &generate, NULL, NULL) : code;
    if (n < 0) return (int)n;
    code = riffle_session_get_stats(session, &stats, sizeof stats);
    if (shape->prompt) shape->prompt_seconds[at] = stats.prefill_seconds;
    if (shape->gen) shape->gen_seconds[at] = stats.decode_seconds;
    return code;
}

static int measure_all(struct shapes *shapes, const int32_t *tokens)
{
    struct progress_line progress = {0};
    uint64_t done = 0, all = (uint64_t)shapes->repeats * shapes->count;
    int code = RIFFLE_OK;
    for (size_t i = 0; i < shapes->count && code == RIFFLE_OK; i++) {
        /* The text that an earlier shape left is the same only up to its answer. */
        code = riffle_rewind(shapes->engine.session, 0);
        if (code == RIFFLE_OK) code = measure_once(shapes, &shapes->items[i], tokens, 0);
        for (int32_t r = 0; r < shapes->repeats && code == RIFFLE_OK; r++) {
            code = measure_once(shapes, &shapes->items[i], tokens, r);
            if (code == RIFFLE_OK && progress_update(&progress, "measuring", ++done, all))
                code = RIFFLE_ERR_CANCELLED;
        }
    }
    progress_clear(&progress);
    return cli_status(code);
}

static int open_and_measure(struct shapes *shapes)
{
    struct cli_options plain = *shapes->options;
    struct engine *engine = &shapes->engine;
    int64_t text, needed;
    riffle_stats stats;
    int32_t *tokens = NULL;
    count_tokens(shapes, &text, &needed);
    plain.chain = "none";
    if (plain.n_ctx && plain.n_ctx < needed)
        return cli_usage_error(
            "--ctx %d is less than the %lld tokens that prompts and answers take", plain.n_ctx,
            (long long)needed);
    int status = engine_open_model(engine, &plain, 0);
    if (status != CLI_OK) return status;
    if (!plain.n_ctx && needed > engine->info.n_ctx_train) {
        status = cli_fail("the prompts and answers take %lld tokens; the model was trained on %d",
                          (long long)needed, engine->info.n_ctx_train);
        engine_close(engine);
        return status;
    }
    status = engine_begin_session(engine, &plain, plain.n_ctx ? plain.n_ctx : (int)needed);
    if (status != CLI_OK) return status;
    status = cli_status(riffle_session_get_stats(engine->session, &stats, sizeof stats));
    if (status == CLI_OK) status = origin_take(&shapes->origin, stats.threads);
    if (status == CLI_OK) status = bench_text(engine, (size_t)text, &tokens);
    if (status == CLI_OK) status = measure_all(shapes, tokens);
    free(tokens);
    return status;
}

int shapes_measure(struct shapes *shapes, const struct cli_options *options)
{
    *shapes = (struct shapes){.options = options};
    shapes->repeats = options->repeats ? options->repeats : REPEATS;
    int status = CLI_OK;
    if (options->preset)
        for (size_t i = 0; i < sizeof mlperf / sizeof *mlperf; i++) add_shape(shapes, mlperf[i]);
    else
        status = add_listed(shapes, options);
    return status == CLI_OK ? open_and_measure(shapes) : status;
}

void shapes_free(struct shapes *shapes)
{
    engine_close(&shapes->engine);
    for (size_t i = 0; i < shapes->count; i++) {
        free(shapes->items[i].prompt_seconds);
        free(shapes->items[i].gen_seconds);
    }
    free(shapes->items);
}
