/* Checks of a model that do not depend on its container: the parameters agree with each other, and
 * the tensors are exactly those that the forward pass computes with. Ignoring a tensor (a bias, a
 * router, an adapter) would change the answers, so an unknown one is an error. */
#include "model/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"

struct rf_layout_name rf_layout_shown(const struct rf_reading *reading, const char *name)
{
    struct rf_layout_name shown;
    if (reading->shown_name)
        reading->shown_name(&reading->source->params, name, shown.text, sizeof shown.text);
    else
        snprintf(shown.text, sizeof shown.text, "%s", name);
    return shown;
}

static int tensor_order(const void *a, const void *b)
{
    return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

int rf_tensors_sort(struct rf_reading *reading)
{
    struct rf_tensor *tensors = reading->source->tensors;
    int32_t n = reading->source->n_tensors;
    qsort(tensors, (size_t)n, sizeof *tensors, tensor_order);
    for (int32_t i = 1; !reading->code && i < n; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            rf_bad(reading, RF_ERR_FORMAT, "two tensors are called %.200s",
                   rf_layout_shown(reading, tensors[i].name).text);
    return reading->code;
}

const struct rf_tensor *rf_source_tensor(const struct rf_source *source, const char *name)
{
    const struct rf_tensor wanted = {.name = name};
    if (source->n_tensors == 0) return NULL;
    return bsearch(&wanted, source->tensors, (size_t)source->n_tensors, sizeof wanted,
                   tensor_order);
}

static void check_numbers(struct rf_reading *reading, const struct rf_params *params)
{
    const struct {
        const char *what;
        int32_t value;
    } counts[] = {{"layers", params->n_layer},
                  {"embedding length", params->n_embd},
                  {"attention heads", params->n_head},
                  {"key/value heads", params->n_head_kv},
                  {"head dimension", params->head_dim},
                  {"feed-forward length", params->n_ff},
                  {"context length", params->n_ctx_train}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value <= 0)
            rf_bad(reading, RF_ERR_FORMAT, "the number of %s is %" PRId32, counts[i].what,
                   counts[i].value);
}

static void check_floats(struct rf_reading *reading, const struct rf_params *params)
{
    const struct {
        const char *what;
        float value;
    } floats[] = {{"epsilon of the norms", params->rms_eps},
                  {"base frequency of the rotation (theta)", params->rope.theta},
                  {"scale of the positions", params->rope.scale},
                  {"attention factor of the rotation", params->rope.magnitude}};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (!isfinite(floats[i].value) || floats[i].value <= 0.0f)
            rf_bad(reading, RF_ERR_FORMAT, "the %s is %g; it must be finite and above 0",
                   floats[i].what, (double)floats[i].value);
}

/* Factors that are 0 where the architecture has none. */
static void check_factors(struct rf_reading *reading, const struct rf_params *params)
{
    const struct {
        const char *what;
        float value;
    } factors[] = {{"factor of the embeddings", params->embedding_scale},
                   {"factor of the residuals", params->residual_scale},
                   {"factor of the scores", params->attention_scale},
                   {"factor of the logits", params->logit_scale},
                   {"growth of the queries", params->temperature},
                   {"cap of the scores", params->attention_cap},
                   {"cap of the logits", params->logit_cap},
                   {"base frequency of the local rotation", params->rope_local.theta},
                   {"scale of the positions of the local rotation", params->rope_local.scale},
                   {"attention factor of the local rotation", params->rope_local.magnitude}};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (!isfinite(factors[i].value) || factors[i].value < 0.0f)
            rf_bad(reading, RF_ERR_FORMAT, "the %s is %g; it must be a number from 0 on",
                   factors[i].what, (double)factors[i].value);
}

static void check_deltas(struct rf_reading *reading, const struct rf_params *params)
{
    const int32_t sizes[] = {params->delta_keys, params->delta_values, params->delta_key_dim,
                             params->delta_value_dim};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] <= 0 || sizes[i] > RF_MAX_DELTA)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   params->is_mamba ? "layers with Mamba-2 have %" PRId32 " groups and %" PRId32
                                      " heads with states of %" PRId32 " times %" PRId32
                                      " elements; from 1 to %d of each are supported"
                                    : "layers with the delta rule have %" PRId32
                                      " key heads and %" PRId32 " value heads of %" PRId32
                                      " and %" PRId32
                                      " elements; from 1 to %d of each are supported",
                   sizes[0], sizes[1], sizes[2], sizes[3], RF_MAX_DELTA);
    if (!reading->code && params->delta_values % params->delta_keys)
        rf_bad(reading, RF_ERR_FORMAT,
               params->is_mamba
                   ? "%" PRId32 " groups of Mamba-2 do not divide its %" PRId32 " heads"
                   : "%" PRId32 " key heads of the delta rule do not divide its %" PRId32
                     " value heads",
               params->delta_keys, params->delta_values);
    if (!isfinite(params->step_min) || !isfinite(params->step_max) || params->step_min < 0 ||
        (params->step_max > 0 && params->step_max < params->step_min))
        rf_bad(reading, RF_ERR_FORMAT, "time steps are limited to %g and %g, which is no range",
               (double)params->step_min, (double)params->step_max);
}

