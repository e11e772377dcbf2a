/* A view on the cores: its buffers, and the execution of a program's operations. All workers take
 * part in each operation, within one run of the team. When an operation returns, its results are
 * visible to all. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "cpu/cpu.h"

enum {
    PART = 512, /* values of a row that a worker takes at a time where rows are few */
    PIECE_BYTES =
        640 * 1024 /* of weights that stay in the second cache while a prompt's rows pass */
};

/* ---- making one ---- */

/* Whether a matrix, or one of experts, takes input rows of `width` values in this form. */
static int is_wanted(const struct cpu_view *view, enum rf_operand form, size_t width, int by_expert)
{
    const struct cpu_weights *weights = (const struct cpu_weights *)view->base.shape.weights;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct rf_weight *weight = &weights->tensors[i];
        if ((weight->data || weight->experts) && (weight->experts != NULL) == by_expert &&
            (size_t)weight->columns == width && view->operand[weight->format] == form)
            return 1;
    }
    return 0;
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

static int buffer_new(struct cpu_view *view, struct cpu_buffer *buffer, int32_t rows,
                      const struct rf_slot_shape *shape, struct rf_error *error)
{
    buffer->width = (size_t)shape->width;
    buffer->by_expert = shape->by_expert;
    if (!buffer->width) return 0;
    if (!shape->is_operand || shape->has_floats) {
        buffer->row_bytes = (buffer->width * sizeof(float) + 63) & ~(size_t)63;
        buffer->data = rf_cpu_view_alloc(view, (size_t)rows, buffer->row_bytes, error);
        if (!buffer->data) return RF_ERR_MEMORY;
    }
    for (int form = 0; shape->is_operand && form < RF_OPERAND_COUNT; form++) {
        if (!is_wanted(view, (enum rf_operand)form, buffer->width, shape->by_expert)) continue;
        size_t bytes = shape->by_expert
                           ? rf_cpu_expert_operand_bytes(view, (enum rf_operand)form, (size_t)rows,
                                                         buffer->width)
                           : view->kernels->packed_bytes[form]((size_t)rows, buffer->width);
        buffer->forms[form] = rf_cpu_view_alloc(view, bytes, 1, error);
        if (!buffer->forms[form]) return RF_ERR_MEMORY;
    }
    return 0;
}

static int rotations_new(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_params *params = view->params;
    size_t half = (size_t)params->rope_dim / 2;
    view->frequencies = rf_cpu_view_alloc(view, RF_ROPE_SETS * half, sizeof(double), error);
    view->rotations = rf_cpu_view_alloc(view, (size_t)view->base.shape.max_rows,
                                        2 * half * 2 * sizeof(float), error);
    if (!view->frequencies || !view->rotations) return RF_ERR_MEMORY;
    for (int32_t set = 0; set < RF_ROPE_SETS; set++)
        for (size_t i = 0; i < half; i++)
            view->frequencies[(size_t)set * half + i] =
                rf_rope_frequency(params, (enum rf_frequencies)set, (int32_t)i);
    return 0;
}

static int rows_new(struct cpu_view *view, struct rf_error *error)
{
    size_t rows = (size_t)view->base.shape.max_rows;
    view->rows = rf_cpu_view_alloc(view, rows, sizeof *view->rows, error);
    view->groups = rf_cpu_view_alloc(view, rows, sizeof *view->groups, error);
    view->order = rf_cpu_view_alloc(view, rows, sizeof *view->order, error);
    view->branch_ends = rf_cpu_view_alloc(view, rows, sizeof *view->branch_ends, error);
    const struct rf_program *program = view->base.shape.program;
    size_t widest = 0; /* of what norms and gates make */
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
        code = buffer_new(view, &view->buffers[s], rows, &program->slots[s], error);
    }
    if (!code) code = rows_new(view, error);
    if (!code) code = rf_cpu_experts_new(view, error);
    if (!code) code = rotations_new(view, error);
    if (!code) code = rf_cpu_attention_new(view, error);
    if (!code) code = rf_cpu_answer_new(view, error);
    if (code) rf_cpu_view_release(view);
    view->is_ready = !code;
    return code;
}

/* ---- operations ---- */

static float *rotation_of(const struct cpu_view *view, size_t row, enum rf_rotation rotation)
{
    return view->rotations + (row * 2 + (size_t)rotation) * (size_t)view->params->rope_dim;
}

