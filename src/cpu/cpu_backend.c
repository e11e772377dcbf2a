#include "cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

#include "cpu/cpu.h"

enum { FEW_ROWS = 16 }; /* that linear layers treat as a decoding step */

static void backend_free(struct rf_backend *base)
{
    struct cpu_backend *backend = (struct cpu_backend *)base;
    const struct rf_allocator *allocator = backend->allocator;
    rf_free(allocator, backend->weights);
    rf_free(allocator, backend->converted);
    rf_free(allocator, backend);
}

static void context_free(struct rf_context *context)
{
    if (!context) return;
    const struct rf_allocator *allocator = context->backend->allocator;
    for (struct rf_buffer *buffer = context->buffers; buffer;) {
        struct rf_buffer *next = buffer->next;
        rf_free(allocator, buffer->data);
        rf_free(allocator, buffer);
        buffer = next;
    }
    cpu_attention_free(context);
    cpu_kv_free(context);
    rf_free(allocator, context->inverse_frequency);
    rf_free(allocator, context->rotations);
    rf_free(allocator, context->worker_rows);
    rf_team_free(context->team);
    rf_free(allocator, context);
}

static int rotations_new(struct rf_context *context, struct rf_error *error)
{
    const struct rf_allocator *allocator = context->backend->allocator;
    const struct rf_params *params = context->shape.params;
    size_t half = (size_t)params->rope_dim / 2;
    context->inverse_frequency = rf_malloc(allocator, half, sizeof(double), "rotations", error);
    context->rotations =
        rf_malloc(allocator, (size_t)context->shape.max_rows, half * 2 * sizeof(float), "rotations", error);
    if (!context->inverse_frequency || !context->rotations) return RF_ERR_MEMORY;
    for (size_t i = 0; i < half; i++) {
        double frequency = pow((double)params->rope_theta, -2.0 * (double)i / (double)params->rope_dim);
        if (params->rope_freq_factors) frequency /= (double)params->rope_freq_factors[i];
        context->inverse_frequency[i] = frequency * (double)params->rope_scale;
    }
    return 0;
}

static int context_new(struct rf_context **context, struct rf_backend *base, const struct rf_context_shape *shape,
                       struct rf_error *error)
{
    struct cpu_backend *backend = (struct cpu_backend *)base;
    *context = NULL;
    struct rf_context *made = rf_calloc(backend->allocator, 1, sizeof *made, "context", error);
    if (!made) return RF_ERR_MEMORY;
    made->backend = backend;
    made->shape = *shape;
    const struct rf_params *params = shape->params;
    made->worker_row_floats = rf_padded((size_t)(params->n_embd > params->n_ff ? params->n_embd : params->n_ff));
    made->worker_rows = rf_malloc(backend->allocator, (size_t)shape->threads, made->worker_row_floats * sizeof(float),
                                  "activations", error);
    int code = made->worker_rows ? 0 : RF_ERR_MEMORY;
    if (!code) code = rf_team_new(&made->team, shape->threads, backend->allocator, error);
    if (!code) code = cpu_kv_new(made, error);
    if (!code) code = cpu_attention_new(made, error);
    if (!code) code = rotations_new(made, error);
    if (code) {
        context_free(made);
        return code;
    }
    *context = made;
    return 0;
}

static struct rf_buffer *buffer_new(struct rf_context *context, enum rf_buffer_kind kind, int32_t rows, int32_t width,
                                    struct rf_error *error)
{
    const struct rf_allocator *allocator = context->backend->allocator;
    struct rf_buffer *buffer = rf_calloc(allocator, 1, sizeof *buffer, "activations", error);
    if (!buffer) return NULL;
    buffer->width = (size_t)width;
    buffer->row_bytes = (buffer->width * sizeof(float) + 63) & ~(size_t)63;
    size_t bytes = kind == RF_BUFFER_F32 ? (size_t)rows * buffer->row_bytes
                                         : context->backend->kernels->packed_bytes[RF_OPERAND_BF16]((size_t)rows, buffer->width);
    buffer->data = rf_malloc(allocator, bytes, 1, "activations", error);
    if (!buffer->data) {
        rf_free(allocator, buffer);
        return NULL;
    }
    buffer->next = context->buffers;
    context->buffers = buffer;
    return buffer;
}

static void run(struct rf_context *context, rf_run_fn fn, void *argument)
{
    rf_team_run(context->team, fn, argument);
}

static int is_leader(const struct rf_worker *worker)
{
    return worker->index == 0;
}

