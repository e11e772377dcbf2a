/* Reads the parameters from config.json, with transformers' defaults. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"
#include "model/hf.h"
#include "model/hf_class.h"
#include "model/hf_encoder.h"

static const char file[] = "config.json";

static void refuse_variants(struct rf_hf *hf)
{
    int gelu = hf->reading.source->params.gelu, has_gate = !hf->reading.source->params.no_gate;
    const char *key = gelu && has_gate ? "hidden_activation" : "hidden_act",
               *wanted = gelu ? "gelu_pytorch_tanh" : "silu",
               *same = gelu ? "gelu_new" : "swish"; /* another name */
    struct rf_str act = rf_hf_string(hf, hf->text, key);
    if (act.bytes && !rf_str_is(act, wanted) && !rf_str_is(act, same))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "%s is \"%.*s\"; of this architecture only %s is supported", key, rf_shown(act),
                    act.data, wanted);
    int is_whole = !(rf_arch_row(hf->reading.source->params.arch)->keys & RF_KEYS_LAYERS) &&
                   rf_hf_flag(hf, hf->text, "use_bidirectional_attention", 0),
        is_encoder = hf->reading.source->params.encoder;
    if (is_whole != is_encoder)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    is_whole ? "use_bidirectional_attention is true; only causal models can run"
                             : "use_bidirectional_attention is not true; of this class only "
                               "encoders can run");
    const struct rf_json *quantised = rf_json_get(hf->config, "quantization_config");
    if (quantised && !rf_str_is(rf_hf_string(hf, quantised, "quant_method"), "mxfp4"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "the weights are quantised (quantization_config), which is only read from "
                    "GGUF");
}

static void read_heads(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    /* A null means "as many as heads", an absent key the default of the class. */
    int stated = rf_json_has(hf->text, "num_key_value_heads");
    int32_t n_head_kv = class->n_head_kv && !stated ? class->n_head_kv : params->n_head;
    int32_t head_dim = class->head_dim ? class->head_dim : params->n_embd / params->n_head;
    if (!rf_json_get(hf->text, "head_dim") && !class->head_dim && params->n_embd % params->n_head)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "num_attention_heads, %" PRId32 ", does not divide hidden_size, %" PRId32,
                    params->n_head, params->n_embd);
    params->n_head_kv = rf_hf_count(hf, hf->text, "num_key_value_heads", n_head_kv);
    params->head_dim = rf_hf_count(hf, hf->text, "head_dim", head_dim);
    const struct rf_json *rope = rf_hf_object(hf, "rope_parameters");
    double partial = class->partial > 0 ? class->partial : 1;
    partial = rf_hf_number(hf, hf->text, "partial_rotary_factor", partial);
    partial = rf_hf_number(hf, rope, "partial_rotary_factor", partial);
    partial = rf_hf_number(hf, rf_hf_object(hf, "rope_scaling"), "partial_rotary_factor", partial);
    if (partial <= 0 || partial > 1 || (partial != 1 && !(class->partial > 0)))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "partial_rotary_factor is %g; only 1 is supported, and less in Phi3, Glm4, "
                    "Qwen3-Next and Qwen3.5",
                    partial);
    else
        params->rope_dim = (int32_t)(params->head_dim * partial);
}

/* The biases that the configuration asks for; their tensors must be there. */
static void read_biases(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    if (class->qkv_bias)
        params->qkv_bias = rf_hf_flag(hf, hf->text, class->qkv_bias, class->has_bias);
    if (class->has_o_bias) params->o_bias = params->qkv_bias;
    if (class->o_bias) params->o_bias = rf_hf_flag(hf, hf->text, class->o_bias, 0);
    if (!class->mlp_bias) return;
    int is_same = class->qkv_bias && strcmp(class->mlp_bias, class->qkv_bias) == 0;
    params->ffn_bias = rf_hf_flag(hf, hf->text, class->mlp_bias, is_same && class->has_bias);
}

