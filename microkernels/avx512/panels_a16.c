/* MXFP4 panels times 16-bit rows with vdpbf16ps: codes become BF16 values (the verifying half of
 * QSpec).
 *
 * A 32-bit lane of a vector of codes holds eight codes of one weight row. Four look-ups of 16-bit
 * words give them in pairs (0,2), (1,3), (4,6), (5,7), which is the order in which rows of
 * activations are packed. */
#include <immintrin.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/tier.h"
#include "microkernels/x86.h"

enum { MAX_ROWS = 8, PREFETCH = 4096 };

/* Twice the values of E2M1 in BF16. The table is repeated, since the fifth bit of an index belongs
 * to the next code. */
INLINE __m512i values(void)
{
    __m256i once = _mm256_setr_epi16(0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40c0, 0x4100, 0x4140,
                                     (short)0x8000, (short)0xbf80, (short)0xc000, (short)0xc040,
                                     (short)0xc080, (short)0xc0c0, (short)0xc100, (short)0xc140);
    return _mm512_broadcast_i64x4(once);
}

/* One panel times rows i .. i + nr - 1. */
INLINE void tile(const struct rf_linear_args *args, size_t panel, size_t i, int nr)
{
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k), r = panel * RF_PANEL_ROWS;
    const uint16_t *x = (const uint16_t *)args->x + i * stride;
    const uint8_t *codes = (const uint8_t *)args->w + panel * args->ldw,
                  *scales = codes + blocks * 256;
    __m512i table = values();
    __m512 acc[MAX_ROWS];
#pragma GCC unroll 8
    for (int a = 0; a < nr; a++) acc[a] = _mm512_setzero_ps();
    for (size_t block = 0; block < blocks; block++) {
        __m512 sums[MAX_ROWS];
#pragma GCC unroll 8
        for (int a = 0; a < nr; a++) sums[a] = _mm512_setzero_ps();
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            const uint8_t *at = codes + block * 256 + 64 * j;
            __m512i eight = _mm512_load_si512(at), pairs[4];
            _mm_prefetch((const char *)at + PREFETCH, _MM_HINT_T1);
            pairs[0] = _mm512_permutexvar_epi16(eight, table);
            pairs[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(eight, 8), table);
            pairs[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(eight, 4), table);
            pairs[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(eight, 12), table);
#pragma GCC unroll 8
            for (int a = 0; a < nr; a++) {
                const int32_t *row =
                    (const int32_t *)(const void *)(x + (size_t)a * stride + block * RF_BLOCK) +
                    4 * j;
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++)
                    sums[a] = _mm512_dpbf16_ps(sums[a], (__m512bh)pairs[v],
                                               (__m512bh)_mm512_set1_epi32(row[v]));
            }
        }
        __m512i e = _mm512_cvtepu8_epi32(
            _mm_loadu_si128((const __m128i *)(const void *)(scales + block * 16)));
        __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
#pragma GCC unroll 8
        for (int a = 0; a < nr; a++) acc[a] = _mm512_fmadd_ps(sums[a], scale, acc[a]);
    }
    __mmask16 mask = rf_mask16(args->m - r);
#pragma GCC unroll 8
    for (int a = 0; a < nr; a++) {
        float *y = args->y + (i + (size_t)a) * args->ldy + r;
        if (args->bias) acc[a] = _mm512_add_ps(acc[a], _mm512_maskz_loadu_ps(mask, args->bias + r));
        if (args->accumulate) acc[a] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), acc[a]);
        _mm512_mask_storeu_ps(y, mask, acc[a]);
    }
}

INLINE void stream(const struct rf_linear_args *args, size_t i, int nr)
{
    for (size_t panel = 0; panel * RF_PANEL_ROWS < args->m; panel++) tile(args, panel, i, nr);
}

static void linear_mxfp4_a16(const struct rf_linear_args *args)
{
    size_t i = 0;
    for (; args->n - i >= 8; i += 8) stream(args, i, 8);
    switch (args->n - i) {
    case 1: stream(args, i, 1); break;
    case 2: stream(args, i, 2); break;
    case 3: stream(args, i, 3); break;
    case 4: stream(args, i, 4); break;
    case 5: stream(args, i, 5); break;
    case 6: stream(args, i, 6); break;
    case 7: stream(args, i, 7); break;
    default: break;
    }
}

static void pack_a16(void *packed, size_t row, const float *x, size_t k)
{
    uint16_t *to = (uint16_t *)packed + row * rf_a16_stride(k);
    __m512i order =
        _mm512_broadcast_i64x2(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (size_t j = 0; j < k; j += 32) {
        __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + j + 16), _mm512_loadu_ps(x + j));
        _mm512_store_si512(to + j, _mm512_shuffle_epi8((__m512i)both, order));
    }
}

void rf_avx512_init_panels_a16(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A16] = pack_a16;
    kernels->linear_a16[RF_FORMAT_MXFP4] = linear_mxfp4_a16;
}
