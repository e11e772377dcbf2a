/* Mixtures of experts. The rows of a pass that chose the same expert lie one behind the other in
 * buffers "by expert", experts ascending, so an expert's weights are read once for all of them.
 *
 * Row independence: kernels give a row the same bits in any company, and a row's experts are added
 * in the order of their shares, whatever order they were computed in. view.c runs the operations.
 */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/pool.h"
#include "weights/pack.h"

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
    view->scratch_of_pool = rf_cpu_view_alloc(view, (size_t)rf_team_size(view->queue->team),
                                              weights->scratch_bytes, error);
    return view->choices && view->experts && view->expert_rows && view->expert_counts &&
                   view->missing && view->scratch_of_pool
               ? 0
               : RF_ERR_MEMORY;
}

/* ---- choosing ---- */

/* Lists the experts with the greatest values; of equal values the lowest expert comes first. */
static void list_top_experts(const struct rf_params *params, const float *values,
                             struct cpu_choice *top)
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

/* The sum of the best values of a group, greatest first. */
static float group_sum(const struct rf_params *params, const float *values, int32_t n)
{
    float best = -INFINITY, second = -INFINITY;
    for (int32_t e = 0; e < n; e++) {
        float value = values[e] > best ? best : values[e];
        if (values[e] > best) best = values[e];
        if (value > second) second = value;
    }
    return params->expert_group_top > 1 ? best + second : best;
}

/* Gives the experts of all but the best groups a value that none chooses. */
static void leave_out_groups(const struct rf_params *params, float *values)
{
    float sums[RF_MAX_EXPERTS];
    int32_t groups = params->expert_groups, n = groups ? params->n_expert / groups : 0;
    for (int32_t g = 0; g < groups; g++) sums[g] = group_sum(params, values + g * n, n);
    for (int32_t g = 0; g < groups; g++) {
        int32_t better = 0;
        for (int32_t i = 0; i < groups; i++)
            better += sums[i] > sums[g] || (sums[i] == sums[g] && i < g);
        for (int32_t e = g * n; better >= params->expert_groups_used && e < (g + 1) * n; e++)
            values[e] = -INFINITY;
    }
}

/* Writes the softmax of all values, by which groups are chosen. */
static void softmax(const struct rf_params *params, const float *values, float *chooses)
{
    float max = values[0], sum = 0.0f;
    for (int32_t e = 1; e < params->n_expert; e++) max = values[e] > max ? values[e] : max;
    for (int32_t e = 0; e < params->n_expert; e++) sum += chooses[e] = expf(values[e] - max);
    for (int32_t e = 0; e < params->n_expert; e++) chooses[e] /= sum;
}

/* Shares of experts in groups. The greatest value may be of one that is left out. */
static void share_groups(const struct rf_params *params, const float *shares,
                         struct cpu_choice *top)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < params->n_expert_used; i++) sum += top[i].value = shares[top[i].expert];
    for (int32_t i = 0; params->expert_norm && i < params->n_expert_used; i++) top[i].value /= sum;
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

/* Writes the values that choose: the sigmoids, and what is added to them there. */
static void sigmoids(const struct rf_params *params, const float *values, const float *bias,
                     float *chooses)
{
    for (int32_t e = 0; e < params->n_expert; e++)
        chooses[e] = 1.0f / (1.0f + expf(-values[e])) + (bias ? bias[e] : 0.0f);
}

static void share_sigmoids(const struct rf_params *params, const float *values,
                           struct cpu_choice *top)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < params->n_expert_used; i++) {
        top[i].value = 1.0f / (1.0f + expf(-values[top[i].expert]));
        sum += top[i].value;
    }
    for (int32_t i = 0; params->expert_norm && i < params->n_expert_used; i++)
        top[i].value /= sum + params->expert_least;
}

/* Lists the chosen experts, and gives each choice a row behind the choices of the rows before. */
static void group_by_expert(struct cpu_view *view)
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

static struct cpu_pool *experts_pool(const struct cpu_view *view)
{
    return ((const struct cpu_weights *)view->base.shape.weights)->pool;
}

/* Finds a place in the pool for each chosen expert, and lists the ones that are to be packed. */
static void take_places(struct cpu_view *view, const struct rf_op *op)
{
    view->n_missing = 0;
    if (experts_pool(view))
        rf_cpu_pool_take(experts_pool(view), op->weight, view->experts, view->n_experts,
                         view->missing, &view->n_missing);
}

