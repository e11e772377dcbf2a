/* Quantised blocks back to floats. Each function below converts one block. Formulas and order of
 * operations are those of ggml's dequantize_row_* functions, so that the values have the same bits.
 * The loops suit the compiler's vectoriser: 32-bit integers, no branches, and a table of masks
 * instead of shifts that differ by lane. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "model/dtype.h"
#include "model/iq.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "model files are read in place: little-endian hosts only");

static inline uint16_t load_u16(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline float load_f16(const uint8_t *p)
{
    return rf_f16_to_f32(load_u16(p));
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static const uint32_t bit_mask[32] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

/* ---- blocks of 32: element i is the low nibble of byte i, element i + 16 its high nibble ---- */

static void dequant_q4_0(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block);
    const uint8_t *q = block + 2;
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((int)(q[i] & 15) - 8);
        out[i + 16] = d * (float)((int)(q[i] >> 4) - 8);
    }
}

static void dequant_q4_1(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block), m = load_f16(block + 2);
    const uint8_t *q = block + 4;
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(int)(q[i] & 15) + m;
        out[i + 16] = d * (float)(int)(q[i] >> 4) + m;
    }
}

static void dequant_q5_0(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block);
    uint32_t high = load_u32(block + 2);
    const uint8_t *q = block + 6;
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((int)(q[i] & 15) - (high & bit_mask[i] ? 0 : 16));
        out[i + 16] = d * (float)((int)(q[i] >> 4) - (high & bit_mask[i + 16] ? 0 : 16));
    }
}

static void dequant_q5_1(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block), m = load_f16(block + 2);
    uint32_t high = load_u32(block + 4);
    const uint8_t *q = block + 8;
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((int)(q[i] & 15) + (high & bit_mask[i] ? 16 : 0)) + m;
        out[i + 16] = d * (float)((int)(q[i] >> 4) + (high & bit_mask[i + 16] ? 16 : 0)) + m;
    }
}

static void dequant_q8_0(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block);
    const uint8_t *q = block + 2;
    for (int i = 0; i < 32; i++) out[i] = (float)(int)(int8_t)q[i] * d;
}

/* OCP Microscaling Formats v1.0, section 5.3: an E8M0 scale and 32 E2M1 elements. The table holds
 * twice the values of the elements, and the scale is halved to match. As in ggml, scales 0 and 1
 * give denormals, and 255 is not treated as NaN. */
static void dequant_mxfp4(const uint8_t *restrict block, float *restrict out)
{
    static const float doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    uint32_t e = block[0];
    float d = rf_bits_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    const uint8_t *q = block + 1;
    for (int i = 0; i < 16; i++) {
        out[i] = d * doubled[q[i] & 15];
        out[i + 16] = d * doubled[q[i] >> 4];
    }
}

/* Levels that fit normally distributed weights better than equal steps do. */
static const float iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

static void dequant_iq4_nl(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block);
    const uint8_t *q = block + 2;
    for (int i = 0; i < 16; i++) {
        out[i] = d * iq4_levels[q[i] & 15];
        out[i + 16] = d * iq4_levels[q[i] >> 4];
    }
}

/* dtype.h has its definition. */
static void dequant_w4a8(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block);
    const uint8_t *q = block + 2;
    for (int i = 0; i < 32; i++) {
        out[i] = d * (float)((int)(q[i] & 15) - 8);
        out[i + 32] = d * (float)((int)(q[i] >> 4) - 8);
    }
}

static void dequant_w4a8_g128(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block) * 0.0625f;
    int a = (int8_t)block[2];
    for (int half = 0; half < 2; half++, out += 64) {
        const uint8_t *q = block + 3 + 32 * half;
        for (int i = 0; i < 32; i++) {
            out[i] = d * (float)(a * ((int)(q[i] & 15) - 8));
            out[i + 32] = d * (float)(a * ((int)(q[i] >> 4) - 8));
        }
    }
}

/* ---- blocks of 256 ("K quants"): 8 groups of 32 or 16 of 16, each with a small scale under the
 * block's ---- */

