#include "support/synthetic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "model/tensors.h"

enum { MAX_TENSORS = 128, NAME_BYTES = 48 };

struct synthetic {
    struct rf_source source; /* first, as its address is what callers hold */
    struct rf_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][NAME_BYTES];
    void *data[MAX_TENSORS];
    const enum rf_dtype *types; /* types of the matrices, in turn */
    size_t n_types, n_matrices;
    uint32_t random;
    int failed;
};

/* Uniform in [-1, 1). */
static float next_random(struct synthetic *s)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (float)(s->random >> 8) / 8388608.0f - 1.0f;
}

static void put_f16(uint8_t *to, float value)
{
    uint16_t half = rf_f32_to_f16(value);
    memcpy(to, &half, sizeof half);
}

/* Offsets in the blocks of a type: of their scale, and of a second number, `ratio` times the scale,
 * that brings their mean to zero; -1: nowhere. */
struct scales {
    int scale, second;
    float ratio;
};

static const struct scales scales_of[RF_DTYPE_LIMIT] = {
    [RF_Q4_0] = {0, -1, 0},      [RF_Q4_1] = {0, 2, -7.5f},  [RF_Q5_0] = {0, -1, 0},
    [RF_Q5_1] = {0, 2, -15.5f},  [RF_Q8_0] = {0, -1, 0},     [RF_Q2_K] = {80, 82, 1.5f},
    [RF_Q3_K] = {108, -1, 0},    [RF_Q4_K] = {0, 2, 7.5f},   [RF_Q5_K] = {0, 2, 15.5f},
    [RF_Q6_K] = {208, -1, 0},    [RF_MXFP4] = {-1, -1, 0},   [RF_W4A8] = {0, -1, 0},
    [RF_W4A8_G128] = {0, -1, 0}, [RF_W4A8_ROW] = {0, -1, 0}, [RF_IQ1_S] = {0, -1, 0},
    [RF_IQ2_XXS] = {0, -1, 0},   [RF_IQ2_XS] = {0, -1, 0},   [RF_IQ2_S] = {0, -1, 0},
    [RF_IQ3_XXS] = {0, -1, 0},   [RF_IQ3_S] = {0, -1, 0},    [RF_IQ4_NL] = {0, -1, 0},
    [RF_IQ4_XS] = {0, -1, 0},    [RF_TQ1_0] = {52, -1, 0},
};

/* Sets the scales of random blocks to about `scale`. */
static void set_scales(struct synthetic *s, enum rf_dtype dtype, uint8_t *data, size_t bytes,
                       float scale)
{
    const struct scales *at = &scales_of[dtype];
    for (size_t i = 0; i < bytes; i += rf_dtype_info(dtype)->block_bytes) {
        /* Types with a scale for a row have the same one in all rows, which is one for each. */
        float own = scale * (rf_is_row_dtype(dtype) ? 1 : 1 + 0.5f * next_random(s));
        if (dtype == RF_W4A8_G128) data[i + 2] = (uint8_t)(int8_t)(data[i + 2] % 2 ? 15 : -9);
        if (dtype == RF_MXFP4) data[i] = (uint8_t)(127 + ilogbf(own));
        if (at->scale >= 0) put_f16(data + i + at->scale, own);
        if (at->second >= 0) put_f16(data + i + at->second, own * at->ratio);
    }
}

/* Random blocks whose values have the root mean square `rms`. */
static void fill_blocks(struct synthetic *s, enum rf_dtype dtype, uint8_t *data, size_t bytes,
                        size_t n, float rms)
{
    float *values = malloc(n * sizeof *values);
    if (!values) {
        s->failed = 1;
        return;
    }
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(128 + (int)(128 * next_random(s)));
    set_scales(s, dtype, data, bytes, 1);
    rf_dequantize_f32(dtype, data, values, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)values[i] * values[i];
    set_scales(s, dtype, data, bytes, rms / (float)sqrt(sum / (double)n));
    free(values);
}

