/* A model file, whatever its container: parameters, vocabulary and tensors.
 *
 * The names of tensors are GGUF's ("token_embd.weight", "blk.0.attn_q.weight"); the safetensors
 * reader translates. Opening checks every size, offset, count and id that the structures below
 * hold: a tensor's bytes lie inside the mapped file, its dimensions agree with `params`, token ids
 * are < n_vocab. */
#ifndef RF_MODEL_SOURCE_H
#define RF_MODEL_SOURCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/dtype.h"
#include "model/vocab.h"

enum rf_arch {
    RF_ARCH_LLAMA = 1,
    RF_ARCH_QWEN2 = 2,
    RF_ARCH_QWEN3 = 3,
    RF_ARCH_GRANITE,
    RF_ARCH_OLMO2,
    RF_ARCH_SMOLLM3,
    RF_ARCH_PHI3,
    RF_ARCH_GEMMA2,
    RF_ARCH_GEMMA3,
    RF_ARCH_QWEN3MOE,
    RF_ARCH_GPT_OSS,
    RF_ARCH_QWEN2MOE,
    RF_ARCH_LFM2,
    RF_ARCH_LFM2MOE,
    RF_ARCH_QWEN35,
    RF_ARCH_QWEN35MOE,
    RF_ARCH_SEED_OSS,
    RF_ARCH_GLM4,
    RF_ARCH_EXAONE4,
    RF_ARCH_COHERE2,
    RF_ARCH_STARCODER2,
    RF_ARCH_MISTRAL3,
    RF_ARCH_BERT,
    RF_ARCH_NOMIC_BERT,
    RF_ARCH_GRANITEHYBRID,
    RF_ARCH_NEMOTRON_H,
    RF_ARCH_NEMOTRON_H_MOE,
    RF_ARCH_DEEPSEEK2,
    RF_ARCH_GEMMA4,
    RF_ARCH_QWEN3NEXT
};

/* Whether a layer for further tokens behind the model's own is read, as a draft head. */
static inline int rf_knows_mtp(enum rf_arch arch)
{
    return arch == RF_ARCH_QWEN35 || arch == RF_ARCH_QWEN35MOE || arch == RF_ARCH_QWEN3NEXT;
}

/* The elements of a head that rotate together. RF_ROPE_NORM: (2i, 2i + 1), for GGUF's permuted
 * llama weights. RF_ROPE_NEOX: (i, i + rope_dim/2). */
enum rf_rope_style { RF_ROPE_NORM = 0, RF_ROPE_NEOX = 1 };

enum { RF_MAX_EXPERTS = 1024, RF_MAX_CONV_ROWS = 16, RF_MAX_DELTA = 1024, RF_MAX_LATENT = 2048 };

/* Matrices that a file has as one tensor, their rows one behind the other. */
enum rf_fused {
    RF_FUSED_QKV = 1,
    RF_FUSED_GATE_UP = 2,
    RF_FUSED_SHARED = 4, /* gate and up of the expert that every row has */
    RF_FUSED_MAMBA = 8,  /* z, what is convolved, and the time steps */
    RF_FUSED_DELTA = 16  /* the delta rule's q, k, v and z, and its two gates, of one head of k
                            after the other */
};

/* Differences between the layers of a model. */
enum rf_layer_flag {
    RF_LAYER_WINDOW = 1,     /* attention has the model's window */
    RF_LAYER_NO_ROPE = 2,    /* q and k are not rotated */
    RF_LAYER_LOCAL_ROPE = 4, /* q and k are rotated by rope_local */
    RF_LAYER_DENSE = 8,      /* one feed-forward for all rows, no experts */
    RF_LAYER_CONV = 16,      /* a convolution over a few rows in place of attention (lfm2): a state
                                of fixed size in place of keys and values */
    RF_LAYER_DELTA = 32,     /* the gated delta rule in place of attention (qwen35): a matrix for
                                each head in place of keys and values */
    RF_LAYER_MAMBA = 64,     /* Mamba-2 in place of attention, likewise */
    RF_LAYER_FFN = 128,      /* a feed-forward alone, where one_branch is set */
};

/* A rotation. Pair i of a head turns from one position to the next by
 * scale * theta^(-2i / rope_dim) / factors[i]. */
