/* Folders with latent attention: DeepSeek V2 and V3, and GLM 4.7 Flash (transformers,
 * modeling_deepseek_v2.py, modeling_deepseek_v3.py). hf_config.c and hf.c call it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/hf.h"
#include "model/hf_class.h"
#include "model/tensors.h"

static const char file[] = "config.json";

static void refuse_variants(struct rf_hf *hf)
{
    static const char *const flags[] = {"attention_bias", "mlp_bias"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (rf_hf_flag(hf, hf->text, flags[i], 0))
            rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                        "%s is true, which is not supported with latent attention", flags[i]);
    double partial = rf_hf_number(hf, hf->text, "partial_rotary_factor", 1);
    partial =
        rf_hf_number(hf, rf_hf_object(hf, "rope_parameters"), "partial_rotary_factor", partial);
    if (partial != 1)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "partial_rotary_factor is %g; with latent attention only 1 is supported",
                    partial);
}

/* transformers makes the frequencies of head_dim elements, where a file states it. */
static void check_head_dim(struct rf_hf *hf, const struct rf_hf_class *class)
{
    int32_t turned = hf->reading.source->params.rope_dim,
            stated = rf_hf_count(hf, hf->text, "head_dim", turned);
    if (class->has_sigmoids && stated != turned)
        rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                    "head_dim is %" PRId32 "; only qk_rope_head_dim, %" PRId32 ", is supported",
                    stated, turned);
}

/* DeepSeek V2 has groups only by name, and takes a group's best value. */
static int32_t groups_by_name(struct rf_hf *hf)
{
    struct rf_str method = rf_hf_string(hf, hf->text, "topk_method");
    if (!method.bytes || rf_str_is(method, "greedy")) return 1;
    if (rf_str_is(method, "group_limited_greedy")) return rf_hf_count(hf, hf->text, "n_group", 0);
    rf_bad_part(&hf->reading, file, RF_ERR_UNSUPPORTED,
                "topk_method is \"%.*s\"; greedy and group_limited_greedy are supported",
                rf_shown(method), method.data);
    return 1;
}

static void read_groups(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    int32_t groups = class->has_sigmoids ? rf_hf_count(hf, hf->text, "n_group", class->n_group)
                                         : groups_by_name(hf);
    if (groups < 1)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "n_group is missing beside group_limited_greedy");
    if (groups <= 1) return;
    params->expert_groups = groups;
    params->expert_group_top = class->has_sigmoids ? 2 : 1;
    params->expert_groups_used = rf_hf_count(hf, hf->text, "topk_group", class->topk_group);
}

static void read_experts(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    /* Tensors tell which layers have no experts, but if none has any. */
    double dense = class->first_dense;
    if (dense >= 0) dense = rf_hf_number(hf, hf->text, "first_k_dense_replace", dense);
    if (dense >= params->n_layer) return;
    params->n_expert = rf_hf_count(hf, hf->text, "n_routed_experts", class->n_expert);
    params->n_expert_used = rf_hf_count(hf, hf->text, "num_experts_per_tok", class->n_expert_used);
    params->expert_scale = (float)rf_hf_number(hf, hf->text, "routed_scaling_factor",
                                               class->routed_scale > 0 ? class->routed_scale : 1);
    params->expert_sigmoid = params->expert_choice_bias = class->has_sigmoids;
    params->expert_norm = class->has_sigmoids && rf_hf_flag(hf, hf->text, "norm_topk_prob", 1);
    params->n_ff_dense = params->n_ff;
    params->n_ff = rf_hf_count(hf, hf->text, "moe_intermediate_size", class->n_ff_expert);
    int64_t shared =
        (int64_t)params->n_ff * rf_hf_count(hf, hf->text, "n_shared_experts", class->n_shared);
    if (shared > INT32_MAX)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "n_shared_experts of width %" PRId32 " are too many", params->n_ff);
    params->n_ff_shared = shared > INT32_MAX ? 1 : (int32_t)shared;
    params->shared_whole = 1;
    read_groups(hf, class);
}

