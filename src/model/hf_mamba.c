/* Reads what classes with Mamba-2 have in config.json: the kinds of their layers, the sizes of
 * Mamba-2, and experts. Granite's hybrids and Nemotron-H name these differently. hf_config.c calls
 * it. */
#include <inttypes.h>
#include <math.h>

#include "model/arch.h"
#include "model/hf.h"
#include "model/hf_class.h"

static const char file[] = "config.json";

/* ---- the kinds of layers ---- */

/* Names in lists, also of older files, and letters of a pattern. */
static const struct kind {
    const char *names[2];
    char letter;
    uint8_t flags;
    int has_experts;
} kinds[] = {
    {{"linear_attention", "mamba"}, 'M', RF_LAYER_MAMBA, 0},
    {{"full_attention", "attention"}, '*', 0, 0},
    {{"mlp", "mlp"}, '-', RF_LAYER_FFN, 0},
    {{"moe", "moe"}, 'E', RF_LAYER_FFN, 1},
};

/* The kind of layer i; NULL after a failure. */
static const struct kind *kind_of(struct rf_hf *hf, const struct rf_json *list,
                                  struct rf_str pattern, int32_t i)
{
    size_t n = hf->reading.source->params.one_branch ? 4 : 2;
    struct rf_str name = rf_json_text(rf_json_at(list, (size_t)i));
    if (!list) name = (struct rf_str){pattern.data + i, 1};
    for (const struct kind *kind = kinds; kind < kinds + n; kind++)
        if (list ? rf_str_is(name, kind->names[0]) || rf_str_is(name, kind->names[1])
                 : *name.data == kind->letter)
            return kind;
    rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                "layer %" PRId32 " is of the kind \"%.*s\"; linear_attention (mamba)%s are "
                "supported",
                i, rf_shown(name), name.data,
                n == 4 ? ", full_attention (attention), mlp and moe"
                       : " and full_attention (attention)");
    return NULL;
}

/* Sets the layers' flags. Returns how many have experts. */
static int32_t read_kinds(struct rf_hf *hf, const struct rf_json *list, struct rf_str pattern,
                          int has_rope)
{
    struct rf_params *params = &hf->reading.source->params;
    int32_t n = 0;
    uint8_t *flags = hf->reading.code ? NULL : rf_arch_own_flags(&hf->reading);
    for (int32_t i = 0; flags && i < params->n_layer; i++) {
        const struct kind *kind = list || pattern.bytes ? kind_of(hf, list, pattern, i) : kinds;
        if (!kind) return 0;
        flags[i] = (uint8_t)(kind->flags | (kind == &kinds[1] && !has_rope ? RF_LAYER_NO_ROPE : 0));
        n += kind->has_experts;
    }
    return n;
}

/* The list of layers under either name. */
static const struct rf_json *list_of(struct rf_hf *hf)
{
    const struct rf_json *list = rf_json_get(hf->text, "layer_types");
    return list ? list : rf_json_get(hf->text, "layers_block_type");
}

/* ---- sizes ---- */

/* The limits of time steps. The second may be an object that says Infinity, which is none. */
static void read_step_limits(struct rf_hf *hf)
{
    struct rf_params *params = &hf->reading.source->params;
    const struct rf_json *limits = rf_json_get(hf->text, "time_step_limit");
    double least = 0, most = 0;
    if (!limits) return;
    int has_most = rf_json_number(rf_json_at(limits, 1), &most);
    if (rf_json_count(limits) != 2 || !rf_json_number(rf_json_at(limits, 0), &least))
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "time_step_limit is not two numbers");
    params->step_min = (float)least;
    params->step_max = has_most && isfinite(most) ? (float)most : 0;
}

/* The keys of a class. */
struct keys {
    const char *groups, *heads, *state, *rows, *dim, *conv_bias;
};

static void read_sizes(struct rf_hf *hf, const struct rf_hf_class *class, const struct keys *keys)
{
    struct rf_params *params = &hf->reading.source->params;
    params->delta_keys = rf_hf_count(hf, hf->text, keys->groups, class->mamba_groups);
    params->delta_values = rf_hf_count(hf, hf->text, keys->heads, class->mamba_heads);
    params->delta_key_dim = rf_hf_count(hf, hf->text, keys->state, class->mamba_state);
    params->conv_rows = rf_hf_count(hf, hf->text, keys->rows, 4);
    params->conv_bias = rf_hf_flag(hf, hf->text, keys->conv_bias, 1);
    const struct rf_json *dim = rf_json_get(hf->text, keys->dim);
    if (!rf_str_is(rf_json_text(dim), "auto"))
        params->delta_value_dim = rf_hf_count(hf, hf->text, keys->dim, params->delta_value_dim);
    read_step_limits(hf);
    if (rf_hf_flag(hf, hf->text, "mamba_proj_bias", 0))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "mamba_proj_bias is true, which is not supported");
}

/* ---- Granite's hybrids ---- */

