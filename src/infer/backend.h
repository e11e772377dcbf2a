/* The kernel interface: storage, and the dozen operations that a transformer's pass consists of.
 * forward.c is written once against it; the processor's cores (src/cpu) and CUDA (gpu) implement
 * it.
 *
 * Three kinds of objects. A *backend* belongs to a model and holds its weights. A *context* belongs
 * to a session and holds its activations, its KV cache and its workers. A *buffer* is a matrix of
 * activations of a context, [max_rows][width]. All are opaque: no host pointer crosses this
 * interface but tokens in and logits out.
 *
 * Operations run inside `run`, which enters the workers once for a whole pass. Every worker calls
 * the same operations with the same arguments; when a call returns, the results of all workers are
 * visible to all. (An asynchronous device has one worker and returns when the work is queued.)
 *
 * Row independence: the bits of a result row depend on that row's inputs, its position and what it
 * follows alone, not on n_rows, the other rows, the number of workers or who did what. */
#ifndef RF_INFER_BACKEND_H
#define RF_INFER_BACKEND_H

#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/source.h"

struct rf_backend;
struct rf_weight;
struct rf_context;
struct rf_buffer;
struct rf_worker;
struct rf_team;

enum rf_kv_type { RF_KV_F16 = 0, RF_KV_BF16 = 1 };

enum rf_buffer_kind {
    RF_BUFFER_F32,
    RF_BUFFER_OPERAND /* the input rows of linear layers, in the form that this backend's weights
                         want */
};

enum rf_weight_role {
    RF_WEIGHT_MATRIX, /* of a linear layer */
    RF_WEIGHT_TABLE,  /* of embeddings: read row by row, never as a whole */
    RF_WEIGHT_VECTOR  /* a norm's gain or a bias: kept in F32 */
};

/* What a model computes in. */
enum rf_weight_form {
    RF_WEIGHTS_STORED, /* quantised tensors in their own bits, with activations of 8 bits; float
                          matrices in BF16 */
    RF_WEIGHTS_BF16,   /* all matrices, and the values of tables, rounded to BF16 */
    /* Drafts: matrices of more bits are cast (quant/cast.h); those of no more bits stay as they are
       stored. */
    RF_WEIGHTS_MXFP4,
    RF_WEIGHTS_Q4
};

struct rf_weight_request {
    const struct rf_tensor *tensor;
    enum rf_weight_role role;
    enum rf_weight_form form;
    struct rf_weight **weight; /* where the result goes */
};

/* Of one weight: what a decoding pass reads, what is used in place from the file, and the memory
 * for what is not. */
struct rf_weight_bytes {
    uint64_t pass, mapped, resident;
};

/* Returns non-zero to cancel; called from the thread that called weights_load. */
typedef int (*rf_load_progress)(void *user, uint64_t done, uint64_t total);

struct rf_context_shape {
    const struct rf_params *params; /* must outlive the context */
    int32_t n_ctx;                  /* positions of the KV cache */
    int32_t max_rows;               /* rows of a pass */
    struct rf_team *team; /* that computes; must outlive the context. Contexts that never run at a
                             time may share it */
    enum rf_kv_type kv;
};

enum { RF_TREE_ROWS = 16 }; /* rows of a pass that has parents, at most */

/* The rows of one pass: n_rows tokens that continue the first_pos positions of the KV cache before
 * them.
 *
 * Without parents each row follows the one before it: row i stands at the position first_pos + i.
 * With parents the rows are a tree, of which each branch continues the text in its own way: row i
 * follows the row parents[i] < i, or the text before the pass where parents[i] is -1. Its position
 * is first_pos + its depth, the number of rows that it follows; it sees the positions before
 * first_pos, the rows that it follows and itself, and gets the bits that it would get if these had
 * been read as a plain sequence.
 *
 * Either way row i's key and value take the KV cache's slot first_pos + i (so first_pos + n_rows <=
 * n_ctx). Where a row's slot is not its position, kv_keep brings a path of rows to the slots of
 * their positions before the next pass. */
struct rf_rows {
    int32_t n_rows; /* <= max_rows; with parents <= RF_TREE_ROWS */
    int32_t first_pos;
    const int32_t *parents; /* [n_rows] or NULL */
};

typedef void (*rf_run_fn)(void *argument, struct rf_worker *worker);

struct rf_backend_ops {
    void (*free)(struct rf_backend *backend);
    /* Loads all weights of a model at once, with a team's workers; bytes of the tensors count as
     * progress. Data that can be used in place is; the source must outlive the backend. */
    int (*weights_load)(struct rf_backend *backend, const struct rf_weight_request *requests,
                        int32_t n_requests, struct rf_team *team, rf_load_progress progress,
                        void *user, struct rf_error *error);

