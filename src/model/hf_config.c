/* Reads the parameters from config.json, with transformers' defaults. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"
#include "model/hf.h"
#include "model/rope.h"

static void read_mixtral(struct rf_hf *hf);
static void read_qwen3moe(struct rf_hf *hf);
static void read_qwen2moe(struct rf_hf *hf);
static void read_gpt_oss(struct rf_hf *hf);

/* The classes of transformers and their defaults where config.json is silent. */
static const struct class
{
    const char *class_name, *model_type;
    enum rf_arch arch;
    int32_t n_head_kv, head_dim; /* 0: as many as heads; n_embd / n_head */
    double rms_eps, rope_theta;  /* 0: 1e-6; 10000 */
    int32_t n_head, n_ctx;       /* 0: the file must say */
    double score_cap, logit_cap; /* 0: none */
    int has_window;     /* sliding_window counts unless use_sliding_window says otherwise */
    int has_own_window; /* the file must say how long a window is; else it is 4096 */
    int is_tied;        /* tie_word_embeddings */
    int has_vision;     /* the text model's parameters are in text_config */
    void (*read_experts)(struct rf_hf *hf); /* NULL: there are none */
} classes[] = {
    {.class_name = "LlamaForCausalLM", .model_type = "llama", .arch = RF_ARCH_LLAMA},
    {.class_name = "MistralForCausalLM",
     .model_type = "mistral",
     .arch = RF_ARCH_LLAMA,
     .n_head_kv = 8,
     .has_window = 1},
    {.class_name = "MixtralForCausalLM",
     .model_type = "mixtral",
     .arch = RF_ARCH_LLAMA,
     .n_head_kv = 8,
     .rms_eps = 1e-5,
     .rope_theta = 1e6,
     .has_window = 1,
     .read_experts = read_mixtral},
    {.class_name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .arch = RF_ARCH_QWEN2,
     .n_head_kv = 32},
    {.class_name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .arch = RF_ARCH_QWEN3,
     .n_head_kv = 32,
     .head_dim = 128},
    {.class_name = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .arch = RF_ARCH_QWEN3MOE,
     .n_head_kv = 4,
     .read_experts = read_qwen3moe},
    {.class_name = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .arch = RF_ARCH_QWEN2MOE,
     .n_head_kv = 16,
     .read_experts = read_qwen2moe},
    {.class_name = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .arch = RF_ARCH_GPT_OSS,
     .n_head_kv = 8,
     .head_dim = 64,
     .rms_eps = 1e-5,
     .rope_theta = 150000,
     .has_window = 1,
     .read_experts = read_gpt_oss},
    {.class_name = "GraniteForCausalLM", .model_type = "granite", .arch = RF_ARCH_GRANITE},
    {.class_name = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .arch = RF_ARCH_OLMO2,
     .rms_eps = 1e-5},
    {.class_name = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .arch = RF_ARCH_SMOLLM3,
     .n_head_kv = 4,
     .rope_theta = 2e6,
     .is_tied = 1},
    {.class_name = "Phi3ForCausalLM",
     .model_type = "phi3",
     .arch = RF_ARCH_PHI3,
     .rms_eps = 1e-5,
     .has_window = 1,
     .has_own_window = 1},
    {.class_name = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .arch = RF_ARCH_GEMMA2,
     .n_head_kv = 4,
     .head_dim = 256,
     .score_cap = 50,
     .logit_cap = 30,
     .has_window = 1,
     .is_tied = 1},
    {.class_name = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .arch = RF_ARCH_GEMMA3,
     .n_head_kv = 4,
     .head_dim = 256,
     .rope_theta = 1e6,
     .n_head = 8,
     .n_ctx = 131072,
     .has_window = 1,
     .is_tied = 1},
    {.class_name = "Gemma3ForConditionalGeneration",
     .model_type = "gemma3",
     .arch = RF_ARCH_GEMMA3,
     .n_head_kv = 4,
     .head_dim = 256,
     .rope_theta = 1e6,
     .n_head = 8,
     .n_ctx = 131072,
     .has_window = 1,
     .is_tied = 1,
     .has_vision = 1},
};

static const char file[] = "config.json";

/* A count, at least 1. `otherwise` when it is missing or null. */
static int32_t get_count(struct rf_hf *hf, const struct rf_json *object, const char *key,
                         int32_t otherwise)
{
    const struct rf_json *found = rf_json_get(object, key);
    int64_t value = otherwise;
    if (found && (!rf_json_integer(found, &value) || value < 1 || value > INT32_MAX)) {
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a whole number from 1 to %d", key,
                    INT32_MAX);
        return otherwise;
    }
    return (int32_t)value;
}

