/* A GGUF file's parameters: keys "ARCHITECTURE.something", with llama.cpp's defaults. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"
#include "model/gguf.h"
#include "model/rope.h"

static void read_architecture(struct rf_gguf *gguf)
{
    struct rf_reading *reading = gguf->reading;
    struct rf_params *params = &reading->source->params;
    struct rf_str name = rf_gguf_string(gguf, "general.architecture", (struct rf_str){NULL, 0});
    if (!name.data) rf_gguf_missing(gguf);
    for (const struct rf_arch_row *row = rf_arch_rows; row->name; row++)
        if (rf_str_is(name, row->name)) rf_arch_begin(params, row);
    if (gguf->is_head) {
        rf_arch_begin(params, rf_arch_row(RF_ARCH_LLAMA));
        params->arch_name = RF_GGUF_HEAD;
    }
    struct rf_str type = rf_gguf_string(gguf, "general.type", rf_str_of("model"));
    if (rf_str_is(type, "mmproj"))
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is the part of a model that reads images or sound (general.type \"mmproj\"); only "
               "the file with the text model can run");
    if (!rf_str_is(type, "model"))
        rf_bad(reading, RF_ERR_UNSUPPORTED, "general.type is \"%.*s\"; only a \"model\" can run",
               rf_shown(type), type.data);
    if (!params->arch_name && !reading->code) rf_gguf_refuse_architecture(gguf, name);
    int64_t n_parts = rf_gguf_integer(gguf, "split.count", 0, UINT16_MAX, 1);
    if (n_parts > 1 && !gguf->is_joined)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "is one of %" PRId64
               " parts of a split model (split.count); only a model's weights may be split",
               n_parts);
}

/* A count, at least 1, with a default where the key is missing. */
static int32_t gguf_count(struct rf_gguf *gguf, const char *key, int32_t otherwise)
{
    return (int32_t)rf_gguf_integer(gguf, key, 1, INT32_MAX, otherwise);
}

static int32_t need(struct rf_gguf *gguf, int32_t value)
{
    if (!value) rf_gguf_missing(gguf);
    return value;
}

/* A layer without key/value heads has a convolution or Mamba-2; one with a feed-forward alone is
 * known by now. */
static void flag_state(void *user, int32_t layer)
{
    struct rf_reading *reading = user;
    uint8_t *flags = (uint8_t *)reading->source->params.layer_flags;
    if (layer >= reading->source->params.n_layer || (flags && flags[layer] & RF_LAYER_FFN)) return;
    if (!flags) flags = rf_arch_own_flags(reading);
    if (flags) flags[layer] |= reading->source->params.is_mamba ? RF_LAYER_MAMBA : RF_LAYER_CONV;
}

static void read_kv_heads(struct rf_gguf *gguf)
{
    static const char key[] = ".attention.head_count_kv";
    struct rf_params *params = &gguf->reading->source->params;
    unsigned keys = rf_arch_row(params->arch)->keys;
    if (keys & RF_KEYS_LAYERS) {
        rf_gguf_read_layers(gguf);
        return;
    }
    int has_states = (keys & (RF_KEYS_CONV | RF_KEYS_MAMBA)) != 0;
    params->n_head_kv =
        rf_gguf_per_layer_or_0(gguf, key, params->n_layer + gguf->n_further, params->n_head,
                               has_states ? flag_state : NULL, gguf->reading);
    if (keys & RF_KEYS_CONV)
        params->conv_rows = need(gguf, gguf_count(gguf, ".shortconv.l_cache", 0));
}

/* The last of block_count layers predict further tokens, which are not computed here. */
static void read_further_layers(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    if (!(rf_arch_row(params->arch)->keys & (RF_KEYS_DELTA | RF_KEYS_MAMBA | RF_KEYS_LATENT)))
        return;
    gguf->n_further =
        (int32_t)rf_gguf_integer(gguf, ".nextn_predict_layers", 0, params->n_layer - 1, 0);
    params->n_layer -= gguf->n_further;
}