static void dequant_q2_k(const uint8_t *restrict block, float *restrict out)
{
    const uint8_t *scales = block, *q = block + 16;
    float d = load_f16(block + 80), dmin = load_f16(block + 82);
    for (int group = 0; group < 16; group++) {
        float scale = d * (float)(int)(scales[group] & 15),
              min = dmin * (float)(int)(scales[group] >> 4);
        const uint8_t *bytes = q + 32 * (group / 8) + 16 * (group % 2);
        int shift = group / 2 % 4 * 2;
        for (int i = 0; i < 16; i++)
            out[16 * group + i] = scale * (float)((bytes[i] >> shift) & 3) - min;
    }
}

static void dequant_q3_k(const uint8_t *restrict block, float *restrict out)
{
    const uint8_t *high = block, *q = block + 32, *packed = block + 96;
    float d = load_f16(block + 108);
    for (int group = 0; group < 16; group++) {
        int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
        int scale6 = low | ((packed[8 + group % 4] >> (group / 4 * 2)) & 3) << 4;
        float scale = d * (float)(scale6 - 32);
        const uint8_t *bytes = q + 32 * (group / 8) + 16 * (group % 2),
                      *mask = high + 16 * (group % 2);
        int shift = group / 2 % 4 * 2, bit = 1 << (group / 2);
        for (int i = 0; i < 16; i++)
            out[16 * group + i] =
                scale * (float)(((bytes[i] >> shift) & 3) - (mask[i] & bit ? 0 : 4));
    }
}

