/* The launches of a pass: one for each operation of the program, or one for several where a kernel
 * can do them together. pass.c records them; nothing here waits for the device. */
#include <math.h>
#include <string.h>

#include "gpu/view.h"

static struct gpu_pass device_pass(const struct gpu_view *view)
{
    return (struct gpu_pass){
        .rows = (const struct gpu_row *)(void *)(view->device + view->upload.rows),
        .tiles = (const struct gpu_tile *)(void *)(view->device + view->upload.tiles),
        .maps = gpu_device_ints(view, view->upload.maps),
        .blocks = (uint16_t *const *)(void *)(view->device + view->upload.blocks),
        .groups = (uint8_t *const *)(void *)(view->device + view->upload.groups)};
}

static const float *gain_of(const struct rf_weight *weight)
{
    return weight ? weight->data : NULL;
}

/* A slot's rows, in the forms that a pass or a head over n rows uses. */
static struct gpu_rows rows_of(const struct gpu_view *view, int32_t slot, int32_t n)
{
    struct gpu_rows rows = view->slots[slot];
    int is_wide = n > GPU_NARROW_ROWS;
    if (is_wide && rows.arranged) rows.bf16 = NULL;
    if (is_wide && rows.pieces) {
        rows.codes = NULL;
        rows.scales = rows.halves = NULL;
    }
    if (!is_wide) rows.arranged = NULL;
    if (!is_wide) rows.pieces = NULL;
    return rows;
}

static int32_t parts_of_layer(const struct rf_op *op)
{
    size_t rows = 0;
    for (int32_t l = 0; l < op->n; l++) rows += op->weight[l]->plan.rows;
    return op->kind == RF_OP_EXPERT_LINEAR ? (int32_t)GPU_PARTS : gpu_parts(rows);
}

/* ---- folded norms ---- */

static int writes(const struct rf_op *op, enum rf_slot slot)
{
    int32_t n = op->n > 1 ? op->n : 1;
    for (int32_t l = 0; l < n; l++)
        if (op->out[l] == slot) return 1;
    return 0;
}

static int reads(const struct rf_op *op, enum rf_slot slot)
{
    for (int i = 0; i < RF_OP_INPUTS; i++)
        if (op->in[i] == slot) return 1;
    return 0;
}

static int takes_bf16(const struct rf_op *op)
{
    for (int32_t l = 0; l < op->n; l++)
        if (op->weight[l]->plan.format != RF_FORMAT_BF16) return 0;
    return op->kind == RF_OP_LINEAR;
}

/* 1 if the layers behind an operation of the body can take over its norm: they alone read its
 * results, in BF16. */
static int is_folded(const struct gpu_view *view, const struct rf_op *norm)
{
    const struct rf_program *program = view->base.shape.program;
    const struct gpu_rows *out = &view->slots[norm->out[0]];
    enum rf_slot slot = norm->out[0];
    if (norm->kind != RF_OP_NORM || norm->is_centred || norm->in[0] != RF_SLOT_X || !out->bf16 ||
        out->f32 || out->width % GPU_PAIR)
        return 0;
    for (const struct rf_op *op = norm + 1; op < program->body + program->n_body; op++) {
        if (reads(op, slot) && !takes_bf16(op)) return 0;
        if (writes(op, slot)) break;
    }
    return 1;
}

static struct gpu_fold fold_of(const struct gpu_view *view, const struct rf_op *norm)
{
    return (struct gpu_fold){.gain = norm->weight[0]->data,
                             .squares = view->squares,
                             .scales = view->row_scales,
                             .eps = view->params->rms_eps};
}

/* The operation of the body that wrote the input of another one, or NULL. */
static const struct rf_op *writer_of_input(const struct gpu_view *view, const struct rf_op *op)
{
    const struct rf_program *program = view->base.shape.program;
    if (op < program->body || op >= program->body + program->n_body) return NULL;
    for (const struct rf_op *earlier = op - 1; earlier >= program->body; earlier--)
        if (writes(earlier, op->in[0])) return earlier;
    return NULL;
}

