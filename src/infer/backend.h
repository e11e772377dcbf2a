/* The interface between the engine and a device that computes: the processor's cores (src/cpu), a
 * GPU, the plain one of the tests (test/support/plain_backend.c).
 *
 * A pass is data. The engine describes it once, as a short list of operations on named buffers
 * (struct rf_program), and a backend compiles that list into a view. After that the engine only
 * submits rows. No function of the engine runs on the device's workers, and no pointer to the
 * device's memory reaches the engine but through `logits` and `tap`.
 *
 * Objects, all opaque but for the fields below:
 *
 *   backend  an open device. Outlives all others.
 *   queue    does the work of views, one pass after the other. Threads may share one: submit waits
 *            for its turn.
 *   weights  the tensors of one model in one form. Read-only, so any number of views may use them.
 *   cache    keys and values of one sequence, in blocks of RF_KV_POSITIONS positions that forks
 *            share until one of them writes; of layers without them, states (infer/state_kept.h).
 *   view     one way of reading sequences: weights x operand precision x KV precision, with the
 *            activations of one pass. Belongs to a queue and to one thread at a time.
 *
 * Order and synchronisation. `submit` may return before the work is done. The caller's arrays that
 * a pass names (tokens, parents, wanted, best, ...) must live until `sync` of the view returns,
 * which waits for the pass and reports its failure. Answers are valid from then on until the view's
 * next submit. Calls on a cache wait for passes that use it by themselves.
 *
 * Errors. Every call that can fail returns 0 or a negative code with one sentence. After a pass
 * that failed or was cancelled the entries of its own rows in the caches are undefined; all others
 * are as they were, and every object can be used again.
 *
 * Row independence. The bits of a row's answer depend on the tokens that the row follows, on its
 * own and on its position; not on the other rows of the pass, their number, their sequences, the
 * number of workers, or how the text was cut into passes. */
#ifndef RF_INFER_BACKEND_H
#define RF_INFER_BACKEND_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "infer/measure.h"
#include "weights/plan.h"

struct rf_backend;
struct rf_queue;
struct rf_weights;
struct rf_cache;
struct rf_view;

enum {
    RF_KV_POSITIONS = 256, /* positions of a cache's block */
    RF_KV_RECENT = 128,    /* positions that are quantised together */
    RF_TREE_ROWS = 64,     /* most rows of a pass in which rows have parents */
    RF_MAX_ROWS = 512,     /* most rows of any pass but an encoder's, which reads a text whole */
    RF_MAX_BEST = 8        /* most candidates in a row's answer */
};

/* The form of a cache's entries, or of a view's reads. A row at position t reads the positions
 * before RF_KV_RECENT * (t / RF_KV_RECENT - 1) in 8 or 4 bits (microkernels/kv.h) and the newest,
 * 129 to 256 with its own, in F16: QuantSpec's double buffer, section 4.3, so that drafts that are
 * taken back never were quantised. A view of 4 bits also reads a cache of 8. */
enum rf_kv_type { RF_KV_F16 = 0, RF_KV_BF16 = 1, RF_KV_Q8 = 2, RF_KV_Q4 = 3 };

static inline int rf_kv_is_quantised(enum rf_kv_type kv)
{
    return kv == RF_KV_Q8 || kv == RF_KV_Q4;
}

static inline int rf_kv_can_read(enum rf_kv_type view, enum rf_kv_type cache)
{
    return view == cache || (view == RF_KV_Q4 && cache == RF_KV_Q8);
}

/* The rounding of linear layers' input rows. */
enum rf_precision {
    RF_PRECISION_FORMAT, /* 8 bits for quantised weights, BF16 for BF16 weights */
    RF_PRECISION_16      /* 16 bits, in a form of the kind of device */
};

/* ---- weights ---- */

/* The first layer of the second device. If a model's layers are on two devices, the second has the
 * last n_second of n_layer. */
static inline int32_t rf_first_shared_layer(int32_t n_layer, int32_t n_second)
{
    return n_second < n_layer ? n_layer - n_second : 0;
}

