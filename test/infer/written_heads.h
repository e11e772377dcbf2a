/* A draft head and its target, written by hand: their weights on a device, and programs with all
 * operations that only they have. */
#ifndef RF_TEST_INFER_WRITTEN_HEADS_H
#define RF_TEST_INFER_WRITTEN_HEADS_H

#include "infer/written.h"

enum {
    VOCAB = 596,
    FEW = 310 /* output rows of a head that has fewer than its target */
};

/* A form of the target's weights and of the head's, and sizes. */
struct kind {
    const char *name;
    enum rf_weight_form target, head;
    int32_t width;
    int norms_residual, norms_joined;
    enum rf_rope_style style;
    double tolerance;
};

/* Weights on a device, and what programs over them need. */
struct pair {
    const struct kind *kind;
    struct rf_params target, head, narrow; /* narrow: the head's with few output rows */
    struct rf_backend *backend;
    struct rf_queue *queue;
    struct store of_target, of_head;
    struct rf_weight *table, *output, *square, *target_norm;
    struct rf_weight *fc, *fc_norm, *embd_norm, *feature_norm, *q, *k, *v, *o, *ffn_norm, *gate,
        *up, *down, *output_norm, *few;
};

static inline struct rf_params params_of(const struct kind *kind, int32_t n_vocab)
{
    return (struct rf_params){.arch = RF_ARCH_QWEN2,
                              .arch_name = "qwen2",
                              .n_layer = 1,
                              .n_embd = kind->width,
                              .n_head = 4,
                              .n_head_kv = 2,
                              .head_dim = 32,
                              .n_ff = 160,
                              .n_vocab = n_vocab,
                              .n_ctx_train = 512,
                              .rms_eps = 1e-6f,
                              .rope_style = kind->style,
                              .rope_dim = 32,
                              .rope.theta = 1e4f,
                              .rope.scale = 1,
                              .rope.magnitude = 1};
}

static inline void pair_new(struct pair *pair, const struct kind *kind, const struct device *device)
{
    const struct rf_backend_options options = {.tier = device->tier};
    const struct rf_queue_options threads = {.threads = 2};
    memset(pair, 0, sizeof *pair);
    pair->kind = kind;
    pair->target = pair->head = params_of(kind, VOCAB);
    pair->narrow = params_of(kind, FEW);
    MUST(device->kind->open(&pair->backend, &options, &rf_system_allocator, &error));
    MUST(pair->backend->ops->queue_new(&pair->queue, pair->backend, &threads, NULL, &error));
    int32_t h = kind->width, n_q = 128, n_kv = 64, n_ff = 160;
    struct store *store = &pair->of_target;
    want_weight(store, &pair->table, RF_WEIGHT_TABLE, kind->target, h, VOCAB);
    want_weight(store, &pair->output, RF_WEIGHT_MATRIX, kind->target, h, VOCAB);
    want_weight(store, &pair->square, RF_WEIGHT_MATRIX, kind->target, h, h);
    want_weight(store, &pair->target_norm, RF_WEIGHT_VECTOR, kind->target, h, 1);
    store_load(store, pair->queue);
    store = &pair->of_head;
    want_weight(store, &pair->fc, RF_WEIGHT_MATRIX, kind->head, 3 * h, h);
    want_weight(store, &pair->fc_norm, RF_WEIGHT_VECTOR, kind->head, 3 * h, 1);
    want_weight(store, &pair->embd_norm, RF_WEIGHT_VECTOR, kind->head, h, 1);
    want_weight(store, &pair->feature_norm, RF_WEIGHT_VECTOR, kind->head, h, 1);
    want_weight(store, &pair->q, RF_WEIGHT_MATRIX, kind->head, 2 * h, n_q);
    want_weight(store, &pair->k, RF_WEIGHT_MATRIX, kind->head, 2 * h, n_kv);
    want_weight(store, &pair->v, RF_WEIGHT_MATRIX, kind->head, 2 * h, n_kv);
    want_weight(store, &pair->o, RF_WEIGHT_MATRIX, kind->head, n_q, h);
    want_weight(store, &pair->ffn_norm, RF_WEIGHT_VECTOR, kind->head, h, 1);
    want_weight(store, &pair->gate, RF_WEIGHT_MATRIX, kind->head, h, n_ff);
    want_weight(store, &pair->up, RF_WEIGHT_MATRIX, kind->head, h, n_ff);
    want_weight(store, &pair->down, RF_WEIGHT_MATRIX, kind->head, n_ff, h);
    want_weight(store, &pair->output_norm, RF_WEIGHT_VECTOR, kind->head, h, 1);
    want_weight(store, &pair->few, RF_WEIGHT_MATRIX, kind->head, h, FEW);
    store_load(store, pair->queue);
}

static inline void pair_free(struct pair *pair)
{
    store_free(&pair->of_head);
    store_free(&pair->of_target);
    pair->backend->ops->queue_free(pair->queue);
    pair->backend->ops->free(pair->backend);
}

/* ---- programs ---- */

/* Taps of the programs below, behind the first, which is their result. */
enum { RESULT, WATCHED };

static inline void shape_common(struct written *written, const struct pair *pair)
{
    int32_t h = pair->kind->width;
    shape_slot(written, RF_SLOT_X, h, 0);
    shape_slot(written, RF_SLOT_NORMED, h, 1);
    shape_slot(written, RF_SLOT_BRANCH, h, 0);
    shape_slot(written, RF_SLOT_TAP + RESULT, h, 0);
    written->program.n_slots++;
}

/* Features: three states of X side by side, then fc, which is the head's. watched: the states and
 * the joined rows are taps. */
