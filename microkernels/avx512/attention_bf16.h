/* Steps of attention over BF16 keys and values that avx512 and amx share. */
#ifndef RF_MICROKERNELS_AVX512_ATTENTION_BF16_H
#define RF_MICROKERNELS_AVX512_ATTENTION_BF16_H

#include <immintrin.h>
#include <math.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/math.h"
#include "microkernels/x86.h"

/* Pairs (a[i], b[i]). */
INLINE __m512i pairs(__m256i a, __m256i b)
{
    const __m512i order =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                         37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    return _mm512_permutex2var_epi16(_mm512_castsi256_si512(a), order, _mm512_castsi256_si512(b));
}

/* From scores to weights exp(s - max), with zeros from `visible` to `padded`. */
INLINE void soften(const float *score, uint16_t *weights, float scale, size_t visible,
                   size_t padded, float *max_out, float *sum_out)
{
    __m512 max = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    const __m512 factor = _mm512_set1_ps(scale);
    for (size_t p = 0; p < visible; p += 16)
        max = _mm512_mask_max_ps(max, rf_mask16(visible - p), max,
                                 _mm512_mul_ps(_mm512_loadu_ps(score + p), factor));
    *max_out = _mm512_reduce_max_ps(max);
    __m512 top = _mm512_set1_ps(*max_out);
    for (size_t p = 0; p < padded; p += 16) {
        __mmask16 mask = rf_mask16(p < visible ? visible - p : 0);
        __m512 below = _mm512_sub_ps(_mm512_mul_ps(_mm512_loadu_ps(score + p), factor), top);
        __m256i weight = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_mov_ps(mask, rf_exp_ps(below)));
        _mm256_storeu_si256((__m256i *)(weights + p), weight);
        sum = _mm512_add_ps(
            sum, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(weight), 16)));
    }
    *sum_out = _mm512_reduce_add_ps(sum);
}

#endif
