/* The tensors of a model: their names in both containers, roles and shapes, each stated once. */
#ifndef RF_MODEL_TENSORS_H
#define RF_MODEL_TENSORS_H

#include "model/source.h"

#define RF_TOKEN_EMBD "token_embd.weight"
#define RF_OUTPUT "output.weight"
#define RF_LAYER_EMBD "per_layer_token_embd.weight"
#define RF_LAYER_SCALE "layer_output_scale.weight"
#define RF_POSITION_EMBD "position_embd.weight"
#define RF_TOKEN_TYPES "token_types.weight"
/* Linear layers of an encoder's head of classification; names without ".weight" and ".bias". */
#define RF_CLS "cls"
#define RF_CLS_OUT "cls.output"
#define RF_CLS_NORM "cls.norm"
/* Linear layers behind the pooling, one after the other. */
#define RF_DENSE_2 "dense_2"
#define RF_DENSE_3 "dense_3"
#define RF_ROUTER "ffn_gate_inp.weight"
#define RF_CONV "shortconv.conv.weight"
#define RF_DELTA_CONV "ssm_conv1d.weight"
#define RF_DELTA_DECAY "ssm_a"
#define RF_DELTA_NORM "ssm_norm.weight"
#define RF_DELTA_IN "ssm_in.weight" /* of old GGUF files, too; newer ones have its parts */
#define RF_DELTA_GATES "ssm_ba.weight"
#define RF_MAMBA_SKIP "ssm_d"
#define RF_K_B "attn_k_b.weight" /* a safetensors file has both as one, k_b transposed */
#define RF_V_B "attn_v_b.weight"

enum rf_weight_role {
    RF_WEIGHT_MATRIX,  /* weights of a linear layer */
    RF_WEIGHT_TABLE,   /* embeddings: read row by row, never as a whole */
    RF_WEIGHT_VECTOR,  /* a norm's gain or biases: kept in F32 */
    RF_WEIGHT_ROUTER,  /* the matrix that chooses experts: BF16, whatever the form */
    RF_WEIGHT_EXPERTS, /* a matrix for each expert */
    RF_WEIGHT_HEADS,   /* a matrix for each head of latent attention */
};

/* These name this norm after the branch before it. */
#define RF_FFN_NORM(p)                                                          \
    ((p)->arch == RF_ARCH_GPT_OSS || (p)->arch == RF_ARCH_QWEN35 ||             \
             (p)->arch == RF_ARCH_QWEN35MOE || (p)->arch == RF_ARCH_SEED_OSS || \
             (p)->arch == RF_ARCH_QWEN3NEXT                                     \
         ? "post_attention_norm.weight"                                         \
         : "ffn_norm.weight")
/* Whether a layer has norms before its branches, and its feed-forward one of its own. */
#define RF_HAS_INPUT_NORM(p) (!(p)->no_input_norm)
#define RF_HAS_ATTN_NORM(p, layer) (RF_HAS_INPUT_NORM(p) && !((p)->no_first_norm && (layer) == 0))
/* Norms of the stream itself, behind each branch. */
#define RF_HAS_STREAM_NORMS(p) ((p)->encoder && (p)->no_input_norm)
#define RF_HAS_FFN_NORM(p) (!(p)->no_input_norm && !(p)->parallel && !(p)->one_branch)
/* lfm2's converter names the last norm after another one. */
#define RF_OUTPUT_NORM(p)                                                                 \
    ((p)->arch == RF_ARCH_LFM2 || (p)->arch == RF_ARCH_LFM2MOE ? "token_embd_norm.weight" \
                                                               : "output_norm.weight")