/* A slot in BF16 alone. */
static struct gpu_rows slot_in_bf16(const struct gpu_view *view, int32_t slot)
{
    struct gpu_rows rows = rows_of(view, slot, view->n_rows);
    return (struct gpu_rows){
        .bf16 = rows.bf16, .arranged = rows.arranged, .width = rows.width, .pairs = rows.pairs};
}

/* ---- linear layers ---- */

/* A linear layer's matrices of the format of matrix `first`, times n rows as they are. */
static struct gpu_linear plain_linear(const struct gpu_view *view, const struct rf_op *op,
                                      int32_t first, int32_t n)
{
    int by_expert = op->kind == RF_OP_EXPERT_LINEAR;
    struct gpu_linear args = {.format = op->weight[first]->plan.format,
                              .n = n,
                              .k = (int32_t)op->weight[first]->plan.columns,
                              .accumulate = op->accumulate,
                              .parts = parts_of_layer(op),
                              .x = rows_of(view, op->in[0], n),
                              .groups = by_expert ? view->experts.groups : NULL,
                              .n_groups = by_expert ? gpu_expert_groups(&view->experts, n) : 0};
    for (int32_t l = first; l < op->n; l++) {
        const struct rf_weight *weight = op->weight[l];
        if ((int)weight->plan.format != args.format) continue;
        args.matrices[args.n_matrices++] =
            (struct gpu_matrix){.tiles = weight->data,
                                .bias = gain_of(op->bias[l]),
                                .y = view->slots[op->out[l]].f32,
                                .rows = (int32_t)weight->plan.rows,
                                .of_expert = gpu_matrix_bytes(&weight->plan)};
    }
    return args;
}

/* ---- operations in one launch ---- */

static struct gpu_rope rope_of(const struct gpu_view *view, const struct rf_op *op)
{
    return (struct gpu_rope){.heads = gpu_view_heads(view),
                             .pass = device_pass(view),
                             .q = view->slots[op->in[0]].f32,
                             .k = view->slots[op->in[1]].f32,
                             .v = view->slots[op->in[2]].f32,
                             .q_gain = gain_of(op->weight[0]),
                             .k_gain = gain_of(op->weight[1]),
                             .rotations = view->rotations,
                             .eps = view->params->rms_eps,
                             .temperature = view->params->temperature,
                             .temperature_step = view->params->temperature_step,
                             .half = view->params->rope_dim / 2,
                             .rope_dim = op->rotation == RF_ROTATE_NOT ? 0 : view->params->rope_dim,
                             .is_local = op->rotation == RF_ROTATE_LOCAL,
                             .is_neox = view->params->rope_style == RF_ROPE_NEOX,
                             .layer = op->layer};
}

/* Makes the gate of op[1] part of op[0]. */
static int join_gate(const struct gpu_view *view, const struct rf_op *op, struct gpu_linear *args)
{
    if (op[1].kind != RF_OP_SILU_GATE || op[1].cap > 0 || op[1].in[0] != op->out[0] ||
        op[1].in[1] != op->out[1])
        return 0;
    args->gates = 1;
    args->gated = rows_of(view, op[1].out[0], view->n_rows);
    return gpu_can_gate(args);
}

static int join_rotation(const struct gpu_view *view, const struct rf_op *op,
                         struct gpu_linear *args)
{
    if (op[1].kind != RF_OP_ROPE_STORE || view->params->temperature != 0) return 0;
    for (int i = 0; i < 3; i++)
        if (op[1].in[i] != op->out[i]) return 0;
    args->rotates = 1;
    args->rope = rope_of(view, &op[1]);
    return gpu_can_rotate(args);
}

static int join_norm(const struct gpu_view *view, const struct rf_op *op, struct gpu_linear *args)
{
    /* A layer that read the norm's last results could not replace them. */
    if (!is_folded(view, &op[1]) || op[1].in[0] != op->out[0] || op->in[0] == op[1].out[0])
        return 0;
    args->next = fold_of(view, &op[1]);
    args->normed = slot_in_bf16(view, op[1].out[0]);
    return gpu_can_fold_next(args);
}

