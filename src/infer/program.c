/* Writes a model's forward pass as a list of operations over buffers, once for each view, and
 * runs views. This is the one place that knows the order of a transformer's operations; backends
 * know only the operations. Sequences call rf_view_run. */
#include "infer/program.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "infer/features.h"
#include "infer/pass.h"

enum { HEAD_OPS = 3 };

static enum rf_slot tap_slot(int32_t tap)
{
    return (enum rf_slot)(RF_SLOT_TAP + tap);
}

static float factor_or_1(float factor)
{
    return factor != 0 ? factor : 1;
}

static struct rf_op *add_op(struct rf_program *program, enum rf_op_kind kind, int32_t layer,
                            enum rf_slot in, enum rf_slot out, const struct rf_weight *weight)
{
    struct rf_op *op = &program->body[program->n_body++];
    *op = (struct rf_op){
        .kind = kind, .layer = layer, .n = 1, .in = {in}, .out = {out}, .weight = {weight}};
    return op;
}

static void add_tap(struct rf_program *program, int32_t layer,
                    const struct rf_view_options *options)
{
    for (int32_t t = 0; t < options->n_taps; t++) {
        if (options->taps[t] == layer)
            add_op(program, RF_OP_COPY, layer, RF_SLOT_X, tap_slot(t), NULL);
    }
    program->n_body += rf_features_tap(options->head, layer, program->body + program->n_body);
}

/* Repeats the last operation with a tap as its result. */
static void tap_input(struct rf_program *program, enum rf_layer_input input)
{
    struct rf_op *op = &program->body[program->n_body++];
    *op = op[-1];
    op->out[0] = tap_slot((int32_t)input);
    op->may_stop = 0;
}

/* A layer's own buffer in the place of a common one. */
static enum rf_slot slot_of(const struct rf_params *params, int32_t i, enum rf_slot common)
{
    int is_window =
            rf_has_layer_sizes(params) && params->window_head_dim && rf_has_window(params, i),
        is_wide = params->n_ff_shared_kv && rf_shares_keys(params, i);
    switch ((int)common) {
    case RF_SLOT_Q: return is_window ? RF_SLOT_WINDOW_Q : common;
    case RF_SLOT_K: return is_window ? RF_SLOT_WINDOW_K : common;
    case RF_SLOT_V: return is_window ? RF_SLOT_WINDOW_V : common;
    case RF_SLOT_ATTENDED: return is_window ? RF_SLOT_WINDOW_ATTENDED : common;
    case RF_SLOT_GATE: return is_wide ? RF_SLOT_WIDE_GATE : common;
    case RF_SLOT_GATED: return is_wide ? RF_SLOT_WIDE_GATED : common;
    }
    return common;
}

/* Gate and up of RF_SLOT_NORMED, and their gated product, to the three slots from `to` on. */
static struct rf_op *add_gated(struct rf_program *program, int32_t i, enum rf_slot to,
                               const struct rf_weight *gate, const struct rf_weight *up)
{
    struct rf_op *both = add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED, to, gate);
    both->n = 2;
    both->out[1] = (enum rf_slot)(to + 1);
    both->weight[1] = up;
    add_op(program, program->params->gelu ? RF_OP_GELU_GATE : RF_OP_SILU_GATE, i, to,
           (enum rf_slot)(to + 2), NULL)
        ->in[1] = (enum rf_slot)(to + 1);
    return both;
}

/* The same without a gate. */
static struct rf_op *add_ungated(struct rf_program *program, int32_t i, enum rf_slot in,
                                 enum rf_slot to, const struct rf_weight *up)
{
    enum rf_slot made = (enum rf_slot)(to + 1);
    struct rf_op *linear =
        add_op(program, in == RF_SLOT_CHOSEN ? RF_OP_EXPERT_LINEAR : RF_OP_LINEAR, i, in, made, up);
    add_op(program, program->params->relu2 ? RF_OP_RELU2 : RF_OP_GELU, i, made,
           (enum rf_slot)(to + 2), NULL)
        ->is_exact = program->params->gelu_exact;
    return linear;
}

/* The expert that every row has, times the sigmoid of a value of its own router. */
static void add_shared(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    struct rf_op *all =
        add_gated(program, i, RF_SLOT_SHARED_GATE, layer->shared_gate, layer->shared_up);
    all->n = 3;
    all->out[2] = RF_SLOT_SHARE;
    all->weight[2] = layer->shared_router;
    add_op(program, RF_OP_LINEAR, i, RF_SLOT_SHARED_GATED, RF_SLOT_BRANCH, layer->shared_down);
    add_op(program, RF_OP_ADD_SHARE, i, RF_SLOT_BRANCH, RF_SLOT_X, NULL)->in[1] = RF_SLOT_SHARE;
}

