/* The operations of a program, each on one row, and what logits say.
 *
 * All sums are in double and in one order, so a row's bits depend on what the row follows alone. */
#include <math.h>
#include <string.h>

#include "support/loops.h"
#include "support/plain.h"

/* ---- operations, each on one row ---- */

static size_t rotated_pairs(const struct rf_params *params, int local)
{
    return (size_t)rf_rope_dim(params, local ? RF_ROPE_LOCAL : RF_ROPE_GLOBAL) / 2;
}

static void embed(struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct row *row = &view->rows[i];
    const struct rf_params *params = view->params;
    size_t half = (size_t)rf_most_rope_dim(params) / 2,
           width = (size_t)view->base.shape.program->slots[op->out[0]].width;
    const float *from = op->weight[0] ? op->weight[0]->values + (size_t)row->token * width
                                      : view->pass.x + (size_t)i * width;
    float *x = plain_row(view, op->out[0], i), scale = op->weight[0] ? op->scale : 1.0f;
    for (size_t j = 0; j < width; j++) x[j] = scale * from[j];
    for (size_t j = 0; op->weight[1] && j < width; j++)
        x[j] += op->weight[1]->values[(size_t)row->position * width + j];
    int is_second = row->group->n_first && row->slot - row->group->first_pos >= row->group->n_first;
    for (size_t j = 0; op->weight[2] && j < width; j++)
        x[j] += op->weight[2]->values[(is_second ? width : 0) + j];
    for (int local = 0; local < 2; local++)
        for (size_t j = 0; j < rotated_pairs(params, local); j++) {
            enum rf_frequencies set = local                 ? RF_ROPE_LOCAL
                                      : row->group->is_long ? RF_ROPE_LONG
                                                            : RF_ROPE_GLOBAL;
            const struct rf_rope *rope = rf_rope_of(params, set);
            double *turn = view->turns + (((size_t)i * 2 + (size_t)local) * half + j) * 2;
            double angle = row->position * rf_rope_frequency(params, set, (int32_t)j),
                   growth = rf_rope_growth(rope, row->position);
            if (growth != 1)
                angle *= pow(growth, -2.0 * (double)j / (rf_rope_dim(params, set) - 2));
            turn[0] = (double)rope->magnitude * cos(angle);
            turn[1] = (double)rope->magnitude * sin(angle);
        }
}

/* An RMS norm, of the row less its mean where the operation says so, with a bias it may have. */
static void norm(const struct plain_view *view, const struct rf_op *op, float *y, const float *x,
                 size_t n)
{
    double mean = 0;
    for (size_t j = 0; op->is_centred && j < n; j++) mean += (double)x[j] / (double)n;
    for (size_t j = 0; j < n; j++) y[j] = (float)((double)x[j] - mean);
    plain_rms_norm(y, y, op->weight[0]->values, n, op->eps > 0 ? op->eps : view->params->rms_eps);
    for (size_t j = 0; op->bias[0] && j < n; j++) y[j] += op->bias[0]->values[j];
}

/* Each `group` values to the nearest of 255 steps between minus and plus their largest. */
static void round_to_8_bits(float *out, const float *x, size_t n, size_t group)
{
    for (size_t first = 0; first < n; first += group) {
        float largest = 0;
        for (size_t j = first; j < first + group; j++) largest = fmaxf(largest, fabsf(x[j]));
        for (size_t j = first; j < first + group; j++)
            out[j] = largest > 0 ? rintf(x[j] * (127.0f / largest)) * (largest / 127.0f) : 0;
    }
}

static void round_operand(const struct plain_view *view, const struct rf_weight *weight,
                          const float *x)
{
    if (weight->has_whole_rows)
        round_to_8_bits(view->rounded, x, weight->columns, weight->columns);
    else if (weight->is_quantised && view->base.shape.precision == RF_PRECISION_FORMAT)
        round_to_8_bits(view->rounded, x, weight->columns, 32);
    else
        for (size_t j = 0; j < weight->columns; j++)
            view->rounded[j] = weight->is_split ? x[j] : round_bf16(x[j]);
}

/* view->sums = the rows [first, first + rows) of the matrix times x. */
static void multiply(const struct plain_view *view, const struct rf_weight *weight, const float *x,
                     size_t first, size_t rows)
{
    double *sums = view->sums;
    round_operand(view, weight, x);
    for (size_t o = 0; o < rows; o++) sums[o] = 0;
    for (size_t j = 0; j < weight->columns; j++) {
        const float *column = weight->values + j * weight->rows + first;
        loop_add(sums, column, (double)view->rounded[j], rows);
    }
}

