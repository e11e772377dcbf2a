/* Encoders: a pass reads whole texts, each a group of rows with a cache of its own, which holds the
 * keys and values of one layer at a time. Sums are in double precision and in the order of the
 * tokens, so a text's vector does not depend on the others. batch.c calls this. */
#include "engine/encoder.h"

#include <assert.h>
#include <math.h>

#include "engine/encoder_head.h"
#include "infer/program.h"
#include "text/tokenizer.h"

struct rf_encoder {
    const struct rf_allocator *allocator;
    struct rf_view *view;    /* has one tap: the last layer */
    struct rf_params params; /* of the caches: one layer */
    struct rf_cache *caches[RF_ENCODER_TEXTS];
    struct rf_rows groups[RF_ENCODER_TEXTS];
    riffle_pooling pooling[RF_ENCODER_TEXTS]; /* of the last pass */
    riffle_pooling usual;                     /* the model's */
    int is_reranker;
    struct rf_encoder_head head;
    int32_t n_ctx, width, sep;
    double *sum;   /* [width] */
    float *vector; /* [width] */
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

riffle_pooling rf_encoder_usual_pooling(const struct rf_source *source)
{
    enum rf_pooling named = source->pooling;
    if (named == RF_POOLING_RANK && source->params.cls_mean) return RIFFLE_POOL_MEAN;
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
        &engine->allocator, 1, sizeof *made + width * (sizeof *made->sum + sizeof *made->vector),
        "encoder", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = &engine->allocator;
    made->params = *params;
    made->params.n_layer = 1;
    made->params.window = 0; /* layers without a window use this cache, too */
    made->usual = rf_encoder_usual_pooling(engine->source);
    made->is_reranker = engine->source->pooling == RF_POOLING_RANK;
    made->n_ctx = params->n_ctx_train;
    made->width = params->n_embd;
    made->sep = rf_tokenizer_sep(engine->tokenizer);
    made->sum = (double *)(made + 1);
    made->vector = (float *)(made->sum + width);
    const struct rf_view_options options = {.precision = engine->precision,
                                            .max_rows = made->n_ctx > RF_MAX_ROWS ? made->n_ctx
                                                                                  : RF_MAX_ROWS,
                                            .taps = &last,
                                            .n_taps = 1};
    int code = rf_encoder_head_load(&made->head, engine->source, &engine->allocator, error);
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
    rf_encoder_head_free(&encoder->head);
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

/* Makes the vector's length 1. */
static void normalise(struct rf_encoder *encoder)
{
    double squares = 0.0;
    for (int32_t j = 0; j < encoder->width; j++)
        squares += (double)encoder->vector[j] * (double)encoder->vector[j];
    double scale = squares > 0.0 ? 1.0 / sqrt(squares) : 0.0;
    for (int32_t j = 0; j < encoder->width; j++)
        encoder->vector[j] = (float)((double)encoder->vector[j] * scale);
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
    for (int32_t j = 0; j < encoder->width; j++)
        encoder->vector[j] = (float)(encoder->sum[j] / (end - first));
    if (encoder->is_reranker) {
        encoder->vector[0] = rf_encoder_head_score(&encoder->head, encoder->vector);
    } else {
        rf_encoder_head_apply(&encoder->head, encoder->vector);
        normalise(encoder);
    }
    *width = encoder->is_reranker ? 1 : encoder->width;
    return encoder->vector;
}