static double get_number(struct rf_hf *hf, const struct rf_json *object, const char *key,
                         double otherwise)
{
    const struct rf_json *found = rf_json_get(object, key);
    if (found && !rf_json_number(found, &otherwise))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a number", key);
    return otherwise;
}

/* A text; "" when it is missing or null. */
static struct rf_str get_text(struct rf_hf *hf, const struct rf_json *object, const char *key)
{
    const struct rf_json *found = rf_json_get(object, key);
    struct rf_str text = {"", 0};
    if (found && !rf_json_string(found, &text))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a text", key);
    return text;
}

static int get_flag(struct rf_hf *hf, const struct rf_json *object, const char *key, int otherwise)
{
    const struct rf_json *found = rf_json_get(object, key);
    if (found && !rf_json_bool(found, &otherwise))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is neither true nor false", key);
    return otherwise;
}

static const struct rf_json *get_object(struct rf_hf *hf, const char *key)
{
    const struct rf_json *found = rf_json_get(hf->text, key);
    if (found && !rf_json_is_object(found))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a JSON object", key);
    return found;
}

static void missing(struct rf_hf *hf, const char *key)
{
    rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is missing", key);
}

static int32_t need_count(struct rf_hf *hf, const char *key, int32_t otherwise)
{
    int32_t value = get_count(hf, hf->text, key, otherwise);
    if (!value) missing(hf, key);
    return value;
}

static const struct class *find_class(struct rf_hf *hf)
{
    struct rf_str name = rf_json_text(rf_json_at(rf_json_get(hf->config, "architectures"), 0));
    struct rf_str type = get_text(hf, hf->config, "model_type");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (name.bytes ? rf_str_is(name, classes[i].class_name)
                       : rf_str_is(type, classes[i].model_type))
            return &classes[i];
    if (!name.bytes) name = type;
    if (!name.bytes) missing(hf, "architectures");
    char known[512];
    size_t used = 0;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 classes[i].model_type);
    rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                "the architecture \"%.*s\" is not known; these are, by their model_type: %s",
                rf_shown(name), name.data, known);
    return NULL;
}

static void refuse_variants(struct rf_hf *hf)
{
    static const char *const keys[] = {"hidden_activation", "hidden_act"}; /* Gemma has both */
    const char *wanted = hf->reading.source->params.gelu ? "gelu_pytorch_tanh" : "silu";
    const char *key = keys[!rf_json_get(hf->text, keys[0])];
    struct rf_str act = get_text(hf, hf->text, key);
    if (act.bytes && !rf_str_is(act, wanted))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "%s is \"%.*s\"; of this architecture only %s is supported", key, rf_shown(act),
                    act.data, wanted);
    if (get_flag(hf, hf->text, "use_bidirectional_attention", 0))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "use_bidirectional_attention is true; only causal models can run");
    const struct rf_json *quantised = rf_json_get(hf->text, "quantization_config");
    if (quantised && !rf_str_is(get_text(hf, quantised, "quant_method"), "mxfp4"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "the weights are quantised (quantization_config), which is only read from "
                    "GGUF");
}

static double positive_or(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

/* Positions that the model was first trained on: named beside the scaling by some files. */
static double original_context(struct rf_hf *hf, const struct rf_json *scaling)
{
    static const char key[] = "original_max_position_embeddings";
    const struct rf_json *place = rf_json_get(hf->text, key) ? hf->text : scaling;
    return get_count(hf, place, key, hf->reading.source->params.n_ctx_train);
}

static void read_yarn(struct rf_hf *hf, const struct rf_json *scaling)
{
    double original = original_context(hf, scaling);
    double factor =
        get_number(hf, scaling, "factor", hf->reading.source->params.n_ctx_train / original);
    double of_scores = get_number(hf, scaling, "mscale", 0),
           of_all = get_number(hf, scaling, "mscale_all_dim", 0);
    double magnitude = rf_yarn_magnitude(factor, 1);
    if (of_scores != 0 && of_all != 0)
        magnitude = rf_yarn_magnitude(factor, of_scores) / rf_yarn_magnitude(factor, of_all);
    const struct rf_yarn yarn = {
        .factor = factor,
        .original = original,
        .beta_fast = positive_or(get_number(hf, scaling, "beta_fast", 0), 32),
        .beta_slow = positive_or(get_number(hf, scaling, "beta_slow", 0), 1),
        .is_whole = get_flag(hf, scaling, "truncate", 1),
        .magnitude = get_number(hf, scaling, "attention_factor", magnitude)};
    rf_rope_yarn(&hf->reading, &yarn);
}

static void read_llama3(struct rf_hf *hf, const struct rf_json *scaling)
{
    const struct rf_llama3 llama3 = {.factor = get_number(hf, scaling, "factor", 1),
                                     .low_freq = get_number(hf, scaling, "low_freq_factor", 0),
                                     .high_freq = get_number(hf, scaling, "high_freq_factor", 0),
                                     .original = original_context(hf, scaling)};
    rf_rope_llama3(&hf->reading, &llama3);
}

/* A list of divisors of the frequencies, which longrope has two of. */
static const float *read_factors(struct rf_hf *hf, const struct rf_json *scaling, const char *key)
{
    size_t n = (size_t)hf->reading.source->params.rope_dim / 2;
    const struct rf_json *list = rf_json_get(scaling, key);
    float *factors = rf_keep(&hf->reading, n, sizeof *factors, "rope factors");
    if (rf_json_count(list) != n)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a list of %zu numbers", key, n);
    for (size_t i = 0; !hf->reading.code && i < n; i++) {
        double factor = 0;
        if (!rf_json_number(rf_json_at(list, i), &factor) || !isfinite(factor) || factor <= 0)
            rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s[%zu] is not a number above 0", key,
                        i);
        factors[i] = (float)factor;
    }
    return factors;
}