/* 1 for the tensors of the second device if its first layer is `cut`: those layers and the head,
 * and the embedding where the device has all layers. */
static inline int rf_is_shared_second(const struct rf_weight_plan *plan, int32_t cut)
{
    if (plan->layer >= 0) return plan->layer >= cut;
    return cut == 0 || plan->role != RF_WEIGHT_TABLE;
}

/* Bytes of one weight on a device. */
struct rf_weight_bytes {
    uint64_t pass;     /* read by a decoding pass, of all experts */
    uint64_t mapped;   /* used in place from the file */
    uint64_t resident; /* memory for the rest */
};

/* Returns non-zero to cancel; called from the thread that called weights_new. */
typedef int (*rf_load_progress)(void *user, uint64_t done, uint64_t total);

/* ---- the pass as a list ---- */

/* Buffers of a view, [rows][width]. */
enum rf_slot {
    RF_SLOT_X,      /* the residual stream */
    RF_SLOT_NORMED, /* operand of q, k, v, of gate and up, and of the output head */
    RF_SLOT_Q,
    RF_SLOT_K,
    RF_SLOT_V,
    RF_SLOT_ATTENDED, /* operand of o */
    RF_SLOT_BRANCH,   /* a branch's result where a norm or a factor follows; added to RF_SLOT_X */
    RF_SLOT_GATE,
    RF_SLOT_UP,
    RF_SLOT_GATED,  /* operand of down */
    RF_SLOT_ROUTED, /* the router's results */
    RF_SLOT_CHOSEN, /* operand of the experts' gate and up */
    RF_SLOT_EXPERT_GATE,
    RF_SLOT_EXPERT_UP,
    RF_SLOT_EXPERT_GATED, /* operand of the experts' down */
    RF_SLOT_ANSWERED,     /* the experts' down */
    RF_SLOT_SHARED_GATE,  /* the expert that every row has */
    RF_SLOT_SHARED_UP,
    RF_SLOT_SHARED_GATED, /* operand of its down */
    RF_SLOT_SHARE,        /* logit of the shared expert's share, a sigmoid */
    RF_SLOT_CONV,      /* three rows side by side of a convolution: two gates and what they gate */
    RF_SLOT_CONVOLVED, /* operand of the matrix behind a convolution */
    RF_SLOT_Q_BOTH,    /* of each head q, then its gate; in latent attention q, then its rotated
                          part */
    RF_SLOT_Q_GATE,    /* the gates alone */
    RF_SLOT_UNGATED,   /* what was attended to, before the gate or the heads' matrices */
    RF_SLOT_MIXED,     /* q, k and v of the delta rule, x, B and C of Mamba-2, before their
                          convolution */
    RF_SLOT_Z,         /* gates of the results of either */
    RF_SLOT_BETA,      /* logits of how much of a value is written, or what time steps come from;
                          undefined after RF_OP_DELTA or RF_OP_MAMBA */
    RF_SLOT_ALPHA,     /* what decays come from; undefined after RF_OP_DELTA or RF_OP_MAMBA */
    RF_SLOT_RECALLED,  /* results of either */
    RF_SLOT_DELTA,     /* operand of the matrix behind either */
    RF_SLOT_Q_LOW,     /* what queries of latent attention are made of */
    RF_SLOT_Q_LOW_IN,  /* the same as operand, after its norm */
    RF_SLOT_Q_NOPE,    /* operand of each head's matrix: queries without their rotated part */
    RF_SLOT_LATENTS,   /* operand of each head's other matrix: what the head attended to */
    RF_SLOT_VALUES,    /* its results */
    RF_SLOT_JOINED,    /* rows side by side: hidden states that a draft head reads; in a head's
                          program the normed embedding and feature */
    RF_SLOT_JOINED_IN, /* the same as operand */
    RF_SLOT_WINDOW_Q,  /* q, k, v and operand of o of layers with a window, where their sizes differ
                        */
    RF_SLOT_WINDOW_K,
    RF_SLOT_WINDOW_V,
    RF_SLOT_WINDOW_ATTENDED,
    RF_SLOT_WIDE_GATE, /* the feed-forward of layers that share keys, where its width differs */
    RF_SLOT_WIDE_UP,
    RF_SLOT_WIDE_GATED,
    RF_SLOT_LAYER_INPUTS, /* embeddings of all layers side by side */
    RF_SLOT_LAYER_GATE,
    RF_SLOT_LAYER_GATED, /* operand of the matrix behind a layer's embedding */
    RF_SLOT_LOGITS,
    RF_SLOT_TAP /* the first tap; tap i is RF_SLOT_TAP + i */
};

