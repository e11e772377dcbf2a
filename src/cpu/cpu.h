/* The structures that this room's files share. */
#ifndef RF_CPU_CPU_H
#define RF_CPU_CPU_H

#include "cpu/cpu_backend.h"
#include "microkernels/kernels.h"
#include "platform/team.h"

struct rf_weight {
    int64_t rows, columns;
    /* A matrix: rows of BF16, or panels; from one to the next `ld` elements, or bytes
     * (rf_linear_args). */
    enum rf_format format;
    const void *data; /* NULL: no matrix */
    size_t ld;
    const float *f32;              /* a vector [columns], or NULL */
    const struct rf_tensor *table; /* read from the file row by row, or NULL */
    enum rf_weight_form table_form;
};

/* A matrix from `row` on, a multiple of a panel's rows. */
static inline const void *weight_at(const struct rf_weight *weight, size_t row)
{
    if (weight->format == RF_FORMAT_BF16) return (const uint16_t *)weight->data + row * weight->ld;
    return (const char *)weight->data + row / RF_PANEL_ROWS * weight->ld;
}

static inline size_t weight_row_bytes(const struct rf_weight *weight)
{
    return weight->format == RF_FORMAT_BF16 ? weight->ld * sizeof(uint16_t)
                                            : weight->ld / RF_PANEL_ROWS;
}

struct cpu_backend {
    struct rf_backend base;
    const struct rf_allocator *allocator;
    const struct rf_kernels *kernels;
    struct rf_weight *weights; /* of all requests */
    size_t n_weights;
    void *converted; /* one block for all weights that are not used in place */
};

struct rf_buffer {
    struct rf_buffer *next;
    float *data;                   /* of an F32 buffer */
    void *forms[RF_OPERAND_COUNT]; /* of an operand: its rows as the kernels pack them, in each form
                                      that is wanted */
    size_t row_bytes;              /* of an F32 buffer */
    size_t width;
};

/* The passes over one model's weights on a context: how they are split. */
struct stream {
    struct stream *next;
    const struct rf_backend *readers;
    struct rf_split *split;
};

struct rf_context {
    struct cpu_backend *backend;
    struct rf_context_shape shape;
    struct rf_buffer *buffers;
    struct stream *streams;

    size_t padded_dim;  /* of a head in V and in attention's results */
    uint16_t *kv;       /* [chunk][layer][KV head]: K blocks, then V rows (kv.c) */
    size_t k_elements;  /* K of one chunk, layer and head; V follows */
    size_t kv_elements; /* K and V of one chunk, layer and head */

    float *worker_rows; /* [workers][worker_row_floats] */
    size_t worker_row_floats;

    double *inverse_frequency; /* [rope_dim/2] */
    float *rotations;          /* [max_rows][rope_dim/2][2]: cos, sin */

    /* Attention's partial results and per-worker lists; see attention.c. */
    float *partials;
    float *attended; /* [max_rows][n_head][head_dim] */
    struct attention_scratch *scratch;
    uint16_t *tree_entries; /* [n_head_kv][RF_TREE_ROWS]: of the layer at hand, the rows of a tree
                               (cpu_kv_get) */
};

/* The row that row i follows, or -1. */
static inline int32_t row_parent(const struct rf_rows *rows, int32_t i)
{
    return rows->parents ? rows->parents[i] : i - 1;
}

/* How many rows row i follows: its position is first_pos + this. */
static inline int32_t row_depth(const struct rf_rows *rows, int32_t i)
{
    if (!rows->parents) return i;
    int32_t depth = 0;
    while ((i = rows->parents[i]) >= 0) depth++;
    return depth;
}

static inline float *buffer_row(const struct rf_buffer *buffer, size_t i)
{
    return buffer->data + i * (buffer->row_bytes / sizeof(float));
}

/* Writes row i of an operand. */
static inline void pack_row(const struct rf_context *context, struct rf_buffer *operand, size_t i,
                            const float *x)
{
    for (int form = 0; form < RF_OPERAND_COUNT; form++)
        if (operand->forms[form])
            context->backend->kernels->pack[form](operand->forms[form], i, x, operand->width);
}