/* The expert that every row has as it is, and the chosen ones, together times a factor. */
static void add_whole_shared(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    if (layer->shared_gate)
        add_gated(program, i, RF_SLOT_SHARED_GATE, layer->shared_gate, layer->shared_up);
    else
        add_ungated(program, i, RF_SLOT_NORMED, RF_SLOT_SHARED_GATE, layer->shared_up);
    add_op(program, RF_OP_LINEAR, i, RF_SLOT_SHARED_GATED, RF_SLOT_BRANCH, layer->shared_down);
    add_op(program, RF_OP_SUM_EXPERTS, i, RF_SLOT_ANSWERED, RF_SLOT_BRANCH, NULL)->scale =
        factor_or_1(program->params->expert_scale);
    add_op(program, RF_OP_ADD, i, RF_SLOT_BRANCH, RF_SLOT_X, NULL)->scale =
        factor_or_1(program->params->residual_scale);
}

/* Gate and up of the chosen experts, and their gated product. */
static void add_gated_experts(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    struct rf_op *both = add_op(program, RF_OP_EXPERT_LINEAR, i, RF_SLOT_CHOSEN,
                                RF_SLOT_EXPERT_GATE, layer->gate_exps);
    both->n = 2;
    both->out[1] = RF_SLOT_EXPERT_UP;
    both->weight[1] = layer->up_exps;
    both->bias[0] = layer->gate_exps_bias;
    both->bias[1] = layer->up_exps_bias;
    struct rf_op *gate =
        add_op(program, RF_OP_SILU_GATE, i, RF_SLOT_EXPERT_GATE, RF_SLOT_EXPERT_GATED, NULL);
    gate->in[1] = RF_SLOT_EXPERT_UP;
    gate->scale = program->params->gate_alpha;
    gate->cap = program->params->gate_limit;
}

/* The feed-forward after its norm, with experts. */
static void add_experts(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    const struct rf_params *params = program->params;
    add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED, RF_SLOT_ROUTED, layer->router)->bias[0] =
        layer->router_bias;
    struct rf_op *choose =
        add_op(program, RF_OP_CHOOSE_EXPERTS, i, RF_SLOT_ROUTED, RF_SLOT_CHOSEN, layer->up_exps);
    choose->in[1] = RF_SLOT_NORMED;
    choose->bias[0] = layer->router_choice;
    choose->weight[1] = layer->down_exps;
    choose->weight[2] = layer->gate_exps;
    if (layer->gate_exps)
        add_gated_experts(program, i, layer);
    else
        add_ungated(program, i, RF_SLOT_CHOSEN, RF_SLOT_EXPERT_GATE, layer->up_exps);
    add_op(program, RF_OP_EXPERT_LINEAR, i, RF_SLOT_EXPERT_GATED, RF_SLOT_ANSWERED,
           layer->down_exps)
        ->bias[0] = layer->down_exps_bias;
    if (params->shared_whole) {
        add_whole_shared(program, i, layer);
        return;
    }
    add_op(program, RF_OP_SUM_EXPERTS, i, RF_SLOT_ANSWERED, RF_SLOT_X, NULL)->scale =
        factor_or_1(params->expert_scale);
    if (layer->shared_gate) add_shared(program, i, layer);
}

static void add_attention(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    const struct rf_params *params = program->params;
    struct rf_op *op =
        add_op(program, RF_OP_ATTENTION, rf_kv_layer(params, i), slot_of(params, i, RF_SLOT_Q),
               slot_of(params, i, RF_SLOT_ATTENDED), NULL);
    op->scale = params->attention_scale > 0 ? params->attention_scale
                                            : 1.0f / sqrtf((float)params->head_dim);
    op->cap = params->attention_cap;
    op->weight[0] = layer->sinks;
    if (rf_layer_flags(params, i) & RF_LAYER_WINDOW) op->window = params->window;
}

/* x += a matrix's result, with a norm or a factor between where the architecture has one. */
static void add_branch(struct rf_program *program, int32_t i, enum rf_slot in,
                       const struct rf_weight *matrix, const struct rf_weight *bias,
                       const struct rf_weight *post_norm)
{
    float factor = factor_or_1(program->params->residual_scale);
    int is_direct = !post_norm && factor == 1;
    struct rf_op *op =
        add_op(program, RF_OP_LINEAR, i, in, is_direct ? RF_SLOT_X : RF_SLOT_BRANCH, matrix);
    op->bias[0] = bias;
    op->accumulate = is_direct;
    if (is_direct) return;
    add_op(program, RF_OP_ADD, i, RF_SLOT_BRANCH, RF_SLOT_X, post_norm)->scale = factor;
}

