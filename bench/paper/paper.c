/* ML-SpecQD's experiments (Georganas et al. 2025, section IV) in their own sizes: Llama-2-7B with a
 * draft of 68M for questions and answers, Qwen2.5-Coder-7B with its 0.5B for code, the target in
 * BF16 and its MXFP4 cast as a draft.
 *
 * The passes are real, over random weights in these shapes, and so is the cascade that decides
 * about them. What the levels choose is drawn (drawn.h), with the acceptance that the paper
 * measured: nothing here says how well a model drafts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "cpu/cpu.h"
#include "engine/devices.h"
#include "infer/model.h"
#include "infer/program.h"
#include "model/open.h"
#include "paper/drawn.h"
#include "paper/shapes.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "speculate/cascade.h"
#include "speculate/tuning.h"

enum { DRAFT, MXFP4, TARGET, PARTS };
enum { CHAINS = 3, READINGS = 2, PAPER_DRAFT = 8 };
enum {
    PROMPT = 128,
    MOST_ROWS = 16,
    PASS_REPEATS = 3,
    PLAIN_TOKENS = 12,
    WARM_UP = 32,
    DEFAULT_TOKENS = 256
};

struct setup {
    const char *key, *title;
    const struct shape *target, *draft;
    enum rf_weight_form draft_form;
    double ratios[PARTS];    /* share of drafted tokens that were accepted: figures 5 and 6 */
    double speedups[CHAINS]; /* tables I and II */
};

static const struct setup setups[] = {
    {"qa",
     "questions and answers",
     &shape_llama2_7b,
     &shape_llama_68m,
     RF_WEIGHTS_BF16,
     {0.417, 0.712, 1},
     {1.81, 1.86, 2.22}},
    {"code",
     "code",
     &shape_qwen25_7b,
     &shape_qwen25_05b,
     RF_WEIGHTS_MXFP4,
     {0.62, 0.91, 1},
     {2.64, 2.03, 2.72}},
    {"small",
     "a small model, to try this program",
     &shape_small,
     &shape_tiny,
     RF_WEIGHTS_BF16,
     {0.6, 0.9, 1},
     {0, 0, 0}},
};

static const struct chain {
    const char *name;
    int n, parts[PARTS];
} plain = {"target", 1, {TARGET}}, chains[CHAINS] = {
                                       {"small draft > target", 2, {DRAFT, TARGET}},
                                       {"MXFP4 > target", 2, {MXFP4, TARGET}},
                                       {"small draft > MXFP4 > target", 3, {DRAFT, MXFP4, TARGET}},
};

struct options {
    const struct setup *setup;
    int32_t tokens, threads, gamma;
    int independent, costs_only;
};

struct role {
    struct rf_source *source; /* the target's, if this is the MXFP4 cast */
    struct rf_model *model;
    struct rf_view *view;
    struct rf_sequence *sequence; /* the target's, if this is the MXFP4 cast */
    struct rf_sampler *sampler;
    struct drawn_level level;
    uint64_t pass_bytes;
};

struct world {
    const struct options *options;
    struct role roles[PARTS];
    struct rf_backend_options device;
    struct rf_backend *backend;
    struct rf_queue *queue; /* shared by all models: only one of them works at a time */
    int32_t n_vocab;        /* tokens that all models have */
    int32_t n_ctx;          /* most tokens of a text */
    int32_t *truth;         /* [n_ctx] */
};

struct result {
    double seconds_per_token, plain_seconds_per_token;
    double tokens_per_pass;
    uint64_t drafted[PARTS], accepted[PARTS];
};

/* ---- models ---- */

static int open_sequence(struct world *world, int which, struct rf_error *error)
{
    struct role *role = &world->roles[which];
    const struct rf_sequence_shape shape = {.n_ctx = world->n_ctx, .kv = RF_KV_F16};
    if (which != MXFP4)
        return rf_sequence_new(&role->sequence, role->view, &shape, &rf_system_allocator, error);
    role->sequence = world->roles[TARGET].sequence;
    return 0;
}