/* Where layers differ: lists of the file, or else rules of the class. */
struct layer_rules {
    const struct rf_json *types, *ropes; /* layer_types, no_rope_layers; or NULL */
    int32_t period, rope_period;         /* 0: no layer is without rotation */
    int64_t n_window_layers;
};

static struct layer_rules read_rules(struct rf_hf *hf, const struct rf_hf_class *class)
{
    const struct rf_arch_row *row = rf_arch_row(class->arch);
    struct layer_rules rules = {.period = row->period, .n_window_layers = class->n_window_layers};
    const struct rf_json *late = rf_json_get(hf->text, "max_window_layers");
    if (late && (!rf_json_integer(late, &rules.n_window_layers) || rules.n_window_layers < 0))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "max_window_layers is not a whole number from 0 on");
    if (class->windows == RF_HF_WINDOW_NO_ROPE) {
        rules.rope_period = rf_hf_count(hf, hf->text, "no_rope_layer_interval", row->period);
        rules.ropes = rf_json_get(hf->text, "no_rope_layers");
        rf_hf_check_list(hf, rules.ropes, "no_rope_layers");
    }
    if (class->windows > RF_HF_WINDOW_ALL) {
        rules.types = rf_json_get(hf->text, "layer_types");
        rf_hf_check_list(hf, rules.types, "layer_types");
    }
    if (class->reads_period && !rules.types)
        rules.period = rf_hf_count(hf, hf->text, "sliding_window_pattern", row->period);
    return rules;
}

static int is_rotated(const struct layer_rules *rules, int32_t i)
{
    int64_t has_rope = 1;
    if (rules->ropes)
        return !rf_json_integer(rf_json_at(rules->ropes, (size_t)i), &has_rope) || has_rope;
    return !rules->rope_period || (i + 1) % rules->rope_period != 0;
}

static int is_window_layer(const struct rf_hf_class *class, const struct layer_rules *rules,
                           int32_t i)
{
    if (rules->types)
        return rf_str_is(rf_json_text(rf_json_at(rules->types, (size_t)i)), "sliding_attention");
    switch (class->windows) {
    case RF_HF_WINDOW_NONE:
    case RF_HF_WINDOW_ALL: break;
    case RF_HF_WINDOW_LATE: return i >= rules->n_window_layers;
    case RF_HF_WINDOW_EARLY_EVEN: return (i + 1) % 2 && i < rules->n_window_layers;
    case RF_HF_WINDOW_PERIOD: return (i + 1) % rules->period != 0;
    case RF_HF_WINDOW_NO_ROPE: return !is_rotated(rules, i);
    }
    return 1;
}

static void read_layers(struct rf_hf *hf, const struct rf_hf_class *class)
{
    const struct rf_params *params = &hf->reading.source->params;
    const struct rf_arch_row *row = rf_arch_row(class->arch);
    struct layer_rules rules = read_rules(hf, class);
    int are_alike = params->window == 0 && (!row->period || row->by_window);
    if (hf->reading.code || are_alike || class->windows <= RF_HF_WINDOW_ALL) return;
    uint8_t *flags = rf_arch_own_flags(&hf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++) {
        int has_window = is_window_layer(class, &rules, i);
        flags[i] = row->period && class->windows == RF_HF_WINDOW_PERIOD
                       ? row->flags[!has_window]
                       : (uint8_t)((has_window ? RF_LAYER_WINDOW : 0) |
                                   (is_rotated(&rules, i) ? 0 : RF_LAYER_NO_ROPE));
    }
}

/* The width of lfm2's feed-forward, which may be stated before it is reduced to two thirds, scaled
 * and rounded up (transformers, Lfm2MLP). */
static void read_block_width(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    params->n_ff = rf_hf_count(hf, hf->text, "block_ff_dim", params->n_ff);
    if (!rf_hf_flag(hf, hf->text, "block_auto_adjust_ff_dim", 1)) return;
    double factor = rf_hf_number(hf, hf->text, "block_ffn_dim_multiplier", 1),
           step = rf_hf_count(hf, hf->text, "block_multiple_of", 256),
           width = ceil(trunc(factor * trunc(2.0 * (double)params->n_ff / 3.0)) / step) * step;
    if (!(width >= 1 && width <= INT32_MAX))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "intermediate_size with its factors is %g, which is no width", width);
    else
        params->n_ff = (int32_t)width;
}

