/* The operations of a pass that work row by row: embeddings, norms, rotations, gates and sums. All
 * workers call each function; a row's bits do not depend on which worker computes it. view.c runs
 * them; linear layers, attention, experts and answers have files of their own. */
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "weights/pack.h"

enum { PART = 512 /* values of a row that a worker takes at a time where rows are few */ };

static float *rotation_at(const struct cpu_view *view, size_t row, enum rf_rotation rotation)
{
    return view->rotations + (row * 2 + (size_t)rotation) * (size_t)rf_most_rope_dim(view->params);
}

/* Writes cos and sin of each frequency of a set at a row's position to out[rope_dim / 2][2]. */
static void fill_rotation(const struct cpu_view *view, size_t row, enum rf_frequencies set,
                          float *out)
{
    size_t half = (size_t)rf_rope_dim(view->params, set) / 2;
    const double *frequencies =
        view->frequencies + (size_t)set * (size_t)rf_most_rope_dim(view->params) / 2;
    const struct rf_rope *rope = rf_rope_of(view->params, set);
    int32_t position = view->rows[row].position;
    double magnitude = (double)rope->magnitude, growth = rf_rope_growth(rope, position);
    double power = -2.0 / (double)(rf_rope_dim(view->params, set) - 2);
    for (size_t i = 0; i < half; i++) {
        double angle = (double)position * frequencies[i];
        if (growth != 1) angle *= pow(growth, power * (double)i);
        out[2 * i] = (float)(magnitude * cos(angle));
        out[2 * i + 1] = (float)(magnitude * sin(angle));
    }
}

static void prepare_rotations(const struct cpu_view *view, size_t row)
{
    const struct rf_params *params = view->params;
    int is_long = view->groups[view->rows[row].group].rows->is_long;
    fill_rotation(view, row, is_long ? RF_ROPE_LONG : RF_ROPE_GLOBAL,
                  rotation_at(view, row, RF_ROTATE_GLOBAL));
    if (params->rope_local.theta > 0)
        fill_rotation(view, row, RF_ROPE_LOCAL, rotation_at(view, row, RF_ROTATE_LOCAL));
}

/* A row of F32 for the worker's own use, as wide as a norm or a gate. */
static float *worker_row(const struct cpu_view *view, const struct rf_worker *worker)
{
    return view->worker_rows + (size_t)worker->index * view->worker_row_floats;
}

static void add_table_row(const struct cpu_view *view, const struct rf_worker *worker,
                          const struct rf_weight *table, size_t row, float *x)
{
    float *added = worker_row(view, worker);
    rf_weight_read_row(&table->plan, row, added);
    for (size_t j = 0; j < table->plan.columns; j++) x[j] += added[j];
}

void rf_cpu_embed(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const struct cpu_buffer *out = &view->buffers[op->out[0]];
        float *x = buffer_row(out, i);
        if (op->weight[0])
            rf_weight_read_row(&op->weight[0]->plan, (size_t)view->rows[i].token, x);
        else
            memcpy(x, view->pass->x + i * out->width, out->width * sizeof *x);
        for (size_t j = 0; op->scale != 1 && j < out->width; j++) x[j] *= op->scale;
        if (op->weight[1])
            add_table_row(view, worker, op->weight[1], (size_t)view->rows[i].position, x);
        if (op->weight[2])
            add_table_row(view, worker, op->weight[2], (size_t)cpu_is_second_type(view, i), x);
        prepare_rotations(view, i);
    }
}

/* Writes x less its mean. The sum has one order for every n. */
static void centre_row(float *out, const float *x, size_t n)
{
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    size_t whole = n / LANES * LANES;
    for (size_t j = 0; j < whole; j += LANES)
        for (size_t l = 0; l < LANES; l++) sums[l] += (double)x[j + l];
    for (size_t j = whole; j < n; j++) sums[j - whole] += (double)x[j];
    for (size_t l = 0; l < LANES; l++) sum += sums[l];
    float mean = (float)(sum / (double)n);
    for (size_t j = 0; j < n; j++) out[j] = x[j] - mean;
}

