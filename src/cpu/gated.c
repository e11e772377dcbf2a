/* Gates behind attention and behind the delta rule (qwen35), and the norms of its heads and of
 * Mamba-2's groups. Each is a row's own. view.c calls them with all workers. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

static float *gated_row(const struct cpu_view *view, const struct rf_worker *worker)
{
    return view->worker_rows + (size_t)worker->index * view->worker_row_floats;
}

void rf_cpu_norm_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *z = &view->buffers[op->in[1]];
    struct cpu_buffer *out = &view->buffers[op->out[0]];
    float *normed = gated_row(view, worker), eps = view->params->rms_eps;
    size_t dim = (size_t)view->params->delta_value_dim, width = x->width;
    /* Single heads, if a head is a whole number of the operand's parts. */
    size_t part = has_parts(out) && dim % RF_BLOCK == 0 ? dim : width, parts = width / part;
    struct cpu_items items = cpu_items(worker, view->n_rows * parts, 4);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t row = item / parts, first = item % parts * part;
        const float *from = buffer_row(x, row) + first;
        for (size_t h = 0; h < part; h += dim)
            view->kernels->rms_norm(normed + h, from + h, op->weight[0]->f32, eps, dim);
        view->kernels->silu_gate(normed, buffer_row(z, row) + first, normed, part);
        rf_cpu_pack(view, out, row, first, part, normed);
    }
}

void rf_cpu_gate_norm(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *z = &view->buffers[op->in[1]];
    struct cpu_buffer *out = &view->buffers[op->out[0]];
    float *gated = gated_row(view, worker), eps = view->params->rms_eps;
    size_t width = x->width, group = width / (size_t)view->params->delta_keys;
    /* Single groups, if a group is a whole number of the operand's parts. */
    size_t part = has_parts(out) && group % RF_BLOCK == 0 ? group : width, parts = width / part;
    struct cpu_items items = cpu_items(worker, view->n_rows * parts, 4);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t row = item / parts, first = item % parts * part;
        view->kernels->silu_gate(gated, buffer_row(z, row) + first, buffer_row(x, row) + first,
                                 part);
        for (size_t h = 0; h < part; h += group)
            view->kernels->rms_norm(gated + h, gated + h, op->weight[0]->f32 + first + h, eps,
                                    group);
        rf_cpu_pack(view, out, row, first, part, gated);
    }
}

void rf_cpu_split_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *both = &view->buffers[op->in[0]];
    size_t dim = (size_t)view->params->head_dim, heads = (size_t)view->params->n_head;
    struct cpu_items items = cpu_items(worker, view->n_rows * heads, 8);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t row = item / heads, head = item % heads;
        const float *from = buffer_row(both, row) + 2 * head * dim;
        for (int p = 0; p < 2; p++)
            memcpy(buffer_row(&view->buffers[op->out[p]], row) + head * dim, from + (size_t)p * dim,
                   dim * sizeof *from);
    }
}

void rf_cpu_sigmoid_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *gate = &view->buffers[op->in[1]];
    struct cpu_buffer *out = &view->buffers[op->out[0]];
    float *gated = gated_row(view, worker);
    size_t dim = (size_t)view->params->head_dim, width = x->width,
           part = has_parts(out) && dim % RF_BLOCK == 0 ? dim : width, parts = width / part;
    struct cpu_items items = cpu_items(worker, view->n_rows * parts, 4);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t row = item / parts, first = item % parts * part;
        const float *from = buffer_row(x, row) + first, *by = buffer_row(gate, row) + first;
        for (size_t j = 0; j < part; j++) gated[j] = from[j] / (1.0f + expf(-by[j]));
        rf_cpu_pack(view, out, row, first, part, gated);
    }
}
