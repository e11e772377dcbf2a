/* Mixtures of experts. The rows of a pass that chose the same expert lie one behind the other in
 * buffers "by expert", experts ascending, so an expert's weights are read once for all of them.
 *
 * Row independence: kernels give a row the same bits in any company, and a row's experts are added
 * in the order of their shares, whatever order they were computed in. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/pool.h"

enum { PART = 512 /* values of a row that a worker sums at a time */ };

int rf_cpu_experts_new(struct cpu_view *view, struct rf_error *error)
{
    size_t rows = (size_t)view->base.shape.max_rows, n = (size_t)view->params->n_expert,
           used = (size_t)view->params->n_expert_used;
    if (!n) return 0;
    view->choices = rf_cpu_view_alloc(view, rows * used, sizeof *view->choices, error);
    view->experts = rf_cpu_view_alloc(view, n, sizeof *view->experts, error);
    view->expert_rows = rf_cpu_view_alloc(view, rows * used, sizeof *view->expert_rows, error);
    view->expert_counts = rf_cpu_view_alloc(view, n, sizeof *view->expert_counts, error);
    const struct cpu_weights *weights = (const struct cpu_weights *)view->base.shape.weights;
    view->missing = rf_cpu_view_alloc(view, n, sizeof *view->missing, error);
    view->blocks = rf_cpu_view_alloc(view, (size_t)rf_team_size(view->queue->team),
                                     weights->blocks_bytes, error);
    return view->choices && view->experts && view->expert_rows && view->expert_counts &&
                   view->missing && view->blocks
               ? 0
               : RF_ERR_MEMORY;
}

/* ---- operands ---- */

/* Some tiers pack BF16 rows in tiles of several: each expert's begin with a tile. */
static size_t tile_bytes(const struct cpu_view *view, enum rf_operand form, size_t width)
{
    return (view->kernels->packed_bytes[form](1, width) + 63) & ~(size_t)63;
}

static size_t bytes_before(const struct cpu_view *view, enum rf_operand form, size_t width,
                           size_t rows, size_t groups)
{
    size_t bytes = (view->kernels->packed_bytes[form](rows, width) + 63) & ~(size_t)63;
    return bytes + groups * tile_bytes(view, form, width);
}

size_t rf_cpu_expert_operand_bytes(const struct cpu_view *view, enum rf_operand form, size_t rows,
                                   size_t width)
{
    size_t n = (size_t)view->params->n_expert;
    return bytes_before(view, form, width, rows, rows < n ? rows : n);
}

size_t rf_cpu_expert_operand_at(const struct cpu_view *view, enum rf_operand form, size_t group,
                                size_t width)
{
    return bytes_before(view, form, width, view->experts[group].first, group);
}

/* ---- choosing ---- */

/* Of equal values the one of the lowest expert comes first. */
static void choose(const struct rf_params *params, const float *values, struct cpu_choice *top)
{
    int32_t n = 0, used = params->n_expert_used;
    for (int32_t e = 0; e < params->n_expert; e++) {
        int32_t at = n < used ? n : used - 1;
        if (n == used && !(values[e] > top[at].value)) continue;
        for (; at > 0 && values[e] > top[at - 1].value; at--) top[at] = top[at - 1];
        top[at] = (struct cpu_choice){.expert = e, .value = values[e]};
        n += n < used;
    }
}

static void share_out(const struct rf_params *params, const float *values, struct cpu_choice *top)
{
    float max = top[0].value, sum = 0.0f;
    for (int32_t e = 0; !params->expert_norm && e < params->n_expert; e++)
        sum += expf(values[e] - max);
    for (int32_t i = 0; i < params->n_expert_used; i++) {
        top[i].value = expf(top[i].value - max);
        if (params->expert_norm) sum += top[i].value;
    }
    for (int32_t i = 0; i < params->n_expert_used; i++) top[i].value /= sum;
}

/* Lists the chosen experts, and gives each choice a row behind those of the rows before. */
static void group_rows(struct cpu_view *view)
{
    size_t n = (size_t)view->params->n_expert, used = (size_t)view->params->n_expert_used;
    size_t *next = view->expert_counts, n_choices = view->n_rows * used;
    memset(next, 0, n * sizeof *next);
    for (size_t i = 0; i < n_choices; i++) next[view->choices[i].expert]++;
    view->n_experts = view->n_expert_rows = 0;
    for (size_t e = 0; e < n; e++) {
        struct cpu_expert expert = {e, view->n_expert_rows, next[e]};
        next[e] = expert.first;
        if (expert.n) view->experts[view->n_experts++] = expert;
        for (size_t i = 0; i < expert.n; i++)
            view->expert_rows[view->n_expert_rows++].group = view->n_experts - 1;
    }
    for (size_t i = 0; i < n_choices; i++) {
        struct cpu_choice *choice = &view->choices[i];
        choice->row = next[choice->expert]++;
        view->expert_rows[choice->row].row = i / used;
    }
}

