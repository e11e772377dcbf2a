/* The structures and functions that the files of the cores' backend share. Each structure begins
 * with the base that infer/backend.h gives it. The files form layers, and call only downwards:
 * backend; view; operations, convolution, delta, gated, answer, attention, experts, heads; linear,
 * pool, weights; those of caches (cache.h); activations. */
#ifndef RF_CPU_CPU_H
#define RF_CPU_CPU_H

#include "cpu/cache.h"
#include "cpu/cpu_backend.h"
#include "infer/backend.h"
#include "microkernels/kernels.h"
#include "platform/lock.h"
#include "platform/team.h"

struct rf_weight {
    struct rf_weight_plan plan;
    const void *data; /* a matrix: rows of BF16, or panels; NULL: no matrix, or it lies in a pool */
    size_t ld;        /* a matrix's rf_linear_args.ldw: elements of a row, or bytes of a panel */
    /* [plan.n_experts] matrices; NULL for an expert without a place in its pool. The array is NULL
     * for every role but RF_WEIGHT_EXPERTS and RF_WEIGHT_HEADS. */
    const void **experts;
    const float *f32; /* a vector [plan.rows][plan.columns], or NULL */
};

/* Bytes from a matrix's beginning to `row`, a multiple of a panel's rows. */
static inline size_t weight_offset(const struct rf_weight *weight, size_t row)
{
    return row / weight->plan.strip_rows * weight->plan.strip_bytes;
}

static inline size_t weight_row_bytes(const struct rf_weight *weight)
{
    return weight->plan.strip_bytes / weight->plan.strip_rows;
}

struct cpu_backend {
    struct rf_backend base;
    const struct rf_kernels *kernels;
};

struct cpu_queue {
    struct rf_queue base;
    struct rf_team *team;
    struct rf_lock turn;             /* held by the one who uses the team */
    struct rf_split *own;            /* measured by queue_calibrate, or NULL */
    const struct rf_split *measured; /* views begin with it: `own`, or another queue's, or NULL */
};

struct cpu_weights {
    struct rf_weights base;
    struct rf_weight *tensors; /* [n_tensors], in the order of the plans */
    size_t n_tensors;
    const void **experts;  /* matrices of all tensors' experts */
    struct cpu_pool *pool; /* holds the experts; NULL: all are in memory or in the file */
    size_t scratch_bytes;  /* memory that a worker needs to pack one of the pool's panels */
    void *packed;          /* one block for all that is packed at load */
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

/* ---- views ---- */

/* Forms of an operand: the kernels', and three parts in BF16 for matrices that are split. */
enum { CPU_SPLIT = RF_OPERAND_COUNT, CPU_FORMS };

struct cpu_buffer {
    float *data;            /* rows in F32, or NULL */
    void *forms[CPU_FORMS]; /* an operand's rows as the kernels pack them, in each form that
                               some matrix takes */
    size_t row_bytes;       /* distance of the rows of `data` */
    size_t width;
    int by_expert; /* has a row for each expert of each row of the pass (experts.c) */
    int by_head;   /* an operand of single heads' matrices (heads.c) */
};

/* A row of the current pass. */
struct cpu_row {
    int32_t token, position;
    int32_t slot;  /* slot of its cache */
    int32_t group; /* number of the row's sequence in the pass */
};

/* The rows of one sequence in the pass at hand. A branch ends with a row that none follows, and has
 * the rows of its path that no earlier branch has. Rows without parents are one branch. */
struct cpu_group {
    const struct rf_rows *rows;
    struct cpu_cache *cache;
    size_t first;             /* number of its first row in the pass */
    size_t chunks;            /* chunks of positions that some row sees */
    size_t n_groups;          /* groups of its cache that are quantised after the pass */
    size_t parts;             /* parts that its rows are cut into */
    size_t parted;            /* its rows, or their queries where these are cut (attention.c) */
    size_t first_item;        /* number of its first item of attention in the pass (attention.c) */
    size_t partials;          /* first float of its partial results */
    const int32_t *order;     /* [rows->n] rows of the group, branch by branch */
    const size_t *branch_end; /* end of each branch in `order` */
    size_t replayed;          /* rows of the log that the delta rule goes through first */
    size_t mixed_first;       /* number of the first of them, and then its own, in cpu_view.mixed */
};

/* A row of a tree under the delta rule: the slots that its matrices come from and go to. */
struct cpu_state_slots {
    int32_t from, to; /* to is -1: no row goes on from them */
};

/* An expert, and the rows that chose it, which lie one behind the other in buffers by expert. */
struct cpu_expert {
    size_t number;
    size_t first, n; /* rows */
};

/* A row's expert. */
struct cpu_choice {
    int32_t expert;
    float value; /* the router's result; then the share */
    size_t row;  /* row of buffers by expert */
};

/* A row of buffers by expert. */
struct cpu_expert_row {
    size_t row;   /* row of the pass */
    size_t group; /* number of its expert among the chosen ones */
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
    int is_ready;            /* the first pass has made the memory below */
    struct cpu_owned *owned; /* list of that memory */
    struct cpu_buffer buffers[RF_MAX_SLOTS];
    rf_linear_fn *linear[RF_FORMAT_COUNT];
    enum rf_operand operand[RF_FORMAT_COUNT]; /* form that linear[] takes */

