#include "cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "cpu/cpu.h"
#include "cpu/tiers.h"

enum {
    FEW_ROWS = 16,       /* that linear layers treat as a decoding step */
    PART = 512,          /* values of a row that a worker takes at a time where rows are few */
    PANELS_TOGETHER = 4, /* of weights, that kernels walk side by side */
    PIECE_BYTES =
        640 * 1024 /* of weights that stay in the second cache while a prompt's rows pass by */
};

static void backend_free(struct rf_backend *base)
{
    struct cpu_backend *backend = (struct cpu_backend *)base;
    const struct rf_allocator *allocator = backend->allocator;
    rf_free(allocator, backend->weights);
    rf_free(allocator, backend->converted);
    rf_free(allocator, backend);
}

static void buffer_free(const struct rf_allocator *allocator, struct rf_buffer *buffer)
{
    rf_free(allocator, buffer->data);
    for (int form = 0; form < RF_OPERAND_COUNT; form++) rf_free(allocator, buffer->forms[form]);
    rf_free(allocator, buffer);
}

static void context_free(struct rf_context *context)
{
    if (!context) return;
    const struct rf_allocator *allocator = context->backend->allocator;
    for (struct rf_buffer *buffer = context->buffers; buffer;) {
        struct rf_buffer *next = buffer->next;
        buffer_free(allocator, buffer);
        buffer = next;
    }
    cpu_attention_free(context);
    cpu_kv_free(context);
    rf_free(allocator, context->inverse_frequency);
    rf_free(allocator, context->rotations);
    rf_free(allocator, context->worker_rows);
    for (struct stream *stream = context->streams; stream;) {
        struct stream *next = stream->next;
        rf_split_free(stream->split);
        rf_free(allocator, stream);
        stream = next;
    }
    rf_free(allocator, context);
}

static int rotations_new(struct rf_context *context, struct rf_error *error)
{
    const struct rf_allocator *allocator = context->backend->allocator;
    const struct rf_params *params = context->shape.params;
    size_t half = (size_t)params->rope_dim / 2;
    context->inverse_frequency = rf_malloc(allocator, half, sizeof(double), "rotations", error);
    context->rotations = rf_malloc(allocator, (size_t)context->shape.max_rows,
                                   half * 2 * sizeof(float), "rotations", error);
    if (!context->inverse_frequency || !context->rotations) return RF_ERR_MEMORY;
    for (size_t i = 0; i < half; i++) {
        double frequency =
            pow((double)params->rope_theta, -2.0 * (double)i / (double)params->rope_dim);
        if (params->rope_freq_factors) frequency /= (double)params->rope_freq_factors[i];
        context->inverse_frequency[i] = frequency * (double)params->rope_scale;
    }
    return 0;
}