    int (*context_new)(struct rf_context **context, struct rf_backend *backend,
                       const struct rf_context_shape *shape, struct rf_error *error);
    void (*context_free)(struct rf_context *context);
    /* An operand is for the weights of `readers`: the context's backend, or another one of the same
     * kind whose model has the same shape (a draft that shares the KV cache). Freed with the
     * context. */
    struct rf_buffer *(*buffer_new)(struct rf_context *context, const struct rf_backend *readers,
                                    enum rf_buffer_kind kind, int32_t rows, int32_t width,
                                    struct rf_error *error);

    /* Copies the KV cache's first n positions out to, or in from, host memory of kv_bytes(n), in an
     * order of the backend's own that depends on the shape but for n_ctx and team. */
    uint64_t (*kv_bytes)(const struct rf_context *context, int32_t n);
    void (*kv_save)(const struct rf_context *context, int32_t n, void *out);
    void (*kv_load)(struct rf_context *context, int32_t n, const void *in);
    /* Of the last pass's tree, which began at first_pos, keeps one path: the entries of the rows
     * path[0] < path[1] < ... < path[n - 1], each of which follows the one before (the first: the
     * text), move from the slots first_pos + path[i] to their positions first_pos + i, in all
     * layers. What lies after them in the cache is undefined afterwards. Costs nothing where
     * path[i] == i. Not within `run`. */
    void (*kv_keep)(struct rf_context *context, int32_t first_pos, const int32_t *path, int32_t n);

    /* A pass of n_rows over the weights of `readers`, which is known from buffer_new. */
    void (*run)(struct rf_context *context, const struct rf_backend *readers, int32_t n_rows,
                rf_run_fn fn, void *argument);

    /* Workers that a pass of n_rows over these weights has by now. */
    int32_t (*workers)(const struct rf_context *context, const struct rf_backend *readers,
                       int32_t n_rows);

    /* 1 on the one worker that takes decisions for all, between operations. */
    int (*is_leader)(const struct rf_worker *worker);

    /* x[i] = table[tokens[i]]. First operation of a pass: it also prepares the rotations of the
     * rows' positions. */
    void (*embed)(struct rf_context *context, struct rf_worker *worker,
                  const struct rf_weight *table, const int32_t *tokens, struct rf_rows rows,
                  struct rf_buffer *x);
    /* out[i] = RMS norm of x[first + i] times weight, for i < n_rows. */
    void (*norm)(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *x,
                 int32_t first, int32_t n_rows, const struct rf_weight *weight, float eps,
                 struct rf_buffer *out);
    /* y[l] = x W[l]^T + bias[l] for up to three layers l that share their input; bias[l] may be
     * NULL. accumulate: y += */
    void (*linear)(struct rf_context *context, struct rf_worker *worker, const struct rf_buffer *x,
                   int32_t n_rows, int32_t n_layers, const struct rf_weight *const *weights,
                   const struct rf_weight *const *biases, struct rf_buffer *const *y,
                   int accumulate);
    /* Rotates the heads of q and k by their positions (after an RMS norm of each head where a
     * weight is given), and writes k and v to the KV cache of `layer`. */
    void (*rope_store)(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                       struct rf_rows rows, struct rf_buffer *q, struct rf_buffer *k,
                       const struct rf_buffer *v, const struct rf_weight *q_norm,
                       const struct rf_weight *k_norm, float eps);
    /* out[i] = softmax(q[i] K^T / sqrt(head_dim)) V over what row i sees: all before first_pos, the
     * rows that it follows, itself. */
    void (*attention)(struct rf_context *context, struct rf_worker *worker, int32_t layer,
                      struct rf_rows rows, const struct rf_buffer *q, struct rf_buffer *out);
    /* out = silu(gate) * up */
    void (*silu_gate)(struct rf_context *context, struct rf_worker *worker, int32_t n_rows,
                      const struct rf_buffer *gate, const struct rf_buffer *up,
                      struct rf_buffer *out);
    /* out[i] = log softmax(logits[i])[targets[i]] */
    void (*log_probabilities)(struct rf_context *context, struct rf_worker *worker,
                              const struct rf_buffer *logits, int32_t n_rows,
                              const int32_t *targets, double *out);
    /* Row i of an F32 buffer in host memory, valid until the next operation that writes the buffer.
     */
    const float *(*row)(const struct rf_buffer *buffer, int32_t i);
};

/* Every backend's own structure begins with this. */
struct rf_backend {
    const struct rf_backend_ops *ops;
    size_t (*first_above)(const float *x, size_t n,
                          float threshold); /* for the sampler: rf_first_above_fn */
};

#endif