static void fill_floats(struct synthetic *s, enum rf_dtype dtype, uint8_t *data, size_t n,
                        float mean, float spread)
{
    for (size_t k = 0; k < n; k++) {
        float value = mean + spread * next_random(s);
        if (dtype == RF_F16)
            put_f16(data + 2 * k, value);
        else if (dtype == RF_BF16)
            memcpy(data + 2 * k, (char *)&value + 2, 2);
        else
            memcpy(data + 4 * k, &value, 4);
    }
}

/* Values around `mean` that differ by up to `spread`. Data begins past an aligned address in other
 * types than F32, as a file promises no alignment. */
static void add(struct synthetic *s, const char *name, enum rf_dtype dtype, int32_t n_in,
                int32_t n_out, float mean, float spread)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    size_t n = (size_t)n_in * (size_t)n_out, bytes = n / info->block_elems * info->block_bytes;
    int32_t i = s->source.n_tensors;
    uint8_t *data = i < MAX_TENSORS ? malloc(bytes + 2) : NULL;
    if (!data) {
        s->failed = 1;
        return;
    }
    s->data[i] = data;
    data += dtype == RF_F32 ? 0 : dtype == RF_BF16 ? 2 : 1;
    if (info->block_elems > 1)
        fill_blocks(s, dtype, data, bytes, n, spread / sqrtf(3));
    else
        fill_floats(s, dtype, data, n, mean, spread);
    snprintf(s->names[i], NAME_BYTES, "%s", name);
    s->tensors[i] = (struct rf_tensor){.name = s->names[i],
                                       .dtype = dtype,
                                       .n_dims = n_out > 1 ? 2 : 1, /* add_several: 3 */
                                       .ne = {n_in, n_out, 1, 1},
                                       .data = data,
                                       .bytes = bytes};
    s->source.n_tensors++;
}

static void add_matrix(struct synthetic *s, const char *name, int32_t n_in, int32_t n_out)
{
    add(s, name, s->types[s->n_matrices++ % s->n_types], n_in, n_out, 0, 1.7f / sqrtf((float)n_in));
}

/* The matrices of all n experts or heads, one after the other. */
static void add_several(struct synthetic *s, const char *name, int32_t n_in, int32_t n_out,
                        int32_t n)
{
    int32_t i = s->source.n_tensors;
    add_matrix(s, name, n_in, n_out * n);
    s->tensors[i].n_dims = 3;
    s->tensors[i].ne[1] = n_out;
    s->tensors[i].ne[2] = n;
}

/* Gate, up and down of one feed-forward, or (`_exps`) of all experts. */
static void add_feed_forward(struct synthetic *s, int32_t layer, const char *end, int32_t width)
{
    int32_t n_embd = s->source.params.n_embd;
    const struct {
        const char *name;
        int32_t n_in, n_out;
    } matrices[] = {
        {"ffn_gate", n_embd, width}, {"ffn_up", n_embd, width}, {"ffn_down", width, n_embd}};
    char name[NAME_BYTES];
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        snprintf(name, sizeof name, "blk.%d.%s%s.weight", layer, matrices[i].name, end);
        if (strcmp(end, "_exps") == 0)
            add_several(s, name, matrices[i].n_in, matrices[i].n_out, s->source.params.n_expert);
        else
            add_matrix(s, name, matrices[i].n_in, matrices[i].n_out);
    }
}

static void add_router(struct synthetic *s, int32_t layer, const char *end, int32_t n)
{
    char name[NAME_BYTES];
    int32_t n_embd = s->source.params.n_embd;
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp%s.weight", layer, end);
    add(s, name, RF_F32, n_embd, n, 0, 4 / sqrtf((float)n_embd));
}

static void add_ffn_biases(struct synthetic *s, int32_t layer)
{
    static const char *const names[] = {"ffn_gate", "ffn_up", "ffn_down"};
    const struct rf_params *p = &s->source.params;
    char name[NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "blk.%d.%s.bias", layer, names[i]);
        add(s, name, RF_F32, i < 2 ? rf_ff_width(p, layer) : p->n_embd, 1, 0, 0.5f);
    }
}

