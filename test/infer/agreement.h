/* Whether a kind of device computes what reference/forward.c computes: every layer of models of all
 * architectures, and their logits. */
#ifndef RF_TEST_INFER_AGREEMENT_H
#define RF_TEST_INFER_AGREEMENT_H

#include <math.h>

#include "infer/device.h"
#include "reference/forward.h"
#include "support/synthetic.h"

/* Greatest relative errors of a row, of models in BF16 and of models with quantised weights. */
struct agreement {
    const struct device *device;
    double bf16, quantised;
    int experts, convs; /* the device has them */
};

enum { N_TOKENS = 272, ROWS = RF_TREE_ROWS };

static inline struct rf_cache *cache_of(const struct opened *opened, int32_t n_ctx)
{
    struct rf_cache *cache;
    const struct rf_cache_shape shape = {
        .params = &opened->source->params, .n_ctx = n_ctx, .kv = RF_KV_F16};
    MUST(opened->backend->ops->cache_new(&cache, opened->backend, &shape, &error));
    return cache;
}

/* Hidden states [n_layer][N_TOKENS][n_embd] and logits [N_TOKENS][n_vocab]. */
struct trace {
    float *hidden, *logits;
    size_t n_embd, n_vocab;
};

static inline struct trace trace_new(const struct rf_params *params)
{
    struct trace trace = {.n_embd = (size_t)params->n_embd, .n_vocab = (size_t)params->n_vocab};
    trace.hidden = calloc((size_t)params->n_layer * N_TOKENS * trace.n_embd, sizeof(float));
    trace.logits = calloc(N_TOKENS * trace.n_vocab, sizeof(float));
    if (!trace.hidden || !trace.logits) exit(1);
    return trace;
}

static inline void trace_free(struct trace *trace)
{
    free(trace->hidden);
    free(trace->logits);
}

static inline float *hidden_at(const struct trace *trace, int32_t layer, int32_t position)
{
    return trace->hidden + ((size_t)layer * N_TOKENS + (size_t)position) * trace->n_embd;
}

static inline void trace_reference(void *user, int32_t layer, int32_t position, const float *hidden)
{
    const struct trace *trace = user;
    memcpy(hidden_at(trace, layer, position), hidden, trace->n_embd * sizeof *hidden);
}

