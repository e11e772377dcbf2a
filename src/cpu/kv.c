/* The KV cache: per layer and KV head first K, 16 positions interleaved so that a vector of scores needs no sums across
 * lanes, [n_ctx/16][head_dim][16]; then V, [n_ctx][padded head_dim]. */
#include <string.h>

#include "cpu/cpu.h"

static size_t blocks(size_t positions)
{
    return (positions + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
}

static size_t heads(const struct rf_context *context)
{
    return (size_t)context->shape.params->n_layer * (size_t)context->shape.params->n_head_kv;
}

int cpu_kv_new(struct rf_context *context, struct rf_error *error)
{
    size_t n_ctx = blocks((size_t)context->shape.n_ctx) * RF_KV_BLOCK, dim = (size_t)context->shape.params->head_dim;
    context->padded_dim = rf_padded(dim);
    context->k_elements = n_ctx * dim;
    context->kv_elements = context->k_elements + n_ctx * context->padded_dim;
    /* Not cleared, so that pages are taken up as the context fills. Kernels read K to the end of a block of 16 and drop the
     * scores of positions that a query does not see; of V they read only what was written. */
    context->kv = rf_malloc(context->backend->allocator, heads(context) * context->kv_elements, sizeof *context->kv,
                            "KV cache", error);
    return context->kv ? 0 : RF_ERR_MEMORY;
}

void cpu_kv_free(struct rf_context *context)
{
    rf_free(context->backend->allocator, context->kv);
}

void cpu_kv_store_key(struct rf_context *context, int32_t layer, size_t head, size_t pos, const float *key)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t dim = (size_t)context->shape.params->head_dim;
    uint16_t *block = k_cache(context, layer, head) + pos / RF_KV_BLOCK * RF_KV_BLOCK * dim;

    uint16_t half[RF_KV_BLOCK];
    for (size_t j = 0; j < dim; j += RF_KV_BLOCK) {
        size_t n = dim - j < RF_KV_BLOCK ? dim - j : RF_KV_BLOCK;
        if (context->shape.kv == RF_KV_F16)
            kernels->f32_to_f16(half, key + j, n);
        else
            kernels->f32_to_bf16(half, key + j, n);
        for (size_t i = 0; i < n; i++) block[(j + i) * RF_KV_BLOCK + pos % RF_KV_BLOCK] = half[i];
    }
}

void cpu_kv_store_value(struct rf_context *context, int32_t layer, size_t head, size_t pos, const float *value)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t dim = (size_t)context->shape.params->head_dim;
    uint16_t *row = v_cache(context, layer, head) + pos * context->padded_dim;
    if (context->shape.kv == RF_KV_F16)
        kernels->f32_to_f16(row, value, dim);
    else
        kernels->f32_to_bf16(row, value, dim);
    memset(row + dim, 0, (context->padded_dim - dim) * sizeof *row);
}

uint64_t cpu_kv_bytes(const struct rf_context *context, int32_t n)
{
    size_t dim = (size_t)context->shape.params->head_dim;
    size_t k = blocks((size_t)n) * RF_KV_BLOCK * dim, v = (size_t)n * context->padded_dim;
    return (uint64_t)heads(context) * (k + v) * sizeof(uint16_t);
}

/* Clears the positions of the last K block that were not written: no stray memory belongs in a file. */
static void clear_beyond(uint16_t *k, size_t n, size_t dim)
{
    if (n % RF_KV_BLOCK == 0) return;
    uint16_t *block = k + n / RF_KV_BLOCK * RF_KV_BLOCK * dim;
    for (size_t j = 0; j < dim; j++)
        memset(block + j * RF_KV_BLOCK + n % RF_KV_BLOCK, 0, (RF_KV_BLOCK - n % RF_KV_BLOCK) * sizeof *block);
}

void cpu_kv_save(const struct rf_context *context, int32_t n, void *out)
{
    size_t k = blocks((size_t)n) * RF_KV_BLOCK * (size_t)context->shape.params->head_dim * sizeof(uint16_t);
    size_t v = (size_t)n * context->padded_dim * sizeof(uint16_t);
    char *to = out;
    for (size_t i = 0; i < heads(context); i++, to += k + v) {
        const uint16_t *from = context->kv + i * context->kv_elements;
        memcpy(to, from, k);
        memcpy(to + k, from + context->k_elements, v);
        clear_beyond((uint16_t *)(void *)to, (size_t)n, (size_t)context->shape.params->head_dim);
    }
}

void cpu_kv_load(struct rf_context *context, int32_t n, const void *in)
{
    size_t k = blocks((size_t)n) * RF_KV_BLOCK * (size_t)context->shape.params->head_dim * sizeof(uint16_t);
    size_t v = (size_t)n * context->padded_dim * sizeof(uint16_t);
    const char *from = in;
    for (size_t i = 0; i < heads(context); i++, from += k + v) {
        uint16_t *to = context->kv + i * context->kv_elements;
        memcpy(to, from, k);
        memcpy(to + context->k_elements, from + k, v);
    }
}
