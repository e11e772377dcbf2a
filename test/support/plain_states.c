/* The operations of layers that have a state in place of keys and values, and gates of qwen35, each
 * on one row. plain_ops.c calls them. */
#include <math.h>
#include <string.h>

#include "infer/state_kept.h"
#include "support/plain.h"

/* z of the row that is k before row i, by what it follows; NULL: before the text. */
static const float *conv_row(const struct plain_view *view, int32_t layer, int32_t i, int32_t k)
{
    const struct rf_rows *group = view->rows[i].group;
    const struct plain_cache *cache = (const struct plain_cache *)group->cache;
    for (; i >= 0 && k > 0; k--) i = view->rows[i].parent;
    int32_t at = i >= 0 ? view->rows[i].slot : group->first_pos - 1 - k;
    return at < 0 ? NULL : plain_entry(cache, (size_t)layer, at);
}

/* A row follows only rows before it, so theirs are in the cache by now. */
void plain_short_conv(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    size_t width = (size_t)view->params->n_embd, n = (size_t)view->params->conv_rows;
    const struct row *row = &view->rows[i];
    const float *b = plain_row(view, op->in[0], i), *c = b + width, *x = c + width;
    float *out = plain_row(view, op->out[0], i);
    float *z =
        plain_entry((const struct plain_cache *)row->group->cache, (size_t)op->layer, row->slot);
    for (size_t j = 0; j < width; j++) z[j] = b[j] * x[j];
    for (size_t j = 0; j < width; j++) {
        double sum = op->bias[0] ? (double)op->bias[0]->values[j] : 0;
        for (size_t k = 0; k < n; k++) {
            const float *from = conv_row(view, op->layer, i, (int32_t)(n - 1 - k));
            if (from) sum += (double)op->weight[0]->values[j * n + k] * (double)from[j];
        }
        out[j] = (float)((double)c[j] * sum);
    }
}

/* ---- the delta rule and Mamba-2 ---- */

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

/* Element j of the row at a slot after its convolution, where i is the row of the pass, or -1 for
 * one before it at the position `at`. */
static float mixed(const struct plain_view *view, const struct rf_op *op,
                   const struct plain_cache *cache, int32_t i, int32_t at, size_t j)
{
    size_t n = (size_t)view->params->conv_rows;
    double sum = op->bias[0] ? (double)op->bias[0]->values[j] : 0;
    for (size_t r = 0; r < n; r++) {
        int32_t before = (int32_t)(n - 1 - r);
        const float *m = i >= 0             ? conv_row(view, op->layer, i, before)
                         : at - before >= 0 ? plain_entry(cache, (size_t)op->layer, at - before)
                                            : NULL;
        if (m) sum += (double)op->weight[0]->values[j * n + r] * (double)m[j];
    }
    return (float)(sum * sigmoid_of(sum));
}

/* x / |x|, and another factor. */
static void to_length(float *x, size_t n, double factor)
{
    double sum = 1e-6;
    for (size_t j = 0; j < n; j++) sum += (double)x[j] * (double)x[j];
    for (size_t j = 0; j < n; j++) x[j] = (float)(factor * (double)x[j] / sqrt(sum));
}

/* One head's matrix after a row: by its key, value, b and g. */
static void write_delta(const struct rf_params *params, size_t h, const float *before, float *after,
                        const float *k, const float *v, double b, double g)
{
    size_t rows = (size_t)params->delta_key_dim, columns = (size_t)params->delta_value_dim;
    for (size_t c = 0; c < columns; c++) {
        double held = 0;
        for (size_t r = 0; before && !params->is_mamba && r < rows; r++)
            held += (double)before[rf_state_element(params, h, r, c)] * (double)k[r];
        double u = b * ((double)v[c] - g * held);
        for (size_t r = 0; r < rows; r++) {
            size_t at = rf_state_element(params, h, r, c);
            after[at] = (float)(g * (before ? (double)before[at] : 0) + (double)k[r] * u);
        }
    }
}

/* The matrices after a row from those before it, and its results where `out` is not NULL. */
static void delta_row(const struct plain_view *view, const struct rf_op *op,
                      const struct plain_cache *cache, int32_t i, int32_t at, const float *before,
                      float *out)
{
    const struct rf_params *params = view->params;
    size_t keys = (size_t)params->delta_keys, values = (size_t)params->delta_values,
           rows = (size_t)params->delta_key_dim, columns = (size_t)params->delta_value_dim;
    int32_t slot = i >= 0 ? view->rows[i].slot : at;
    const float *log = plain_entry(cache, (size_t)op->layer, slot) + rf_delta_mixed(params);
    float *after = plain_matrices(cache, op->layer, slot);
    const struct rf_delta_places places = rf_delta_places(params);
    float q[RF_MAX_DELTA], k[RF_MAX_DELTA], v[RF_MAX_DELTA];
    for (size_t h = 0; h < values; h++) {
        size_t of = params->delta_tiled ? h % keys : h / (values / keys);
        for (size_t r = 0; r < rows; r++) {
            q[r] = mixed(view, op, cache, i, at, (size_t)places.q + of * rows + r);
            k[r] = mixed(view, op, cache, i, at, (size_t)places.k + of * rows + r);
        }
        for (size_t c = 0; c < columns; c++)
            v[c] = mixed(view, op, cache, i, at, (size_t)places.v + h * columns + c);
        if (!params->is_mamba) {
            to_length(q, rows, 1 / sqrt((double)rows));
            to_length(k, rows, 1);
        }
        write_delta(params, h, before, after, k, v, (double)log[h], (double)log[values + h]);
        for (size_t c = 0; out && c < columns; c++) {
            double sum = params->is_mamba ? (double)op->bias[1]->values[h] * (double)v[c] : 0;
            for (size_t r = 0; r < rows; r++)
                sum += (double)after[rf_state_element(params, h, r, c)] * (double)q[r];
            out[h * columns + c] = (float)sum;
        }
    }
    *plain_matrices_mark(cache, op->layer, slot) = 1;
}