enum { RF_MAX_TAPS = 64, RF_MAX_SLOTS = RF_SLOT_TAP + RF_MAX_TAPS };

struct rf_slot_shape {
    int32_t width;
    int is_operand; /* holds input rows of linear layers, in the form that their weights want;
                       otherwise F32, also where an operation that makes operands writes to it */
    int has_floats; /* an operand that is kept in F32, too */
    int by_expert;  /* a row for each expert of each row of the pass */
    int by_head;    /* an operand of RF_OP_HEAD_LINEAR */
};

enum rf_op_kind {
    /* out[0] = scale * weight[0][token], or the pass's `x` where there is no weight[0]; prepares
     * the rotations of the rows' positions. A draft head's program has one of each. Adds
     * weight[1][position] and the row of weight[2] for the token type where they are not NULL. */
    RF_OP_EMBED,
    RF_OP_NORM,   /* out[0] = RMS norm of in[0], less its mean if is_centred, times weight[0], plus
                     bias[0] or NULL; see `column`. Of the first values alone, if weight[0] has
                     fewer than in[0] */
    RF_OP_LINEAR, /* out[l] = in[0] weight[l]^T + bias[l], l < n; adds to out[l] if accumulate; see
                     `blocks` */
    /* Of each of the n_head parts of in[0], the first values to out[0], which is by_head and says
     * how many; with n = 2 the others to the ends of the n_head parts of out[1]. */
    RF_OP_SPLIT_HEADS,
    RF_OP_HEAD_LINEAR, /* out[0] = each head's part of in[0] times its matrix of weight[0], to the
                          beginning of the head's part of out[0] */
    RF_OP_ROPE_STORE,  /* rotates the heads of in[0] (q) and in[1] (k) by their positions, after an
                          RMS norm of each head by weight[0] and weight[1] where they are not NULL;
                          multiplies q by rf_query_growth; heads of latent attention rotate
                          behind the latent; writes in[1] and in[2] (v) to the cache's
                          `layer`; by `rotation`. With norms_v, heads of v have an RMS norm first;
                          in[2] may be in[1], and is it as it was before. With is_query q alone: the
                          cache's layer has its keys and values from an earlier operation */
    RF_OP_ATTENTION,   /* out[0] = softmax(scale * in[0] K^T) V over the positions that the row
                          follows and its own. With a window the last `window` of them. With a cap,
                          scores s are cap * tanh(s / cap). weight[0] [heads] or NULL: a score in
                          each head's softmax that has no value (an attention sink). With
                          is_whole, over the positions of all rows of the group, which is a whole
                          text without parents, in a cache of 16 bits */
    /* A convolution between two gates. A row of in[0] is b, c and x side by side. With z = b * x,
     * the row at position t has out[0] = c * (bias[0] + sum over k < rows of weight[0][.][k] * z[t
     * - (rows - 1) + k]), element by element, where z is of the rows that it follows, and 0 before
     * the text. Leaves z in the cache (struct rf_params: conv_rows), and in[0] undefined. */
    RF_OP_SHORT_CONV,
    /* The gated delta rule (Yang, Kautz and Hatamizadeh 2024; transformers, Qwen3_5GatedDeltaNet).
     * A row m of in[0] is delta_keys heads of q, as many of k, and delta_values heads of v. m goes
     * through a convolution, 0 before the text:
     *
     * - y_j = silu(sum over r < conv_rows of weight[0][j][r] m_j, conv_rows - 1 - r rows ago)
     *
     * Then for each head of v, and its head of q and k (struct rf_params: delta_tiled):
     *
     * - q = y_q / |y_q| / sqrt(delta_key_dim), k = y_k / |y_k|; |x|^2 = 1e-6 + sum of squares
     * - b = sigmoid(in[1]), g = exp(weight[1] log(1 + exp(in[2] + weight[2])))
     * - u = b (v - g S'^T k), where S' is S of the row that it follows
     * - S = g S' + k u^T, [delta_key_dim][delta_value_dim], 0 before the text
     * - out[0] = S^T q
     *
     * A row leaves its m, b and g in the cache (infer/state_kept.h). */
    RF_OP_DELTA,
    /* Mamba-2 (Dao and Gu 2024; transformers, GraniteMoeHybridMambaLayer), in the sizes of
     * RF_OP_DELTA. A row m of in[0] is delta_values heads of x, delta_keys groups of B, as many of
     * C. m goes through a convolution as in RF_OP_DELTA, whose sum has bias[0] where it is not
     * NULL. Then for each head of x, and its group of B and C:
     *
     * - b = log(1 + exp(in[1] + weight[2])), from step_min to step_max; g = exp(weight[1] b)
     * - S = g S' + B (b x)^T, where S' is S of the row that it follows, 0 before the text
     * - out[0] = S^T C + bias[1] x
     *
     * A row leaves its m, b and g in the cache. in[2] is scratch, as wide as in[1]. */
    RF_OP_MAMBA,
    /* out[0] = RMS norm of each head [delta_value_dim] of in[0], times weight[0] and silu(in[1]) */
    RF_OP_NORM_GATE,
    /* out[0] = RMS norm of in[0] * silu(in[1]), in delta_keys parts of a row, times weight[0] */
    RF_OP_GATE_NORM,
    RF_OP_SPLIT_GATE,   /* of each head of in[0]: out[0] = the first head_dim values, out[1] = the
                           others */
    RF_OP_SIGMOID_GATE, /* out[0] = in[0] * sigmoid(in[1]) */
    RF_OP_SILU_GATE,    /* out[0] = silu(in[0]) * in[1]. With a cap, (u + 1) silu(scale g) / scale,
                           where g = min(in[0], cap), u = max(-cap, min(in[1], cap)); then in[0] and
                           in[1] are undefined */
    RF_OP_GELU_GATE,    /* out[0] = gelu(in[0]) * in[1], the approximation by tanh, or with is_exact
                           by the error function */
    RF_OP_GELU,         /* out[0] = gelu(in[0]), likewise */
    RF_OP_RELU2,        /* out[0] = max(in[0], 0)^2 */
    /* Chooses each row's experts by in[0]: the n_expert_used with the greatest values, greatest
     * first, of equal ones the lowest first. A share is exp(value), divided by the sum over the
     * chosen ones if expert_norm, else over all. With expert_sigmoid the values that choose are
     * sigmoid(value) + bias[0], and a share is sigmoid(value), divided by expert_least and the sum
     * over the chosen ones if expert_norm (transformers, Lfm2MoeTopKRouter). With expert_groups
     * only experts of the best groups are chosen, by sums of these values, or of the softmax.
     * Copies the row of in[1] to the rows that out[0] has for them. Makes the chosen ones of the
     * matrices weight[0 .. 2] ready, of which weight[2] may be NULL. */
    RF_OP_CHOOSE_EXPERTS,
    RF_OP_EXPERT_LINEAR, /* RF_OP_LINEAR, each row with the matrices and biases of its expert */
    RF_OP_SUM_EXPERTS,   /* out[0] += scale * the sum of a row's experts in in[0], greatest share
                            first,   each times its share */
    RF_OP_ADD, /* out[0] += scale * in[0], after an RMS norm of in[0] by weight[0] unless it is
                  NULL */
    RF_OP_ADD_SHARE, /* out[0] += sigmoid(in[1]) * in[0], where a row of in[1] is one value */
    RF_OP_CAP,       /* out[0] = scale * in[0], or with a cap cap * tanh(scale * in[0] / cap) */
    RF_OP_COPY,      /* out[0] = in[0]; see `column` */
    /* Each part [n_embd_layer] of a row of out[0] becomes (RMS norm of scale times it, times
     * weight[0], + sqrt(n_embd_layer) * that part of weight[1][token]) / sqrt(2). */
    RF_OP_LAYER_INPUTS,
    RF_OP_SCALE /* out[0] is times the one value of weight[0] */
};

