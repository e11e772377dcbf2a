/* The gated delta rule (qwen35) and Mamba-2 (granitehybrid), which is the same without what the
 * rule takes back and without lengths. All workers call the function; a row's bits depend on the
 * rows that it follows alone, wherever those come from: the pass, or the log in the cache's states.
 * view.c calls it.
 *
 * A pass takes each matrix at its base (states.c), replays the log from there to the pass, and goes
 * on through its own rows, each from the one that it follows. Columns of a matrix need nothing from
 * each other, so a worker has RF_STATE_COLUMNS of them at a time, which stay in its nearest cache
 * through all rows: a pass reads and writes a matrix once. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "infer/state_kept.h"

_Static_assert((int)RF_STATE_COLUMNS == (int)RF_DELTA_COLUMNS, "columns of a step");

enum { SUMS = 4 /* of a column's products, so that none waits for the one before */ };

/* ---- preparing a pass ---- */

/* Where the matrices of a tree's rows are among a worker's slots: a row's take the place of those
 * that it goes on from, if no later row does. */
static void plan_slots(struct cpu_view *view, const struct cpu_group *group)
{
    const struct rf_rows *rows = group->rows;
    int32_t followers[RF_TREE_ROWS + 1] = {0}, slot[RF_TREE_ROWS + 1] = {0};
    int32_t unused[RF_TREE_ROWS + 1], n_unused = 0, n_slots = 1;
    for (int32_t i = 0; i < rows->n; i++) followers[rows->parents[i] + 1]++;
    for (int32_t i = 0; i < rows->n; i++) {
        struct cpu_state_slots *slots = &view->state_slots[group->first + (size_t)i];
        int32_t from = rows->parents[i] + 1, is_last = --followers[from] == 0;
        slots->from = slots->to = slot[from];
        if (followers[i + 1] == 0)
            slots->to = -1;
        else if (!is_last)
            slots->to = n_unused ? unused[--n_unused] : n_slots++;
        if (is_last && slots->to != slot[from]) unused[n_unused++] = slot[from];
        slot[i + 1] = slots->to;
    }
}

static size_t piece_floats(const struct rf_params *params)
{
    return (size_t)params->delta_key_dim * RF_STATE_COLUMNS;
}

int rf_cpu_delta_new(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_params *params = view->params;
    size_t rows = (size_t)view->base.shape.max_rows,
           workers = (size_t)rf_team_size(view->queue->team),
           widest =
               (size_t)(params->delta_key_dim > params->delta_value_dim ? params->delta_key_dim
                                                                        : params->delta_value_dim);
    if (!params->delta_values) return 0;
    view->state_slots = rf_cpu_view_alloc(view, rows, sizeof *view->state_slots, error);
    view->state_scratch = rf_cpu_view_alloc(
        view, workers * (RF_TREE_ROWS + 1) * piece_floats(params), sizeof(float), error);
    view->ones = rf_cpu_view_alloc(view, widest, sizeof *view->ones, error);
    if (!view->state_slots || !view->state_scratch || !view->ones) return RF_ERR_MEMORY;
    for (size_t j = 0; j < widest; j++) view->ones[j] = 1;
    return 0;
}

int rf_cpu_delta_prepare(struct cpu_view *view, struct rf_error *error)
{
    const struct rf_allocator *allocator = view->queue->base.backend->allocator;
    size_t rows = 0, width = (size_t)rf_delta_mixed(view->params);
    if (!view->params->delta_values) return 0;
    for (int32_t g = 0; g < view->pass->n_groups; g++) {
        struct cpu_group *group = &view->groups[g];
        group->replayed = (size_t)group->rows->first_pos - group->cache->states.base.at;
        group->mixed_first = rows;
        rows += group->replayed + (size_t)group->rows->n;
        if (group->rows->parents) plan_slots(view, group);
    }
    view->n_mixed = rows;
    if (rows <= view->most_mixed) return 0;
    view->most_mixed = 0;
    rf_free(allocator, view->mixed);
    /* Enough for a pass of one sequence. Pages that are never written take no memory. */
    size_t most = (size_t)view->base.shape.max_rows + RF_STATE_TAIL + 2 * RF_STATE_POSITIONS;
    if (most < rows) most = rows;
    view->mixed = rf_malloc(allocator, most, width * sizeof *view->mixed, "delta rule", error);
    if (!view->mixed) return RF_ERR_MEMORY;
    view->most_mixed = most;
    return 0;
}