/* Packs a panel of an expert in a pool to its place. */
static void pack_expert_panel(const void *user, const struct rf_worker *worker,
                              const struct rf_weight *weight, size_t expert, size_t panel)
{
    const struct cpu_view *view = user;
    const struct cpu_weights *weights = (const struct cpu_weights *)view->base.shape.weights;
    const struct rf_weight_plan *plan = &weight->plan;
    rf_weight_pack(plan, view->kernels, expert * plan->strips + panel, 1,
                   (char *)(uintptr_t)weight->experts[expert] + panel * plan->strip_bytes,
                   view->scratch_of_pool + (size_t)worker->index * weights->scratch_bytes);
}

void rf_cpu_choose_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *routed = &view->buffers[op->in[0]], *x = &view->buffers[op->in[1]];
    size_t used = (size_t)view->params->n_expert_used;
    float *chooses = view->worker_rows + (size_t)worker->index * view->worker_row_floats;
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const float *values = buffer_row(routed, i);
        struct cpu_choice *top = view->choices + i * used;
        if (view->params->expert_sigmoid) {
            sigmoids(view->params, values, op->bias[0] ? op->bias[0]->f32 : NULL, chooses);
            leave_out_groups(view->params, chooses);
            list_top_experts(view->params, chooses, top);
            share_sigmoids(view->params, values, top);
        } else if (view->params->expert_groups) {
            softmax(view->params, values, chooses);
            leave_out_groups(view->params, chooses);
            list_top_experts(view->params, chooses, top);
            share_groups(view->params, chooses, top);
        } else {
            list_top_experts(view->params, values, top);
            share_out(view->params, values, top);
        }
    }
    if (worker->index == 0) {
        group_by_expert(view);
        take_places(view, op);
    }
    rf_team_barrier(worker);
    if (view->n_missing)
        rf_cpu_pool_fill(op->weight, view->missing, view->n_missing, worker, pack_expert_panel,
                         view);
    items = cpu_items(worker, view->n_expert_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);)
        rf_cpu_pack(view, &view->buffers[op->out[0]], i, 0, x->width,
                    buffer_row(x, view->expert_rows[i].row));
}

/* ---- linear layers ---- */

/* Computes y[.., row .. row + m) of layer l of the operation, for the rows of one expert. */
static void expert_piece(const struct cpu_view *view, const struct rf_op *op, int32_t l,
                         size_t group, size_t row, size_t m)
{
    const struct rf_weight *weight = op->weight[l], *bias = op->bias[l];
    const struct cpu_expert *expert = &view->experts[group];
    const struct cpu_buffer *x = &view->buffers[op->in[0]], *y = &view->buffers[op->out[l]];
    enum rf_format format = weight->plan.format;
    enum rf_operand form = view->operand[format];
    struct rf_linear_args args = {
        .y = buffer_row(y, expert->first) + row,
        .ldy = y->row_bytes / sizeof(float),
        .w = (const char *)weight->experts[expert->number] + weight_offset(weight, row),
        .ldw = weight->ld,
        .x = (const char *)x->forms[form] + rf_cpu_expert_operand_at(view, form, group, x->width),
        .m = m,
        .n = expert->n,
        .k = weight->plan.columns,
        .bias = bias ? bias->f32 + expert->number * weight->plan.rows + row : NULL};
    view->linear[format](&args);
}

/* The weight rows [from, to) of one expert's layers, counted as by rf_cpu_op_rows. */
static void expert_weight_rows(const struct cpu_view *view, const struct rf_op *op, size_t group,
                               size_t from, size_t to, size_t call)
{
    size_t first = 0;
    for (int32_t l = 0; l < op->n; first += rf_padded(op->weight[l++]->plan.rows)) {
        size_t begin = from > first ? from - first : 0, end = to > first ? to - first : 0;
        if (end > op->weight[l]->plan.rows) end = op->weight[l]->plan.rows;
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
    struct cpu_op_rows rows = rf_cpu_op_rows(op);
    size_t each = rows.total, total = view->n_experts * each, begin, end;
    struct cpu_pieces pieces = rf_cpu_pieces(view->kernels, rows.any_bf16, rows.row_bytes, total,
                                             worker->count, view->n_rows);
    /* Experts of several rows differ in rows, so only a single row measures the workers' speeds. */
    rf_share_begin(&share, worker, total, pieces.grain,
                   view->n_rows == 1 ? (double)rows.row_bytes : 0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin; row < end;) {
            size_t group = row / each, from = row % each,
                   to = end - row < each - from ? from + (end - row) : each;
            expert_weight_rows(view, op, group, from, to, pieces.call);
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
        for (size_t j = first; j < end; j++) out[j] += op->scale * sum[j - first];
    }
    if (worker->index == 0) rf_cpu_pool_release(experts_pool(view));
}