/* Matrices between the norm and the residual stream. */
static void add_feed_forwards(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    if (rf_is_dense(p, layer)) {
        add_feed_forward(s, layer, "", rf_ff_width(p, layer));
        if (p->ffn_bias) add_ffn_biases(s, layer);
        return;
    }
    add_feed_forward(s, layer, "_exps", p->n_ff);
    add_router(s, layer, "", p->n_expert);
    if (!p->n_ff_shared) return;
    add_feed_forward(s, layer, "_shexp", p->n_ff_shared);
    if (!p->shared_whole) add_router(s, layer, "_shexp", 1);
}

/* A matrix of a layer and perhaps its bias. */
static void add_linear(struct synthetic *s, int32_t layer, const char *name, int32_t n_in,
                       int32_t n_out, int has_bias)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    add_matrix(s, full, n_in, n_out);
    snprintf(full, sizeof full, "blk.%d.%s.bias", layer, name);
    if (has_bias) add(s, full, RF_F32, n_out, 1, 0, 0.5f);
}

static void add_conv(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    char name[NAME_BYTES];
    add_linear(s, layer, "shortconv.in_proj", p->n_embd, 3 * p->n_embd, p->conv_bias);
    add_linear(s, layer, "shortconv.out_proj", p->n_embd, p->n_embd, p->conv_bias);
    snprintf(name, sizeof name, "blk.%d." RF_CONV, layer);
    add(s, name, RF_F32, p->conv_rows, p->n_embd, 0, 1);
    snprintf(name, sizeof name, "blk.%d.shortconv.conv.bias", layer);
    if (p->conv_bias) add(s, name, RF_F32, p->n_embd, 1, 0, 0.5f);
}

/* Decays that forget over a few rows to a few hundred. */
static void add_delta(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    const struct {
        const char *name;
        int32_t ne0, ne1;
        float from, spread;
    } vectors[] = {{RF_DELTA_CONV, p->conv_rows, rf_delta_mixed(p), 0, 1},
                   {RF_DELTA_DECAY, p->delta_values, 1, -0.5f, 0.4f},
                   {"ssm_dt.bias", p->delta_values, 1, 0, 1},
                   {RF_DELTA_NORM, p->delta_value_dim, 1, 1, 0.3f}};
    add_linear(s, layer, "attn_qkv", p->n_embd, rf_delta_mixed(p), 0);
    add_linear(s, layer, "attn_gate", p->n_embd, rf_delta_values(p), 0);
    add_linear(s, layer, "ssm_beta", p->n_embd, p->delta_values, 0);
    add_linear(s, layer, "ssm_alpha", p->n_embd, p->delta_values, 0);
    add_linear(s, layer, "ssm_out", rf_delta_values(p), p->n_embd, 0);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "blk.%d.%s", layer, vectors[i].name);
        add(s, name, RF_F32, vectors[i].ne0, vectors[i].ne1, vectors[i].from, vectors[i].spread);
    }
}

static void add_mamba(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    const struct {
        const char *name;
        int32_t ne0, ne1;
        float from, spread;
    } vectors[] = {{RF_DELTA_CONV, p->conv_rows, rf_delta_mixed(p), 0, 1},
                   {"ssm_conv1d.bias", p->conv_bias ? rf_delta_mixed(p) : 0, 1, 0, 0.5f},
                   {RF_DELTA_DECAY, p->delta_values, 1, -0.5f, 0.4f},
                   {"ssm_dt.bias", p->delta_values, 1, 0, 1},
                   {RF_MAMBA_SKIP, p->delta_values, 1, 1, 0.5f},
                   {RF_DELTA_NORM, rf_delta_values(p), 1, 1, 0.3f}};
    add_linear(s, layer, "ssm_in", p->n_embd, rf_delta_values(p), 0);
    add_linear(s, layer, "ssm_in_xbc", p->n_embd, rf_delta_mixed(p), 0);
    add_linear(s, layer, "ssm_in_dt", p->n_embd, p->delta_values, 0);
    add_linear(s, layer, "ssm_out", rf_delta_values(p), p->n_embd, 0);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "blk.%d.%s", layer, vectors[i].name);
        if (vectors[i].ne0)
            add(s, name, RF_F32, vectors[i].ne0, vectors[i].ne1, vectors[i].from,
                vectors[i].spread);
    }
}

