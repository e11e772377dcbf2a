/* The table of element types, made of RF_EACH_DTYPE. Everything that needs a type's name or the
 * size of its blocks asks it. */
#include "model/dtype.h"

#include <assert.h>

static const struct rf_dtype_info types[RF_DTYPE_LIMIT] = {
#define ROW(NAME, number, block_elems, block_bytes, file_type) \
    [RF_##NAME] = {#NAME, block_elems, block_bytes, file_type},
    RF_EACH_DTYPE(ROW)
#undef ROW
};

const struct rf_dtype_info *rf_dtype_info(int64_t dtype)
{
    if (dtype < 0 || dtype >= RF_DTYPE_LIMIT || !types[dtype].name) return NULL;
    return &types[dtype];
}

const char *rf_file_type_name(uint32_t file_type)
{
    /* llama.cpp's include/llama.h. The numbers that are left out were withdrawn. */
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
        [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
        [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
        [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS",
        [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",  [27] = "IQ3_M",
        [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",  [32] = "BF16",
        [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4"};
    enum { N_NAMES = sizeof names / sizeof *names };
    return file_type < N_NAMES && names[file_type] ? names[file_type] : "";
}

size_t rf_dtype_bytes(enum rf_dtype dtype, size_t n)
{
    const struct rf_dtype_info *info = &types[dtype];
    assert(n % info->block_elems == 0);
    return n / info->block_elems * info->block_bytes;
}
