/* Casts of weights give the same bits on every tier. test/quant/test_cast.c checks which. */
#include <math.h>

#include "base/half.h"
#include "kcheck/kcheck.h"
#include "microkernels/panel.h"

/* Bytes and values of each cast's block. */
static const struct {
    const char *name;
    size_t bytes, block;
} casts[RF_CAST_COUNT] = {
    [RF_CAST_MXFP4_FLOOR] = {"cast_mxfp4_floor", 17, 32},
    [RF_CAST_MXFP4] = {"cast_mxfp4", 17, 32},
    [RF_CAST_Q4_0] = {"cast_q4_0", 18, 32},
    [RF_CAST_Q4_1] = {"cast_q4_1", 20, 32},
    [RF_CAST_Q4_K] = {"cast_q4_k", 144, 256},
    [RF_CAST_Q6_K] = {"cast_q6_k", 210, 256},
    [RF_CAST_Q8_0] = {"cast_q8_0", 34, 32},
    [RF_CAST_W4A8_SCALES] = {"cast_w4a8_scales", 4, 128},
    [RF_CAST_W4A8_CODES] = {"cast_w4a8_codes", 67, 128},
};

/* 32 weights: ordinary ones, or of the kinds that need care. */
static void fill(struct kcheck *check, float *x, int hard)
{
    static const float extremes[] = {0.0f,      -0.0f, INFINITY, -INFINITY, NAN,
                                     0x1p-140f, 3e38f, -1e5f,    0x1p-24f,  1.0f};
    int kind = hard ? (int)(kcheck_random(check) % 8) : 0;
    for (size_t i = 0; i < 32; i++) {
        float v = kcheck_normal(check);
        switch (kind) {
        case 1: v = 0.0f; break;
        case 2: v = extremes[kcheck_random(check) % (sizeof extremes / sizeof *extremes)]; break;
        case 3: v = fabsf(v) + 1.0f; break;
        case 4: v = -fabsf(v) - 1.0f; break;
        case 5: v = 0.25f * (float)(kcheck_random(check) % 33) - 4.0f; break; /* ties */
        case 6: v = ldexpf(v, (int)(kcheck_random(check) % 250) - 125); break;
        case 7: v = i ? 0.0f : v; break;
        default: break;
        }
        x[i] = v;
    }
}

/* The scales that blocks of W4A8_G128 have before their codes. */
static void fill_scales(struct kcheck *check, uint8_t *blocks, size_t bytes, int hard)
{
    uint16_t half = rf_f32_to_f16(hard && kcheck_random(check) % 4 == 0 ? 0.0f : 2.0f);
    for (size_t i = 0; i < bytes; i += casts[RF_CAST_W4A8_CODES].bytes) {
        int a = (int)(kcheck_random(check) % RF_ROW_MOST) + 1;
        memcpy(blocks + i, &half, sizeof half);
        blocks[i + 2] = (uint8_t)(int8_t)(kcheck_random(check) % 2 ? a : -a);
    }
}

static void check_cast(struct kcheck *check, enum rf_cast cast, size_t n, int hard)
{
    size_t bytes = n / casts[cast].block * casts[cast].bytes;
    float *x = kcheck_guarded(n * sizeof *x);
    uint8_t *got = kcheck_guarded(bytes), *wanted = kcheck_guarded(bytes);
    for (size_t i = 0; i < n; i += 32) fill(check, x + i, hard);
    if (cast == RF_CAST_W4A8_CODES) {
        fill_scales(check, wanted, bytes, hard);
        memcpy(got, wanted, bytes);
    }
    const struct rf_kernels *tables[] = {check->ref, check->kernels};
    uint8_t *results[] = {wanted, got};
    for (size_t i = 0; i < 2; i++)
        kcheck_call(check, casts[cast].name, (kcheck_kernel *)tables[i]->cast[cast],
                    (uint64_t[4]){kcheck_pointer(results[i]), kcheck_pointer(x), n}, 0.0f);
    kcheck_same(check, got, wanted, bytes, "%s of %zu values: other bits", casts[cast].name, n);
    kcheck_release(x, n * sizeof *x);
    kcheck_release(got, bytes);
    kcheck_release(wanted, bytes);
}

void kcheck_cast(struct kcheck *check)
{
    for (int cast = 0; cast < RF_CAST_COUNT; cast++)
        for (size_t blocks = 1; blocks <= 37; blocks++)
            for (int hard = 0; hard < 2; hard++)
                check_cast(check, (enum rf_cast)cast, blocks * casts[cast].block, hard);
}
