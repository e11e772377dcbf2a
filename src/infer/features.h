/* The features of a draft head in its target's program: copies of the results of the layers that it
 * taps, side by side, and fc of them; or all rows after the output's norm (infer/head.h). */
#ifndef RF_INFER_FEATURES_H
#define RF_INFER_FEATURES_H

#include "infer/backend.h"
#include "model/head.h"

struct rf_head;

enum {
    RF_HEAD_FEATURES = 0,             /* tap of the target's view that gives them out */
    RF_FEATURE_OPS = RF_HEAD_TAPS + 2 /* most operations that are added */
};

/* All take NULL for no head. Writes the copy behind a layer, if the head taps it; returns how many
 * operations that are. */
int32_t rf_features_tap(const struct rf_head *head, int32_t layer, struct rf_op *ops);
/* Writes the operations behind all layers. */
int32_t rf_features_ops(const struct rf_head *head, struct rf_op *ops);
/* Shapes the slots that they use. */
void rf_features_shape(const struct rf_head *head, struct rf_slot_shape *slots);

#endif