static void add_attention(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    int32_t n_q = (int32_t)rf_n_q(p, layer), n_kv = (int32_t)rf_n_kv(p, layer);
    add_linear(s, layer, "attn_q", p->n_embd, (int32_t)rf_n_q_rows(p, layer), p->qkv_bias);
    int has_keys = !rf_shares_keys(p, layer);
    if (has_keys) add_linear(s, layer, "attn_k", p->n_embd, n_kv, p->qkv_bias);
    if (has_keys && !rf_v_is_k(p, layer))
        add_linear(s, layer, "attn_v", p->n_embd, n_kv, p->qkv_bias);
    add_linear(s, layer, "attn_output", n_q, p->n_embd, p->o_bias);
}

/* A layer's own embedding of the token, and the factor of its result. */
static void add_layer_input(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    char name[NAME_BYTES];
    add_linear(s, layer, "inp_gate", p->n_embd, p->n_embd_layer, 0);
    add_linear(s, layer, "proj", p->n_embd_layer, p->n_embd, 0);
    snprintf(name, sizeof name, "blk.%d.post_norm.weight", layer);
    add(s, name, RF_F32, p->n_embd, 1, 1, 0.3f);
    snprintf(name, sizeof name, "blk.%d." RF_LAYER_SCALE, layer);
    if (p->layer_scale) add(s, name, RF_F32, 1, 1, 1, 0.3f);
}

static void add_latent(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    int32_t n_q = (int32_t)rf_n_q_rows(p, layer);
    char name[NAME_BYTES];
    if (p->latent_q) {
        add_linear(s, layer, "attn_q_a", p->n_embd, p->latent_q, 0);
        add_linear(s, layer, "attn_q_b", p->latent_q, n_q, 0);
        snprintf(name, sizeof name, "blk.%d.attn_q_a_norm.weight", layer);
        add(s, name, RF_F32, p->latent_q, 1, 1, 0.3f);
    } else {
        add_linear(s, layer, "attn_q", p->n_embd, n_q, 0);
    }
    add_linear(s, layer, "attn_kv_a_mqa", p->n_embd, p->head_dim, 0);
    snprintf(name, sizeof name, "blk.%d.attn_kv_a_norm.weight", layer);
    add(s, name, RF_F32, p->latent, 1, 1, 0.3f);
    snprintf(name, sizeof name, "blk.%d." RF_K_B, layer);
    add_several(s, name, p->head_nope, p->latent, p->n_head);
    snprintf(name, sizeof name, "blk.%d." RF_V_B, layer);
    add_several(s, name, p->latent, p->head_value, p->n_head);
    add_linear(s, layer, "attn_output", (int32_t)rf_n_attended(p, layer), p->n_embd, 0);
}

