/* The KV cache: per chunk of positions, layer and KV head first K, 16 positions interleaved so that
 * a vector of scores needs no sums across lanes, [256/16][head_dim][16]; then V, [256][padded
 * head_dim]. Chunks come first in the order, so that a context takes up memory as it fills, however
 * large the pages are. */
#include <string.h>

#include "cpu/cpu.h"

static size_t chunks(size_t positions)
{
    return (positions + RF_ATTENTION_CHUNK - 1) / RF_ATTENTION_CHUNK;
}

static size_t heads(const struct rf_context *context)
{
    return (size_t)context->shape.params->n_layer * (size_t)context->shape.params->n_head_kv;
}

/* A key and a value of one head. */
static size_t entry_elements(const struct rf_context *context)
{
    return (size_t)context->shape.params->head_dim + context->padded_dim;
}

int cpu_kv_new(struct rf_context *context, struct rf_error *error)
{
    size_t dim = (size_t)context->shape.params->head_dim;
    context->padded_dim = rf_padded(dim);
    context->k_elements = RF_ATTENTION_CHUNK * dim;
    context->kv_elements = context->k_elements + RF_ATTENTION_CHUNK * context->padded_dim;
    context->tree_entries = rf_malloc(
        context->backend->allocator, (size_t)context->shape.params->n_head_kv * RF_TREE_ROWS,
        entry_elements(context) * sizeof *context->tree_entries, "KV cache", error);
    /* Not cleared: kernels read K to the end of a block of 16 and drop the scores of positions that
     * a query does not see; of V they read only what was written. */
    context->kv = rf_malloc(context->backend->allocator,
                            chunks((size_t)context->shape.n_ctx) * heads(context),
                            context->kv_elements * sizeof *context->kv, "KV cache", error);
    return context->kv && context->tree_entries ? 0 : RF_ERR_MEMORY;
}

void cpu_kv_free(struct rf_context *context)
{
    rf_free(context->backend->allocator, context->kv);
    rf_free(context->backend->allocator, context->tree_entries);
}

/* Where a position's key begins (its elements are RF_KV_BLOCK apart), and its value. */
static uint16_t *key_at(const struct rf_context *context, int32_t layer, size_t head, size_t pos)
{
    size_t place = pos % RF_ATTENTION_CHUNK, first = place / RF_KV_BLOCK * RF_KV_BLOCK;
    return k_cache(context, pos / RF_ATTENTION_CHUNK, layer, head) +
           first * (size_t)context->shape.params->head_dim + place % RF_KV_BLOCK;
}

static uint16_t *value_at(const struct rf_context *context, int32_t layer, size_t head, size_t pos)
{
    return v_cache(context, pos / RF_ATTENTION_CHUNK, layer, head) +
           pos % RF_ATTENTION_CHUNK * context->padded_dim;
}

void cpu_kv_store_key(struct rf_context *context, int32_t layer, size_t head, size_t pos,
                      const float *key)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t dim = (size_t)context->shape.params->head_dim;
    uint16_t *to = key_at(context, layer, head, pos), half[RF_KV_BLOCK];
    for (size_t j = 0; j < dim; j += RF_KV_BLOCK) {
        size_t n = dim - j < RF_KV_BLOCK ? dim - j : RF_KV_BLOCK;
        if (context->shape.kv == RF_KV_F16)
            kernels->f32_to_f16(half, key + j, n);
        else
            kernels->f32_to_bf16(half, key + j, n);
        for (size_t i = 0; i < n; i++) to[(j + i) * RF_KV_BLOCK] = half[i];
    }
}

void cpu_kv_store_value(struct rf_context *context, int32_t layer, size_t head, size_t pos,
                        const float *value)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    size_t dim = (size_t)context->shape.params->head_dim;
    uint16_t *row = value_at(context, layer, head, pos);
    if (context->shape.kv == RF_KV_F16)
        kernels->f32_to_f16(row, value, dim);
    else
        kernels->f32_to_bf16(row, value, dim);
    memset(row + dim, 0, (context->padded_dim - dim) * sizeof *row);
}

void cpu_kv_get(const struct rf_context *context, int32_t layer, size_t head, size_t pos,
                uint16_t *entry)
{
    size_t dim = (size_t)context->shape.params->head_dim;
    const uint16_t *key = key_at(context, layer, head, pos);
    for (size_t j = 0; j < dim; j++) entry[j] = key[j * RF_KV_BLOCK];
    memcpy(entry + dim, value_at(context, layer, head, pos), context->padded_dim * sizeof *entry);
}

