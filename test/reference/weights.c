/* Reads the tensors of a model by their GGUF names into arrays of F32. A tied output matrix is
 * loaded twice, once as the embedding: the two are rounded differently. */
#include "reference/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tensors.h"
#include "reference/rounding.h"

/* A whole tensor as F32, its values rounded to BF16 if asked. */
static float *load_values(struct reference_weights *w, const struct rf_source *source,
                          const char *name, int bf16)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    size_t n = 1;
    for (int i = 0; tensor && i < tensor->n_dims; i++) n *= (size_t)tensor->ne[i];
    float *values = tensor ? malloc(n * sizeof *values) : NULL;
    if (!values) {
        fprintf(stderr, "reference: cannot load %s\n", name);
        w->failed = 1;
        return NULL;
    }
    w->owned[w->n_owned++] = values;
    rf_dequantize_f32(tensor->dtype, tensor->data, values, n);
    for (size_t i = 0; bf16 && i < n; i++) values[i] = reference_round_bf16(values[i]);
    return values;
}

static struct reference_matrix load_matrix(struct reference_weights *w,
                                           const struct rf_source *source, const char *name,
                                           enum reference_rounding rounding)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    int quantised = tensor && rf_dtype_info(tensor->dtype)->block_elems > 1;
    if (rounding == REFERENCE_EXACT)
        return (struct reference_matrix){load_values(w, source, name, 0), NULL};
    if (rounding == REFERENCE_STORED && quantised)
        return (struct reference_matrix){load_values(w, source, name, 0),
                                         rf_is_row_dtype(tensor->dtype)
                                             ? reference_round_whole_row_8_bits
                                             : reference_round_row_8_bits};
    return (struct reference_matrix){load_values(w, source, name, 1), reference_round_row_bf16};
}

static const char *name_in_layer(char full[64], int layer, const char *name)
{
    snprintf(full, 64, "blk.%d.%s", layer, name);
    return full;
}

/* `end`: what the names of the matrices end with, "" or "_exps" or "_shexp". */
static void load_feed_forward(struct reference_weights *w, const struct rf_source *source,
                              int layer, const char *end, enum reference_rounding rounding,
                              struct reference_feed_forward *ffn)
{
    struct reference_matrix *const matrices[] = {&ffn->gate, &ffn->up, &ffn->down};
    static const char *const names[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_%s%s.weight", layer, names[i], end);
        *matrices[i] = load_matrix(w, source, name, rounding);
    }
}

enum mixing { OF_ATTENTION, OF_CONV, OF_DELTA, OF_MAMBA, OF_LATENT };

static enum mixing mixing_of(const struct rf_params *p, int l)
{
    return rf_is_delta(p, l)   ? OF_DELTA
           : rf_is_mamba(p, l) ? OF_MAMBA
           : rf_is_conv(p, l)  ? OF_CONV
           : p->latent         ? OF_LATENT
                               : OF_ATTENTION;
}

/* The matrices of attention, latent or not, of a convolution, of the delta rule or of Mamba-2. */
static void load_mixing(struct reference_weights *w, const struct rf_source *source, int l,
                        enum reference_rounding rounding)
{
    const struct rf_params *p = &source->params;
    struct reference_layer *layer = &w->layers[l];
    const struct {
        struct reference_matrix *matrix;
        const char *name;
        enum mixing of;
    } matrices[] = {{&layer->q, "attn_q.weight", OF_ATTENTION},
                    {&layer->k, "attn_k.weight", OF_ATTENTION},
                    {&layer->v, "attn_v.weight", OF_ATTENTION},
                    {&layer->o, "attn_output.weight", OF_ATTENTION},
                    {&layer->q_a, p->latent_q ? "attn_q_a.weight" : NULL, OF_LATENT},
                    {&layer->q, p->latent_q ? "attn_q_b.weight" : "attn_q.weight", OF_LATENT},
                    {&layer->kv_a, "attn_kv_a_mqa.weight", OF_LATENT},
                    {&layer->k_b, RF_K_B, OF_LATENT},
                    {&layer->v_b, RF_V_B, OF_LATENT},
                    {&layer->o, "attn_output.weight", OF_LATENT},
                    {&layer->conv_in, "shortconv.in_proj.weight", OF_CONV},
                    {&layer->conv_out, "shortconv.out_proj.weight", OF_CONV},
                    {&layer->delta_qkv, "attn_qkv.weight", OF_DELTA},
                    {&layer->delta_z, "attn_gate.weight", OF_DELTA},
                    {&layer->delta_beta, "ssm_beta.weight", OF_DELTA},
                    {&layer->delta_alpha, "ssm_alpha.weight", OF_DELTA},
                    {&layer->delta_out, "ssm_out.weight", OF_DELTA},
                    {&layer->delta_z, "ssm_in.weight", OF_MAMBA},
                    {&layer->mamba_xbc, "ssm_in_xbc.weight", OF_MAMBA},
                    {&layer->mamba_dt, "ssm_in_dt.weight", OF_MAMBA},
                    {&layer->delta_out, "ssm_out.weight", OF_MAMBA}};
    char full[64];
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (matrices[i].name && matrices[i].of == mixing_of(p, l))
            *matrices[i].matrix =
                load_matrix(w, source, name_in_layer(full, l, matrices[i].name), rounding);
}