#define RF_HF_ROUTER(p) ((p)->arch == RF_ARCH_GPT_OSS ? "mlp.router.weight" : "mlp.gate.weight")
/* Named after its place, which differs where the branch before it has a norm of its own. */
#define RF_HF_FFN_NORM(p) \
    ((p)->post_norm ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight")

/* qwen3next has two of these matrices as one. */
#define RF_HF_DELTA_IN(p, own, both)                                     \
    ((p)->fused & RF_FUSED_DELTA ? "linear_attn.in_proj_" both ".weight" \
                                 : "linear_attn.in_proj_" own ".weight")

/* Each row is X(field, GGUF name, safetensors name, role, ne0, ne1, condition).
 * `field`: of struct rf_model or struct rf_layer. `role`: of enum rf_weight_role, without its
 * prefix. HEADS are [ne0, ne1, n_head]; EXPERTS are [ne0, ne1, n_expert], in a safetensors file one
 * tensor for each expert, whose number takes the place of the *. Names, shape and condition are
 * expressions over `p`, a const struct rf_params *, and of a layer's tensor `layer`, its number,
 * which must be in scope where X uses them. In a GGUF file a layer's names follow "blk.N.", in a
 * safetensors file "model.layers.N.". */
/* clang-format off */
#define RF_EACH_MODEL_TENSOR(X) \
    X(token_embd, RF_TOKEN_EMBD, "model.embed_tokens.weight", TABLE, p->n_embd, p->n_vocab, 1) \
    X(position_embd, RF_POSITION_EMBD, "model.embed_positions.weight", TABLE, p->n_embd, \
      p->n_ctx_train, p->positions) \
    X(token_types, RF_TOKEN_TYPES, "model.embed_types.weight", TABLE, p->n_embd, \
      p->n_token_types, p->n_token_types > 0) \
    X(embd_norm, "token_embd_norm.weight", "model.embed_norm.weight", VECTOR, p->n_embd, 1, \
      p->embd_norm) \
    X(embd_norm_bias, "token_embd_norm.bias", "model.embed_norm.bias", VECTOR, p->n_embd, 1, \
      p->embd_norm && p->norm_bias) \
    X(layer_embd, RF_LAYER_EMBD, "model.embed_tokens_per_layer.weight", TABLE, \
      (int64_t)p->n_embd_layer * p->n_layer, p->n_vocab, p->n_embd_layer > 0) \
    X(layer_proj, "per_layer_model_proj.weight", "model.per_layer_model_projection.weight", \
      MATRIX, p->n_embd, (int64_t)p->n_embd_layer * p->n_layer, p->n_embd_layer > 0) \
    X(layer_proj_norm, "per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", \
      VECTOR, p->n_embd_layer, 1, p->n_embd_layer > 0) \
    X(output_norm, RF_OUTPUT_NORM(p), "model.norm.weight", VECTOR, p->n_embd, 1, \
      !RF_HAS_STREAM_NORMS(p)) \
    X(output_norm_bias, "output_norm.bias", "model.norm.bias", VECTOR, p->n_embd, 1, \
      p->norm_bias && !RF_HAS_STREAM_NORMS(p)) \
    X(output, RF_OUTPUT, "lm_head.weight", MATRIX, p->n_embd, p->n_vocab, !p->tied_output)

#define RF_EACH_LAYER_TENSOR(X) \
    X(attn_norm, "attn_norm.weight", "input_layernorm.weight", VECTOR, p->n_embd, 1, \
      RF_HAS_ATTN_NORM(p, layer)) \
    X(attn_norm_bias, "attn_norm.bias", "input_layernorm.bias", VECTOR, p->n_embd, 1, \
      p->norm_bias && RF_HAS_ATTN_NORM(p, layer)) \
    X(q, "attn_q.weight", "self_attn.q_proj.weight", MATRIX, p->n_embd, rf_n_q_rows(p, layer), \
      rf_has_attention(p, layer) && !p->latent_q) \
    X(k, "attn_k.weight", "self_attn.k_proj.weight", MATRIX, p->n_embd, rf_n_kv(p, layer), \
      rf_has_keys(p, layer) && !p->latent) \
    X(v, "attn_v.weight", "self_attn.v_proj.weight", MATRIX, p->n_embd, rf_n_kv(p, layer), \
      rf_has_keys(p, layer) && !rf_v_is_k(p, layer) && !p->latent) \
    X(o, "attn_output.weight", "self_attn.o_proj.weight", MATRIX, rf_n_attended(p, layer), \
      p->n_embd, rf_has_attention(p, layer)) \
    X(q_a, "attn_q_a.weight", "self_attn.q_a_proj.weight", MATRIX, p->n_embd, p->latent_q, \
      p->latent_q > 0) \
    X(q_a_norm, "attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight", VECTOR, p->latent_q, 1, \
      p->latent_q > 0) \
    X(q_b, "attn_q_b.weight", "self_attn.q_b_proj.weight", MATRIX, p->latent_q, \
      rf_n_q_rows(p, layer), p->latent_q > 0) \
    X(kv_a, "attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight", MATRIX, p->n_embd, \
      p->head_dim, p->latent > 0) \
    X(kv_a_norm, "attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight", VECTOR, p->latent, 1, \
      p->latent > 0) \
    X(k_b, RF_K_B, "self_attn.kv_b_proj.weight", HEADS, p->head_nope, p->latent, p->latent > 0) \
    X(v_b, RF_V_B, "self_attn.kv_b_proj.values", HEADS, p->latent, p->head_value, p->latent > 0) \
    X(q_bias, "attn_q.bias", "self_attn.q_proj.bias", VECTOR, rf_n_q_rows(p, layer), 1, \
      p->qkv_bias && rf_has_attention(p, layer)) \
    X(k_bias, "attn_k.bias", "self_attn.k_proj.bias", VECTOR, rf_n_kv(p, layer), 1, \
      p->qkv_bias && rf_has_keys(p, layer)) \
    X(v_bias, "attn_v.bias", "self_attn.v_proj.bias", VECTOR, rf_n_kv(p, layer), 1, \
      p->qkv_bias && rf_has_keys(p, layer)) \
    X(q_norm, "attn_q_norm.weight", "self_attn.q_norm.weight", VECTOR, rf_q_norm(p, layer), 1, \
      p->qk_norm && rf_has_attention(p, layer)) \
    X(k_norm, "attn_k_norm.weight", "self_attn.k_norm.weight", VECTOR, rf_k_norm(p, layer), 1, \
      p->qk_norm && rf_has_keys(p, layer)) \
    X(conv_in, "shortconv.in_proj.weight", "conv.in_proj.weight", MATRIX, p->n_embd, \
      3 * (int64_t)p->n_embd, rf_is_conv(p, layer)) \
    X(conv, RF_CONV, "conv.conv.weight", VECTOR, p->conv_rows, p->n_embd, \
      rf_is_conv(p, layer)) \
    X(conv_out, "shortconv.out_proj.weight", "conv.out_proj.weight", MATRIX, p->n_embd, \
      p->n_embd, rf_is_conv(p, layer)) \
    X(conv_in_bias, "shortconv.in_proj.bias", "conv.in_proj.bias", VECTOR, \
      3 * (int64_t)p->n_embd, 1, p->conv_bias && rf_is_conv(p, layer)) \
    X(conv_bias, "shortconv.conv.bias", "conv.conv.bias", VECTOR, p->n_embd, 1, \
      p->conv_bias && rf_is_conv(p, layer)) \
    X(conv_out_bias, "shortconv.out_proj.bias", "conv.out_proj.bias", VECTOR, p->n_embd, 1, \
      p->conv_bias && rf_is_conv(p, layer)) \
    X(delta_qkv, "attn_qkv.weight", RF_HF_DELTA_IN(p, "qkv", "qkvz"), MATRIX, p->n_embd, \
      rf_delta_mixed(p), rf_is_delta(p, layer)) \
    X(delta_z, "attn_gate.weight", RF_HF_DELTA_IN(p, "z", "qkvz"), MATRIX, p->n_embd, \
      rf_delta_values(p), rf_is_delta(p, layer)) \
    X(delta_beta, "ssm_beta.weight", RF_HF_DELTA_IN(p, "b", "ba"), MATRIX, p->n_embd, \
      p->delta_values, rf_is_delta(p, layer)) \
    X(delta_alpha, "ssm_alpha.weight", RF_HF_DELTA_IN(p, "a", "ba"), MATRIX, p->n_embd, \
      p->delta_values, rf_is_delta(p, layer)) \
    X(delta_conv, RF_DELTA_CONV, "linear_attn.conv1d.weight", VECTOR, p->conv_rows, \
      rf_delta_mixed(p), rf_is_delta(p, layer)) \
    X(delta_decay, RF_DELTA_DECAY, "linear_attn.A_log", VECTOR, p->delta_values, 1, \
      rf_is_delta(p, layer)) \
    X(delta_step, "ssm_dt.bias", "linear_attn.dt_bias", VECTOR, p->delta_values, 1, \
      rf_is_delta(p, layer)) \
    X(delta_norm, RF_DELTA_NORM, "linear_attn.norm.weight", VECTOR, p->delta_value_dim, 1, \
      rf_is_delta(p, layer)) \
    X(delta_out, "ssm_out.weight", "linear_attn.out_proj.weight", MATRIX, rf_delta_values(p), \
      p->n_embd, rf_is_delta(p, layer)) \
    X(mamba_z, "ssm_in.weight", "mamba.in_proj.weight", MATRIX, p->n_embd, rf_delta_values(p), \
      rf_is_mamba(p, layer)) \
    X(mamba_xbc, "ssm_in_xbc.weight", "mamba.in_proj.xbc.weight", MATRIX, p->n_embd, \
      rf_delta_mixed(p), rf_is_mamba(p, layer)) \
    X(mamba_dt, "ssm_in_dt.weight", "mamba.in_proj.dt.weight", MATRIX, p->n_embd, \
      p->delta_values, rf_is_mamba(p, layer)) \
    X(mamba_conv, RF_DELTA_CONV, "mamba.conv1d.weight", VECTOR, p->conv_rows, rf_delta_mixed(p), \
      rf_is_mamba(p, layer)) \
    X(mamba_conv_bias, "ssm_conv1d.bias", "mamba.conv1d.bias", VECTOR, rf_delta_mixed(p), 1, \
      p->conv_bias && rf_is_mamba(p, layer)) \
    X(mamba_decay, RF_DELTA_DECAY, "mamba.A_log", VECTOR, p->delta_values, 1, \
      rf_is_mamba(p, layer)) \
    X(mamba_step, "ssm_dt.bias", "mamba.dt_bias", VECTOR, p->delta_values, 1, \
      rf_is_mamba(p, layer)) \
    X(mamba_skip, RF_MAMBA_SKIP, "mamba.D", VECTOR, p->delta_values, 1, rf_is_mamba(p, layer)) \
    X(mamba_norm, RF_DELTA_NORM, "mamba.norm.weight", VECTOR, rf_delta_values(p), 1, \
      rf_is_mamba(p, layer)) \
    X(mamba_out, "ssm_out.weight", "mamba.out_proj.weight", MATRIX, rf_delta_values(p), \
      p->n_embd, rf_is_mamba(p, layer)) \
    X(attn_post_norm, "post_attention_norm.weight", "post_attention_layernorm.weight", VECTOR, \
      p->n_embd, 1, p->post_norm) \
    X(attn_out_norm, "attn_output_norm.weight", "attn_output_norm.weight", VECTOR, p->n_embd, 1, \
      RF_HAS_STREAM_NORMS(p)) \
    X(attn_out_norm_bias, "attn_output_norm.bias", "attn_output_norm.bias", VECTOR, p->n_embd, 1, \
      RF_HAS_STREAM_NORMS(p)) \
    X(layer_out_norm, "layer_output_norm.weight", "layer_output_norm.weight", VECTOR, p->n_embd, \
      1, RF_HAS_STREAM_NORMS(p)) \
    X(layer_out_norm_bias, "layer_output_norm.bias", "layer_output_norm.bias", VECTOR, p->n_embd, \
      1, RF_HAS_STREAM_NORMS(p)) \
    X(ffn_norm, RF_FFN_NORM(p), RF_HF_FFN_NORM(p), VECTOR, p->n_embd, 1, RF_HAS_FFN_NORM(p)) \
    X(ffn_norm_bias, "ffn_norm.bias", "post_attention_layernorm.bias", VECTOR, p->n_embd, 1, \
      p->norm_bias && RF_HAS_FFN_NORM(p)) \
    X(ffn_post_norm, "post_ffw_norm.weight", "post_feedforward_layernorm.weight", VECTOR, \
      p->n_embd, 1, p->post_norm) \
    X(gate, "ffn_gate.weight", "mlp.gate_proj.weight", MATRIX, p->n_embd, rf_ff_width(p, layer), \
      rf_is_dense(p, layer) && !p->no_gate) \
    X(up, "ffn_up.weight", "mlp.up_proj.weight", MATRIX, p->n_embd, rf_ff_width(p, layer), \
      rf_is_dense(p, layer)) \
    X(down, "ffn_down.weight", "mlp.down_proj.weight", MATRIX, rf_ff_width(p, layer), p->n_embd, \
      rf_is_dense(p, layer)) \
    X(input_gate, "inp_gate.weight", "per_layer_input_gate.weight", MATRIX, p->n_embd, \
      p->n_embd_layer, p->n_embd_layer > 0) \
    X(input_proj, "proj.weight", "per_layer_projection.weight", MATRIX, p->n_embd_layer, \
      p->n_embd, p->n_embd_layer > 0) \
    X(input_post_norm, "post_norm.weight", "post_per_layer_input_norm.weight", VECTOR, \
      p->n_embd, 1, p->n_embd_layer > 0) \
    X(scale, RF_LAYER_SCALE, "layer_scalar", VECTOR, 1, 1, p->layer_scale) \
    X(o_bias, "attn_output.bias", "self_attn.o_proj.bias", VECTOR, p->n_embd, 1, \
      p->o_bias && rf_has_attention(p, layer)) \
    X(gate_bias, "ffn_gate.bias", "mlp.gate_proj.bias", VECTOR, rf_ff_width(p, layer), 1, \
      p->ffn_bias && rf_is_dense(p, layer) && !p->no_gate) \
    X(up_bias, "ffn_up.bias", "mlp.up_proj.bias", VECTOR, rf_ff_width(p, layer), 1, \
      p->ffn_bias && rf_is_dense(p, layer)) \
    X(down_bias, "ffn_down.bias", "mlp.down_proj.bias", VECTOR, p->n_embd, 1, \
      p->ffn_bias && rf_is_dense(p, layer)) \
    X(sinks, "attn_sinks.weight", "self_attn.sinks", VECTOR, p->n_head, 1, \
      p->attn_sinks && rf_has_attention(p, layer)) \
    X(router, RF_ROUTER, RF_HF_ROUTER(p), ROUTER, p->n_embd, p->n_expert, \
      rf_has_experts(p, layer)) \
    X(gate_exps, "ffn_gate_exps.weight", "mlp.experts.*.gate_proj.weight", EXPERTS, p->n_embd, \
      p->n_ff, rf_has_experts(p, layer) && !p->no_gate) \
    X(up_exps, "ffn_up_exps.weight", "mlp.experts.*.up_proj.weight", EXPERTS, p->n_embd, \
      p->n_ff, rf_has_experts(p, layer)) \
    X(down_exps, "ffn_down_exps.weight", "mlp.experts.*.down_proj.weight", EXPERTS, p->n_ff, \
      p->n_embd, rf_has_experts(p, layer)) \
    X(router_choice, "exp_probs_b.bias", "feed_forward.expert_bias", VECTOR, p->n_expert, 1, \
      p->expert_choice_bias && rf_has_experts(p, layer)) \
    X(router_bias, "ffn_gate_inp.bias", "mlp.router.bias", VECTOR, p->n_expert, 1, p->expert_bias) \
    X(gate_exps_bias, "ffn_gate_exps.bias", "mlp.experts.gate_proj_bias", VECTOR, p->n_ff, \
      p->n_expert, p->expert_bias) \
    X(up_exps_bias, "ffn_up_exps.bias", "mlp.experts.up_proj_bias", VECTOR, p->n_ff, \
      p->n_expert, p->expert_bias) \
    X(down_exps_bias, "ffn_down_exps.bias", "mlp.experts.down_proj_bias", VECTOR, p->n_embd, \
      p->n_expert, p->expert_bias) \
    X(shared_router, "ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight", ROUTER, \
      p->n_embd, 1, rf_has_shared(p, layer) && !p->shared_whole) \
    X(shared_gate, "ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight", MATRIX, \
      p->n_embd, p->n_ff_shared, rf_has_shared(p, layer) && !p->no_gate) \
    X(shared_up, "ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight", MATRIX, p->n_embd, \
      p->n_ff_shared, rf_has_shared(p, layer)) \
    X(shared_down, "ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", MATRIX, \
      p->n_ff_shared, p->n_embd, rf_has_shared(p, layer))

/* Tensors that hold others' rows one behind the other, those of the delta rule by head of k
 * (model/adapt.c). In GGUF gate and up are called after the second. */
#define RF_EACH_FUSED_TENSOR(X) \
    X(qkv, "attn_qkv.weight", "self_attn.qkv_proj.weight", MATRIX, p->n_embd, \
      rf_n_q(p, 0) + 2 * rf_n_kv(p, 0), p->fused & RF_FUSED_QKV) \
    X(gate_up, "ffn_up.weight", "mlp.gate_up_proj.weight", MATRIX, p->n_embd, 2 * p->n_ff, \
      p->fused & RF_FUSED_GATE_UP) \
    X(shared_gate_up, "ffn_up_shexp.weight", "mlp.shared_expert.gate_up_proj.weight", MATRIX, \
      p->n_embd, 2 * p->n_ff_shared, p->fused & RF_FUSED_SHARED && p->n_ff_shared) \
    X(mamba_in, "ssm_in.weight", "mamba.in_proj.weight", MATRIX, p->n_embd, \
      rf_delta_values(p) + rf_delta_mixed(p) + p->delta_values, p->fused & RF_FUSED_MAMBA) \
    X(delta_in, RF_DELTA_IN, "linear_attn.in_proj_qkvz.weight", MATRIX, p->n_embd, \
      rf_delta_mixed(p) + rf_delta_values(p), p->fused & RF_FUSED_DELTA) \
    X(delta_gates, RF_DELTA_GATES, "linear_attn.in_proj_ba.weight", MATRIX, p->n_embd, \
      2 * p->delta_values, p->fused & RF_FUSED_DELTA)
/* clang-format on */

#define RF_COUNT_TENSOR(...) +1
enum {
    RF_MODEL_TENSORS = RF_EACH_MODEL_TENSOR(RF_COUNT_TENSOR),
    RF_LAYER_TENSORS = RF_EACH_LAYER_TENSOR(RF_COUNT_TENSOR)
};

static inline int rf_has_shared(const struct rf_params *params, int32_t layer)
{
    return params->n_ff_shared && rf_has_experts(params, layer);
}

static inline int64_t rf_n_q(const struct rf_params *params, int32_t layer)
{
    return (int64_t)params->n_head * rf_head_dim(params, layer);
}

/* Rows of attn_q.weight. */
static inline int64_t rf_n_q_rows(const struct rf_params *params, int32_t layer)
{
    int64_t rows =
        params->latent ? (int64_t)params->n_head * rf_head_query(params) : rf_n_q(params, layer);
    return rows * (params->attn_gate ? 2 : 1);
}

/* Columns of attn_output.weight. */
static inline int64_t rf_n_attended(const struct rf_params *params, int32_t layer)
{
    return params->latent ? (int64_t)params->n_head * params->head_value : rf_n_q(params, layer);
}

static inline int64_t rf_n_kv(const struct rf_params *params, int32_t layer)
{
    return (int64_t)rf_n_head_kv(params, layer) * rf_head_dim(params, layer);
}

static inline int64_t rf_q_norm(const struct rf_params *params, int32_t layer)
{
    return params->qk_norm_rows ? rf_n_q(params, layer) : rf_head_dim(params, layer);
}

static inline int64_t rf_k_norm(const struct rf_params *params, int32_t layer)
{
    return params->qk_norm_rows ? rf_n_kv(params, layer) : rf_head_dim(params, layer);
}

#endif