/* The input of a branch: the norm of x, or x itself where the norm comes after it. */
static struct rf_op *add_input(struct rf_program *program, int32_t i, const struct rf_weight *norm,
                               const struct rf_weight *bias)
{
    struct rf_op *op =
        add_op(program, norm ? RF_OP_NORM : RF_OP_COPY, i, RF_SLOT_X, RF_SLOT_NORMED, norm);
    op->bias[0] = bias;
    op->is_centred = norm && program->params->layer_norm;
    return op;
}

/* The branch of a layer with a convolution in place of attention. */
static void add_conv(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED, RF_SLOT_CONV, layer->conv_in)->bias[0] =
        layer->conv_in_bias;
    add_op(program, RF_OP_SHORT_CONV, i, RF_SLOT_CONV, RF_SLOT_CONVOLVED, layer->conv)->bias[0] =
        layer->conv_bias;
    add_branch(program, i, RF_SLOT_CONVOLVED, layer->conv_out, layer->conv_out_bias,
               layer->attn_post_norm);
}

/* The branch of a layer with the delta rule. */
static void add_delta(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    struct rf_op *in =
        add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED, RF_SLOT_MIXED, layer->delta_qkv);
    in->n = 2;
    in->out[1] = RF_SLOT_Z;
    in->weight[1] = layer->delta_z;
    in = add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED, RF_SLOT_BETA, layer->delta_beta);
    in->n = 2;
    in->out[1] = RF_SLOT_ALPHA;
    in->weight[1] = layer->delta_alpha;
    program->body[program->n_body++] =
        (struct rf_op){.kind = RF_OP_DELTA,
                       .layer = i,
                       .in = {RF_SLOT_MIXED, RF_SLOT_BETA, RF_SLOT_ALPHA},
                       .out = {RF_SLOT_RECALLED},
                       .weight = {layer->delta_conv, layer->delta_decay, layer->delta_step}};
    add_op(program, RF_OP_NORM_GATE, i, RF_SLOT_RECALLED, RF_SLOT_DELTA, layer->delta_norm)->in[1] =
        RF_SLOT_Z;
    add_branch(program, i, RF_SLOT_DELTA, layer->delta_out, NULL, layer->attn_post_norm);
}

/* The branch of a layer with Mamba-2. */
static void add_mamba(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    program->body[program->n_body++] =
        (struct rf_op){.kind = RF_OP_LINEAR,
                       .layer = i,
                       .n = 3,
                       .in = {RF_SLOT_NORMED},
                       .out = {RF_SLOT_Z, RF_SLOT_MIXED, RF_SLOT_BETA},
                       .weight = {layer->mamba_z, layer->mamba_xbc, layer->mamba_dt}};
    program->body[program->n_body++] =
        (struct rf_op){.kind = RF_OP_MAMBA,
                       .layer = i,
                       .in = {RF_SLOT_MIXED, RF_SLOT_BETA, RF_SLOT_ALPHA},
                       .out = {RF_SLOT_RECALLED},
                       .weight = {layer->mamba_conv, layer->mamba_decay, layer->mamba_step},
                       .bias = {layer->mamba_conv_bias, layer->mamba_skip}};
    add_op(program, RF_OP_GATE_NORM, i, RF_SLOT_RECALLED, RF_SLOT_DELTA, layer->mamba_norm)->in[1] =
        RF_SLOT_Z;
    add_branch(program, i, RF_SLOT_DELTA, layer->mamba_out, NULL, layer->attn_post_norm);
}

static enum rf_rotation layer_rotation(const struct rf_params *params, int32_t i)
{
    int flags = rf_layer_flags(params, i);
    if (flags & RF_LAYER_NO_ROPE) return RF_ROTATE_NOT;
    return flags & RF_LAYER_LOCAL_ROPE ? RF_ROTATE_LOCAL : RF_ROTATE_GLOBAL;
}