/* transformers, modeling_rope_utils.py, _compute_longrope_parameters. */
static void read_longrope(struct rf_hf *hf, const struct rf_json *scaling)
{
    struct rf_params *params = &hf->reading.source->params;
    params->rope_freq_factors = read_factors(hf, scaling, "short_factor");
    params->rope_long_factors = read_factors(hf, scaling, "long_factor");
    params->n_ctx_short = (int32_t)original_context(hf, scaling);
    double longer = get_number(hf, scaling, "factor",
                               (double)params->n_ctx_train / (double)params->n_ctx_short);
    double magnitude = 1;
    if (longer > 1 && params->n_ctx_short > 1)
        magnitude = sqrt(1 + log(longer) / log((double)params->n_ctx_short));
    params->rope_magnitude = (float)get_number(hf, scaling, "attention_factor", magnitude);
}

/* rope_parameters may have a rotation for each type of layer, of which that of layers with a window
 * is the local one. Returns the other's object. */
static const struct rf_json *read_local_rope(struct rf_hf *hf, const struct rf_json *scaling)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_json *local = rf_json_get(scaling, "sliding_attention"),
                         *global = rf_json_get(scaling, "full_attention");
    params->rope_theta_local =
        (float)get_number(hf, hf->text, "rope_local_base_freq", (double)params->rope_theta_local);
    if (!rf_json_is_object(local) || !rf_json_is_object(global)) return scaling;
    params->rope_theta_local =
        (float)get_number(hf, local, "rope_theta", (double)params->rope_theta_local);
    struct rf_str type = get_text(hf, local, "rope_type");
    if (type.bytes && !rf_str_is(type, "default"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "the rotation of sliding_attention is of type \"%.*s\"; only default is "
                    "supported",
                    rf_shown(type), type.data);
    return global;
}

static int has_longrope(const struct rf_params *params)
{
    return (rf_arch_row(params->arch)->keys & RF_KEYS_LONGROPE) != 0;
}

/* Reads rope_scaling, or rope_parameters in newer files, which also holds the base frequency. */
static void read_rope(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_json *scaling = get_object(hf, "rope_parameters"), *value;
    if (!scaling) scaling = get_object(hf, "rope_scaling");
    if (params->rope_theta_local > 0) scaling = read_local_rope(hf, scaling);
    const struct rf_json *place = rf_json_get(scaling, "rope_theta") ? scaling : hf->text;
    params->rope_theta = (float)get_number(hf, place, "rope_theta", (double)params->rope_theta);
    double factor = get_number(hf, scaling, "factor", 1);
    if (!isfinite(factor) || factor <= 0)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "the factor of rope_scaling is %g; it must be finite and above 0", factor);
    struct rf_str type = get_text(hf, scaling, "rope_type"), key;
    if (type.bytes == 0) type = get_text(hf, scaling, "type");
    for (void *at = NULL; rf_json_next(scaling, &at, &key, &value);)
        if (rf_json_is_object(value))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "rope_parameters has a rotation of its own for \"%.*s\"; only one for all "
                        "layers is supported",
                        rf_shown(key), key.data);
    if (type.bytes == 0 || rf_str_is(type, "default")) return;
    if (rf_str_is(type, "linear"))
        params->rope_scale = (float)(1 / factor);
    else if (rf_str_is(type, "llama3"))
        read_llama3(hf, scaling);
    else if (rf_str_is(type, "yarn"))
        read_yarn(hf, scaling);
    else if (has_longrope(params) && (rf_str_is(type, "longrope") || rf_str_is(type, "su")))
        read_longrope(hf, scaling);
    else
        rf_bad_part(
            &hf->reading, file, RF_ERR_UNSUPPORTED,
            "rope_scaling is of type \"%.*s\"; linear, llama3, longrope and yarn are supported",
            rf_shown(type), type.data);
}

