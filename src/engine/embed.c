/* Pooling the rows of the last layer (embed.h). The sums are in double precision and in the order
 * of the tokens, so the vector does not depend on how the text was cut into slices. */
#include "engine/embed.h"

#include <math.h>

struct rf_embedder {
    const struct rf_allocator *allocator;
    struct rf_view *view; /* has one tap: the last layer */
    struct rf_sequence *sequence;
    riffle_pooling pooling, usual; /* the model's */
    float eps;
    int32_t width;
    /* Arrays in the embedder's own block: */
    double *sum;          /* [width]: sum of the rows so far, or the last row */
    float *gain, *vector; /* [width] */
};

static void load_gain(struct rf_embedder *embedder, const struct rf_source *source)
{
    const struct rf_tensor *gain = rf_source_tensor(source, "output_norm.weight");
    rf_dequantize_f32(gain->dtype, gain->data, embedder->gain, (size_t)embedder->width);
}

int rf_embedder_new(struct rf_embedder **embedder, const struct rf_session *session,
                    struct rf_error *error)
{
    const struct rf_engine *engine = session->engine;
    const struct rf_params *params = &engine->source->params;
    const int32_t last = params->n_layer - 1;
    const struct rf_view_options options = {.precision = engine->precision,
                                            .kv = session->view->shape.kv,
                                            .max_rows = session->view->shape.max_rows,
                                            .taps = &last,
                                            .n_taps = 1};
    const struct rf_sequence_shape shape = {.n_ctx = rf_sequence_n_ctx(session->sequence),
                                            .kv = options.kv};
    size_t width = (size_t)params->n_embd;
    *embedder = NULL;
    struct rf_embedder *made = rf_calloc(
        &engine->allocator, 1, sizeof *made + width * (sizeof *made->sum + 2 * sizeof *made->gain),
        "embedder", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = &engine->allocator;
    made->usual = engine->source->pooling == RF_POOLING_LAST ? RIFFLE_POOL_LAST : RIFFLE_POOL_MEAN;
    made->eps = params->rms_eps;
    made->width = params->n_embd;
    made->sum = (double *)(made + 1);
    made->gain = (float *)(made->sum + width);
    made->vector = made->gain + width;
    load_gain(made, engine->source);
    int code = rf_view_new(&made->view, engine->model, session->queue, &options, error);
    if (!code)
        code = rf_sequence_new(&made->sequence, made->view, &shape, &engine->allocator, error);
    if (code) {
        rf_embedder_free(made);
        return code;
    }
    *embedder = made;
    return 0;
}

void rf_embedder_free(struct rf_embedder *embedder)
{
    if (!embedder) return;
    rf_sequence_free(embedder->sequence);
    rf_view_free(embedder->view);
    rf_free(embedder->allocator, embedder);
}

int rf_embedder_begin(struct rf_embedder *embedder, const int32_t *tokens, int32_t n,
                      riffle_pooling pooling, struct rf_error *error)
{
    rf_sequence_rewind(embedder->sequence, 0);
    if (pooling == RIFFLE_POOL_MODEL) pooling = embedder->usual;
    embedder->pooling = pooling;
    for (int32_t i = 0; i < embedder->width; i++) embedder->sum[i] = 0.0;
    return rf_sequence_append(embedder->sequence, tokens, n, error);
}

/* Adds a row of the residual stream, normalised as the head's operand is (RF_OP_NORM). */
static void pool_row(struct rf_embedder *embedder, const float *x)
{
    double squares = 0.0;
    for (int32_t i = 0; i < embedder->width; i++) squares += (double)x[i] * (double)x[i];
    double scale = 1.0 / sqrt(squares / embedder->width + (double)embedder->eps);
    for (int32_t i = 0; i < embedder->width; i++)
        embedder->sum[i] += (double)x[i] * scale * (double)embedder->gain[i];
}

int32_t rf_embedder_read(struct rf_embedder *embedder, int32_t rows, struct rf_error *error)
{
    struct rf_view *view = embedder->view;
    const struct rf_read_options options = {.n_best = 0};
    int32_t n = rf_sequence_n_committed(embedder->sequence),
            from = rf_sequence_n_read(embedder->sequence), to = n;
    if (rows > view->shape.max_rows) rows = view->shape.max_rows;
    if (to - from > rows) to = from + rows;
    struct rf_ask ask = {.sequence = embedder->sequence, .n_text = to, .reads_only = 1};
    int code = rf_read(view, &ask, 1, &options, NULL, error);
    int32_t first = embedder->pooling == RIFFLE_POOL_LAST ? n - 1 : from;
    for (int32_t i = first; !code && i < to; i++) {
        const float *row;
        code = view->backend->ops->tap(view, 0, i - from, &row, error);
        if (!code) pool_row(embedder, row);
    }
    return code ? code : n - to;
}

const float *rf_embedder_vector(struct rf_embedder *embedder)
{
    double squares = 0.0;
    for (int32_t i = 0; i < embedder->width; i++) squares += embedder->sum[i] * embedder->sum[i];
    double scale = squares > 0.0 ? 1.0 / sqrt(squares) : 0.0;
    for (int32_t i = 0; i < embedder->width; i++)
        embedder->vector[i] = (float)(embedder->sum[i] * scale);
    return embedder->vector;
}

int32_t rf_embedder_width(const struct rf_embedder *embedder)
{
    return embedder->width;
}