/* The layers with the delta rule, where the file names them: all but every n-th, or a flag for
 * each. */
static void read_delta_layers(struct rf_gguf *gguf)
{
    static const char key[] = ".attention.recurrent_layers";
    const struct rf_params *params = &gguf->reading->source->params;
    int32_t period = gguf_count(gguf, ".full_attention_interval", 4);
    const struct rf_gguf_value *list =
        rf_gguf_find(gguf, key) ? rf_gguf_array(gguf, key, RF_GGUF_BOOL) : NULL;
    if (list && list->count != (uint64_t)params->n_layer + (uint64_t)gguf->n_further)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s has %" PRIu64 " elements for %" PRId32 " layers", gguf->key, list->count,
               params->n_layer + gguf->n_further);
    uint8_t *flags = gguf->reading->code ? NULL : rf_arch_own_flags(gguf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        flags[i] = (list ? list->data[i] : (i + 1) % period != 0) ? RF_LAYER_DELTA : 0;
}

/* llama.cpp's granitehybrid rotates unless this key says no, its nemotron_h never. */
static void read_switched_rope(struct rf_gguf *gguf)
{
    const struct rf_params *params = &gguf->reading->source->params;
    if (!params->one_branch && rf_gguf_bool(gguf, ".rope.scaling.finetuned", 1)) return;
    uint8_t *flags = (uint8_t *)params->layer_flags;
    if (!flags) flags = rf_arch_own_flags(gguf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        if (rf_has_keys(params, i)) flags[i] |= RF_LAYER_NO_ROPE;
}

/* The sizes of the delta rule or of Mamba-2. llama.cpp orders the heads of v of the rule so that h
 * and h + delta_keys share a head of k, but not in qwen3next. */
static void read_deltas(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    if (!(rf_arch_row(params->arch)->keys & (RF_KEYS_DELTA | RF_KEYS_MAMBA))) return;
    params->delta_tiled = !params->is_mamba && params->arch != RF_ARCH_QWEN3NEXT;
    params->conv_rows = need(gguf, gguf_count(gguf, ".ssm.conv_kernel", 0));
    params->delta_key_dim = need(gguf, gguf_count(gguf, ".ssm.state_size", 0));
    params->delta_keys = need(gguf, gguf_count(gguf, ".ssm.group_count", 0));
    params->delta_values = need(gguf, gguf_count(gguf, ".ssm.time_step_rank", 0));
    int32_t inner = need(gguf, gguf_count(gguf, ".ssm.inner_size", 0));
    if (gguf->reading->code) return;
    params->delta_value_dim = inner / params->delta_values;
    if (inner % params->delta_values)
        rf_bad(gguf->reading, RF_ERR_FORMAT, "key %s: %" PRId32 " %s do not divide it, %" PRId32,
               gguf->key, params->delta_values, params->is_mamba ? "heads" : "value heads", inner);
    if (params->is_mamba)
        read_switched_rope(gguf);
    else
        read_delta_layers(gguf);
}

static void read_attention(struct rf_gguf *gguf)
{
    struct rf_reading *reading = gguf->reading;
    struct rf_params *params = &reading->source->params;
    int32_t n_layer = params->n_layer;
    params->n_head = need(gguf, rf_gguf_per_layer(gguf, ".attention.head_count", n_layer, 0));
    read_kv_heads(gguf);
    int32_t head_dim = gguf_count(gguf, ".attention.key_length", 0);
    if (reading->code) return;
    if (head_dim == 0 && params->n_embd % params->n_head)
        rf_bad(reading, RF_ERR_FORMAT,
               "%" PRId32 " attention heads do not divide the embedding length, %" PRId32,
               params->n_head, params->n_embd);
    params->head_dim = head_dim ? head_dim : params->n_embd / params->n_head;
    if (rf_arch_row(params->arch)->keys & RF_KEYS_LATENT) {
        rf_gguf_read_latent(gguf);
        return;
    }
    int32_t value_dim = gguf_count(gguf, ".attention.value_length", params->head_dim);
    if (value_dim != params->head_dim)
        rf_bad(reading, RF_ERR_UNSUPPORTED,
               "heads have keys of %" PRId32 " but values of %" PRId32
               " elements, which is not supported",
               params->head_dim, value_dim);
    params->rope_dim = gguf_count(gguf, ".rope.dimension_count", params->head_dim);
}

/* transformers' attention_factor, which llama.cpp's converter copies and llama.cpp does not read:
 * both compute the same where it is the magnitude that YaRN gives. */
static void check_attention_factor(struct rf_gguf *gguf, double magnitude)
{
    enum { DIGITS = 10000 };
    double stated = rf_gguf_float(gguf, ".rope.scaling.yarn_attn_factor", 0);
    if (stated == 0 || stated == 1 || fabs(stated - magnitude) * DIGITS <= magnitude) return;
    rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
           "key %s is %g, which is not supported: YaRN's own factor is %g", gguf->key, stated,
           magnitude);
}