static int context_new(struct rf_context **context, struct rf_backend *base,
                       const struct rf_context_shape *shape, struct rf_error *error)
{
    struct cpu_backend *backend = (struct cpu_backend *)base;
    *context = NULL;
    struct rf_context *made = rf_calloc(backend->allocator, 1, sizeof *made, "context", error);
    if (!made) return RF_ERR_MEMORY;
    made->backend = backend;
    made->shape = *shape;
    const struct rf_params *params = shape->params;
    made->worker_row_floats =
        rf_padded((size_t)(params->n_embd > params->n_ff ? params->n_embd : params->n_ff));
    made->worker_rows = rf_malloc(backend->allocator, (size_t)rf_team_size(shape->team),
                                  made->worker_row_floats * sizeof(float), "activations", error);
    int code = made->worker_rows ? 0 : RF_ERR_MEMORY;
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

/* 1 if there is a matrix whose input rows have `width` values and are wanted in this form. */
static int is_wanted(const struct cpu_backend *backend, enum rf_operand form, size_t width)
{
    for (size_t i = 0; i < backend->n_weights; i++) {
        const struct rf_weight *weight = &backend->weights[i];
        if (weight->data && (size_t)weight->columns == width &&
            rf_operand_of(weight->format) == form)
            return 1;
    }
    return 0;
}

/* Passes over these weights will come. */
static int stream_new(struct rf_context *context, const struct rf_backend *readers,
                      struct rf_error *error)
{
    for (const struct stream *known = context->streams; known; known = known->next)
        if (known->readers == readers) return 0;
    const struct rf_allocator *allocator = context->backend->allocator;
    struct stream *stream = rf_calloc(allocator, 1, sizeof *stream, "context", error);
    if (!stream) return RF_ERR_MEMORY;
    stream->readers = readers;
    stream->next = context->streams;
    context->streams = stream;
    return rf_team_split_new(context->shape.team, &stream->split, allocator, error);
}

static struct rf_buffer *buffer_new(struct rf_context *context, const struct rf_backend *readers,
                                    enum rf_buffer_kind kind, int32_t rows, int32_t width,
                                    struct rf_error *error)
{
    const struct rf_allocator *allocator = context->backend->allocator;
    if (stream_new(context, readers, error) != 0) return NULL;
    struct rf_buffer *buffer = rf_calloc(allocator, 1, sizeof *buffer, "activations", error);
    if (!buffer) return NULL;
    buffer->width = (size_t)width;
    int failed = 0;
    if (kind == RF_BUFFER_F32) {
        buffer->row_bytes = (buffer->width * sizeof(float) + 63) & ~(size_t)63;
        buffer->data = rf_malloc(allocator, (size_t)rows, buffer->row_bytes, "activations", error);
        failed = !buffer->data;
    }
    for (int form = 0; kind == RF_BUFFER_OPERAND && !failed && form < RF_OPERAND_COUNT; form++) {
        if (!is_wanted((const struct cpu_backend *)readers, (enum rf_operand)form, buffer->width))
            continue;
        size_t bytes = context->backend->kernels->packed_bytes[form]((size_t)rows, buffer->width);
        buffer->forms[form] = rf_malloc(allocator, bytes, 1, "activations", error);
        failed = !buffer->forms[form];
    }
    if (failed) {
        buffer_free(allocator, buffer);
        return NULL;
    }
    buffer->next = context->buffers;
    context->buffers = buffer;
    return buffer;
}

static struct rf_split *split_of(const struct rf_context *context, const struct rf_backend *readers)
{
    const struct stream *stream = context->streams;
    while (stream->readers != readers) stream = stream->next;
    return stream->split;
}

static void run(struct rf_context *context, const struct rf_backend *readers, int32_t n_rows,
                rf_run_fn fn, void *argument)
{
    rf_team_run_split(context->shape.team, split_of(context, readers), n_rows, fn, argument);
}

static int32_t workers(const struct rf_context *context, const struct rf_backend *readers,
                       int32_t n_rows)
{
    return split_of(context, readers)->kinds[rf_work_of(n_rows)].active;
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

/* One row of a table, straight from the file. */
static void read_row(const struct rf_weight *weight, int32_t token, float *out)
{
    const struct rf_tensor *tensor = weight->table;
    size_t n = (size_t)weight->columns,
           row_bytes = (size_t)(tensor->bytes / (uint64_t)weight->rows);
    rf_dequantize_f32(tensor->dtype, (const char *)tensor->data + (size_t)token * row_bytes, out,
                      n);
    for (size_t j = 0; weight->table_form != RF_WEIGHTS_STORED && j < n; j++)
        out[j] = rf_bf16_to_f32(rf_f32_to_bf16(out[j]));
}

/* Rows that a worker takes at a time. */
static size_t rows_grain(int32_t n_rows)
{
    return n_rows <= FEW_ROWS ? 1 : 4;
}

static void embed(struct rf_context *context, struct rf_worker *worker,
                  const struct rf_weight *table, const int32_t *tokens, struct rf_rows rows,
                  struct rf_buffer *x)
{
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, (size_t)rows.n_rows, rows_grain(rows.n_rows), 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            read_row(table, tokens[i], buffer_row(x, i));
            rotate_position(context, i, rows.first_pos + row_depth(&rows, (int32_t)i));
        }
    rf_team_barrier(worker);
}

/* A row of F32 for the worker's own use, as wide as a norm or a gate. */
static float *worker_row(const struct rf_context *context, const struct rf_worker *worker)
{
    return context->worker_rows + (size_t)worker->index * context->worker_row_floats;
}

static void norm(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *x,
                 int32_t first, int32_t n_rows, const struct rf_weight *weight, float eps,
                 struct rf_buffer *out)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    struct rf_share share;
    size_t begin, end;
    float *normed = worker_row(context, worker);
    rf_share_begin(&share, worker, (size_t)n_rows, rows_grain(n_rows), 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t i = begin; i < end; i++) {
            kernels->rms_norm(normed, buffer_row(x, (size_t)first + i), weight->f32, eps, x->width);
            pack_row(context, out, i, normed);
        }
    rf_team_barrier(worker);
}

