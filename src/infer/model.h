/* A model's weights under the names of their roles, and what they cost. Programs take weights from
 * here; the engine loads models and asks for costs before it does. */
#ifndef RF_INFER_MODEL_H
#define RF_INFER_MODEL_H

#include "infer/backend.h"
#include "weights/kept.h"

struct rf_layer {
    struct rf_weight *attn_norm, *attn_norm_bias, *q, *k, *v, *o; /* norms may be NULL */
    struct rf_weight *q_bias, *k_bias, *v_bias;  /* NULL where the architecture has none */
    struct rf_weight *q_norm, *k_norm;           /* may be NULL */
    struct rf_weight *conv_in, *conv, *conv_out; /* replace q, k, v and o; conv is [n_embd][rows] */
    struct rf_weight *conv_in_bias, *conv_bias, *conv_out_bias; /* may be NULL */
    /* Replace k and v in latent attention; the first three may be NULL, or replace q. */
    struct rf_weight *q_a, *q_a_norm, *q_b, *kv_a, *kv_a_norm, *k_b, *v_b;
    /* Replace q, k, v and o in a layer with the delta rule (RF_OP_DELTA). */
    struct rf_weight *delta_qkv, *delta_z, *delta_beta, *delta_alpha, *delta_out;
    struct rf_weight *delta_conv, *delta_decay, *delta_step, *delta_norm;
    /* Replace them in a layer with Mamba-2 (RF_OP_MAMBA). */
    struct rf_weight *mamba_z, *mamba_xbc, *mamba_dt, *mamba_out;
    struct rf_weight *mamba_conv, *mamba_conv_bias; /* a bias may be NULL */
    struct rf_weight *mamba_decay, *mamba_step, *mamba_skip, *mamba_norm;
    struct rf_weight *attn_post_norm, *ffn_norm, *ffn_norm_bias, *ffn_post_norm; /* may be NULL */
    struct rf_weight *attn_out_norm, *attn_out_norm_bias; /* of encoders: of the residual stream */
    struct rf_weight *layer_out_norm, *layer_out_norm_bias; /* behind each branch */
    struct rf_weight *gate, *up, *down;                     /* gate may be NULL */
    struct rf_weight *gate_bias, *up_bias, *down_bias;      /* may be NULL */
    struct rf_weight *o_bias, *sinks;
    /* The layer's own embedding of a token; the factor of its result. May be NULL. */
    struct rf_weight *input_gate, *input_proj, *input_post_norm, *scale;
    struct rf_weight *router, *gate_exps, *up_exps, *down_exps; /* replace gate, up and down */
    struct rf_weight *router_choice;                            /* may be NULL */
    struct rf_weight *router_bias, *gate_exps_bias, *up_exps_bias, *down_exps_bias;
    struct rf_weight *shared_router, *shared_gate, *shared_up, *shared_down; /* may be NULL */
};

struct rf_model {
    const struct rf_allocator *allocator;
    const struct rf_source *source;
    struct rf_weights *weights;
    struct rf_weight *token_embd, *output;            /* a tied output has token_embd's tensor */
    struct rf_weight *output_norm, *output_norm_bias; /* a bias may be NULL */
    /* Of encoders, which have no output: tables that may be NULL, and the norm of their sum. */
    struct rf_weight *position_embd, *token_types, *embd_norm, *embd_norm_bias;
    struct rf_weight *layer_embd, *layer_proj, *layer_proj_norm; /* of all layers; may be NULL */
    struct rf_layer *layers;
};

/* Loads all weights in `form` with the queue's workers; as stored, a file whose matrices are all
 * floats gives RF_WEIGHTS_BF16. The source and the queue's backend must outlive the model. */
int rf_model_load(struct rf_model **model, const struct rf_source *source, struct rf_queue *queue,
                  enum rf_weight_form form, rf_load_progress progress, void *user,
                  struct rf_error *error);
/* The same for a draft, whose casts may be kept in a folder between runs. */
int rf_model_load_draft(struct rf_model **model, const struct rf_source *source,
                        struct rf_queue *queue, enum rf_weight_form form,
                        const struct rf_kept_folder *folder, rf_load_progress progress, void *user,
                        struct rf_error *error);
/* A model of one layer of `source`. Its embedding table is `rows`, F32 [n_embd, rows], so a pass
 * reads the layer's input rows by their index in place of tokens; it has no output head. */
int rf_model_load_layer(struct rf_model **model, const struct rf_source *source, int32_t layer,
                        const struct rf_tensor *rows, struct rf_queue *queue,
                        enum rf_weight_form form, struct rf_error *error);
void rf_model_free(struct rf_model *model);

/* Costs of the weights, known before they are loaded. Sizes are in bytes. */
struct rf_weight_cost {
    uint64_t n_params;
    uint64_t pass_bytes;              /* read by a decoding pass over one row */
    uint64_t expert_bytes;            /* part of pass_bytes: experts */
    uint64_t resident_experts;        /* part of resident_bytes: quantised experts; on two devices
                                         the first one's */
    uint64_t all_bytes;               /* read by passes over enough rows */
    uint64_t mapped_bytes;            /* used in place from the file */
    uint64_t resident_bytes;          /* memory for the rest */
    uint64_t second_bytes;            /* part of resident_bytes: the second of two devices' ... */
    uint64_t second_pass_bytes;       /* ... and its part of pass_bytes */
    enum rf_weight_form form;         /* rf_model_load gives this form for the one asked for */
    int32_t matrices[RF_DTYPE_LIMIT]; /* matrices of each type in the file */
};
/* The cost on a device of `kind`, before one is opened. */
int rf_weight_cost(const struct rf_source *source, enum rf_weight_form form,
                   const struct rf_backend_kind *kind, const struct rf_allocator *allocator,
                   struct rf_weight_cost *cost, struct rf_error *error);
/* The cost with the last n_second layers and the head on a second device (devices/shared.h). */
int rf_shared_weight_cost(const struct rf_source *source, enum rf_weight_form form,
                          const struct rf_backend_kind *first, const struct rf_backend_kind *second,
                          int32_t n_second, const struct rf_allocator *allocator,
                          struct rf_weight_cost *cost, struct rf_error *error);

#endif