/* cos and sin of each frequency at a position. */
static void rotate_position(const struct rf_context *context, size_t row, int32_t pos)
{
    size_t half = (size_t)context->shape.params->rope_dim / 2;
    float *out = context->rotations + row * half * 2;
    for (size_t i = 0; i < half; i++) {
        double angle = (double)pos * context->inverse_frequency[i];
        out[2 * i] = (float)cos(angle);
        out[2 * i + 1] = (float)sin(angle);
    }
}

static void embed(struct rf_context *context, struct rf_worker *worker, const struct rf_weight *table,
                  const int32_t *tokens, struct rf_rows rows, struct rf_buffer *x)
{
    struct rf_share share;
    size_t begin, end, width = (size_t)table->columns;
    rf_share_begin(&share, worker, (size_t)rows.n_rows, 4);
    while (rf_share_next(&share, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            context->backend->kernels->bf16_to_f32(buffer_row(x, i), table->bf16 + (size_t)tokens[i] * width, width);
            rotate_position(context, i, rows.first_pos + (int32_t)i);
        }
    rf_team_barrier(worker);
}

/* A row of F32 for the worker's own use, as wide as a norm or a gate. */
static float *worker_row(const struct rf_context *context, const struct rf_worker *worker)
{
    return context->worker_rows + (size_t)worker->index * context->worker_row_floats;
}

static void norm(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *x, int32_t first,
                 int32_t n_rows, const struct rf_weight *weight, float eps, struct rf_buffer *out)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    struct rf_share share;
    size_t begin, end;
    float *normed = worker_row(context, worker);
    rf_share_begin(&share, worker, (size_t)n_rows, 4);
    while (rf_share_next(&share, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            kernels->rms_norm(normed, buffer_row(x, (size_t)first + i), weight->f32, eps, x->width);
            kernels->pack[RF_OPERAND_BF16](out->data, i, normed, x->width);
        }
    rf_team_barrier(worker);
}

/* Weight rows that a worker takes at a time: few enough that a prompt's rows pass by while they stay in the second cache. */
static size_t rows_per_piece(const struct rf_kernels *kernels, size_t k)
{
    size_t rows = kernels->linear_rows;
    while (rows > 8 && rows * k * sizeof(uint16_t) > 640 * 1024) rows /= 2;
    return rows;
}

static void linear(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *x, int32_t n_rows,
                   int32_t n_layers, const struct rf_weight *const *weights, const struct rf_weight *const *biases,
                   struct rf_buffer *const *y, int accumulate)
{
    size_t k = (size_t)weights[0]->columns, grain = rows_per_piece(context->backend->kernels, k), total = 0, begin, end;
    /* A prompt's rows are taken past one piece of weights after another; few rows let the weights stream by at length. */
    size_t call = n_rows > FEW_ROWS ? grain : SIZE_MAX;
    for (int32_t l = 0; l < n_layers; l++) total += (size_t)weights[l]->rows;
    struct rf_share share;
    rf_share_begin(&share, worker, total, grain);
    while (rf_share_next(&share, &begin, &end)) {
        size_t first = 0; /* row of layer l among all of them */
        for (int32_t l = 0; l < n_layers; first += (size_t)weights[l++]->rows) {
            const struct rf_weight *weight = weights[l];
            size_t from = begin > first ? begin - first : 0, to = end > first ? end - first : 0;
            if (to > (size_t)weight->rows) to = (size_t)weight->rows;
            for (size_t r = from; r < to; r += to - r < call ? to - r : call) {
                struct rf_linear_args args = {.y = buffer_row(y[l], 0) + r,
                                              .ldy = y[l]->row_bytes / sizeof(float),
                                              .w = weight->bf16 + r * k,
                                              .ldw = k,
                                              .x = x->data,
                                              .m = to - r < call ? to - r : call,
                                              .n = (size_t)n_rows,
                                              .k = k,
                                              .bias = biases && biases[l] ? biases[l]->f32 + r : NULL,
                                              .accumulate = accumulate};
                context->backend->kernels->linear[RF_FORMAT_BF16](&args);
            }
        }
    }
    rf_team_barrier(worker);
}

static void rotate(const struct rf_context *context, float *head, size_t row)
{
    const struct rf_params *params = context->shape.params;
    size_t half = (size_t)params->rope_dim / 2;
    const float *turn = context->rotations + row * half * 2;
    size_t step = params->rope_style == RF_ROPE_NORM ? 2 : 1, distance = params->rope_style == RF_ROPE_NORM ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float *a = head + i * step, *b = a + distance, c = turn[2 * i], s = turn[2 * i + 1];
        float x = *a, y = *b;
        *a = x * c - y * s;
        *b = x * s + y * c;
    }
}