static void read_heads(struct rf_hf *hf, const struct class *class)
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
    params->n_head_kv = get_count(hf, hf->text, "num_key_value_heads", n_head_kv);
    params->head_dim = get_count(hf, hf->text, "head_dim", head_dim);
    const struct rf_json *rope = get_object(hf, "rope_parameters");
    double partial = get_number(hf, hf->text, "partial_rotary_factor", 1);
    partial = get_number(hf, rope, "partial_rotary_factor", partial);
    if (partial <= 0 || partial > 1 || (partial != 1 && !has_longrope(params)))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "partial_rotary_factor is %g; only 1 is supported, and less in Phi3", partial);
    else
        params->rope_dim = (int32_t)(params->head_dim * partial);
}

/* Reads which layers differ from most. */
struct layer_rules {
    const struct rf_json *types, *ropes; /* layer_types, no_rope_layers; or NULL */
    int32_t period;                      /* else the last of so many layers differs; or 0 */
    int32_t n_full;                      /* else the first layers do */
};

static int is_odd_layer(const struct layer_rules *rules, int32_t i)
{
    int64_t has_rope = 1;
    if (rules->ropes)
        return rf_json_integer(rf_json_at(rules->ropes, (size_t)i), &has_rope) && !has_rope;
    if (rules->types)
        return !rf_str_is(rf_json_text(rf_json_at(rules->types, (size_t)i)), "sliding_attention");
    return rules->period ? i % rules->period == rules->period - 1 : i < rules->n_full;
}

static struct layer_rules read_rules(struct rf_hf *hf, const struct rf_arch_row *row)
{
    const struct rf_params *params = &hf->reading.source->params;
    struct layer_rules rules = {.period = row->period};
    if (row->flags[1] & RF_LAYER_NO_ROPE) {
        rules.ropes = rf_json_get(hf->text, "no_rope_layers");
        rules.period = get_count(hf, hf->text, "no_rope_layer_interval", row->period);
    } else if (params->window > 0) {
        rules.types = rf_json_get(hf->text, "layer_types");
        if (row->period)
            rules.period = get_count(hf, hf->text, "sliding_window_pattern", row->period);
        else if (get_flag(hf, hf->text, "use_sliding_window", 0))
            rules.n_full = get_count(hf, hf->text, "max_window_layers", 0);
    }
    const struct rf_json *list = rules.ropes ? rules.ropes : rules.types;
    if (list && rf_json_count(list) != (size_t)params->n_layer)
        rf_bad_part(
            &hf->reading, file, RF_ERR_FORMAT, "%s is a list of %zu layers, but there are %" PRId32,
            rules.ropes ? "no_rope_layers" : "layer_types", rf_json_count(list), params->n_layer);
    return rules;
}

static void read_layers(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_arch_row *row = rf_arch_row(params->arch);
    struct layer_rules rules = read_rules(hf, row);
    if (hf->reading.code || (!row->period && !rules.types && !rules.n_full)) return;
    static const uint8_t usual[] = {RF_LAYER_WINDOW, 0};
    uint8_t *flags = rf_arch_own_flags(&hf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++)
        flags[i] = (row->period ? row->flags : usual)[is_odd_layer(&rules, i)];
}

/* A null is no cap, an absent key the default of the class. */
static float read_cap(struct rf_hf *hf, const char *key, double otherwise)
{
    return (float)get_number(hf, hf->text, key, rf_json_has(hf->text, key) ? 0 : otherwise);
}

/* Factors, caps and windows. */
static void read_scales(struct rf_hf *hf, const struct class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    unsigned keys = rf_arch_row(params->arch)->keys;
    if (keys & RF_KEYS_SCALES) {
        params->embedding_scale = (float)get_number(hf, hf->text, "embedding_multiplier", 1);
        params->residual_scale = (float)get_number(hf, hf->text, "residual_multiplier", 1);
        params->attention_scale = (float)get_number(hf, hf->text, "attention_multiplier", 1);
        params->logit_scale = (float)(1 / get_number(hf, hf->text, "logits_scaling", 1));
    }
    if (keys & RF_KEYS_CAPS) {
        params->attention_cap = read_cap(hf, "attn_logit_softcapping", class->score_cap);
        params->logit_cap = read_cap(hf, "final_logit_softcapping", class->logit_cap);
        double scalar = get_number(hf, hf->text, "query_pre_attn_scalar", 256);
        params->attention_scale = 1.0f / sqrtf((float)scalar);
        hf->adds_one = 1;
    }
    /* A null is no window. */
    int32_t otherwise = class->has_own_window || rf_json_has(hf->text, "sliding_window") ? 0 : 4096;
    if (get_flag(hf, hf->text, "use_sliding_window", class->has_window))
        params->window = get_count(hf, hf->text, "sliding_window", otherwise);
}