/* The feed-forward that every row has is the only one where there are no experts. */
static void read_granite_widths(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    int64_t n = 0;
    const struct rf_json *stated = rf_json_get(hf->text, "num_local_experts");
    int32_t shared = rf_hf_count(hf, hf->text, "shared_intermediate_size", class->n_ff_shared);
    if (rf_json_integer(stated, &n) && n == 0) {
        params->n_ff = shared;
        return;
    }
    params->n_ff_shared = shared;
    params->n_expert = rf_hf_count(hf, hf->text, "num_local_experts", class->n_expert);
    params->n_expert_used = rf_hf_count(hf, hf->text, "num_experts_per_tok", class->n_expert_used);
}

static void read_granite(struct rf_hf *hf, const struct rf_hf_class *class)
{
    static const struct keys keys = {"mamba_n_groups", "mamba_n_heads", "mamba_d_state",
                                     "mamba_d_conv",   "mamba_d_head",  "mamba_conv_bias"};
    struct rf_params *params = &hf->reading.source->params;
    int64_t inner =
        (int64_t)params->n_embd * rf_hf_count(hf, hf->text, "mamba_expand", class->mamba_expand);
    int64_t dim = inner / rf_hf_count(hf, hf->text, "mamba_n_heads", class->mamba_heads);
    params->delta_value_dim = dim < INT32_MAX ? (int32_t)dim : INT32_MAX;
    read_sizes(hf, class, &keys);
    if ((int64_t)params->delta_value_dim * params->delta_values != inner)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "mamba_n_heads, %" PRId32 ", times mamba_d_head, %" PRId32
                    ", is not mamba_expand times hidden_size, %" PRId64,
                    params->delta_values, params->delta_value_dim, inner);
    read_granite_widths(hf, class);
    const struct rf_json *list = list_of(hf);
    rf_hf_check_list(hf, list, "layer_types");
    read_kinds(hf, list, (struct rf_str){NULL, 0},
               rf_str_is(rf_hf_string(hf, hf->text, "position_embedding_type"), "rope"));
}

/* ---- Nemotron-H ---- */

static void check_nemotron(struct rf_hf *hf)
{
    struct rf_str act = rf_hf_string(hf, hf->text, "mlp_hidden_act"),
                  gate = rf_hf_string(hf, hf->text, "mamba_hidden_act");
    if (act.bytes && !rf_str_is(act, "relu2"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "mlp_hidden_act is \"%.*s\"; only relu2 is supported", rf_shown(act), act.data);
    if (gate.bytes && !rf_str_is(gate, "silu"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "mamba_hidden_act is \"%.*s\"; only silu is supported", rf_shown(gate),
                    gate.data);
    if (rf_hf_flag(hf, hf->text, "use_bias", 0))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "use_bias is true, which is not supported");
    if (rf_json_get(hf->text, "moe_latent_size"))
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "moe_latent_size is stated; experts in a narrower space are not supported");
    if (rf_hf_count(hf, hf->text, "n_group", 1) != 1)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "n_group is not 1; groups of experts are not supported");
}

static void read_nemotron_experts(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    params->n_expert = rf_hf_count(hf, hf->text, "n_routed_experts", class->n_expert);
    params->n_expert_used = rf_hf_count(hf, hf->text, "num_experts_per_tok", class->n_expert_used);
    params->expert_norm = rf_hf_flag(hf, hf->text, "norm_topk_prob", 1);
    params->expert_scale = (float)rf_hf_number(hf, hf->text, "routed_scaling_factor", 1);
    params->n_ff_dense = params->n_ff;
    params->n_ff = rf_hf_count(hf, hf->text, "moe_intermediate_size", class->n_ff_expert);
    params->n_ff_shared =
        rf_hf_count(hf, hf->text, "moe_shared_expert_intermediate_size", class->n_ff_shared);
}

static void read_nemotron(struct rf_hf *hf, const struct rf_hf_class *class)
{
    static const struct keys keys = {"n_groups",    "mamba_num_heads", "ssm_state_size",
                                     "conv_kernel", "mamba_head_dim",  "use_conv_bias"};
    struct rf_params *params = &hf->reading.source->params;
    params->delta_value_dim = 64;
    read_sizes(hf, class, &keys);
    check_nemotron(hf);
    const struct rf_json *list = list_of(hf);
    struct rf_str pattern = rf_hf_string(hf, hf->text, "hybrid_override_pattern");
    if (!pattern.bytes) pattern = rf_str_of("ME*-");
    size_t n = list ? rf_json_count(list) : pattern.bytes;
    if (n == 0 || n > INT32_MAX)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "layers_block_type names no layers");
    if (hf->reading.code) return;
    params->n_layer = (int32_t)n;
    if (read_kinds(hf, list, pattern, 0) > 0) {
        read_nemotron_experts(hf, class);
        return;
    }
    const struct rf_arch_row *row = rf_arch_row(RF_ARCH_NEMOTRON_H);
    params->arch = row->arch;
    params->arch_name = row->name;
    params->expert_norm = params->expert_sigmoid = params->expert_choice_bias = 0;
    params->expert_least = 0;
}

void rf_hf_read_mamba(struct rf_hf *hf, const struct rf_hf_class *class)
{
    if (class->arch == RF_ARCH_GRANITEHYBRID)
        read_granite(hf, class);
    else
        read_nemotron(hf, class);
}