/* The eight 6-bit scales and minima of Q4_K and Q5_K in their 12 bytes. */
static void k_scales(const uint8_t *packed, float d, float dmin, float scale[8], float min[8])
{
    for (int i = 0; i < 4; i++) {
        scale[i] = d * (float)(packed[i] & 63);
        min[i] = dmin * (float)(packed[i + 4] & 63);
        scale[i + 4] = d * (float)((packed[i + 8] & 15) | packed[i] >> 6 << 4);
        min[i + 4] = dmin * (float)(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
    }
}

static void dequant_q4_k(const uint8_t *restrict block, float *restrict out)
{
    float scale[8], min[8];
    k_scales(block + 4, load_f16(block), load_f16(block + 2), scale, min);
    const uint8_t *q = block + 16;
    for (int pair = 0; pair < 4; pair++, q += 32, out += 64) {
        float d0 = scale[2 * pair], m0 = min[2 * pair], d1 = scale[2 * pair + 1],
              m1 = min[2 * pair + 1];
        for (int i = 0; i < 32; i++) {
            out[i] = d0 * (float)(int)(q[i] & 15) - m0;
            out[i + 32] = d1 * (float)(int)(q[i] >> 4) - m1;
        }
    }
}

static void dequant_q5_k(const uint8_t *restrict block, float *restrict out)
{
    float scale[8], min[8];
    k_scales(block + 4, load_f16(block), load_f16(block + 2), scale, min);
    const uint8_t *high = block + 16, *q = block + 48;
    for (int pair = 0; pair < 4; pair++, q += 32, out += 64) {
        float d0 = scale[2 * pair], m0 = min[2 * pair], d1 = scale[2 * pair + 1],
              m1 = min[2 * pair + 1];
        int bit0 = 1 << (2 * pair), bit1 = 2 << (2 * pair);
        for (int i = 0; i < 32; i++) {
            out[i] = d0 * (float)((q[i] & 15) + (high[i] & bit0 ? 16 : 0)) - m0;
            out[i + 32] = d1 * (float)((q[i] >> 4) + (high[i] & bit1 ? 16 : 0)) - m1;
        }
    }
}

static void dequant_q6_k(const uint8_t *restrict block, float *restrict out)
{
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    float d = load_f16(block + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, scales += 8, out += 128) {
        for (int part = 0; part < 2; part++) {
            float s[4];
            for (int j = 0; j < 4; j++) s[j] = d * (float)(int)(int8_t)scales[2 * j + part];
            const uint8_t *l = low + 16 * part, *h = high + 16 * part;
            float *o = out + 16 * part;
            for (int i = 0; i < 16; i++) {
                o[i] = s[0] * (float)(((l[i] & 15) | (h[i] & 3) << 4) - 32);
                o[i + 32] = s[1] * (float)(((l[i + 32] & 15) | (h[i] >> 2 & 3) << 4) - 32);
                o[i + 64] = s[2] * (float)((l[i] >> 4 | (h[i] >> 4 & 3) << 4) - 32);
                o[i + 96] = s[3] * (float)((l[i + 32] >> 4 | h[i] >> 6 << 4) - 32);
            }
        }
    }
}

/* An F16 d; the upper two bits of eight scales, then their lower four; and eight groups of codes as
 * in IQ4_NL. A scale is less 32. */
static void dequant_iq4_xs(const uint8_t *restrict block, float *restrict out)
{
    float d = load_f16(block);
    uint32_t upper = load_u16(block + 2);
    const uint8_t *q = block + 8;
    for (int g = 0; g < 8; g++, q += 16, out += 32) {
        uint32_t low = block[4 + g / 2] >> g % 2 * 4 & 15u;
        float s = d * (float)((int)(low | (upper >> 2 * g & 3) << 4) - 32);
        for (int i = 0; i < 16; i++) {
            out[i] = s * iq4_levels[q[i] & 15];
            out[i + 16] = s * iq4_levels[q[i] >> 4];
        }
    }
}

/* iq.h has the formula. ggml multiplies in another order, to the same bits. */
static void dequant_iq(enum rf_dtype dtype, const uint8_t *restrict block, float *restrict out)
{
    const int8_t *levels = rf_iq_levels(dtype);
    struct rf_iq_block taken;
    rf_iq_unpack(dtype, block, &taken);
    for (int i = 0; i < 256; i++)
        out[i] =
            taken.d * (float)taken.a[i / 16] * (float)levels[taken.codes[i / 8] >> i % 8 * 8 & 15];
}

typedef void block_fn(const uint8_t *restrict block, float *restrict out);

static block_fn *const block_of[RF_DTYPE_LIMIT] = {
    [RF_Q4_0] = dequant_q4_0,     [RF_Q4_1] = dequant_q4_1,     [RF_Q5_0] = dequant_q5_0,
    [RF_Q5_1] = dequant_q5_1,     [RF_Q8_0] = dequant_q8_0,     [RF_Q2_K] = dequant_q2_k,
    [RF_Q3_K] = dequant_q3_k,     [RF_Q4_K] = dequant_q4_k,     [RF_Q5_K] = dequant_q5_k,
    [RF_Q6_K] = dequant_q6_k,     [RF_MXFP4] = dequant_mxfp4,   [RF_W4A8] = dequant_w4a8,
    [RF_IQ4_NL] = dequant_iq4_nl, [RF_IQ4_XS] = dequant_iq4_xs, [RF_W4A8_G128] = dequant_w4a8_g128,
    [RF_W4A8_ROW] = dequant_w4a8,
};

static void f32_of_f16_row(const uint8_t *restrict data, float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = load_f16(data + 2 * i);
}

static void f32_of_bf16_row(const uint8_t *restrict data, float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = rf_bf16_to_f32(load_u16(data + 2 * i));
}

void rf_dequantize_f32(enum rf_dtype dtype, const void *data, float *out, size_t n)
{
    const uint8_t *bytes = data;
    if (dtype == RF_F32) {
        if (n) memcpy(out, bytes, n * sizeof *out);
    } else if (dtype == RF_F16) {
        f32_of_f16_row(bytes, out, n);
    } else if (dtype == RF_BF16) {
        f32_of_bf16_row(bytes, out, n);
    } else {
        const struct rf_dtype_info *info = rf_dtype_info(dtype);
        block_fn *block = block_of[dtype];
        assert(n % info->block_elems == 0);
        for (size_t i = 0; i < n; i += info->block_elems, bytes += info->block_bytes)
            if (block)
                block(bytes, out + i);
            else
                dequant_iq(dtype, bytes, out + i);
    }
}

void rf_dequantize_bf16(enum rf_dtype dtype, const void *data, uint16_t *out, size_t n)
{
    if (dtype == RF_BF16) {
        if (n) memcpy(out, data, n * sizeof *out);
        return;
    }
    /* Small enough for the first cache; a multiple of every type's block. */
    enum { STRETCH = 256 };
    float buffer[STRETCH];
    const uint8_t *bytes = data;
    size_t step = rf_dtype_bytes(dtype, STRETCH);
    for (size_t i = 0; i < n; i += STRETCH, bytes += step) {
        size_t count = n - i < STRETCH ? n - i : STRETCH;
        rf_dequantize_f32(dtype, bytes, buffer, count);
        for (size_t j = 0; j < count; j++) out[i + j] = rf_f32_to_bf16(buffer[j]);
    }
}