void rf_hf_read_latent(struct rf_hf *hf, const struct rf_hf_class *class)
{
    struct rf_params *params = &hf->reading.source->params;
    static const char rank[] = "q_lora_rank";
    refuse_variants(hf);
    params->latent = rf_hf_count(hf, hf->text, "kv_lora_rank", class->latent);
    /* A null means that there is none, an absent key the default of the class. */
    int is_null = rf_json_has(hf->text, rank) && !rf_json_get(hf->text, rank);
    params->latent_q = is_null ? 0 : rf_hf_count(hf, hf->text, rank, class->latent_q);
    params->rope_dim = rf_hf_count(hf, hf->text, "qk_rope_head_dim", class->head_rope);
    params->head_nope = rf_hf_count(hf, hf->text, "qk_nope_head_dim", class->head_nope);
    params->head_value = rf_hf_count(hf, hf->text, "v_head_dim", class->head_value);
    params->n_head_kv = 1;
    check_head_dim(hf, class);
    params->latent_eps = 1e-6f; /* transformers does not give these norms rms_norm_eps */
    int64_t key = (int64_t)params->latent + params->rope_dim,
            query = (int64_t)params->head_nope + params->rope_dim;
    if (key > INT32_MAX || query > INT32_MAX)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT,
                    "kv_lora_rank, qk_nope_head_dim and qk_rope_head_dim are too much");
    params->head_dim = key > INT32_MAX ? 1 : (int32_t)key;
    params->attention_scale = 1.0f / sqrtf((float)query);
    if (class->has_sigmoids && !rf_hf_flag(hf, hf->text, "rope_interleave", 1))
        params->rope_style = RF_ROPE_NEOX;
    hf->n_further = 1;
    if (rf_json_get(hf->text, "num_nextn_predict_layers"))
        hf->n_further = rf_hf_count(hf, hf->text, "num_nextn_predict_layers", 1);
    read_experts(hf, class);
}

/* A tensor of each head's matrix, whose first values are `first` rows behind each head's. */
static struct rf_tensor heads_of(struct rf_reading *reading, const struct rf_tensor *both,
                                 const char *name, size_t first)
{
    const struct rf_params *params = &reading->source->params;
    struct rf_tensor made = *both;
    size_t heads = (size_t)params->n_head, value = rf_dtype_info(both->dtype)->block_bytes,
           row = (size_t)both->ne[0] * value, prefix = strlen(both->name) - strlen(RF_K_B);
    struct rf_scattered *scattered = rf_keep(reading, 1, sizeof *scattered, "heads");
    const unsigned char **places = rf_keep(reading, heads, sizeof *places, "heads");
    char renamed[64];
    if (!scattered || !places) return made;
    for (size_t h = 0; h < heads; h++)
        places[h] = (const unsigned char *)both->data +
                    (h * (size_t)(params->head_nope + params->head_value) + first) * row;
    *scattered = (struct rf_scattered){.experts = places, .row_bytes = row, .value_bytes = value};
    snprintf(renamed, sizeof renamed, "%.*s%s", (int)prefix, both->name, name);
    made.name = rf_keep_text(reading, rf_str_of(renamed));
    made.n_dims = 3;
    made.ne[1] = first ? params->head_value : params->head_nope;
    made.ne[2] = params->n_head;
    made.data = places[0];
    made.bytes = row * (uint64_t)made.ne[1] * heads;
    made.scattered = scattered;
    return made;
}

/* The transpose of each matrix. */
static void transpose(struct rf_tensor *tensor)
{
    struct rf_scattered *scattered = (struct rf_scattered *)(uintptr_t)tensor->scattered;
    size_t row = scattered->row_bytes;
    int64_t columns = tensor->ne[0];
    scattered->row_bytes = scattered->value_bytes;
    scattered->value_bytes = row;
    tensor->ne[0] = tensor->ne[1];
    tensor->ne[1] = columns;
}

void rf_hf_split_latent(struct rf_hf *hf)
{
    struct rf_reading *reading = &hf->reading;
    struct rf_source *source = reading->source;
    const struct rf_params *params = &source->params;
    int64_t rows = (int64_t)params->n_head * ((int64_t)params->head_nope + params->head_value);
    if (reading->code) return;
    struct rf_tensor *all = rf_keep(reading, 2 * (size_t)source->n_tensors, sizeof *all, "tensors");
    int32_t n = 0;
    for (int32_t i = 0; !reading->code && i < source->n_tensors; i++) {
        const struct rf_tensor *tensor = &source->tensors[i];
        if (!rf_ends_with(tensor->name, "." RF_K_B)) {
            all[n++] = *tensor;
            continue;
        }
        if (tensor->n_dims != 2 || tensor->ne[0] != params->latent || tensor->ne[1] != rows) {
            rf_bad(reading, RF_ERR_FORMAT,
                   "tensor %s is [%" PRId64 ", %" PRId64
                   "], but kv_lora_rank and the heads ask for [%" PRId32 ", %" PRId64 "]",
                   tensor->name, tensor->ne[0], tensor->ne[1], params->latent, rows);
            return;
        }
        all[n] = heads_of(reading, tensor, RF_K_B, 0);
        all[n + 1] = heads_of(reading, tensor, RF_V_B, (size_t)params->head_nope);
        if (reading->code) return;
        transpose(&all[n]);
        n += 2;
    }
    if (reading->code) return;
    source->tensors = all;
    source->n_tensors = n;
}