void rf_cpu_choose_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *routed = &view->buffers[op->in[0]], *x = &view->buffers[op->in[1]];
    size_t used = (size_t)view->params->n_expert_used;
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        choose(view->params, buffer_row(routed, i), view->choices + i * used);
        share_out(view->params, buffer_row(routed, i), view->choices + i * used);
    }
    if (worker->index == 0) {
        group_rows(view);
        rf_cpu_pool_take(view, op);
    }
    rf_team_barrier(worker);
    rf_cpu_pool_fill(view, worker, op);
    items = cpu_items(worker, view->n_expert_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);)
        rf_cpu_pack(view, &view->buffers[op->out[0]], i, 0, x->width,
                    buffer_row(x, view->expert_rows[i].row));
}

/* ---- linear layers ---- */

/* The weight rows of an operation's layers for one expert, each layer's padded to whole panels. */
static size_t rows_of_expert(const struct rf_op *op)
{
    size_t rows = 0;
    for (int32_t l = 0; l < op->n; l++) rows += rf_padded((size_t)op->weight[l]->rows);
    return rows;
}

/* y[.., row .. row + m) of layer l of the operation, for the rows of one expert. */
static void expert_piece(const struct cpu_view *view, const struct rf_op *op, int32_t l,
                         size_t group, size_t row, size_t m)
{
    const struct rf_weight *weight = op->weight[l], *bias = op->bias[l];
    const struct cpu_expert *expert = &view->experts[group];
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *y = &view->buffers[op->out[l]];
    enum rf_operand form = view->operand[weight->format];
    struct rf_linear_args args = {
        .y = buffer_row(y, expert->first) + row,
        .ldy = y->row_bytes / sizeof(float),
        .w = (const char *)weight->experts[expert->number] + weight_offset(weight, row),
        .ldw = weight->ld,
        .x = (const char *)x->forms[form] + rf_cpu_expert_operand_at(view, form, group, x->width),
        .m = m,
        .n = expert->n,
        .k = (size_t)weight->columns,
        .bias = bias ? bias->f32 + expert->number * (size_t)weight->rows + row : NULL};
    view->linear[weight->format](&args);
}

/* The rows [from, to) of those of one expert's layers. */
static void expert_rows(const struct cpu_view *view, const struct rf_op *op, size_t group,
                        size_t from, size_t to, size_t call)
{
    size_t first = 0;
    for (int32_t l = 0; l < op->n; first += rf_padded((size_t)op->weight[l++]->rows)) {
        size_t begin = from > first ? from - first : 0, end = to > first ? to - first : 0;
        if (end > (size_t)op->weight[l]->rows) end = (size_t)op->weight[l]->rows;
        for (size_t row = begin, m; row < end; row += m) {
            m = end - row < call ? end - row : call;
            expert_piece(view, op, l, group, row, m);
        }
    }
}

/* All weight rows of all chosen experts are one share. */
void rf_cpu_expert_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    struct rf_share share;
    size_t each = rows_of_expert(op), total = view->n_experts * each, row_bytes = 1, begin, end;
    int any_bf16 = 0;
    for (int32_t l = 0; l < op->n; l++) {
        size_t bytes = weight_row_bytes(op->weight[l]);
        if (row_bytes < bytes) row_bytes = bytes;
        any_bf16 |= op->weight[l]->format == RF_FORMAT_BF16;
    }
    struct cpu_pieces pieces =
        rf_cpu_pieces(view->kernels, any_bf16, row_bytes, total, worker->count, view->n_rows);
    /* Experts of several rows differ in rows, so only a single row measures the workers' speeds. */
    rf_share_begin(&share, worker, total, pieces.grain, view->n_rows == 1 ? (double)row_bytes : 0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin; row < end;) {
            size_t group = row / each, from = row % each,
                   to = end - row < each - from ? from + (end - row) : each;
            expert_rows(view, op, group, from, to, pieces.call);
            row += to - from;
        }
    rf_team_barrier(worker);
}

void rf_cpu_sum_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *in = &view->buffers[op->in[0]], *x = &view->buffers[op->out[0]];
    size_t used = (size_t)view->params->n_expert_used, parts = (x->width + PART - 1) / PART;
    struct cpu_items items = cpu_items(worker, view->n_rows * parts, rows_grain(view->n_rows));
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t i = item / parts, first = item % parts * PART,
               end = x->width - first < PART ? x->width : first + PART;
        float *out = buffer_row(x, i), sum[PART] = {0};
        for (size_t r = 0; r < used; r++) {
            const struct cpu_choice *choice = &view->choices[i * used + r];
            const float *of_expert = buffer_row(in, choice->row);
            for (size_t j = first; j < end; j++) sum[j - first] += choice->value * of_expert[j];
        }
        for (size_t j = first; j < end; j++) out[j] += sum[j - first];
    }
    if (worker->index == 0) rf_cpu_pool_release(view);
}