/* Makes what is behind a linear layer part of it, if one launch can do both. */
static int join_next(const struct gpu_view *view, const struct rf_op *op, struct gpu_linear *args)
{
    static int (*const joins[])(const struct gpu_view *, const struct rf_op *,
                                struct gpu_linear *) = {join_gate, join_rotation, join_norm};
    const struct rf_program *program = view->base.shape.program;
    if (op->kind != RF_OP_LINEAR || op + 1 >= program->body + program->n_body ||
        args->n_matrices != op->n)
        return 0;
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        struct gpu_linear joined = *args;
        if (!joins[i](view, op, &joined)) continue;
        *args = joined;
        return 1;
    }
    return 0;
}

/* 1 if a layer of one row can do a norm itself. */
static int can_norm(const struct gpu_view *view, const struct rf_op *op)
{
    if (op->kind != RF_OP_LINEAR) return 0;
    for (int32_t l = 0; l < op->n; l++) {
        if (l > 0 && op->weight[l]->plan.format == op->weight[0]->plan.format) continue;
        struct gpu_linear args = plain_linear(view, op, l, 1);
        join_next(view, op, &args);
        if (!gpu_can_norm(&args)) return 0;
    }
    return 1;
}

/* 1 if the layers behind an operation of the body are to do its norm: they alone read its results,
 * which are operands, before its input changes. */
static int is_inside(const struct gpu_view *view, const struct rf_op *norm)
{
    const struct rf_program *program = view->base.shape.program;
    int has_changed = 0;
    if (norm->kind != RF_OP_NORM || norm->is_centred || view->n_rows != 1 ||
        !program->slots[norm->out[0]].is_operand)
        return 0;
    for (const struct rf_op *op = norm + 1; op < program->body + program->n_body; op++) {
        has_changed |= writes(op, norm->in[0]);
        if (reads(op, norm->out[0]) && (has_changed || !can_norm(view, op))) return 0;
        if (writes(op, norm->out[0])) break;
    }
    return 1;
}

/* A linear layer with the norm before it, where that is part of it. */
static struct gpu_linear linear_of(const struct gpu_view *view, const struct rf_op *op,
                                   int32_t first, int32_t n)
{
    struct gpu_linear args = plain_linear(view, op, first, n);
    const struct rf_op *norm = writer_of_input(view, op);
    if (!norm || norm->kind != RF_OP_NORM) return args;
    if (is_folded(view, norm))
        args.fold = fold_of(view, norm);
    else if (is_inside(view, norm))
        args.unnormed = (struct gpu_unnormed){.x = view->slots[norm->in[0]].f32,
                                              .gain = gain_of(norm->weight[0]),
                                              .eps = view->params->rms_eps};
    return args;
}

/* Launches the matrices of one format after the other. */
static cudaError_t launch_linear(const struct gpu_view *view, const struct gpu_launch *launch,
                                 const struct rf_op *op, int32_t n)
{
    cudaError_t status = cudaSuccess;
    for (int32_t l = 0; status == cudaSuccess && l < op->n; l++) {
        int is_done = 0;
        for (int32_t i = 0; i < l; i++)
            is_done |= op->weight[i]->plan.format == op->weight[l]->plan.format;
        if (is_done) continue;
        const struct gpu_linear args = linear_of(view, op, l, n);
        status = gpu_linear(launch, &args);
    }
    return status;
}

static cudaError_t launch_rope_store(const struct gpu_view *view, const struct gpu_launch *launch,
                                     const struct rf_op *op, int32_t n)
{
    const struct gpu_rope args = rope_of(view, op);
    return gpu_rope_store(launch, &args, n);
}