/* llama.cpp multiplies YaRN's own magnitude by attn_factor. */
static void gguf_yarn(struct rf_gguf *gguf, double factor, double attn_factor)
{
    int32_t trained = gguf->reading->source->params.n_ctx_train;
    /* transformers' mscale_all_dim beside an mscale of 1 */
    double weight = rf_gguf_float(gguf, ".rope.scaling.yarn_log_multiplier", 0);
    double magnitude =
        rf_yarn_magnitude(factor, 1) / (weight != 0 ? rf_yarn_magnitude(factor, weight) : 1);
    if (rf_arch_row(gguf->reading->source->params.arch)->keys & RF_KEYS_LATENT)
        magnitude = rf_gguf_latent_magnitude(gguf, factor, weight);
    const struct rf_yarn yarn = {
        .factor = factor,
        .original = gguf_count(gguf, ".rope.scaling.original_context_length", trained),
        .beta_fast = rf_gguf_float(gguf, ".rope.scaling.yarn_beta_fast", 32),
        .beta_slow = rf_gguf_float(gguf, ".rope.scaling.yarn_beta_slow", 1),
        .is_whole = !rf_arch_row(gguf->reading->source->params.arch)->yarn_is_exact,
        .magnitude = attn_factor * magnitude};
    check_attention_factor(gguf, magnitude);
    rf_rope_yarn(gguf->reading, &gguf->reading->source->params.rope, &yarn);
}

/* RoPE scaling: none, linear, YaRN or longrope. The factors of llama3 and of longrope are tensors.
 */
static void read_rope_scaling(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    int has_longrope = (rf_arch_row(params->arch)->keys & RF_KEYS_LONGROPE) != 0;
    struct rf_str type = rf_gguf_string(gguf, ".rope.scaling.type", rf_str_of("linear"));
    /* The second key is the older name of the first. In llama.cpp 0 is "not set". */
    double older = rf_gguf_float(gguf, ".rope.scale_linear", 0);
    double factor = rf_gguf_float(gguf, ".rope.scaling.factor", older);
    if (factor == 0) factor = 1;
    double attn_factor = rf_gguf_float(gguf, ".rope.scaling.attn_factor", 1);
    if (attn_factor == 0) attn_factor = 1;
    params->rope.magnitude = (float)attn_factor;
    /* For phi3 llama.cpp's converter writes no type, but two tensors of factors. */
    if (has_longrope && (params->arch == RF_ARCH_PHI3 || rf_str_is(type, "longrope")))
        params->n_ctx_short = gguf_count(gguf, ".rope.scaling.original_context_length", 0);
    if (rf_str_is(type, "longrope") && has_longrope && !params->n_ctx_short) rf_gguf_missing(gguf);
    if (rf_str_is(type, "none")) return;
    if (rf_str_is(type, "linear"))
        params->rope.scale = 1.0f / (float)factor;
    else if (rf_str_is(type, "yarn"))
        gguf_yarn(gguf, factor, attn_factor);
    else if (!rf_str_is(type, "longrope") || !has_longrope)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "%s.rope.scaling.type is \"%.*s\"; of this architecture none, linear, yarn%s are "
               "supported",
               params->arch_name, rf_shown(type), type.data,
               has_longrope ? ", longrope and llama3 (as rope_freqs.weight)" : "");
}

