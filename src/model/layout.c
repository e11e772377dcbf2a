/* Checks of a model that do not depend on its container: the parameters agree with each other, and
 * the tensors are exactly those that the forward pass computes with. Ignoring a tensor (a bias, a
 * router, an adapter) would change the answers, so an unknown one is an error. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/reader.h"
#include "model/tensors.h"

static const char *shown_as(rf_shown_name *shown, const char *name, char *buffer, size_t bytes)
{
    return shown ? shown(name, buffer, bytes) : name;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rf_tensor *)a)->name, ((const struct rf_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)(*(const struct rf_tensor *const *)a)->data;
    uintptr_t y = (uintptr_t)(*(const struct rf_tensor *const *)b)->data;
    return (x > y) - (x < y);
}

/* Addresses stand for places in files, since mappings do not overlap. */
static int check_overlap(const struct rf_source *source, const char *path, rf_shown_name *shown,
                         struct rf_error *error)
{
    const struct rf_allocator *allocator = &source->private_->allocator;
    size_t n = (size_t)source->n_tensors;
    const struct rf_tensor **order = rf_malloc(allocator, n, sizeof *order, "tensors", error);
    if (!order) return RF_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) order[i] = &source->tensors[i];
    if (n > 1) qsort(order, n, sizeof *order, by_place);
    int code = 0;
    for (size_t i = 1; !code && i < n; i++) {
        char first[256], second[256];
        if ((uintptr_t)order[i]->data - (uintptr_t)order[i - 1]->data < order[i - 1]->bytes)
            code = rf_fail(error, RF_ERR_FORMAT, "%s: tensors %.100s and %.100s overlap", path,
                           shown_as(shown, order[i - 1]->name, first, sizeof first),
                           shown_as(shown, order[i]->name, second, sizeof second));
    }
    rf_free(allocator, order);
    return code;
}

int rf_tensors_sort(struct rf_source *source, const char *path, rf_shown_name *shown,
                    struct rf_error *error)
{
    struct rf_tensor *tensors = source->tensors;
    if (source->n_tensors > 1) qsort(tensors, (size_t)source->n_tensors, sizeof *tensors, by_name);
    for (int32_t i = 1; i < source->n_tensors; i++) {
        char buffer[256];
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return rf_fail(error, RF_ERR_FORMAT, "%s: two tensors are called %.200s", path,
                           shown_as(shown, tensors[i].name, buffer, sizeof buffer));
    }
    return check_overlap(source, path, shown, error);
}

const struct rf_tensor *rf_source_tensor(const struct rf_source *source, const char *name)
{
    const struct rf_tensor wanted = {.name = name};
    if (source->n_tensors == 0) return NULL;
    return bsearch(&wanted, source->tensors, (size_t)source->n_tensors, sizeof wanted, by_name);
}

int rf_params_check(const struct rf_params *params, const char *path, struct rf_error *error)
{
    const struct {
        const char *what;
        int32_t value;
    } counts[] = {{"layers", params->n_layer},
                  {"embedding length", params->n_embd},
                  {"attention heads", params->n_head},
                  {"key/value heads", params->n_head_kv},
                  {"head dimension", params->head_dim},
                  {"feed-forward length", params->n_ff},
                  {"context length", params->n_ctx_train}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value <= 0)
            return rf_fail(error, RF_ERR_FORMAT, "%s: the number of %s is %" PRId32, path,
                           counts[i].what, counts[i].value);
    if (params->n_head % params->n_head_kv)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: %" PRId32 " key/value heads do not divide %" PRId32 " attention heads",
                       path, params->n_head_kv, params->n_head);
    if (rf_n_q(params) > INT32_MAX)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: %" PRId32 " attention heads of dimension %" PRId32 " are too many",
                       path, params->n_head, params->head_dim);
    if (params->rope_dim <= 0 || params->rope_dim % 2 || params->rope_dim > params->head_dim)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: the rotated dimension is %" PRId32
                       "; it must be even and at most the head dimension, %" PRId32,
                       path, params->rope_dim, params->head_dim);
    if (!isfinite(params->rms_eps) || params->rms_eps <= 0.0f)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: the epsilon of the RMS norms is %g; it must be above 0", path,
                       (double)params->rms_eps);
    if (!isfinite(params->rope_theta) || params->rope_theta <= 0.0f)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: the base frequency of the rotation (theta) is %g; it must be above 0",
                       path, (double)params->rope_theta);
    if (!isfinite(params->rope_scale) || params->rope_scale <= 0.0f)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: the scale of the positions is %g; it must be above 0", path,
                       (double)params->rope_scale);
    return 0;
}

void rf_params_limit_window(struct rf_params *params, int64_t window)
{
    if (window > 0 && window < params->n_ctx_train) params->n_ctx_train = (int32_t)window;
}

struct layout {
    struct rf_source *source;
    const char *path;
    rf_shown_name *shown;
    unsigned char *expected; /* [n_tensors]: 1 for a tensor that the architecture has */
    struct rf_error *error;
};