/* Takes as many tiles at a time as there is room for partial results. */
static cudaError_t launch_attention(const struct gpu_view *view, const struct gpu_launch *launch,
                                    const struct rf_op *op)
{
    const struct gpu_tile *tiles = gpu_host_tiles(view);
    int32_t room = gpu_partial_rows(view);
    cudaError_t status = cudaSuccess;
    const struct gpu_rows out = rows_of(view, op->out[0], view->n_rows);
    struct gpu_attention args = {.heads = gpu_view_heads(view),
                                 .pass = device_pass(view),
                                 .q = view->slots[op->in[0]].f32,
                                 .partials = view->partials,
                                 .layer = op->layer,
                                 .parts = view->parts,
                                 .queries = view->queries,
                                 .window = op->window,
                                 .scale = op->scale,
                                 .cap = op->cap,
                                 .sinks = gain_of(op->weight[0])};
    args.has_spans = args.heads.quantised && view->parts > GPU_FEWEST_PARTS;
    if (view->n_jobs)
        status = gpu_quantise(
            launch, &args,
            (const struct gpu_group_job *)(const void *)(view->device + view->upload.jobs),
            view->n_jobs);
    for (int32_t t = 0; status == cudaSuccess && t < view->n_tiles; t += args.n_tiles) {
        int32_t n = 0;
        args.first_tile = t;
        args.first_row = tiles[t].first;
        args.n_tiles = 0;
        while (t + args.n_tiles < view->n_tiles && n + tiles[t + args.n_tiles].n <= room)
            n += tiles[t + args.n_tiles++].n;
        if (args.has_spans) status = gpu_attention_kv(launch, &args);
        if (status == cudaSuccess) status = gpu_attention(launch, &args);
        if (status == cudaSuccess) status = gpu_merge(launch, &args, &out, n);
    }
    return status;
}

static struct gpu_turn turn_of(const struct rf_params *params, enum rf_frequencies set)
{
    const struct rf_rope *rope = rf_rope_of(params, set);
    return (struct gpu_turn){.magnitude = (double)rope->magnitude,
                             .ntk_factor = (double)rope->ntk_factor,
                             .power = -2.0 / (params->rope_dim - 2),
                             .ntk_from = rope->ntk_from};
}

/* The first embedding of a program prepares the rotations. */
static cudaError_t launch_embed(const struct gpu_view *view, const struct gpu_launch *launch,
                                const struct rf_op *op, int32_t n)
{
    const struct rf_params *params = view->params;
    const struct gpu_rows *out = &view->slots[op->out[0]];
    const float *x = (const float *)(const void *)(view->device + view->upload.x);
    size_t before = gpu_input_floats(view, op);
    const struct gpu_rotations rotations = {
        .values = view->rotations,
        .frequencies = view->frequencies,
        .half = before ? 0 : params->rope_dim / 2,
        .local = params->rope_local.theta > 0 ? RF_ROPE_LOCAL : 0,
        .turns = {turn_of(params, RF_ROPE_GLOBAL), turn_of(params, RF_ROPE_LOCAL)}};
    return gpu_begin(launch, out->f32, x + (size_t)n * before, out->width, device_pass(view).rows,
                     n, &rotations);
}

static cudaError_t launch_gate(const struct gpu_view *view, const struct gpu_launch *launch,
                               const struct rf_op *op, int32_t n)
{
    int by_expert = view->base.shape.program->slots[op->out[0]].by_expert;
    const struct gpu_gate args = {.gate = view->slots[op->in[0]].f32,
                                  .up = op->kind == RF_OP_GELU ? NULL : view->slots[op->in[1]].f32,
                                  .is_gelu = op->kind != RF_OP_SILU_GATE,
                                  .scale = op->scale,
                                  .cap = op->cap,
                                  .sources = by_expert ? view->experts.sources : NULL};
    const struct gpu_rows out = rows_of(view, op->out[0], n);
    return gpu_gate(launch, &out, &args, by_expert ? gpu_expert_rows(&view->experts, n) : n);
}