/* The rotation of an operation. The long one takes the place of the global one in rows that are
 * `is_long`. */
enum rf_rotation { RF_ROTATE_GLOBAL, RF_ROTATE_LOCAL, RF_ROTATE_NOT };

enum { RF_OP_INPUTS = 3 };

struct rf_op {
    enum rf_op_kind kind;
    int32_t layer;
    int32_t n; /* layers of a RF_OP_LINEAR */
    int accumulate;
    int may_stop;   /* a cancelled pass ends after this operation */
    int is_centred; /* of a NORM */
    int is_whole;   /* of an ATTENTION: rows attend to those behind them, too */
    int is_exact;   /* of a GELU or GELU_GATE */
    int is_query;   /* of a ROPE_STORE, as norms_v */
    int norms_v;
    float scale;
    float cap;      /* 0: none */
    float eps;      /* of a NORM; 0: the model's rms_eps */
    int32_t window; /* 0: none */
    enum rf_rotation rotation;
    int32_t column; /* NORM, COPY: where in[0]'s values begin in the rows of out[0], which has
                       floats and may be wider; a multiple of 16. GELU_GATE: where the values
                       of in[1] begin in its rows, which may be wider */
    enum rf_slot in[RF_OP_INPUTS], out[RF_OP_INPUTS];
    const struct rf_weight *weight[RF_OP_INPUTS], *bias[RF_OP_INPUTS]; /* NULL: none */
};

