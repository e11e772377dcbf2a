/* MXFP4 panels times 16-bit rows on AVX2: codes and values are widened to F32 (the verifying half
 * of QSpec). */
#include <immintrin.h>

#include "microkernels/avx2/tier.h"
#include "microkernels/x86.h"

enum { MAX_ROWS = 4, PREFETCH = 2048 };

/* Twice the E2M1 values of the codes that begin at bit `bit` of eight lanes. */
INLINE __m256 value(__m256i codes, int bit)
{
    __m256 table = _mm256_setr_ps(0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 6.0f, 8.0f, 12.0f);
    __m256i sign =
        _mm256_and_si256(_mm256_slli_epi32(codes, 28 - bit), _mm256_set1_epi32((int)0x80000000));
    /* The instruction uses three bits of an index. */
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, _mm256_srli_epi32(codes, bit)),
                         _mm256_castsi256_ps(sign));
}

/* Half a panel, eight weight rows from r, times rows i .. i + nr - 1. */
INLINE void tile(const struct rf_linear_args *args, size_t r, size_t i, int nr)
{
    static const int bits[4][2] = {
        {0, 16}, {8, 24}, {4, 20}, {12, 28}}; /* of the pairs (0,2), (1,3), (4,6), (5,7) */
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k), half = r % RF_PANEL_ROWS;
    const uint16_t *x = (const uint16_t *)args->x + i * stride;
    const uint8_t *panel = (const uint8_t *)args->w + r / RF_PANEL_ROWS * args->ldw;
    const uint8_t *codes = panel + 4 * half, *scales = panel + blocks * 256 + half;
    __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    __m256 acc[MAX_ROWS];
#pragma GCC unroll 4
    for (int a = 0; a < nr; a++) acc[a] = _mm256_setzero_ps();
    for (size_t block = 0; block < blocks; block++) {
        __m256 sums[MAX_ROWS];
#pragma GCC unroll 4
        for (int a = 0; a < nr; a++) sums[a] = _mm256_setzero_ps();
        for (size_t j = 0; j < 4; j++) {
            const uint8_t *at = codes + block * 256 + 64 * j;
            __m256i eight = _mm256_load_si256((const __m256i *)(const void *)at);
            _mm_prefetch((const char *)at + PREFETCH, _MM_HINT_T0);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) {
                __m256 first = value(eight, bits[v][0]), second = value(eight, bits[v][1]);
#pragma GCC unroll 4
                for (int a = 0; a < nr; a++) {
                    const int32_t *row =
                        (const int32_t *)(const void *)(x + (size_t)a * stride + block * RF_BLOCK);
                    __m256i pair = _mm256_set1_epi32(row[4 * j + (size_t)v]);
                    sums[a] = _mm256_fmadd_ps(
                        first, _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)), sums[a]);
                    sums[a] = _mm256_fmadd_ps(
                        second, _mm256_castsi256_ps(_mm256_and_si256(pair, upper)), sums[a]);
                }
            }
        }
        __m256i e = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)(scales + block * 16)));
        __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
#pragma GCC unroll 4
        for (int a = 0; a < nr; a++) acc[a] = _mm256_fmadd_ps(sums[a], scale, acc[a]);
    }
    size_t left = args->m - r;
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left < 8 ? (int)left : 8),
                                      _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
#pragma GCC unroll 4
    for (int a = 0; a < nr; a++) {
        float *y = args->y + (i + (size_t)a) * args->ldy + r;
        if (args->bias) acc[a] = _mm256_add_ps(acc[a], _mm256_maskload_ps(args->bias + r, mask));
        if (args->accumulate) acc[a] = _mm256_add_ps(_mm256_maskload_ps(y, mask), acc[a]);
        _mm256_maskstore_ps(y, mask, acc[a]);
    }
}

INLINE void stream(const struct rf_linear_args *args, size_t i, int nr)
{
    for (size_t r = 0; r < args->m; r += 8) tile(args, r, i, nr);
}

static void linear_mxfp4_a16(const struct rf_linear_args *args)
{
    size_t i = 0;
    for (; args->n - i >= 4; i += 4) stream(args, i, 4);
    switch (args->n - i) {
    case 1: stream(args, i, 1); break;
    case 2: stream(args, i, 2); break;
    case 3: stream(args, i, 3); break;
    default: break;
    }
}

void rf_avx2_init_panels_a16(struct rf_kernels *kernels)
{
    kernels->linear_a16[RF_FORMAT_MXFP4] = linear_mxfp4_a16;
}