/* 1 for a layer with a convolution: by layer_types, else one that full_attn_idxs leaves out. */
static int is_conv_layer(struct rf_hf *hf, const struct rf_json *types,
                         const struct rf_json *attention, int32_t i)
{
    int64_t index;
    if (types) {
        struct rf_str type = rf_json_text(rf_json_at(types, (size_t)i));
        if (!rf_str_is(type, "conv") && !rf_str_is(type, "full_attention"))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "layer_types[%" PRId32 "] is \"%.*s\"; conv and full_attention are "
                        "supported",
                        i, rf_shown(type), type.data);
        return rf_str_is(type, "conv");
    }
    for (size_t k = 0; k < rf_json_count(attention); k++)
        if (rf_json_integer(rf_json_at(attention, k), &index) && index == i) return 0;
    return attention != NULL;
}

/* Layers with convolutions. */
static void read_convs(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    if (!class->conv_rows) return;
    if (class->arch == RF_ARCH_LFM2) read_block_width(hf);
    params->conv_rows = rf_hf_count(hf, hf->text, "conv_L_cache", class->conv_rows);
    params->conv_bias = rf_hf_flag(hf, hf->text, "conv_bias", 0);
    hf->is_tied = rf_hf_flag(hf, hf->text, "tie_embedding", hf->is_tied);
    const struct rf_json *types = rf_json_get(hf->text, "layer_types"),
                         *attention = rf_json_get(hf->text, "full_attn_idxs");
    rf_hf_check_list(hf, types, "layer_types");
    uint8_t *flags = hf->reading.code ? NULL : rf_arch_own_flags(&hf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        if (is_conv_layer(hf, types, attention, i)) flags[i] |= RF_LAYER_CONV;
}

/* 1 for a layer with the delta rule: by layer_types, else all but every n-th. */
static int is_delta_layer(struct rf_hf *hf, const struct rf_json *types, int32_t period, int32_t i)
{
    if (!types) return (i + 1) % period != 0;
    struct rf_str type = rf_json_text(rf_json_at(types, (size_t)i));
    if (!rf_str_is(type, "linear_attention") && !rf_str_is(type, "full_attention"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "layer_types[%" PRId32 "] is \"%.*s\"; linear_attention and full_attention are "
                    "supported",
                    i, rf_shown(type), type.data);
    return rf_str_is(type, "linear_attention");
}

/* Layers with the delta rule. Norms' weights count from 1 on. */
static void read_deltas(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    if (!class->delta_values) return;
    hf->adds_one = 1;
    params->delta_keys = rf_hf_count(hf, hf->text, "linear_num_key_heads", class->delta_keys);
    params->delta_values = rf_hf_count(hf, hf->text, "linear_num_value_heads", class->delta_values);
    params->delta_key_dim = rf_hf_count(hf, hf->text, "linear_key_head_dim", class->delta_key_dim);
    params->delta_value_dim =
        rf_hf_count(hf, hf->text, "linear_value_head_dim", class->delta_value_dim);
    params->conv_rows = rf_hf_count(hf, hf->text, "linear_conv_kernel_dim", class->delta_rows);
    int32_t period = rf_hf_count(hf, hf->text, "full_attention_interval", 4);
    const struct rf_json *types = rf_json_get(hf->text, "layer_types");
    rf_hf_check_list(hf, types, "layer_types");
    uint8_t *flags = hf->reading.code ? NULL : rf_arch_own_flags(&hf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        flags[i] = is_delta_layer(hf, types, period, i) ? RF_LAYER_DELTA : 0;
}

/* A null is no cap, an absent key the default of the class. */
static float read_cap(struct rf_hf *hf, const char *key, double otherwise)
{
    return (float)rf_hf_number(hf, hf->text, key, rf_json_has(hf->text, key) ? 0 : otherwise);
}

/* Factors, caps and windows. */
static void read_scales(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    unsigned keys = rf_arch_row(params->arch)->keys;
    if (keys & RF_KEYS_SCALES) {
        params->embedding_scale = (float)rf_hf_number(hf, hf->text, "embedding_multiplier", 1);
        params->residual_scale = (float)rf_hf_number(hf, hf->text, "residual_multiplier", 1);
        params->attention_scale = (float)rf_hf_number(hf, hf->text, "attention_multiplier", 1);
        params->logit_scale = (float)(1 / rf_hf_number(hf, hf->text, "logits_scaling", 1));
    }
    if (keys & RF_KEYS_LOGITS)
        params->logit_scale = (float)rf_hf_number(hf, hf->text, "logit_scale", 0.0625);
    if (keys & RF_KEYS_CAPS) {
        params->attention_cap = read_cap(hf, "attn_logit_softcapping", class->score_cap);
        params->logit_cap = read_cap(hf, "final_logit_softcapping", class->logit_cap);
        double scalar = rf_hf_number(hf, hf->text, "query_pre_attn_scalar", 256);
        params->attention_scale = 1.0f / sqrtf((float)scalar);
        hf->adds_one = 1;
    }
    if (keys & RF_KEYS_LAYERS)
        params->logit_cap = read_cap(hf, "final_logit_softcapping", class->logit_cap);
    /* A null is no window. */
    if (class->windows == RF_HF_WINDOW_NONE) return;
    if (!class->asks_for_window || rf_hf_flag(hf, hf->text, "use_sliding_window", 0))
        params->window = rf_hf_count(hf, hf->text, "sliding_window",
                                     rf_json_has(hf->text, "sliding_window") ? 0 : class->window);
}

/* The width of a feed-forward is an expert's. Tensors tell which layers have no experts
 * (mlp_only_layers, decoder_sparse_step). */
static void read_experts(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    if (!class->n_expert || class->mamba_heads || class->latent) return;
    params->n_expert = rf_hf_count(hf, hf->text, "num_local_experts", class->n_expert);
    params->n_expert = rf_hf_count(hf, hf->text, "num_experts", params->n_expert);
    params->n_expert_used = rf_hf_count(hf, hf->text, "num_experts_per_tok", class->n_expert_used);
    if (class->arch == RF_ARCH_GPT_OSS) {
        params->gate_alpha = (float)rf_hf_number(hf, hf->text, "swiglu_alpha", 1.702);
        params->gate_limit = (float)rf_hf_number(hf, hf->text, "swiglu_limit", 7);
    }
    if (!class->n_ff_expert) return;
    params->expert_norm = rf_hf_flag(hf, hf->text, "norm_topk_prob", class->norms_experts);
    double scale = rf_hf_number(hf, hf->text, "routed_scaling_factor", 1);
    if (params->expert_sigmoid && scale != 1)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "routed_scaling_factor is %g; only 1 is supported", scale);
    if (params->expert_choice_bias)
        params->expert_choice_bias = rf_hf_flag(hf, hf->text, "use_expert_bias", 1);
    params->n_ff_dense = params->n_ff;
    params->n_ff = rf_hf_count(hf, hf->text, "moe_intermediate_size", class->n_ff_expert);
    if (class->n_ff_shared)
        params->n_ff_shared =
            rf_hf_count(hf, hf->text, "shared_expert_intermediate_size", class->n_ff_shared);
}

void rf_hf_check_vocab_size(struct rf_hf *hf)
{
    int32_t n_vocab = hf->reading.source->params.n_vocab;
    int32_t stated = rf_hf_count(hf, hf->text, "vocab_size", n_vocab);
    if (stated != n_vocab)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "vocab_size is %" PRId32 ", but the embedding has %" PRId32 " rows", stated,
                    n_vocab);
}

/* A model with a tower around a text model of another class, whose defaults count. */
static void read_named_text(struct rf_hf *hf, const struct rf_hf_class *whole)
{
    struct rf_str type = rf_hf_string(hf, hf->text, "model_type");
    if (!type.bytes) type = rf_str_of("mistral");
    const struct rf_hf_class *found = rf_hf_class_of_type(type);
    if (!found || found->has_vision) {
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "the model_type of text_config, \"%.*s\", is not known", rf_shown(type),
                    type.data);
        return;
    }
    struct rf_hf_class class = *found;
    class.is_tied = whole->is_tied;
    rf_hf_read_params_of(hf, &class);
}

