/* Weights to fewer bits: what drafts are made of at load, and what `riffle quantize` writes. The
 * arithmetic is in microkernels/cast.h, and the same bits on every tier. */
#ifndef RF_QUANT_CAST_H
#define RF_QUANT_CAST_H

#include "microkernels/kernels.h"
#include "model/dtype.h"

enum rf_cast_target {
    RF_TARGET_MXFP4,       /* the better of two exponents */
    RF_TARGET_MXFP4_FLOOR, /* the exponent that OCP and ML-SpecQD prescribe */
    RF_TARGET_Q4,          /* Q4_K, or Q4_1 where rows are no multiple of 256 */
    RF_TARGET_Q4_0,
    RF_TARGET_Q8_0,
    RF_TARGET_BF16
};

/* The type that a matrix of `dtype` with rows of k values becomes: its own where that has no more
 * bits (the 4.25, 4.5 and 4.56 of types of four bits are as many), or where k is no multiple of a
 * block. RF_TARGET_BF16 takes all types. */
enum rf_dtype rf_cast_type(enum rf_cast_target target, enum rf_dtype dtype, int64_t k);

/* n values of the type `from`, of no alignment, to `to`, which rf_cast_type gave for this target: n
 * is a multiple of both types' blocks. */
void rf_cast_values(const struct rf_kernels *kernels, enum rf_cast_target target,
                    enum rf_dtype from, const void *data, enum rf_dtype to, void *out, size_t n);

#endif