/* The body runs over all rows of a pass; the head over the wanted ones, gathered from RF_SLOT_X,
 * and leaves their logits in RF_SLOT_LOGITS. */
struct rf_program {
    const struct rf_params *params;
    struct rf_slot_shape slots[RF_MAX_SLOTS];
    int32_t n_slots, n_body, n_head;
    struct rf_op *body, *head;
};

/* ---- passes ---- */

/* The rows of one sequence in a pass: n tokens that continue the first_pos positions of its cache.
 *
 * Without parents each row follows the one before it: row i stands at the position first_pos + i.
 * With parents the rows are a tree: row i follows the row parents[i] < i, or the text before the
 * pass where parents[i] is -1. Its position is first_pos + the number of rows that it follows.
 *
 * Either way row i's key and value take the cache's slot first_pos + i, so first_pos + n is at most
 * the cache's n_ctx. Where a row's slot is not its position, cache_keep brings a path of rows to
 * the slots of their positions before the next pass. */
struct rf_rows {
    struct rf_cache
        *cache; /* a cache of this backend; one group of rows at most in a pass for each */
    const int32_t *tokens;
    const int32_t *parents; /* NULL: each follows the one before */
    int32_t n, first_pos;
    int32_t n_first; /* rows of the first token type, before those of the second; 0: all */
    /* The rows rotate by RF_ROPE_LONG, as the rows before them in the cache did. Only for models
     * with rope_long_factors. */
    int is_long;
};

struct rf_candidate {
    int32_t token;
    float logit;
};

/* The likeliest tokens after a row: greatest logits first, the lowest id among equals. */
struct rf_best {
    struct rf_candidate top[RF_MAX_BEST];
    int32_t n;  /* fewer than asked where logits are no numbers; 0: none is */
    float mass; /* the sum of exp(logit - top[0].logit) over the vocabulary, about: 1 / mass is the
                   probability of top[0] */
};