    float *worker_rows; /* [workers][worker_row_floats] */
    size_t worker_row_floats;
    float *split_rows; /* [max_rows][split_row_floats] operands in three parts; NULL: none is */
    size_t split_row_floats;
    double *frequencies;           /* [RF_ROPE_SETS][rope_dim/2] */
    float *rotations;              /* [max_rows][2][rope_dim/2][2]: cos, sin; global, then local */
    struct cpu_answer_part *parts; /* answer.c */

    /* attention.c */
    size_t chunk; /* positions of one call of a kernel */
    float *partials;
    size_t n_partials; /* floats */
    float *attended;   /* [max_rows][n_head][rf_most_head_dim] */
    struct attention_scratch *scratch;
    uint16_t *tree_entries; /* [n_head_kv][RF_TREE_ROWS] entries of a tree's rows, of one layer */

    /* delta.c */
    float *mixed; /* [most_mixed][rf_delta_mixed] q, k and v of the rows to go through, of n_mixed
                     in this pass */
    size_t n_mixed, most_mixed;
    struct cpu_state_slots *state_slots; /* [max_rows], of trees alone */
    float *state_scratch;                /* [workers][RF_TREE_ROWS + 1][piece of a matrix] */
    float *ones;                         /* [elements of a head] */

    /* experts.c, for the current layer */
    struct cpu_choice *choices;         /* [max_rows][n_expert_used], greatest share first */
    struct cpu_expert *experts;         /* [n_experts] chosen ones, ascending */
    struct cpu_expert_row *expert_rows; /* [n_expert_rows] */
    size_t *expert_counts;              /* [n_expert] */
    size_t n_experts, n_expert_rows;
    size_t *missing; /* [n_missing] experts that are to be packed into the pool */
    size_t n_missing;
    char *scratch_of_pool; /* [workers][cpu_weights.scratch_bytes] */

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
 * independent; in A8_ROW the greatest value of all counts. */
static inline int has_parts(const struct cpu_buffer *operand)
{
    return !operand->forms[RF_OPERAND_BF16] && !operand->forms[RF_OPERAND_A16_SUPER] &&
           !operand->forms[RF_OPERAND_A8_ROW] && !operand->forms[CPU_SPLIT];
}

/* The form that a matrix takes its operand in. */
static inline int cpu_form_of(const struct cpu_view *view, const struct rf_weight *weight)
{
    return weight->plan.is_split ? CPU_SPLIT : (int)view->operand[weight->plan.format];
}

/* Rows that a buffer has in the pass. */
static inline size_t buffer_rows(const struct cpu_view *view, const struct cpu_buffer *buffer)
{
    return buffer->by_expert ? view->n_expert_rows : view->n_rows;
}

/* 1 for rows of the second token type. */
static inline int cpu_is_second_type(const struct cpu_view *view, size_t row)
{
    const struct rf_rows *rows = view->groups[view->rows[row].group].rows;
    return rows->n_first && view->rows[row].slot - rows->first_pos >= rows->n_first;
}

/* Rows that a worker takes at a time. */
static inline size_t rows_grain(size_t n_rows)
{
    return n_rows <= RF_FEW_ROWS ? 1 : 4;
}

int rf_cpu_view_new(struct rf_view **view, struct rf_queue *queue,
                    const struct rf_view_shape *shape, struct rf_error *error);
void rf_cpu_view_free(struct rf_view *view);
int rf_cpu_submit(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);

/* ---- activations.c ---- */

/* Memory that lives until rf_cpu_view_release. */
void *rf_cpu_view_alloc(struct cpu_view *view, size_t count, size_t size, struct rf_error *error);
void rf_cpu_view_release(struct cpu_view *view);
/* Writes the values [first, first + n) of row i of an operand: all of them, or a part if the
 * operand has parts. Both are then multiples of RF_BLOCK. */
void rf_cpu_pack(const struct cpu_view *view, struct cpu_buffer *operand, size_t i, size_t first,
                 size_t n, const float *x);
/* Writes one head's part of row i of an operand by head. Bytes of a head's rows in one form. */
void rf_cpu_pack_head(const struct cpu_view *view, struct cpu_buffer *operand, size_t i,
                      size_t head, const float *x);
size_t rf_cpu_head_bytes(const struct cpu_view *view, enum rf_operand form, size_t width);
/* Bytes of the operand of all experts' rows in one form; the place of the first row of a group's
 * expert in it. An expert's rows are packed as one call of a kernel reads them. */
size_t rf_cpu_expert_operand_bytes(const struct cpu_view *view, enum rf_operand form, size_t rows,
                                   size_t width);
size_t rf_cpu_expert_operand_at(const struct cpu_view *view, enum rf_operand form, size_t group,
                                size_t width);

/* ---- operations ----
 *
 * All workers of a pass call each of these. `n`: rows of the operation's input. */

/* linear.c */
/* How `total` weight rows of at most row_bytes each are shared and computed. All rows of a prompt
 * are computed with one piece of weights after another; with few rows, weights are read in long
 * streams. Both sizes are multiples of a panel's rows. */
struct cpu_pieces {
    size_t grain; /* rows that are shared at a time */
    size_t call;  /* rows that a kernel gets at a time, at most */
};
struct cpu_pieces rf_cpu_pieces(const struct rf_kernels *kernels, int any_bf16, size_t row_bytes,
                                size_t total, int workers, size_t n_rows);
/* The weight rows of an operation's layers, each layer's padded to whole panels so that the next
 * begins with one. */
struct cpu_op_rows {
    size_t total;
    size_t row_bytes; /* the longest row's */
    int any_bf16;
};
struct cpu_op_rows rf_cpu_op_rows(const struct rf_op *op);
void rf_cpu_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                   size_t n);

/* operations.c */
void rf_cpu_embed(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
/* The first n rows, or picked[n]. */
void rf_cpu_norm(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                 const int32_t *picked, size_t n);
void rf_cpu_rope_store(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_ungated(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op,
                 rf_gate_fn *kernel);
void rf_cpu_copy(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_layer_inputs(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_scale(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_add(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_add_share(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_cap(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op, size_t n);

/* convolution.c */
void rf_cpu_short_conv(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);

/* delta.c. rf_cpu_delta_new: memory, if the model has such layers. rf_cpu_delta_prepare: prepares a
 * pass, after its caches. */
int rf_cpu_delta_new(struct cpu_view *view, struct rf_error *error);
int rf_cpu_delta_prepare(struct cpu_view *view, struct rf_error *error);
void rf_cpu_delta(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);

/* gated.c */
void rf_cpu_norm_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_gate_norm(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_split_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_sigmoid_gate(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);

/* experts.c. rf_cpu_experts_new: memory for the choices, if the model has experts. */
int rf_cpu_experts_new(struct cpu_view *view, struct rf_error *error);
void rf_cpu_choose_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_expert_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_sum_experts(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);

/* heads.c */
void rf_cpu_split_heads(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
void rf_cpu_head_linear(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);

/* attention.c */
int rf_cpu_attention_new(struct cpu_view *view, struct rf_error *error);
/* Prepares a pass: finds its branches, and memory for its partial results. */
int rf_cpu_attention_prepare(struct cpu_view *view, struct rf_error *error);
void rf_cpu_attention(struct cpu_view *view, struct rf_worker *worker, const struct rf_op *op);
/* The entry of a tree's row, which rope_store writes and attention reads. */
uint16_t *rf_cpu_tree_entry(const struct cpu_view *view, size_t head, size_t row);

/* answer.c: makes the answers to the wanted rows [first, first + n) from their logits. */
int rf_cpu_answer_new(struct cpu_view *view, struct rf_error *error);
void rf_cpu_answer(struct cpu_view *view, struct rf_worker *worker, size_t first, size_t n);

/* ---- weights.c ---- */

int rf_cpu_weights_new(struct rf_weights **weights, struct rf_queue *queue,
                       const struct rf_weight_plan *plans, int32_t n_plans,
                       rf_load_progress progress, void *user, struct rf_error *error);
void rf_cpu_weights_free(struct rf_weights *weights);
struct rf_weight_bytes rf_cpu_weight_bytes(const struct rf_weight_plan *plan);

#endif
