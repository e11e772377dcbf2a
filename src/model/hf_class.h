/* The configuration classes of transformers 5.24 whose models run, with the values that they have
 * where a config.json is silent. test/model/test_defaults.c compares them with the classes'. */
#ifndef RF_MODEL_HF_CLASS_H
#define RF_MODEL_HF_CLASS_H

#include "model/hf.h"
#include "model/source.h"

/* The layers with a window, if there is one. But for the first two kinds a file may list them
 * (layer_types). */
enum rf_hf_window {
    RF_HF_WINDOW_NONE, /* the class does not know windows, whatever the file says */
    RF_HF_WINDOW_ALL,
    RF_HF_WINDOW_LATE,       /* layers from max_window_layers on */
    RF_HF_WINDOW_EARLY_EVEN, /* layers 0, 2, ... before max_window_layers */
    RF_HF_WINDOW_PERIOD,     /* all but the last of each period */
    RF_HF_WINDOW_NO_ROPE     /* layers without rotation */
};

struct rf_hf_class {
    const char *name, *model_type;
    enum rf_arch arch;
    int32_t n_layer, n_embd, n_ff, n_head, n_ctx;
    int32_t n_head_kv, head_dim; /* 0: as many as heads; n_embd / n_head */
    int is_interleaved;          /* neighbouring elements of a head rotate together */
    double rms_eps;              /* 0: 1e-6 */
    const char *eps_key;         /* NULL: rms_norm_eps */
    struct rf_hf_rope rope;
    double score_cap, logit_cap; /* 0: none */
    int32_t window;              /* 0: none */
    int asks_for_window;         /* by use_sliding_window, which is false */
    enum rf_hf_window windows;
    int32_t n_window_layers; /* max_window_layers */
    int reads_period;     /* sliding_window_pattern is the period, not the architecture's alone */
    int is_tied;          /* tie_word_embeddings */
    const char *qkv_bias; /* the flag of biases of q, k and v; NULL: the architecture decides */
    int has_o_bias;       /* that flag is of o's bias, too */
    const char *o_bias;   /* the flag of o's bias alone, which is false; or NULL */
    int has_bias;         /* the flag is true */
    const char *mlp_bias; /* the flag of the feed-forward's biases: false, or the same; or NULL */
    int has_vision;       /* the text model's parameters are in text_config */
    int names_text;       /* text_config has the model_type of another class, whose values count */
    int32_t n_expert, n_expert_used;
    int32_t n_ff_expert, n_ff_shared; /* 0: intermediate_size; none */
    int norms_experts;                /* norm_topk_prob, where it is read */
    int32_t conv_rows;                /* conv_L_cache; 0: no layer has a convolution */
    int skips_positions;              /* positions begin behind that of padding (RoBERTa) */
    double partial;                   /* partial_rotary_factor; 0: it must be 1 */
    /* The sizes of layers with the delta rule, linear_*; 0: no layer has it. */
    int32_t delta_keys, delta_values, delta_key_dim, delta_value_dim, delta_rows;
    /* Latent attention: kv_lora_rank, q_lora_rank, and elements of a head, qk_rope_head_dim,
     * qk_nope_head_dim and v_head_dim; 0: the class has it not. Beside it groups of experts, those
     * that are chosen, shared experts, and layers before those with experts; -1: the number
     * is not read. */
    int32_t latent, latent_q, head_rope, head_nope, head_value;
    int32_t n_group, topk_group, n_shared, first_dense;
    double routed_scale; /* routed_scaling_factor; 0: 1 */
    int has_sigmoids;    /* shares of experts are sigmoids; else topk_method is read */
    /* Mamba-2's sizes: groups, heads, elements of a state; expand; 0: no layer has it. */
    int32_t mamba_groups, mamba_heads, mamba_state, mamba_expand;
};

/* The class of the file; NULL after a failure. */
const struct rf_hf_class *rf_hf_find_class(struct rf_hf *hf);
/* The class of that model_type; NULL: there is none. */
const struct rf_hf_class *rf_hf_class_of_type(struct rf_str model_type);
/* 1 if config.json is of a draft head, not of a model. */
int rf_hf_is_head(const struct rf_hf *hf);
/* Reads the parameters from hf->text, with the class's defaults. */
void rf_hf_read_params_of(struct rf_hf *hf, const struct rf_hf_class *class);

/* Gemma 4's sizes that differ between layers; and where they are, once layers with a window are
 * known (hf_layers.c). */
void rf_hf_read_layer_sizes(struct rf_hf *hf);
void rf_hf_check_layer_sizes(struct rf_hf *hf);
/* Reads the sizes of latent attention, and its experts (hf_latent.c). */
void rf_hf_read_latent(struct rf_hf *hf, const struct rf_hf_class *class);
/* Makes of each kv_b_proj the matrices of the heads' keys and values. Call before sorting. */
void rf_hf_split_latent(struct rf_hf *hf);

/* Reads which layers have Mamba-2, and the sizes of these and of experts (hf_mamba.c). */
void rf_hf_read_mamba(struct rf_hf *hf, const struct rf_hf_class *class);

#endif
