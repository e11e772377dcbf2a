/* Sizes of a GGUF file that differ between layers: with a window or without, with keys and values
 * of their own or an earlier layer's. Keys are those of llama.cpp's converter for Gemma 4. */
#include <inttypes.h>
#include <stdio.h>

#include "model/gguf.h"

/* The number that layers of one kind have in common, of a key with one for all or one for each. */
static int32_t of_kind(struct rf_gguf *gguf, const char *key,
                       int (*is_kind)(const struct rf_params *params, int32_t layer), int kind,
                       int32_t otherwise)
{
    const struct rf_params *params = &gguf->reading->source->params;
    const struct rf_gguf_value *found = rf_gguf_find(gguf, key);
    int64_t common = 0;
    if (!found || found->type != RF_GGUF_ARRAY)
        return (int32_t)rf_gguf_integer(gguf, key, 1, INT32_MAX, otherwise);
    found = rf_gguf_integers(gguf, key);
    if (!found) return otherwise;
    if (found->count != (uint64_t)params->n_layer) {
        rf_bad(gguf->reading, RF_ERR_FORMAT,
               "key %s has %" PRIu64 " elements for %" PRId32 " layers", gguf->key, found->count,
               params->n_layer);
        return otherwise;
    }
    for (int32_t i = 0; i < params->n_layer; i++) {
        if (is_kind(params, i) != kind) continue;
        int64_t element = rf_gguf_element(found, (uint64_t)i);
        if (element < 1 || element > INT32_MAX)
            rf_bad(gguf->reading, RF_ERR_FORMAT, "key %s is %" PRId64 " for layer %" PRId32,
                   gguf->key, element, i);
        else if (common && element != common)
            rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
                   "key %s differs between layers of one kind (%" PRId64 " and %" PRId64
                   "), which is not supported",
                   gguf->key, common, element);
        common = element;
    }
    return common && !gguf->reading->code ? (int32_t)common : otherwise;
}

void rf_gguf_read_widths(struct rf_gguf *gguf)
{
    static const char key[] = ".feed_forward_length";
    struct rf_params *params = &gguf->reading->source->params;
    params->n_kv_shared =
        (int32_t)rf_gguf_integer(gguf, ".attention.shared_kv_layers", 0, params->n_layer - 1, 0);
    if (gguf->reading->code) return;
    params->n_ff = of_kind(gguf, key, rf_shares_keys, 0, 0);
    if (!params->n_ff) rf_gguf_missing(gguf);
    int32_t width = of_kind(gguf, key, rf_shares_keys, 1, params->n_ff);
    if (width != params->n_ff) params->n_ff_shared_kv = width;
    params->n_embd_layer =
        (int32_t)rf_gguf_integer(gguf, ".embedding_length_per_layer_input", 0, UINT16_MAX, 0);
}

/* A number that must be there. */
static int32_t needed(struct rf_gguf *gguf, const char *key)
{
    int32_t value = (int32_t)rf_gguf_integer(gguf, key, 1, INT32_MAX, 0);
    if (!value) rf_gguf_missing(gguf);
    return value;
}

void rf_gguf_read_layers(struct rf_gguf *gguf)
{
    static const char kv_heads[] = ".attention.head_count_kv";
    struct rf_params *params = &gguf->reading->source->params;
    needed(gguf, ".attention.sliding_window");
    if (!rf_gguf_find(gguf, ".attention.sliding_window_pattern")) rf_gguf_missing(gguf);
    if (gguf->reading->code) return;
    params->n_head_kv = of_kind(gguf, kv_heads, rf_has_window, 0, params->n_head);
    params->window_n_head_kv = of_kind(gguf, kv_heads, rf_has_window, 1, params->n_head_kv);
    params->window_head_dim = needed(gguf, ".attention.key_length_swa");
    int32_t value_dim = (int32_t)rf_gguf_integer(gguf, ".attention.value_length_swa", 1, INT32_MAX,
                                                 params->window_head_dim);
    if (value_dim != params->window_head_dim)
        rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
               "key %s is %" PRId32 ", but keys of such layers have %" PRId32
               " elements, which is not supported",
               gguf->key, value_dim, params->window_head_dim);
    params->window_rope_dim = (int32_t)rf_gguf_integer(gguf, ".rope.dimension_count_swa", 1,
                                                       INT32_MAX, params->window_head_dim);
}

/* Whether the layer has the tensor. */
static int has_tensor(const struct rf_source *source, int32_t layer, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%" PRId32 ".%s", layer, name);
    return rf_source_tensor(source, full) != NULL;
}

void rf_gguf_find_layers(struct rf_gguf *gguf)
{
    struct rf_source *source = gguf->reading->source;
    struct rf_params *params = &source->params;
    params->layer_scale = has_tensor(source, 0, "layer_output_scale.weight");
    for (int32_t i = 0; i < params->n_layer - params->n_kv_shared; i++) {
        if (rf_has_window(params, i)) continue;
        params->k_is_v = !has_tensor(source, i, "attn_v.weight");
        return;
    }
}