/* cos and sin of each frequency of a set at a row's position. */
static void rotate_by(const struct cpu_view *view, size_t row, enum rf_frequencies set, float *out)
{
    size_t half = (size_t)view->params->rope_dim / 2;
    const double *frequencies = view->frequencies + (size_t)set * half;
    double magnitude = (double)view->params->rope_magnitude;
    for (size_t i = 0; i < half; i++) {
        double angle = (double)view->rows[row].position * frequencies[i];
        out[2 * i] = (float)(magnitude * cos(angle));
        out[2 * i + 1] = (float)(magnitude * sin(angle));
    }
}

static void rotate_position(const struct cpu_view *view, size_t row)
{
    const struct rf_params *params = view->params;
    int32_t n_ctx = view->groups[view->rows[row].group].cache->base.shape.n_ctx;
    rotate_by(view, row, rf_rope_is_long(params, n_ctx) ? RF_ROPE_LONG : RF_ROPE_GLOBAL,
              rotation_of(view, row, RF_ROTATE_GLOBAL));
    if (params->rope_theta_local > 0)
        rotate_by(view, row, RF_ROPE_LOCAL, rotation_of(view, row, RF_ROTATE_LOCAL));
}

/* One row of a table, straight from the file. */
static void read_row(const struct rf_weight *weight, int32_t token, float *out)
{
    const struct rf_tensor *tensor = weight->table;
    size_t n = (size_t)weight->columns,
           row_bytes = (size_t)(tensor->bytes / (uint64_t)weight->rows);
    rf_dequantize_f32(tensor->dtype, (const char *)tensor->data + (size_t)token * row_bytes, out,
                      n);
    for (size_t j = 0; weight->table_form != RF_WEIGHTS_STORED && j < n; j++)
        out[j] = rf_bf16_to_f32(rf_f32_to_bf16(out[j]));
}

static void embed(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const struct cpu_buffer *out = &view->buffers[op->out[0]];
        float *x = buffer_row(out, i);
        if (op->weight[0])
            read_row(op->weight[0], view->rows[i].token, x);
        else
            memcpy(x, view->pass->x + i * out->width, out->width * sizeof *x);
        for (size_t j = 0; op->scale != 1 && j < out->width; j++) x[j] *= op->scale;
        rotate_position(view, i);
    }
}

/* A row of F32 for the worker's own use, as wide as a norm or a gate. */
static float *worker_row(const struct cpu_view *view, const struct rf_worker *worker)
{
    return view->worker_rows + (size_t)worker->index * view->worker_row_floats;
}

/* Of all rows, or of `picked` ones. */
static void norm(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                 const int32_t *picked, size_t n_rows)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    float *normed = worker_row(view, worker), eps = view->params->rms_eps;
    struct cpu_items items = cpu_items(worker, n_rows, rows_grain(n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const float *row = buffer_row(x, picked ? (size_t)picked[i] : i);
        view->kernels->rms_norm(normed, row, op->weight[0]->f32, eps, x->width);
        rf_cpu_pack(view, &view->buffers[op->out[0]], i, 0, x->width, normed);
    }
}

struct cpu_pieces rf_cpu_pieces(const struct rf_kernels *kernels, int any_bf16, size_t row_bytes,
                                size_t total, int workers, size_t n_rows)
{
    size_t rows = PIECE_BYTES / row_bytes / RF_PANEL_ROWS * RF_PANEL_ROWS;
    if (any_bf16 && rows > kernels->linear_rows) rows = kernels->linear_rows;
    if (rows < RF_PANEL_ROWS) rows = RF_PANEL_ROWS;
    struct cpu_pieces pieces = {.grain = kernels->linear_rows, .call = rows};
    if (n_rows > RF_FEW_ROWS) {
        /* Pieces are large, because each call reads all of the prompt's rows again, but there are
         * enough of them for all workers. */
        size_t share = rf_padded(total / (8 * (size_t)workers));
        if (pieces.grain < share) pieces.grain = share;
    }
    if (pieces.grain > pieces.call) pieces.grain = pieces.call;
    if (n_rows <= RF_FEW_ROWS) pieces.call = SIZE_MAX;
    return pieces;
}

