/* Convolutions between two gates (lfm2). All workers call the function; a row's bits depend on the
 * rows that it follows alone, wherever those come from: the pass, or the cache's states. view.c
 * calls it. */
#include <string.h>

#include "cpu/cpu.h"
#include "infer/state_kept.h"

/* z of the row and of those before it, the last one first; NULL: before the text. */
struct followed {
    const float *rows[RF_MAX_CONV_ROWS];
};

/* The rows that row i of a group follows, itself the first. */
static struct followed rows_followed(const struct cpu_view *view, const struct rf_op *op,
                                     const struct cpu_group *group, int32_t i)
{
    const struct cpu_buffer *in = &view->buffers[op->in[0]];
    const struct rf_rows *rows = group->rows;
    struct followed followed;
    for (int32_t k = 0, before = 0; k < view->params->conv_rows; k++) {
        if (i >= 0)
            followed.rows[k] = buffer_row(in, group->first + (size_t)i);
        else
            followed.rows[k] = rf_cpu_states_row(group->cache, op->layer, (size_t)rows->first_pos,
                                                 (int64_t)rows->first_pos - ++before);
        if (i >= 0) i = rows->parents ? rows->parents[i] : i - 1;
    }
    return followed;
}

/* Whether the rows up to i follow each other as they come. */
static int is_chain(const struct rf_rows *rows, int32_t i)
{
    for (int32_t k = 0; rows->parents && k <= i; k++)
        if (rows->parents[k] != k - 1) return 0;
    return 1;
}

/* Writes the beginning of the block that row i is the last one before. */
static void write_begin(const struct rf_op *op, const struct cpu_group *group, int32_t i,
                        const struct followed *followed)
{
    size_t next = (size_t)group->rows->first_pos + (size_t)i + 1;
    if (next % RF_STATE_POSITIONS || !is_chain(group->rows, i)) return;
    rf_cpu_states_begin_rows(group->cache, op->layer, next / RF_STATE_POSITIONS, followed->rows);
}

/* z = b * x in the place of b, and in the log. */
static void gate_row(const struct cpu_view *view, const struct rf_op *op, size_t row)
{
    float *z = buffer_row(&view->buffers[op->in[0]], row);
    size_t width = (size_t)view->params->n_embd;
    const float *x = z + 2 * width;
    for (size_t j = 0; j < width; j++) z[j] *= x[j];
    float *log = rf_cpu_states_log(view->groups[view->rows[row].group].cache, op->layer,
                                   (size_t)view->rows[row].slot);
    if (log) memcpy(log, z, width * sizeof *log);
}

/* out += the weights [width][n] of column k times z. */
static void add_column(float *out, const float *weights, size_t n, size_t k, const float *z,
                       size_t width)
{
    for (size_t j = 0; j < width; j++) out[j] += weights[j * n + k] * z[j];
}

static void convolve_row(const struct cpu_view *view, const struct rf_op *op, size_t row,
                         float *out)
{
    const struct cpu_group *group = &view->groups[view->rows[row].group];
    size_t width = (size_t)view->params->n_embd, n = (size_t)view->params->conv_rows;
    int32_t i = (int32_t)(row - group->first);
    struct followed followed = rows_followed(view, op, group, i);
    const float *weights = op->weight[0]->f32,
                *c = buffer_row(&view->buffers[op->in[0]], row) + width;
    write_begin(op, group, i, &followed);
    if (op->bias[0])
        memcpy(out, op->bias[0]->f32, width * sizeof *out);
    else
        memset(out, 0, width * sizeof *out);
    for (size_t k = 0; k < n; k++) {
        const float *z = followed.rows[n - 1 - k];
        if (!z) continue;
        if (n == 3) /* as in every model so far: a constant distance of weights is faster */
            add_column(out, weights, 3, k, z, width);
        else
            add_column(out, weights, n, k, z, width);
    }
    for (size_t j = 0; j < width; j++) out[j] *= c[j];
}

void rf_cpu_short_conv(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    size_t n_rows = view->n_rows, width = (size_t)view->params->n_embd;
    float *out = view->worker_rows + (size_t)worker->index * view->worker_row_floats;
    struct cpu_items items = cpu_items(worker, n_rows, rows_grain(n_rows));
    for (size_t row; cpu_items_next(&items, &row);) gate_row(view, op, row);
    items = cpu_items(worker, n_rows, rows_grain(n_rows));
    for (size_t row; cpu_items_next(&items, &row);) {
        convolve_row(view, op, row, out);
        rf_cpu_pack(view, &view->buffers[op->out[0]], row, 0, width, out);
    }
}