struct rf_rope {
    float theta;          /* base frequency */
    float scale;          /* positions are multiplied by this (linear scaling); 1: none */
    float magnitude;      /* cosines and sines are multiplied by this (YaRN); 1: none */
    const float *factors; /* [rope_dim / 2] (llama3, YaRN, longrope); NULL: none */
    /* At positions p from ntk_from on, theta grows (rf_rope_growth). ntk_factor is 0: it does not.
     */
    float ntk_factor;
    int32_t ntk_from;
};

struct rf_params {
    enum rf_arch arch;
    const char *arch_name; /* "llama" */
    int32_t n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx_train;
    float rms_eps; /* epsilon of every RMS norm */
    enum rf_rope_style rope_style;
    int32_t rope_dim;    /* rotated elements of a head: even, <= head_dim */
    struct rf_rope rope; /* layers without RF_LAYER_LOCAL_ROPE */
    int32_t tied_output; /* the output head is token_embd.weight */
    int32_t qkv_bias;    /* attn_{q,k,v}.bias exist */
    int32_t qk_norm;     /* attn_{q,k}_norm.weight exist (qwen3) */

    /* Zero where an architecture has no such thing. */
    int32_t qk_norm_rows;  /* each such norm is over all heads together (olmo2) */
    int32_t post_norm;     /* the results of attention and feed-forward have norms */
    int32_t no_input_norm; /* attention and feed-forward have no norm before them (olmo2) */
    int32_t fused;         /* enum rf_fused (phi3, glm4) */
    int32_t gelu;          /* the gate is gelu, not silu */
    int32_t no_gate;       /* the feed-forward is down(gelu(up)): it has no gate (starcoder2) */
    int32_t relu2;         /* there, relu(up)^2 in the place of gelu(up) (nemotron_h) */
    int32_t one_branch;    /* a layer is one branch: attention, Mamba-2, or with RF_LAYER_FFN the
                              feed-forward */
    int32_t parallel;      /* the feed-forward reads the norm that attention reads (cohere2) */
    int32_t layer_norm;    /* norms of rows subtract the mean first (LayerNorm) */
    int32_t norm_bias;     /* such norms have biases */
    float embedding_scale, residual_scale, logit_scale; /* factors of the embeddings, of what each
                                                           half of a layer adds, of the logits */
    float attention_scale;          /* factor of scores; 0: 1 / sqrt(head_dim) */
    float temperature;              /* queries grow with their position (rf_query_growth); 0: no */
    int32_t temperature_step;       /* by one step after so many positions */
    float attention_cap, logit_cap; /* scores and logits x are cap * tanh(x / cap) */
    int32_t window;                 /* positions that attention reaches in layers with a window */
    const uint8_t *layer_flags;     /* [n_layer] of enum rf_layer_flag; NULL: all have the window */
    struct rf_rope rope_local;      /* layers with RF_LAYER_LOCAL_ROPE; theta is 0: there are
                                       none */
    /* longrope: rows at positions from n_ctx_short on have these factors in the place of
     * rope.factors, and so have all rows that they read (infer/sequence.h). */
    const float *rope_long_factors;
    int32_t n_ctx_short;
    /* Experts: feed-forwards of width n_ff, of which a router chooses n_expert_used for a row. 0:
     * one feed-forward for all rows. */
    int32_t n_expert, n_expert_used;
    int32_t n_ff_dense;     /* the width in layers with RF_LAYER_DENSE */
    int32_t n_ff_shared;    /* width of an expert that every row has, times a share of its own */
    float expert_scale;     /* factor of the shares; 0: none */
    float expert_least;     /* is added to a sum of sigmoids before shares are divided by it */
    int32_t shared_whole;   /* that expert has no share: it counts as it is */
    int32_t expert_norm;    /* a row's shares of its experts add up to 1 */
    int32_t expert_bias;    /* the experts' matrices and the router have biases */
    int32_t expert_sigmoid; /* shares are sigmoids of the router's values, not a softmax */
    int32_t expert_choice_bias; /* exp_probs_b.bias exists: added to sigmoids where experts are
                                   chosen, not to shares */
    /* The gate: (up + 1) g / (1 + exp(-gate_alpha g)), g and up clamped to gate_limit. 0: silu.
     */
    float gate_alpha, gate_limit;
    int32_t attn_sinks, o_bias; /* attn_sinks.weight, attn_output.bias exist */
    int32_t ffn_bias;           /* ffn_{gate,up,down}.bias exist in layers without experts */
    int32_t conv_rows;          /* rows that a convolution reads, its own and those before it */
    int32_t conv_bias;          /* the convolution and the matrices around it have biases; of
                                   Mamba-2 the convolution alone */
    /* Layers with the delta rule: heads of q and k, and of v; elements of a head. Several heads of
     * v share one of k: those that follow each other, or with delta_tiled the head h of v has the
     * head h % delta_keys of k. Of Mamba-2 q is called C, k is B, v is x, and delta_keys groups of
     * heads share them. */
    int32_t delta_keys, delta_values, delta_key_dim, delta_value_dim, delta_tiled;
    int32_t is_mamba;         /* these are the sizes of Mamba-2 */
    float step_min, step_max; /* limits of Mamba-2's time steps; step_max 0: none */
    /* An encoder (bert): a row attends to all rows of its text, norms follow the sums of residual
     * and branch, and there is no output head. */
    int32_t encoder;
    int32_t gelu_exact;    /* gelu is by the error function, not by tanh */
    int32_t positions;     /* position_embd.weight exists: a row for each position */
    int32_t n_token_types; /* rows of token_types.weight, of which texts have the first; 0: none */
    /* Sizes of layers with a window, where they differ from others; 0: none (gemma4). */
    int32_t window_head_dim, window_n_head_kv, window_rope_dim;
    int32_t n_kv_shared;    /* the last layers have no keys and values: rf_kv_layer */
    int32_t n_ff_shared_kv; /* the width of these layers' feed-forwards; 0: that of the others */
    int32_t k_is_v;         /* layers without a window have no attn_v: v is k before its norm */
    int32_t v_norm;         /* heads of v have an RMS norm without weight */
    int32_t n_embd_layer;   /* width of embeddings that each layer has of its own; 0: none */
    int32_t layer_scale;    /* a layer's result is times layer_output_scale.weight */
    int32_t attn_gate; /* attention's results are times a sigmoid; attn_q.weight has for each head
                          the rows of q, then those of its gate */
    /* Latent attention (deepseek2): all heads read one row of head_dim elements, the latent and
     * behind it rope_dim rotated ones; n_head_kv is 1. A head's query has head_nope elements, which
     * its own matrix makes `latent` of, and the rotated ones. What it attends to, a latent, its
     * other matrix makes head_value of. latent is 0: no such attention. */
    int32_t latent, head_nope, head_value;
    float latent_eps; /* epsilon of the norms of latents; 0: rms_eps */
    int32_t latent_q; /* width of what queries are made of; 0: the row itself */
    /* Experts are chosen from groups: the expert_groups_used with the greatest sums of their
     * expert_group_top best values. 0: from all. */
    int32_t expert_groups, expert_groups_used, expert_group_top;
};

