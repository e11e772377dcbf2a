/* Reads the parameters from config.json, with transformers' defaults. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/hf.h"
#include "model/rope.h"

static const struct class
{
    const char *class_name, *model_type, *arch_name;
    enum rf_arch arch;
    int32_t n_head_kv, head_dim; /* defaults; 0: as many as heads, embedding / heads */
    int has_window; /* sliding_window counts unless use_sliding_window says otherwise */
} classes[] = {
    {"LlamaForCausalLM", "llama", "llama", RF_ARCH_LLAMA, 0, 0, 0},
    {"MistralForCausalLM", "mistral", "llama", RF_ARCH_LLAMA, 8, 0, 1},
    {"Qwen2ForCausalLM", "qwen2", "qwen2", RF_ARCH_QWEN2, 32, 0, 0},
    {"Qwen3ForCausalLM", "qwen3", "qwen3", RF_ARCH_QWEN3, 32, 128, 0},
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
    const struct rf_json *found = rf_json_get(hf->config, key);
    if (found && !rf_json_is_object(found))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is not a JSON object", key);
    return found;
}

static void missing(struct rf_hf *hf, const char *key)
{
    rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "%s is missing", key);
}

static int32_t need_count(struct rf_hf *hf, const char *key)
{
    int32_t value = get_count(hf, hf->config, key, 0);
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
    rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                "the architecture \"%.*s\" is not known; Llama, Mistral, Qwen2 and Qwen3 "
                "(ForCausalLM) are",
                rf_shown(name), name.data);
    return NULL;
}

static void refuse_partial_rotation(struct rf_hf *hf, const struct rf_json *place)
{
    double partial = get_number(hf, place, "partial_rotary_factor", 1);
    if (partial != 1)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "partial_rotary_factor is %g; only 1 is supported", partial);
}

static void refuse_variants(struct rf_hf *hf)
{
    struct rf_str act = get_text(hf, hf->config, "hidden_act");
    if (act.bytes && !rf_str_is(act, "silu"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "hidden_act is \"%.*s\"; only silu is supported", rf_shown(act), act.data);
    refuse_partial_rotation(hf, hf->config);
    if (rf_json_get(hf->config, "quantization_config"))
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
    const struct rf_json *place = rf_json_get(hf->config, key) ? hf->config : scaling;
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

/* Reads rope_scaling, or rope_parameters in newer files, which also holds the base frequency. */
static void read_rope(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_json *scaling = get_object(hf, "rope_parameters"), *value;
    if (!scaling) scaling = get_object(hf, "rope_scaling");
    const struct rf_json *place = rf_json_get(scaling, "rope_theta") ? scaling : hf->config;
    params->rope_theta = (float)get_number(hf, place, "rope_theta", (double)params->rope_theta);
    double factor = get_number(hf, scaling, "factor", 1);
    if (!isfinite(factor) || factor <= 0)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "the factor of rope_scaling is %g; it must be above 0", factor);
    refuse_partial_rotation(hf, scaling);
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
    else
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "rope_scaling is of type \"%.*s\"; linear, llama3 and yarn are supported",
                    rf_shown(type), type.data);
}

static void read_heads(struct rf_hf *hf, const struct class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    /* A null means "as many as heads", an absent key the default of the class. */
    int stated = rf_json_has(hf->config, "num_key_value_heads");
    int32_t n_head_kv = class->n_head_kv && !stated ? class->n_head_kv : params->n_head;
    int32_t head_dim = class->head_dim ? class->head_dim : params->n_embd / params->n_head;
    if (!rf_json_get(hf->config, "head_dim") && !class->head_dim && params->n_embd % params->n_head)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "num_attention_heads, %" PRId32 ", does not divide hidden_size, %" PRId32,
                    params->n_head, params->n_embd);
    params->n_head_kv = get_count(hf, hf->config, "num_key_value_heads", n_head_kv);
    params->head_dim = params->rope_dim = get_count(hf, hf->config, "head_dim", head_dim);
}

void rf_hf_check_vocab_size(struct rf_hf *hf)
{
    int32_t n_vocab = hf->reading.source->params.n_vocab;
    int32_t stated = get_count(hf, hf->config, "vocab_size", n_vocab);
    if (stated != n_vocab)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "vocab_size is %" PRId32 ", but the embedding has %" PRId32 " rows", stated,
                    n_vocab);
}

void rf_hf_read_params(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct class *class = find_class(hf);
    refuse_variants(hf);
    if (hf->reading.code) return;
    params->arch = class->arch;
    params->arch_name = class->arch_name;
    /* Whatever the architecture, safetensors weights are not permuted. */
    params->rope_style = RF_ROPE_NEOX;
    params->n_layer = need_count(hf, "num_hidden_layers");
    params->n_embd = need_count(hf, "hidden_size");
    params->n_ff = need_count(hf, "intermediate_size");
    params->n_ctx_train = need_count(hf, "max_position_embeddings");
    params->n_head = need_count(hf, "num_attention_heads");
    hf->is_tied = get_flag(hf, hf->config, "tie_word_embeddings", 0);
    if (hf->reading.code) return;
    read_heads(hf, class);
    params->rms_eps = (float)get_number(hf, hf->config, "rms_norm_eps", 1e-6);

    /* Check before and after: read_rope relies on valid dimensions. */
    params->rope_theta = 10000.0f;
    rf_params_check(&hf->reading);
    if (!hf->reading.code) read_rope(hf);
    int32_t window = get_count(hf, hf->config, "sliding_window", 0);
    if (get_flag(hf, hf->config, "use_sliding_window", class->has_window))
        rf_params_limit_window(params, window); /* after YaRN, which raises the context */
    if (!hf->reading.code) rf_params_check(&hf->reading);
}