/* Rotation and the cache. Norms are of each head, or of the whole row. */
static void add_rope_store(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    const struct rf_params *params = program->params;
    int whole = params->qk_norm_rows;
    enum rf_slot k = slot_of(params, i, RF_SLOT_K);
    if (whole) {
        add_op(program, RF_OP_NORM, i, RF_SLOT_Q, RF_SLOT_Q, layer->q_norm);
        add_op(program, RF_OP_NORM, i, RF_SLOT_K, RF_SLOT_K, layer->k_norm);
    }
    program->body[program->n_body++] =
        (struct rf_op){.kind = RF_OP_ROPE_STORE,
                       .layer = rf_kv_layer(params, i),
                       .in = {slot_of(params, i, RF_SLOT_Q), k,
                              rf_v_is_k(params, i) ? k : slot_of(params, i, RF_SLOT_V)},
                       .rotation = layer_rotation(params, i),
                       .is_query = rf_shares_keys(params, i),
                       .norms_v = params->v_norm,
                       .weight = {whole ? NULL : layer->q_norm, whole ? NULL : layer->k_norm}};
}

/* A row's queries, [n_head][head_nope + rope_dim], and its latent with the rotated part behind it.
 */
static void add_latent_inputs(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    struct rf_op *in =
        add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED,
               layer->q_a ? RF_SLOT_Q_LOW : RF_SLOT_Q_BOTH, layer->q_a ? layer->q_a : layer->q);
    in->n = 2;
    in->out[1] = RF_SLOT_K;
    in->weight[1] = layer->kv_a;
    float eps = program->params->latent_eps;
    add_op(program, RF_OP_NORM, i, RF_SLOT_K, RF_SLOT_K, layer->kv_a_norm)->eps = eps;
    if (!layer->q_a) return;
    add_op(program, RF_OP_NORM, i, RF_SLOT_Q_LOW, RF_SLOT_Q_LOW_IN, layer->q_a_norm)->eps = eps;
    add_op(program, RF_OP_LINEAR, i, RF_SLOT_Q_LOW_IN, RF_SLOT_Q_BOTH, layer->q_b);
}

/* Latent attention, absorbed: queries become latents, so that a row's latent is key and value of
 * all heads as it is, and what a head attended to, a latent again, becomes its values. */
static void add_latent(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    add_latent_inputs(program, i, layer);
    struct rf_op *split =
        add_op(program, RF_OP_SPLIT_HEADS, i, RF_SLOT_Q_BOTH, RF_SLOT_Q_NOPE, NULL);
    split->n = 2;
    split->out[1] = RF_SLOT_Q;
    add_op(program, RF_OP_HEAD_LINEAR, i, RF_SLOT_Q_NOPE, RF_SLOT_Q, layer->k_b);
    program->body[program->n_body++] =
        (struct rf_op){.kind = RF_OP_ROPE_STORE,
                       .layer = i,
                       .in = {RF_SLOT_Q, RF_SLOT_K, RF_SLOT_K},
                       .rotation = layer_rotation(program->params, i)};
    add_attention(program, i, layer);
    program->body[program->n_body - 1].out[0] = RF_SLOT_UNGATED;
    add_op(program, RF_OP_SPLIT_HEADS, i, RF_SLOT_UNGATED, RF_SLOT_LATENTS, NULL);
    add_op(program, RF_OP_HEAD_LINEAR, i, RF_SLOT_LATENTS, RF_SLOT_VALUES, layer->v_b);
    add_op(program, RF_OP_COPY, i, RF_SLOT_VALUES, RF_SLOT_ATTENDED, NULL);
    add_branch(program, i, RF_SLOT_ATTENDED, layer->o, layer->o_bias, layer->attn_post_norm);
}

/* Queries, keys and values, and attention over them. */
static void add_attention_branch(struct rf_program *program, int32_t i,
                                 const struct rf_layer *layer, int taps_inputs)
{
    const struct rf_params *params = program->params;
    int has_gate = params->attn_gate;
    program->body[program->n_body++] =
        (struct rf_op){.kind = RF_OP_LINEAR,
                       .layer = i,
                       .n = rf_shares_keys(params, i) ? 1
                            : rf_v_is_k(params, i)    ? 2
                                                      : 3,
                       .in = {RF_SLOT_NORMED},
                       .out = {has_gate ? RF_SLOT_Q_BOTH : slot_of(params, i, RF_SLOT_Q),
                               slot_of(params, i, RF_SLOT_K), slot_of(params, i, RF_SLOT_V)},
                       .weight = {layer->q, layer->k, layer->v},
                       .bias = {layer->q_bias, layer->k_bias, layer->v_bias}};
    if (has_gate)
        add_op(program, RF_OP_SPLIT_GATE, i, RF_SLOT_Q_BOTH, RF_SLOT_Q, NULL)->out[1] =
            RF_SLOT_Q_GATE;
    add_rope_store(program, i, layer);
    add_attention(program, i, layer);
    if (has_gate) {
        program->body[program->n_body - 1].out[0] = RF_SLOT_UNGATED;
        add_op(program, RF_OP_SIGMOID_GATE, i, RF_SLOT_UNGATED, RF_SLOT_ATTENDED, NULL)->in[1] =
            RF_SLOT_Q_GATE;
    }
    if (taps_inputs) tap_input(program, RF_INPUT_O);
    add_branch(program, i, slot_of(params, i, RF_SLOT_ATTENDED), layer->o, layer->o_bias,
               layer->attn_post_norm);
}