/* Each head's part of a row, times the head's matrix. */
static void head_linear(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct rf_weight *weight = op->weight[0];
    size_t heads = (size_t)view->params->n_head, rows = weight->rows / heads,
           width = (size_t)view->base.shape.program->slots[op->out[0]].width / heads;
    const float *x = plain_row(view, op->in[0], i);
    float *out = plain_row(view, op->out[0], i);
    for (size_t h = 0; h < heads; h++) {
        multiply(view, weight, x + h * weight->columns, h * rows, rows);
        for (size_t o = 0; o < rows; o++) out[h * width + o] = (float)view->sums[o];
    }
}

static void split_heads(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct rf_slot_shape *slots = view->base.shape.program->slots;
    size_t heads = (size_t)view->params->n_head, width = (size_t)slots[op->in[0]].width / heads,
           n = (size_t)slots[op->out[0]].width / heads,
           whole = (size_t)slots[op->out[1]].width / heads;
    const float *x = plain_row(view, op->in[0], i);
    float *first = plain_row(view, op->out[0], i), *rest = plain_row(view, op->out[1], i);
    for (size_t h = 0; h < heads; h++) {
        memcpy(first + h * n, x + h * width, n * sizeof *x);
        if (op->n == 2)
            memcpy(rest + (h + 1) * whole - (width - n), x + h * width + n,
                   (width - n) * sizeof *x);
    }
}

/* A linear layer with the matrices of one expert of n, or of 1. */
static void linear(const struct plain_view *view, const struct rf_op *op, int32_t in, int32_t out,
                   size_t expert, size_t n)
{
    const float *x = plain_row(view, op->in[0], in);
    for (int32_t l = 0; l < op->n; l++) {
        const struct rf_weight *weight = op->weight[l];
        float *y = plain_row(view, op->out[l], out);
        double *sums = view->sums;
        size_t rows = weight->rows / n, first = expert * rows;
        multiply(view, weight, x, first, rows);
        for (size_t o = 0; o < rows; o++) {
            double bias = op->bias[l] ? (double)op->bias[l]->values[first + o] : 0.0;
            y[o] = (op->accumulate ? y[o] : 0.0f) + (float)(sums[o] + bias);
        }
    }
}

/* Norm and rotation of all heads of a row. */
static void turn_heads(const struct plain_view *view, float *heads, size_t n,
                       const struct rf_weight *gain, const struct rf_op *op, int32_t i)
{
    const struct rf_params *params = view->params;
    enum rf_rotation rotation = op->rotation;
    int local = rotation == RF_ROTATE_LOCAL;
    size_t dim = (size_t)rf_head_dim(params, op->layer), half = rotated_pairs(params, local),
           stride = (size_t)rf_most_rope_dim(params);
    const double *turns = view->turns + ((size_t)i * 2 + (size_t)local) * stride;
    if (rotation == RF_ROTATE_NOT) half = 0;
    for (float *head = heads; head < heads + n; head += dim) {
        if (gain) plain_rms_norm(head, head, gain->values, dim, params->rms_eps);
        float *turned = head + params->latent;
        for (size_t j = 0; j < half; j++) {
            int is_neox = params->rope_style == RF_ROPE_NEOX;
            float *a = turned + (is_neox ? j : 2 * j),
                  *b = turned + (is_neox ? j + half : 2 * j + 1);
            double xa = (double)*a, xb = (double)*b, c = turns[2 * j], s = turns[2 * j + 1];
            *a = (float)(xa * c - xb * s);
            *b = (float)(xa * s + xb * c);
        }
    }
}

