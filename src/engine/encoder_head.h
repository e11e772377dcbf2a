/* The layers behind an encoder's pooled row, computed on the host: those that its vector goes
 * through, or a reranker's head. encoder.c calls this. */
#ifndef RF_ENGINE_ENCODER_HEAD_H
#define RF_ENGINE_ENCODER_HEAD_H

#include "model/source.h"

/* A linear layer, [rows][columns]; rows is 0: there is none. */
struct rf_head_layer {
    float *weight, *bias; /* bias may be NULL */
    int32_t rows, columns;
};

enum rf_head_part { RF_HEAD_CLS, RF_HEAD_CLS_OUT, RF_HEAD_DENSE_2, RF_HEAD_DENSE_3, RF_HEAD_PARTS };

struct rf_encoder_head {
    const struct rf_allocator *allocator;
    struct rf_head_layer layers[RF_HEAD_PARTS];
    float *norm; /* behind the first layer of a reranker; or NULL */
    float *results, *inner;
    float eps;
    int32_t width;
    int has_gelu; /* in the place of tanh */
};

/* Loads what the source's pooling needs. Free it after a failure, too. */
int rf_encoder_head_load(struct rf_encoder_head *head, const struct rf_source *source,
                         const struct rf_allocator *allocator, struct rf_error *error);
void rf_encoder_head_free(struct rf_encoder_head *head);

/* The score of a pooled row, [width]. */
float rf_encoder_head_score(struct rf_encoder_head *head, const float *x);
/* Puts a pooled row, [width], through the layers behind the pooling, if there are any. */
void rf_encoder_head_apply(struct rf_encoder_head *head, float *x);

#endif