/* The feed-forward of RF_SLOT_NORMED, up to the operand of its last matrix. */
static void add_dense(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    if (layer->gate) {
        struct rf_op *both = add_gated(program, i, slot_of(program->params, i, RF_SLOT_GATE),
                                       layer->gate, layer->up);
        both->bias[0] = layer->gate_bias;
        both->bias[1] = layer->up_bias;
        return;
    }
    add_ungated(program, i, RF_SLOT_NORMED, RF_SLOT_GATE, layer->up)->bias[0] = layer->up_bias;
}

/* Makes the residual stream its own norm, which is also the next branch's input. */
static void add_stream_norm(struct rf_program *program, int32_t i, const struct rf_weight *norm,
                            const struct rf_weight *bias)
{
    struct rf_op *op = add_op(program, RF_OP_NORM, i, RF_SLOT_X, RF_SLOT_X, norm);
    op->is_centred = program->params->layer_norm;
    op->bias[0] = bias;
}

/* A layer of an encoder: norms follow the sums. One cache serves all layers, as no later pass reads
 * the keys and values. */
static void add_encoder_layer(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    add_op(program, RF_OP_COPY, i, RF_SLOT_X, RF_SLOT_NORMED, NULL)->may_stop = 1;
    int32_t first = program->n_body;
    add_attention_branch(program, i, layer, 0);
    for (struct rf_op *op = program->body + first; op < program->body + program->n_body; op++) {
        if (op->kind == RF_OP_ATTENTION) op->is_whole = 1;
        if (op->kind == RF_OP_ATTENTION || op->kind == RF_OP_ROPE_STORE) op->layer = 0;
    }
    add_stream_norm(program, i, layer->attn_out_norm, layer->attn_out_norm_bias);
    add_op(program, RF_OP_COPY, i, RF_SLOT_X, RF_SLOT_NORMED, NULL);
    add_dense(program, i, layer);
    add_branch(program, i, RF_SLOT_GATED, layer->down, layer->down_bias, NULL);
    add_stream_norm(program, i, layer->layer_out_norm, layer->layer_out_norm_bias);
}

/* Adds what a layer's own embedding of the token gives, then scales the result. */
static void add_layer_input(struct rf_program *program, int32_t i, const struct rf_layer *layer)
{
    if (layer->input_gate) {
        add_op(program, RF_OP_COPY, i, RF_SLOT_X, RF_SLOT_NORMED, NULL);
        add_op(program, RF_OP_LINEAR, i, RF_SLOT_NORMED, RF_SLOT_LAYER_GATE, layer->input_gate);
        struct rf_op *gate =
            add_op(program, RF_OP_GELU_GATE, i, RF_SLOT_LAYER_GATE, RF_SLOT_LAYER_GATED, NULL);
        gate->in[1] = RF_SLOT_LAYER_INPUTS;
        gate->column = i * program->params->n_embd_layer;
        add_branch(program, i, RF_SLOT_LAYER_GATED, layer->input_proj, NULL,
                   layer->input_post_norm);
    }
    if (layer->scale) add_op(program, RF_OP_SCALE, i, RF_SLOT_X, RF_SLOT_X, layer->scale);
}

/* Embeddings of the layers, from those of the token and its own. */
static void add_layer_inputs(struct rf_program *program, const struct rf_model *model)
{
    if (!model->layer_embd) return;
    add_op(program, RF_OP_COPY, -1, RF_SLOT_X, RF_SLOT_NORMED, NULL);
    add_op(program, RF_OP_LINEAR, -1, RF_SLOT_NORMED, RF_SLOT_LAYER_INPUTS, model->layer_proj);
    struct rf_op *op = add_op(program, RF_OP_LAYER_INPUTS, -1, RF_SLOT_LAYER_INPUTS,
                              RF_SLOT_LAYER_INPUTS, model->layer_proj_norm);
    op->weight[1] = model->layer_embd;
    op->scale = 1.0f / sqrtf((float)program->params->n_embd);
}

