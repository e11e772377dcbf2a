/* Reads the parameters from config.json, with transformers' defaults. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/hf.h"

static const struct {
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

/* 1: exists, 0: missing or null, negative: wrong kind or out of range. */
static int get_integer(const struct rf_hf *hf, const struct rf_json *object, const char *key,
                       int64_t *value)
{
    const struct rf_json *found = rf_json_get(object, key);
    if (!found) return 0;
    int64_t integer;
    if (!rf_json_integer(found, &integer) || integer < 1 || integer > INT32_MAX)
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/config.json: %s is not a whole number from 1 to %d", hf->files->folder,
                       key, INT32_MAX);
    *value = integer;
    return 1;
}

static int get_number(const struct rf_hf *hf, const struct rf_json *object, const char *key,
                      double *value)
{
    const struct rf_json *found = rf_json_get(object, key);
    if (!found) return 0;
    if (!rf_json_number(found, value))
        return rf_fail(hf->error, RF_ERR_FORMAT, "%s/config.json: %s is not a number",
                       hf->files->folder, key);
    return 1;
}

static int missing(const struct rf_hf *hf, const char *key)
{
    return rf_fail(hf->error, RF_ERR_FORMAT, "%s/config.json: %s is missing", hf->files->folder,
                   key);
}

/* A count with the default `otherwise`; 0: it is required. */
static int count(const struct rf_hf *hf, const char *key, int32_t otherwise, int32_t *value)
{
    int64_t integer = otherwise;
    int found = get_integer(hf, hf->config, key, &integer);
    if (found < 0) return found;
    if (!found && !otherwise) return missing(hf, key);
    *value = (int32_t)integer;
    return 0;
}

static int find_class(const struct rf_hf *hf, size_t *index)
{
    struct rf_str name = rf_json_text(rf_json_at(rf_json_get(hf->config, "architectures"), 0));
    struct rf_str type = rf_json_text(rf_json_get(hf->config, "model_type"));
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        *index = i;
        if (name.bytes ? rf_str_is(name, classes[i].class_name)
                       : rf_str_is(type, classes[i].model_type))
            return 0;
    }
    if (!name.bytes) name = type;
    if (!name.bytes) return missing(hf, "architectures");
    return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                   "%s/config.json: the architecture \"%.*s\" is not known; Llama, Mistral, Qwen2 "
                   "and Qwen3 (ForCausalLM) "
                   "are",
                   hf->files->folder, rf_shown(name), name.data);
}

static int refuse_variants(const struct rf_hf *hf)
{
    struct rf_str act = rf_json_text(rf_json_get(hf->config, "hidden_act"));
    if (act.bytes && !rf_str_is(act, "silu"))
        return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                       "%s/config.json: hidden_act is \"%.*s\"; only silu is supported",
                       hf->files->folder, rf_shown(act), act.data);
    double partial = 1;
    int found = get_number(hf, hf->config, "partial_rotary_factor", &partial);
    if (found < 0) return found;
    if (partial != 1)
        return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                       "%s/config.json: partial_rotary_factor is %g; only 1 is supported",
                       hf->files->folder, partial);
    if (rf_json_get(hf->config, "quantization_config"))
        return rf_fail(hf->error, RF_ERR_UNSUPPORTED,
                       "%s/config.json: the weights are quantised (quantization_config), which is "
                       "only read from GGUF",
                       hf->files->folder);
    return 0;
}

/* The llama3 rule of transformers (modeling_rope_utils.py, _compute_llama3_parameters), as divisors
 * of the frequencies: long wavelengths rotate slower by `factor`, short ones are unchanged, and the
 * two are blended in between. */
static int llama3_factors(struct rf_hf *hf, const struct rf_json *scaling, double factor)
{
    struct rf_params *params = &hf->source->params;
    double low = 0, high = 0;
    int64_t context = 0;
    int found = get_number(hf, scaling, "low_freq_factor", &low);
    if (found >= 0) found = get_number(hf, scaling, "high_freq_factor", &high);
    if (found >= 0) found = get_integer(hf, scaling, "original_max_position_embeddings", &context);
    if (found < 0) return found;
    if (!(low > 0 && high > low && isfinite(high)) || context == 0)
        return rf_fail(
            hf->error, RF_ERR_FORMAT,
            "%s/config.json: the llama3 scaling needs 0 < low_freq_factor < high_freq_factor and "
            "original_max_position_embeddings",
            hf->files->folder);
    size_t n = (size_t)params->rope_dim / 2;
    float *factors = rf_source_alloc(hf->source, n, sizeof *factors, "rope factors", hf->error);
    if (!factors) return RF_ERR_MEMORY;
    const double pi = 3.14159265358979323846;
    for (size_t i = 0; i < n; i++) {
        double wavelength =
            2 * pi * pow((double)params->rope_theta, 2.0 * (double)i / params->rope_dim);
        double divisor = 1;
        if (wavelength > (double)context / low) {
            divisor = factor;
        } else if (wavelength >= (double)context / high) {
            double smooth = ((double)context / wavelength - low) / (high - low);
            divisor = 1 / ((1 - smooth) / factor + smooth);
        }
        factors[i] = (float)divisor;
    }
    params->rope_freq_factors = factors;
    return 0;
}

