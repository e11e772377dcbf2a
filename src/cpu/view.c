/* A view on the cores: its buffers, and the walk through a program's operations. All workers take
 * part in each operation, within one run of the team. When an operation returns, its results are
 * visible to all. backend.c calls this; the operations lie in the files below. */
#include "cpu/cpu.h"

/* ---- making one ---- */

/* 1 if one of the operations reads the slot's rows in this form. */
static int reads_form(const struct cpu_view *view, const struct rf_op *ops, int32_t n,
                      enum rf_slot slot, int form)
{
    for (const struct rf_op *op = ops; op < ops + n; op++) {
        if (op->kind != RF_OP_LINEAR && op->kind != RF_OP_EXPERT_LINEAR &&
            op->kind != RF_OP_HEAD_LINEAR)
            continue;
        for (int32_t l = 0; op->in[0] == slot && l < op->n; l++) /* a layer alone has no output */
            if (op->weight[l] && cpu_form_of(view, op->weight[l]) == form) return 1;
    }
    return 0;
}

static int wants_form(const struct cpu_view *view, enum rf_slot slot, int form)
{
    const struct rf_program *program = view->base.shape.program;
    return reads_form(view, program->body, program->n_body, slot, form) ||
           reads_form(view, program->head, program->n_head, slot, form);
}

/* The kernels for the view's precision. */
static void choose_kernels(struct cpu_view *view)
{
    const struct rf_kernels *kernels = view->kernels;
    for (int f = 0; f < RF_FORMAT_COUNT; f++) {
        int in_16 = f != RF_FORMAT_BF16 && view->base.shape.precision == RF_PRECISION_16;
        view->linear[f] = in_16 ? kernels->linear_a16[f] : kernels->linear[f];
        view->operand[f] = in_16 ? kernels->operand_a16[f] : rf_operand_of((enum rf_format)f);
    }
}

static int buffer_new(struct cpu_view *view, enum rf_slot slot, int32_t rows,
                      struct rf_error *error)
{
    const struct rf_slot_shape *shape = &view->base.shape.program->slots[slot];
    struct cpu_buffer *buffer = &view->buffers[slot];
    buffer->width = (size_t)shape->width;
    buffer->by_expert = shape->by_expert;
    buffer->by_head = shape->by_head;
    if (!buffer->width) return 0;
    if (!shape->is_operand || shape->has_floats) {
        buffer->row_bytes = (buffer->width * sizeof(float) + 63) & ~(size_t)63;
        buffer->data = rf_cpu_view_alloc(view, (size_t)rows, buffer->row_bytes, error);
        if (!buffer->data) return RF_ERR_MEMORY;
    }
    for (int form = 0; shape->is_operand && form < CPU_FORMS; form++) {
        if (!wants_form(view, slot, form)) continue;
        if (form == CPU_SPLIT && view->split_row_floats < RF_SPLIT_PARTS * buffer->width)
            view->split_row_floats = RF_SPLIT_PARTS * buffer->width;
        size_t heads = (size_t)view->params->n_head;
        size_t bytes =
            shape->by_head
                ? heads * rf_cpu_head_bytes(view, (enum rf_operand)form, buffer->width / heads)
            : form == CPU_SPLIT ? view->kernels->packed_bytes[RF_OPERAND_BF16](
                                      (size_t)rows, RF_SPLIT_PARTS * buffer->width)
            : shape->by_expert ? rf_cpu_expert_operand_bytes(view, (enum rf_operand)form,
                                                             (size_t)rows, buffer->width)
                               : view->kernels->packed_bytes[form]((size_t)rows, buffer->width);
        buffer->forms[form] = rf_cpu_view_alloc(view, bytes, 1, error);
        if (!buffer->forms[form]) return RF_ERR_MEMORY;
    }
    return 0;
}

static int rotations_new(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_params *params = view->params;
    size_t half = (size_t)rf_most_rope_dim(params) / 2;
    view->frequencies = rf_cpu_view_alloc(view, RF_ROPE_SETS * half, sizeof(double), error);
    view->rotations = rf_cpu_view_alloc(view, (size_t)view->base.shape.max_rows,
                                        2 * half * 2 * sizeof(float), error);
    if (!view->frequencies || !view->rotations) return RF_ERR_MEMORY;
    for (int32_t set = 0; set < RF_ROPE_SETS; set++)
        for (size_t i = 0; i < (size_t)rf_rope_dim(params, (enum rf_frequencies)set) / 2; i++)
            view->frequencies[(size_t)set * half + i] =
                rf_rope_frequency(params, (enum rf_frequencies)set, (int32_t)i);
    return 0;
}