void rf_cpu_norm(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                 const int32_t *picked, size_t n_rows)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    float *normed = worker_row(view, worker), eps = op->eps > 0 ? op->eps : view->params->rms_eps;
    size_t n = op->weight[0]->plan.columns;
    struct cpu_items items = cpu_items(worker, n_rows, rows_grain(n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        const float *row = buffer_row(x, picked ? (size_t)picked[i] : i);
        if (op->is_centred) {
            centre_row(normed, row, n);
            row = normed;
        }
        view->kernels->rms_norm(normed, row, op->weight[0]->f32, eps, n);
        for (size_t j = 0; op->bias[0] && j < n; j++) normed[j] += op->bias[0]->f32[j];
        rf_cpu_pack(view, &view->buffers[op->out[0]], i, (size_t)op->column, n, normed);
    }
}

static void rotate_head(const struct cpu_view *view, float *head, size_t row,
                        enum rf_rotation rotation)
{
    const struct rf_params *params = view->params;
    if (rotation == RF_ROTATE_NOT) return;
    head += params->latent;
    enum rf_frequencies set = rotation == RF_ROTATE_LOCAL ? RF_ROPE_LOCAL : RF_ROPE_GLOBAL;
    size_t half = (size_t)rf_rope_dim(params, set) / 2;
    const float *turn = rotation_at(view, row, rotation);
    size_t step = params->rope_style == RF_ROPE_NORM ? 2 : 1,
           distance = params->rope_style == RF_ROPE_NORM ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float *a = head + i * step, *b = a + distance, c = turn[2 * i], s = turn[2 * i + 1];
        float x = *a, y = *b;
        *a = x * c - y * s;
        *b = x * s + y * c;
    }
}

static void grow_query(const struct cpu_view *view, float *head, size_t dim, size_t row)
{
    float factor = rf_query_growth(view->params, view->rows[row].position);
    for (size_t i = 0; factor != 1 && i < dim; i++) head[i] *= factor;
}

/* Quantises the groups that the pass's last rows are the first to read quantised. */
static void quantise_groups(struct cpu_view *view, struct rf_worker *worker, int32_t layer)
{
    size_t n_head = (size_t)rf_n_head_kv(view->params, layer);
    for (int32_t g = 0; g < view->pass->n_groups; g++) {
        struct cpu_cache *cache = view->groups[g].cache;
        size_t n = (view->groups[g].n_groups - cache->n_groups) * n_head;
        if (n == 0) continue;
        struct cpu_items items = cpu_items(worker, n, 1);
        for (size_t item; cpu_items_next(&items, &item);)
            rf_cpu_cache_quantise(cache, layer, item % n_head, cache->n_groups + item / n_head);
    }
}

/* Writes a head's key and value of a row to the cache, or with is_query finds them there. */
static void store_head(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                       size_t h, size_t row)
{
    const struct rf_params *params = view->params;
    size_t dim = (size_t)rf_head_dim(params, op->layer), slot = (size_t)view->rows[row].slot;
    struct cpu_cache *cache = view->groups[view->rows[row].group].cache;
    if (!op->is_query) {
        float *key = buffer_row(&view->buffers[op->in[1]], row) + h * dim,
              *value = buffer_row(&view->buffers[op->in[2]], row) + h * dim;
        if (op->norms_v) {
            float *normed = worker_row(view, worker);
            view->kernels->rms_norm(normed, value, view->ones, params->rms_eps, dim);
            value = normed;
        }
        if (op->weight[1])
            view->kernels->rms_norm(key, key, op->weight[1]->f32, params->rms_eps, dim);
        rotate_head(view, key, row, op->rotation);
        rf_cpu_cache_store(cache, op->layer, h, slot, key, value);
    }
    if (view->has_trees)
        rf_cpu_cache_get(cache, op->layer, h, slot, rf_cpu_tree_entry(view, h, row));
}

void rf_cpu_rope_store(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct rf_params *params = view->params;
    const struct cpu_buffer *q = &view->buffers[op->in[0]];
    size_t n_rows = view->n_rows, dim = (size_t)rf_head_dim(params, op->layer),
           n_q = (size_t)params->n_head, n_kv = (size_t)rf_n_head_kv(params, op->layer);
    /* Items are the heads of q, then the heads of k and v. All rows of a head belong to one item,
     * so that adjacent positions in the cache have one writer. */
    struct cpu_items items = cpu_items(worker, (n_q + n_kv) * n_rows, 8);
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t h = item / n_rows, row = item % n_rows;
        if (h >= n_q) {
            store_head(view, worker, op, h - n_q, row);
            continue;
        }
        float *head = buffer_row(q, row) + h * dim;
        if (op->weight[0])
            view->kernels->rms_norm(head, head, op->weight[0]->f32, params->rms_eps, dim);
        rotate_head(view, head, row, op->rotation);
        grow_query(view, head, dim, row);
    }
    if (!op->is_query) quantise_groups(view, worker, op->layer);
}