struct rf_pass {
    const struct rf_rows *groups; /* [n_groups]; rows count through all groups */
    int32_t n_groups;
    /* [rows][width of RF_SLOT_X]: what the first layer takes, of a program that has an RF_OP_EMBED
     * without a table; else NULL. */
    const float *x;

    const int32_t *wanted; /* [n_wanted] rows that are answered, ascending */
    int32_t n_wanted;      /* the view's max_logits at most, but for scores */
    int32_t n_best;        /* 0 .. RF_MAX_BEST: candidates of each answer */
    struct rf_best *best;  /* [n_wanted]; NULL where n_best is 0 */
    /* [n_wanted]: the tokens that may be among the candidates, a bit for each of the vocabulary;
     * NULL: all. The mass is theirs. NULL for the array: all of each row. Logits have no masks. */
    const uint64_t *const *masks;
    /* Scores instead: log p(targets[i]) after row wanted[i], in place of logits. NULL: none. */
    const int32_t *targets;
    double *logprobs;
};

enum {
    RF_WINDOW_STEP = 512, /* positions */
    RF_WINDOW_STEPS = 2,
    RF_WINDOW_MEAN =
        (2 * RF_WINDOW_STEPS + 3) * RF_WINDOW_STEP / 2 /* read by a row of a long text */
};

/* Whether a row of a view with a window reads what stands at `position`: the first step, without
 * which a model breaks (Xiao et al. 2024: attention sinks), the row's own, and the two before. */
static inline int rf_window_has(int32_t row_position, int32_t position)
{
    int32_t step = position / RF_WINDOW_STEP;
    return step == 0 || step + RF_WINDOW_STEPS >= row_position / RF_WINDOW_STEP;
}

struct rf_view_shape {
    /* Outlives the view, as do its weights. A few may be of other rf_weights of the same backend
     * than the view's: a draft head and its target use each other's. */
    const struct rf_program *program;
    const struct rf_weights *weights;
    enum rf_precision precision;
    enum rf_kv_type kv; /* the view reads caches in this form: theirs, or a coarser part of it */
    int has_window;     /* rf_window_has; else rows read all of their texts */
    int32_t max_rows;   /* <= RF_MAX_ROWS, or the longest text of an encoder */
    int32_t max_logits;
};

struct rf_queue_options {
    const char *cores; /* cores that work, for devices that have such; NULL: "auto" */
    int32_t threads;   /* 0: as many as the cores that were chosen */
};

struct rf_queue_info {
    int32_t threads;
    int32_t places; /* threads that have a core of their own */
};

struct rf_cache_shape {
    const struct rf_params *params; /* outlives the cache */
    int32_t n_ctx;
    enum rf_kv_type kv;
};

struct rf_backend_ops {
    void (*free)(struct rf_backend *backend);

    /* `like`: a queue with the same options, whose measurements the new one begins with; NULL. */
    int (*queue_new)(struct rf_queue **queue, struct rf_backend *backend,
                     const struct rf_queue_options *options, const struct rf_queue *like,
                     struct rf_error *error);
    void (*queue_free)(struct rf_queue *queue);
    void (*queue_info)(const struct rf_queue *queue, struct rf_queue_info *info);
    /* Measures how fast the queue's workers are with these weights. Views made afterwards begin
     * with the result. */
    int (*queue_calibrate)(struct rf_queue *queue, const struct rf_weights *weights,
                           struct rf_error *error);

    /* Loads all weights of a model at once, as planned, and sets each *plan->weight; bytes of the
     * tensors count as progress. The weights may use the file's bytes in place, so the tensors and
     * their data must outlive them; the plans need not. */
    int (*weights_new)(struct rf_weights **weights, struct rf_queue *queue,
                       const struct rf_weight_plan *plans, int32_t n_plans,
                       rf_load_progress progress, void *user, struct rf_error *error);
    void (*weights_free)(struct rf_weights *weights);