/* Keys that change the computation in ways that the forward pass does not implement, at all or for
 * this architecture. They are errors unless they have their usual values. */
static void gguf_refuse_variants(struct rf_gguf *gguf)
{
    static const struct {
        const char *key;
        double usual;     /* accepted besides 0, which means "not set" */
        unsigned if_none; /* an architecture with these keys reads it */
        int is_whole;     /* an integer, not a float */
    } keys[] = {{".attention.scale", 0, RF_KEYS_SCALES, 0},
                {".attention.clamp_kqv", 0, 0, 0},
                {".attn_logit_softcapping", 0, RF_KEYS_CAPS, 0},
                {".final_logit_softcapping", 0, RF_KEYS_CAPS | RF_KEYS_LAYERS, 0},
                {".attention.output_scale", 1, 0, 0},
                {".attention.value_scale", 1, 0, 0},
                {".attention.temperature_scale", 0, RF_KEYS_TEMPERATURE, 0},
                {".logit_scale", 1, RF_KEYS_SCALES | RF_KEYS_LOGITS, 0},
                {".residual_scale", 1, RF_KEYS_SCALES, 0},
                {".embedding_scale", 1, RF_KEYS_SCALES, 0},
                {".rope.scaling.yarn_ext_factor", 1, 0, 0},
                {".rope.scaling.yarn_log_multiplier", 0, RF_KEYS_TEMPERATURE | RF_KEYS_LATENT, 0},
                {".expert_weights_scale", 1, RF_KEYS_MAMBA | RF_KEYS_LATENT, 0},
                {".expert_group_count", 1, RF_KEYS_LATENT, 1},
                {".moe_latent_size", 0, 0, 1},
                {".leading_dense_block_count", 0, RF_KEYS_EXPERTS, 1},
                {".expert_shared_count", 0, RF_KEYS_MAMBA | RF_KEYS_LATENT, 1}};
    struct rf_reading *reading = gguf->reading;
    unsigned read = rf_arch_row(reading->source->params.arch)->keys;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (keys[i].if_none & read) continue;
        double value = keys[i].is_whole
                           ? (double)rf_gguf_integer(gguf, keys[i].key, 0, UINT32_MAX, 0)
                           : rf_gguf_float(gguf, keys[i].key, 0);
        if (value != 0 && value != keys[i].usual)
            rf_bad(reading, RF_ERR_UNSUPPORTED, "key %s is %g, which is not supported", gguf->key,
                   value);
    }
    if (!reading->source->params.encoder && !rf_gguf_bool(gguf, ".attention.causal", 1))
        rf_bad(reading, RF_ERR_UNSUPPORTED, "key %s is false; only causal models can run",
               gguf->key);
    /* The sections differ in images alone. */
    if (!(read & RF_KEYS_DELTA) && rf_gguf_find(gguf, ".rope.dimension_sections"))
        rf_bad(reading, RF_ERR_UNSUPPORTED, "key %s is not supported", gguf->key);
}

