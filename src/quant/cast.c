#include "quant/cast.h"

#include <string.h>

enum { MOST_BITS_OF_FOUR = 46 }; /* tenths */

static enum rf_dtype wanted_type(enum rf_cast_target target, int64_t k)
{
    switch (target) {
    case RF_TARGET_MXFP4:
    case RF_TARGET_MXFP4_FLOOR: return RF_MXFP4;
    case RF_TARGET_Q4: return k % RF_SUPERBLOCK ? RF_Q4_1 : RF_Q4_K;
    case RF_TARGET_Q4_0: return RF_Q4_0;
    case RF_TARGET_Q8_0: return RF_Q8_0;
    case RF_TARGET_BF16: return RF_BF16;
    }
    return RF_BF16;
}

static uint32_t bits_in_tenths(enum rf_dtype dtype)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    return 80 * info->block_bytes / info->block_elems;
}

enum rf_dtype rf_cast_type(enum rf_cast_target target, enum rf_dtype dtype, int64_t k)
{
    enum rf_dtype wanted = wanted_type(target, k);
    if (wanted == RF_BF16) return RF_BF16;
    uint32_t bits = bits_in_tenths(dtype);
    if (bits <= MOST_BITS_OF_FOUR || bits <= bits_in_tenths(wanted) ||
        k % rf_dtype_info(wanted)->block_elems)
        return dtype;
    return wanted;
}

static enum rf_cast cast_to(enum rf_cast_target target, enum rf_dtype dtype)
{
    switch (dtype) {
    case RF_Q4_0: return RF_CAST_Q4_0;
    case RF_Q4_1: return RF_CAST_Q4_1;
    case RF_Q4_K: return RF_CAST_Q4_K;
    case RF_Q8_0: return RF_CAST_Q8_0;
    default: return target == RF_TARGET_MXFP4_FLOOR ? RF_CAST_MXFP4_FLOOR : RF_CAST_MXFP4;
    }
}

void rf_cast_values(const struct rf_kernels *kernels, enum rf_cast_target target,
                    enum rf_dtype from, const void *data, enum rf_dtype to, void *out, size_t n)
{
    /* Floats that stay in the first cache; a multiple of every type's block, and of the casts'
     * batches. */
    enum { STRETCH = 1024 };
    float x[STRETCH];
    if (from == to) {
        const struct rf_dtype_info *info = rf_dtype_info(from);
        memcpy(out, data, n / info->block_elems * info->block_bytes);
        return;
    }
    if (to == RF_BF16) {
        rf_dequantize_bf16(from, data, out, n);
        return;
    }
    const struct rf_dtype_info *in = rf_dtype_info(from), *made = rf_dtype_info(to);
    for (size_t i = 0; i < n; i += STRETCH) {
        size_t count = n - i < STRETCH ? n - i : STRETCH;
        rf_dequantize_f32(from, (const char *)data + i / in->block_elems * in->block_bytes, x,
                          count);
        kernels->cast[cast_to(target, to)]((char *)out + i / made->block_elems * made->block_bytes,
                                           x, count);
    }
}
