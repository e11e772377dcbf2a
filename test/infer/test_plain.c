/* The plain backend: it computes what test/reference.c computes, keeps the host out of its memory,
 * and does nothing before it has to. */
#include <math.h>
#include <unistd.h>

#include "infer/device.h"
#include "model/open.h"
#include "plain_backend.h"
#include "reference.h"
#include "synthetic.h"

/* Both round at the same places and sum in double. */
#define TOLERANCE 1e-6

enum { N_TOKENS = 272, ROWS = RF_TREE_ROWS };

static const struct device plain = {"plain", &plain_backend_kind, NULL};

static struct rf_cache *cache_of(const struct opened *opened, int32_t n_ctx)
{
    struct rf_cache *cache;
    const struct rf_cache_shape shape = {
        .params = &opened->source->params, .n_ctx = n_ctx, .kv = RF_KV_F16};
    MUST(opened->backend->ops->cache_new(&cache, opened->backend, &shape, &error));
    return cache;
}

/* ---- against the reference ---- */

/* Hidden states [n_layer][N_TOKENS][n_embd] and logits [N_TOKENS][n_vocab]. */
struct trace {
    float *hidden, *logits;
    size_t n_embd, n_vocab;
};

static struct trace trace_new(const struct rf_params *params)
{
    struct trace trace = {.n_embd = (size_t)params->n_embd, .n_vocab = (size_t)params->n_vocab};
    trace.hidden = calloc((size_t)params->n_layer * N_TOKENS * trace.n_embd, sizeof(float));
    trace.logits = calloc(N_TOKENS * trace.n_vocab, sizeof(float));
    if (!trace.hidden || !trace.logits) exit(1);
    return trace;
}

static void trace_free(struct trace *trace)
{
    free(trace->hidden);
    free(trace->logits);
}

static float *hidden_at(const struct trace *trace, int32_t layer, int32_t position)
{
    return trace->hidden + ((size_t)layer * N_TOKENS + (size_t)position) * trace->n_embd;
}

static void trace_reference(void *user, int32_t layer, int32_t position, const float *hidden)
{
    const struct trace *trace = user;
    memcpy(hidden_at(trace, layer, position), hidden, trace->n_embd * sizeof *hidden);
}

/* Reads the tokens in passes of up to ROWS rows, all of them answered. */
static void trace_plain(struct trace *trace, const struct rf_source *source,
                        enum rf_weight_form form, const int32_t *tokens)
{
    int32_t layers[RF_MAX_TAPS], wanted[ROWS];
    struct opened opened = opened_new(&plain, source, form, &rf_system_allocator);
    const struct rf_backend_ops *ops = opened.backend->ops;
    const struct rf_view_options options = {
        .max_rows = ROWS, .taps = layers, .n_taps = source->params.n_layer};
    for (int32_t l = 0; l < source->params.n_layer; l++) layers[l] = l;
    for (int32_t i = 0; i < ROWS; i++) wanted[i] = i;
    struct rf_view *view = view_of(&opened, opened.model, &options);
    struct rf_cache *cache = cache_of(&opened, N_TOKENS);
    for (int32_t at = 0; at < N_TOKENS; at += ROWS) {
        int32_t n = N_TOKENS - at < ROWS ? N_TOKENS - at : ROWS;
        const struct rf_rows rows = {
            .cache = cache, .tokens = tokens + at, .n = n, .first_pos = at};
        const struct rf_pass pass = {
            .groups = &rows, .n_groups = 1, .wanted = wanted, .n_wanted = n};
        MUST(rf_view_run(view, &pass, &error));
        for (int32_t i = 0; i < n; i++) {
            const float *row;
            for (int32_t l = 0; l < source->params.n_layer; l++) {
                MUST(ops->tap(view, l, i, &row, &error));
                trace_reference(trace, l, at + i, row);
            }
            MUST(ops->logits(view, i, &row, &error));
            memcpy(trace->logits + (size_t)(at + i) * trace->n_vocab, row,
                   trace->n_vocab * sizeof *row);
        }
    }
    ops->cache_free(cache);
    rf_view_free(view);
    opened_free(&opened);
}

/* |a - b| / |b| over n elements. */
static double relative_error(const float *a, const float *b, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(off / size);
}