/* The matrices after a position before the pass. A loaded cache lacks some, which the log gives. */
static const float *text_matrices(const struct plain_view *view, const struct rf_op *op,
                                  const struct plain_cache *cache, int32_t at)
{
    int32_t from = at;
    while (from >= 0 && *plain_matrices_mark(cache, op->layer, from) != 1) from--;
    for (int32_t p = from + 1; p <= at; p++)
        delta_row(view, op, cache, -1, p, p ? plain_matrices(cache, op->layer, p - 1) : NULL, NULL);
    return at < 0 ? NULL : plain_matrices(cache, op->layer, at);
}

void plain_delta(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct rf_params *params = view->params;
    const struct row *row = &view->rows[i];
    const struct plain_cache *cache = (const struct plain_cache *)row->group->cache;
    size_t n = (size_t)rf_delta_mixed(params), heads = (size_t)params->delta_values;
    float *log = plain_entry(cache, (size_t)op->layer, row->slot);
    memcpy(log, plain_row(view, op->in[0], i), n * sizeof *log);
    for (size_t h = 0; h < heads; h++) {
        double from = (double)plain_row(view, op->in[1], i)[h];
        double step = (params->is_mamba ? from : (double)plain_row(view, op->in[2], i)[h]) +
                      (double)op->weight[2]->values[h];
        double softplus = step > 0 ? step + log1p(exp(-step)) : log1p(exp(step));
        if (params->is_mamba) softplus = fmax(softplus, (double)params->step_min);
        if (params->step_max > 0) softplus = fmin(softplus, (double)params->step_max);
        log[n + h] = (float)(params->is_mamba ? softplus : sigmoid_of(from));
        log[n + heads + h] = (float)exp((double)op->weight[1]->values[h] * softplus);
    }
    const float *before = row->parent >= 0
                              ? plain_matrices(cache, op->layer, view->rows[row->parent].slot)
                              : text_matrices(view, op, cache, row->group->first_pos - 1);
    delta_row(view, op, cache, i, 0, before, plain_row(view, op->out[0], i));
}

void plain_norm_gate(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    size_t dim = (size_t)view->params->delta_value_dim, n = (size_t)rf_delta_values(view->params);
    const float *x = plain_row(view, op->in[0], i), *z = plain_row(view, op->in[1], i);
    float *out = plain_row(view, op->out[0], i);
    for (size_t h = 0; h < n; h += dim)
        plain_rms_norm(out + h, x + h, op->weight[0]->values, dim, view->params->rms_eps);
    for (size_t j = 0; j < n; j++)
        out[j] = (float)((double)out[j] * (double)z[j] * sigmoid_of((double)z[j]));
}

void plain_gate_norm(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    size_t n = (size_t)rf_delta_values(view->params), group = n / (size_t)view->params->delta_keys;
    const float *x = plain_row(view, op->in[0], i), *z = plain_row(view, op->in[1], i);
    float *out = plain_row(view, op->out[0], i);
    for (size_t j = 0; j < n; j++)
        out[j] = (float)((double)x[j] * (double)z[j] * sigmoid_of((double)z[j]));
    for (size_t h = 0; h < n; h += group)
        plain_rms_norm(out + h, out + h, op->weight[0]->values + h, group, view->params->rms_eps);
}

/* ---- gated attention ---- */

void plain_split_gate(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    size_t dim = (size_t)view->params->head_dim, bytes = dim * sizeof(float);
    for (size_t h = 0; h < (size_t)view->params->n_head; h++) {
        const float *both = plain_row(view, op->in[0], i) + 2 * h * dim;
        memcpy(plain_row(view, op->out[0], i) + h * dim, both, bytes);
        memcpy(plain_row(view, op->out[1], i) + h * dim, both + dim, bytes);
    }
}

void plain_sigmoid_gate(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const float *x = plain_row(view, op->in[0], i), *gate = plain_row(view, op->in[1], i);
    float *out = plain_row(view, op->out[0], i);
    for (int32_t j = 0; j < view->base.shape.program->slots[op->in[0]].width; j++)
        out[j] = (float)((double)x[j] * sigmoid_of((double)gate[j]));
}