static inline void write_target(struct written *written, const struct pair *pair, int is_watched)
{
    int32_t h = pair->kind->width;
    written_new(written, &pair->target);
    shape_common(written, pair);
    shape_slot(written, RF_SLOT_JOINED, 3 * h, 0);
    shape_slot(written, RF_SLOT_JOINED_IN, 3 * h, 1);
    put_op(written, RF_OP_EMBED, RF_SLOT_X, RF_SLOT_X, pair->table);
    for (int32_t t = 0; t < 3; t++) {
        if (is_watched) put_tap(written, RF_SLOT_X);
        put_op(written, RF_OP_COPY, RF_SLOT_X, RF_SLOT_JOINED, NULL)->column = t * h;
        put_op(written, RF_OP_NORM, RF_SLOT_X, RF_SLOT_NORMED, pair->target_norm)->may_stop = 1;
        put_op(written, RF_OP_LINEAR, RF_SLOT_NORMED, RF_SLOT_X, pair->square)->accumulate = 1;
    }
    if (is_watched) put_tap(written, RF_SLOT_JOINED);
    put_op(written, pair->kind->norms_joined ? RF_OP_NORM : RF_OP_COPY, RF_SLOT_JOINED,
           RF_SLOT_JOINED_IN, pair->kind->norms_joined ? pair->fc_norm : NULL);
    put_op(written, RF_OP_LINEAR, RF_SLOT_JOINED_IN, (enum rf_slot)(RF_SLOT_TAP + RESULT),
           pair->fc);
    put_head(written, pair->target_norm, pair->output);
}

/* A head as EAGLE-3 has it. Its table is the target's, and its output rows, unless it has few.
 * watched: so are the
 * embedding, X, both norms and the joined rows taps, in this order. */
static inline void write_drafter(struct written *written, const struct pair *pair, int has_few,
                                 int is_watched)
{
    int32_t h = pair->kind->width;
    written_new(written, has_few ? &pair->narrow : &pair->head);
    shape_common(written, pair);
    shape_slot(written, RF_SLOT_JOINED, 2 * h, 0);
    shape_slot(written, RF_SLOT_JOINED_IN, 2 * h, 1);
    shape_slot(written, RF_SLOT_Q, 128, 0);
    shape_slot(written, RF_SLOT_K, 64, 0);
    shape_slot(written, RF_SLOT_V, 64, 0);
    shape_slot(written, RF_SLOT_ATTENDED, 128, 1);
    shape_slot(written, RF_SLOT_GATE, 160, 0);
    shape_slot(written, RF_SLOT_UP, 160, 0);
    shape_slot(written, RF_SLOT_GATED, 160, 1);
    put_op(written, RF_OP_EMBED, RF_SLOT_BRANCH, RF_SLOT_BRANCH, pair->table)->scale = 0.75f;
    put_op(written, RF_OP_EMBED, RF_SLOT_X, RF_SLOT_X, NULL);
    if (is_watched) {
        put_tap(written, RF_SLOT_BRANCH);
        put_tap(written, RF_SLOT_X);
        for (int side = 0; side < 2; side++) {
            int32_t tap = written->program.n_slots++;
            shape_slot(written, tap, h, 0);
            put_op(written, RF_OP_NORM, side ? RF_SLOT_X : RF_SLOT_BRANCH, (enum rf_slot)tap,
                   side ? pair->feature_norm : pair->embd_norm);
        }
    }
    put_op(written, RF_OP_NORM, RF_SLOT_BRANCH, RF_SLOT_JOINED, pair->embd_norm);
    put_op(written, RF_OP_NORM, RF_SLOT_X, RF_SLOT_JOINED, pair->feature_norm)->column = h;
    if (pair->kind->norms_residual)
        put_op(written, RF_OP_NORM, RF_SLOT_X, RF_SLOT_X, pair->feature_norm);
    if (is_watched) put_tap(written, RF_SLOT_JOINED);
    put_op(written, RF_OP_COPY, RF_SLOT_JOINED, RF_SLOT_JOINED_IN, NULL)->may_stop = 1;
    struct rf_op *op = put_op(written, RF_OP_LINEAR, RF_SLOT_JOINED_IN, RF_SLOT_Q, pair->q);
    op->n = 3;
    op->out[1] = RF_SLOT_K;
    op->out[2] = RF_SLOT_V;
    op->weight[1] = pair->k;
    op->weight[2] = pair->v;
    op = put_op(written, RF_OP_ROPE_STORE, RF_SLOT_Q, RF_SLOT_Q, NULL);
    op->in[1] = RF_SLOT_K;
    op->in[2] = RF_SLOT_V;
    put_op(written, RF_OP_ATTENTION, RF_SLOT_Q, RF_SLOT_ATTENDED, NULL)->scale = 1 / sqrtf(32);
    put_op(written, RF_OP_LINEAR, RF_SLOT_ATTENDED, RF_SLOT_X, pair->o)->accumulate = 1;
    put_op(written, RF_OP_NORM, RF_SLOT_X, RF_SLOT_NORMED, pair->ffn_norm);
    op = put_op(written, RF_OP_LINEAR, RF_SLOT_NORMED, RF_SLOT_GATE, pair->gate);
    op->n = 2;
    op->out[1] = RF_SLOT_UP;
    op->weight[1] = pair->up;
    put_op(written, RF_OP_SILU_GATE, RF_SLOT_GATE, RF_SLOT_GATED, NULL)->in[1] = RF_SLOT_UP;
    put_op(written, RF_OP_LINEAR, RF_SLOT_GATED, RF_SLOT_X, pair->down)->accumulate = 1;
    put_op(written, RF_OP_COPY, RF_SLOT_X, (enum rf_slot)(RF_SLOT_TAP + RESULT), NULL);
    put_head(written, pair->output_norm, has_few ? pair->few : pair->output);
}

#endif
