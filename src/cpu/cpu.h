/* The structures that the files of the cores' backend share. Each begins with the base that
 * infer/backend.h gives it. */
#ifndef RF_CPU_CPU_H
#define RF_CPU_CPU_H

#include "cpu/cpu_backend.h"
#include "infer/backend.h"
#include "microkernels/kernels.h"
#include "platform/lock.h"
#include "platform/team.h"

_Static_assert((int)RF_KV_POSITIONS == (int)RF_ATTENTION_CHUNK,
               "a block of the cache is a chunk of attention");
_Static_assert((int)RF_KV_RECENT == (int)RF_KV_GROUP, "what is quantised together");

struct rf_weight {
    int64_t rows, columns;
    /* A matrix: rows of BF16, or panels; from one to the next `ld` elements, or bytes
     * (rf_linear_args). */
    enum rf_format format;
    const void *data; /* NULL: no matrix */
    size_t ld;
    /* A matrix of this shape for each expert; NULL: no experts. In a pool those that have no place
     * are NULL, and `data` is NULL. */
    const void **experts;
    struct rf_weight_request request; /* of experts in a pool: what they are packed from */
    const float *f32;                 /* a vector [columns], or NULL */
    const struct rf_tensor *table;    /* read from the file row by row, or NULL */
    enum rf_weight_form table_form;
};

/* Bytes from a matrix's beginning to `row`, a multiple of a panel's rows. */
static inline size_t weight_offset(const struct rf_weight *weight, size_t row)
{
    return weight->format == RF_FORMAT_BF16 ? row * weight->ld * sizeof(uint16_t)
                                            : row / RF_PANEL_ROWS * weight->ld;
}

static inline const void *weight_at(const struct rf_weight *weight, size_t row)
{
    return (const char *)weight->data + weight_offset(weight, row);
}

static inline size_t weight_row_bytes(const struct rf_weight *weight)
{
    return weight->format == RF_FORMAT_BF16 ? weight->ld * sizeof(uint16_t)
                                            : weight->ld / RF_PANEL_ROWS;
}

struct cpu_backend {
    struct rf_backend base;
    const struct rf_kernels *kernels;
};

struct cpu_queue {
    struct rf_queue base;
    struct rf_team *team;
    struct rf_lock turn;             /* of the one who uses the team */
    struct rf_split *own;            /* measured by queue_calibrate, or NULL */
    const struct rf_split *measured; /* that views begin with: `own`, or another queue's, or NULL */
};

struct cpu_weights {
    struct rf_weights base;
    struct rf_weight *tensors; /* of all requests */
    size_t n_tensors;
    const void **experts;  /* of all tensors */
    struct cpu_pool *pool; /* for the experts; NULL: all are in memory or in the file */
    size_t blocks_bytes;   /* that a worker needs to pack one of its panels */
    void *converted;       /* one block for all that is not used in place */
};

/* The items of a share (platform/team.h) one by one, and then a barrier. Their cost is not
 * measured. */
struct cpu_items {
    struct rf_share share;
    size_t next, end;
};

static inline struct cpu_items cpu_items(struct rf_worker *worker, size_t n, size_t grain)
{
    struct cpu_items items = {0};
    rf_share_begin(&items.share, worker, n, grain, 0.0);
    return items;
}

static inline int cpu_items_next(struct cpu_items *items, size_t *item)
{
    int more = items->next < items->end || rf_share_next(&items->share, &items->next, &items->end);
    if (more)
        *item = items->next++;
    else
        rf_team_barrier(items->share.worker);
    return more;
}

static inline const struct rf_kernels *kernels_of(const struct rf_backend *backend)
{
    return ((const struct cpu_backend *)backend)->kernels;
}

/* ---- cache.c ---- */

/* RF_KV_POSITIONS positions in 16 bits, [layer][KV head]: K in blocks of 16 positions, then V rows;
 * or RF_KV_GROUP positions quantised, [layer][KV head] upper planes, then the lower ones. */
struct cpu_block {
    atomic_int holders; /* caches */
    void *data;
    struct cpu_slab *slab; /* that the data is part of, or NULL */
};