    int (*cache_new)(struct rf_cache **cache, struct rf_backend *backend,
                     const struct rf_cache_shape *shape, struct rf_error *error);
    /* A cache that holds the first n positions of another one. They share blocks; whoever writes to
     * a shared block first gets a copy of it. */
    int (*cache_fork)(struct rf_cache **copy, struct rf_cache *cache, int32_t n,
                      struct rf_error *error);
    void (*cache_free)(struct rf_cache *cache);
    /* Gives up blocks that hold no position below n; it may keep one of them. */
    void (*cache_trim)(struct rf_cache *cache, int32_t n);
    /* The caller will begin no pass before position n but after rewinding: a cache may give up what
     * only earlier rows read, which are 16 bits of one that quantises, what is behind windows, and
     * states. It keeps some of it: states and windows for the last RF_STATE_TAIL positions. */
    void (*cache_settle)(struct rf_cache *cache, int32_t n);
    /* The greatest position r <= n from which a pass may begin with what the cache still has of n
     * positions that were read: n itself, or less where earlier rows' 16 bits, windows or states
     * were given up. */
    int32_t (*cache_resume)(const struct rf_cache *cache, int32_t n);
    /* Whether the first n positions can be saved, of which a pass can begin at n and n - 1: else
     * matrices that would be saved are not known yet, and fewer positions can be. */
    int (*cache_can_save)(const struct rf_cache *cache, int32_t n);
    /* Keeps one path of the last pass's tree in this cache, which began at first_pos: the entries
     * of the rows path[0] < path[1] < ... < path[n - 1], each of which follows the one before (the
     * first: the text), move from the slots first_pos + path[i] to first_pos + i, in all layers.
     * Entries after them are undefined afterwards. Costs nothing where path[i] == i. */
    int (*cache_keep)(struct rf_cache *cache, int32_t first_pos, const int32_t *path, int32_t n,
                      struct rf_error *error);
    /* The first n positions in host memory, in one order for all backends: first the layers that
     * read whole texts, then those with a window. Of either kind, for each block of
     * RF_KV_POSITIONS, of which p are there, each layer and each KV head: K [b][head_dim][16] with
     * b = p / 16 rounded up and 16 positions side by side; then V [p][d] with d = head_dim rounded
     * up to 16. Elements have 16 bits; those beyond p or head_dim are 0. Layers with a window have
     * blocks from rf_window_saved_from(n) on (infer/window_kept.h).
     *
     * A cache that quantises has first, of either kind, the groups before g, which the row n - 1
     * reads quantised: for each group the upper planes of all layers and heads, then the lower
     * ones. Then the blocks as above from the one that has position g * RF_KV_RECENT on.
     *
     * Layers are those with keys and values. At the end follow, for each layer with a state, F32
     * rows [n - first][rf_state_row(params)] of what rows left from position
     * rf_states_saved_from(n) = first on, zeros before the text. Those of all layers are followed
     * by the matrices of all layers with the delta rule at the beginning of the block of n - 1, in
     * the order of rf_state_matrices. To be saved, a pass must be able to begin at n and n - 1. */
    uint64_t (*cache_bytes)(const struct rf_cache *cache, int32_t n);
    /* Memory of the cache's blocks. A block that n caches share counts as its n-th part. */
    uint64_t (*cache_held)(const struct rf_cache *cache);
    int (*cache_save)(struct rf_cache *cache, int32_t n, void *out, struct rf_error *error);
    int (*cache_load)(struct rf_cache *cache, int32_t n, const void *in, struct rf_error *error);

    /* Fills *view, whose base the caller then completes (struct rf_view below). */
    int (*view_new)(struct rf_view **view, struct rf_queue *queue,
                    const struct rf_view_shape *shape, struct rf_error *error);
    void (*view_free)(struct rf_view *view);
    /* The pass is one that rf_pass_check (infer/pass.h) accepts. */
    int (*submit)(struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);
    int (*sync)(struct rf_view *view, struct rf_error *error);
    /* Logits [n_vocab] of the i-th wanted row of the last pass, in host memory until the view's
     * next submit. A device with memory of its own copies them now. */
    int (*logits)(struct rf_view *view, int32_t i, const float **row, struct rf_error *error);
    /* Row i of the last pass in the buffer of tap `tap`, [the slot's width], likewise. */
    int (*tap)(struct rf_view *view, int32_t tap, int32_t i, const float **row,
               struct rf_error *error);
    /* Threads that a pass of n_rows has by now. */
    int32_t (*view_threads)(const struct rf_view *view, int32_t n_rows);
};