/* 1 if rows of an operand can be written in parts: blocks of RF_BLOCK values stand for themselves
 * in 8 and 16 bits, while the order of BF16 rows is the tier's own. */
static inline int has_parts(const struct rf_buffer *operand)
{
    return !operand->forms[RF_OPERAND_BF16];
}

/* Writes the values [first, first + n) of row i of an operand that has parts; both are multiples of
 * RF_BLOCK. */
static inline void pack_part(const struct rf_context *context, struct rf_buffer *operand, size_t i,
                             size_t first, size_t n, const float *x)
{
    const struct rf_kernels *kernels = context->backend->kernels;
    struct rf_a8 *a8 = operand->forms[RF_OPERAND_A8];
    uint16_t *a16 = operand->forms[RF_OPERAND_A16];
    if (a8)
        kernels->pack[RF_OPERAND_A8](a8 + i * rf_a8_stride(operand->width) + first / RF_BLOCK, 0, x,
                                     n);
    if (a16)
        kernels->pack[RF_OPERAND_A16](a16 + i * rf_a16_stride(operand->width) + first, 0, x, n);
}

/* K and V of one layer and KV head over the chunk of positions from chunk * RF_ATTENTION_CHUNK on.
 */
static inline uint16_t *k_cache(const struct rf_context *context, size_t chunk, int32_t layer,
                                size_t head)
{
    const struct rf_params *params = context->shape.params;
    size_t index =
        (chunk * (size_t)params->n_layer + (size_t)layer) * (size_t)params->n_head_kv + head;
    return context->kv + index * context->kv_elements;
}

static inline uint16_t *v_cache(const struct rf_context *context, size_t chunk, int32_t layer,
                                size_t head)
{
    return k_cache(context, chunk, layer, head) + context->k_elements;
}

/* How `total` weight rows of (at most) row_bytes each are shared and taken: a prompt's rows of
 * activations are taken past one piece of weights after another, few rows let the weights stream by
 * at length. Both sizes are multiples of a panel's rows. */
struct cpu_pieces {
    size_t grain; /* rows that are shared at a time */
    size_t call;  /* rows that a kernel gets at a time, at most */
};
struct cpu_pieces cpu_pieces(const struct rf_kernels *kernels, int any_bf16, size_t row_bytes,
                             size_t total, int workers, size_t n_rows);

/* weights.c */
int cpu_weights_load(struct rf_backend *backend, const struct rf_weight_request *requests,
                     int32_t n_requests, struct rf_team *team, rf_load_progress progress,
                     void *user, struct rf_error *error);

/* kv.c */
int cpu_kv_new(struct rf_context *context, struct rf_error *error);
void cpu_kv_free(struct rf_context *context);
uint64_t cpu_kv_bytes(const struct rf_context *context, int32_t n);
void cpu_kv_save(const struct rf_context *context, int32_t n, void *out);
void cpu_kv_load(struct rf_context *context, int32_t n, const void *in);
void cpu_kv_keep(struct rf_context *context, int32_t first_pos, const int32_t *path, int32_t n);
/* Writes one head's key or value (F32) at a position. */
void cpu_kv_store_key(struct rf_context *context, int32_t layer, size_t head, size_t pos,
                      const float *key);
void cpu_kv_store_value(struct rf_context *context, int32_t layer, size_t head, size_t pos,
                        const float *value);
/* Copies one head's entry at a position: the key [head_dim] and the value [padded_dim], in the
 * cache's type. */
void cpu_kv_get(const struct rf_context *context, int32_t layer, size_t head, size_t pos,
                uint16_t *entry);
void cpu_kv_put(struct rf_context *context, int32_t layer, size_t head, size_t pos,
                const uint16_t *entry);
/* Where rope_store leaves the entry of a tree's row for attention. */
uint16_t *cpu_tree_entry(const struct rf_context *context, size_t head, size_t row);

/* attention.c */
int cpu_attention_new(struct rf_context *context, struct rf_error *error);
void cpu_attention_free(struct rf_context *context);
void cpu_attention(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                   struct rf_rows rows, const struct rf_buffer *q, struct rf_buffer *out);

#endif