static void rope_store(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct row *row = &view->rows[i];
    const struct plain_cache *cache = (const struct plain_cache *)row->group->cache;
    const struct rf_slot_shape *slots = view->base.shape.program->slots;
    float *q = plain_row(view, op->in[0], i), *k = plain_row(view, op->in[1], i),
          *v = plain_row(view, op->in[2], i),
          *entry = plain_entry(cache, (size_t)op->layer, row->slot);
    size_t dim = (size_t)rf_head_dim(view->params, op->layer),
           n_kv = (size_t)slots[op->in[1]].width;
    turn_heads(view, q, (size_t)slots[op->in[0]].width, op->weight[0], op, i);
    for (int32_t j = 0; j < slots[op->in[0]].width; j++)
        q[j] *= rf_query_growth(view->params, row->position);
    if (op->is_query) return;
    for (size_t h = 0; h < n_kv; h += dim) {
        if (op->norms_v) plain_rms_norm(view->rounded, v + h, NULL, dim, view->params->rms_eps);
        for (size_t j = 0; j < dim; j++)
            entry[2 * h + dim + j] =
                plain_round_entry(cache, op->norms_v ? view->rounded[j] : v[h + j]);
    }
    turn_heads(view, k, n_kv, op->weight[1], op, i);
    for (size_t j = 0; j < n_kv; j++)
        entry[j / dim * 2 * dim + j % dim] = plain_round_entry(cache, k[j]);
}

/* One head of queries over the keys and values that begin at `offset` of the entries [first, n).
 */
static void attend(const struct plain_view *view, const struct rf_op *op, size_t head, float *out,
                   const float *query, const float *const *entries, size_t offset, size_t first,
                   size_t n)
{
    size_t dim = (size_t)rf_head_dim(view->params, op->layer);
    double largest = -INFINITY, total = 0, *scores = view->scores, *sums = view->sums;
    double sink = op->weight[0] ? (double)op->weight[0]->values[head] : -INFINITY;
    for (size_t t = first; t < n; t++) {
        const float *key = entries[t] + offset;
        if (view->base.shape.has_window && !rf_window_has((int32_t)n - 1, (int32_t)t)) {
            scores[t] = -INFINITY;
            continue;
        }
        scores[t] = loop_dot(query, key, dim) * (double)op->scale;
        if (op->cap > 0) scores[t] = (double)op->cap * tanh(scores[t] / (double)op->cap);
        if (scores[t] > largest) largest = scores[t];
    }
    if (sink > largest) largest = sink;
    for (size_t t = first; t < n; t++) total += scores[t] = exp(scores[t] - largest);
    total += exp(sink - largest);
    for (size_t j = 0; j < dim; j++) sums[j] = 0;
    for (size_t t = first; t < n; t++) {
        loop_add(sums, entries[t] + offset + dim, scores[t] / total, dim);
    }
    for (size_t j = 0; j < dim; j++) out[j] = (float)sums[j];
}

/* The entries of the positions that a row sees, of which `last` is the last one: those before the
 * pass, and of the rows that it follows and its own. */
static void find_entries(const struct plain_view *view, int32_t layer, int32_t last,
                         const float **entries)
{
    const struct rf_rows *group = view->rows[last].group;
    const struct plain_cache *cache = (const struct plain_cache *)group->cache;
    for (int32_t t = 0; t < group->first_pos; t++)
        entries[t] = plain_entry(cache, (size_t)layer, t);
    for (int32_t at = last; at >= 0; at = view->rows[at].parent)
        entries[view->rows[at].position] = plain_entry(cache, (size_t)layer, view->rows[at].slot);
}

static void attention(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct rf_params *params = view->params;
    const struct row *row = &view->rows[i];
    int32_t behind = op->is_whole ? row->group->first_pos + row->group->n - 1 - row->position : 0,
            window = op->window ? op->window : INT32_MAX,
            first = row->position >= window ? row->position - window + 1 : 0;
    if (behind >= window) behind = window - 1;
    size_t n = (size_t)(row->position + behind) + 1, dim = (size_t)rf_head_dim(params, op->layer);
    const float *q = plain_row(view, op->in[0], i);
    float *out = plain_row(view, op->out[0], i);
    find_entries(view, op->layer, i + behind, view->entries);
    for (int32_t h = 0; h < params->n_head; h++) {
        size_t kv_head = (size_t)(h / (params->n_head / rf_n_head_kv(params, op->layer)));
        attend(view, op, (size_t)h, out + (size_t)h * dim, q + (size_t)h * dim, view->entries,
               kv_head * 2 * dim, (size_t)first, n);
    }
}

static double gate_of(const struct rf_op *op, double x)
{
    double u = sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    if (op->is_exact) return x / 2 * (1 + erf(x / sqrt(2)));
    return op->kind != RF_OP_SILU_GATE ? x / 2 * (1 + tanh(u)) : x / (1 + exp(-x));
}