/* y[.., row .. row + m) of layer l of the operation. */
static void linear_piece(const struct cpu_view *view, const struct rf_op *op, int32_t l,
                         size_t n_rows, size_t row, size_t m)
{
    const struct rf_weight *weight = op->weight[l];
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *y = &view->buffers[op->out[l]];
    struct rf_linear_args args = {.y = buffer_row(y, 0) + row,
                                  .ldy = y->row_bytes / sizeof(float),
                                  .w = weight_at(weight, row),
                                  .ldw = weight->ld,
                                  .x = x->forms[view->operand[weight->format]],
                                  .m = m,
                                  .n = n_rows,
                                  .k = (size_t)weight->columns,
                                  .bias = op->bias[l] ? op->bias[l]->f32 + row : NULL,
                                  .accumulate = op->accumulate};
    view->linear[weight->format](&args);
}

static void linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                   size_t n_rows)
{
    struct rf_share share;
    /* The weight rows of all layers, each layer's padded to whole panels so that the next begins
     * with one. */
    size_t total = 0, row_bytes = 1, begin, end;
    int any_bf16 = 0;
    for (int32_t l = 0; l < op->n; l++) {
        size_t bytes = weight_row_bytes(op->weight[l]);
        if (row_bytes < bytes) row_bytes = bytes;
        any_bf16 |= op->weight[l]->format == RF_FORMAT_BF16;
        total += rf_padded((size_t)op->weight[l]->rows);
    }
    struct cpu_pieces pieces =
        rf_cpu_pieces(view->kernels, any_bf16, row_bytes, total, worker->count, n_rows);
    rf_share_begin(&share, worker, total, pieces.grain, (double)row_bytes);
    while (rf_share_next(&share, &begin, &end)) {
        size_t first = 0; /* row of layer l among all of them */
        for (int32_t l = 0; l < op->n; first += rf_padded((size_t)op->weight[l++]->rows)) {
            size_t from = begin > first ? begin - first : 0, to = end > first ? end - first : 0;
            if (to > (size_t)op->weight[l]->rows) to = (size_t)op->weight[l]->rows;
            for (size_t row = from, m; row < to; row += m) {
                m = to - row < pieces.call ? to - row : pieces.call;
                linear_piece(view, op, l, n_rows, row, m);
            }
        }
    }
    rf_team_barrier(worker);
}

static void rotate(const struct cpu_view *view, float *head, size_t row, enum rf_rotation rotation)
{
    const struct rf_params *params = view->params;
    if (rotation == RF_ROTATE_NOT) return;
    size_t half = (size_t)params->rope_dim / 2;
    const float *turn = rotation_of(view, row, rotation);
    size_t step = params->rope_style == RF_ROPE_NORM ? 2 : 1,
           distance = params->rope_style == RF_ROPE_NORM ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float *a = head + i * step, *b = a + distance, c = turn[2 * i], s = turn[2 * i + 1];
        float x = *a, y = *b;
        *a = x * c - y * s;
        *b = x * s + y * c;
    }
}

/* Quantises what the pass's last rows are the first to read so. */
static void quantise(struct cpu_view *view, struct rf_worker *worker, int32_t layer)
{
    size_t n_head = (size_t)view->params->n_head_kv;
    for (int32_t g = 0; g < view->pass->n_groups; g++) {
        struct cpu_cache *cache = view->groups[g].cache;
        size_t n = (view->groups[g].n_groups - cache->n_groups) * n_head;
        if (n == 0) continue;
        struct cpu_items items = cpu_items(worker, n, 1);
        for (size_t item; cpu_items_next(&items, &item);)
            rf_cpu_cache_quantise(cache, layer, item % n_head, cache->n_groups + item / n_head);
    }
}