struct cpu_pieces cpu_pieces(const struct rf_kernels *kernels, int any_bf16, size_t row_bytes,
                             size_t total, int workers, size_t n_rows)
{
    size_t rows = PIECE_BYTES / row_bytes / RF_PANEL_ROWS * RF_PANEL_ROWS;
    if (any_bf16 && rows > kernels->linear_rows) rows = kernels->linear_rows;
    if (rows < RF_PANEL_ROWS) rows = RF_PANEL_ROWS;
    struct cpu_pieces pieces = {.grain = kernels->linear_rows, .call = rows};
    if (n_rows > FEW_ROWS) {
        /* Large, as each call reads all of the prompt's rows again, but enough of them for all
         * workers. */
        size_t share = rf_padded(total / (8 * (size_t)workers));
        if (pieces.grain < share) pieces.grain = share;
    }
    if (pieces.grain > pieces.call) pieces.grain = pieces.call;
    if (n_rows <= FEW_ROWS) pieces.call = SIZE_MAX;
    return pieces;
}

/* y[.., row .. row + m) of one layer. */
static void linear_piece(const struct rf_kernels *kernels, const struct rf_buffer *x,
                         int32_t n_rows, const struct rf_weight *weight,
                         const struct rf_weight *bias, struct rf_buffer *y, size_t row, size_t m,
                         int accumulate)
{
    struct rf_linear_args args = {.y = buffer_row(y, 0) + row,
                                  .ldy = y->row_bytes / sizeof(float),
                                  .w = weight_at(weight, row),
                                  .ldw = weight->ld,
                                  .x = x->forms[rf_operand_of(weight->format)],
                                  .m = m,
                                  .n = (size_t)n_rows,
                                  .k = (size_t)weight->columns,
                                  .bias = bias ? bias->f32 + row : NULL,
                                  .accumulate = accumulate};
    kernels->linear[weight->format](&args);
}

