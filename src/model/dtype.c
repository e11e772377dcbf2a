#include "model/dtype.h"

#include <assert.h>

/* Block geometry of GGUF's types: docs/gguf.md of the ggml project. */
static const struct rf_dtype_info types[RF_DTYPE_LIMIT] = {
    [RF_F32] = {"F32", 1, 4},       [RF_F16] = {"F16", 1, 2},       [RF_BF16] = {"BF16", 1, 2},
    [RF_Q4_0] = {"Q4_0", 32, 18},   [RF_Q4_1] = {"Q4_1", 32, 20},   [RF_Q5_0] = {"Q5_0", 32, 22},
    [RF_Q5_1] = {"Q5_1", 32, 24},   [RF_Q8_0] = {"Q8_0", 32, 34},   [RF_Q2_K] = {"Q2_K", 256, 84},
    [RF_Q3_K] = {"Q3_K", 256, 110}, [RF_Q4_K] = {"Q4_K", 256, 144}, [RF_Q5_K] = {"Q5_K", 256, 176},
    [RF_Q6_K] = {"Q6_K", 256, 210}, [RF_MXFP4] = {"MXFP4", 32, 17},
};

const struct rf_dtype_info *rf_dtype_info(int64_t dtype)
{
    if (dtype < 0 || dtype >= RF_DTYPE_LIMIT || !types[dtype].name) return NULL;
    return &types[dtype];
}

size_t rf_dtype_bytes(enum rf_dtype dtype, size_t n)
{
    const struct rf_dtype_info *info = &types[dtype];
    assert(n % info->block_elems == 0);
    return n / info->block_elems * info->block_bytes;
}