/* Memory of several groups, so large that it lies in huge pages: every layer reads a few KiB of
 * each group, which are on pages of their own otherwise. */
struct cpu_slab {
    atomic_int holders; /* blocks, and the cache that takes new ones from it */
    char *data;
    size_t used, n; /* blocks */
};

struct cpu_cache {
    struct rf_cache base;
    /* [n_ctx / RF_KV_POSITIONS, rounded up]; NULL: never written, or only quantised */
    struct cpu_block **blocks;
    struct cpu_block **groups; /* [n_ctx / RF_KV_GROUP] quantised ones, or NULL */
    size_t n_groups;           /* that hold what the blocks held */
    struct cpu_slab *slab;     /* for the next groups, or NULL */
    size_t upper, lower;       /* bytes of one head's planes of a group */
    size_t padded_dim;         /* of a head in V */
    size_t k_elements;         /* K of one block, layer and head; V follows */
    size_t kv_elements;        /* K and V of one block, layer and head */
};

static inline size_t cpu_chunks(size_t positions)
{
    return (positions + RF_KV_POSITIONS - 1) / RF_KV_POSITIONS;
}

/* K and V of one layer and KV head over the positions from chunk * RF_KV_POSITIONS on. */
static inline uint16_t *k_cache(const struct cpu_cache *cache, size_t chunk, int32_t layer,
                                size_t head)
{
    size_t index = (size_t)layer * (size_t)cache->base.shape.params->n_head_kv + head;
    return (uint16_t *)cache->blocks[chunk]->data + index * cache->kv_elements;
}

static inline uint16_t *v_cache(const struct cpu_cache *cache, size_t chunk, int32_t layer,
                                size_t head)
{
    return k_cache(cache, chunk, layer, head) + cache->k_elements;
}

int rf_cpu_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                     const struct rf_cache_shape *shape, struct rf_error *error);
int rf_cpu_cache_fork(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                      struct rf_error *error);
void rf_cpu_cache_free(struct rf_cache *cache);
void rf_cpu_cache_trim(struct rf_cache *cache, int32_t n);
void rf_cpu_cache_settle(struct rf_cache *cache, int32_t n);
int32_t rf_cpu_cache_resume(const struct rf_cache *cache, int32_t n);
uint64_t rf_cpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx);
int rf_cpu_cache_keep(struct rf_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                      struct rf_error *error);
uint64_t rf_cpu_cache_size(const struct rf_cache *cache, int32_t n);
uint64_t rf_cpu_cache_held(const struct rf_cache *cache);
int rf_cpu_cache_save(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error);
int rf_cpu_cache_load(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error);
/* Before a pass over the positions [first, first + n): makes their blocks the cache's own, with
 * what they hold of the positions before, and new groups [n_groups, *n_groups_after) for what its
 * last rows read quantised. The pass quantises them; then they count. */
int rf_cpu_cache_prepare(struct cpu_cache *cache, size_t first, size_t n, size_t *n_groups_after,
                         struct rf_error *error);
/* Quantises one head's group. */
void rf_cpu_cache_quantise(struct cpu_cache *cache, int32_t layer, size_t head, size_t group);
/* One head's planes of a group: of 8 bits, or the upper one alone. */
struct rf_kv_group rf_cpu_cache_group(const struct cpu_cache *cache, int32_t layer, size_t head,
                                      size_t group, enum rf_kv_type as);
/* Writes one head's key and value (F32) at a position. */
void rf_cpu_cache_store(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                        const float *key, const float *value);
/* Elements of one head's entry: the key [head_dim], the value [padded_dim]. And copying one. */
size_t rf_cpu_entry_elements(const struct rf_params *params);
void rf_cpu_cache_get(const struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      uint16_t *entry);
void rf_cpu_cache_put(struct cpu_cache *cache, int32_t layer, size_t head, size_t pos,
                      const uint16_t *entry);

/* ---- view.c ---- */

struct cpu_buffer {
    float *data;                   /* of an F32 buffer */
    void *forms[RF_OPERAND_COUNT]; /* of an operand: its rows as the kernels pack them, in each form
                                      that is wanted */
    size_t row_bytes;              /* of an F32 buffer */
    size_t width;
    int by_expert; /* rows are those of the experts (experts.c) */
};

