/* Blocks of the types that store points of a grid, and of the ternary ones, taken apart for
 * dequant.c and weights/repack.c:
 *
 *     IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S  a point of magnitudes, and signs
 *     IQ1_S, IQ1_M                            a point of -1, 0, 1, all plus or all minus 1/8
 *     TQ1_0, TQ2_0                            digits less 1: five in a byte, or four
 *
 * All have 256 values, and a value is d a level[code]. With a scale of the file's, these factors
 * are an F32, integers and an integer: the product is exact in F32, whatever the order. */
#ifndef RF_MODEL_IQ_H
#define RF_MODEL_IQ_H

#include "model/dtype.h"

struct rf_iq_block {
    uint64_t codes[32]; /* eight in each word, the first in the lowest byte; below 16 */
    uint8_t a[16];      /* for each 16 values */
    float d;
};

/* The 16 levels of a type; NULL for another type than those above. */
const int8_t *rf_iq_levels(enum rf_dtype dtype);

void rf_iq_unpack(enum rf_dtype dtype, const uint8_t *block, struct rf_iq_block *out);

#endif
