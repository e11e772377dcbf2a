/* Casts weights to fewer bits, for drafts at load and for `riffle quantize`. microkernels/cast.h
 * defines the arithmetic, which gives the same bits on every tier. */
#ifndef RF_QUANT_CAST_H
#define RF_QUANT_CAST_H

#include "microkernels/kernels.h"
#include "model/dtype.h"

enum rf_cast_target {
    RF_TARGET_MXFP4,       /* the better of two exponents */
    RF_TARGET_MXFP4_FLOOR, /* the exponent of the rule of OCP and ML-SpecQD */
    RF_TARGET_Q4,          /* Q4_K, or Q4_1 where rows are not a multiple of 256 */
    RF_TARGET_Q4_0,
    RF_TARGET_Q6, /* Q6_K, or Q8_0 where rows are not a multiple of 256 */
    RF_TARGET_Q8_0,
    RF_TARGET_W4A8,      /* only by calibrating: the functions below do not make it */
    RF_TARGET_W4A8_G128, /* or Q4_0 where rows are not a multiple of 128, or very long */
    RF_TARGET_W4A8_ROW,  /* likewise, of 64; only by calibrating */
    RF_TARGET_BF16
};

static inline int rf_is_w4a8(enum rf_cast_target target)
{
    return target >= RF_TARGET_W4A8 && target <= RF_TARGET_W4A8_ROW;
}

/* The type that a matrix of `dtype` with rows of k values becomes. It keeps its type if that has no
 * more bits than the target (all 4-bit types, of 4.25 to 4.56 bits, count as equal), or if k is not
 * a multiple of the target's block. RF_TARGET_BF16 converts all types. */
enum rf_dtype rf_cast_type(enum rf_cast_target target, enum rf_dtype dtype, int64_t k);

/* Converts n values of type `from`, which may be unaligned, to type `to`, the result of
 * rf_cast_type for this target but W4A8_G128. n is a multiple of both types' blocks. */
void rf_cast_values(const struct rf_kernels *kernels, enum rf_cast_target target,
                    enum rf_dtype from, const void *data, enum rf_dtype to, void *out, size_t n);

/* Converts whole rows of k values one behind the other; to W4A8_G128, too, whose rows have a number
 * of their own. */
void rf_cast_rows(const struct rf_kernels *kernels, enum rf_cast_target target, enum rf_dtype from,
                  const void *data, enum rf_dtype to, void *out, size_t rows, size_t k);

#endif
