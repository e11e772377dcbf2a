/* The operations of draft heads and of their targets, in programs written by hand: rows side by
 * side, embeddings with input rows beside them, linear layers as taps, weights of two objects,
 * and logits of fewer tokens than a vocabulary has. A device computes what
 * the plain backend computes; and a row has the same bits in passes of all sizes. ctest runs it on
 * the processor and with "cuda". */
#include "cpu/cpu_backend.h"
#include "devices/devices.h"
#include "infer/written_heads.h"
#include "platform/cpu.h"
#include "support/plain_backend.h"
#include "support/shared_kind.h"

enum {
    ROWS = 100,   /* of a pass: more than narrow kernels take */
    ANSWERED = 24 /* rows of passes whose logits are compared */
};

/* ---- runs ---- */

/* What passes over some rows gave: [tap][rows][width], and logits [rows][n_vocab]. */
struct results {
    int32_t n_taps, widths[8], n_vocab;
    float *taps[8], *logits;
};

static const float *tap_row(const struct results *results, int32_t tap, int32_t i)
{
    return results->taps[tap] + (size_t)i * (size_t)results->widths[tap];
}

static const float *logits_row(const struct results *results, int32_t i)
{
    return results->logits + (size_t)i * (size_t)results->n_vocab;
}

static void results_free(struct results *results)
{
    for (int32_t t = 0; t < results->n_taps; t++) free(results->taps[t]);
    free(results->logits);
}

static float *floats_new(int32_t rows, int32_t width)
{
    float *made = calloc((size_t)rows * (size_t)width, sizeof *made);
    if (!made) exit(1);
    return made;
}

static void results_new(struct results *results, const struct written *written)
{
    const struct rf_program *program = &written->program;
    *results = (struct results){.n_taps = program->n_slots - RF_SLOT_TAP,
                                .n_vocab = program->params->n_vocab};
    for (int32_t t = 0; t < results->n_taps; t++) {
        results->widths[t] = program->slots[RF_SLOT_TAP + t].width;
        results->taps[t] = floats_new(ROWS, results->widths[t]);
    }
    results->logits = floats_new(ROWS, results->n_vocab);
}

static struct rf_cache *written_cache(struct rf_backend *backend, const struct written *written)
{
    struct rf_cache *cache;
    const struct rf_cache_shape shape = {
        .params = written->program.params, .n_ctx = 2 * ROWS, .kv = RF_KV_F16};
    MUST(backend->ops->cache_new(&cache, backend, &shape, &error));
    return cache;
}

static void take_results(struct results *results, struct rf_view *view, int32_t first, int32_t n,
                         int32_t n_answered)
{
    const struct rf_backend_ops *ops = view->backend->ops;
    const float *row;
    for (int32_t i = 0; i < n; i++)
        for (int32_t t = 0; t < results->n_taps; t++) {
            size_t width = (size_t)results->widths[t];
            MUST(ops->tap(view, t, i, &row, &error));
            memcpy(results->taps[t] + (size_t)(first + i) * width, row, width * sizeof *row);
        }
    for (int32_t i = 0; i < n_answered; i++) {
        size_t width = (size_t)results->n_vocab;
        MUST(ops->logits(view, i, &row, &error));
        memcpy(results->logits + (size_t)(first + i) * width, row, width * sizeof *row);
    }
}

/* Reads ROWS rows of x and tokens in passes of these sizes, the last of which comes again and
 * again; takes the first ANSWERED rows' logits, or all where passes are small. */
static void run_rows(struct results *results, const struct written *written,
                     const struct pair *pair, const struct rf_weights *weights, const int32_t *cuts,
                     const int32_t *tokens, const float *x)
{
    struct rf_view *view = view_of_written(written, pair->queue, weights, ROWS);
    struct rf_cache *cache = written_cache(pair->backend, written);
    int32_t wanted[ANSWERED];
    for (int32_t i = 0; i < ANSWERED; i++) wanted[i] = i;
    results_new(results, written);
    for (int32_t at = 0, n; at < ROWS; at += n) {
        n = *cuts < ROWS - at ? *cuts : ROWS - at;
        if (cuts[1]) cuts++;
        const struct rf_rows rows = {
            .cache = cache, .tokens = tokens + at, .n = n, .first_pos = at};
        const struct rf_pass pass = {.groups = &rows,
                                     .n_groups = 1,
                                     .x = x ? x + (size_t)at * (size_t)pair->kind->width : NULL,
                                     .wanted = wanted,
                                     .n_wanted = n < ANSWERED ? n : ANSWERED};
        run_pass(view, &pass);
        take_results(results, view, at, n, pass.n_wanted);
    }
    pair->backend->ops->cache_free(cache);
    pair->backend->ops->view_free(view);
}

