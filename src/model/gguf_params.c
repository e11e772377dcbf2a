/* A GGUF file's parameters: keys "ARCHITECTURE.something", with llama.cpp's defaults. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/gguf.h"
#include "model/reader.h"

static const struct {
    const char *name;
    enum rf_arch arch;
    enum rf_rope_style rope_style;
} architectures[] = {
    {"llama", RF_ARCH_LLAMA, RF_ROPE_NORM},
    {"qwen2", RF_ARCH_QWEN2, RF_ROPE_NEOX},
    {"qwen3", RF_ARCH_QWEN3, RF_ROPE_NEOX},
};

/* "llama.block_count": room for every architecture's name and every suffix. */
struct key {
    char text[80];
};

static struct key key_of(const struct rf_source *source, const char *suffix)
{
    struct key key;
    snprintf(key.text, sizeof key.text, "%s.%s", source->params.arch_name, suffix);
    return key;
}

static int read_architecture(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_str name, type;
    int found = rf_gguf_string(gguf, "general.architecture", &name);
    if (found < 0) return found;
    if (!found) return rf_gguf_missing(gguf, "general.architecture");
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        if (!rf_str_is(name, architectures[i].name)) continue;
        source->params.arch = architectures[i].arch;
        source->params.arch_name = architectures[i].name;
        source->params.rope_style = architectures[i].rope_style;
    }
    if (!source->params.arch_name)
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: the architecture \"%.*s\" is not known; llama, qwen2 and qwen3 are",
                       gguf->path, rf_shown(name), name.data);
    found = rf_gguf_string(gguf, "general.type", &type);
    if (found < 0) return found;
    if (found && !rf_str_is(type, "model"))
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: general.type is \"%.*s\"; only a \"model\" can run", gguf->path,
                       rf_shown(type), type.data);
    int64_t n_parts = 1;
    found = rf_gguf_integer(gguf, "split.count", 0, UINT16_MAX, &n_parts);
    if (found < 0) return found;
    if (n_parts > 1)
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: is one of %" PRId64
                       " parts of a split model (split.count); merge them into one file first",
                       gguf->path, n_parts);
    return 0;
}

/* A required count, at least 1. */
static int need_count(const struct rf_gguf *gguf, const struct rf_source *source,
                      const char *suffix, int32_t *count)
{
    struct key key = key_of(source, suffix);
    int64_t value;
    int found = rf_gguf_integer(gguf, key.text, 1, INT32_MAX, &value);
    if (found < 0) return found;
    if (!found) return rf_gguf_missing(gguf, key.text);
    *count = (int32_t)value;
    return 0;
}

/* A count with a default where the key is missing; default 0: the key is required. */
static int count_per_layer(const struct rf_gguf *gguf, const struct rf_source *source,
                           const char *suffix, int32_t otherwise, int32_t *count)
{
    struct key key = key_of(source, suffix);
    int64_t value = otherwise;
    int found =
        rf_gguf_integer_per_layer(gguf, key.text, source->params.n_layer, INT32_MAX, &value);
    if (found < 0) return found;
    if (!found && !otherwise) return rf_gguf_missing(gguf, key.text);
    *count = (int32_t)value;
    return 0;
}

static int optional_count(const struct rf_gguf *gguf, const struct rf_source *source,
                          const char *suffix, int32_t *count)
{
    struct key key = key_of(source, suffix);
    int64_t value = *count;
    int found = rf_gguf_integer(gguf, key.text, 1, INT32_MAX, &value);
    if (found < 0) return found;
    *count = (int32_t)value;
    return 0;
}

static int optional_float(const struct rf_gguf *gguf, const struct rf_source *source,
                          const char *suffix, float *number)
{
    struct key key = key_of(source, suffix);
    double value = (double)*number;
    int found = rf_gguf_float(gguf, key.text, &value);
    if (found < 0) return found;
    *number = (float)value;
    return 0;
}

static int read_attention(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_params *params = &source->params;
    int code = count_per_layer(gguf, source, "attention.head_count", 0, &params->n_head);
    if (!code)
        code = count_per_layer(gguf, source, "attention.head_count_kv", params->n_head,
                               &params->n_head_kv);
    if (code) return code;
    int32_t head_dim = 0;
    code = optional_count(gguf, source, "attention.key_length", &head_dim);
    if (code) return code;
    if (head_dim == 0 && params->n_embd % params->n_head)
        return rf_fail(gguf->error, RF_ERR_FORMAT,
                       "%s: %" PRId32
                       " attention heads do not divide the embedding length, %" PRId32,
                       gguf->path, params->n_head, params->n_embd);
    params->head_dim = head_dim ? head_dim : params->n_embd / params->n_head;
    int32_t value_dim = params->head_dim;
    code = optional_count(gguf, source, "attention.value_length", &value_dim);
    if (code) return code;
    if (value_dim != params->head_dim)
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: heads have keys of %" PRId32 " but values of %" PRId32
                       " elements, which is not supported",
                       gguf->path, params->head_dim, value_dim);
    params->rope_dim = params->head_dim;
    code = optional_count(gguf, source, "rope.dimension_count", &params->rope_dim);
    if (code) return code;
    int64_t window = 0;
    struct key key = key_of(source, "attention.sliding_window");
    int found = rf_gguf_integer(gguf, key.text, 0, UINT32_MAX, &window);
    if (found < 0) return found;
    rf_params_limit_window(params, window);
    return 0;
}