static void rope_store(struct rf_context *context, struct rf_worker *worker, int32_t layer, struct rf_rows rows,
                       struct rf_buffer *q, struct rf_buffer *k, const struct rf_buffer *v,
                       const struct rf_weight *q_norm, const struct rf_weight *k_norm, float eps)
{
    const struct rf_params *params = context->shape.params;
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t n_rows = (size_t)rows.n_rows, dim = (size_t)params->head_dim, n_q = (size_t)params->n_head;
    size_t n_kv = (size_t)params->n_head_kv, begin, end;
    struct rf_share share;
    /* Heads of q, then of k, then of v; the rows of a head together, so that neighbours in the cache have one writer. */
    rf_share_begin(&share, worker, (n_q + 2 * n_kv) * n_rows, 8);
    while (rf_share_next(&share, &begin, &end))
        for (size_t item = begin; item < end; item++) {
            size_t h = item / n_rows, row = item % n_rows, pos = (size_t)rows.first_pos + row;
            if (h < n_q) {
                float *head = buffer_row(q, row) + h * dim;
                if (q_norm) kernels->rms_norm(head, head, q_norm->f32, eps, dim);
                rotate(context, head, row);
            } else if (h < n_q + n_kv) {
                float *head = buffer_row(k, row) + (h - n_q) * dim;
                if (k_norm) kernels->rms_norm(head, head, k_norm->f32, eps, dim);
                rotate(context, head, row);
                cpu_kv_store_key(context, layer, h - n_q, pos, head);
            } else {
                cpu_kv_store_value(context, layer, h - n_q - n_kv, pos, buffer_row(v, row) + (h - n_q - n_kv) * dim);
            }
        }
    rf_team_barrier(worker);
}

static void silu_gate(struct rf_context *context, struct rf_worker *worker, int32_t n_rows,
                      const struct rf_buffer *gate, const struct rf_buffer *up, struct rf_buffer *out)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    struct rf_share share;
    size_t begin, end;
    float *gated = worker_row(context, worker);
    rf_share_begin(&share, worker, (size_t)n_rows, 4);
    while (rf_share_next(&share, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            kernels->silu_gate(gated, buffer_row(gate, i), buffer_row(up, i), gate->width);
            kernels->pack[RF_OPERAND_BF16](out->data, i, gated, gate->width);
        }
    rf_team_barrier(worker);
}

static double log_probability(const float *logits, size_t n, size_t target)
{
    float max = logits[0];
    for (size_t i = 1; i < n; i++)
        if (logits[i] > max) max = logits[i];
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)expf(logits[i] - max);
    return (double)(logits[target] - max) - log(sum);
}

static void log_probabilities(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *logits,
                              int32_t n_rows, const int32_t *targets, double *out)
{
    (void)context;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, (size_t)n_rows, 1);
    while (rf_share_next(&share, &begin, &end))
        for (size_t i = begin; i < end; i++)
            out[i] = log_probability(buffer_row(logits, i), logits->width, (size_t)targets[i]);
    rf_team_barrier(worker);
}

static const float *row(const struct rf_buffer *buffer, int32_t i)
{
    return buffer_row(buffer, (size_t)i);
}

static const struct rf_backend_ops cpu_ops = {
    .free = backend_free,
    .weights_load = cpu_weights_load,
    .context_new = context_new,
    .context_free = context_free,
    .buffer_new = buffer_new,
    .kv_bytes = cpu_kv_bytes,
    .kv_save = cpu_kv_save,
    .kv_load = cpu_kv_load,
    .run = run,
    .is_leader = is_leader,
    .embed = embed,
    .norm = norm,
    .linear = linear,
    .rope_store = rope_store,
    .attention = cpu_attention,
    .silu_gate = silu_gate,
    .log_probabilities = log_probabilities,
    .row = row,
};

int rf_cpu_backend_new(struct rf_backend **backend, int tier, const struct rf_allocator *allocator,
                       struct rf_error *error)
{
    *backend = NULL;
    const struct rf_kernels *kernels = rf_kernels(tier);
    if (!kernels) return rf_fail(error, RF_ERR_UNSUPPORTED, "this version has no kernels for cpu tier %d", tier);
    struct cpu_backend *made = rf_calloc(allocator, 1, sizeof *made, "backend", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.ops = &cpu_ops;
    made->allocator = allocator;
    made->kernels = kernels;
    *backend = &made->base;
    return 0;
}