static void check_states(struct rf_reading *reading, const struct rf_params *params)
{
    int32_t n = rf_n_states(params, params->n_layer);
    if (params->delta_values || params->delta_keys) check_deltas(reading, params);
    if (params->shared_whole && params->n_expert && !params->n_ff_shared)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "a %s model with experts but no shared expert is not supported", params->arch_name);
    if (!n) return;
    if (rf_n_attention(params, params->n_layer) == 0)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "no layer has attention, which is not supported");
    if (params->conv_rows < 2 || params->conv_rows > RF_MAX_CONV_ROWS)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "convolutions over %" PRId32 " rows; from 2 to %d are supported", params->conv_rows,
               RF_MAX_CONV_ROWS);
    if (params->n_embd > INT32_MAX / 3)
        rf_bad(reading, RF_ERR_FORMAT, "the embedding length %" PRId32 " is too much",
               params->n_embd);
}

/* Checks the sizes that differ between layers. */
static void check_layers(struct rf_reading *reading, const struct rf_params *params)
{
    int32_t dim = params->window_head_dim, rotated = params->window_rope_dim,
            n_kv = rf_window_head_kv(params);
    if (dim < 0 || rotated < 0 || rotated % 2 || rotated > dim || n_kv <= 0 ||
        params->n_head % n_kv || (int64_t)params->n_head * dim > INT32_MAX)
        rf_bad(reading, RF_ERR_FORMAT,
               "layers with a window have %" PRId32 " key/value heads of %" PRId32
               " elements, of which %" PRId32 " are rotated, which does not fit %" PRId32 " heads",
               n_kv, dim, rotated, params->n_head);
    if ((int64_t)params->n_embd_layer * params->n_layer > INT32_MAX)
        rf_bad(reading, RF_ERR_FORMAT,
               "embeddings of layers have %" PRId32 " elements, which is too much",
               params->n_embd_layer);
    if (params->n_kv_shared < 0 || params->n_kv_shared >= params->n_layer)
        rf_bad(reading, RF_ERR_FORMAT,
               "%" PRId32 " of %" PRId32 " layers share keys and values: none has any",
               params->n_kv_shared, params->n_layer);
    for (int32_t i = params->n_layer - params->n_kv_shared;
         !reading->code && params->layer_flags && i < params->n_layer; i++)
        if (rf_kv_layer(params, i) < 0)
            rf_bad(reading, RF_ERR_FORMAT,
                   "layer %" PRId32 " shares keys and values, but no layer before has them %s a "
                   "window",
                   i, rf_has_window(params, i) ? "with" : "without");
}

static void check_latent(struct rf_reading *reading, const struct rf_params *params)
{
    const int32_t sizes[] = {params->latent, params->rope_dim, params->head_nope,
                             params->head_value};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] <= 0 || sizes[i] > RF_MAX_LATENT)
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "latents have %" PRId32 " elements and %" PRId32 " rotated ones, heads %" PRId32
                   " and values of %" PRId32 "; from 1 to %d of each are supported",
                   sizes[0], sizes[1], sizes[2], sizes[3], RF_MAX_LATENT);
    if (params->n_head > INT32_MAX / (2 * RF_MAX_LATENT))
        rf_bad(reading, RF_ERR_FORMAT, "%" PRId32 " attention heads are too many", params->n_head);
}

static void check_groups(struct rf_reading *reading, const struct rf_params *params)
{
    int32_t groups = params->expert_groups, used = params->expert_groups_used;
    if (!groups) return;
    if (groups < 0 || params->n_expert % groups ||
        params->n_expert / groups < params->expert_group_top)
        rf_bad(reading, RF_ERR_FORMAT,
               "%" PRId32 " experts are not in %" PRId32 " groups of %" PRId32 " at least",
               params->n_expert, groups, params->expert_group_top);
    else if (used < 1 || used > groups || params->n_expert / groups * used < params->n_expert_used)
        rf_bad(reading, RF_ERR_FORMAT,
               "a row uses %" PRId32 " experts from %" PRId32 " of %" PRId32 " groups of %" PRId32,
               params->n_expert_used, used, groups, params->n_expert / groups);
}

