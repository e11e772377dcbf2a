/* Chooses the type that a cast gives a matrix, and casts values in stretches through F32.
 * Weights loaded for drafts and rf_quantize call it, which is why both give the same bits. */
#include "quant/cast.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "microkernels/panel.h"

enum {
    MOST_BITS_OF_FOUR = 46, /* tenths of a bit */
    /* Values converted at a time: small enough for the first cache; a multiple of every type's
     * block and of every kernel's batch. */
    STRETCH = 2048
};

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
    if (rf_is_row_dtype(wanted) && k > RF_ROW_MOST_K) wanted = way[1].dtype;
    uint32_t bits = bits_in_tenths(dtype);
    if (bits <= MOST_BITS_OF_FOUR || bits <= bits_in_tenths(wanted) ||
        k % rf_dtype_info(wanted)->block_elems)
        return dtype;
    return wanted;
}

void rf_cast_values(const struct rf_kernels *kernels, enum rf_cast_target target,
                    enum rf_dtype from, const void *data, enum rf_dtype to, void *out, size_t n)
{
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

/* ---- W4A8_G128 ---- */

static int nearest_multiple(float scale, float unit)
{
    int a = (int)(fabsf(scale) / unit + 0.5f);
    a = a < 1 ? 1 : a > RF_ROW_MOST ? RF_ROW_MOST : a;
    return scale < 0.0f ? -a : a;
}

/* The F16 number whose sixteenths, times integers, come closest to the scales of n groups. The
 * greatest scale is 13.25 to 15 of them. */
static uint16_t number_of_row(const float *scales, size_t n)
{
    enum { TRIES = 8 };
    float most = 0.0f, least = INFINITY;
    uint16_t best = 0;
    for (size_t g = 0; g < n; g++) most = fabsf(scales[g]) > most ? fabsf(scales[g]) : most;
    for (int t = 0; t < TRIES; t++) {
        uint16_t half = rf_f32_to_f16(16.0f * most / ((float)RF_ROW_MOST - 0.25f * (float)t));
        float unit = rf_f16_to_f32(half) / 16.0f, sum = 0.0f;
        if (!(unit > 0.0f)) continue;
        for (size_t g = 0; g < n; g++) {
            float off = scales[g] - unit * (float)nearest_multiple(scales[g], unit);
            sum += off * off;
        }
        if (sum < least) {
            least = sum;
            best = half;
        }
    }
    return best;
}

static void cast_row(const struct rf_kernels *kernels, enum rf_dtype from, const char *data,
                     uint8_t *out, size_t k)
{
    float x[STRETCH], scales[RF_ROW_MOST_K / RF_ROW_GROUP];
    const size_t bytes = rf_dtype_info(RF_W4A8_G128)->block_bytes;
    for (size_t i = 0, n; i < k; i += n) {
        n = k - i < STRETCH ? k - i : STRETCH;
        rf_dequantize_f32(from, data + rf_dtype_bytes(from, i), x, n);
        kernels->cast[RF_CAST_W4A8_SCALES](scales + i / RF_ROW_GROUP, x, n);
    }
    uint16_t half = number_of_row(scales, k / RF_ROW_GROUP);
    float unit = rf_f16_to_f32(half) / 16.0f;
    for (size_t g = 0; g < k / RF_ROW_GROUP; g++) {
        memcpy(out + g * bytes, &half, sizeof half);
        out[g * bytes + 2] = unit > 0.0f ? (uint8_t)(int8_t)nearest_multiple(scales[g], unit) : 1;
    }
    for (size_t i = 0, n; i < k; i += n) {
        n = k - i < STRETCH ? k - i : STRETCH;
        if (k > STRETCH) rf_dequantize_f32(from, data + rf_dtype_bytes(from, i), x, n);
        kernels->cast[RF_CAST_W4A8_CODES](out + i / RF_ROW_GROUP * bytes, x, n);
    }
}

void rf_cast_rows(const struct rf_kernels *kernels, enum rf_cast_target target, enum rf_dtype from,
                  const void *data, enum rf_dtype to, void *out, size_t rows, size_t k)
{
    if (from == to || to != RF_W4A8_G128) {
        rf_cast_values(kernels, target, from, data, to, out, rows * k);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        cast_row(kernels, from, (const char *)data + r * rf_dtype_bytes(from, k),
                 (uint8_t *)out + r * rf_dtype_bytes(to, k), k);
}