/* An architecture with the same parts in another order would differ here. */
static void add_layer(struct rf_program *program, int32_t i, const struct rf_layer *layer,
                      int taps_inputs)
{
    if (program->params->encoder) {
        add_encoder_layer(program, i, layer);
        return;
    }
    add_input(program, i, layer->attn_norm, layer->attn_norm_bias)->may_stop = 1;
    if (taps_inputs) tap_input(program, RF_INPUT_QKV);
    if (layer->conv)
        add_conv(program, i, layer);
    else if (layer->delta_qkv)
        add_delta(program, i, layer);
    else if (layer->mamba_z)
        add_mamba(program, i, layer);
    else if (layer->kv_a)
        add_latent(program, i, layer);
    else if (layer->q)
        add_attention_branch(program, i, layer, taps_inputs);
    if (!layer->router && !layer->up) return;

    if (!program->params->parallel && !program->params->one_branch)
        add_input(program, i, layer->ffn_norm, layer->ffn_norm_bias);
    if (layer->router) {
        add_experts(program, i, layer);
        return;
    }
    if (taps_inputs) tap_input(program, RF_INPUT_FFN);
    add_dense(program, i, layer);
    if (taps_inputs)
        program->body[program->n_body - 1].out[0] = tap_slot(RF_INPUT_DOWN);
    else
        add_branch(program, i, slot_of(program->params, i, RF_SLOT_GATED), layer->down,
                   layer->down_bias, layer->ffn_post_norm);
    add_layer_input(program, i, layer);
}

static void add_head(struct rf_program *program, const struct rf_model *model)
{
    program->head[0] = (struct rf_op){.kind = RF_OP_NORM,
                                      .n = 1,
                                      .in = {RF_SLOT_X},
                                      .out = {RF_SLOT_NORMED},
                                      .is_centred = program->params->layer_norm,
                                      .weight = {model->output_norm},
                                      .bias = {model->output_norm_bias}};
    program->head[1] = (struct rf_op){.kind = RF_OP_LINEAR,
                                      .n = 1,
                                      .in = {RF_SLOT_NORMED},
                                      .out = {RF_SLOT_LOGITS},
                                      .weight = {model->output}};
    program->n_head = 2;
    const struct rf_params *params = program->params;
    if (params->logit_cap > 0 || factor_or_1(params->logit_scale) != 1)
        program->head[program->n_head++] = (struct rf_op){.kind = RF_OP_CAP,
                                                          .n = 1,
                                                          .scale = factor_or_1(params->logit_scale),
                                                          .cap = params->logit_cap,
                                                          .in = {RF_SLOT_LOGITS},
                                                          .out = {RF_SLOT_LOGITS}};
}

