/* The element types of model files: names, block geometry, and conversion to floats. */
#ifndef RF_MODEL_DTYPE_H
#define RF_MODEL_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* The numbers are GGUF's (ggml_type): a file's type number is a value of this enum. */
enum rf_dtype {
    RF_F32 = 0,
    RF_F16 = 1,
    RF_Q4_0 = 2,
    RF_Q4_1 = 3,
    RF_Q5_0 = 6,
    RF_Q5_1 = 7,
    RF_Q8_0 = 8,
    RF_Q2_K = 10,
    RF_Q3_K = 11,
    RF_Q4_K = 12,
    RF_Q5_K = 13,
    RF_Q6_K = 14,
    RF_BF16 = 30,
    RF_MXFP4 = 39,
    RF_DTYPE_LIMIT = 40
};

struct rf_dtype_info {
    const char *name;     /* "Q4_K" */
    uint32_t block_elems; /* elements of one block; 1 for the float types */
    uint32_t block_bytes;
};

/* NULL for a number that is not in enum rf_dtype. */
const struct rf_dtype_info *rf_dtype_info(int64_t dtype);

/* The bytes of n elements; n is a multiple of the type's block. */
size_t rf_dtype_bytes(enum rf_dtype dtype, size_t n);

/* Converts n elements (a multiple of the type's block) at `data`, which may be unaligned, to F32 or
 * to BF16 (round to nearest even; NaNs stay NaN). Each quantised value is computed in F32 exactly
 * as ggml's dequantize_row_* defines it. */
void rf_dequantize_f32(enum rf_dtype dtype, const void *data, float *out, size_t n);
void rf_dequantize_bf16(enum rf_dtype dtype, const void *data, uint16_t *out, size_t n);

#endif