static void rope_store(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct rf_params *params = view->params;
    const struct cpu_buffer *q = &view->buffers[op->in[0]], *k = &view->buffers[op->in[1]],
                            *v = &view->buffers[op->in[2]];
    size_t n_rows = view->n_rows, dim = (size_t)params->head_dim, n_q = (size_t)params->n_head;
    /* Items are the heads of q, then those of k and v. All rows of a head belong to one item, so
     * that adjacent positions in the cache have one writer. */
    struct cpu_items items = cpu_items(worker, (n_q + (size_t)params->n_head_kv) * n_rows, 8);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t h = item / n_rows, row = item % n_rows;
        int is_key = h >= n_q;
        const struct rf_weight *gain = op->weight[is_key];
        if (is_key) h -= n_q;
        float *head = buffer_row(is_key ? k : q, row) + h * dim;
        if (gain) view->kernels->rms_norm(head, head, gain->f32, params->rms_eps, dim);
        rotate(view, head, row, op->rotation);
        if (!is_key) continue;
        struct cpu_cache *cache = view->groups[view->rows[row].group].cache;
        size_t slot = (size_t)view->rows[row].slot;
        rf_cpu_cache_store(cache, op->layer, h, slot, head, buffer_row(v, row) + h * dim);
        if (view->has_trees)
            rf_cpu_cache_get(cache, op->layer, h, slot, rf_cpu_tree_entry(view, h, row));
    }
    quantise(view, worker, op->layer);
}

/* What makes silu(gate) * up the clamped form. */
static void clamp(const struct rf_op *op, float *gate, float *up, size_t n)
{
    float cap = op->cap, alpha = op->scale, inverse = 1.0f / alpha;
    for (size_t j = 0; j < n; j++) {
        float g = gate[j] < cap ? gate[j] : cap, u = up[j] < cap ? up[j] : cap;
        gate[j] = alpha * g;
        up[j] = ((u > -cap ? u : -cap) + 1.0f) * inverse;
    }
}

static void gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                 rf_gate_fn *kernel)
{
    const struct cpu_buffer *gate = &view->buffers[op->in[0]], *up = &view->buffers[op->in[1]];
    struct cpu_buffer *out = &view->buffers[op->out[0]];
    float *gated = worker_row(view, worker);
    size_t width = gate->width, part = view->n_rows <= RF_FEW_ROWS && has_parts(out) ? PART : width;
    size_t parts = (width + part - 1) / part;
    size_t n_rows = buffer_rows(view, gate);
    struct cpu_items items = cpu_items(worker, n_rows * parts, rows_grain(view->n_rows));
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t i = item / parts, first = item % parts * part,
               n = width - first < part ? width - first : part;
        if (op->cap > 0) clamp(op, buffer_row(gate, i) + first, buffer_row(up, i) + first, n);
        kernel(gated, buffer_row(gate, i) + first, buffer_row(up, i) + first, n);
        rf_cpu_pack(view, out, i, first, n, gated);
    }
}

static void copy(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    struct cpu_items items = cpu_items(worker, view->n_rows, 1);
    for (size_t i; cpu_items_next(&items, &i);)
        rf_cpu_pack(view, &view->buffers[op->out[0]], i, 0, x->width, buffer_row(x, i));
}

static void add_row(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    float *normed = worker_row(view, worker), eps = view->params->rms_eps;
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const float *row = buffer_row(x, i);
        float *out = buffer_row(&view->buffers[op->out[0]], i);
        if (op->weight[0]) {
            view->kernels->rms_norm(normed, row, op->weight[0]->f32, eps, x->width);
            row = normed;
        }
        for (size_t j = 0; j < x->width; j++) out[j] += op->scale * row[j];
    }
}

static void add_share(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *share = &view->buffers[op->in[1]];
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const float *row = buffer_row(x, i);
        float *out = buffer_row(&view->buffers[op->out[0]], i),
              factor = 1.0f / (1.0f + expf(-*buffer_row(share, i)));
        for (size_t j = 0; j < x->width; j++) out[j] += factor * row[j];
    }
}

/* Of n rows, in parts. */
static void cap(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op, size_t n)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *y = &view->buffers[op->out[0]];
    size_t parts = (x->width + PART - 1) / PART;
    struct cpu_items items = cpu_items(worker, n * parts, 8);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t i = item / parts, first = item % parts * PART, left = x->width - first;
        const float *from = buffer_row(x, i) + first;
        float *to = buffer_row(y, i) + first;
        for (size_t j = 0; j < (left < PART ? left : PART); j++)
            to[j] =
                op->cap > 0 ? op->cap * tanhf(op->scale * from[j] / op->cap) : op->scale * from[j];
    }
}

/* ---- the walk ---- */

/* Norms and linear layers take n rows: all of the pass, or those of the head, which are `picked`.
 */