/* The layer's vectors, and the matrices of its attention. */
static void load_attention(struct reference_weights *w, const struct rf_source *source, int l,
                           enum reference_rounding rounding)
{
    const struct rf_params *p = &source->params;
    struct reference_layer *layer = &w->layers[l];
    enum mixing mixing = mixing_of(p, l);
    int is_conv = mixing == OF_CONV, is_mamba = mixing == OF_MAMBA,
        has_matrices = mixing == OF_DELTA || is_mamba, has_keys = mixing == OF_ATTENTION,
        has_conv_bias = is_conv && p->conv_bias;
    const struct {
        float **vector;
        const char *name;
        int exists;
    } vectors[] = {{&layer->attn_norm, "attn_norm.weight", 1},
                   {&layer->ffn_norm, RF_FFN_NORM(p), 1},
                   {&layer->bq, "attn_q.bias", p->qkv_bias && has_keys},
                   {&layer->bk, "attn_k.bias", p->qkv_bias && has_keys},
                   {&layer->bv, "attn_v.bias", p->qkv_bias && has_keys},
                   {&layer->bo, "attn_output.bias", p->o_bias && has_keys},
                   {&layer->ffn.gate_bias, "ffn_gate.bias", p->ffn_bias && rf_is_dense(p, l)},
                   {&layer->ffn.up_bias, "ffn_up.bias", p->ffn_bias && rf_is_dense(p, l)},
                   {&layer->ffn.down_bias, "ffn_down.bias", p->ffn_bias && rf_is_dense(p, l)},
                   {&layer->q_norm, "attn_q_norm.weight", p->qk_norm && has_keys},
                   {&layer->k_norm, "attn_k_norm.weight", p->qk_norm && has_keys},
                   {&layer->q_a_norm, "attn_q_a_norm.weight", p->latent_q > 0},
                   {&layer->kv_a_norm, "attn_kv_a_norm.weight", p->latent > 0},
                   {&layer->conv, RF_CONV, is_conv},
                   {&layer->delta_conv, RF_DELTA_CONV, has_matrices},
                   {&layer->decay, RF_DELTA_DECAY, has_matrices},
                   {&layer->step, "ssm_dt.bias", has_matrices},
                   {&layer->delta_norm, RF_DELTA_NORM, has_matrices},
                   {&layer->mamba_conv_bias, "ssm_conv1d.bias", is_mamba && p->conv_bias},
                   {&layer->skip, RF_MAMBA_SKIP, is_mamba},
                   {&layer->conv_in_bias, "shortconv.in_proj.bias", has_conv_bias},
                   {&layer->conv_bias, "shortconv.conv.bias", has_conv_bias},
                   {&layer->conv_out_bias, "shortconv.out_proj.bias", has_conv_bias}};
    char full[64];
    load_mixing(w, source, l, rounding);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (vectors[i].exists)
            *vectors[i].vector = load_values(w, source, name_in_layer(full, l, vectors[i].name), 0);
}

static void load_layer(struct reference_weights *w, const struct rf_source *source, int l,
                       enum reference_rounding rounding)
{
    const struct rf_params *p = &source->params;
    struct reference_layer *layer = &w->layers[l];
    int experts = !rf_is_dense(p, l);
    enum reference_rounding of_routers = rounding == REFERENCE_EXACT ? rounding : REFERENCE_BF16;
    char full[64];
    load_attention(w, source, l, rounding);
    load_feed_forward(w, source, l, experts ? "_exps" : "", rounding, &layer->ffn);
    layer->ffn.width = experts ? p->n_ff : rf_n_ff_dense(p);
    if (!experts) return;
    layer->router =
        load_matrix(w, source, name_in_layer(full, l, "ffn_gate_inp.weight"), of_routers);
    if (!p->n_ff_shared) return;
    load_feed_forward(w, source, l, "_shexp", rounding, &layer->shared);
    layer->shared.width = p->n_ff_shared;
    if (p->shared_whole) return;
    layer->shared_router =
        load_matrix(w, source, name_in_layer(full, l, "ffn_gate_inp_shexp.weight"), of_routers);
}

int reference_weights_load(struct reference_weights *w, const struct rf_source *source,
                           enum reference_rounding rounding)
{
    const struct rf_params *p = &source->params;
    memset(w, 0, sizeof *w);
    w->layers = calloc((size_t)p->n_layer, sizeof *w->layers);
    w->owned = calloc((size_t)source->n_tensors + 1, sizeof *w->owned);
    if (!w->layers || !w->owned) return -1;
    w->embedding = load_values(w, source, "token_embd.weight", rounding == REFERENCE_BF16);
    w->output_norm = load_values(w, source, RF_OUTPUT_NORM(p), 0);
    w->output =
        load_matrix(w, source, p->tied_output ? "token_embd.weight" : "output.weight", rounding);
    for (int l = 0; l < p->n_layer && !w->failed; l++) load_layer(w, source, l, rounding);
    return w->failed ? -1 : 0;
}

void reference_weights_free(struct reference_weights *w)
{
    for (int i = 0; i < w->n_owned; i++) free(w->owned[i]);
    free(w->owned);
    free(w->layers);
}
