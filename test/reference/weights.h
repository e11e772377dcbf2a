/* All weights of a model as F32, rounded as the engine rounds them. forward.c loads them once for a
 * sequence. */
#ifndef RF_TEST_REFERENCE_WEIGHTS_H
#define RF_TEST_REFERENCE_WEIGHTS_H

#include "reference/forward.h"

/* A linear layer without its bias. */
struct reference_matrix {
    float *values;                                          /* [n_out][n_in] */
    void (*round_input)(float *out, const float *x, int n); /* NULL: not at all */
};

struct reference_feed_forward {
    struct reference_matrix gate, up, down; /* matrices of all experts, one after the other */
    float *gate_bias, *up_bias, *down_bias; /* NULL without ffn_bias */
    int width;                              /* width of one expert; 0: the layer has none */
};

struct reference_layer {
    float *attn_norm, *ffn_norm;                   /* [n_embd] */
    struct reference_matrix q, k, v, o;            /* q: [n_head * head_dim][n_embd], and so on;
                                                      with attn_gate twice the rows */
    struct reference_feed_forward ffn, shared;     /* shared: the expert that every token takes */
    struct reference_matrix router, shared_router; /* [n_expert][n_embd], [1][n_embd] */
    /* Latent attention: q is of q_a's result, if there is one; k_b and v_b are of all heads. */
    struct reference_matrix q_a, kv_a, k_b, v_b;
    float *q_a_norm, *kv_a_norm;
    struct reference_matrix conv_in, conv_out;       /* replace q, k, v and o */
    float *conv;                                     /* [n_embd][conv_rows] */
    float *conv_in_bias, *conv_bias, *conv_out_bias; /* NULL without conv_bias */
    /* The delta rule: replace q, k, v and o. Rows of qkv are q, k and v of all heads; delta_conv is
     * [those rows][conv_rows]; decay and step [delta_values], delta_norm [delta_value_dim]. */
    struct reference_matrix delta_qkv, delta_z, delta_beta, delta_alpha, delta_out;
    float *delta_conv, *decay, *step, *delta_norm;
    /* Mamba-2: those of the delta rule with these in the place of qkv and beta; delta_norm is
     * [delta_values * delta_value_dim]. */
    struct reference_matrix mamba_xbc, mamba_dt;
    float *mamba_conv_bias, *skip; /* NULL without conv_bias; [delta_values] */
    float *bq, *bk, *bv, *bo;      /* NULL without qkv_bias, o_bias */
    float *q_norm, *k_norm;        /* [head_dim]; NULL without qk_norm */
};

struct reference_weights {
    float *embedding, *output_norm; /* [n_vocab][n_embd], [n_embd] */
    struct reference_matrix output; /* [n_vocab][n_embd] */
    struct reference_layer *layers; /* [n_layer] */
    float **owned;                  /* all arrays above */
    int n_owned;
    int failed;
};

/* Returns 0, or -1 when a tensor is missing or memory runs out. Freed in both cases. */
int reference_weights_load(struct reference_weights *w, const struct rf_source *source,
                           enum reference_rounding rounding);
void reference_weights_free(struct reference_weights *w);

#endif