int rf_params_check(struct rf_reading *reading)
{
    const struct rf_params *params = &reading->source->params;
    check_numbers(reading, params);
    if (reading->code) return reading->code;
    if (params->n_head % params->n_head_kv)
        rf_bad(reading, RF_ERR_FORMAT,
               "%" PRId32 " key/value heads do not divide %" PRId32 " attention heads",
               params->n_head_kv, params->n_head);
    check_states(reading, params);
    check_layers(reading, params);
    if (params->n_expert_used > params->n_expert || params->n_expert_used < (params->n_expert > 0))
        rf_bad(reading, RF_ERR_FORMAT, "a row uses %" PRId32 " experts of %" PRId32,
               params->n_expert_used, params->n_expert);
    if (params->n_expert > RF_MAX_EXPERTS)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "%" PRId32 " experts; at most %d are supported",
               params->n_expert, RF_MAX_EXPERTS);
    if (params->latent || params->head_nope) check_latent(reading, params);
    if (!reading->code) check_groups(reading, params);
    if (rf_n_q_rows(params, 0) > INT32_MAX)
        rf_bad(reading, RF_ERR_FORMAT,
               "%" PRId32 " attention heads of dimension %" PRId32 " are too many", params->n_head,
               params->head_dim);
    if (params->rope_dim <= 0 || params->rope_dim % 2 || params->rope_dim > params->head_dim)
        rf_bad(reading, RF_ERR_FORMAT,
               "the rotated dimension is %" PRId32
               "; it must be even and at most the head dimension, %" PRId32,
               params->rope_dim, params->head_dim);
    check_floats(reading, params);
    check_factors(reading, params);
    return reading->code;
}

#define SHAPE(field, gguf, hf, role, ne0, ne1, condition) \
    {gguf, RF_WEIGHT_##role, ne0, ne1, (condition) != 0},

void rf_layout_expect(struct rf_reading *reading, unsigned char *expected, const char *name,
                      const struct rf_layout_shape *shape)
{
    const struct rf_source *source = reading->source;
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    if (!tensor) {
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %s is missing (stated number of layers: %" PRId32 ")",
               rf_layout_shown(reading, name).text, source->params.n_layer);
        return;
    }
    expected[tensor - source->tensors] = 1;
    const int64_t *ne = tensor->ne;
    int64_t ne2 = shape->role == RF_WEIGHT_EXPERTS ? source->params.n_expert
                  : shape->role == RF_WEIGHT_HEADS ? source->params.n_head
                                                   : 1;
    char third[32] = "";
    if (ne2 != 1) snprintf(third, sizeof third, ", %" PRId64, ne2);
    if (ne[0] != shape->ne0 || ne[1] != shape->ne1 || ne[2] != ne2 || ne[3] != 1)
        rf_bad(reading, RF_ERR_FORMAT,
               "tensor %s is [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
               "], but the parameters ask for [%" PRId64 ", %" PRId64 "%s]",
               rf_layout_shown(reading, name).text, ne[0], ne[1], ne[2], ne[3], shape->ne0,
               shape->ne1, third);
    const struct rf_dtype_info *info = rf_dtype_info(tensor->dtype);
    if (shape->role == RF_WEIGHT_VECTOR && info->block_elems != 1)
        rf_bad(reading, RF_ERR_UNSUPPORTED, "tensor %s is %s; it must be of a float type",
               rf_layout_shown(reading, name).text, info->name);
}

/* Files may have keys and values of layers that read others': they are not used. */
static void pass_over_keys(const struct rf_source *source, unsigned char *expected, int32_t layer)
{
    static const char *const names[] = {"attn_k", "attn_v", "attn_k_norm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRId32 ".%s.weight", layer, names[i]);
        const struct rf_tensor *tensor = rf_source_tensor(source, name);
        if (tensor) expected[tensor - source->tensors] = 1;
    }
}

static void expect_tensors(struct rf_reading *reading, unsigned char *expected)
{
    const struct rf_params *p = &reading->source->params;
    const struct rf_layout_shape in_model[] = {RF_EACH_MODEL_TENSOR(SHAPE)};
    for (const struct rf_layout_shape *shape = in_model; shape < in_model + RF_MODEL_TENSORS;
         shape++)
        if (shape->used) rf_layout_expect(reading, expected, shape->name, shape);
    for (int32_t layer = 0; !reading->code && layer < p->n_layer; layer++) {
        const struct rf_layout_shape in_layer[] = {RF_EACH_LAYER_TENSOR(SHAPE)};
        for (const struct rf_layout_shape *shape = in_layer; shape < in_layer + RF_LAYER_TENSORS;
             shape++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%" PRId32 ".%s", layer, shape->name);
            if (shape->used) rf_layout_expect(reading, expected, name, shape);
        }
        if (rf_shares_keys(p, layer)) pass_over_keys(reading->source, expected, layer);
    }
}

