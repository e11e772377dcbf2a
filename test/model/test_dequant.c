/* Dequantisation against the reference's own results (scripts/make_dequant_fixtures.py), F16 and
 * the rounding to BF16 against arithmetic in double precision. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "model/dtype.h"
#include "support/check.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Round to nearest even by arithmetic: the scaled magnitude is an exact double, rint rounds it. */
static uint16_t bf16_by_arithmetic(float value)
{
    uint32_t sign = bits_of(value) >> 16 & 0x8000u;
    double magnitude = fabs((double)value);
    if (isinf(value)) return (uint16_t)(sign | 0x7f80u);
    int exponent = 0;
    frexp(magnitude, &exponent);
    if (exponent < -125) exponent = -125;
    double rounded = ldexp(rint(ldexp(magnitude, 8 - exponent)), exponent - 8);
    if (rounded > 0x1.fep127) return (uint16_t)(sign | 0x7f80u);
    return (uint16_t)(sign | bits_of((float)rounded) >> 16);
}

static unsigned char *read_file(const char *name, const char *suffix, size_t *bytes)
{
    char path[64];
    snprintf(path, sizeof path, "dequant/%s.%s", name, suffix);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    unsigned char *data = malloc(1 << 20);
    *bytes = data ? fread(data, 1, 1 << 20, file) : 0;
    fclose(file);
    return data;
}

static void test_type(enum rf_dtype dtype)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    size_t block_bytes = 0, wanted_bytes = 0;
    unsigned char *blocks = read_file(info->name, "blocks", &block_bytes);
    unsigned char *wanted = read_file(info->name, "f32", &wanted_bytes);
    size_t n = block_bytes / info->block_bytes * info->block_elems;
    CHECK_MSG(n > 0 && n * 4 == wanted_bytes, "dequant/%s: fixture of %zu and %zu bytes",
              info->name, block_bytes, wanted_bytes);
    /* One byte further: data in a file need not be aligned. */
    unsigned char *unaligned = malloc(block_bytes + 1);
    float *f32 = malloc((n + 1) * sizeof *f32);
    uint16_t *bf16 = malloc((n + 1) * sizeof *bf16);
    if (blocks && wanted && unaligned && f32 && bf16 && n * 4 == wanted_bytes) {
        memcpy(unaligned + 1, blocks, block_bytes);
        f32[n] = 42.0f;
        bf16[n] = 42;
        rf_dequantize_f32(dtype, unaligned + 1, f32, n);
        rf_dequantize_bf16(dtype, unaligned + 1, bf16, n);
        CHECK(f32[n] == 42.0f && bf16[n] == 42);
        int wrong = 0;
        for (size_t i = 0; i < n && wrong < 3; i++) {
            float value;
            memcpy(&value, wanted + 4 * i, sizeof value);
            int same, same_bf16;
            if (isnan(value)) {
                same = isnan(f32[i]);
                /* BF16 itself is copied; all else becomes a quiet NaN. */
                same_bf16 =
                    (bf16[i] & 0x7f80) == 0x7f80 && (bf16[i] & (dtype == RF_BF16 ? 0x7f : 0x40));
            } else {
                same = bits_of(f32[i]) == bits_of(value);
                same_bf16 = bf16[i] == bf16_by_arithmetic(value);
            }
            wrong += !same || !same_bf16;
            CHECK_MSG(same, "%s: element %zu is %a, not %a", info->name, i, (double)f32[i],
                      (double)value);
            CHECK_MSG(same_bf16, "%s: element %zu of %a is 0x%04x in BF16", info->name, i,
                      (double)value, bf16[i]);
        }
        /* A range of whole blocks in the middle is the same as that part of the whole. */
        size_t skip = info->block_elems * 3;
        rf_dequantize_bf16(dtype, blocks + 3 * info->block_bytes, bf16, n - skip);
        rf_dequantize_f32(dtype, blocks, f32, n);
        wrong = 0;
        for (size_t i = 0; i < n - skip; i++) {
            float value;
            memcpy(&value, wanted + 4 * (i + skip), sizeof value);
            if (!isnan(value)) wrong += bf16[i] != bf16_by_arithmetic(value);
        }
        CHECK_INT(wrong, 0);
    }
    free(blocks);
    free(wanted);
    free(unaligned);
    free(f32);
    free(bf16);
}

static void test_every_half(void)
{
    int wrong = 0;
    for (uint32_t half = 0; half < 0x10000; half++) {
        uint16_t stored = (uint16_t)half;
        float got;
        rf_dequantize_f32(RF_F16, &stored, &got, 1);
        int exponent = (int)(half >> 10 & 31), mantissa = (int)(half & 1023);
        float wanted;
        if (exponent == 31)
            wanted = mantissa ? NAN : INFINITY;
        else if (exponent == 0)
            wanted = ldexpf((float)mantissa, -24);
        else
            wanted = ldexpf((float)(1024 + mantissa), exponent - 25);
        if (half & 0x8000) wanted = -wanted;
        if (isnan(wanted))
            wrong += !isnan(got);
        else
            wrong += bits_of(got) != bits_of(wanted);
    }
    CHECK_INT(wrong, 0);
}

static void test_rounding(void)
{
    int wrong = 0;
    /* Every upper half with lower halves around the tie, and a step through all the rest. */
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    float in[6];
    uint16_t out[6];
    for (uint32_t high = 0; high < 0x10000; high++) {
        for (int i = 0; i < 6; i++) in[i] = float_of(high << 16 | low[i]);
        rf_dequantize_bf16(RF_F32, in, out, 6);
        for (int i = 0; i < 6; i++) {
            if (isnan(in[i]))
                wrong += (out[i] & 0x7fc0) != 0x7fc0;
            else
                wrong += out[i] != bf16_by_arithmetic(in[i]);
        }
    }
    CHECK_INT(wrong, 0);
}

static void test_table(void)
{
    int n = 0;
    for (int64_t type = -3; type < 300; type++) {
        const struct rf_dtype_info *info = rf_dtype_info(type);
        if (!info) continue;
        n++;
        CHECK(info->name[0] && info->block_elems > 0 && info->block_bytes > 0);
        CHECK(256 % info->block_elems == 0);
    }
    CHECK_INT(n, 28);
    CHECK(rf_dtype_info(INT64_MIN) == NULL && rf_dtype_info(INT64_MAX) == NULL);
}

int main(void)
{
    static const enum rf_dtype types[] = {
        RF_F16,   RF_BF16,    RF_Q4_0,   RF_Q4_1,  RF_Q5_0,    RF_Q5_1,   RF_Q8_0,   RF_Q2_K,
        RF_Q3_K,  RF_Q4_K,    RF_Q5_K,   RF_Q6_K,  RF_MXFP4,   RF_IQ4_NL, RF_IQ4_XS, RF_IQ1_S,
        RF_IQ1_M, RF_IQ2_XXS, RF_IQ2_XS, RF_IQ2_S, RF_IQ3_XXS, RF_IQ3_S,  RF_TQ1_0,  RF_TQ2_0};
    test_table();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) test_type(types[i]);
    test_every_half();
    test_rounding();
    return check_result();
}