/* A row of the current pass. */
struct cpu_row {
    int32_t token, position;
    int32_t slot;  /* of its cache */
    int32_t group; /* which of the pass */
};

/* The rows of one sequence in the pass at hand. Branch by branch: a branch ends with a row that
 * none follows, and has those rows of its path that no branch before it has. Rows without parents
 * are one branch. */
struct cpu_group {
    const struct rf_rows *rows;
    struct cpu_cache *cache;
    size_t first;             /* of its rows among those of the pass */
    size_t chunks;            /* of positions that some row sees */
    size_t n_groups;          /* that are quantised after the pass */
    size_t parts;             /* that its rows are cut into */
    size_t first_item;        /* of its heads and chunks among those of the pass (attention.c) */
    size_t partials;          /* where its partial results begin, in floats */
    const int32_t *order;     /* [rows->n] its rows, branch by branch */
    const size_t *branch_end; /* of each branch, in `order` */
};

/* The rows that chose an expert, one behind the other among the rows of buffers by expert. */
struct cpu_expert {
    size_t number;
    size_t first, n; /* rows */
};

/* A row's expert. */
struct cpu_choice {
    int32_t expert;
    float value; /* of the router; then the share */
    size_t row;  /* of buffers by expert */
};

/* A row of buffers by expert. */
struct cpu_expert_row {
    size_t row;   /* of the pass */
    size_t group; /* its expert, of those that are chosen */
};

struct cpu_owned {
    struct cpu_owned *next;
    void *memory;
};

struct cpu_view {
    struct rf_view base;
    struct cpu_queue *queue;
    const struct rf_kernels *kernels;
    const struct rf_params *params;
    struct rf_split *split;
    int is_ready;            /* the first pass has made what follows */
    struct cpu_owned *owned; /* its memory */
    struct cpu_buffer buffers[RF_MAX_SLOTS];
    rf_linear_fn *linear[RF_FORMAT_COUNT];
    enum rf_operand operand[RF_FORMAT_COUNT]; /* that linear[] takes */

    float *worker_rows; /* [workers][worker_row_floats] */
    size_t worker_row_floats;
    double *frequencies;           /* [RF_ROPE_SETS][rope_dim/2] */
    float *rotations;              /* [max_rows][2][rope_dim/2][2]: cos, sin; global, then local */
    struct cpu_answer_part *parts; /* answer.c */

    /* attention.c */
    size_t padded_dim; /* of a head in V and in attention's results */
    size_t chunk;      /* positions of one call of a kernel */
    float *partials;
    size_t n_partials; /* floats */
    float *attended;   /* [max_rows][n_head][head_dim] */
    struct attention_scratch *scratch;
    uint16_t *tree_entries; /* [n_head_kv][RF_TREE_ROWS]: of the current layer, a tree's rows */

    /* experts.c, of the current layer */
    struct cpu_choice *choices;         /* [max_rows][n_expert_used], greatest share first */
    struct cpu_expert *experts;         /* [n_experts] that are chosen, ascending */
    struct cpu_expert_row *expert_rows; /* [n_expert_rows] */
    size_t *expert_counts;              /* [n_expert] */
    size_t n_experts, n_expert_rows;
    size_t *missing; /* [n_missing] experts that the pool has to pack */
    size_t n_missing;
    uint8_t *blocks; /* [workers][cpu_weights.blocks_bytes] */

    /* The pass at hand. */
    const struct rf_pass *pass;
    size_t n_rows, n_items;
    int has_trees, stopped;
    struct cpu_row *rows;     /* [max_rows] */
    struct cpu_group *groups; /* [max_rows] */
    int32_t *order;           /* [max_rows] */
    size_t *branch_ends;      /* [max_rows] */
};

static inline float *buffer_row(const struct cpu_buffer *buffer, size_t i)
{
    return buffer->data + i * (buffer->row_bytes / sizeof(float));
}

/* 1 if rows of an operand can be written in parts: in A8 and A16 blocks of RF_BLOCK values are
 * independent. */