static int pass_rows_new(struct cpu_view *view, struct rf_error *error)
{
    size_t rows = (size_t)view->base.shape.max_rows;
    view->rows = rf_cpu_view_alloc(view, rows, sizeof *view->rows, error);
    view->groups = rf_cpu_view_alloc(view, rows, sizeof *view->groups, error);
    view->order = rf_cpu_view_alloc(view, rows, sizeof *view->order, error);
    view->branch_ends = rf_cpu_view_alloc(view, rows, sizeof *view->branch_ends, error);
    const struct rf_program *program = view->base.shape.program;
    size_t widest = 0; /* row that a norm or a gate makes */
    for (int32_t s = 0; s < program->n_slots; s++)
        if (s != RF_SLOT_LOGITS && widest < (size_t)program->slots[s].width)
            widest = (size_t)program->slots[s].width;
    view->worker_row_floats = rf_padded(widest);
    view->worker_rows = rf_cpu_view_alloc(view, (size_t)rf_team_size(view->queue->team),
                                          view->worker_row_floats * sizeof(float), error);
    return view->rows && view->groups && view->order && view->branch_ends && view->worker_rows
               ? 0
               : RF_ERR_MEMORY;
}

void rf_cpu_view_free(struct rf_view *base)
{
    if (!base) return;
    struct cpu_view *view = (struct cpu_view *)base;
    rf_cpu_view_release(view);
    rf_split_free(view->split);
    rf_free(view->queue->base.backend->allocator, view);
}

