/* A draft head in a backend's memory: its own weights, and those of its target that it shares
 * (model/head.h). A view of the target with `head` in its options gives out features, and a view of
 * the head drafts from them:
 *
 *     feature of a position = fc of the hidden states that the head taps there
 *     row of the head at position t = the feature of t and the token at t + 1; answers t + 2
 *
 * A further row of a draft takes the result of the row before it in the feature's place (EAGLE-3:
 * Li et al., 2025, section 3). Of a head that was trained with its target (`mtp`) the feature is
 * the target's row after the output's norm, fc joins it with the embedding, and the result is the
 * row after the head's own norm: both are what an output matrix reads. */
#ifndef RF_INFER_HEAD_H
#define RF_INFER_HEAD_H

#include "infer/model.h"
#include "infer/program.h"
#include "model/head.h"

struct rf_head {
    const struct rf_allocator *allocator;
    const struct rf_head_file *file;
    const struct rf_model *target;
    struct rf_weights *weights;
    void *rows; /* a copy of the target's output rows that the head has, as stored; or NULL */
    struct rf_tensor rows_tensor;
#define RF_HEAD_FIELD(field, name, role, ne0, ne1, condition) struct rf_weight *field;
    RF_EACH_HEAD_TENSOR(RF_HEAD_FIELD)
#undef RF_HEAD_FIELD
    struct rf_layer layer; /* of a head that was trained with its target */
};

enum { RF_HEAD_RESULT = 0 /* tap of a head's view: a row's result, which a further row takes */ };

/* Loads the head's weights as they are stored. The file, the target and the queue's backend must
 * outlive the head. */
int rf_head_load(struct rf_head **head, const struct rf_head_file *file,
                 const struct rf_model *target, struct rf_queue *queue, struct rf_error *error);
void rf_head_free(struct rf_head *head);

/* The cost of a head beside a target whose weights have `form`, before either is loaded. A pass is
 * one token of a draft: pass_bytes has the rows of the target's output that it reads, which take no
 * memory of their own. */
int rf_head_cost(const struct rf_head_file *file, const struct rf_source *target,
                 enum rf_weight_form form, const struct rf_backend_kind *kind,
                 struct rf_weight_cost *cost, struct rf_error *error);

/* A view of the head on the target's queue: passes with `x`, the features or results, and tokens.
 * Of the options max_rows, kv, precision and cancel count. */
int rf_head_view_new(struct rf_view **view, const struct rf_head *head, struct rf_queue *queue,
                     const struct rf_view_options *options, struct rf_error *error);

#endif