/* The layers with a window, where the file names them: all but every n-th, or a flag for each. */
static void read_window_pattern(struct rf_gguf *gguf)
{
    static const char key[] = ".attention.sliding_window_pattern";
    struct rf_params *params = &gguf->reading->source->params;
    const struct rf_arch_row *row = rf_arch_row(params->arch);
    const struct rf_gguf_value *value = rf_gguf_find(gguf, key);
    if (!value || !row->period) return;
    int is_list = value->type == RF_GGUF_ARRAY;
    if (is_list) value = rf_gguf_array(gguf, key, RF_GGUF_BOOL);
    int32_t period = is_list ? 0 : gguf_count(gguf, key, row->period);
    if (value && is_list && value->count != (uint64_t)params->n_layer)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s has %" PRIu64 " elements for %" PRId32 " layers", gguf->key, value->count,
               params->n_layer);
    uint8_t *flags = gguf->reading->code ? NULL : rf_arch_own_flags(gguf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        flags[i] =
            row->flags[is_list ? !value->data[i] : i % period == (row->odd_one ? period - 1 : 0)];
}

/* The base frequency in layers with a rotation of their own: the architecture's, else that of the
 * other layers. */
static void gguf_local_rope(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    const struct rf_arch_row *row = rf_arch_row(params->arch);
    if (!(row->flags[0] & RF_LAYER_LOCAL_ROPE) || (row->by_window && !params->window)) return;
    float theta = params->rope_local.theta > 0 ? params->rope_local.theta : params->rope.theta;
    params->rope_local.theta = (float)rf_gguf_float(gguf, ".rope.freq_base_swa", (double)theta);
}

/* Factors and caps. Such keys were refused for an architecture that has none. */
static void gguf_scales(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    params->embedding_scale = (float)rf_gguf_float(gguf, ".embedding_scale", 0);
    params->residual_scale = (float)rf_gguf_float(gguf, ".residual_scale", 0);
    params->attention_scale =
        (float)rf_gguf_float(gguf, ".attention.scale", (double)params->attention_scale);
    double factor = rf_gguf_float(gguf, ".logit_scale", 0);
    int divides = !(rf_arch_row(params->arch)->keys & RF_KEYS_LOGITS);
    params->logit_scale = (float)(divides && factor != 0 ? 1 / factor : factor);
    params->temperature = (float)rf_gguf_float(gguf, ".attention.temperature_scale", 0);
    if (params->temperature != 0)
        params->temperature_step =
            gguf_count(gguf, ".rope.scaling.original_context_length", params->n_ctx_train);
    params->attention_cap = (float)rf_gguf_float(gguf, ".attn_logit_softcapping", 0);
    params->logit_cap = (float)rf_gguf_float(gguf, ".final_logit_softcapping", 0);
    params->window = (int32_t)rf_gguf_integer(gguf, ".attention.sliding_window", 0, INT32_MAX, 0);
    if (params->window > 0) read_window_pattern(gguf);
    gguf_local_rope(gguf);
    /* Gemma's query_pre_attn_scalar is no key: only the 27B models have another than head_dim. */
    if (params->n_layer == rf_arch_row(params->arch)->n_layer_27b)
        params->attention_scale = 1.0f / sqrtf((float)params->n_embd / (float)params->n_head);
}

/* The width of the feed-forwards, which is the experts' width where there are experts. Tensors tell
 * which layers have none. */