static void every_layer_agrees(const char *name, const struct rf_source *source,
                               enum rf_weight_form form)
{
    const struct rf_params *params = &source->params;
    struct trace got = trace_new(params), wanted = trace_new(params);
    int32_t tokens[N_TOKENS];
    random_tokens(tokens, N_TOKENS, params->n_vocab, 1);
    enum reference_rounding rounding = form == RF_WEIGHTS_BF16 ? REFERENCE_BF16 : REFERENCE_STORED;
    CHECK_INT(reference_logits(source, rounding, tokens, N_TOKENS, trace_reference, &wanted,
                               wanted.logits),
              0);
    trace_plain(&got, source, form, tokens);
    for (int32_t i = 0; i < N_TOKENS; i++) {
        for (int32_t l = 0; l < params->n_layer; l++) {
            double off =
                relative_error(hidden_at(&got, l, i), hidden_at(&wanted, l, i), got.n_embd);
            CHECK_MSG(off < TOLERANCE, "%s: layer %d at position %d is off by %.1e", name, l, i,
                      off);
        }
        double off = relative_error(got.logits + (size_t)i * got.n_vocab,
                                    wanted.logits + (size_t)i * got.n_vocab, got.n_vocab);
        CHECK_MSG(off < TOLERANCE, "%s: the logits at position %d are off by %.1e", name, i, off);
    }
    trace_free(&got);
    trace_free(&wanted);
}

static void check_synthetic(const char *name, const struct rf_params *params,
                            const enum rf_dtype *types, size_t n_types, enum rf_weight_form form)
{
    struct rf_source *source = synthetic_new(params, types, n_types);
    CHECK(source != NULL);
    if (source) every_layer_agrees(name, source, form);
    synthetic_free(source);
}

/* ---- as a device ---- */

/* The kernel refuses to read what the process may not. */
static int host_can_read(const void *address)
{
    int pipes[2];
    if (pipe(pipes)) exit(1);
    int can_read = write(pipes[1], address, 1) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return can_read;
}

/* What a pass of two groups is given, and what it gives. */
struct request {
    struct rf_cache *caches[2];
    int32_t tokens[2][4], wanted[2];
    struct rf_rows groups[2];
    struct rf_best best[2];
    struct rf_pass pass;
};

static void request_new(struct request *request, const struct opened *opened, uint32_t seed)
{
    memset(request, 0, sizeof *request);
    for (int g = 0; g < 2; g++) {
        request->caches[g] = cache_of(opened, 8);
        random_tokens(request->tokens[g], 4, opened->source->params.n_vocab, seed + (uint32_t)g);
        request->groups[g] =
            (struct rf_rows){.cache = request->caches[g], .tokens = request->tokens[g], .n = 4};
        request->wanted[g] = 4 * g + 3;
        request->best[g].n = -1;
    }
    request->pass = (struct rf_pass){.groups = request->groups,
                                     .n_groups = 2,
                                     .wanted = request->wanted,
                                     .n_wanted = 2,
                                     .n_best = 1,
                                     .best = request->best};
}

static void request_free(struct request *request)
{
    for (int g = 0; g < 2; g++) request->caches[g]->backend->ops->cache_free(request->caches[g]);
}

static void passes_are_done_when_they_must(const struct opened *opened)
{
    const struct rf_backend_ops *ops = opened->backend->ops;
    const struct rf_view_options options = {.max_rows = 8};
    struct rf_view *view = view_of(opened, opened->model, &options),
                   *other = view_of(opened, opened->model, &options);
    struct request first, second;
    struct rf_cache *fork;
    const float *row;
    request_new(&first, opened, 1);
    request_new(&second, opened, 3);

    MUST(ops->submit(view, &first.pass, &error));
    CHECK_INT(first.best[0].n, -1);
    MUST(ops->sync(view, &error));
    CHECK(first.best[0].n == 1 && first.best[1].n == 1);
    MUST(ops->logits(view, 1, &row, &error));
    CHECK(row[first.best[1].top[0].token] == first.best[1].top[0].logit);

    /* The next submit takes the answers away; a queue does one pass after the other. */
    first.best[0].n = -1;
    MUST(ops->submit(view, &first.pass, &error));
    CHECK(isnan(row[0]));
    MUST(ops->submit(other, &second.pass, &error));
    CHECK_INT(first.best[0].n, 1);
    CHECK_INT(second.best[0].n, -1);
    MUST(ops->sync(view, &error));
    /* Calls on a cache wait for the pass. */
    MUST(ops->cache_fork(&fork, second.caches[0], 4, &error));
    CHECK_INT(second.best[0].n, 1);
    MUST(ops->sync(other, &error));
    ops->cache_free(fork);
    request_free(&first);
    request_free(&second);
    rf_view_free(view);
    rf_view_free(other);
}

