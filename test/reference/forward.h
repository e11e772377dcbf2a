/* The oracle: a forward pass in plain loops, one token at a time. Tests compare every backend and
 * tier of the engine with it. */
#ifndef RF_TEST_REFERENCE_FORWARD_H
#define RF_TEST_REFERENCE_FORWARD_H

#include <stdint.h>

#include "model/source.h"

enum reference_rounding {
    REFERENCE_EXACT = 0, /* nothing is rounded below F32 */
    /* Rounded where the engine rounds: weights of linear layers and embedding rows to BF16, the
     * input row of every linear layer to BF16, keys (after rotation) and values to F16. */
    REFERENCE_BF16 = 1,
    /* The same with quantised weights as they are, their input rows rounded to 8 bits
     * (microkernels/panel.h), and embedding rows as they are. */
    REFERENCE_STORED = 2
};

/* `hidden` [n_embd] is the residual stream of the token at `position` after `layer` (0 ..
 * n_layer-1). */
typedef void reference_on_layer(void *user, int32_t layer, int32_t position, const float *hidden);

/* Logits [n_tokens][n_vocab] of `tokens`, read from position 0. on_layer may be NULL. Sums are
 * accumulated in double. Returns 0, or -1 when a tensor is missing or memory runs out. */
int reference_logits(const struct rf_source *source, enum reference_rounding rounding,
                     const int32_t *tokens, int32_t n_tokens, reference_on_layer *on_layer,
                     void *user, float *logits);

#endif