static void read_experts(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    params->n_expert = (int32_t)rf_gguf_integer(gguf, ".expert_count", 0, INT32_MAX, 0);
    if (params->n_expert && !(rf_arch_row(params->arch)->keys & RF_KEYS_EXPERTS))
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is %" PRId32 "; a %s model with experts is not supported", gguf->key,
               params->n_expert, params->arch_name);
    if (!params->n_expert) return;
    if (rf_arch_row(params->arch)->keys & RF_KEYS_LATENT) rf_gguf_read_gating(gguf);
    params->n_expert_used = need(gguf, gguf_count(gguf, ".expert_used_count", 0));
    /* The softmax of all, then of the chosen ones, is the softmax of the chosen ones. */
    enum { UNSET = 0, SOFTMAX = 1, SIGMOID = 2, SOFTMAX_OF_CHOSEN = 3 };
    int64_t gating = rf_gguf_integer(gguf, ".expert_gating_func", 0, UINT32_MAX, UNSET);
    int is_known =
        params->expert_sigmoid
            ? gating == SIGMOID ||
                  ((params->one_branch || params->arch == RF_ARCH_DEEPSEEK2) && gating == UNSET)
            : gating == UNSET || gating == SOFTMAX || gating == SOFTMAX_OF_CHOSEN;
    if (!is_known)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is %" PRId64 "; of this architecture only a %s is supported", gguf->key,
               gating, params->expert_sigmoid ? "sigmoid" : "softmax");
    if (params->is_mamba)
        params->expert_scale = (float)rf_gguf_float(gguf, ".expert_weights_scale", 0);
    if (params->one_branch) params->expert_norm = rf_gguf_bool(gguf, ".expert_weights_norm", 0);
    params->n_ff_dense = params->n_ff;
    params->n_ff = gguf_count(gguf, ".expert_feed_forward_length", params->n_ff);
    if (rf_arch_row(params->arch)->keys & RF_KEYS_LATENT)
        rf_gguf_read_groups(gguf);
    else if (rf_arch_row(params->arch)->keys & RF_KEYS_SHARED)
        params->n_ff_shared =
            gguf_count(gguf, ".expert_shared_feed_forward_length", params->n_ff_dense);
}

/* A number that the file recommends; NaN where the key is missing. */
static double gguf_recommended(struct rf_gguf *gguf, const char *key, int is_integer)
{
    if (!rf_gguf_find(gguf, key)) return NAN;
    gguf->reading->source->sampling.from = "the file's general.sampling";
    return is_integer ? (double)rf_gguf_integer(gguf, key, INT32_MIN, INT32_MAX, 0)
                      : rf_gguf_float(gguf, key, 0);
}

static void read_sampling(struct rf_gguf *gguf)
{
    struct rf_recommended_sampling *sampling = &gguf->reading->source->sampling;
    sampling->temperature = gguf_recommended(gguf, "general.sampling.temp", 0);
    sampling->top_k = gguf_recommended(gguf, "general.sampling.top_k", 1);
    sampling->top_p = gguf_recommended(gguf, "general.sampling.top_p", 0);
    sampling->min_p = gguf_recommended(gguf, "general.sampling.min_p", 0);
    sampling->repeat_penalty = gguf_recommended(gguf, "general.sampling.penalty_repeat", 0);
    sampling->repeat_last_n = gguf_recommended(gguf, "general.sampling.penalty_last_n", 1);
}

/* Makers may write any number here, or another type: then the file names no mix. */
static void gguf_file_type(struct rf_gguf *gguf)
{
    enum { UINT32 = 4, GUESSED = 1024 };
    const struct rf_gguf_value *value = rf_gguf_find(gguf, "general.file_type");
    uint32_t number;
    if (!value || value->type != UINT32 || value->bytes != sizeof number) return;
    memcpy(&number, value->data, sizeof number);
    gguf->reading->source->file_type = rf_file_type_name(number & ~(uint32_t)GUESSED);
}

/* In the first layer of a kind. */
static int has_layer_tensor(const struct rf_source *source,
                            int (*is_kind)(const struct rf_params *params, int32_t layer),
                            const char *name)
{
    char full[64];
    int32_t layer = 0, n = source->params.layer_flags ? source->params.n_layer : 0;
    while (layer < n && !is_kind(&source->params, layer)) layer++;
    snprintf(full, sizeof full, "blk.%" PRId32 ".%s", layer, name);
    return rf_source_tensor(source, full) != NULL;
}