static void failures_come_where_they_are_asked_for(const struct opened *opened)
{
    const struct rf_backend_ops *ops = opened->backend->ops;
    const struct rf_view_options options = {.max_rows = 8};
    struct rf_view *view = view_of(opened, opened->model, &options);
    struct rf_error failure = {.text = ""};
    struct request request;
    uint8_t kv[4096];
    request_new(&request, opened, 1);
    CHECK(ops->cache_bytes(request.caches[0], 4) <= sizeof kv);
    MUST(rf_view_run(view, &request.pass, &error));

    plain_fail_at(3, RF_ERR_SYSTEM); /* submit, the pass, submit */
    MUST(rf_view_run(view, &request.pass, &error));
    CHECK(!plain_has_failed());
    CHECK_INT(ops->submit(view, &request.pass, &failure), RF_ERR_SYSTEM);
    CHECK(plain_has_failed() && failure.text[0]);
    MUST(rf_view_run(view, &request.pass, &error));

    /* A pass that fails leaves its rows undefined: NaN in F16. */
    plain_fail_at(2, RF_ERR_MEMORY);
    CHECK_INT(ops->submit(view, &request.pass, &failure), 0);
    CHECK_INT(ops->sync(view, &failure), RF_ERR_MEMORY);
    MUST(ops->cache_save(request.caches[0], 4, kv, &error));
    uint16_t half;
    memcpy(&half, kv, sizeof half);
    CHECK((half & 0x7c00) == 0x7c00 && (half & 0x03ff) != 0);
    MUST(rf_view_run(view, &request.pass, &error));
    plain_fail_at(0, 0);
    request_free(&request);
    rf_view_free(view);
}

static void check_device(const struct rf_params *params)
{
    static const enum rf_dtype bf16 = RF_BF16;
    struct rf_source *source = synthetic_new(params, &bf16, 1);
    CHECK(source != NULL);
    if (!source) return;
    struct opened opened = opened_new(&plain, source, RF_WEIGHTS_BF16, &rf_system_allocator);
    size_t before = plain_device_bytes(opened.backend);
    CHECK(before > 0);
    CHECK(!host_can_read(plain_device_address(opened.backend)));
    CHECK(host_can_read(opened.backend));
    passes_are_done_when_they_must(&opened);
    failures_come_where_they_are_asked_for(&opened);
    CHECK(!host_can_read(plain_device_address(opened.backend)));
    CHECK_INT(plain_device_bytes(opened.backend), before);
    opened_free(&opened);
    synthetic_free(source);
}

int main(void)
{
    static const enum rf_dtype f32 = RF_F32, bf16 = RF_BF16,
                               blocks_of_32[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16,
                                                 RF_Q4_1, RF_Q5_0, RF_Q5_1,  RF_F16},
                               blocks_of_256[] = {RF_Q4_K, RF_Q6_K, RF_Q5_K, RF_Q2_K,
                                                  RF_Q3_K, RF_Q4_K, RF_BF16};
    struct rf_params qwen2 = {.arch = RF_ARCH_QWEN2,
                              .arch_name = "qwen2",
                              .n_layer = 2,
                              .n_embd = 72,
                              .n_head = 6,
                              .n_head_kv = 2,
                              .head_dim = 12,
                              .n_ff = 200,
                              .n_vocab = 301,
                              .n_ctx_train = 512,
                              .rms_eps = 1e-6f,
                              .rope_style = RF_ROPE_NEOX,
                              .rope_dim = 12,
                              .rope_theta = 1e6f,
                              .rope_scale = 1.0f,
                              .rope_magnitude = 1.0f,
                              .tied_output = 1,
                              .qkv_bias = 1};
    check_synthetic("qwen2, F32", &qwen2, &f32, 1, RF_WEIGHTS_BF16);
    check_device(&qwen2);

    struct rf_params mixed = qwen2;
    mixed.n_embd = 96;
    mixed.n_head = 8;
    mixed.n_ff = 160;
    check_synthetic("blocks of 32", &mixed, blocks_of_32, 8, RF_WEIGHTS_STORED);
    check_synthetic("blocks of 32 in BF16", &mixed, blocks_of_32, 8, RF_WEIGHTS_BF16);

    struct rf_params qwen3 = qwen2;
    qwen3.arch = RF_ARCH_QWEN3;
    qwen3.arch_name = "qwen3";
    qwen3.n_head = 4;
    qwen3.n_head_kv = 1;
    qwen3.head_dim = 32;
    qwen3.rope_dim = 32;
    qwen3.qkv_bias = 0;
    qwen3.qk_norm = 1;
    check_synthetic("qwen3", &qwen3, &bf16, 1, RF_WEIGHTS_BF16);

    static const float factors[] = {1, 1, 1.5f, 2, 4, 8, 8, 8};
    struct rf_params llama = qwen3; /* scaled frequencies, half of each head rotating */
    llama.arch = RF_ARCH_LLAMA;
    llama.arch_name = "llama";
    llama.rope_style = RF_ROPE_NORM;
    llama.rope_dim = 16;
    llama.rope_freq_factors = factors;
    llama.rope_scale = 0.5f;
    llama.rope_magnitude = 1.25f;
    llama.qk_norm = 0;
    llama.tied_output = 0;
    check_synthetic("llama", &llama, &bf16, 1, RF_WEIGHTS_BF16);
    llama.n_embd = llama.n_ff = 256;
    llama.head_dim = 64;
    check_synthetic("blocks of 256", &llama, blocks_of_256, 7, RF_WEIGHTS_STORED);
    return check_result();
}