static void layer_inputs(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    size_t width = (size_t)view->base.shape.program->slots[op->out[0]].width,
           part = (size_t)view->params->n_embd_layer;
    const float *of_token = op->weight[1]->values + (size_t)view->rows[i].token * width;
    float *x = plain_row(view, op->out[0], i);
    for (size_t j = 0; j < width; j++) x[j] *= op->scale;
    for (size_t j = 0; j < width; j += part)
        plain_rms_norm(x + j, x + j, op->weight[0]->values, part, view->params->rms_eps);
    for (size_t j = 0; j < width; j++)
        x[j] = (float)(((double)x[j] + sqrt((double)part) * (double)of_token[j]) / sqrt(2));
}

static void add_row(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    float *x = plain_row(view, op->in[0], i), *out = plain_row(view, op->out[0], i);
    size_t width = (size_t)view->base.shape.program->slots[op->in[0]].width;
    if (op->weight[0]) plain_rms_norm(x, x, op->weight[0]->values, width, view->params->rms_eps);
    for (size_t j = 0; j < width; j++) out[j] += op->scale * x[j];
}

static void add_share(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const float *x = plain_row(view, op->in[0], i);
    float *out = plain_row(view, op->out[0], i);
    double share = 1 / (1 + exp(-(double)*plain_row(view, op->in[1], i)));
    for (int32_t j = 0; j < view->base.shape.program->slots[op->in[0]].width; j++)
        out[j] += (float)(share * (double)x[j]);
}

static void cap_row(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    float *x = plain_row(view, op->in[0], i), *out = plain_row(view, op->out[0], i);
    for (int32_t j = 0; j < view->base.shape.program->slots[op->in[0]].width; j++) {
        double y = (double)op->scale * (double)x[j];
        out[j] = (float)(op->cap > 0 ? (double)op->cap * tanh(y / (double)op->cap) : y);
    }
}

static void gate(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const float *gate = plain_row(view, op->in[0], i),
                *up = op->kind == RF_OP_GELU ? NULL : plain_row(view, op->in[1], i) + op->column;
    float *out = plain_row(view, op->out[0], i);
    for (int32_t j = 0; j < view->base.shape.program->slots[op->out[0]].width; j++) {
        double cap = (double)op->cap, g = (double)gate[j], u = up ? (double)up[j] : 1;
        if (cap > 0) {
            double alpha = (double)op->scale;
            g = fmin(g, cap);
            out[j] = (float)(g / (1.0 + exp(-alpha * g)) * (fmax(-cap, fmin(u, cap)) + 1));
        } else {
            out[j] = (float)(gate_of(op, g) * u);
        }
    }
}

/* ---- experts: row i's are the rows i * n_expert_used + r of buffers by expert ---- */

/* The expert that is better than all others but those that are better than `last`. */
static int32_t next_best(const float *values, int32_t n, int32_t last)
{
    int32_t best = -1;
    for (int32_t e = 0; e < n; e++) {
        int is_worse =
            last < 0 || values[e] < values[last] || (values[e] == values[last] && e > last);
        if (is_worse && (best < 0 || values[e] > values[best])) best = e;
    }
    return best;
}

/* Marks the experts of groups that are not chosen by values that never win. */
static void leave_out_groups(const struct rf_params *params, float *values)
{
    int32_t n = params->expert_groups ? params->n_expert / params->expert_groups : 0, chosen = 0;
    float sums[RF_MAX_EXPERTS];
    for (int32_t g = 0; n && g < params->expert_groups; g++) {
        int32_t best = -1;
        sums[g] = 0;
        for (int32_t t = 0; t < params->expert_group_top; t++)
            sums[g] += values[g * n + (best = next_best(values + g * n, n, best))];
    }
    for (int32_t g = -1, r = 0; r < params->expert_groups; r++) {
        g = next_best(sums, params->expert_groups, g);
        for (int32_t e = g * n; chosen >= params->expert_groups_used && e < (g + 1) * n; e++)
            values[e] = -INFINITY;
        chosen++;
    }
}

static double sigmoid(float x)
{
    return 1 / (1 + exp(-(double)x));
}

