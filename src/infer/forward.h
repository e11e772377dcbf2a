/* One pass of the model over some rows. */
#ifndef RF_INFER_FORWARD_H
#define RF_INFER_FORWARD_H

#include <stdatomic.h>

#include "infer/backend.h"
#include "infer/model.h"

/* The activations of a session. */
struct rf_activations {
    struct rf_buffer *x;      /* the residual stream [max_rows][n_embd] */
    struct rf_buffer *normed; /* input of q, k, v and of gate, up; of the output head */
    struct rf_buffer *q, *k, *v, *attended;
    struct rf_buffer *gate, *up, *gated;
    struct rf_buffer *logits; /* [max_logits][n_vocab] */
    int32_t max_rows, max_logits;
};

int rf_activations_new(struct rf_activations *activations, struct rf_context *context,
                       const struct rf_model *model, int32_t max_rows, int32_t max_logits,
                       struct rf_error *error);

struct rf_pass {
    const struct rf_model *model;
    struct rf_context *context;
    const struct rf_activations *activations;
    const int32_t *tokens; /* [rows.n_rows] */
    struct rf_rows rows;

    /* Logits of the rows [logits_first, logits_first + n_logits), n_logits <= max_logits: row i of
     * them is row i of the logits buffer afterwards. */
    int32_t logits_first, n_logits;
    /* Or, where logprobs is not NULL: log p(targets[i]) after row logits_first + i, for i <
     * n_logits, which may be as many as there are rows. */
    const int32_t *targets;
    double *logprobs;

    const atomic_int *cancel; /* looked at in every layer; may be NULL */
    /* Called by one worker with the residual stream after each layer (-1: the embedding); for
     * tests. May be NULL. */
    void (*observe)(void *user, int32_t layer, const struct rf_buffer *x);
    void *user;

    int stopped; /* the pass's own */
};

/* 0, or RF_ERR_CANCELLED: then the KV cache of these rows is undefined and everything before is as
 * it was. */
int rf_forward(struct rf_pass *pass);

#endif