/* ---- what every backend's structures begin with ---- */

struct rf_backend {
    const struct rf_backend_ops *ops;
    const struct rf_allocator *allocator;
    /* The index of the first x[i] > threshold, or n; for logits that are in host memory. */
    size_t (*first_above)(const float *x, size_t n, float threshold);
    uint64_t expert_bytes; /* memory for the experts of weights that are loaded; 0: for all */
};

struct rf_queue {
    struct rf_backend *backend;
    atomic_int holders; /* sessions that use it: the owner's to count */
};

struct rf_weights {
    struct rf_backend *backend;
};

struct rf_cache {
    struct rf_backend *backend;
    struct rf_cache_shape shape;
};

struct rf_view {
    struct rf_backend *backend;
    const struct rf_source *source; /* source of the weights */
    struct rf_view_shape shape;
    const atomic_int *cancel; /* a pass looks at it in every layer: RF_ERR_CANCELLED; NULL: never */
    uint64_t passes;          /* passes submitted so far */
};

/* ---- the factory ---- */

struct rf_backend_options {
    const char *tier;  /* tier of instructions, for devices that have such; NULL: the best one */
    const char *asker; /* origin of the choice, for the sentence; NULL: "tier" */
    int32_t device;    /* index among several; 0: the first */
};

struct rf_plan;

struct rf_device_info {
    const char *tier;      /* the chosen one; "" where the device has none */
    const char *best_tier; /* the device's best one; "" where it has none */
    const char *note;      /* reason why it is below its speed, without a full stop; or "" */
    const char *name;      /* name of a device with memory of its own; or NULL */
    uint64_t memory_bytes; /* memory of such a device */
};

/* A kind of device. Sizes and limits can be asked for without an open backend. */
struct rf_backend_kind {
    const char *name; /* "cpu" */
    /* Checks the options; `info` may be NULL, its strings live as long as the process. */
    int (*describe)(const struct rf_backend_options *options, struct rf_device_info *info,
                    struct rf_error *error);
    int (*open)(struct rf_backend **backend, const struct rf_backend_options *options,
                const struct rf_allocator *allocator, struct rf_error *error);
    /* RF_ERR_UNSUPPORTED for parameters of which the kind computes not all. NULL: it computes all.
     */
    int (*can_compute)(const struct rf_params *params, struct rf_error *error);
    struct rf_weight_bytes (*weight_bytes)(const struct rf_weight_plan *plan);
    /* Most bytes of a cache with n_ctx positions. */
    uint64_t (*kv_bytes)(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx);

    /* For devices with memory of their own, which all kinds but the first are; NULL for the first:
     * bytes that are free now, and the most bytes that a view of the shape takes in its passes. The
     * shape's program has only its buffers, and the weights are unknown. */
    int (*free_bytes)(const struct rf_backend_options *options, uint64_t *bytes,
                      struct rf_error *error);
    uint64_t (*view_bytes)(const struct rf_view_shape *shape);

    /* Measurements; each NULL where the kind has none. */
    int (*measure_read)(const struct rf_backend_options *options, int32_t threads,
                        const struct rf_allocator *allocator, struct rf_read_speed *speed,
                        struct rf_error *error);
    /* Puts measured speeds in the place of the plan's estimates; 0 seats measured: *n_measured. */
    int (*measure_cores)(const struct rf_backend_options *options, struct rf_plan *plan,
                         const struct rf_allocator *allocator, int32_t *n_measured,
                         double *bytes_per_second, struct rf_error *error);
};

/* All kinds of this build, the default first; the last is NULL. Defined in backends.c, the one
 * place that knows them by name; a test's own definition takes its place. */
extern const struct rf_backend_kind *const rf_backend_kinds[];

#endif
