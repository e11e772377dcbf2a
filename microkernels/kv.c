/* Quantises groups of keys and values to codes with a scale and a middle, and reads single values
 * back. It fixes the order of the codes that the kernels of attention_kv.h expect. The cache of
 * src/cpu calls it when a group is full. */
#include "microkernels/kv.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

enum { LANES = 16, DEPTH = 8 /* values of k in the bytes of one 64-byte line for each lane */ };

static const float MIDDLE = 128, MOST_CODE = 255, STEPS = 240;

#define STEP(n) (2 * (n)-127) / 256.0f
#define BY_64(n) STEP(n), STEP((n) + 64)
#define BY_32(n) BY_64(n), BY_64((n) + 32)
#define BY_16(n) BY_32(n), BY_32((n) + 16)
#define BY_8(n) BY_16(n), BY_16((n) + 8)
#define BY_4(n) BY_8(n), BY_8((n) + 4)
#define BY_2(n) BY_4(n), BY_4((n) + 2)
const float rf_kv_dither[RF_KV_GROUP] = {BY_2(0), BY_2(1)};

/* The byte that holds the nibble of a row, and how far it is shifted there. `depth` is the number
 * of values of k. */
static size_t kv_place_of(size_t row, size_t k, size_t depth, int *shift)
{
    *shift = k % DEPTH < DEPTH / 2 ? 0 : 4;
    return (row / LANES * (depth / DEPTH) + k / DEPTH) * (LANES * DEPTH / 2) + row % LANES * 4 +
           k % 4;
}

static void kv_put_code(uint8_t *upper, uint8_t *lower, size_t row, size_t k, size_t depth,
                        int code)
{
    int shift;
    size_t at = kv_place_of(row, k, depth, &shift);
    upper[at] = (uint8_t)(upper[at] | (code >> 4) << shift);
    if (lower) lower[at] = (uint8_t)(lower[at] | (code & 15) << shift);
}

int rf_kv_code(const uint8_t *upper, const uint8_t *lower, size_t row, size_t k, size_t depth)
{
    int shift;
    size_t at = kv_place_of(row, k, depth, &shift);
    return (upper[at] >> shift & 15) << 4 | (lower ? lower[at] >> shift & 15 : 8);
}

/* Scale and middle of a channel's or a token's n values, as F16; codes are relative to them as they
 * are rounded. */
static void kv_choose_scale(const float *x, size_t n, uint16_t *scale, uint16_t *middle)
{
    float least = x[0], most = x[0];
    int is_finite = 1;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) is_finite = 0;
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    *scale = rf_f32_to_f16(is_finite ? (most - least) / STEPS : 0.0f);
    *middle = rf_f32_to_f16(is_finite ? least + (most - least) / 2 : NAN);
}

static int kv_code_of(float x, float scale, float middle)
{
    float code = scale > 0 ? rintf((x - middle) / scale) + MIDDLE : MIDDLE;
    if (!(code >= 0)) return 0;
    return code > MOST_CODE ? (int)MOST_CODE : (int)code;
}

void rf_kv_quantize(void *upper, void *lower, const uint16_t *k, const uint16_t *v, size_t dim)
{
    size_t padded = (dim + LANES - 1) / LANES * LANES;
    memset(upper, 0, rf_kv_upper_bytes(padded));
    if (lower) memset(lower, 0, rf_kv_lower_bytes(padded));
    uint8_t *k_upper = upper, *k_lower = lower, *v_upper = k_upper + rf_kv_nibbles(padded),
            *v_lower = lower ? k_lower + rf_kv_nibbles(padded) : NULL;
    uint16_t *k_scale = (uint16_t *)(void *)(v_upper + rf_kv_nibbles(padded)),
             *k_middle = k_scale + padded, *v_scale = k_middle + padded,
             *v_middle = v_scale + RF_KV_GROUP;
    float x[RF_KV_GROUP];
    for (size_t j = 0; j < dim; j++) {
        for (size_t p = 0; p < RF_KV_GROUP; p++)
            x[p] = rf_f16_to_f32(k[(p / LANES * dim + j) * LANES + p % LANES]);
        kv_choose_scale(x, RF_KV_GROUP, &k_scale[j], &k_middle[j]);
        float scale = rf_f16_to_f32(k_scale[j]), middle = rf_f16_to_f32(k_middle[j]);
        for (size_t p = 0; p < RF_KV_GROUP; p++)
            kv_put_code(k_upper, k_lower, p, j, padded, kv_code_of(x[p], scale, middle));
    }
    for (size_t p = 0; p < RF_KV_GROUP; p++) {
        float row[RF_KV_MOST_DIM] = {0};
        for (size_t j = 0; j < dim; j++) row[j] = rf_f16_to_f32(v[p * padded + j]);
        kv_choose_scale(row, dim, &v_scale[p], &v_middle[p]);
        float scale = rf_f16_to_f32(v_scale[p]), middle = rf_f16_to_f32(v_middle[p]);
        for (size_t j = 0; j < dim; j++)
            kv_put_code(v_upper, v_lower, j, p, RF_KV_GROUP, kv_code_of(row[j], scale, middle));
    }
}

static float kv_number_of(int code, uint16_t scale, uint16_t middle)
{
    return (float)(code - (int)MIDDLE) * rf_f16_to_f32(scale) + rf_f16_to_f32(middle);
}

float rf_kv_key(const struct rf_kv_group *group, size_t p, size_t j, size_t padded_dim)
{
    return kv_number_of(rf_kv_code(group->k_upper, group->k_lower, p, j, padded_dim),
                        group->k_scale[j], group->k_middle[j]);
}

float rf_kv_value(const struct rf_kv_group *group, size_t p, size_t j)
{
    return kv_number_of(rf_kv_code(group->v_upper, group->v_lower, j, p, RF_KV_GROUP),
                        group->v_scale[p], group->v_middle[p]);
}
