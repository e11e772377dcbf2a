/* The element types of model files: names, block geometry, and conversion to floats. */
#ifndef RF_MODEL_DTYPE_H
#define RF_MODEL_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
/* X(NAME, number, block_elems, block_bytes, file_type). The number is GGUF's (ggml_type), the
 * geometry is that of ggml's docs/gguf.md, the others are fields of struct rf_dtype_info. */
#define RF_EACH_DTYPE(X) \
    X(F32,   0,  1,   4,   0)  \
    X(F16,   1,  1,   2,   1)  \
    X(Q4_0,  2,  32,  18,  2)  \
    X(Q4_1,  3,  32,  20,  3)  \
    X(Q5_0,  6,  32,  22,  8)  \
    X(Q5_1,  7,  32,  24,  9)  \
    X(Q8_0,  8,  32,  34,  7)  \
    X(Q2_K,  10, 256, 84,  10) \
    X(Q3_K,  11, 256, 110, 11) \
    X(Q4_K,  12, 256, 144, 14) \
    X(Q5_K,  13, 256, 176, 16) \
    X(Q6_K,  14, 256, 210, 18) \
    X(IQ2_XXS, 16, 256, 66, 19) \
    X(IQ2_XS, 17, 256, 74, 20) \
    X(IQ3_XXS, 18, 256, 98, 23) \
    X(IQ1_S, 19, 256, 50,  24) \
    X(IQ4_NL, 20, 32, 18,  25) \
    X(IQ3_S, 21, 256, 110, 26) \
    X(IQ2_S, 22, 256, 82,  28) \
    X(IQ4_XS, 23, 256, 136, 30) \
    X(IQ1_M, 29, 256, 56,  31) \
    X(BF16,  30, 1,   2,   32) \
    X(TQ1_0, 34, 256, 54,  36) \
    X(TQ2_0, 35, 256, 66,  37) \
    X(MXFP4, 39, 32,  17,  38) \
    X(W4A8,  63, 64,  34,  1024) \
    X(W4A8_G128, 64, 128, 67, 1025) \
    X(W4A8_ROW,  65, 64,  34, 1026)

/* A file's type number is a value of this enum, but for RF_W4A8 and those behind it. */
enum rf_dtype {
#define RF_ROW(NAME, number, ...) RF_##NAME = number,
    RF_EACH_DTYPE(RF_ROW)
#undef RF_ROW
    RF_DTYPE_LIMIT /* above every number: the last row has the greatest */
};
/* clang-format on */

/* W4A8: symmetric 4-bit weights that are meant for 8-bit rows (QQQ). A block is an F16 scale d and
 * 64 codes, value = d (code - 8). Byte i has the code of value i in its low half and that of value
 * 32 + i in its high half. Blocks of a row share d in groups of RF_W4A8_GROUP values, 0: in all of
 * the row. In a file the blocks are I8, whose rows are as long as the row's bytes, and the UINT32
 * of this key says that they are blocks. */
#define RF_W4A8_KEY "riffle.w4a8.group"

/* The same with sums that stay integers to the end of a row, which has one scale d, the same in all
 * of its blocks. W4A8_ROW: blocks as above. W4A8_G128: 128 values, d, an integer a of 8 bits from
 * -15 to 15 but 0, and the codes of 64 values and of the next 64 as above; value = d / 16 a (code -
 * 8). Their files have a UINT32 of this key, too, the number of levels of scales: 1 or 2. */
#define RF_W4A8_LEVELS_KEY "riffle.w4a8.levels"
enum {
    RF_W4A8_MOST_A = 15,
    RF_W4A8_MOST_K = 131072 /* values of a row: their products with 8 bits are summed in 32 */
};

/* 1 for W4A8_G128 and W4A8_ROW. */
static inline int rf_is_row_dtype(enum rf_dtype dtype)
{
    return dtype == RF_W4A8_G128 || dtype == RF_W4A8_ROW;
}

struct rf_dtype_info {
    const char *name;     /* "Q4_K" */
    uint32_t block_elems; /* elements of one block; 1 for the float types */
    uint32_t block_bytes;
    uint32_t file_type; /* llama.cpp's number (LLAMA_FTYPE) of a file that is mostly of this type */
};

/* NULL for a number that is not in enum rf_dtype. */
const struct rf_dtype_info *rf_dtype_info(int64_t dtype);

/* llama.cpp's name of a file type (LLAMA_FTYPE), what makers call their mixes: "Q4_K_M". "" for one
 * that is unknown. */
const char *rf_file_type_name(uint32_t file_type);

/* The bytes of n elements; n is a multiple of the type's block. */
size_t rf_dtype_bytes(enum rf_dtype dtype, size_t n);

/* Converts n elements (a multiple of the type's block) at `data`, which may be unaligned, to F32 or
 * to BF16 (round to nearest even; NaNs stay NaN). Each quantised value is computed in F32 exactly
 * as ggml's dequantize_row_* defines it. */
void rf_dequantize_f32(enum rf_dtype dtype, const void *data, float *out, size_t n);
void rf_dequantize_bf16(enum rf_dtype dtype, const void *data, uint16_t *out, size_t n);

#endif