/* Of a safetensors file norms may be read on opening, of a GGUF file no other tensor. */
void rf_layout_rope_factors(struct rf_reading *reading, unsigned char *expected, const char *name,
                            const float **to)
{
    size_t n = (size_t)reading->source->params.rope_dim / 2;
    const struct rf_tensor *tensor = rf_source_tensor(reading->source, name);
    if (!tensor) return;
    const struct rf_layout_shape shape = {
        .role = RF_WEIGHT_VECTOR, .ne0 = reading->source->params.rope_dim / 2, .ne1 = 1};
    rf_layout_expect(reading, expected, name, &shape);
    if (*to)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "tensor %s: a file with YaRN scaling may not have other scales of the frequencies",
               tensor->name);
    float *factors = rf_keep(reading, n, sizeof *factors, tensor->name);
    if (!factors || reading->code) return;
    rf_dequantize_f32(tensor->dtype, tensor->data, factors, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(factors[i]) || factors[i] <= 0.0f)
            rf_bad(reading, RF_ERR_FORMAT,
                   "tensor %s: element %zu is %g; it must be finite and above 0", tensor->name, i,
                   (double)factors[i]);
    *to = factors;
}

/* Flags the layers of a model with experts that have one feed-forward for all rows. */
static void find_dense_layers(struct rf_reading *reading)
{
    struct rf_params *params = &reading->source->params;
    uint8_t *flags = NULL;
    int32_t n = 0;
    for (int32_t i = 0; params->n_expert && i < params->n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRId32 ".%s", i,
                 params->no_gate ? "ffn_up.weight" : "ffn_gate.weight");
        if (!rf_source_tensor(reading->source, name)) continue;
        if (!flags) flags = rf_arch_own_flags(reading);
        if (!flags) return;
        flags[i] |= RF_LAYER_DENSE;
        n++;
    }
    if (n == 0) params->n_ff_dense = 0;
    if (n > 0 && n == params->n_layer)
        rf_bad(reading, RF_ERR_FORMAT, "no layer has the %" PRId32 " experts that are stated",
               params->n_expert);
}

/* Sets the parameters that the tensors determine. */
static void set_params(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    struct rf_params *params = &source->params;
    const struct rf_tensor *embedding = rf_source_tensor(source, RF_TOKEN_EMBD);
    if (embedding && (embedding->ne[1] < 1 || embedding->ne[1] > INT32_MAX))
        rf_bad(reading, RF_ERR_FORMAT, "tensor " RF_TOKEN_EMBD " has %" PRId64 " rows",
               embedding->ne[1]);
    if (embedding) rf_count(reading, (uint64_t)embedding->ne[1], "rows of " RF_TOKEN_EMBD);
    params->n_vocab = embedding ? (int32_t)embedding->ne[1] : 0;
    params->tied_output = rf_source_tensor(source, RF_OUTPUT) == NULL;
    const struct rf_tensor *types =
        params->encoder ? rf_source_tensor(source, RF_TOKEN_TYPES) : NULL;
    params->n_token_types =
        types && types->ne[1] > 0 && types->ne[1] <= UINT16_MAX ? (int32_t)types->ne[1] : 0;
    find_dense_layers(reading);
}

/* Expects a linear layer's weight, [ne0, rows], and its bias where there is one. */
static void expect_linear(struct rf_reading *reading, unsigned char *expected, const char *stem,
                          int64_t ne0, int64_t rows)
{
    char name[64];
    struct rf_layout_shape shape = {.role = RF_WEIGHT_MATRIX, .ne0 = ne0, .ne1 = rows};
    snprintf(name, sizeof name, "%s.weight", stem);
    rf_layout_expect(reading, expected, name, &shape);
    snprintf(name, sizeof name, "%s.bias", stem);
    shape = (struct rf_layout_shape){.role = RF_WEIGHT_VECTOR, .ne0 = rows, .ne1 = 1};
    if (rf_source_tensor(reading->source, name)) rf_layout_expect(reading, expected, name, &shape);
}