static void shape_slots(struct rf_program *program, const struct rf_view_options *options)
{
    const struct rf_params *params = program->params;
    int32_t n_q = params->n_head * params->head_dim, n_kv = params->n_head_kv * params->head_dim;
    int experts = params->n_expert > 0;
    int32_t n_conv = params->conv_rows && !params->delta_values ? params->n_embd : 0,
            n_delta = rf_delta_values(params), n_gate = params->attn_gate ? n_q : 0;
    int32_t n_head = params->n_head, n_both = params->latent ? (int32_t)rf_n_q_rows(params, 0) : 0;
    int32_t n_ff = rf_n_ff_dense(params), n_ff_expert = experts ? params->n_ff : 0,
            of_experts = experts ? params->n_embd : 0;
    int32_t n_window_q = params->n_head * params->window_head_dim, n_inputs = params->n_embd_layer,
            n_window_kv = rf_window_head_kv(params) * params->window_head_dim,
            n_ff_wide = params->n_ff_shared_kv;
    const struct rf_slot_shape slots[RF_SLOT_TAP] = {
        [RF_SLOT_X] = {.width = params->n_embd},
        [RF_SLOT_NORMED] = {.width = params->n_embd, .is_operand = 1, .has_floats = experts},
        [RF_SLOT_Q] = {.width = n_q},
        [RF_SLOT_K] = {.width = n_kv},
        [RF_SLOT_V] = {.width = params->latent ? 0 : n_kv},
        [RF_SLOT_ATTENDED] = {.width = params->latent ? n_head * params->head_value : n_q,
                              .is_operand = 1},
        [RF_SLOT_BRANCH] = {.width = params->n_embd},
        [RF_SLOT_GATE] = {.width = params->no_gate ? 0 : n_ff},
        [RF_SLOT_UP] = {.width = n_ff},
        [RF_SLOT_GATED] = {.width = n_ff, .is_operand = 1},
        [RF_SLOT_ROUTED] = {.width = params->n_expert},
        [RF_SLOT_CHOSEN] = {.width = of_experts, .is_operand = 1, .by_expert = 1},
        [RF_SLOT_EXPERT_GATE] = {.width = n_ff_expert, .by_expert = 1},
        [RF_SLOT_EXPERT_UP] = {.width = n_ff_expert, .by_expert = 1},
        [RF_SLOT_EXPERT_GATED] = {.width = n_ff_expert, .is_operand = 1, .by_expert = 1},
        [RF_SLOT_ANSWERED] = {.width = of_experts, .by_expert = 1},
        [RF_SLOT_SHARED_GATE] = {.width = params->n_ff_shared},
        [RF_SLOT_SHARED_UP] = {.width = params->n_ff_shared},
        [RF_SLOT_SHARED_GATED] = {.width = params->n_ff_shared, .is_operand = 1},
        [RF_SLOT_SHARE] = {.width = params->n_ff_shared > 0},
        [RF_SLOT_CONV] = {.width = 3 * n_conv},
        [RF_SLOT_CONVOLVED] = {.width = n_conv, .is_operand = 1},
        [RF_SLOT_Q_BOTH] = {.width = 2 * n_gate + n_both},
        [RF_SLOT_Q_GATE] = {.width = n_gate},
        [RF_SLOT_UNGATED] = {.width = params->latent ? n_q : n_gate},
        [RF_SLOT_Q_LOW] = {.width = params->latent_q},
        [RF_SLOT_Q_LOW_IN] = {.width = params->latent_q, .is_operand = 1},
        [RF_SLOT_Q_NOPE] = {.width = n_head * params->head_nope, .is_operand = 1, .by_head = 1},
        [RF_SLOT_LATENTS] = {.width = n_head * params->latent, .is_operand = 1, .by_head = 1},
        [RF_SLOT_VALUES] = {.width = n_head * params->head_value},
        [RF_SLOT_MIXED] = {.width = rf_delta_mixed(params)},
        [RF_SLOT_Z] = {.width = n_delta},
        [RF_SLOT_BETA] = {.width = params->delta_values},
        [RF_SLOT_ALPHA] = {.width = params->delta_values},
        [RF_SLOT_RECALLED] = {.width = n_delta},
        [RF_SLOT_DELTA] = {.width = n_delta, .is_operand = 1},
        [RF_SLOT_WINDOW_Q] = {.width = n_window_q},
        [RF_SLOT_WINDOW_K] = {.width = n_window_kv},
        [RF_SLOT_WINDOW_V] = {.width = n_window_kv},
        [RF_SLOT_WINDOW_ATTENDED] = {.width = n_window_q, .is_operand = 1},
        [RF_SLOT_WIDE_GATE] = {.width = n_ff_wide},
        [RF_SLOT_WIDE_UP] = {.width = n_ff_wide},
        [RF_SLOT_WIDE_GATED] = {.width = n_ff_wide, .is_operand = 1},
        [RF_SLOT_LAYER_INPUTS] = {.width = n_inputs * params->n_layer},
        [RF_SLOT_LAYER_GATE] = {.width = n_inputs},
        [RF_SLOT_LAYER_GATED] = {.width = n_inputs, .is_operand = 1},
        [RF_SLOT_LOGITS] = {.width = params->encoder ? 0 : params->n_vocab},
    };
    memcpy(program->slots, slots, sizeof slots);
    const int32_t inputs[RF_LAYER_INPUTS] = {[RF_INPUT_QKV] = params->n_embd,
                                             [RF_INPUT_O] = n_q,
                                             [RF_INPUT_FFN] = params->n_embd,
                                             [RF_INPUT_DOWN] = params->n_ff};
    int32_t n_taps = options->taps_inputs ? RF_LAYER_INPUTS : options->n_taps;
    for (int32_t t = 0; t < n_taps; t++)
        program->slots[tap_slot(t)] =
            (struct rf_slot_shape){.width = options->taps_inputs ? inputs[t] : params->n_embd};
    rf_features_shape(options->head, program->slots);
    program->n_slots = RF_SLOT_TAP + n_taps + (options->head != NULL);
}

void rf_program_one_layer(struct rf_program *program, const struct rf_layer *layer)
{
    add_layer(program, 0, layer, 0);
}

void rf_program_shape_slots(struct rf_program *program)
{
    shape_slots(program, &(struct rf_view_options){.max_rows = 1});
}