static void read_mixtral(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    params->n_expert = get_count(hf, hf->text, "num_local_experts", 8);
    params->n_expert_used = get_count(hf, hf->text, "num_experts_per_tok", 2);
}

/* The width of a feed-forward, which is an expert's width. Tensors tell which layers have no
 * experts (mlp_only_layers, decoder_sparse_step). */
static void read_qwen_experts(struct rf_hf *hf, int32_t n, int32_t n_used, int32_t width)
{
    struct rf_params *params = &hf->reading.source->params;
    params->n_expert = get_count(hf, hf->text, "num_local_experts", n);
    params->n_expert = get_count(hf, hf->text, "num_experts", params->n_expert);
    params->n_expert_used = get_count(hf, hf->text, "num_experts_per_tok", n_used);
    params->expert_norm = get_flag(hf, hf->text, "norm_topk_prob", 0);
    params->n_ff_dense = params->n_ff;
    params->n_ff = get_count(hf, hf->text, "moe_intermediate_size", width);
}

static void read_qwen3moe(struct rf_hf *hf)
{
    read_qwen_experts(hf, 128, 8, 768);
}

static void read_qwen2moe(struct rf_hf *hf)
{
    read_qwen_experts(hf, 60, 4, 1408);
    hf->reading.source->params.n_ff_shared =
        get_count(hf, hf->text, "shared_expert_intermediate_size", 5632);
}

static void read_gpt_oss(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    read_mixtral(hf);
    params->n_expert_used = get_count(hf, hf->text, "num_experts_per_tok", 4);
    params->gate_alpha = (float)get_number(hf, hf->text, "swiglu_alpha", 1.702);
    params->gate_limit = (float)get_number(hf, hf->text, "swiglu_limit", 7);
    if (!get_flag(hf, hf->text, "attention_bias", 1))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "attention_bias is false, which is not supported");
}

void rf_hf_check_vocab_size(struct rf_hf *hf)
{
    int32_t n_vocab = hf->reading.source->params.n_vocab;
    int32_t stated = get_count(hf, hf->text, "vocab_size", n_vocab);
    if (stated != n_vocab)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "vocab_size is %" PRId32 ", but the embedding has %" PRId32 " rows", stated,
                    n_vocab);
}

void rf_hf_read_params(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct class *class = find_class(hf);
    hf->text = hf->config;
    if (hf->reading.code) return;
    hf->has_vision = class->has_vision;
    if (hf->has_vision) hf->text = get_object(hf, "text_config");
    if (!hf->text) missing(hf, "text_config");
    if (hf->reading.code) return;
    rf_arch_begin(params, rf_arch_row(class->arch));
    refuse_variants(hf);
    /* Whatever the architecture, safetensors weights are not permuted. */
    params->rope_style = RF_ROPE_NEOX;
    params->n_layer = need_count(hf, "num_hidden_layers", 0);
    params->n_embd = need_count(hf, "hidden_size", 0);
    params->n_ff = need_count(hf, "intermediate_size", 0);
    params->n_ctx_train = need_count(hf, "max_position_embeddings", class->n_ctx);
    params->n_head = need_count(hf, "num_attention_heads", class->n_head);
    hf->is_tied = get_flag(hf, hf->text, "tie_word_embeddings", class->is_tied);
    if (hf->reading.code) return;
    read_heads(hf, class);
    params->rms_eps =
        (float)get_number(hf, hf->text, "rms_norm_eps", positive_or(class->rms_eps, 1e-6));
    if (class->read_experts) class->read_experts(hf);

    /* Check before and after: read_rope relies on valid dimensions. */
    params->rope_theta = (float)positive_or(class->rope_theta, 10000);
    rf_params_check(&hf->reading);
    if (!hf->reading.code) read_rope(hf);
    if (!hf->reading.code) read_scales(hf, class);
    if (!hf->reading.code) read_layers(hf);
    if (!hf->reading.code) rf_arch_end(&hf->reading);
    if (!hf->reading.code) rf_params_check(&hf->reading);
}