/* The rows of a layer's weight; 0: there is none. */
static int64_t rows_of(struct rf_reading *reading, const char *stem)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", stem);
    const struct rf_tensor *weight = rf_source_tensor(reading->source, name);
    if (weight && (weight->ne[1] < 1 || weight->ne[1] > UINT16_MAX))
        rf_bad(reading, RF_ERR_FORMAT, "tensor %s has %" PRId64 " rows",
               rf_layout_shown(reading, name).text, weight->ne[1]);
    return weight && !reading->code ? weight->ne[1] : 0;
}

/* The head of classification, which few encoders have: a linear layer with its function and maybe a
 * norm, then another linear layer; either may be missing. Sets the number of labels. A file that
 * names no pooling but has a head of one value is a reranker. */
static void expect_labels(struct rf_reading *reading, unsigned char *expected)
{
    struct rf_source *source = reading->source;
    int64_t n_embd = source->params.n_embd, out = rows_of(reading, RF_CLS_OUT),
            dense = rows_of(reading, RF_CLS);
    const struct rf_layout_shape norm = {.role = RF_WEIGHT_VECTOR, .ne0 = n_embd, .ne1 = 1};
    if (dense) expect_linear(reading, expected, RF_CLS, n_embd, out ? n_embd : dense);
    if (out) expect_linear(reading, expected, RF_CLS_OUT, n_embd, out);
    if (dense && out && rf_source_tensor(source, RF_CLS_NORM ".weight"))
        rf_layout_expect(reading, expected, RF_CLS_NORM ".weight", &norm);
    int64_t n_labels = out ? out : dense;
    source->n_labels = (int32_t)n_labels;
    if (source->pooling == RF_POOLING_NONE && n_labels == 1) source->pooling = RF_POOLING_RANK;
    if (source->pooling == RF_POOLING_RANK && n_labels != 1)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is a reranker with %" PRId64 " values for a text; one is supported", n_labels);
}

/* Layers behind the pooling; vectors keep their width. */
static void expect_dense(struct rf_reading *reading, unsigned char *expected)
{
    static const char *const layers[] = {RF_DENSE_2, RF_DENSE_3};
    int64_t n_embd = reading->source->params.n_embd, width = n_embd;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        int64_t rows = rows_of(reading, layers[i]);
        if (!rows) continue;
        expect_linear(reading, expected, layers[i], width, rows);
        width = rows;
    }
    if (width != n_embd)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "the layers behind its pooling give %" PRId64 " values; only as many as the "
               "embedding has, %" PRId64 ", are supported",
               width, n_embd);
}

int rf_layout_check(struct rf_reading *reading)
{
    struct rf_source *source = reading->source;
    struct rf_params *params = &source->params;
    unsigned char *expected = rf_take(reading, (size_t)source->n_tensors, 1, "tensors");
    if (!expected) return reading->code;
    set_params(reading);
    expect_tensors(reading, expected);
    if (params->encoder) expect_labels(reading, expected);
    if (params->encoder) expect_dense(reading, expected);
    unsigned keys = rf_arch_row(params->arch)->keys;
    if (keys & RF_KEYS_LLAMA3)
        rf_layout_rope_factors(reading, expected, "rope_freqs.weight", &params->rope.factors);
    if (keys & RF_KEYS_LONGROPE && params->n_ctx_short) {
        rf_layout_rope_factors(reading, expected, "rope_factors_short.weight",
                               &params->rope.factors);
        rf_layout_rope_factors(reading, expected, "rope_factors_long.weight",
                               &params->rope_long_factors);
        if (params->arch != RF_ARCH_PHI3 && (!params->rope.factors || !params->rope_long_factors))
            rf_bad(reading, RF_ERR_FORMAT,
                   "longrope needs the tensors rope_factors_short.weight and "
                   "rope_factors_long.weight");
    }
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++)
        if (!expected[i] && reading->shown_name && rf_ends_with(source->tensors[i].name, ".bias"))
            rf_bad(
                reading, RF_ERR_UNSUPPORTED,
                "tensor %.200s is a bias that config.json does not ask for in a %s model; if the "
                "model was trained with it, set attention_bias, qkv_bias, mlp_bias, conv_bias or "
                "use_expert_bias there to true, as its class has it",
                rf_layout_shown(reading, source->tensors[i].name).text, source->params.arch_name);
        else if (!expected[i])
            rf_bad(reading, RF_ERR_UNSUPPORTED,
                   "tensor %.200s has no place in a %s model of %" PRId32
                   " layers as it is computed here",
                   rf_layout_shown(reading, source->tensors[i].name).text, source->params.arch_name,
                   source->params.n_layer);
    return reading->code;
}