/* The program and its operations in one block. */
static int program_new(struct rf_program **program, const struct rf_model *model,
                       const struct rf_view_options *options, struct rf_error *error)
{
    const struct rf_params *params = &model->source->params;
    size_t most = 5 + (size_t)params->n_layer * RF_LAYER_OPS + (size_t)options->n_taps +
                  (options->taps_inputs ? RF_LAYER_INPUTS : 0) +
                  (options->head ? RF_FEATURE_OPS : 0);
    *program =
        rf_calloc(model->allocator, 1, sizeof **program + (most + HEAD_OPS) * sizeof(struct rf_op),
                  "view", error);
    if (!*program) return RF_ERR_MEMORY;
    struct rf_program *made = *program;
    made->params = params;
    made->body = (struct rf_op *)(made + 1);
    made->head = made->body + most;
    shape_slots(made, options);
    struct rf_op *embed = add_op(made, RF_OP_EMBED, -1, RF_SLOT_X, RF_SLOT_X, model->token_embd);
    embed->scale = factor_or_1(params->embedding_scale);
    embed->weight[1] = model->position_embd;
    embed->weight[2] = model->token_types;
    if (params->encoder) add_stream_norm(made, -1, model->embd_norm, model->embd_norm_bias);
    add_layer_inputs(made, model);
    add_tap(made, -1, options);
    for (int32_t i = 0; i < params->n_layer; i++) {
        add_layer(made, i, &model->layers[i], options->taps_inputs);
        add_tap(made, i, options);
    }
    made->n_body += rf_features_ops(options->head, made->body + made->n_body);
    if (!params->encoder) add_head(made, model);
    assert((size_t)made->n_body <= most);
    return 0;
}

/* The shape that a backend is asked for by these options. */
static struct rf_view_shape shape_of(const struct rf_program *program,
                                     const struct rf_view_options *options)
{
    int32_t rows = options->max_rows;
    return (struct rf_view_shape){.program = program,
                                  .precision = options->precision,
                                  .kv = options->kv,
                                  .has_window = options->has_window,
                                  .max_rows = rows,
                                  .max_logits = rows < RF_TREE_ROWS ? rows : RF_TREE_ROWS};
}

uint64_t rf_view_bytes(const struct rf_params *params, const struct rf_backend_kind *kind,
                       const struct rf_view_options *options)
{
    struct rf_program program = {.params = params};
    shape_slots(&program, options);
    const struct rf_view_shape shape = shape_of(&program, options);
    return kind->view_bytes(&shape);
}

int rf_view_of_program(struct rf_view **view, struct rf_program *program,
                       const struct rf_source *source, const struct rf_weights *weights,
                       struct rf_queue *queue, const struct rf_view_options *options,
                       struct rf_error *error)
{
    struct rf_view_shape shape = shape_of(program, options);
    shape.weights = weights;
    int code = queue->backend->ops->view_new(view, queue, &shape, error);
    if (code) {
        rf_free(queue->backend->allocator, program);
        *view = NULL;
        return code;
    }
    (*view)->backend = queue->backend;
    (*view)->source = source;
    (*view)->shape = shape;
    (*view)->cancel = options->cancel;
    return 0;
}

int rf_view_new(struct rf_view **view, const struct rf_model *model, struct rf_queue *queue,
                const struct rf_view_options *options, struct rf_error *error)
{
    *view = NULL;
    if (options->n_taps < 0 || options->n_taps > RF_MAX_TAPS)
        return rf_fail(error, RF_ERR_ARGUMENT, "n_taps %d: not between 0 and %d", options->n_taps,
                       RF_MAX_TAPS);
    assert(!options->taps_inputs || (!options->n_taps && model->source->params.n_layer == 1 &&
                                     !rf_has_state(&model->source->params, 0)));
    assert(!options->head || (!options->n_taps && !options->taps_inputs));
    for (int32_t t = 0; t < options->n_taps; t++)
        if (options->taps[t] < (t ? options->taps[t - 1] + 1 : -1) ||
            options->taps[t] >= model->source->params.n_layer)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "taps[%d]: layer %d is not between -1 and %d, or not in order", t,
                           options->taps[t], model->source->params.n_layer - 1);
    struct rf_program *program;
    int code = program_new(&program, model, options, error);
    if (code) return code;
    return rf_view_of_program(view, program, model->source, model->weights, queue, options, error);
}

void rf_view_free(struct rf_view *view)
{
    if (!view) return;
    const struct rf_allocator *allocator = view->backend->allocator;
    const struct rf_program *program = view->shape.program;
    view->backend->ops->view_free(view);
    rf_free(allocator, (void *)program);
}

int rf_view_run(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    view->passes++;
    int code = rf_pass_check(view, pass, error);
    if (!code) code = view->backend->ops->submit(view, pass, error);
    if (!code) code = view->backend->ops->sync(view, error);
    return code ? code : rf_source_check(view->source, error);
}