/* Reads the tokens in passes of up to ROWS rows, all of them answered. */
static inline void trace_device(struct trace *trace, const struct device *device,
                                const struct rf_source *source, enum rf_weight_form form,
                                const int32_t *tokens)
{
    int32_t layers[RF_MAX_TAPS], wanted[ROWS];
    struct opened opened = opened_new(device, source, form, &rf_system_allocator);
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
static inline double relative_error(const float *a, const float *b, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(off / size);
}

static inline void every_layer_agrees(const struct agreement *agreement, const char *name,
                                      const struct rf_source *source, enum rf_weight_form form)
{
    const struct rf_params *params = &source->params;
    struct trace got = trace_new(params), wanted = trace_new(params);
    int32_t tokens[N_TOKENS];
    random_tokens(tokens, N_TOKENS, params->n_vocab, 1);
    double tolerance = form == RF_WEIGHTS_BF16 ? agreement->bf16 : agreement->quantised;
    enum reference_rounding rounding = form == RF_WEIGHTS_BF16 ? REFERENCE_BF16 : REFERENCE_STORED;
    CHECK_INT(reference_logits(source, rounding, tokens, N_TOKENS, trace_reference, &wanted,
                               wanted.logits),
              0);
    trace_device(&got, agreement->device, source, form, tokens);
    for (int32_t i = 0; i < N_TOKENS; i++) {
        for (int32_t l = 0; l < params->n_layer; l++) {
            double off =
                relative_error(hidden_at(&got, l, i), hidden_at(&wanted, l, i), got.n_embd);
            CHECK_MSG(off < tolerance, "%s: layer %d at position %d is off by %.1e", name, l, i,
                      off);
        }
        double off = relative_error(got.logits + (size_t)i * got.n_vocab,
                                    wanted.logits + (size_t)i * got.n_vocab, got.n_vocab);
        CHECK_MSG(off < tolerance, "%s: the logits at position %d are off by %.1e", name, i, off);
    }
    trace_free(&got);
    trace_free(&wanted);
}

static inline void check_synthetic(const struct agreement *agreement, const char *name,
                                   const struct rf_params *params, const enum rf_dtype *types,
                                   size_t n_types, enum rf_weight_form form)
{
    struct rf_source *source = synthetic_new(params, types, n_types);
    CHECK(source != NULL);
    if (source) every_layer_agrees(agreement, name, source, form);
    synthetic_free(source);
}

/* Models of all architectures, in all types of blocks. */
static inline void check_agreement(const struct agreement *agreement)
{
    static const enum rf_dtype f32 = RF_F32, bf16 = RF_BF16,
                               blocks_of_32[] = {RF_Q4_0, RF_Q8_0, RF_MXFP4, RF_BF16,
                                                 RF_Q4_1, RF_Q5_0, RF_Q5_1,  RF_F16},
                               blocks_of_256[] = {RF_Q4_K, RF_Q6_K, RF_Q5_K, RF_Q2_K,
                                                  RF_Q3_K, RF_Q4_K, RF_BF16};
    struct rf_params qwen2 = synthetic_qwen2();
    check_synthetic(agreement, "qwen2, F32", &qwen2, &f32, 1, RF_WEIGHTS_BF16);

    struct rf_params mixed = qwen2;
    mixed.n_embd = 96;
    mixed.n_head = 8;
    mixed.n_ff = 160;
    check_synthetic(agreement, "blocks of 32", &mixed, blocks_of_32, 8, RF_WEIGHTS_STORED);
    check_synthetic(agreement, "blocks of 32 in BF16", &mixed, blocks_of_32, 8, RF_WEIGHTS_BF16);
    if (agreement->experts) {
        struct rf_params experts = mixed;
        experts.n_expert = 5;
        experts.n_expert_used = 2;
        experts.expert_norm = 1;
        check_synthetic(agreement, "experts", &experts, blocks_of_32, 8, RF_WEIGHTS_STORED);

        static const uint8_t flags[] = {RF_LAYER_DENSE, 0};
        experts.layer_flags = flags;
        experts.n_ff_dense = 192;
        experts.n_ff_shared = 64;
        experts.expert_norm = 0;
        check_synthetic(agreement, "a shared expert", &experts, blocks_of_32, 8, RF_WEIGHTS_STORED);
        check_synthetic(agreement, "a shared expert, BF16", &experts, &bf16, 1, RF_WEIGHTS_BF16);
    }

    if (agreement->convs) {
        static const uint8_t layers[] = {RF_LAYER_CONV, RF_LAYER_WINDOW, RF_LAYER_CONV};
        struct rf_params conv = qwen2;
        conv.arch = RF_ARCH_LFM2;
        conv.arch_name = "lfm2";
        conv.n_layer = 3;
        conv.layer_flags = layers;
        conv.qk_norm = 1;
        conv.conv_rows = 3;
        check_synthetic(agreement, "convolutions", &conv, &bf16, 1, RF_WEIGHTS_BF16);
        conv.conv_rows = 5;
        conv.conv_bias = conv.o_bias = 1;
        conv.n_embd = mixed.n_embd;
        conv.n_head = mixed.n_head;
        conv.n_ff = mixed.n_ff;
        check_synthetic(agreement, "convolutions with biases", &conv, blocks_of_32, 8,
                        RF_WEIGHTS_STORED);

        static const uint8_t deltas[] = {RF_LAYER_DELTA, 0, RF_LAYER_DELTA};
        struct rf_params delta = qwen2;
        synthetic_deltas(&delta, deltas, 3);
        check_synthetic(agreement, "the delta rule", &delta, &bf16, 1, RF_WEIGHTS_BF16);
        delta.delta_tiled = 1;
        check_synthetic(agreement, "the delta rule with tiled heads", &delta, &bf16, 1,
                        RF_WEIGHTS_BF16);

        static const uint8_t mambas[] = {RF_LAYER_MAMBA, 0, RF_LAYER_MAMBA};
        struct rf_params mamba = qwen2;
        synthetic_mamba(&mamba, mambas, 3);
        check_synthetic(agreement, "Mamba-2", &mamba, &bf16, 1, RF_WEIGHTS_BF16);
        mamba.step_min = 0.3f;
        mamba.step_max = 0.9f;
        mamba.conv_bias = 0;
        check_synthetic(agreement, "Mamba-2 with limits", &mamba, &bf16, 1, RF_WEIGHTS_BF16);
        /* Experts beside one that counts as it is. All are used, as rounding tips choices. */
        mamba.n_expert = mamba.n_expert_used = 4;
        mamba.n_ff_shared = 64;
        mamba.shared_whole = mamba.expert_norm = 1;
        check_synthetic(agreement, "Mamba-2 with experts", &mamba, &bf16, 1, RF_WEIGHTS_BF16);
    }

    struct rf_params qwen3 = qwen2;
    qwen3.arch = RF_ARCH_QWEN3;
    qwen3.arch_name = "qwen3";
    qwen3.n_head = 4;
    qwen3.n_head_kv = 1;
    qwen3.head_dim = 32;
    qwen3.rope_dim = 32;
    qwen3.qkv_bias = 0;
    qwen3.qk_norm = 1;
    check_synthetic(agreement, "qwen3", &qwen3, &bf16, 1, RF_WEIGHTS_BF16);

    static const float factors[] = {1, 1, 1.5f, 2, 4, 8, 8, 8};
    struct rf_params llama = qwen3; /* scaled frequencies, half of each head rotating */
    llama.arch = RF_ARCH_LLAMA;
    llama.arch_name = "llama";
    llama.rope_style = RF_ROPE_NORM;
    llama.rope_dim = 16;
    llama.rope.factors = factors;
    llama.rope.scale = 0.5f;
    llama.rope.magnitude = 1.25f;
    llama.qk_norm = 0;
    llama.tied_output = 0;
    llama.qkv_bias = llama.o_bias = llama.ffn_bias = 1;
    llama.rope.ntk_factor = 3; /* and frequencies that fall with the position */
    llama.rope.ntk_from = 8;
    check_synthetic(agreement, "llama", &llama, &bf16, 1, RF_WEIGHTS_BF16);
    llama.n_embd = llama.n_ff = 256;
    llama.head_dim = 64;
    check_synthetic(agreement, "blocks of 256", &llama, blocks_of_256, 7, RF_WEIGHTS_STORED);
}

#endif
