/* Gemma 4's sizes that differ between layers, from config.json, with the defaults of transformers'
 * Gemma4TextConfig. */
#include <inttypes.h>
#include <stdlib.h>

#include "model/arch.h"
#include "model/hf.h"
#include "model/hf_class.h"

static const char file[] = "config.json";

/* A number from 0 on. */
static int32_t number_or(struct rf_hf *hf, const char *key, int32_t most, int32_t otherwise)
{
    const struct rf_json *value = rf_json_get(hf->text, key);
    int64_t number = otherwise;
    if (value && (!rf_json_integer(value, &number) || number < 0 || number > most))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "%s is not a whole number from 0 to %" PRId32, key, most);
    return hf->reading.code ? 0 : (int32_t)number;
}

static void refuse_layers(struct rf_hf *hf)
{
    struct rf_str how = rf_hf_string(hf, hf->text, "use_bidirectional_attention");
    if (rf_str_is(how, "all"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "use_bidirectional_attention is \"all\"; only causal models can run");
    if (rf_hf_flag(hf, hf->text, "enable_moe_block", 0))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "enable_moe_block is true; a gemma4 model with experts is not supported");
}

/* The sizes of layers without a window: by per_layer_config, which must say the same of each. */
static void read_full_sizes(struct rf_hf *hf, const struct rf_json *config)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_json *value;
    struct rf_str key;
    int32_t n = 0;
    for (void *at = NULL; rf_json_next(config, &at, &key, &value); n++) {
        int32_t dim = rf_hf_count(hf, value, "head_dim", params->window_head_dim),
                n_kv = rf_hf_count(hf, value, "num_key_value_heads", params->window_n_head_kv);
        if (n && (dim != params->head_dim || n_kv != params->n_head_kv))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "per_layer_config[\"%.*s\"] differs from another layer's, which is not "
                        "supported",
                        rf_shown(key), key.data);
        params->head_dim = dim;
        params->n_head_kv = n_kv;
    }
}

void rf_hf_read_layer_sizes(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    refuse_layers(hf);
    params->k_is_v = rf_hf_flag(hf, hf->text, "attention_k_eq_v", 0);
    params->window_head_dim = params->window_rope_dim = params->head_dim;
    params->window_n_head_kv = params->n_head_kv;
    const struct rf_json *config = rf_hf_object(hf, "per_layer_config");
    if (config) {
        read_full_sizes(hf, config);
    } else {
        params->head_dim = rf_hf_count(hf, hf->text, "global_head_dim", 512);
        if (params->k_is_v)
            params->n_head_kv =
                rf_hf_count(hf, hf->text, "num_global_key_value_heads", params->n_head_kv);
    }
    params->rope_dim = params->head_dim;
    params->n_kv_shared =
        number_or(hf, "num_kv_shared_layers", params->n_layer > 0 ? params->n_layer - 1 : 0, 0);
    params->n_embd_layer = number_or(hf, "hidden_size_per_layer_input", UINT16_MAX, 256);
    if (params->n_ff <= INT32_MAX / 2 && params->n_kv_shared &&
        rf_hf_flag(hf, hf->text, "use_double_wide_mlp", 0))
        params->n_ff_shared_kv = 2 * params->n_ff;
}

void rf_hf_check_layer_sizes(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    uint8_t *flags = (uint8_t *)params->layer_flags;
    const struct rf_json *config = rf_hf_object(hf, "per_layer_config"), *value;
    struct rf_str key;
    int32_t n_full = 0, n = 0;
    if (!flags) return;
    /* transformers does so, whatever layer_types says. */
    flags[params->n_layer - 1] = rf_arch_row(params->arch)->flags[1];
    for (int32_t i = 0; i < params->n_layer; i++) n_full += !rf_has_window(params, i);
    for (void *at = NULL; rf_json_next(config, &at, &key, &value); n++) {
        long layer = strtol(key.data, NULL, 10);
        if (layer < 0 || layer >= params->n_layer || rf_has_window(params, (int32_t)layer))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "per_layer_config has \"%.*s\", which is no layer of full_attention",
                        rf_shown(key), key.data);
    }
    if (config && n != n_full)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "per_layer_config has %" PRId32 " layers of %" PRId32 " with full_attention", n,
                    n_full);
}