static int open_role(struct world *world, int which, enum rf_weight_form form,
                     struct rf_error *error)
{
    struct role *role = &world->roles[which];
    struct rf_weight_cost cost;
    int code =
        rf_weight_cost(role->source, form, rf_backend_kinds[0], &rf_system_allocator, &cost, error);
    role->pass_bytes = cost.pass_bytes;
    if (!code)
        code = rf_model_load(&role->model, role->source, world->queue, form, NULL, NULL, error);
    if (!code && which == TARGET)
        code = world->backend->ops->queue_calibrate(world->queue, role->model->weights, error);
    if (code) return code;

    int32_t most = which == MXFP4 ? RF_TREE_ROWS : RF_PROMPT_ROWS;
    const struct rf_view_options view = {.kv = RF_KV_F16,
                                         .max_rows = most < world->n_ctx ? most : world->n_ctx};
    code = rf_view_new(&role->view, role->model, world->queue, &view, error);
    if (!code) code = open_sequence(world, which, error);
    if (!code)
        code = rf_sampler_new(&role->sampler, world->n_vocab, world->backend->first_above,
                              &rf_system_allocator, error);
    if (code) return code;
    if (which == DRAFT)
        rf_model_level_of_draft(&role->level.model, role->view, role->sequence, role->sampler,
                                world->n_vocab);
    else
        rf_model_level_of_target(&role->level.model, role->view, role->sequence, role->sampler);
    role->level.n_vocab = world->n_vocab;
    role->level.errors = (uint64_t)which + 1;
    role->level.luck = world->options->independent ? (uint64_t)which + 101 : 100;
    return 0;
}

static int open_world(struct world *world, struct rf_error *error)
{
    const struct setup *setup = world->options->setup;
    world->n_vocab = setup->draft->n_vocab < setup->target->n_vocab ? setup->draft->n_vocab
                                                                    : setup->target->n_vocab;
    double need = (double)shape_bytes(setup->target) * (1 + 4.25 / 16) +
                  (double)shape_bytes(setup->draft) * 1.5 + 1e9;
    if (need > (double)rf_memory_physical())
        return rf_fail(error, RF_ERR_MEMORY,
                       "%s and its drafts take %.1f GB, this machine has %.1f GB",
                       setup->target->name, need / 1e9, (double)rf_memory_physical() / 1e9);
    struct rf_team *team = ((struct cpu_queue *)world->queue)->team;
    int code = shape_open(&world->roles[TARGET].source, setup->target, team, error);
    if (!code) code = shape_open(&world->roles[DRAFT].source, setup->draft, team, error);
    world->roles[MXFP4].source = world->roles[TARGET].source;
    if (!code) code = open_role(world, TARGET, RF_WEIGHTS_BF16, error);
    if (!code) code = open_role(world, MXFP4, RF_WEIGHTS_MXFP4, error);
    if (!code) code = open_role(world, DRAFT, setup->draft_form, error);
    if (!code)
        world->truth = rf_calloc(&rf_system_allocator, (size_t)world->n_ctx, sizeof *world->truth,
                                 "tokens", error);
    if (!code && !world->truth) code = RF_ERR_MEMORY;
    if (code) return code;
    for (int32_t i = 0; i < world->n_ctx; i++)
        world->truth[i] = drawn_truth(world->truth, i, world->n_vocab);
    return 0;
}

static void close_world(struct world *world)
{
    for (int i = 0; i < PARTS; i++) {
        struct role *role = &world->roles[i];
        if (i != MXFP4) rf_sequence_free(role->sequence);
        rf_view_free(role->view);
        rf_sampler_free(role->sampler);
        rf_model_free(role->model);
        if (i != MXFP4) shape_close(role->source);
    }
    rf_free(&rf_system_allocator, world->truth);
    if (world->queue) world->backend->ops->queue_free(world->queue);
    if (world->backend) world->backend->ops->free(world->backend);
}

/* ---- passes ---- */