static void add_layer(struct synthetic *s, int32_t layer)
{
    const struct rf_params *p = &s->source.params;
    int has_state = rf_has_state(p, layer);
    char name[NAME_BYTES];
    if (rf_is_conv(p, layer))
        add_conv(s, layer);
    else if (rf_is_mamba(p, layer))
        add_mamba(s, layer);
    else if (has_state)
        add_delta(s, layer);
    else if (p->latent)
        add_latent(s, layer);
    else
        add_attention(s, layer);
    add_feed_forwards(s, layer);
    const char *const norms[] = {"attn_norm.weight", RF_FFN_NORM(p), "attn_q_norm.weight",
                                 "attn_k_norm.weight"};
    for (int i = 0; i < (!p->qk_norm || has_state ? 2 : rf_shares_keys(p, layer) ? 3 : 4); i++) {
        snprintf(name, sizeof name, "blk.%d.%s", layer, norms[i]);
        add(s, name, RF_F32, i < 2 ? p->n_embd : rf_head_dim(p, layer), 1, 1, 0.3f);
    }
    if (p->n_embd_layer) add_layer_input(s, layer);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

struct rf_source *synthetic_new(const struct rf_params *params, const enum rf_dtype *types,
                                size_t n_types)
{
    struct synthetic *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->random = 12345;
    s->types = types;
    s->n_types = n_types;
    s->source.params = *params;
    s->source.name = "synthetic";
    s->source.container = "memory";
    s->source.tensors = s->tensors;
    add_matrix(s, "token_embd.weight", params->n_embd, params->n_vocab);
    add(s, RF_OUTPUT_NORM(params), RF_F32, params->n_embd, 1, 1, 0.3f);
    if (params->n_embd_layer) {
        int32_t width = params->n_embd_layer * params->n_layer;
        add_matrix(s, RF_LAYER_EMBD, width, params->n_vocab);
        add_matrix(s, "per_layer_model_proj.weight", params->n_embd, width);
        add(s, "per_layer_proj_norm.weight", RF_F32, params->n_embd_layer, 1, 1, 0.3f);
    }
    if (!params->tied_output) add_matrix(s, "output.weight", params->n_embd, params->n_vocab);
    for (int32_t i = 0; i < params->n_layer; i++) add_layer(s, i);
    qsort(s->tensors, (size_t)s->source.n_tensors, sizeof *s->tensors, by_name);
    if (s->failed) {
        synthetic_free(&s->source);
        return NULL;
    }
    return &s->source;
}

void synthetic_free(struct rf_source *source)
{
    struct synthetic *s = (struct synthetic *)source;
    for (int32_t i = 0; s && i < MAX_TENSORS; i++) free(s->data[i]);
    free(s);
}

void synthetic_deltas(struct rf_params *params, const uint8_t *flags, int32_t n_layer)
{
    params->arch = RF_ARCH_QWEN35;
    params->arch_name = "qwen35";
    params->n_layer = n_layer;
    params->layer_flags = flags;
    params->qk_norm = params->attn_gate = 1;
    params->conv_rows = 4;
    params->rms_eps = 0.02f; /* norms do not enlarge what rounding changes in small results */
    params->delta_keys = 2;
    params->delta_values = 4;
    params->delta_key_dim = 8;
    params->delta_value_dim = 20;
}

void synthetic_mamba(struct rf_params *params, const uint8_t *flags, int32_t n_layer)
{
    synthetic_deltas(params, flags, n_layer);
    params->arch = RF_ARCH_GRANITEHYBRID;
    params->arch_name = "granitehybrid";
    params->qk_norm = params->attn_gate = 0;
    params->qkv_bias = 0;
    params->is_mamba = params->conv_bias = 1;
    params->delta_values = 6;
}

void synthetic_latent(struct rf_params *params, int32_t latent_q)
{
    params->arch = RF_ARCH_DEEPSEEK2;
    params->arch_name = "deepseek2";
    params->qkv_bias = 0;
    params->rope_style = RF_ROPE_NORM;
    params->n_head_kv = 1;
    params->rope_dim = 8;
    params->latent = 24;
    params->latent_q = latent_q;
    params->head_dim = params->latent + params->rope_dim;
    params->head_nope = 12;
    params->head_value = 20;
    params->attention_scale = 0.25f;
}

struct rf_params synthetic_qwen2(void)
{
    return (struct rf_params){.arch = RF_ARCH_QWEN2,
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
                              .rope.theta = 1e6f,
                              .rope.scale = 1.0f,
                              .rope.magnitude = 1.0f,
                              .tied_output = 1,
                              .qkv_bias = 1};
}
