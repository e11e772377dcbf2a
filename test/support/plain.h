/* The structures and functions that the files of the plain backend share. */
#ifndef RF_TEST_PLAIN_H
#define RF_TEST_PLAIN_H

#include <math.h>

#include "base/half.h"
#include "support/plain_backend.h"
#include "support/plain_memory.h"

struct plain_backend {
    struct rf_backend base;
    struct plain_memory *memory;
};

struct plain_queue {
    struct rf_queue base;
    struct plain_view *pending; /* whose pass is submitted and not done */
};

struct rf_weight {
    size_t rows, columns;
    int is_split;       /* takes its input rows as they are */
    int is_quantised;   /* a matrix whose operands are rounded to 8 bits in RF_PRECISION_FORMAT */
    int has_whole_rows; /* its operands are rounded to 8 bits as whole rows, in every precision */
    float *values;      /* a matrix: [columns][rows]; a table or a vector: [rows][columns] */
};

struct plain_weights {
    struct rf_weights base;
    struct rf_weight *tensors;
    int32_t n;
};

/* 256 positions: [layer][position] of an entry. In a layer with keys and values that is [KV head]
 * of a key and a value [head_dim], rounded to 16 bits; in one with a state what the row leaves in
 * the log (infer/state_kept.h), and with the delta rule the matrices after it and a mark: 1 if they
 * are there. */
struct block {
    int32_t holders; /* caches */
    float *data;
};

struct plain_cache {
    struct rf_cache base;
    struct block **blocks; /* [n_ctx / 256, rounded up]; NULL: never written */
    int32_t first_row;     /* rows of convolutions before it are missing, as from a loaded cache */
    int32_t first_seen;    /* likewise of layers with a window */
    struct plain_view *pending; /* whose submitted pass uses it */
};

/* A row of the pass at hand. */
struct row {
    int32_t token, position, slot;
    int32_t parent; /* the row of the pass that it follows, or -1: the text */
    const struct rf_rows *group;
};

struct plain_choice {
    int32_t expert;
    double share;
};

struct plain_view {
    struct rf_view base;
    struct plain_queue *queue;
    const struct rf_params *params;
    float *slots[RF_MAX_SLOTS];        /* on the device */
    float *logits, *taps[RF_MAX_TAPS]; /* copies that the host sees */
    double *turns;                     /* [max_rows][2][rope_dim / 2][2]: cos, sin; global, local */
    double *sums;                      /* sums of a linear layer's outputs */
    float *rounded;                    /* an operand */
    double *scores;                    /* [n_scores] of a row's attention */
    const float **entries;             /* [n_scores] entries that the row sees */
    size_t n_scores;
    struct plain_choice *choices; /* [max_rows][n_expert_used], greatest share first */

    struct rf_pass pass; /* the last one submitted */
    int is_pending;      /* it is not done */
    int code;            /* how it ended, with its error */
    struct rf_error error;
    int32_t n_rows;
    struct row *rows; /* [max_rows] */
};

/* Counts a call that can fail. */
int plain_fails(const char *what, struct rf_error *error);

static inline struct plain_memory *plain_memory_of(const struct rf_backend *backend)
{
    return ((const struct plain_backend *)backend)->memory;
}

/* Everything that touches the device's memory stands between these two. */
static inline void begin_work(const struct rf_backend *backend)
{
    plain_memory_open(plain_memory_of(backend));
}

static inline void end_work(const struct rf_backend *backend)
{
    plain_memory_close(plain_memory_of(backend));
}

static inline float round_bf16(float x)
{
    return rf_bf16_to_f32(rf_f32_to_bf16(x));
}

/* ---- plain_weights.c ---- */

int plain_weights_new(struct rf_weights **weights, struct rf_queue *queue,
                      const struct rf_weight_plan *plans, int32_t n_plans,
                      rf_load_progress progress, void *user, struct rf_error *error);
void plain_weights_free(struct rf_weights *weights);
struct rf_weight_bytes plain_weight_bytes(const struct rf_weight_plan *plan);

/* ---- plain_cache.c ---- */