static int print_costs(struct world *world, struct rf_error *error)
{
    static const int order[PARTS] = {TARGET, MXFP4, DRAFT};
    const struct setup *setup = world->options->setup;
    double seconds[PASS_REPEATS];
    printf("\nms of a pass, %d tokens before it\nrows  %18s  %18s  %18s\n", PROMPT, "target BF16",
           "MXFP4 cast", setup->draft->name);
    for (int32_t rows = 1; rows <= MOST_ROWS; rows++) {
        printf("%4d", rows);
        for (int i = 0; i < PARTS; i++) {
            const struct role *role = &world->roles[order[i]];
            int code = rf_sequence_time_passes(role->sequence, role->view, rows, PROMPT,
                                               PASS_REPEATS, seconds, error);
            if (code) return code;
            printf("  %18.2f", 1e3 * rf_median(seconds, PASS_REPEATS));
            fflush(stdout);
        }
        printf("\n");
    }
    return 0;
}

/* ---- decoding ---- */

/* Reads the prompt and goes on to `tokens` more. The first is the prompt's and not timed. */
static int decode(struct world *world, struct rf_cascade *cascade, int32_t tokens, double *seconds,
                  struct rf_error *error)
{
    const struct role *target = &world->roles[TARGET];
    struct rf_yield yield[RF_MAX_DRAFT + 1];
    int32_t n = PROMPT;
    double start = 0.0;
    rf_cascade_attach(cascade);
    rf_sequence_rewind(target->sequence, 0);
    int code = rf_sequence_prefill(target->sequence, target->view, world->truth, PROMPT, NULL, NULL,
                                   error);
    rf_cascade_begin_answer(cascade, tokens);
    while (!code && n < PROMPT + tokens) {
        int32_t made = rf_cascade_round(cascade, PROMPT + tokens - n, yield, error);
        if (made < 0) return made;
        for (int32_t i = 0; !code && i < made; i++, n++) {
            if (yield[i].token != world->truth[n])
                return rf_fail(error, RF_ERR_ARGUMENT, "token %d is %d, the target's own is %d", n,
                               yield[i].token, world->truth[n]);
            code = rf_sequence_commit(target->sequence, error);
        }
        if (n == PROMPT + made) start = rf_clock_seconds();
    }
    *seconds = (rf_clock_seconds() - start) / (tokens - 1);
    return code;
}

static int new_cascade(struct world *world, const struct chain *chain, int reading,
                       struct rf_cascade **cascade, struct rf_error *error)
{
    const struct setup *setup = world->options->setup;
    struct rf_level levels[PARTS];
    for (int i = 0; i < chain->n; i++) {
        int which = chain->parts[i];
        struct role *role = &world->roles[which];
        double share = (double)role->pass_bytes / (double)world->roles[TARGET].pass_bytes;
        double ratio = setup->ratios[which];
        role->level.rate = reading == 0 || which == TARGET ? ratio : drawn_rate(ratio, PAPER_DRAFT);
        /* The guesses that sessions begin with (src/engine/levels.c). */
        levels[i] = (struct rf_level){
            .ops = &drawn_level_ops,
            .self = &role->level,
            .cost = which == TARGET
                        ? 1.0
                        : rf_tuning.cost.draft_fixed + rf_tuning.cost.draft_share * share,
            .acceptance = which == MXFP4 ? rf_tuning.acceptance.cast : rf_tuning.acceptance.model,
            .has_passes = 1};
    }
    int code = rf_cascade_new(cascade, levels, chain->n, world->roles[TARGET].sequence,
                              &rf_system_allocator, error);
    if (!code) rf_cascade_set_gamma(*cascade, world->options->gamma, 0.0f);
    return code;
}

/* One chain between two measurements of plain decoding. */
static int measure(struct world *world, const struct chain *chain, int reading,
                   struct result *result, struct rf_error *error)
{
    struct rf_cascade *alone = NULL, *cascade = NULL;
    double before, after, warm;
    *result = (struct result){0};
    int code = new_cascade(world, &plain, reading, &alone, error);
    if (!code) code = new_cascade(world, chain, reading, &cascade, error);
    if (!code) code = decode(world, cascade, WARM_UP, &warm, error);
    if (!code) code = decode(world, alone, PLAIN_TOKENS, &before, error);
    if (!code) {
        rf_cascade_reset_stats(cascade);
        code = decode(world, cascade, world->options->tokens, &result->seconds_per_token, error);
    }
    if (!code) code = decode(world, alone, PLAIN_TOKENS, &after, error);
    if (!code) {
        result->plain_seconds_per_token = (before + after) / 2;
        result->tokens_per_pass = (double)(world->options->tokens - 1) /
                                  (double)rf_cascade_stats(cascade, chain->n - 1)->passes;
        for (int i = 0; i < chain->n; i++) {
            result->drafted[chain->parts[i]] = rf_cascade_stats(cascade, i)->drafted;
            result->accepted[chain->parts[i]] = rf_cascade_stats(cascade, i)->accepted;
        }
    }
    rf_cascade_free(alone);
    rf_cascade_free(cascade);
    return code;
}