static void perform(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                    const int32_t *picked, size_t n)
{
    switch (op->kind) {
    case RF_OP_EMBED: embed(view, worker, op); break;
    case RF_OP_NORM: norm(view, worker, op, picked, n); break;
    case RF_OP_LINEAR: linear(view, worker, op, n); break;
    case RF_OP_ROPE_STORE: rope_store(view, worker, op); break;
    case RF_OP_ATTENTION: rf_cpu_attention(view, worker, op); break;
    case RF_OP_SILU_GATE: gate(view, worker, op, view->kernels->silu_gate); break;
    case RF_OP_GELU_GATE: gate(view, worker, op, view->kernels->gelu_gate); break;
    case RF_OP_ADD: add_row(view, worker, op); break;
    case RF_OP_ADD_SHARE: add_share(view, worker, op); break;
    case RF_OP_CAP: cap(view, worker, op, n); break;
    case RF_OP_COPY: copy(view, worker, op); break;
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
            perform(view, worker, &program->head[o], pass->wanted + done, n);
        rf_cpu_answer(view, worker, done, n);
    }
}

static void walk(void *argument, struct rf_worker *worker)
{
    struct cpu_view *view = argument;
    const struct rf_program *program = view->base.shape.program;
    for (int32_t o = 0; o < program->n_body; o++) {
        const struct rf_op *op = &program->body[o];
        /* The first worker decides. All see its decision when the operation is done. */
        if (op->may_stop && view->base.cancel && worker->index == 0)
            view->stopped = atomic_load_explicit(view->base.cancel, memory_order_relaxed);
        perform(view, worker, op, NULL, view->n_rows);
        if (op->may_stop && view->stopped) return;
    }
    perform_head(view, worker);
}

/* ---- a pass ---- */

static int check_rows(const struct cpu_view *view, const struct rf_rows *rows, int32_t index,
                      struct rf_error *error)
{
    const struct rf_cache *cache = rows->cache;
    if (rows->n < 1 || rows->first_pos < 0 || rows->n > cache->shape.n_ctx - rows->first_pos)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "group %d: %d rows from position %d on, in a context of %d", index, rows->n,
                       rows->first_pos, cache->shape.n_ctx);
    if (!rf_kv_can_read(view->base.shape.kv, cache->shape.kv))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "group %d: the view cannot read a KV cache of this type", index);
    return 0;
}

/* Lists the rows of all groups. */
static int take_rows(struct cpu_view *view, const struct rf_pass *pass, struct rf_error *error)
{
    size_t max_rows = (size_t)view->base.shape.max_rows;
    view->pass = pass;
    view->n_rows = 0;
    view->has_trees = 0;
    view->stopped = 0;
    for (int32_t g = 0; g < pass->n_groups; g++) {
        const struct rf_rows *rows = &pass->groups[g];
        int code = check_rows(view, rows, g, error);
        if (code) return code;
        if ((size_t)rows->n > max_rows - view->n_rows)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "group %d: its rows and those before are over %zu", g, max_rows);
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
    if (view->has_trees && view->n_rows > RF_TREE_ROWS)
        return rf_fail(error, RF_ERR_ARGUMENT, "%zu rows: a pass with branches has at most %d",
                       view->n_rows, RF_TREE_ROWS);
    if (!pass->logprobs && pass->n_wanted > view->base.shape.max_logits)
        return rf_fail(error, RF_ERR_ARGUMENT, "%d answers: a pass has at most %d", pass->n_wanted,
                       view->base.shape.max_logits);
    return 0;
}

int rf_cpu_submit(struct rf_view *base, const struct rf_pass *pass, struct rf_error *error)
{
    struct cpu_view *view = (struct cpu_view *)base;
    int code = view->is_ready ? 0 : make_activations(view, error);
    if (!code) code = take_rows(view, pass, error);
    for (int32_t g = 0; !code && g < pass->n_groups; g++)
        code = rf_cpu_cache_prepare(view->groups[g].cache, (size_t)pass->groups[g].first_pos,
                                    (size_t)pass->groups[g].n, &view->groups[g].n_groups, error);
    if (!code) code = rf_cpu_attention_prepare(view, error);
    if (code) return code;
    rf_lock_take(&view->queue->turn);
    rf_team_run_split(view->queue->team, view->split, (int)view->n_rows, walk, view);
    rf_lock_release(&view->queue->turn);
    if (view->stopped) return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    for (int32_t g = 0; g < pass->n_groups; g++)
        view->groups[g].cache->n_groups = view->groups[g].n_groups;
    return 0;
}