static cudaError_t launch_experts(const struct gpu_view *view, const struct gpu_launch *launch,
                                  const struct rf_op *op, int32_t n)
{
    cudaError_t status = gpu_choose_experts(launch, &view->experts, view->slots[op->in[0]].f32, n);
    return status != cudaSuccess ? status
                                 : gpu_gather(launch, &view->experts, &view->slots[op->out[0]],
                                              view->slots[op->in[1]].f32, n);
}

static cudaError_t launch_add(const struct gpu_view *view, const struct gpu_launch *launch,
                              const struct rf_op *op, int32_t n)
{
    int has_share = op->kind == RF_OP_ADD_SHARE;
    const struct gpu_add args = {.out = view->slots[op->out[0]].f32,
                                 .x = view->slots[op->in[0]].f32,
                                 .gain = gain_of(op->weight[0]),
                                 .share = has_share ? view->slots[op->in[1]].f32 : NULL,
                                 .width = view->slots[op->in[0]].width,
                                 .eps = view->params->rms_eps,
                                 .scale = op->scale};
    return gpu_add(launch, &args, n);
}

/* A norm or a copy to a part of wider rows. */
static cudaError_t launch_part(const struct gpu_view *view, const struct gpu_launch *launch,
                               const struct rf_op *op, const int32_t *picked, int32_t n)
{
    const struct gpu_rows *in = &view->slots[op->in[0]], *out = &view->slots[op->out[0]];
    const struct gpu_part args = {.out = out->f32 + op->column,
                                  .x = in->f32,
                                  .gain = gain_of(op->weight[0]),
                                  .width = in->width,
                                  .whole = out->width,
                                  .eps = view->params->rms_eps};
    return gpu_put_part(launch, &args, picked, n);
}

static cudaError_t launch_norm(const struct gpu_view *view, const struct gpu_launch *launch,
                               const struct rf_op *op, const int32_t *picked, int32_t n)
{
    const struct gpu_rows out = rows_of(view, op->out[0], n);
    const struct gpu_norm_args args = {.x = view->slots[op->in[0]].f32,
                                       .gain = gain_of(op->weight[0]),
                                       .bias = gain_of(op->bias[0]),
                                       .eps = view->params->rms_eps,
                                       .is_centred = op->is_centred,
                                       .picked = picked};
    return gpu_norm(launch, &out, &args, n);
}

/* Norms and linear layers take n rows: all of the pass, or the `picked` rows of the head. */
static cudaError_t launch_op(const struct gpu_view *view, const struct gpu_launch *launch,
                             const struct rf_op *op, const int32_t *picked, int32_t n)
{
    const struct gpu_rows *in = &view->slots[op->in[0]], made = rows_of(view, op->out[0], n),
                          *out = &made;
    switch (op->kind) {
    case RF_OP_EMBED: return launch_embed(view, launch, op, n);
    case RF_OP_NORM:
        return in->width != out->width ? launch_part(view, launch, op, picked, n)
                                       : launch_norm(view, launch, op, picked, n);
    case RF_OP_LINEAR:
    case RF_OP_EXPERT_LINEAR: return launch_linear(view, launch, op, n);
    case RF_OP_ROPE_STORE: return launch_rope_store(view, launch, op, n);
    case RF_OP_ATTENTION: return launch_attention(view, launch, op);
    case RF_OP_SHORT_CONV:
    case RF_OP_DELTA:
    case RF_OP_MAMBA:
    case RF_OP_NORM_GATE:
    case RF_OP_GATE_NORM:
    case RF_OP_SPLIT_GATE:
    case RF_OP_SIGMOID_GATE:
    case RF_OP_RELU2:
    case RF_OP_LAYER_INPUTS:
    case RF_OP_SCALE:
    case RF_OP_SPLIT_HEADS:
    case RF_OP_HEAD_LINEAR: break; /* gpu_can_compute refuses them */
    case RF_OP_SILU_GATE:
    case RF_OP_GELU_GATE:
    case RF_OP_GELU: return launch_gate(view, launch, op, n);
    case RF_OP_CHOOSE_EXPERTS: return launch_experts(view, launch, op, n);
    case RF_OP_SUM_EXPERTS:
        return gpu_sum_experts(launch, &view->experts, out->f32, in->f32, out->width, n);
    case RF_OP_ADD:
    case RF_OP_ADD_SHARE: return launch_add(view, launch, op, n);
    case RF_OP_CAP:
        return gpu_cap(launch, out->f32, in->f32, op->scale, op->cap,
                       (size_t)n * (size_t)out->width);
    case RF_OP_COPY:
        return in->width != out->width ? launch_part(view, launch, op, picked, n)
                                       : gpu_copy(launch, out, in->f32, n);
    }
    return cudaErrorInvalidValue;
}

