/* Encoders: a pass reads whole texts, each a group of rows with a cache of its own, which holds the
 * keys and values of one layer at a time. Sums are in double precision and in the order of the
 * tokens, so a text's vector does not depend on the others. batch.c calls this. */
#include "engine/encoder.h"

#include <assert.h>
#include <math.h>

#include "infer/program.h"
#include "text/tokenizer.h"

/* A linear layer of the head of classification, [rows][n_embd]; rows is 0: there is none. */
struct cls_layer {
    float *weight, *bias;
    int32_t rows;
};

struct rf_encoder {
    const struct rf_allocator *allocator;
    struct rf_view *view;    /* has one tap: the last layer */
    struct rf_params params; /* of the caches: one layer */
    struct rf_cache *caches[RF_ENCODER_TEXTS];
    struct rf_rows groups[RF_ENCODER_TEXTS];
    riffle_pooling pooling[RF_ENCODER_TEXTS]; /* of the last pass */
    riffle_pooling usual;                     /* the model's */
    int is_reranker;
    struct cls_layer dense, out;
    int32_t n_ctx, width, sep;
    double *sum;                   /* [width] */
    float *vector, *dense_results; /* [width] */
};

int rf_engine_refuse_encoder(const struct rf_engine *engine, struct rf_error *error)
{
    const struct rf_source *source = engine->source;
    if (!source->params.encoder) return 0;
    return rf_fail(error, RF_ERR_UNSUPPORTED,
                   "%s is an encoder (%s): it gives %s of texts, no answers", source->name,
                   source->params.arch_name,
                   source->pooling == RF_POOLING_RANK ? "scores" : "vectors");
}

/* ---- making one ---- */

static int load_values(struct rf_encoder *encoder, const struct rf_source *source, const char *name,
                       float **values, int32_t *rows, struct rf_error *error)
{
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    if (!tensor) return 0;
    size_t n = (size_t)rf_tensor_elements(tensor);
    *values = rf_malloc(encoder->allocator, n, sizeof **values, "reranker", error);
    if (!*values) return RF_ERR_MEMORY;
    rf_dequantize_f32(tensor->dtype, tensor->data, *values, n);
    if (rows) *rows = (int32_t)tensor->ne[1];
    return 0;
}

/* The layer in front of the last one is followed by tanh. */
static int load_head(struct rf_encoder *encoder, const struct rf_source *source,
                     struct rf_error *error)
{
    struct cls_layer *dense = &encoder->dense, *out = &encoder->out;
    int code = load_values(encoder, source, RF_CLS ".weight", &dense->weight, &dense->rows, error);
    if (!code) code = load_values(encoder, source, RF_CLS ".bias", &dense->bias, NULL, error);
    if (!code)
        code = load_values(encoder, source, RF_CLS_OUT ".weight", &out->weight, &out->rows, error);
    if (!code) code = load_values(encoder, source, RF_CLS_OUT ".bias", &out->bias, NULL, error);
    if (code || out->rows) return code;
    *out = *dense;
    *dense = (struct cls_layer){0};
    return 0;
}

static riffle_pooling usual_pooling(enum rf_pooling named)
{
    return named == RF_POOLING_CLS || named == RF_POOLING_RANK ? RIFFLE_POOL_CLS
           : named == RF_POOLING_LAST                          ? RIFFLE_POOL_LAST
                                                               : RIFFLE_POOL_MEAN;
}