/* Choices and shares by sigmoids. */
static void choose_by_sigmoid(const struct plain_view *view, const struct rf_op *op,
                              const float *values, struct plain_choice *choices)
{
    static float chooses[RF_MAX_EXPERTS];
    const struct rf_params *params = view->params;
    double sum = (double)params->expert_least;
    for (int32_t e = 0; e < params->n_expert; e++)
        chooses[e] =
            (float)(sigmoid(values[e]) + (op->bias[0] ? (double)op->bias[0]->values[e] : 0));
    leave_out_groups(params, chooses);
    for (int32_t r = 0; r < params->n_expert_used; r++) {
        choices[r].expert = next_best(chooses, params->n_expert, r ? choices[r - 1].expert : -1);
        choices[r].share = sigmoid(values[choices[r].expert]);
        sum += choices[r].share;
    }
    for (int32_t r = 0; params->expert_norm && r < params->n_expert_used; r++)
        choices[r].share /= sum;
}

static void choose_experts(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const struct rf_params *params = view->params;
    const float *values = plain_row(view, op->in[0], i), *x = plain_row(view, op->in[1], i);
    struct plain_choice *choices = view->choices + i * params->n_expert_used;
    double all = 0, chosen = 0;
    for (int32_t r = 0; r < params->n_expert_used; r++)
        memcpy(plain_row(view, op->out[0], i * params->n_expert_used + r), x,
               (size_t)params->n_embd * sizeof *x);
    if (params->expert_sigmoid) {
        choose_by_sigmoid(view, op, values, choices);
        return;
    }
    double most = (double)values[next_best(values, params->n_expert, -1)];
    for (int32_t e = 0; e < params->n_expert; e++) all += exp((double)values[e] - most);
    static float chooses[RF_MAX_EXPERTS];
    for (int32_t e = 0; e < params->n_expert; e++)
        chooses[e] = (float)(exp((double)values[e] - most) / all);
    leave_out_groups(params, chooses);
    if (!params->expert_groups) memcpy(chooses, values, (size_t)params->n_expert * sizeof *values);
    for (int32_t r = 0; r < params->n_expert_used; r++) {
        choices[r].expert = next_best(chooses, params->n_expert, r ? choices[r - 1].expert : -1);
        choices[r].share = exp((double)values[choices[r].expert] - most);
        chosen += choices[r].share;
    }
    for (int32_t r = 0; r < params->n_expert_used; r++)
        choices[r].share /= params->expert_norm ? chosen : all;
}

static void expert_linear(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    int32_t used = view->params->n_expert_used;
    for (int32_t at = i * used; at < (i + 1) * used; at++)
        linear(view, op, at, at, (size_t)view->choices[at].expert, (size_t)view->params->n_expert);
}

static void sum_experts(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    int32_t used = view->params->n_expert_used;
    float *out = plain_row(view, op->out[0], i);
    for (int32_t j = 0; j < view->params->n_embd; j++) {
        double sum = 0;
        for (int32_t at = i * used; at < (i + 1) * used; at++)
            sum += view->choices[at].share * (double)plain_row(view, op->in[0], at)[j];
        out[j] += (float)((double)op->scale * sum);
    }
}

static void relu2(const struct plain_view *view, const struct rf_op *op, int32_t i)
{
    const float *x = plain_row(view, op->in[0], i);
    float *out = plain_row(view, op->out[0], i);
    for (int32_t j = 0; j < view->base.shape.program->slots[op->in[0]].width; j++)
        out[j] = x[j] > 0 ? x[j] * x[j] : 0;
}

