/* The operations that a draft head adds to its target's program (features.h). program.c places them
 * behind the layers that they read. */
#include "infer/features.h"

#include "infer/head.h"

int32_t rf_features_tap(const struct rf_head *head, int32_t layer, struct rf_op *ops)
{
    int32_t n = 0;
    for (int32_t t = 0; head && !head->file->mtp_layer && t < RF_HEAD_TAPS; t++)
        if (head->file->taps[t] == layer)
            ops[n++] = (struct rf_op){.kind = RF_OP_COPY,
                                      .layer = layer,
                                      .n = 1,
                                      .column = t * head->file->n_embd_target,
                                      .in = {RF_SLOT_X},
                                      .out = {RF_SLOT_JOINED}};
    return n;
}

int32_t rf_features_ops(const struct rf_head *head, struct rf_op *ops)
{
    if (!head) return 0;
    if (head->file->mtp_layer) {
        ops[0] = (struct rf_op){.kind = RF_OP_NORM,
                                .layer = head->file->mtp_layer - 1,
                                .n = 1,
                                .in = {RF_SLOT_X},
                                .out = {(enum rf_slot)(RF_SLOT_TAP + RF_HEAD_FEATURES)},
                                .weight = {head->target->output_norm}};
        return 1;
    }
    int32_t layer = head->file->taps[RF_HEAD_TAPS - 1];
    ops[0] = (struct rf_op){.kind = head->fc_norm ? RF_OP_NORM : RF_OP_COPY,
                            .layer = layer,
                            .n = 1,
                            .in = {RF_SLOT_JOINED},
                            .out = {RF_SLOT_JOINED_IN},
                            .weight = {head->fc_norm}};
    ops[1] = (struct rf_op){.kind = RF_OP_LINEAR,
                            .layer = layer,
                            .n = 1,
                            .in = {RF_SLOT_JOINED_IN},
                            .out = {(enum rf_slot)(RF_SLOT_TAP + RF_HEAD_FEATURES)},
                            .weight = {head->fc}};
    return 2;
}

void rf_features_shape(const struct rf_head *head, struct rf_slot_shape *slots)
{
    if (!head) return;
    int32_t joined = head->file->mtp_layer ? 0 : RF_HEAD_TAPS * head->file->n_embd_target;
    slots[RF_SLOT_JOINED] = (struct rf_slot_shape){.width = joined};
    slots[RF_SLOT_JOINED_IN] = (struct rf_slot_shape){.width = joined, .is_operand = 1};
    slots[RF_SLOT_TAP + RF_HEAD_FEATURES] =
        (struct rf_slot_shape){.width = head->file->source->params.n_embd};
}