void cpu_kv_put(struct rf_context *context, int32_t layer, size_t head, size_t pos,
                const uint16_t *entry)
{
    size_t dim = (size_t)context->shape.params->head_dim;
    uint16_t *key = key_at(context, layer, head, pos);
    for (size_t j = 0; j < dim; j++) key[j * RF_KV_BLOCK] = entry[j];
    memcpy(value_at(context, layer, head, pos), entry + dim, context->padded_dim * sizeof *entry);
}

uint16_t *cpu_tree_entry(const struct rf_context *context, size_t head, size_t row)
{
    return context->tree_entries + (head * RF_TREE_ROWS + row) * entry_elements(context);
}

void cpu_kv_keep(struct rf_context *context, int32_t first_pos, const int32_t *path, int32_t n)
{
    int32_t moved = 0; /* the first that does */
    while (moved < n && path[moved] == moved) moved++;
    for (int32_t layer = 0; moved < n && layer < context->shape.params->n_layer; layer++)
        for (size_t head = 0; head < (size_t)context->shape.params->n_head_kv; head++)
            for (int32_t i = moved; i < n; i++) {
                uint16_t *entry = cpu_tree_entry(context, head, 0);
                cpu_kv_get(context, layer, head, (size_t)(first_pos + path[i]), entry);
                cpu_kv_put(context, layer, head, (size_t)(first_pos + i), entry);
            }
}

/* A saved cache has the same order, cut to the positions that are there: each chunk's K to the end
 * of a block, V to the last position. The two halves of a chunk's piece, in elements. */
struct piece {
    size_t positions, k, v;
};

static struct piece piece_of(const struct rf_context *context, size_t n, size_t chunk)
{
    size_t left = n - chunk * RF_ATTENTION_CHUNK,
           positions = left < RF_ATTENTION_CHUNK ? left : RF_ATTENTION_CHUNK;
    size_t blocks = (positions + RF_KV_BLOCK - 1) / RF_KV_BLOCK;
    return (struct piece){positions, blocks * RF_KV_BLOCK * (size_t)context->shape.params->head_dim,
                          positions * context->padded_dim};
}

uint64_t cpu_kv_bytes(const struct rf_context *context, int32_t n)
{
    uint64_t elements = 0;
    for (size_t c = 0; c < chunks((size_t)n); c++) {
        struct piece piece = piece_of(context, (size_t)n, c);
        elements += (uint64_t)heads(context) * (piece.k + piece.v);
    }
    return elements * sizeof(uint16_t);
}

/* Clears the positions of the last K block that were not written: no stray memory belongs in a
 * file. */
static void clear_beyond(uint16_t *k, size_t n, size_t dim)
{
    if (n % RF_KV_BLOCK == 0) return;
    uint16_t *block = k + n / RF_KV_BLOCK * RF_KV_BLOCK * dim;
    for (size_t j = 0; j < dim; j++)
        memset(block + j * RF_KV_BLOCK + n % RF_KV_BLOCK, 0,
               (RF_KV_BLOCK - n % RF_KV_BLOCK) * sizeof *block);
}

void cpu_kv_save(const struct rf_context *context, int32_t n, void *out)
{
    uint16_t *to = out;
    for (size_t c = 0; c < chunks((size_t)n); c++) {
        struct piece piece = piece_of(context, (size_t)n, c);
        for (size_t h = 0; h < heads(context); h++, to += piece.k + piece.v) {
            const uint16_t *from = k_cache(context, c, 0, h);
            memcpy(to, from, piece.k * sizeof *to);
            memcpy(to + piece.k, from + context->k_elements, piece.v * sizeof *to);
            clear_beyond(to, piece.positions, (size_t)context->shape.params->head_dim);
        }
    }
}

void cpu_kv_load(struct rf_context *context, int32_t n, const void *in)
{
    const char *from = in;
    for (size_t c = 0; c < chunks((size_t)n); c++) {
        struct piece piece = piece_of(context, (size_t)n, c);
        for (size_t h = 0; h < heads(context);
             h++, from += (piece.k + piece.v) * sizeof(uint16_t)) {
            uint16_t *to = k_cache(context, c, 0, h);
            memcpy(to, from, piece.k * sizeof *to);
            memcpy(to + context->k_elements, from + piece.k * sizeof *to, piece.v * sizeof *to);
        }
    }
}