/* Reads rope_scaling, or rope_parameters in newer files, which also holds the base frequency. */
static int read_rope(struct rf_hf *hf)
{
    struct rf_params *params = &hf->source->params;
    const struct rf_json *scaling = rf_json_get(hf->config, "rope_parameters");
    if (!scaling) scaling = rf_json_get(hf->config, "rope_scaling");
    double theta = (double)params->rope_theta, factor = 1;
    int found = get_number(hf, scaling, "rope_theta", &theta);
    if (!found) found = get_number(hf, hf->config, "rope_theta", &theta);
    if (found >= 0) found = get_number(hf, scaling, "factor", &factor);
    if (found < 0) return found;
    params->rope_theta = (float)theta;
    if (!scaling) return 0;
    if (!isfinite(factor) || factor <= 0)
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/config.json: the factor of rope_scaling is %g; it must be above 0",
                       hf->files->folder, factor);
    const struct rf_json *kind = rf_json_get(scaling, "rope_type");
    struct rf_str type = rf_json_text(kind ? kind : rf_json_get(scaling, "type"));
    if (type.bytes == 0 || rf_str_is(type, "default")) return 0;
    if (rf_str_is(type, "linear")) {
        params->rope_scale = (float)(1 / factor);
        return 0;
    }
    if (rf_str_is(type, "llama3")) return llama3_factors(hf, scaling, factor);
    return rf_fail(
        hf->error, RF_ERR_UNSUPPORTED,
        "%s/config.json: rope_scaling is of type \"%.*s\"; linear and llama3 are supported",
        hf->files->folder, rf_shown(type), type.data);
}

int rf_hf_read_params(struct rf_hf *hf)
{
    struct rf_params *params = &hf->source->params;
    size_t class;
    int code = find_class(hf, &class);
    if (!code) code = refuse_variants(hf);
    if (code) return code;
    params->arch = classes[class].arch;
    params->arch_name = classes[class].arch_name;
    params->rope_style =
        RF_ROPE_NEOX; /* safetensors weights are not permuted, whatever the architecture */
    code = count(hf, "num_hidden_layers", 0, &params->n_layer);
    if (!code) code = count(hf, "hidden_size", 0, &params->n_embd);
    if (!code) code = count(hf, "intermediate_size", 0, &params->n_ff);
    if (!code) code = count(hf, "max_position_embeddings", 0, &params->n_ctx_train);
    if (!code) code = count(hf, "num_attention_heads", 0, &params->n_head);
    if (code) return code;
    int32_t n_head_kv = classes[class].n_head_kv ? classes[class].n_head_kv : params->n_head;
    /* A null means "as many as heads", an absent key the default of the class. */
    if (rf_json_has(hf->config, "num_key_value_heads")) n_head_kv = params->n_head;
    int32_t head_dim =
        classes[class].head_dim ? classes[class].head_dim : params->n_embd / params->n_head;
    if (!rf_json_get(hf->config, "head_dim") && !classes[class].head_dim &&
        params->n_embd % params->n_head)
        return rf_fail(hf->error, RF_ERR_FORMAT,
                       "%s/config.json: num_attention_heads, %" PRId32
                       ", does not divide hidden_size, %" PRId32,
                       hf->files->folder, params->n_head, params->n_embd);
    code = count(hf, "num_key_value_heads", n_head_kv, &params->n_head_kv);
    if (!code) code = count(hf, "head_dim", head_dim, &params->head_dim);
    if (code) return code;
    params->rope_dim = params->head_dim;
    double eps = 1e-6;
    int found = get_number(hf, hf->config, "rms_norm_eps", &eps);
    if (found < 0) return found;
    params->rms_eps = (float)eps;

    int64_t window = 0;
    found = get_integer(hf, hf->config, "sliding_window", &window);
    if (found < 0) return found;
    const struct rf_json *use_window = rf_json_get(hf->config, "use_sliding_window");
    if (use_window ? rf_json_is_true(use_window) : classes[class].has_window)
        rf_params_limit_window(params, window);

    /* Check before and after: read_rope relies on valid dimensions. */
    params->rope_theta = 10000.0f;
    params->rope_scale = 1.0f;
    code = rf_params_check(params, hf->files->folder, hf->error);
    if (!code) code = read_rope(hf);
    return code ? code : rf_params_check(params, hf->files->folder, hf->error);
}