/* ---- comparisons ---- */

static double relative_error_of(const float *a, const float *b, int32_t n)
{
    double off = 0, size = 0;
    for (int32_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(off / size);
}

static int same_bits(const float *a, const float *b, int32_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Rows that are near those of the plain backend. */
static void results_are_near(const char *device, const char *what, const struct kind *kind,
                             const struct results *got, const struct results *wanted)
{
    for (int32_t i = 0; i < ROWS; i++) {
        for (int32_t t = 0; t < got->n_taps; t++) {
            double off =
                relative_error_of(tap_row(got, t, i), tap_row(wanted, t, i), got->widths[t]);
            CHECK_MSG(off < kind->tolerance, "%s, %s, %s: tap %d of row %d is off by %.1e", device,
                      kind->name, what, t, i, off);
        }
        if (i >= ANSWERED) continue;
        double off = relative_error_of(logits_row(got, i), logits_row(wanted, i), got->n_vocab);
        CHECK_MSG(off < kind->tolerance, "%s, %s, %s: logits of row %d are off by %.1e", device,
                  kind->name, what, i, off);
    }
}

/* The first ANSWERED rows' logits and all rows' result. */
static void results_are_same(const char *device, const char *what, const struct kind *kind,
                             const struct results *got, const struct results *wanted)
{
    for (int32_t i = 0; i < ROWS; i++) {
        CHECK_MSG(
            same_bits(tap_row(got, RESULT, i), tap_row(wanted, RESULT, i), got->widths[RESULT]),
            "%s, %s, %s: row %d has another result", device, kind->name, what, i);
        if (i >= ANSWERED) continue;
        CHECK_MSG(same_bits(logits_row(got, i), logits_row(wanted, i), got->n_vocab),
                  "%s, %s, %s: row %d has other logits", device, kind->name, what, i);
    }
}

/* ---- what is checked on a device ---- */

static const int32_t one_pass[] = {ROWS, 0}, one_each[] = {1, 0},
                     some[] = {1, 2, 3, 4, 8, 9, 16, 20, 37, 0};

/* Tokens and input rows of all passes. */
struct inputs {
    int32_t tokens[ROWS];
    float *x;
};

/* The parts of joined rows are the rows that were joined. */
static void check_joined(const char *device, const struct kind *kind, const struct results *results,
                         int32_t first, int32_t n, int32_t joined)
{
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t t = 0; t < n; t++)
            CHECK_MSG(same_bits(tap_row(results, joined, i) + t * kind->width,
                                tap_row(results, first + t, i), kind->width),
                      "%s, %s: part %d of %d of row %d is another one", device, kind->name, t, n,
                      i);
}

static void check_target(const char *device, struct pair *pair, struct pair *plain,
                         const struct inputs *inputs)
{
    const struct kind *kind = pair->kind;
    static struct written written, watched, of_plain;
    struct results all, cut, seen, wanted;
    write_target(&written, pair, 0);
    write_target(&watched, pair, 1);
    write_target(&of_plain, plain, 1);
    const struct rf_weights *weights = pair->of_target.weights;
    run_rows(&all, &written, pair, weights, one_pass, inputs->tokens, NULL);
    run_rows(&seen, &watched, pair, weights, one_pass, inputs->tokens, NULL);
    run_rows(&wanted, &of_plain, plain, plain->of_target.weights, one_pass, inputs->tokens, NULL);
    results_are_near(device, "features", kind, &seen, &wanted);
    results_are_same(device, "features with more taps", kind, &seen, &all);
    check_joined(device, kind, &seen, WATCHED, 3, WATCHED + 3);
    run_rows(&cut, &written, pair, weights, some, inputs->tokens, NULL);
    results_are_same(device, "features in other passes", kind, &cut, &all);
    results_free(&cut);
    run_rows(&cut, &written, pair, weights, one_each, inputs->tokens, NULL);
    results_are_same(device, "features of rows alone", kind, &cut, &all);
    results_free(&cut);
    results_free(&all);
    results_free(&seen);
    results_free(&wanted);
}

static void check_drafter(const char *device, struct pair *pair, struct pair *plain,
                          const struct inputs *inputs)
{
    const struct kind *kind = pair->kind;
    static struct written written, watched, narrow, of_plain, few_of_plain;
    struct results all, cut, seen, wanted, few, few_wanted;
    write_drafter(&written, pair, 0, 0);
    write_drafter(&watched, pair, 0, 1);
    write_drafter(&narrow, pair, 1, 0);
    write_drafter(&of_plain, plain, 0, 1);
    write_drafter(&few_of_plain, plain, 1, 0);
    const struct rf_weights *weights = pair->of_head.weights;
    run_rows(&all, &written, pair, weights, one_pass, inputs->tokens, inputs->x);
    run_rows(&seen, &watched, pair, weights, one_pass, inputs->tokens, inputs->x);
    run_rows(&wanted, &of_plain, plain, plain->of_head.weights, one_pass, inputs->tokens,
             inputs->x);
    results_are_near(device, "a head", kind, &seen, &wanted);
    results_are_same(device, "a head with more taps", kind, &seen, &all);
    check_joined(device, kind, &seen, WATCHED + 2, 2, WATCHED + 4);
    for (int32_t i = 0; i < ROWS; i++) {
        CHECK_MSG(same_bits(tap_row(&seen, WATCHED, i), tap_row(&wanted, WATCHED, i), kind->width),
                  "%s, %s: another embedding of row %d", device, kind->name, i);
        CHECK_MSG(same_bits(tap_row(&seen, WATCHED + 1, i),
                            inputs->x + (size_t)i * (size_t)kind->width, kind->width),
                  "%s, %s: another input of row %d", device, kind->name, i);
    }
    run_rows(&few, &narrow, pair, weights, one_pass, inputs->tokens, inputs->x);
    run_rows(&few_wanted, &few_of_plain, plain, plain->of_head.weights, one_pass, inputs->tokens,
             inputs->x);
    results_are_near(device, "a head of few rows", kind, &few, &few_wanted);
    run_rows(&cut, &narrow, pair, weights, some, inputs->tokens, inputs->x);
    results_are_same(device, "a head in other passes", kind, &cut, &few);
    results_free(&cut);
    run_rows(&cut, &narrow, pair, weights, one_each, inputs->tokens, inputs->x);
    results_are_same(device, "a head's rows alone", kind, &cut, &few);
    results_free(&cut);
    results_free(&all);
    results_free(&seen);
    results_free(&wanted);
    results_free(&few);
    results_free(&few_wanted);
}

/* ---- answers ---- */

/* The greatest of a row's logits that the mask has, the lowest of equal ones. */
static int32_t best_of(const float *logits, const uint64_t *mask)
{
    int32_t best = -1;
    for (int32_t t = 0; t < FEW; t++)
        if ((!mask || (mask[t / 64] >> t % 64 & 1)) && (best < 0 || logits[t] > logits[best]))
            best = t;
    return best;
}

static double log_probability_of(const float *logits, int32_t target)
{
    double sum = 0;
    int32_t best = best_of(logits, NULL);
    for (int32_t t = 0; t < FEW; t++) sum += exp((double)logits[t] - (double)logits[best]);
    return (double)logits[target] - (double)logits[best] - log(sum);
}

/* Candidates, masks and scores count the program's output rows, not the vocabulary. */
static void check_answers(const char *device, struct pair *pair, const struct inputs *inputs)
{
    enum { N = 3 };
    static struct written narrow;
    uint64_t mask[(FEW + 63) / 64];
    const uint64_t *const masks[N] = {NULL, mask, NULL};
    const int32_t wanted[N] = {0, 1, 2}, targets[N] = {0, FEW - 1, 77};
    struct rf_best best[N];
    double logprobs[N];
    for (size_t w = 0; w < sizeof mask / sizeof *mask; w++) mask[w] = 0x8000000100000002u << w;
    write_drafter(&narrow, pair, 1, 0);
    struct rf_view *view = view_of_written(&narrow, pair->queue, pair->of_head.weights, N);
    struct rf_cache *cache = written_cache(pair->backend, &narrow);
    const struct rf_rows rows = {.cache = cache, .tokens = inputs->tokens, .n = N};
    struct rf_pass pass = {.groups = &rows,
                           .n_groups = 1,
                           .x = inputs->x,
                           .wanted = wanted,
                           .n_wanted = N,
                           .n_best = RF_MAX_BEST,
                           .best = best,
                           .masks = masks};
    const float *row[N];
    float logits[N][FEW];
    run_pass(view, &pass);
    for (int32_t i = 0; i < N; i++) {
        MUST(pair->backend->ops->logits(view, i, &row[i], &error));
        memcpy(logits[i], row[i], sizeof logits[i]);
        CHECK_MSG(best[i].n == RF_MAX_BEST && best[i].top[0].token == best_of(row[i], masks[i]) &&
                      best[i].top[0].logit == row[i][best[i].top[0].token],
                  "%s, %s: row %d: %d candidates, the first is %d, not %d", device,
                  pair->kind->name, i, best[i].n, best[i].top[0].token, best_of(row[i], masks[i]));
    }
    pass.best = NULL;
    pass.masks = NULL;
    pass.n_best = 0;
    pass.targets = targets;
    pass.logprobs = logprobs;
    run_pass(view, &pass);
    for (int32_t i = 0; i < N; i++) {
        double score = log_probability_of(logits[i], targets[i]);
        CHECK_MSG(fabs(logprobs[i] - score) < 1e-4, "%s, %s: the score of row %d is %g, not %g",
                  device, pair->kind->name, i, logprobs[i], score);
    }
    pair->backend->ops->cache_free(cache);
    pair->backend->ops->view_free(view);
}

/* ---- kinds ---- */

static const struct kind kinds[] = {
    {"BF16", RF_WEIGHTS_BF16, RF_WEIGHTS_BF16, 128, 0, 0, RF_ROPE_NEOX, 1.2e-2},
    {"BF16, odd width", RF_WEIGHTS_BF16, RF_WEIGHTS_BF16, 80, 1, 1, RF_ROPE_NORM, 1.2e-2},
    {"a head of MXFP4", RF_WEIGHTS_BF16, RF_WEIGHTS_MXFP4, 128, 1, 0, RF_ROPE_NEOX, 1.8e-2},
    {"a target of 4 bits", RF_WEIGHTS_Q4, RF_WEIGHTS_BF16, 192, 0, 1, RF_ROPE_NORM, 1.8e-2},
    {"4 bits and MXFP4", RF_WEIGHTS_Q4, RF_WEIGHTS_MXFP4, 128, 1, 1, RF_ROPE_NEOX, 1.8e-2},
    {"MXFP4", RF_WEIGHTS_MXFP4, RF_WEIGHTS_MXFP4, 96, 0, 0, RF_ROPE_NEOX, 1.8e-2}};

static const struct device plain_device = {"plain", &plain_backend_kind, NULL};

static void check_kind(const struct device *device, const struct kind *kind)
{
    const char *name = device->tier ? device->tier : device->name;
    struct pair pair, plain;
    struct inputs inputs;
    uint32_t state = 5;
    random_tokens(inputs.tokens, ROWS, VOCAB, 11);
    inputs.x = floats_new(ROWS, kind->width);
    for (int32_t i = 0; i < ROWS * kind->width; i++) inputs.x[i] = 2 * random_value(&state);
    pair_new(&pair, kind, device);
    pair_new(&plain, kind, &plain_device);
    check_target(name, &pair, &plain, &inputs);
    check_drafter(name, &pair, &plain, &inputs);
    check_answers(name, &pair, &inputs);
    pair_free(&plain);
    pair_free(&pair);
    free(inputs.x);
}

/* Two devices refuse such programs before they look at weights. */
static void two_devices_refuse(void)
{
    static struct written written;
    struct pair pair;
    pair_new(&pair, &kinds[0], &plain_device);
    for (int which = 0; which < 2; which++) {
        const struct rf_backend_options options = {.tier = NULL};
        const struct rf_queue_options threads = {.threads = 1};
        struct rf_error failure = {.text = ""};
        struct rf_backend *backend;
        struct rf_queue *queue;
        struct rf_view *view;
        if (which == 0) write_target(&written, &pair, 0);
        if (which == 1) write_drafter(&written, &pair, 1, 0);
        const struct rf_view_shape shape = {
            .program = &written.program, .max_rows = 1, .max_logits = 1};
        MUST(shared_plain_kind.open(&backend, &options, &rf_system_allocator, &error));
        MUST(backend->ops->queue_new(&queue, backend, &threads, NULL, &error));
        CHECK_INT(backend->ops->view_new(&view, queue, &shape, &failure), RF_ERR_UNSUPPORTED);
        CHECK_STR(failure.text, "a draft head needs all layers on one device");
        backend->ops->queue_free(queue);
        backend->ops->free(backend);
    }
    pair_free(&pair);
}

int main(int argc, char **argv)
{
    static const struct device cuda = {"cuda", &rf_cuda_backend_kind, NULL};
    int on_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
    if (on_cuda) device_must_exist(&cuda);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        check_kind(on_cuda ? &cuda : &plain_device, &kinds[k]);
        for (int t = 0; !on_cuda && t < RF_TIER_COUNT; t++) {
            enum rf_tier tier = (enum rf_tier)t;
            const struct device cpu = {"cpu", &rf_cpu_backend_kind, rf_tier_name(tier)};
            if (rf_cpu_has_tier(tier)) check_kind(&cpu, &kinds[k]);
        }
    }
    if (!on_cuda) two_devices_refuse();
    return check_result();
}