/* Expects a tensor of ne0 x ne1 (ne1 is 1 for vectors). */
static int expect(struct layout *layout, const char *name, int64_t ne0, int64_t ne1)
{
    const struct rf_source *source = layout->source;
    const struct rf_tensor *tensor = rf_source_tensor(source, name);
    char buffer[256];
    if (!tensor)
        return rf_fail(layout->error, RF_ERR_FORMAT,
                       "%s: tensor %s is missing (stated number of layers: %" PRId32 ")",
                       layout->path, shown_as(layout->shown, name, buffer, sizeof buffer),
                       source->params.n_layer);
    layout->expected[tensor - source->tensors] = 1;
    const int64_t *ne = tensor->ne;
    if (ne[0] == ne0 && ne[1] == ne1 && ne[2] == 1 && ne[3] == 1) return 0;
    return rf_fail(layout->error, RF_ERR_FORMAT,
                   "%s: tensor %s is [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                   "], but the parameters ask for [%" PRId64 ", %" PRId64 "]",
                   layout->path, shown_as(layout->shown, name, buffer, sizeof buffer), ne[0], ne[1],
                   ne[2], ne[3], ne0, ne1);
}

struct shape {
    const char *name;
    int64_t ne0, ne1;
    int used;
};
#define SHAPE(field, gguf, hf, role, ne0, ne1, condition) {gguf, ne0, ne1, condition},

static int expect_tensors(struct layout *layout)
{
    const struct rf_params *p = &layout->source->params;
    const struct shape in_model[] = {RF_EACH_MODEL_TENSOR(SHAPE)};
    const struct shape in_layer[] = {RF_EACH_LAYER_TENSOR(SHAPE)};
    int code = 0;
    for (int i = 0; !code && i < RF_MODEL_TENSORS; i++)
        if (in_model[i].used)
            code = expect(layout, in_model[i].name, in_model[i].ne0, in_model[i].ne1);
    for (int32_t layer = 0; !code && layer < p->n_layer; layer++)
        for (int i = 0; !code && i < RF_LAYER_TENSORS; i++) {
            char name[64];
            if (!in_layer[i].used) continue;
            snprintf(name, sizeof name, "blk.%" PRId32 ".%s", layer, in_layer[i].name);
            code = expect(layout, name, in_layer[i].ne0, in_layer[i].ne1);
        }
    return code;
}

/* The llama3 scaling of a GGUF file: divisors of the frequencies, as floats. No other tensor is
 * read on opening. */
static int read_rope_freqs(struct layout *layout, const struct rf_tensor *tensor)
{
    struct rf_params *params = &layout->source->params;
    int64_t n = params->rope_dim / 2;
    int code = expect(layout, tensor->name, n, 1);
    if (code) return code;
    if (rf_dtype_info(tensor->dtype)->block_elems != 1)
        return rf_fail(layout->error, RF_ERR_UNSUPPORTED,
                       "%s: tensor %s is %s; it must be of a float type", layout->path,
                       tensor->name, rf_dtype_info(tensor->dtype)->name);
    float *factors =
        rf_source_alloc(layout->source, (size_t)n, sizeof *factors, tensor->name, layout->error);
    if (!factors) return RF_ERR_MEMORY;
    rf_dequantize_f32(tensor->dtype, tensor->data, factors, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(factors[i]) || factors[i] <= 0.0f)
            return rf_fail(layout->error, RF_ERR_FORMAT,
                           "%s: tensor %s: element %" PRId64 " is %g; it must be above 0",
                           layout->path, tensor->name, i, (double)factors[i]);
    params->rope_freq_factors = factors;
    return 0;
}

static int expect_all(struct layout *layout)
{
    struct rf_source *source = layout->source;
    struct rf_params *params = &source->params;
    const struct rf_tensor *embedding = rf_source_tensor(source, RF_TOKEN_EMBD);
    if (embedding && (embedding->ne[1] < 1 || embedding->ne[1] > INT32_MAX))
        return rf_fail(layout->error, RF_ERR_FORMAT,
                       "%s: tensor " RF_TOKEN_EMBD " has %" PRId64 " rows", layout->path,
                       embedding->ne[1]);
    params->n_vocab = embedding ? (int32_t)embedding->ne[1] : 0;
    params->tied_output = rf_source_tensor(source, "output.weight") == NULL;
    params->qkv_bias =
        params->arch == RF_ARCH_QWEN2 || rf_source_tensor(source, "blk.0.attn_q.bias") != NULL;
    params->qk_norm = params->arch == RF_ARCH_QWEN3;

    int code = expect_tensors(layout);
    const struct rf_tensor *freqs = rf_source_tensor(source, "rope_freqs.weight");
    if (!code && freqs && params->arch == RF_ARCH_LLAMA) code = read_rope_freqs(layout, freqs);
    return code;
}

int rf_layout_check(struct rf_source *source, const char *path, rf_shown_name *shown,
                    struct rf_error *error)
{
    const struct rf_allocator *allocator = &source->private_->allocator;
    struct layout layout = {source, path, shown, NULL, error};
    layout.expected = rf_calloc(allocator, (size_t)source->n_tensors, 1, "tensors", error);
    if (!layout.expected) return RF_ERR_MEMORY;
    int code = expect_all(&layout);
    for (int32_t i = 0; !code && i < source->n_tensors; i++) {
        char buffer[256];
        if (!layout.expected[i])
            code = rf_fail(error, RF_ERR_UNSUPPORTED,
                           "%s: tensor %.200s has no place in a %s model of %" PRId32
                           " layers as it is computed here",
                           path, shown_as(shown, source->tensors[i].name, buffer, sizeof buffer),
                           source->params.arch_name, source->params.n_layer);
    }
    rf_free(allocator, layout.expected);
    return code;
}