static inline int has_parts(const struct cpu_buffer *operand)
{
    return !operand->forms[RF_OPERAND_BF16] && !operand->forms[RF_OPERAND_A16_SUPER];
}

/* activations.c: memory that lives until rf_cpu_view_release. */
void *rf_cpu_view_alloc(struct cpu_view *view, size_t count, size_t size, struct rf_error *error);
void rf_cpu_view_release(struct cpu_view *view);
/* Writes the values [first, first + n) of row i of an operand: all of them, or a part if the
 * operand has parts. Both are then multiples of RF_BLOCK. */
void rf_cpu_pack(const struct cpu_view *view, struct cpu_buffer *operand, size_t i, size_t first,
                 size_t n, const float *x);

int rf_cpu_view_new(struct rf_view **view, struct rf_queue *queue,
                    const struct rf_view_shape *shape, struct rf_error *error);
void rf_cpu_view_free(struct rf_view *view);
int rf_cpu_submit(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);

/* The rows that a buffer has in the pass. */
static inline size_t buffer_rows(const struct cpu_view *view, const struct cpu_buffer *buffer)
{
    return buffer->by_expert ? view->n_expert_rows : view->n_rows;
}

/* Rows that a worker takes at a time. */
static inline size_t rows_grain(size_t n_rows)
{
    return n_rows <= RF_FEW_ROWS ? 1 : 4;
}

/* How `total` weight rows of at most row_bytes each are shared and computed. All rows of a prompt
 * are computed with one piece of weights after another; with few rows, weights are read in long
 * streams. Both sizes are multiples of a panel's rows. */
struct cpu_pieces {
    size_t grain; /* rows that are shared at a time */
    size_t call;  /* rows that a kernel gets at a time, at most */
};
struct cpu_pieces rf_cpu_pieces(const struct rf_kernels *kernels, int any_bf16, size_t row_bytes,
                                size_t total, int workers, size_t n_rows);

/* ---- experts.c ---- */

/* Memory for the choices, if the model has experts. */
int rf_cpu_experts_new(struct cpu_view *view, struct rf_error *error);
/* Bytes of the operand of all experts' rows in one form; where those of an expert begin. An
 * expert's rows are packed as one call of a kernel reads them. */
size_t rf_cpu_expert_operand_bytes(const struct cpu_view *view, enum rf_operand form, size_t rows,
                                   size_t width);
size_t rf_cpu_expert_operand_at(const struct cpu_view *view, enum rf_operand form, size_t group,
                                size_t width);
void rf_cpu_choose_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_expert_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_sum_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);

/* ---- the others ---- */

/* weights.c */
int rf_cpu_weights_new(struct rf_weights **weights, struct rf_queue *queue,
                       const struct rf_weight_request *requests, int32_t n_requests,
                       rf_load_progress progress, void *user, struct rf_error *error);
void rf_cpu_weights_free(struct rf_weights *weights);
/* Packs a panel of an expert in a pool to its place. */
void rf_cpu_pack_panel(const struct cpu_view *view, const struct rf_worker *worker,
                       const struct rf_weight *weight, size_t expert, size_t panel);
struct rf_weight_bytes rf_cpu_weight_bytes(const struct rf_weight_request *request);
enum rf_format rf_cpu_weight_is_in(enum rf_dtype dtype, enum rf_weight_form form);
const char *rf_cpu_weight_format(enum rf_dtype dtype, enum rf_weight_form form);

/* answer.c: the answers to the wanted rows [first, first + n) from their logits, by all workers. */
int rf_cpu_answer_new(struct cpu_view *view, struct rf_error *error);
void rf_cpu_answer(struct cpu_view *view, struct rf_worker *worker, size_t first, size_t n);

/* attention.c */
int rf_cpu_attention_new(struct cpu_view *view, struct rf_error *error);
/* Before a pass: finds its branches, and memory for its partial results. */
int rf_cpu_attention_prepare(struct cpu_view *view, struct rf_error *error);
void rf_cpu_attention(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
/* Where rope_store puts the entry of a tree's row for attention. */
uint16_t *rf_cpu_tree_entry(const struct cpu_view *view, size_t head, size_t row);

#endif