static inline int rf_layer_flags(const struct rf_params *params, int32_t layer)
{
    return params->layer_flags ? params->layer_flags[layer] : RF_LAYER_WINDOW;
}

/* Whether a layer has a convolution, the delta rule, Mamba-2; either of these two, so a matrix for
 * each head; any of them, so a state and no keys and values.
 * A model's layers with a state are of one kind. */
static inline int rf_is_conv(const struct rf_params *params, int32_t layer)
{
    return (rf_layer_flags(params, layer) & RF_LAYER_CONV) != 0;
}

static inline int rf_is_delta(const struct rf_params *params, int32_t layer)
{
    return (rf_layer_flags(params, layer) & RF_LAYER_DELTA) != 0;
}

static inline int rf_is_mamba(const struct rf_params *params, int32_t layer)
{
    return (rf_layer_flags(params, layer) & RF_LAYER_MAMBA) != 0;
}

static inline int rf_has_matrices(const struct rf_params *params, int32_t layer)
{
    return rf_is_delta(params, layer) || rf_is_mamba(params, layer);
}

static inline int rf_has_state(const struct rf_params *params, int32_t layer)
{
    return rf_is_conv(params, layer) || rf_has_matrices(params, layer);
}

static inline int rf_has_ffn(const struct rf_params *params, int32_t layer)
{
    return !params->one_branch || (rf_layer_flags(params, layer) & RF_LAYER_FFN);
}

