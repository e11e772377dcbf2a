/* Linear layers: the weight rows of an operation's layers are one share, which the workers divide
 * by their speeds. Which worker computes a result does not change its bits. view.c runs this;
 * experts.c cuts the weights of experts in the same way. */
#include "cpu/cpu.h"

/* Bytes of weights that stay in the second cache while a prompt's rows pass. */
enum { PIECE_BYTES = 640 * 1024 };

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

struct cpu_op_rows rf_cpu_op_rows(const struct rf_op *op)
{
    struct cpu_op_rows rows = {.row_bytes = 1};
    for (int32_t l = 0; l < op->n; l++) {
        size_t bytes = weight_row_bytes(op->weight[l]);
        if (rows.row_bytes < bytes) rows.row_bytes = bytes;
        rows.any_bf16 |= op->weight[l]->plan.format == RF_FORMAT_BF16;
        rows.total += rf_padded(op->weight[l]->plan.rows);
    }
    return rows;
}

/* Computes y[.., row .. row + m) of layer l of the operation. */
static void linear_piece(const struct cpu_view *view, const struct rf_op *op, int32_t l,
                         size_t n_rows, size_t row, size_t m)
{
    const struct rf_weight *weight = op->weight[l];
    enum rf_format format = weight->plan.format;
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *y = &view->buffers[op->out[l]];
    struct rf_linear_args args = {.y = buffer_row(y, 0) + row,
                                  .ldy = y->row_bytes / sizeof(float),
                                  .w = (const char *)weight->data + weight_offset(weight, row),
                                  .ldw = weight->ld,
                                  .x = x->forms[cpu_form_of(view, weight)],
                                  .m = m,
                                  .n = n_rows,
                                  .k = rf_plan_packed_columns(&weight->plan),
                                  .bias = op->bias[l] ? op->bias[l]->f32 + row : NULL,
                                  .accumulate = op->accumulate};
    view->linear[format](&args);
}

/* The weight rows [begin, end) of all layers, each layer's padded to whole panels so that the next
 * begins with one. */
static void linear_rows(const struct cpu_view *view, const struct rf_op *op, size_t n_rows,
                        size_t begin, size_t end, size_t call)
{
    size_t first = 0; /* row of layer l among all of them */
    for (int32_t l = 0; l < op->n; first += rf_padded(op->weight[l++]->plan.rows)) {
        size_t from = begin > first ? begin - first : 0, to = end > first ? end - first : 0;
        if (to > op->weight[l]->plan.rows) to = op->weight[l]->plan.rows;
        for (size_t row = from, m; row < to; row += m) {
            m = to - row < call ? to - row : call;
            linear_piece(view, op, l, n_rows, row, m);
        }
    }
}

void rf_cpu_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                   size_t n_rows)
{
    struct rf_share share;
    struct cpu_op_rows rows = rf_cpu_op_rows(op);
    struct cpu_pieces pieces = rf_cpu_pieces(view->kernels, rows.any_bf16, rows.row_bytes,
                                             rows.total, worker->count, n_rows);
    size_t begin, end;
    rf_share_begin(&share, worker, rows.total, pieces.grain, (double)rows.row_bytes);
    while (rf_share_next(&share, &begin, &end))
        linear_rows(view, op, n_rows, begin, end, pieces.call);
    rf_team_barrier(worker);
}