/* From row `in` of the operation's inputs to row `out` of its results: the same but in the head. */
void plain_perform(struct plain_view *view, const struct rf_op *op, int32_t in, int32_t out)
{
    size_t width = (size_t)view->base.shape.program->slots[op->in[0]].width;
    switch (op->kind) {
    case RF_OP_EMBED: embed(view, op, in); break;
    case RF_OP_NORM:
        norm(view, op, plain_row(view, op->out[0], out) + op->column,
             plain_row(view, op->in[0], in), op->weight[0]->columns);
        break;
    case RF_OP_LINEAR: linear(view, op, in, out, 0, 1); break;
    case RF_OP_SPLIT_HEADS: split_heads(view, op, in); break;
    case RF_OP_HEAD_LINEAR: head_linear(view, op, in); break;
    case RF_OP_ROPE_STORE: rope_store(view, op, in); break;
    case RF_OP_ATTENTION: attention(view, op, in); break;
    case RF_OP_SHORT_CONV: plain_short_conv(view, op, in); break;
    case RF_OP_DELTA:
    case RF_OP_MAMBA: plain_delta(view, op, in); break;
    case RF_OP_GATE_NORM: plain_gate_norm(view, op, in); break;
    case RF_OP_NORM_GATE: plain_norm_gate(view, op, in); break;
    case RF_OP_SPLIT_GATE: plain_split_gate(view, op, in); break;
    case RF_OP_SIGMOID_GATE: plain_sigmoid_gate(view, op, in); break;
    case RF_OP_SILU_GATE:
    case RF_OP_GELU_GATE:
    case RF_OP_GELU: {
        int32_t n = plain_rows_of(view, op->out[0]);
        for (int32_t i = in * n; i < (in + 1) * n; i++) gate(view, op, i);
        break;
    }
    case RF_OP_RELU2: {
        int32_t n = plain_rows_of(view, op->out[0]);
        for (int32_t i = in * n; i < (in + 1) * n; i++) relu2(view, op, i);
        break;
    }
    case RF_OP_ADD: add_row(view, op, in); break;
    case RF_OP_ADD_SHARE: add_share(view, op, in); break;
    case RF_OP_CAP: cap_row(view, op, in); break;
    case RF_OP_CHOOSE_EXPERTS: choose_experts(view, op, in); break;
    case RF_OP_EXPERT_LINEAR: expert_linear(view, op, in); break;
    case RF_OP_SUM_EXPERTS: sum_experts(view, op, in); break;
    case RF_OP_LAYER_INPUTS: layer_inputs(view, op, in); break;
    case RF_OP_SCALE:
        for (size_t j = 0; j < width; j++)
            plain_row(view, op->out[0], in)[j] *= op->weight[0]->values[0];
        break;
    case RF_OP_COPY:
        memcpy(plain_row(view, op->out[0], out) + op->column, plain_row(view, op->in[0], in),
               width * sizeof(float));
        break;
    }
}

/* ---- answers ---- */

size_t plain_first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

static int may_follow(const uint64_t *mask, int32_t t)
{
    return !mask || (mask[t / 64] >> t % 64 & 1);
}

static void find_best(const float *logits, const uint64_t *mask, int32_t n_vocab, int32_t n_best,
                      struct rf_best *best)
{
    double mass = 0;
    best->n = 0;
    for (int32_t t = 0; t < n_vocab; t++) {
        int32_t at = best->n;
        if (!(logits[t] > -INFINITY) || !may_follow(mask, t)) continue;
        while (at > 0 && logits[t] > best->top[at - 1].logit) at--;
        if (at == n_best) continue;
        if (best->n < n_best) best->n++;
        memmove(best->top + at + 1, best->top + at, (size_t)(best->n - 1 - at) * sizeof *best->top);
        best->top[at] = (struct rf_candidate){t, logits[t]};
    }
    if (best->n && !isfinite(best->top[0].logit)) best->n = 0;
    for (int32_t t = 0; best->n && t < n_vocab; t++)
        if (logits[t] > -INFINITY && may_follow(mask, t))
            mass += exp((double)logits[t] - (double)best->top[0].logit);
    best->mass = (float)mass;
}

static double log_probability(const float *logits, int32_t n_vocab, int32_t target)
{
    double largest = -INFINITY, sum = 0;
    for (int32_t t = 0; t < n_vocab; t++) largest = fmax(largest, (double)logits[t]);
    for (int32_t t = 0; t < n_vocab; t++) sum += exp((double)logits[t] - largest);
    return (double)logits[target] - largest - log(sum);
}

/* The head over the i-th wanted row, and what its logits say. */
void plain_answer(struct plain_view *view, int32_t i)
{
    const struct rf_program *program = view->base.shape.program;
    const struct rf_pass *pass = &view->pass;
    int32_t row = i % view->base.shape.max_logits; /* scores may be of more rows */
    for (int32_t o = 0; o < program->n_head; o++) {
        const struct rf_op *op = &program->head[o];
        plain_perform(view, op, op->in[0] == RF_SLOT_X ? pass->wanted[i] : row, row);
    }
    const float *logits = plain_row(view, RF_SLOT_LOGITS, row);
    if (pass->logprobs)
        pass->logprobs[i] = log_probability(logits, view->params->n_vocab, pass->targets[i]);
    else if (pass->n_best)
        find_best(logits, pass->masks ? pass->masks[i] : NULL, view->params->n_vocab, pass->n_best,
                  &pass->best[i]);
}