static void linear(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *x,
                   int32_t n_rows, int32_t n_layers, const struct rf_weight *const *weights,
                   const struct rf_weight *const *biases, struct rf_buffer *const *y,
                   int accumulate)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    struct rf_share share;
    /* Rows of all layers, each layer's made up to whole panels so that the next begins with one. */
    size_t total = 0, row_bytes = 1, begin, end;
    int any_bf16 = 0;
    for (int32_t l = 0; l < n_layers; l++) {
        size_t bytes = weight_row_bytes(weights[l]);
        if (row_bytes < bytes) row_bytes = bytes;
        any_bf16 |= weights[l]->format == RF_FORMAT_BF16;
        total += rf_padded((size_t)weights[l]->rows);
    }
    struct cpu_pieces pieces =
        cpu_pieces(kernels, any_bf16, row_bytes, total, worker->count, (size_t)n_rows);
    rf_share_begin(&share, worker, total, pieces.grain, (double)row_bytes);
    while (rf_share_next(&share, &begin, &end)) {
        size_t first = 0; /* row of layer l among all of them */
        for (int32_t l = 0; l < n_layers; first += rf_padded((size_t)weights[l++]->rows)) {
            size_t from = begin > first ? begin - first : 0, to = end > first ? end - first : 0;
            if (to > (size_t)weights[l]->rows) to = (size_t)weights[l]->rows;
            for (size_t row = from, m; row < to; row += m) {
                m = to - row < pieces.call ? to - row : pieces.call;
                linear_piece(kernels, x, n_rows, weights[l], biases ? biases[l] : NULL, y[l], row,
                             m, accumulate);
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
    size_t step = params->rope_style == RF_ROPE_NORM ? 2 : 1,
           distance = params->rope_style == RF_ROPE_NORM ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float *a = head + i * step, *b = a + distance, c = turn[2 * i], s = turn[2 * i + 1];
        float x = *a, y = *b;
        *a = x * c - y * s;
        *b = x * s + y * c;
    }
}

static void rope_store(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                       struct rf_rows rows, struct rf_buffer *q, struct rf_buffer *k,
                       const struct rf_buffer *v, const struct rf_weight *q_norm,
                       const struct rf_weight *k_norm, float eps)
{
    const struct rf_params *params = context->shape.params;
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t n_rows = (size_t)rows.n_rows, dim = (size_t)params->head_dim,
           n_q = (size_t)params->n_head;
    size_t begin, end;
    struct rf_share share;
    /* Heads of q, then of k and v; the rows of a head together, so that neighbours in the cache
     * have one writer. */
    rf_share_begin(&share, worker, (n_q + (size_t)params->n_head_kv) * n_rows, 8, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t item = begin; item < end; item++) {
            size_t h = item / n_rows, row = item % n_rows, slot = (size_t)rows.first_pos + row;
            if (h < n_q) {
                float *head = buffer_row(q, row) + h * dim;
                if (q_norm) kernels->rms_norm(head, head, q_norm->f32, eps, dim);
                rotate(context, head, row);
            } else {
                h -= n_q;
                float *head = buffer_row(k, row) + h * dim;
                if (k_norm) kernels->rms_norm(head, head, k_norm->f32, eps, dim);
                rotate(context, head, row);
                cpu_kv_store_key(context, layer, h, slot, head);
                cpu_kv_store_value(context, layer, h, slot, buffer_row(v, row) + h * dim);
                if (rows.parents)
                    cpu_kv_get(context, layer, h, slot, cpu_tree_entry(context, h, row));
            }
        }
    rf_team_barrier(worker);
}

static void silu_gate(struct rf_context *context, struct rf_worker *worker, int32_t n_rows,
                      const struct rf_buffer *gate, const struct rf_buffer *up,
                      struct rf_buffer *out)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    struct rf_share share;
    size_t begin, end;
    float *gated = worker_row(context, worker);
    size_t width = gate->width, part = n_rows <= FEW_ROWS && has_parts(out) ? PART : width;
    size_t parts = (width + part - 1) / part;
    rf_share_begin(&share, worker, (size_t)n_rows * parts, rows_grain(n_rows), 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t item = begin; item < end; item++) {
            size_t i = item / parts, first = item % parts * part,
                   n = width - first < part ? width - first : part;
            kernels->silu_gate(gated, buffer_row(gate, i) + first, buffer_row(up, i) + first, n);
            if (n == width)
                pack_row(context, out, i, gated);
            else
                pack_part(context, out, i, first, n, gated);
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

static void log_probabilities(struct rf_context *context, struct rf_worker *worker,
                              const struct rf_buffer *logits, int32_t n_rows,
                              const int32_t *targets, double *out)
{
    (void)context;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, (size_t)n_rows, 1, 0.0);
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
    .kv_keep = cpu_kv_keep,
    .run = run,
    .workers = workers,
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
    const struct rf_kernels *kernels = rf_cpu_kernels(tier);
    if (!kernels)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "this version has no kernels for cpu tier %d",
                       tier);
    struct cpu_backend *made = rf_calloc(allocator, 1, sizeof *made, "backend", error);
    if (!made) return RF_ERR_MEMORY;
    made->base.ops = &cpu_ops;
    made->base.first_above = kernels->first_above;
    made->allocator = allocator;
    made->kernels = kernels;
    *backend = &made->base;
    return 0;
}
