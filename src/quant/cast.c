/* Chooses the type that a cast gives a matrix, and casts values in stretches through F32.
 * Weights loaded for drafts and rf_quantize call it, which is why both give the same bits. */
#include "quant/cast.h"

#include <assert.h>
#include <string.h>

enum { MOST_BITS_OF_FOUR = 46 }; /* tenths of a bit */

/* The type and the kernel of each target. The second way is for rows that are not a multiple of the
 * first one's block. */
static const struct way {
    enum rf_dtype dtype;
    enum rf_cast cast;
} ways[][2] = {
    [RF_TARGET_MXFP4] = {{RF_MXFP4, RF_CAST_MXFP4}},
    [RF_TARGET_MXFP4_FLOOR] = {{RF_MXFP4, RF_CAST_MXFP4_FLOOR}},
    [RF_TARGET_Q4] = {{RF_Q4_K, RF_CAST_Q4_K}, {RF_Q4_1, RF_CAST_Q4_1}},
    [RF_TARGET_Q4_0] = {{RF_Q4_0, RF_CAST_Q4_0}},
    [RF_TARGET_Q6] = {{RF_Q6_K, RF_CAST_Q6_K}, {RF_Q8_0, RF_CAST_Q8_0}},
    [RF_TARGET_Q8_0] = {{RF_Q8_0, RF_CAST_Q8_0}},
    [RF_TARGET_W4A8] = {{.dtype = RF_W4A8}},
    [RF_TARGET_W4A8_G128] = {{.dtype = RF_W4A8_G128}, {RF_Q4_0, RF_CAST_Q4_0}},
    [RF_TARGET_W4A8_ROW] = {{.dtype = RF_W4A8_ROW}, {RF_Q4_0, RF_CAST_Q4_0}},
    [RF_TARGET_BF16] = {{.dtype = RF_BF16}},
};

static uint32_t bits_in_tenths(enum rf_dtype dtype)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    return 80 * info->block_bytes / info->block_elems;
}

enum rf_dtype rf_cast_type(enum rf_cast_target target, enum rf_dtype dtype, int64_t k)
{
    const struct way *way = ways[target];
    enum rf_dtype wanted = way[way[1].cast && k % rf_dtype_info(way->dtype)->block_elems].dtype;
    if (wanted == RF_BF16) return RF_BF16;
    uint32_t bits = bits_in_tenths(dtype);
    if (bits <= MOST_BITS_OF_FOUR || bits <= bits_in_tenths(wanted) ||
        k % rf_dtype_info(wanted)->block_elems)
        return dtype;
    return wanted;
}

void rf_cast_values(const struct rf_kernels *kernels, enum rf_cast_target target,
                    enum rf_dtype from, const void *data, enum rf_dtype to, void *out, size_t n)
{
    /* Small enough for the first cache; a multiple of every type's block and of every kernel's
     * batch. */
    enum { STRETCH = 1024 };
    float x[STRETCH];
    if (from == to) {
        memcpy(out, data, rf_dtype_bytes(from, n));
        return;
    }
    if (to == RF_BF16) {
        rf_dequantize_bf16(from, data, out, n);
        return;
    }
    const struct way *way = &ways[target][ways[target][0].dtype != to];
    assert(way->dtype == to);
    for (size_t i = 0; i < n; i += STRETCH) {
        size_t count = n - i < STRETCH ? n - i : STRETCH;
        rf_dequantize_f32(from, (const char *)data + rf_dtype_bytes(from, i), x, count);
        kernels->cast[way->cast]((char *)out + rf_dtype_bytes(to, i), x, count);
    }
}