static inline int rf_has_attention(const struct rf_params *params, int32_t layer)
{
    return !(rf_layer_flags(params, layer) & RF_LAYER_FFN) && !rf_has_state(params, layer);
}

/* Whether a layer has attention and reads an earlier layer's keys and values. */
static inline int rf_shares_keys(const struct rf_params *params, int32_t layer)
{
    return layer >= params->n_layer - params->n_kv_shared;
}

/* Whether a layer has attention, and keys and values of its own. */
static inline int rf_has_keys(const struct rf_params *params, int32_t layer)
{
    return rf_has_attention(params, layer) && !rf_shares_keys(params, layer);
}

static inline int rf_has_window(const struct rf_params *params, int32_t layer)
{
    return (rf_layer_flags(params, layer) & RF_LAYER_WINDOW) != 0;
}

/* The layer whose keys and values a layer reads: its own, or the last one of the same kind that has
 * any; -1: there is none. */
static inline int32_t rf_kv_layer(const struct rf_params *params, int32_t layer)
{
    int32_t from = layer;
    if (!rf_shares_keys(params, layer)) return layer;
    for (from = params->n_layer - params->n_kv_shared - 1; from >= 0; from--)
        if (rf_has_window(params, from) == rf_has_window(params, layer)) return from;
    return from;
}

/* The sizes of a layer's attention, and the greatest of all layers. */
static inline int32_t rf_head_dim(const struct rf_params *params, int32_t layer)
{
    return params->window_head_dim && rf_has_window(params, layer) ? params->window_head_dim
                                                                   : params->head_dim;
}

static inline int32_t rf_n_head_kv(const struct rf_params *params, int32_t layer)
{
    return params->window_n_head_kv && rf_has_window(params, layer) ? params->window_n_head_kv
                                                                    : params->n_head_kv;
}

static inline int32_t rf_most_head_dim(const struct rf_params *params)
{
    return params->window_head_dim > params->head_dim ? params->window_head_dim : params->head_dim;
}

static inline int32_t rf_most_head_kv(const struct rf_params *params)
{
    return params->window_n_head_kv > params->n_head_kv ? params->window_n_head_kv
                                                        : params->n_head_kv;
}

static inline int32_t rf_window_head_kv(const struct rf_params *params)
{
    return params->window_n_head_kv ? params->window_n_head_kv : params->n_head_kv;
}

/* Whether a layer's v is its k, before norm and rotation. */
static inline int rf_v_is_k(const struct rf_params *params, int32_t layer)
{
    return params->k_is_v && !rf_has_window(params, layer);
}

/* Whether layers differ in more than flags, which not every device computes. */
static inline int rf_has_layer_sizes(const struct rf_params *params)
{
    return params->window_head_dim || params->n_kv_shared || params->n_embd_layer ||
           params->v_norm || params->layer_scale;
}

/* The layers before `end` with keys and values; those with a state. */
static inline int32_t rf_n_attention(const struct rf_params *params, int32_t end)
{
    int32_t n = 0;
    if (!params->layer_flags) return end; /* a header may claim 2^31 layers */
    for (int32_t i = 0; i < end; i++) n += rf_has_keys(params, i);
    return n;
}

static inline int32_t rf_n_states(const struct rf_params *params, int32_t end)
{
    int32_t n = 0;
    for (int32_t i = 0; params->layer_flags && i < end; i++) n += rf_has_state(params, i);
    return n;
}

/* Elements of q and of k of a row in a layer with the delta rule; of v; of what its convolution
 * reads: q, k and v. */
static inline int32_t rf_delta_keys(const struct rf_params *params)
{
    return params->delta_keys * params->delta_key_dim;
}

static inline int32_t rf_delta_values(const struct rf_params *params)
{
    return params->delta_values * params->delta_value_dim;
}

static inline int32_t rf_delta_mixed(const struct rf_params *params)
{
    return 2 * rf_delta_keys(params) + rf_delta_values(params);
}

/* Where q, k and v begin among these: Mamba-2 has them in the other order. */
struct rf_delta_places {
    int32_t q, k, v;
};

static inline struct rf_delta_places rf_delta_places(const struct rf_params *params)
{
    int32_t keys = rf_delta_keys(params), values = rf_delta_values(params);
    return params->is_mamba ? (struct rf_delta_places){values + keys, values, 0}
                            : (struct rf_delta_places){0, keys, 2 * keys};
}