int rf_encoder_new(struct rf_encoder **encoder, const struct rf_session *session,
                   struct rf_error *error)
{
    const struct rf_engine *engine = session->engine;
    const struct rf_params *params = &engine->source->params;
    const int32_t last = params->n_layer - 1;
    size_t width = (size_t)params->n_embd;
    *encoder = NULL;
    struct rf_encoder *made = rf_calloc(
        &engine->allocator, 1,
        sizeof *made + width * (sizeof *made->sum + 2 * sizeof *made->vector), "encoder", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = &engine->allocator;
    made->params = *params;
    made->params.n_layer = 1;
    made->usual = usual_pooling(engine->source->pooling);
    made->is_reranker = engine->source->pooling == RF_POOLING_RANK;
    made->n_ctx = params->n_ctx_train;
    made->width = params->n_embd;
    made->sep = rf_tokenizer_sep(engine->tokenizer);
    made->sum = (double *)(made + 1);
    made->vector = (float *)(made->sum + width);
    made->dense_results = made->vector + width;
    const struct rf_view_options options = {.precision = engine->precision,
                                            .max_rows = made->n_ctx > RF_MAX_ROWS ? made->n_ctx
                                                                                  : RF_MAX_ROWS,
                                            .taps = &last,
                                            .n_taps = 1};
    int code = made->is_reranker ? load_head(made, engine->source, error) : 0;
    if (!code) code = rf_view_new(&made->view, engine->model, session->queue, &options, error);
    if (code) {
        rf_encoder_free(made);
        return code;
    }
    *encoder = made;
    return 0;
}

void rf_encoder_free(struct rf_encoder *encoder)
{
    if (!encoder) return;
    for (int32_t i = 0; i < RF_ENCODER_TEXTS; i++)
        if (encoder->caches[i]) encoder->caches[i]->backend->ops->cache_free(encoder->caches[i]);
    rf_view_free(encoder->view);
    rf_free(encoder->allocator, encoder->dense.weight);
    rf_free(encoder->allocator, encoder->dense.bias);
    rf_free(encoder->allocator, encoder->out.weight);
    rf_free(encoder->allocator, encoder->out.bias);
    rf_free(encoder->allocator, encoder);
}

/* ---- a pass ---- */

int32_t rf_encoder_fits(const struct rf_encoder *encoder, const struct rf_encoder_text *texts,
                        int32_t n)
{
    int32_t rows = 0, i = 0;
    (void)encoder;
    if (n > RF_ENCODER_TEXTS) n = RF_ENCODER_TEXTS;
    while (i < n && (i == 0 || texts[i].n <= RF_MAX_ROWS - rows)) rows += texts[i++].n;
    return i;
}

/* The rows of a pair's first text, which is followed by its end; 0: it is no pair. */
static int32_t first_text(const struct rf_encoder *encoder, const struct rf_encoder_text *text)
{
    int32_t i = 0;
    if (!encoder->is_reranker || encoder->params.n_token_types < 2) return 0;
    while (i < text->n && text->tokens[i] != encoder->sep) i++;
    return i + 1 < text->n ? i + 1 : 0;
}

static int add_text(struct rf_encoder *encoder, const struct rf_encoder_text *text, int32_t i,
                    struct rf_error *error)
{
    struct rf_backend *backend = encoder->view->backend;
    const struct rf_cache_shape shape = {.params = &encoder->params, .n_ctx = encoder->n_ctx};
    int code = 0;
    for (int32_t t = 0; t < text->n; t++)
        if (text->tokens[t] < 0 || text->tokens[t] >= encoder->params.n_vocab)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "token %d at index %d is outside the vocabulary of %d", text->tokens[t],
                           t, encoder->params.n_vocab);
    if (text->n > encoder->n_ctx)
        return rf_fail(error, RF_ERR_CONTEXT,
                       "the text has %d tokens, and the model reads at most %d", text->n,
                       encoder->n_ctx);
    if (!encoder->caches[i])
        code = backend->ops->cache_new(&encoder->caches[i], backend, &shape, error);
    encoder->pooling[i] = text->pooling == RIFFLE_POOL_MODEL ? encoder->usual : text->pooling;
    encoder->groups[i] = (struct rf_rows){.cache = encoder->caches[i],
                                          .tokens = text->tokens,
                                          .n = text->n,
                                          .n_first = first_text(encoder, text)};
    return code;
}

int rf_encoder_read(struct rf_encoder *encoder, const struct rf_encoder_text *texts, int32_t n,
                    struct rf_error *error)
{
    const struct rf_pass pass = {.groups = encoder->groups, .n_groups = n};
    int code = 0;
    assert(n >= 1 && n <= RF_ENCODER_TEXTS);
    for (int32_t i = 0; !code && i < n; i++) code = add_text(encoder, &texts[i], i, error);
    return code ? code : rf_view_run(encoder->view, &pass, error);
}

/* ---- results ---- */

static int add_row(struct rf_encoder *encoder, int32_t row, struct rf_error *error)
{
    const float *x;
    int code = encoder->view->backend->ops->tap(encoder->view, 0, row, &x, error);
    for (int32_t j = 0; !code && j < encoder->width; j++) encoder->sum[j] += (double)x[j];
    return code;
}

static void apply_layer(const struct cls_layer *layer, const float *x, int32_t n, float *out)
{
    for (int32_t r = 0; r < layer->rows; r++) {
        double sum = layer->bias ? (double)layer->bias[r] : 0.0;
        for (int32_t j = 0; j < n; j++)
            sum += (double)layer->weight[(size_t)r * (size_t)n + (size_t)j] * (double)x[j];
        out[r] = (float)sum;
    }
}

/* The score of the first row, which `vector` holds, in its place. */
static void score(struct rf_encoder *encoder)
{
    float *x = encoder->vector;
    if (encoder->dense.rows) {
        apply_layer(&encoder->dense, x, encoder->width, encoder->dense_results);
        for (int32_t j = 0; j < encoder->width; j++) x[j] = tanhf(encoder->dense_results[j]);
    }
    apply_layer(&encoder->out, x, encoder->width, encoder->dense_results);
    x[0] = encoder->dense_results[0];
}

const float *rf_encoder_vector(struct rf_encoder *encoder, int32_t i, int32_t *width,
                               struct rf_error *error)
{
    riffle_pooling pooling = encoder->pooling[i];
    int32_t begin = 0, code = 0, n = encoder->groups[i].n;
    for (int32_t g = 0; g < i; g++) begin += encoder->groups[g].n;
    for (int32_t j = 0; j < encoder->width; j++) encoder->sum[j] = 0.0;
    int32_t first = pooling == RIFFLE_POOL_LAST ? n - 1 : 0,
            end = pooling == RIFFLE_POOL_CLS ? 1 : n;
    for (int32_t r = first; !code && r < end; r++) code = add_row(encoder, begin + r, error);
    if (code) return NULL;
    double squares = 0.0;
    for (int32_t j = 0; j < encoder->width; j++) squares += encoder->sum[j] * encoder->sum[j];
    double scale = encoder->is_reranker ? 1.0 : squares > 0.0 ? 1.0 / sqrt(squares) : 0.0;
    for (int32_t j = 0; j < encoder->width; j++)
        encoder->vector[j] = (float)(encoder->sum[j] * scale);
    if (encoder->is_reranker) score(encoder);
    *width = encoder->is_reranker ? 1 : encoder->width;
    return encoder->vector;
}
