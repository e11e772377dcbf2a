/* Linear layers behind an encoder's pooled row. Sums are in double precision and one order. */
#include "engine/encoder_head.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/tensors.h"

static int load_values(const struct rf_encoder_head *head, const struct rf_source *source,
                       const char *stem, const char *ending, float **values,
                       const struct rf_tensor **found, struct rf_error *error)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", stem, ending);
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    *found = tensor;
    if (!tensor) return 0;
    size_t n = (size_t)rf_tensor_elements(tensor);
    *values = rf_malloc(head->allocator, n, sizeof **values, "head of an encoder", error);
    if (!*values) return RF_ERR_MEMORY;
    rf_dequantize_f32(tensor->dtype, tensor->data, *values, n);
    return 0;
}

static int load_layer(struct rf_encoder_head *head, const struct rf_source *source,
                      enum rf_head_part part, const char *stem, struct rf_error *error)
{
    struct rf_head_layer *layer = &head->layers[part];
    const struct rf_tensor *weight, *bias;
    int code = load_values(head, source, stem, "weight", &layer->weight, &weight, error);
    if (code || !weight) return code;
    layer->columns = (int32_t)weight->ne[0];
    layer->rows = (int32_t)weight->ne[1];
    return load_values(head, source, stem, "bias", &layer->bias, &bias, error);
}

/* A head of a single layer has either name. */
static int load_labels(struct rf_encoder_head *head, const struct rf_source *source,
                       struct rf_error *error)
{
    struct rf_head_layer *layers = head->layers;
    const struct rf_tensor *norm;
    int code = load_layer(head, source, RF_HEAD_CLS, RF_CLS, error);
    if (!code) code = load_layer(head, source, RF_HEAD_CLS_OUT, RF_CLS_OUT, error);
    if (!code) code = load_values(head, source, RF_CLS_NORM, "weight", &head->norm, &norm, error);
    if (code || layers[RF_HEAD_CLS_OUT].rows) return code;
    layers[RF_HEAD_CLS_OUT] = layers[RF_HEAD_CLS];
    layers[RF_HEAD_CLS] = (struct rf_head_layer){0};
    return 0;
}

int rf_encoder_head_load(struct rf_encoder_head *head, const struct rf_source *source,
                         const struct rf_allocator *allocator, struct rf_error *error)
{
    const struct rf_params *params = &source->params;
    *head = (struct rf_encoder_head){.allocator = allocator,
                                     .eps = params->rms_eps,
                                     .width = params->n_embd,
                                     .has_gelu = params->arch == RF_ARCH_MODERN_BERT};
    int code;
    if (source->pooling == RF_POOLING_RANK) {
        code = load_labels(head, source, error);
    } else {
        code = load_layer(head, source, RF_HEAD_DENSE_2, RF_DENSE_2, error);
        if (!code) code = load_layer(head, source, RF_HEAD_DENSE_3, RF_DENSE_3, error);
    }
    size_t most = (size_t)params->n_embd;
    for (int i = 0; i < RF_HEAD_PARTS; i++)
        if ((size_t)head->layers[i].rows > most) most = (size_t)head->layers[i].rows;
    if (code) return code;
    head->results = rf_malloc(allocator, 2 * most, sizeof *head->results, "encoder", error);
    if (!head->results) return RF_ERR_MEMORY;
    head->inner = head->results + most;
    return 0;
}

void rf_encoder_head_free(struct rf_encoder_head *head)
{
    for (int i = 0; i < RF_HEAD_PARTS; i++) {
        rf_free(head->allocator, head->layers[i].weight);
        rf_free(head->allocator, head->layers[i].bias);
    }
    rf_free(head->allocator, head->norm);
    rf_free(head->allocator, head->results);
}

/* Several sums, which a compiler adds up side by side. */
static double dot(const float *a, const float *b, int32_t n)
{
    enum { SUMS = 8 };
    double sums[SUMS] = {0}, total = 0.0;
    int32_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) sums[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < n; i++) total += (double)a[i] * (double)b[i];
    for (int k = 0; k < SUMS; k++) total += sums[k];
    return total;
}

static void apply_layer(const struct rf_head_layer *layer, const float *x, float *out)
{
    for (int32_t r = 0; r < layer->rows; r++)
        out[r] =
            (float)(dot(layer->weight + (size_t)r * (size_t)layer->columns, x, layer->columns) +
                    (layer->bias ? (double)layer->bias[r] : 0.0));
}

static float gelu(float x)
{
    return (float)((double)x / 2 * (1 + erf((double)x / sqrt(2))));
}

static void normalise(const struct rf_encoder_head *head, float *x)
{
    double mean = 0.0, squares = 0.0;
    for (int32_t j = 0; j < head->width; j++) mean += (double)x[j] / head->width;
    for (int32_t j = 0; j < head->width; j++)
        squares += ((double)x[j] - mean) * ((double)x[j] - mean);
    double scale = 1 / sqrt(squares / head->width + (double)head->eps);
    for (int32_t j = 0; j < head->width; j++)
        x[j] = (float)(((double)x[j] - mean) * scale * (double)head->norm[j]);
}

float rf_encoder_head_score(struct rf_encoder_head *head, const float *x)
{
    float *inner = head->inner;
    if (head->layers[RF_HEAD_CLS].rows) {
        apply_layer(&head->layers[RF_HEAD_CLS], x, inner);
        for (int32_t j = 0; j < head->width; j++)
            inner[j] = head->has_gelu ? gelu(inner[j]) : tanhf(inner[j]);
        if (head->norm) normalise(head, inner);
        x = inner;
    }
    apply_layer(&head->layers[RF_HEAD_CLS_OUT], x, head->results);
    return head->results[0];
}

void rf_encoder_head_apply(struct rf_encoder_head *head, float *x)
{
    const float *from = x;
    float *to = head->inner;
    for (int i = RF_HEAD_DENSE_2; i <= RF_HEAD_DENSE_3; i++) {
        if (!head->layers[i].rows) continue;
        apply_layer(&head->layers[i], from, to);
        from = to;
        to = head->results;
    }
    if (from != x) memcpy(x, from, (size_t)head->width * sizeof *x);
}