/* Whether a layer has one feed-forward for all rows, and the width of that. */
static inline int rf_is_dense(const struct rf_params *params, int32_t layer)
{
    return rf_has_ffn(params, layer) &&
           (!params->n_expert || (rf_layer_flags(params, layer) & RF_LAYER_DENSE));
}

static inline int rf_has_experts(const struct rf_params *params, int32_t layer)
{
    return rf_has_ffn(params, layer) && !rf_is_dense(params, layer);
}

/* Elements of a query as its matrix makes it. */
static inline int32_t rf_head_query(const struct rf_params *params)
{
    return params->latent ? params->head_nope + params->rope_dim : params->head_dim;
}

static inline int32_t rf_n_ff_dense(const struct rf_params *params)
{
    return params->n_expert ? params->n_ff_dense : params->n_ff;
}

/* The width of a layer's own feed-forward for all rows. */
static inline int32_t rf_ff_width(const struct rf_params *params, int32_t layer)
{
    return params->n_ff_shared_kv && rf_shares_keys(params, layer) ? params->n_ff_shared_kv
                                                                   : rf_n_ff_dense(params);
}

/* The rotations that a model may have. RF_ROPE_LONG is the global one of long texts. */
enum rf_frequencies { RF_ROPE_GLOBAL, RF_ROPE_LOCAL, RF_ROPE_LONG, RF_ROPE_SETS };

static inline const struct rf_rope *rf_rope_of(const struct rf_params *params,
                                               enum rf_frequencies set)
{
    return set == RF_ROPE_LOCAL ? &params->rope_local : &params->rope;
}

/* The rotated elements of a head. */
static inline int32_t rf_rope_dim(const struct rf_params *params, enum rf_frequencies set)
{
    return set == RF_ROPE_LOCAL && params->window_rope_dim ? params->window_rope_dim
                                                           : params->rope_dim;
}

static inline int32_t rf_most_rope_dim(const struct rf_params *params)
{
    return params->window_rope_dim > params->rope_dim ? params->window_rope_dim : params->rope_dim;
}

/* Radians that pair i of a head turns by from one position to the next, before any growth. */
double rf_rope_frequency(const struct rf_params *params, enum rf_frequencies set, int32_t i);

/* `dynamic` scaling: the frequency of pair i at this position is multiplied by the growth to the
 * power of -2i / (rope_dim - 2). transformers, modeling_rope_utils.py,
 * _compute_dynamic_ntk_parameters, for a text that is read token by token. */
static inline double rf_rope_growth(const struct rf_rope *rope, int32_t position)
{
    if (rope->ntk_factor == 0 || position < rope->ntk_from) return 1;
    double factor = (double)rope->ntk_factor;
    return factor * ((double)position + 1) / rope->ntk_from - (factor - 1);
}

/* The factor of a query at this position: 1 + temperature * log(1 + steps), where steps are the
 * whole temperature_steps before it. transformers, modeling_ministral3.py, get_llama_4_attn_scale.
 */
static inline float rf_query_growth(const struct rf_params *params, int32_t position)
{
    if (params->temperature == 0 || position < params->temperature_step) return 1;
    double steps = position / params->temperature_step;
    return (float)(1 + (double)params->temperature * log(1 + steps));
}

/* The longest text whose rows have the first of two sets of factors. */
static inline int32_t rf_rope_short_text(const struct rf_params *params)
{
    return params->rope_long_factors ? params->n_ctx_short : INT32_MAX;
}

struct rf_tensor {
    const char *name;
    enum rf_dtype dtype;
    int32_t n_dims;
    int64_t ne[4];    /* ne[0] is contiguous: a weight of a linear layer is ne = {n_in, n_out} */
    const void *data; /* lies in the mapped file, not aligned; experts: the first one's */
    uint64_t bytes;
    const struct rf_scattered *scattered; /* rows do not lie one behind the other; NULL: they do */
};

/* The places of rows that do not lie one behind the other: of experts in a safetensors file, or of
 * equal pieces of a matrix. Row r of expert or piece e has its value j at
 * experts[e] + r * row_bytes + j * value_bytes. */