/* The head over the wanted rows, in groups that fit the logits. */
static cudaError_t launch_head(const struct gpu_view *view, const struct gpu_launch *launch)
{
    const struct rf_program *program = view->base.shape.program;
    const struct rf_pass *pass = &view->pass;
    int32_t most = view->base.shape.max_logits;
    cudaError_t status = cudaSuccess;
    for (int32_t done = 0; status == cudaSuccess && done < pass->n_wanted; done += most) {
        int32_t n = pass->n_wanted - done < most ? pass->n_wanted - done : most;
        for (int32_t o = 0; status == cudaSuccess && o < program->n_head; o++)
            status = launch_op(view, launch, &program->head[o],
                               gpu_device_ints(view, view->upload.wanted) + done, n);
        if (status != cudaSuccess || (!pass->logprobs && !pass->n_best)) continue;
        const struct gpu_choice args = {
            .logits = view->slots[RF_SLOT_LOGITS].f32,
            .masks = view->has_masks ? view->device_masks : NULL,
            .has_mask = gpu_device_ints(view, view->upload.has_mask),
            .targets = gpu_device_ints(view, view->upload.targets) + done,
            .splits = view->splits,
            .best = pass->logprobs ? NULL : view->device_best,
            .logprobs = pass->logprobs ? view->device_logprobs + done : NULL,
            .vocab = view->params->n_vocab,
            .n_best = pass->logprobs ? 0 : pass->n_best};
        status = gpu_choose(launch, &args, n);
    }
    return status;
}

/* Operations from op[0] on, in one launch where that is possible. *taken: how many. */
static cudaError_t launch_next(const struct gpu_view *view, const struct gpu_launch *launch,
                               const struct rf_op *op, int32_t *taken)
{
    int32_t n = view->n_rows;
    if (op->kind == RF_OP_LINEAR) {
        struct gpu_linear args = linear_of(view, op, 0, n);
        *taken = 2;
        if (join_next(view, op, &args)) return gpu_linear(launch, &args);
    }
    *taken = 1;
    if (is_inside(view, op)) return cudaSuccess;
    if (!is_folded(view, op)) return launch_op(view, launch, op, NULL, n);
    const struct gpu_rows out = slot_in_bf16(view, op->out[0]);
    const struct gpu_fold fold = fold_of(view, op);
    return gpu_fold_norm(launch, &out, view->slots[op->in[0]].f32, &fold, n);
}

cudaError_t gpu_launch_all(const struct gpu_view *view, const struct gpu_launch *launch,
                           int *cancelled)
{
    const struct rf_program *program = view->base.shape.program;
    const atomic_int *cancel = view->base.cancel;
    cudaError_t status = cudaSuccess;
    for (int32_t o = 0, taken; status == cudaSuccess && o < program->n_body; o += taken) {
        const struct rf_op *op = &program->body[o];
        int may_stop = op->may_stop || (o > 0 && op[-1].may_stop);
        *cancelled = may_stop && cancel && atomic_load_explicit(cancel, memory_order_relaxed);
        if (*cancelled) return status;
        status = launch_next(view, launch, op, &taken);
    }
    return status == cudaSuccess ? launch_head(view, launch) : status;
}
