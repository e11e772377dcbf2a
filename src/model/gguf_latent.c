/* Keys of GGUF files with latent attention, as llama.cpp's converter writes them for DeepSeek V2
 * and V3 and GLM 4.7 Flash (deepseek2). gguf_params.c calls it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/arch.h"
#include "model/gguf.h"
#include "model/rope.h"

static int32_t size_of(struct rf_gguf *gguf, const char *key)
{
    if (!rf_gguf_find(gguf, key)) rf_gguf_missing(gguf);
    return (int32_t)rf_gguf_integer(gguf, key, 1, INT32_MAX, 0);
}

void rf_gguf_read_latent(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    params->latent = size_of(gguf, ".attention.kv_lora_rank");
    params->latent_q = (int32_t)rf_gguf_integer(gguf, ".attention.q_lora_rank", 0, INT32_MAX, 0);
    params->rope_dim = size_of(gguf, ".rope.dimension_count");
    if (!rf_gguf_find(gguf, ".attention.key_length_mla") && !gguf->reading->code)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is missing, as in old files whose attn_kv_b is one tensor; only files with "
               "attn_k_b and attn_v_b are supported",
               gguf->key);
    int32_t query = size_of(gguf, ".attention.key_length_mla");
    params->head_value = size_of(gguf, ".attention.value_length_mla");
    int32_t value = size_of(gguf, ".attention.value_length");
    if (gguf->reading->code) return;
    params->head_nope = query - params->rope_dim;
    if (params->n_head_kv != 1 || value != params->latent || params->head_nope < 1 ||
        (int64_t)params->head_dim != (int64_t)params->latent + params->rope_dim)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "latents of %" PRId32 " elements and %" PRId32 " rotated ones do not make %" PRId32
               " head of keys of %" PRId32 " and values of %" PRId32
               " elements, and queries of %" PRId32,
               params->latent, params->rope_dim, params->n_head_kv, params->head_dim, value, query);
    params->attention_scale = 1.0f / sqrtf((float)query);
}

/* Files may leave it out: then llama.cpp tells GLM 4.7 Flash by its sizes, all others are V2. */
void rf_gguf_read_gating(struct rf_gguf *gguf)
{
    enum { UNSET = 0, SIGMOID = 2, GLM_VOCAB = 154880 };
    struct rf_params *params = &gguf->reading->source->params;
    int64_t gating = rf_gguf_integer(gguf, ".expert_gating_func", 0, UINT32_MAX, UNSET),
            n_vocab = rf_gguf_integer(gguf, ".vocab_size", 0, UINT32_MAX, 0);
    int is_glm = (params->n_layer == 47 || params->n_layer == 48) && n_vocab == GLM_VOCAB;
    params->expert_sigmoid = gating == SIGMOID || (gating == UNSET && is_glm);
    params->expert_norm = rf_gguf_bool(gguf, ".expert_weights_norm", 0);
    params->expert_scale = (float)rf_gguf_float(gguf, ".expert_weights_scale", 0);
}

/* llama.cpp chooses groups by their two best values. */
void rf_gguf_read_groups(struct rf_gguf *gguf)
{
    struct rf_params *params = &gguf->reading->source->params;
    int64_t shared = rf_gguf_integer(gguf, ".expert_shared_count", 0, UINT16_MAX, 0);
    int64_t width = (int64_t)params->n_ff * shared;
    if (width > INT32_MAX)
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s is %" PRId64 "; so many experts of width %" PRId32 " are too many",
               gguf->key, shared, params->n_ff);
    params->n_ff_shared = width > INT32_MAX ? 0 : (int32_t)width;
    params->shared_whole = shared > 0;
    int64_t groups = rf_gguf_integer(gguf, ".expert_group_count", 0, RF_MAX_EXPERTS, 0);
    if (groups <= 1) return;
    params->expert_groups = (int32_t)groups;
    params->expert_group_top = 2;
    params->expert_groups_used =
        (int32_t)rf_gguf_integer(gguf, ".expert_group_used_count", 1, RF_MAX_EXPERTS, 0);
}

double rf_gguf_latent_magnitude(struct rf_gguf *gguf, double factor, double weight)
{
    static const double in_file = 0.1; /* the converter's factor of mscale_all_dim */
    struct rf_params *params = &gguf->reading->source->params;
    if (weight == 0)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is missing; YaRN without it is not supported in a deepseek2 model",
               gguf->key);
    float grown = (float)rf_yarn_magnitude(factor, weight / in_file);
    params->attention_scale *= grown * grown;
    return 1;
}