struct rf_scattered {
    const unsigned char *const *experts; /* [ne[2]], or one for each piece */
    size_t row_bytes, value_bytes;
    size_t piece_rows; /* 0: those of an expert, ne[1] */
    /* MXFP4: value_bytes is that of a block, 16 bytes of codes in the order of values, the lower
     * half of a byte first. The exponents lie at scales[e] + r * scale_row_bytes. */
    const unsigned char *const *scales;
    size_t scale_row_bytes;
};

static inline uint64_t rf_tensor_elements(const struct rf_tensor *tensor)
{
    uint64_t n = 1;
    for (int32_t d = 0; d < tensor->n_dims; d++) n *= (uint64_t)tensor->ne[d];
    return n;
}

/* How files are opened, and what opening may take besides the weights. A file that is small on the
 * disk can claim to hold anything. */
struct rf_open_options {
    unsigned map_flags;      /* RF_MAP_* of platform/file.h */
    uint64_t metadata_bytes; /* memory; 0: 160 MiB and twice the files' bytes on the disk */
    uint64_t metadata_items; /* tokens, merges, tensors, values, of each; 0: 2^20 */
};

/* Sampling that a file recommends, unchecked; NaN: it says nothing about the value. */
struct rf_recommended_sampling {
    const char *from; /* the file's part that recommends; NULL: none does */
    double temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n;
};

/* A text that comes before texts whose vectors are wanted. */
struct rf_prompt {
    const char *name, *text; /* "query", "query: " */
};

/* How the rows of a text's tokens become its vector. */
enum rf_pooling {
    RF_POOLING_NONE,
    RF_POOLING_MEAN,
    RF_POOLING_LAST,
    RF_POOLING_CLS, /* the first token's row */
    RF_POOLING_RANK /* a reranker: the head of classification over the first token's row */
};

struct rf_source {
    struct rf_params params;
    struct rf_vocab vocab;
    const char *name;          /* general.name, or the folder's name; may be "" */
    const char *container;     /* "GGUF v3", "safetensors" */
    const char *file_type;     /* the file's own name of its mix of types: "Q4_K_M"; or NULL */
    const char *chat_template; /* Jinja source, NULL if the file has none */
    size_t chat_template_bytes;
    struct rf_recommended_sampling sampling;
    int has_mtp;             /* the file has a layer behind the model's own that drafts further
                                tokens, which rf_head_open of the same file reads */
    int32_t n_labels;        /* rows of cls.output.weight, or of cls.weight where it is alone; 0:
                                there is no head of classification */
    enum rf_pooling pooling; /* the pooling that the file names; NONE: no or another one */
    const struct rf_prompt *prompts;  /* [n_prompts], of a folder of sentence-transformers */
    size_t n_prompts, default_prompt; /* of texts without a named one; n_prompts: none */
    uint64_t file_bytes;              /* sum over all files */
    struct rf_tensor *tensors;
    int32_t n_tensors;
    struct rf_source_private *private_; /* mappings and memory of the reader; NULL: no file */
};

void rf_source_close(struct rf_source *source);

/* RF_ERR_IO once a part of a file was read that has gone meanwhile: all reads since then are wrong.
 */
int rf_source_check(const struct rf_source *source, struct rf_error *error);

/* 1 if the bytes lie in a mapped file: their memory may be given back while they are not used. */
int rf_source_is_mapped(const struct rf_source *source, const void *data, uint64_t bytes);

/* n rows of a tensor from `first` on, those of experts counted one expert after the other, as a
 * GGUF file has them: in place, or written to `scratch`, which holds n rows. They are of one
 * expert. `scratch` may be NULL for one row whose values lie one behind the other. */
const void *rf_tensor_rows(const struct rf_tensor *tensor, size_t first, size_t n, void *scratch);

/* Rows of an expert or of a piece of a scattered tensor. */
static inline size_t rf_piece_rows(const struct rf_tensor *tensor)
{
    size_t rows = tensor->scattered->piece_rows;
    return rows ? rows : (size_t)tensor->ne[1];
}

/* 1 if an expert's rows, or all of a matrix, lie one behind the other. */
int rf_tensor_has_whole_experts(const struct rf_tensor *tensor);

/* NULL when there is none of that name. */
const struct rf_tensor *rf_source_tensor(const struct rf_source *source, const char *name);

/* 1 if the output head is a second copy of the embeddings, as converters write for models whose
 * head is tied, perhaps in another type. Reads a few rows of both. */
int rf_source_head_is_copy(const struct rf_source *source);

#endif