/* ---- the report ---- */

static void print_result(const struct result *result)
{
    static const char *const names[PARTS] = {"small draft", "MXFP4", "target"};
    double plain_seconds = result->plain_seconds_per_token;
    printf("    %6.2f t/s  %5.2fx  %5.2f tokens a pass", 1 / result->seconds_per_token,
           plain_seconds / result->seconds_per_token, result->tokens_per_pass);
    for (int i = 0; i < TARGET; i++)
        if (result->drafted[i])
            printf(", %s: %.0f %% of %llu drafted", names[i],
                   100 * (double)result->accepted[i] / (double)result->drafted[i],
                   (unsigned long long)result->drafted[i]);
    printf("\n");
}

static int print_chains(struct world *world, double read, struct rf_error *error)
{
    static const char *const readings[READINGS] = {
        "a token is accepted with that probability, where all before it were",
        "that share of drafts of 8 tokens is accepted, as in the paper's formula"};
    const struct setup *setup = world->options->setup;
    struct result results[READINGS][CHAINS];
    for (int reading = 0; reading < READINGS; reading++) {
        double rates[TARGET];
        for (int i = 0; i < TARGET; i++)
            rates[i] = reading == 0 ? setup->ratios[i] : drawn_rate(setup->ratios[i], PAPER_DRAFT);
        printf("\nacceptance of %.1f %% (small draft) and %.1f %% (MXFP4) read so: %s\n"
               "    each token with %.1f %% and %.1f %%\n",
               100 * setup->ratios[DRAFT], 100 * setup->ratios[MXFP4], readings[reading],
               100 * rates[DRAFT], 100 * rates[MXFP4]);
        for (int c = 0; c < CHAINS; c++) {
            int code = measure(world, &chains[c], reading, &results[reading][c], error);
            if (code) return code;
            printf("  %s\n", chains[c].name);
            print_result(&results[reading][c]);
            fflush(stdout);
        }
    }
    double plain_tps = 1 / results[0][0].plain_seconds_per_token;
    printf("\nplain decoding %.2f tokens/s, %.1f %% of the read bandwidth (%.1f GB/s)\n", plain_tps,
           100 * plain_tps * (double)world->roles[TARGET].pass_bytes / read, read / 1e9);
    printf("%-30s %12s %12s %12s\n", "speed-up", "by token", "by drafts", "the paper's");
    for (int c = 0; c < CHAINS; c++) {
        printf("%-30s", chains[c].name);
        for (int reading = 0; reading < READINGS; reading++)
            printf(" %11.2fx", results[reading][c].plain_seconds_per_token /
                                   results[reading][c].seconds_per_token);
        if (setup->speedups[c] > 0)
            printf(" %11.2fx\n", setup->speedups[c]);
        else
            printf(" %12s\n", "-");
    }
    printf("Acceptance is drawn at the paper's rates, not generated: the weights are random.\n");
    return 0;
}

static int open_device(struct world *world, struct rf_device_info *device,
                       struct rf_queue_info *queue, struct rf_error *error)
{
    const struct rf_backend_kind *kind = rf_backend_kinds[0];
    const struct rf_queue_options options = {.threads = world->options->threads};
    world->device = rf_processor_options();
    int code = kind->describe(&world->device, device, error);
    if (!code) code = kind->open(&world->backend, &world->device, &rf_system_allocator, error);
    if (!code)
        code = world->backend->ops->queue_new(&world->queue, world->backend, &options, NULL, error);
    if (!code) world->backend->ops->queue_info(world->queue, queue);
    return code;
}