void rf_hf_read_params(struct rf_hf *hf)
{
    if (rf_hf_is_head(hf))
        rf_bad(&hf->reading, RF_ERR_UNSUPPORTED,
               "is a draft head, which cannot run alone: give it with --head, beside the model "
               "that it drafts for");
    const struct rf_hf_class *class = rf_hf_find_class(hf);
    hf->text = hf->config;
    if (hf->reading.code) return;
    hf->has_vision = class->has_vision;
    if (hf->has_vision) hf->text = rf_hf_object(hf, "text_config");
    if (!hf->text) rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "text_config is missing");
    if (!hf->reading.code && rf_is_bert(&rf_arch_row(class->arch)->traits))
        rf_hf_read_encoder(hf, class);
    else if (!hf->reading.code && class->names_text)
        read_named_text(hf, class);
    else if (!hf->reading.code)
        rf_hf_read_params_of(hf, class);
}

void rf_hf_read_params_of(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    rf_arch_begin(params, rf_arch_row(class->arch));
    refuse_variants(hf);
    /* safetensors weights are not permuted. */
    params->rope_style = class->is_interleaved ? RF_ROPE_NORM : RF_ROPE_NEOX;
    params->n_layer = rf_hf_count(hf, hf->text, "num_hidden_layers", class->n_layer);
    params->n_embd = rf_hf_count(hf, hf->text, "hidden_size", class->n_embd);
    params->n_ff = rf_hf_count(hf, hf->text, "intermediate_size", class->n_ff);
    params->n_ctx_train = rf_hf_count(hf, hf->text, "max_position_embeddings", class->n_ctx);
    params->n_head = rf_hf_count(hf, hf->text, "num_attention_heads", class->n_head);
    hf->is_tied = rf_hf_flag(hf, hf->config, "tie_word_embeddings", class->is_tied);
    if (hf->reading.code) return;
    if (class->latent)
        rf_hf_read_latent(hf, class);
    else
        read_heads(hf, class);
    int has_layers = (rf_arch_row(params->arch)->keys & RF_KEYS_LAYERS) != 0;
    if (has_layers) rf_hf_read_layer_sizes(hf);
    params->rms_eps =
        (float)rf_hf_number(hf, hf->text, class->eps_key ? class->eps_key : "rms_norm_eps",
                            class->rms_eps > 0 ? class->rms_eps : 1e-6);
    read_biases(hf, class);
    read_experts(hf, class);
    if (!hf->reading.code) read_convs(hf, class);
    if (!hf->reading.code) read_deltas(hf, class);
    if (!hf->reading.code && class->mamba_heads) rf_hf_read_mamba(hf, class);

    /* Check before and after: reading rotations relies on valid dimensions. */
    params->rope.theta = (float)class->rope.theta;
    if (class->rope.local > 0) params->rope_local.theta = (float)class->rope.local;
    rf_params_check(&hf->reading);
    if (!hf->reading.code) rf_hf_read_rope(hf, &class->rope);
    if (!hf->reading.code) read_scales(hf, class);
    if (!hf->reading.code) read_layers(hf, class);
    if (!hf->reading.code && has_layers) rf_hf_check_layer_sizes(hf);
    if (!hf->reading.code) rf_arch_end(&hf->reading);
    if (!hf->reading.code) rf_params_check(&hf->reading);
}