/* RoPE scaling: none or linear. The llama3 scaling comes as a tensor of factors. A factor of 1
 * means no scaling. */
static int read_rope_scaling(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_str type = {"linear", 6};
    struct key type_key = key_of(source, "rope.scaling.type");
    int found = rf_gguf_string(gguf, type_key.text, &type);
    if (found < 0) return found;
    float factor = 0.0f;
    /* The second key is the older name of the first. */
    int code = optional_float(gguf, source, "rope.scale_linear", &factor);
    if (!code) code = optional_float(gguf, source, "rope.scaling.factor", &factor);
    if (code) return code;
    if (factor == 0.0f) factor = 1.0f; /* llama.cpp: 0 is "not set" */
    if (rf_str_is(type, "none") ||
        (factor == 1.0f && (rf_str_is(type, "linear") || rf_str_is(type, "yarn"))))
        return 0;
    if (!rf_str_is(type, "linear"))
        return rf_fail(
            gguf->error, RF_ERR_UNSUPPORTED,
            "%s: %s is \"%.*s\"; none, linear and llama3 (as rope_freqs.weight) are supported",
            gguf->path, type_key.text, rf_shown(type), type.data);
    source->params.rope_scale = 1.0f / factor;
    return 0;
}

/* Keys that change the computation in ways that the forward pass does not implement. They are
 * errors unless they have their usual values. */
static int refuse_variants(const struct rf_gguf *gguf, const struct rf_source *source)
{
    static const struct {
        const char *suffix;
        double usual; /* accepted besides 0, which means "not set" */
    } keys[] = {{"attention.scale", 0},
                {"attention.clamp_kqv", 0},
                {"attn_logit_softcapping", 0},
                {"final_logit_softcapping", 0},
                {"attention.output_scale", 1},
                {"attention.value_scale", 1},
                {"attention.temperature_scale", 0},
                {"logit_scale", 1},
                {"residual_scale", 1},
                {"embedding_scale", 1},
                {"rope.scaling.attn_factor", 1}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct key key = key_of(source, keys[i].suffix);
        double value = 0;
        int found = rf_gguf_float(gguf, key.text, &value);
        if (found < 0) return found;
        if (value != 0 && value != keys[i].usual)
            return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                           "%s: key %s is %g, which is not supported", gguf->path, key.text, value);
    }
    struct key experts = key_of(source, "expert_count");
    int64_t n_experts = 0;
    int found = rf_gguf_integer(gguf, experts.text, 0, UINT32_MAX, &n_experts);
    if (found < 0) return found;
    if (n_experts > 0)
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: key %s is %" PRId64 "; mixtures of experts are not supported",
                       gguf->path, experts.text, n_experts);
    struct key causal = key_of(source, "attention.causal");
    int is_causal = 1;
    found = rf_gguf_bool(gguf, causal.text, &is_causal);
    if (found < 0) return found;
    if (!is_causal)
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED,
                       "%s: key %s is false; only causal models can run", gguf->path, causal.text);
    struct key sections = key_of(source, "rope.dimension_sections");
    if (rf_gguf_find(gguf, sections.text))
        return rf_fail(gguf->error, RF_ERR_UNSUPPORTED, "%s: key %s is not supported", gguf->path,
                       sections.text);
    return 0;
}

int rf_gguf_read_params(const struct rf_gguf *gguf, struct rf_source *source)
{
    struct rf_params *params = &source->params;
    params->rope_theta = 10000.0f;
    params->rope_scale = 1.0f;
    int code = read_architecture(gguf, source);
    if (!code) code = refuse_variants(gguf, source);
    if (!code) code = need_count(gguf, source, "block_count", &params->n_layer);
    if (!code) code = need_count(gguf, source, "context_length", &params->n_ctx_train);
    if (!code) code = need_count(gguf, source, "embedding_length", &params->n_embd);
    if (!code) code = count_per_layer(gguf, source, "feed_forward_length", 0, &params->n_ff);
    if (!code) code = read_attention(gguf, source);
    if (!code) code = optional_float(gguf, source, "rope.freq_base", &params->rope_theta);
    if (!code) code = read_rope_scaling(gguf, source);
    if (code) return code;
    struct key eps = key_of(source, "attention.layer_norm_rms_epsilon");
    if (!rf_gguf_find(gguf, eps.text)) return rf_gguf_missing(gguf, eps.text);
    code = optional_float(gguf, source, "attention.layer_norm_rms_epsilon", &params->rms_eps);
    return code ? code : rf_params_check(params, gguf->path, gguf->error);
}