/* ---- what rows leave ---- */

static float sigmoid_f(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float softplus_f(float x)
{
    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}

/* b and g of a row and head, in the places of what they come from. */
static void steps_of_delta(const struct rf_op *op, size_t h, float *b, float *g)
{
    *b = sigmoid_f(*b);
    *g = expf(op->weight[1]->f32[h] * softplus_f(*g + op->weight[2]->f32[h]));
}

static void steps_of_mamba(const struct rf_params *params, const struct rf_op *op, size_t h,
                           float *b, float *g)
{
    *b = softplus_f(*b + op->weight[2]->f32[h]);
    if (*b < params->step_min) *b = params->step_min;
    if (params->step_max > 0 && *b > params->step_max) *b = params->step_max;
    *g = expf(op->weight[1]->f32[h] * *b);
}

/* b and g of all heads, and all of the row in the log. */
static void log_row(const struct cpu_view *view, const struct rf_op *op, size_t row)
{
    size_t n = (size_t)rf_delta_mixed(view->params), heads = (size_t)view->params->delta_values;
    float *b = buffer_row(&view->buffers[op->in[1]], row),
          *g = buffer_row(&view->buffers[op->in[2]], row),
          *log = rf_cpu_states_log(view->groups[view->rows[row].group].cache, op->layer,
                                   (size_t)view->rows[row].slot);
    for (size_t h = 0; h < heads; h++) {
        if (op->kind == RF_OP_MAMBA)
            steps_of_mamba(view->params, op, h, &b[h], &g[h]);
        else
            steps_of_delta(op, h, &b[h], &g[h]);
    }
    if (!log) return;
    memcpy(log, buffer_row(&view->buffers[op->in[0]], row), n * sizeof *log);
    memcpy(log + n, b, heads * sizeof *log);
    memcpy(log + n + heads, g, heads * sizeof *log);
}

/* ---- the convolution ---- */

/* A row of the pass, or of the log before it. */
struct mixed_row {
    const struct cpu_group *group;
    int32_t i;       /* row of the group; -1: of the log */
    size_t position; /* of a row of the log or of one without parents */
};

static struct mixed_row mixed_row_at(const struct cpu_view *view, size_t at)
{
    const struct cpu_group *group = &view->groups[view->pass->n_groups - 1];
    while (group->mixed_first > at) group--;
    size_t in_group = at - group->mixed_first, from = group->cache->states.base.at;
    return (struct mixed_row){
        group, in_group < group->replayed ? -1 : (int32_t)(in_group - group->replayed),
        from + in_group};
}

/* m of the row and of those before it, the last one first; NULL: before the text. */
struct followed_mixed {
    const float *rows[RF_MAX_CONV_ROWS];
};

static struct followed_mixed mixed_followed(const struct cpu_view *view, const struct rf_op *op,
                                            const struct mixed_row *row)
{
    const struct cpu_group *group = row->group;
    struct followed_mixed followed;
    int32_t i = row->i;
    int64_t position = i >= 0 ? group->rows->first_pos - 1 : (int64_t)row->position;
    for (int32_t k = 0; k < view->params->conv_rows; k++) {
        if (i < 0) {
            followed.rows[k] = rf_cpu_states_row(group->cache, op->layer,
                                                 group->cache->states.base.at, position--);
            continue;
        }
        followed.rows[k] = buffer_row(&view->buffers[op->in[0]], group->first + (size_t)i);
        i = group->rows->parents ? group->rows->parents[i] : i - 1;
    }
    return followed;
}

/* Whether the row is the last before a block whose beginning the pass writes. */
static int ends_block(const struct mixed_row *row)
{
    return (row->position + 1) % RF_STATE_POSITIONS == 0 &&
           (row->i < 0 || !row->group->rows->parents);
}

static float squares_of(const float *x, size_t n)
{
    float sums[SUMS] = {0};
    for (size_t j = 0; j < n; j++) sums[j % SUMS] += x[j] * x[j];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Elements [first, first + n) of the row after the convolution, in one order of sums. */
static void convolve(const struct cpu_view *view, const struct rf_op *op,
                     const struct followed_mixed *followed, size_t first, size_t n, float *out)
{
    size_t n_rows = (size_t)view->params->conv_rows;
    const float *weights = op->weight[0]->f32 + first * n_rows;
    if (op->bias[0])
        memcpy(out, op->bias[0]->f32 + first, n * sizeof *out);
    else
        memset(out, 0, n * sizeof *out);
    for (size_t r = 0; r < n_rows; r++) {
        const float *m = followed->rows[n_rows - 1 - r];
        for (size_t j = 0; m && j < n; j++) out[j] += weights[j * n_rows + r] * m[first + j];
    }
    view->kernels->silu_gate(out, out, view->ones, n);
}

/* One head of a row: of q, k or v, counted in this order. */
static void mix_head(const struct cpu_view *view, const struct rf_op *op,
                     const struct mixed_row *row, const struct followed_mixed *followed,
                     size_t head, float *out)
{
    const struct rf_params *params = view->params;
    const struct rf_delta_places places = rf_delta_places(params);
    size_t keys = (size_t)params->delta_keys, dim = (size_t)params->delta_key_dim;
    if (head >= 2 * keys) {
        size_t columns = (size_t)params->delta_value_dim,
               first = (size_t)places.v + (head - 2 * keys) * columns;
        convolve(view, op, followed, first, columns, out + first);
        return;
    }
    if (head < keys && row->i < 0) return; /* a replay has no use for q */
    size_t first =
        head < keys ? (size_t)places.q + head * dim : (size_t)places.k + (head - keys) * dim;
    float *x = out + first;
    convolve(view, op, followed, first, dim, x);
    if (op->kind == RF_OP_MAMBA) return;
    float scale = 1.0f / sqrtf(squares_of(x, dim) + 1e-6f);
    if (head < keys) scale /= sqrtf((float)dim);
    for (size_t j = 0; j < dim; j++) x[j] *= scale;
}

static void mix_rows(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct rf_params *params = view->params;
    size_t width = (size_t)rf_delta_mixed(params),
           heads = 2 * (size_t)params->delta_keys + (size_t)params->delta_values;
    struct cpu_items items = cpu_items(worker, view->n_mixed * heads, 4);
    for (size_t item; cpu_items_next(&items, &item);) {
        struct mixed_row row = mixed_row_at(view, item / heads);
        struct followed_mixed followed = mixed_followed(view, op, &row);
        mix_head(view, op, &row, &followed, item % heads, view->mixed + item / heads * width);
        if (item % heads == 0 && ends_block(&row))
            rf_cpu_states_begin_rows(row.group->cache, op->layer,
                                     (row.position + 1) / RF_STATE_POSITIONS, followed.rows);
    }
}

/* ---- the rule ---- */

/* Some columns of one head of a sequence. */
struct columns {
    const struct cpu_group *group;
    const struct rf_op *op;
    size_t head, first, width; /* columns [first, first + width) of the head */
    size_t at;                 /* the place of their elements in a layer's matrices */
    float *slots;              /* [RF_TREE_ROWS + 1][piece_floats] of the worker */
};

/* The step of row `at` of the group's replayed and own rows, without matrices. */
static struct rf_delta_args row_of(const struct cpu_view *view, const struct columns *columns,
                                   size_t at)
{
    const struct rf_params *params = view->params;
    const struct cpu_group *group = columns->group;
    size_t keys = (size_t)params->delta_keys, values = (size_t)params->delta_values,
           dim = (size_t)params->delta_key_dim, n = (size_t)params->delta_value_dim,
           mixed = (size_t)rf_delta_mixed(params), head = columns->head,
           of = params->delta_tiled ? head % keys : head / (values / keys);
    const struct rf_delta_places places = rf_delta_places(params);
    const float *y = view->mixed + (group->mixed_first + at) * mixed;
    struct rf_delta_args row = {.rows = dim,
                                .width = columns->width,
                                .q = y + (size_t)places.q + of * dim,
                                .k = y + (size_t)places.k + of * dim,
                                .v = y + (size_t)places.v + head * n + columns->first,
                                .is_mamba = columns->op->kind == RF_OP_MAMBA};
    if (at < group->replayed) {
        const float *log =
            rf_cpu_states_log(group->cache, columns->op->layer, group->cache->states.base.at + at);
        row.b = log[mixed + head];
        row.g = log[mixed + values + head];
        return row;
    }
    size_t own = group->first + at - group->replayed;
    row.b = buffer_row(&view->buffers[columns->op->in[1]], own)[head];
    row.g = buffer_row(&view->buffers[columns->op->in[2]], own)[head];
    row.out = buffer_row(&view->buffers[columns->op->out[0]], own) + head * n + columns->first;
    return row;
}

/* A row's step, and what Mamba-2 adds of the row itself. */
static void step(const struct cpu_view *view, const struct columns *columns,
                 const struct rf_delta_args *row)
{
    view->kernels->delta_step(row);
    if (!row->is_mamba || !row->out) return;
    float skip = columns->op->bias[1]->f32[columns->head];
    for (size_t c = 0; c < row->width; c++) row->out[c] += skip * row->v[c];
}

/* Through the rows from `at` to before `end` in the first slot. Writes beginnings of blocks. */
static void write_chain(const struct cpu_view *view, const struct columns *columns, size_t at,
                        size_t end)
{
    const struct cpu_group *group = columns->group;
    size_t n = (size_t)view->params->delta_key_dim * columns->width;
    float *held = columns->slots;
    for (; at < end; at++) {
        struct rf_delta_args row = row_of(view, columns, at);
        size_t next = group->cache->states.base.at + at + 1;
        int is_end =
            at + 1 == group->replayed + (size_t)group->rows->n && next % RF_STATE_POSITIONS != 0;
        row.from = held;
        row.to = is_end ? NULL : held;
        step(view, columns, &row);
        if (next % RF_STATE_POSITIONS) continue;
        float *begin =
            rf_cpu_states_matrices(group->cache, columns->op->layer, next / RF_STATE_POSITIONS);
        if (begin) memcpy(begin + columns->at, held, n * sizeof *held);
    }
}

static void write_tree(const struct cpu_view *view, const struct columns *columns)
{
    const struct cpu_group *group = columns->group;
    size_t piece = piece_floats(view->params);
    for (size_t i = 0; i < (size_t)group->rows->n; i++) {
        const struct cpu_state_slots *slots = &view->state_slots[group->first + i];
        struct rf_delta_args row = row_of(view, columns, group->replayed + i);
        row.from = columns->slots + (size_t)slots->from * piece;
        row.to = slots->to < 0 ? NULL : columns->slots + (size_t)slots->to * piece;
        step(view, columns, &row);
    }
}

static void write_columns(const struct cpu_view *view, const struct columns *columns)
{
    const struct cpu_group *group = columns->group;
    size_t n = (size_t)view->params->delta_key_dim * columns->width;
    const float *base = rf_cpu_states_base(group->cache, columns->op->layer);
    float *moved = rf_cpu_states_moved(group->cache, columns->op->layer);
    if (base)
        memcpy(columns->slots, base + columns->at, n * sizeof *base);
    else
        memset(columns->slots, 0, n * sizeof *base);
    write_chain(view, columns, 0, group->replayed);
    if (moved) memcpy(moved + columns->at, columns->slots, n * sizeof *moved);
    if (group->rows->parents)
        write_tree(view, columns);
    else
        write_chain(view, columns, group->replayed, group->replayed + (size_t)group->rows->n);
}

void rf_cpu_delta(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct rf_params *params = view->params;
    size_t n_rows = view->n_rows, heads = (size_t)params->delta_values,
           n = (size_t)params->delta_value_dim,
           pieces = (n + RF_STATE_COLUMNS - 1) / RF_STATE_COLUMNS;
    struct cpu_items items = cpu_items(worker, n_rows, rows_grain(n_rows));
    for (size_t row; cpu_items_next(&items, &row);) log_row(view, op, row);
    mix_rows(view, worker, op);
    items = cpu_items(worker, (size_t)view->pass->n_groups * heads * pieces, 1);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t head = item / pieces % heads, first = item % pieces * RF_STATE_COLUMNS;
        struct columns columns = {
            .group = &view->groups[item / pieces / heads],
            .op = op,
            .head = head,
            .first = first,
            .width = n - first < RF_STATE_COLUMNS ? n - first : RF_STATE_COLUMNS,
            .at = rf_state_element(params, head, 0, first),
            .slots = view->state_scratch +
                     (size_t)worker->index * (RF_TREE_ROWS + 1) * piece_floats(params)};
        write_columns(view, &columns);
    }
}
