/* Matrices of single heads, which latent attention has before and behind it. An operand by head
 * has each head's values packed as rows of their own, one head behind the other, so that a kernel
 * multiplies all rows of the pass with a head's matrix. view.c runs the operations. */
#include <string.h>

#include "cpu/cpu.h"

void rf_cpu_split_heads(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    struct cpu_buffer *first = &view->buffers[op->out[0]], *rest = &view->buffers[op->out[1]];
    size_t heads = (size_t)view->params->n_head, width = x->width / heads, n = first->width / heads,
           place = rest->width / heads - (width - n);
    struct cpu_items items = cpu_items(worker, view->n_rows * heads, 8);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t row = item / heads, head = item % heads;
        const float *from = buffer_row(x, row) + head * width;
        rf_cpu_pack_head(view, first, row, head, from);
        if (op->n == 2)
            memcpy(buffer_row(rest, row) + head * (rest->width / heads) + place, from + n,
                   (width - n) * sizeof *from);
    }
}

/* Computes the rows [row, row + m) of one head's matrix. */
static void head_piece(const struct cpu_view *view, const struct rf_op *op, size_t head, size_t row,
                       size_t m)
{
    const struct rf_weight *weight = op->weight[0];
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *y = &view->buffers[op->out[0]];
    enum rf_format format = weight->plan.format;
    enum rf_operand form = view->operand[format];
    size_t heads = (size_t)view->params->n_head;
    struct rf_linear_args args = {
        .y = buffer_row(y, 0) + head * (y->width / heads) + row,
        .ldy = y->row_bytes / sizeof(float),
        .w = (const char *)weight->experts[head] + weight_offset(weight, row),
        .ldw = weight->ld,
        .x = (const char *)x->forms[form] + head * rf_cpu_head_bytes(view, form, x->width / heads),
        .m = m,
        .n = view->n_rows,
        .k = weight->plan.columns};
    view->linear[format](&args);
}

/* The rows of all heads' matrices are one share. */
void rf_cpu_head_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    struct rf_share share;
    struct cpu_op_rows rows = rf_cpu_op_rows(op);
    size_t each = rows.total, m = op->weight[0]->plan.rows, begin, end;
    struct cpu_pieces pieces =
        rf_cpu_pieces(view->kernels, rows.any_bf16, rows.row_bytes,
                      each * (size_t)view->params->n_head, worker->count, view->n_rows);
    rf_share_begin(&share, worker, each * (size_t)view->params->n_head, pieces.grain,
                   (double)rows.row_bytes);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin, n; row < end; row += n) {
            size_t head = row / each, from = row % each, left = each - from;
            n = end - row < left ? end - row : left;
            if (n > pieces.call) n = pieces.call;
            if (from < m) head_piece(view, op, head, from, from + n < m ? n : m - from);
        }
    rf_team_barrier(worker);
}