/* Changes gate and up so that silu(gate) * up is the clamped form (RF_OP_SILU_GATE). */
static void clamp_gate(const struct rf_op *op, float *gate, float *up, size_t n)
{
    float cap = op->cap, alpha = op->scale, inverse = 1.0f / alpha;
    for (size_t j = 0; j < n; j++) {
        float g = gate[j] < cap ? gate[j] : cap, u = up[j] < cap ? up[j] : cap;
        gate[j] = alpha * g;
        up[j] = ((u > -cap ? u : -cap) + 1.0f) * inverse;
    }
}

static void ungated_part(const struct cpu_view *view, const struct rf_op *op, float *out,
                         const float *x, const float *ones, size_t n)
{
    if (op->kind == RF_OP_RELU2)
        for (size_t j = 0; j < n; j++) out[j] = x[j] > 0 ? x[j] * x[j] : 0;
    else if (op->is_exact)
        view->kernels->gelu(out, x, n);
    else
        view->kernels->gelu_gate(out, x, ones, n);
}

/* gelu(x), as that of a gate before a row of ones, or relu(x)^2. */
void rf_cpu_ungated(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    float ones[PART], *made = worker_row(view, worker);
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    struct cpu_buffer *out = &view->buffers[op->out[0]];
    size_t width = x->width, part = view->n_rows <= RF_FEW_ROWS && has_parts(out) ? PART : width;
    size_t parts = (width + part - 1) / part;
    for (size_t j = 0; j < PART; j++) ones[j] = 1;
    struct cpu_items items =
        cpu_items(worker, buffer_rows(view, x) * parts, rows_grain(view->n_rows));
    for (size_t item; cpu_items_next(&items, &item);) {
        size_t i = item / parts, first = item % parts * part,
               n = width - first < part ? width - first : part;
        const float *row = buffer_row(x, i) + first;
        for (size_t at = 0; at < n; at += PART)
            ungated_part(view, op, made + at, row + at, ones, n - at < PART ? n - at : PART);
        rf_cpu_pack(view, out, i, first, n, made);
    }
}

void rf_cpu_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
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
        if (op->cap > 0) clamp_gate(op, buffer_row(gate, i) + first, buffer_row(up, i) + first, n);
        const float *of_gate = buffer_row(gate, i) + first,
                    *of_up = buffer_row(up, i) + (size_t)op->column + first;
        if (op->is_exact) {
            view->kernels->gelu(gated, of_gate, n);
            for (size_t j = 0; j < n; j++) gated[j] *= of_up[j];
        } else {
            kernel(gated, of_gate, of_up, n);
        }
        rf_cpu_pack(view, out, i, first, n, gated);
    }
}

void rf_cpu_copy(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->in[0]];
    struct cpu_items items = cpu_items(worker, view->n_rows, 1);
    for (size_t i; cpu_items_next(&items, &i);)
        rf_cpu_pack(view, &view->buffers[op->out[0]], i, (size_t)op->column, x->width,
                    buffer_row(x, i));
}

void rf_cpu_add(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
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

void rf_cpu_add_share(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
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

void rf_cpu_cap(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op, size_t n)
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

void rf_cpu_layer_inputs(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->out[0]];
    size_t width = x->width, part = (size_t)view->params->n_embd_layer;
    float *of_token = worker_row(view, worker), eps = view->params->rms_eps,
          factor = sqrtf((float)part);
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        float *row = buffer_row(x, i);
        rf_weight_read_row(&op->weight[1]->plan, (size_t)view->rows[i].token, of_token);
        for (size_t j = 0; j < width; j++) row[j] *= op->scale;
        for (size_t j = 0; j < width; j += part)
            view->kernels->rms_norm(row + j, row + j, op->weight[0]->f32, eps, part);
        for (size_t j = 0; j < width; j++)
            row[j] = (row[j] + factor * of_token[j]) * 0.70710678118654752f;
    }
}

void rf_cpu_scale(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op)
{
    const struct cpu_buffer *x = &view->buffers[op->out[0]];
    float factor = op->weight[0]->f32[0];
    struct cpu_items items = cpu_items(worker, view->n_rows, rows_grain(view->n_rows));
    for (size_t i; cpu_items_next(&items, &i);) {
        float *row = buffer_row(x, i);
        for (size_t j = 0; j < x->width; j++) row[j] *= factor;
    }
}