int rf_cpu_view_new(struct rf_view **view, struct rf_queue *queue,
                    const struct rf_view_shape *shape, struct rf_error *error)
{
    const struct rf_allocator *allocator = queue->backend->allocator;
    *view = NULL;
    struct cpu_view *made = rf_calloc(allocator, 1, sizeof *made, "view", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.shape = *shape;
    made->queue = (struct cpu_queue *)queue;
    made->kernels = kernels_of(queue->backend);
    made->params = shape->program->params;
    choose_kernels(made);
    int code = rf_team_split_new(made->queue->team, &made->split, allocator, error);
    if (code) {
        rf_cpu_view_free(&made->base);
        return code;
    }
    *view = &made->base;
    return 0;
}

/* Called at the first pass, so that a view that is never used takes no memory. Each fork has a
 * view. */
static int make_activations(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_program *program = view->base.shape.program;
    int code = 0;
    for (int32_t s = 0; !code && s < program->n_slots; s++) {
        int32_t rows =
            s == RF_SLOT_LOGITS ? view->base.shape.max_logits : view->base.shape.max_rows;
        if (program->slots[s].by_expert) rows *= view->params->n_expert_used;
        code = buffer_new(view, (enum rf_slot)s, rows, error);
    }
    if (!code) code = pass_rows_new(view, error);
    if (!code && view->split_row_floats) {
        view->split_rows = rf_cpu_view_alloc(view, (size_t)view->base.shape.max_rows,
                                             view->split_row_floats * sizeof(float), error);
        code = view->split_rows ? 0 : RF_ERR_MEMORY;
    }
    if (!code) code = rf_cpu_experts_new(view, error);
    if (!code) code = rf_cpu_delta_new(view, error);
    if (!code) code = rotations_new(view, error);
    if (!code) code = rf_cpu_attention_new(view, error);
    if (!code) code = rf_cpu_answer_new(view, error);
    if (code) rf_cpu_view_release(view);
    view->is_ready = !code;
    return code;
}

/* ---- the walk ---- */

/* Norms and linear layers take n rows: all of the pass, or in the head the `picked` ones. */
static void perform_op(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                       const int32_t *picked, size_t n)
{
    switch (op->kind) {
    case RF_OP_EMBED: rf_cpu_embed(view, worker, op); break;
    case RF_OP_NORM: rf_cpu_norm(view, worker, op, picked, n); break;
    case RF_OP_LINEAR: rf_cpu_linear(view, worker, op, n); break;
    case RF_OP_SPLIT_HEADS: rf_cpu_split_heads(view, worker, op); break;
    case RF_OP_HEAD_LINEAR: rf_cpu_head_linear(view, worker, op); break;
    case RF_OP_ROPE_STORE: rf_cpu_rope_store(view, worker, op); break;
    case RF_OP_ATTENTION: rf_cpu_attention(view, worker, op); break;
    case RF_OP_SILU_GATE: rf_cpu_gate(view, worker, op, view->kernels->silu_gate); break;
    case RF_OP_GELU_GATE: rf_cpu_gate(view, worker, op, view->kernels->gelu_gate); break;
    case RF_OP_GELU:
    case RF_OP_RELU2: rf_cpu_ungated(view, worker, op); break;
    case RF_OP_ADD: rf_cpu_add(view, worker, op); break;
    case RF_OP_ADD_SHARE: rf_cpu_add_share(view, worker, op); break;
    case RF_OP_CAP: rf_cpu_cap(view, worker, op, n); break;
    case RF_OP_COPY: rf_cpu_copy(view, worker, op); break;
    case RF_OP_LAYER_INPUTS: rf_cpu_layer_inputs(view, worker, op); break;
    case RF_OP_SCALE: rf_cpu_scale(view, worker, op); break;
    case RF_OP_SHORT_CONV: rf_cpu_short_conv(view, worker, op); break;
    case RF_OP_DELTA:
    case RF_OP_MAMBA: rf_cpu_delta(view, worker, op); break;
    case RF_OP_GATE_NORM: rf_cpu_gate_norm(view, worker, op); break;
    case RF_OP_NORM_GATE: rf_cpu_norm_gate(view, worker, op); break;
    case RF_OP_SPLIT_GATE: rf_cpu_split_gate(view, worker, op); break;
    case RF_OP_SIGMOID_GATE: rf_cpu_sigmoid_gate(view, worker, op); break;
    case RF_OP_CHOOSE_EXPERTS: rf_cpu_choose_experts(view, worker, op); break;
    case RF_OP_EXPERT_LINEAR: rf_cpu_expert_linear(view, worker, op); break;
    case RF_OP_SUM_EXPERTS: rf_cpu_sum_experts(view, worker, op); break;
    }
}

/* Runs the head over the wanted rows, in groups that fit the logits buffer. */
static void perform_head(struct cpu_view *view, struct rf_worker *worker)
{
    const struct rf_program *program = view->base.shape.program;
    const struct rf_pass *pass = view->pass;
    size_t n_wanted = (size_t)pass->n_wanted, most = (size_t)view->base.shape.max_logits;
    for (size_t done = 0; done < n_wanted; done += most) {
        size_t n = n_wanted - done < most ? n_wanted - done : most;
        for (int32_t o = 0; o < program->n_head; o++)
            perform_op(view, worker, &program->head[o], pass->wanted + done, n);
        rf_cpu_answer(view, worker, done, n);
    }
}

static void run_program(void *argument, struct rf_worker *worker)
{
    struct cpu_view *view = argument;
    const struct rf_program *program = view->base.shape.program;
    for (int32_t o = 0; o < program->n_body; o++) {
        const struct rf_op *op = &program->body[o];
        /* The first worker decides. All see its decision when the operation is done. */
        if (op->may_stop && view->base.cancel && worker->index == 0)
            view->stopped = atomic_load_explicit(view->base.cancel, memory_order_relaxed);
        perform_op(view, worker, op, NULL, view->n_rows);
        if (op->may_stop && view->stopped) return;
    }
    perform_head(view, worker);
}

/* ---- a pass ---- */

/* Lists the rows of all groups. */
static void list_rows(struct cpu_view *view, const struct rf_pass *pass)
{
    view->pass = pass;
    view->n_rows = 0;
    view->has_trees = 0;
    view->stopped = 0;
    for (int32_t g = 0; g < pass->n_groups; g++) {
        const struct rf_rows *rows = &pass->groups[g];
        view->has_trees |= rows->parents != NULL;
        view->groups[g] = (struct cpu_group){
            .rows = rows, .cache = (struct cpu_cache *)rows->cache, .first = view->n_rows};
        struct cpu_row *made = view->rows + view->n_rows;
        for (int32_t i = 0; i < rows->n; i++) {
            int32_t parent = rows->parents ? rows->parents[i] : i - 1;
            made[i] = (struct cpu_row){.token = rows->tokens[i],
                                       .position =
                                           parent < 0 ? rows->first_pos : made[parent].position + 1,
                                       .slot = rows->first_pos + i,
                                       .group = g};
        }
        view->n_rows += (size_t)rows->n;
    }
}

int rf_cpu_submit(struct rf_view *base, const struct rf_pass *pass, struct rf_error *error)
{
    struct cpu_view *view = (struct cpu_view *)base;
    int code = view->is_ready ? 0 : make_activations(view, error);
    if (!code) list_rows(view, pass);
    for (int32_t g = 0; !code && g < pass->n_groups; g++)
        code = rf_cpu_cache_prepare(view->groups[g].cache, (size_t)pass->groups[g].first_pos,
                                    (size_t)pass->groups[g].n, &view->groups[g].n_groups, error);
    if (!code) code = rf_cpu_attention_prepare(view, error);
    if (!code) code = rf_cpu_delta_prepare(view, error);
    if (code) return code;
    rf_lock_take(&view->queue->turn);
    rf_team_run_split(view->queue->team, view->split, (int)view->n_rows, run_program, view);
    rf_lock_release(&view->queue->turn);
    if (view->stopped) return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    for (int32_t g = 0; g < pass->n_groups; g++) {
        const struct rf_rows *rows = &pass->groups[g];
        view->groups[g].cache->n_groups = view->groups[g].n_groups;
        rf_cpu_states_done(view->groups[g].cache, (size_t)rows->first_pos, (size_t)rows->n,
                           !rows->parents);
    }
    return 0;
}