/* llama.cpp has any bias whose tensor the file has. */
void rf_gguf_find_biases(struct rf_gguf *gguf)
{
    struct rf_source *source = gguf->reading->source;
    struct rf_params *params = &source->params;
    params->qkv_bias = has_layer_tensor(source, rf_has_keys, "attn_q.bias") ||
                       has_layer_tensor(source, rf_has_keys, "attn_k.bias") ||
                       has_layer_tensor(source, rf_has_keys, "attn_v.bias");
    params->o_bias |= has_layer_tensor(source, rf_has_keys, "attn_output.bias");
    params->ffn_bias = has_layer_tensor(source, rf_has_ffn, "ffn_gate.bias") ||
                       has_layer_tensor(source, rf_has_ffn, "ffn_up.bias") ||
                       has_layer_tensor(source, rf_has_ffn, "ffn_down.bias");
    if (rf_arch_row(params->arch)->keys & RF_KEYS_LAYERS) rf_gguf_find_layers(gguf);
    if (params->arch == RF_ARCH_DEEPSEEK2 && params->expert_sigmoid) {
        char name[64]; /* the first layers may have no experts */
        snprintf(name, sizeof name, "blk.%" PRId32 ".exp_probs_b.bias", params->n_layer - 1);
        params->expert_choice_bias = rf_source_tensor(source, name) != NULL;
    }
    if (params->is_mamba)
        params->conv_bias = has_layer_tensor(source, rf_is_mamba, "ssm_conv1d.bias");
}

/* A layer without a width has no feed-forward, so attention or Mamba-2. */
static void flag_branch(void *user, int32_t layer)
{
    struct rf_reading *reading = user;
    if (reading->code || layer >= reading->source->params.n_layer) return;
    ((uint8_t *)reading->source->params.layer_flags)[layer] = 0;
}

/* Files of models whose layers all have experts may state these experts' width alone. */
static void read_width(struct rf_gguf *gguf)
{
    static const char of_experts[] = ".expert_feed_forward_length";
    struct rf_params *params = &gguf->reading->source->params;
    if (rf_arch_row(params->arch)->keys & RF_KEYS_LAYERS) {
        read_window_pattern(gguf);
        rf_gguf_read_widths(gguf);
        return;
    }
    int has_experts = (rf_arch_row(params->arch)->keys & RF_KEYS_EXPERTS) != 0;
    int32_t width =
        has_experts && rf_gguf_find(gguf, of_experts) ? gguf_count(gguf, of_experts, 0) : 0;
    uint8_t *flags = params->one_branch ? rf_arch_own_flags(gguf->reading) : NULL;
    for (int32_t i = 0; flags && i < params->n_layer; i++) flags[i] = RF_LAYER_FFN;
    params->n_ff =
        rf_gguf_per_layer_or_0(gguf, ".feed_forward_length", params->n_layer + gguf->n_further,
                               width, flags ? flag_branch : NULL, gguf->reading);
    need(gguf, params->n_ff);
}

void rf_gguf_read_params(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    read_architecture(gguf);
    gguf_refuse_variants(gguf);
    params->n_layer = need(gguf, gguf_count(gguf, ".block_count", 0));
    read_further_layers(gguf);
    params->n_ctx_train = need(gguf, gguf_count(gguf, ".context_length", 0));
    params->n_embd = need(gguf, gguf_count(gguf, ".embedding_length", 0));
    read_width(gguf);
    read_experts(gguf);
    read_attention(gguf);
    read_deltas(gguf);
    params->rope.theta = (float)rf_gguf_float(gguf, ".rope.freq_base", 10000);
    const char *eps =
        params->layer_norm ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon";
    if (params->one_branch && !rf_gguf_find(gguf, eps)) eps = ".attention.layer_norm_epsilon";
    if (!rf_gguf_find(gguf, eps)) rf_gguf_missing(gguf);
    params->rms_eps = (float)rf_gguf_float(gguf, eps, 0);
    rf_params_check(gguf->reading);
    if (!gguf->reading->code) read_rope_scaling(gguf);
    float scores = params->attention_scale; /* latent attention has it from its rotation */
    if (!gguf->reading->code) gguf_scales(gguf);
    if (params->latent) params->attention_scale = scores;
    if (!gguf->reading->code) rf_arch_end(gguf->reading);
    if (!gguf->reading->code) rf_params_check(gguf->reading);
    read_sampling(gguf);
    rf_gguf_read_pooling(gguf);
    gguf_file_type(gguf);
}