static int measure_read(int32_t threads, double *bytes_per_second, struct rf_error *error)
{
    struct rf_read_speed speed = {0};
    const struct rf_backend_options device = {0};
    int code =
        rf_backend_kinds[0]->measure_read(&device, threads, &rf_system_allocator, &speed, error);
    *bytes_per_second = speed.bytes_per_second;
    return code;
}

static int run(const struct options *options, struct rf_error *error)
{
    struct world world = {.options = options,
                          .n_ctx = PROMPT + options->tokens + WARM_UP + MOST_ROWS};
    const struct setup *setup = options->setup;
    struct rf_device_info device;
    struct rf_queue_info queue = {0};
    double before, after;
    int code = open_device(&world, &device, &queue, error);
    int32_t threads = queue.threads;
    if (!code) code = measure_read(threads, &before, error);
    double start = rf_clock_seconds();
    if (!code) code = open_world(&world, error);
    if (!code) {
        printf("%s: %s in BF16 (%.2f GB a pass), its MXFP4 cast (%.2f GB), %s in %s (%.2f GB); "
               "random weights, made in %.0f s\n"
               "%s, %d thread%s\n",
               setup->title, setup->target->name, (double)world.roles[TARGET].pass_bytes / 1e9,
               (double)world.roles[MXFP4].pass_bytes / 1e9, setup->draft->name,
               setup->draft_form == RF_WEIGHTS_BF16 ? "BF16" : "MXFP4",
               (double)world.roles[DRAFT].pass_bytes / 1e9, rf_clock_seconds() - start, device.tier,
               threads, threads == 1 ? "" : "s");
        code = print_costs(&world, error);
    }
    if (!code && !options->costs_only) {
        code = measure_read(threads, &after, error);
        if (!code) code = print_chains(&world, (before + after) / 2, error);
    }
    close_world(&world);
    return code;
}

/* ---- options ---- */

static int usage(void)
{
    fputs("Usage: bench_paper [qa|code|small] [--tokens N] [--threads N] [--gamma N] "
          "[--independent] [--costs]\n\n"
          "  qa, code       the paper's experiments (both, one after another, unless one is "
          "named); small: a trial\n"
          "  --tokens N     tokens that each chain decodes (default 256)\n"
          "  --threads N    threads that compute (default: one for each core)\n"
          "  --gamma N      tokens that every round drafts, at most 15 (default: as many as pay)\n"
          "  --independent  what is easy for one draft is not for another\n"
          "  --costs        only the table of passes\n",
          stderr);
    return 2;
}

static int parse_number(const char *text, int32_t low, int32_t high, int32_t *value)
{
    char *end;
    long number = text ? strtol(text, &end, 10) : 0;
    if (!text || !*text || *end || number < low || number > high) return 0;
    *value = (int32_t)number;
    return 1;
}

static int parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const struct setup *named = NULL;
        for (size_t s = 0; s < sizeof setups / sizeof *setups; s++)
            if (strcmp(argv[i], setups[s].key) == 0) named = &setups[s];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int ok = 1;
        if (named)
            options->setup = named;
        else if (strcmp(argv[i], "--independent") == 0)
            options->independent = 1;
        else if (strcmp(argv[i], "--costs") == 0)
            options->costs_only = 1;
        else if (strcmp(argv[i], "--tokens") == 0)
            ok = parse_number(value, WARM_UP, 3000, &options->tokens), i++;
        else if (strcmp(argv[i], "--threads") == 0)
            ok = parse_number(value, 1, 4096, &options->threads), i++;
        else if (strcmp(argv[i], "--gamma") == 0)
            ok = parse_number(value, 1, RF_MAX_DRAFT, &options->gamma), i++;
        else
            ok = 0;
        if (!ok) return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct options options = {.tokens = DEFAULT_TOKENS};
    struct rf_error error;
    if (!parse(&options, argc, argv)) return usage();
    const struct setup *only = options.setup;
    int code = 0;
    for (size_t s = 0; !code && s < 2; s++) {
        if (!only) options.setup = &setups[s];
        code = run(&options, &error);
        if (only) break;
        if (!code) printf("\n");
    }
    if (code) fprintf(stderr, "bench_paper: %s\n", error.text);
    return code ? 1 : 0;
}