/* The matrices after a position's row in a layer with the delta rule, and their mark. */
float *plain_matrices(const struct plain_cache *cache, int32_t layer, int32_t pos);
float *plain_matrices_mark(const struct plain_cache *cache, int32_t layer, int32_t pos);

int plain_cache_new(struct rf_cache **cache, struct rf_backend *backend,
                    const struct rf_cache_shape *shape, struct rf_error *error);
int plain_cache_fork(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                     struct rf_error *error);
void plain_cache_free(struct rf_cache *cache);
void plain_cache_trim(struct rf_cache *cache, int32_t n);
void plain_cache_settle(struct rf_cache *cache, int32_t n);
int32_t plain_cache_resume(const struct rf_cache *cache, int32_t n);
int plain_cache_can_save(const struct rf_cache *cache, int32_t n);
int plain_cache_keep(struct rf_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                     struct rf_error *error);
uint64_t plain_cache_bytes(const struct rf_cache *cache, int32_t n);
uint64_t plain_cache_held(const struct rf_cache *cache);
int plain_cache_save(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error);
int plain_cache_load(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error);

/* The rest while the device works. The entry of a position: [KV head][2][head_dim], or a
 * convolution's row. */
float *plain_entry(const struct plain_cache *cache, size_t layer, int32_t pos);
/* A value as 16 bits hold it. */
float plain_round_entry(const struct plain_cache *cache, float x);
/* Makes the blocks of the positions [first, end) the cache's own. */
int plain_own_positions(struct plain_cache *cache, int32_t first, int32_t end,
                        struct rf_error *error);
/* Overwrites the positions [first, end), which are undefined now. Shared blocks are not this
 * cache's to change. */
void plain_ruin_positions(struct plain_cache *cache, int32_t first, int32_t end);

/* ---- plain_view.c ---- */

int plain_view_new(struct rf_view **view, struct rf_queue *queue, const struct rf_view_shape *shape,
                   struct rf_error *error);
void plain_view_free(struct rf_view *view);
int plain_submit(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);
int plain_sync(struct rf_view *view, struct rf_error *error);
int plain_logits(struct rf_view *view, int32_t i, const float **row, struct rf_error *error);
int plain_tap(struct rf_view *view, int32_t tap, int32_t i, const float **row,
              struct rf_error *error);
/* The rows that a buffer has for each row of a pass. */
int32_t plain_rows_of(const struct plain_view *view, enum rf_slot slot);
/* While the device works: does the view's submitted pass. NULL: nothing. */
void plain_finish(struct plain_view *view);

/* ---- plain_ops.c, while the device works ---- */

static inline float *plain_row(const struct plain_view *view, enum rf_slot slot, int32_t i)
{
    return view->slots[slot] + (size_t)i * (size_t)view->base.shape.program->slots[slot].width;
}

static inline void plain_rms_norm(float *y, const float *x, const float *gain, size_t n, float eps)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++) sum += (double)x[j] * (double)x[j];
    double scale = 1.0 / sqrt(sum / (double)n + (double)eps);
    for (size_t j = 0; j < n; j++)
        y[j] = (float)((double)x[j] * scale * (gain ? (double)gain[j] : 1));
}

/* From row `in` of the operation's inputs to row `out` of its results: the same but in the head. */
void plain_perform(struct plain_view *view, const struct rf_op *op, int32_t in, int32_t out);
/* The head over the i-th wanted row, and what its logits say. */
void plain_answer(struct plain_view *view, int32_t i);
size_t plain_first_above(const float *x, size_t n, float threshold);

/* ---- plain_states.c: operations on row i of the pass ---- */

void plain_short_conv(const struct plain_view *view, const struct rf_op *op, int32_t i);
void plain_delta(const struct plain_view *view, const struct rf_op *op, int32_t i);
void plain_norm_gate(const struct plain_view *view, const struct rf_op *op, int32_t i);
void plain_gate_norm(const struct plain_view *view, const struct rf_op *op, int32_t i);
void plain_split_gate(const struct plain_view *view, const struct rf_op *op, int32_t i);
void plain_sigmoid_gate(const struct plain_view *view, const struct rf_op *op, int32_t i);

#endif
