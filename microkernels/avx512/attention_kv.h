/* Vectors of 16 lanes and sums of products for attention over quantised groups (avx512, amx). */
#ifndef RF_MICROKERNELS_AVX512_ATTENTION_KV_H
#define RF_MICROKERNELS_AVX512_ATTENTION_KV_H

#include <immintrin.h>
#include <math.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/math.h"
#include "microkernels/x86.h"

typedef __m512 lanes;
typedef __m512i whole;

#define l_set(x) _mm512_set1_ps(x)
#define l_load(from) _mm512_loadu_ps(from)
#define l_load_first(from, n) _mm512_maskz_loadu_ps(rf_mask16(n), from)
#define l_load_f16(from) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from)))
#define l_store(to, x) _mm512_storeu_ps(to, x)
#define l_store_first(to, x, n) _mm512_storeu_ps(to, _mm512_maskz_mov_ps(rf_mask16(n), x))
#define l_add(a, b) _mm512_add_ps(a, b)
#define l_mul(a, b) _mm512_mul_ps(a, b)
#define l_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define l_max(a, b) _mm512_max_ps(a, b)
#define l_abs(x) _mm512_abs_ps(x)
#define l_exp2(x) rf_exp2_weight_ps(x)
#define l_tanh(x) rf_tanh_ps(x)
#define l_sum(x) _mm512_reduce_add_ps(x)
#define l_top(x) _mm512_reduce_max_ps(x)
#define l_round(x) _mm512_cvtps_epi32(x)
#define l_float(x) _mm512_cvtepi32_ps(x)
#define w_set(x) _mm512_set1_epi32(x)
#define w_load(from) _mm512_loadu_si512(from)
#define w_add(a, b) _mm512_add_epi32(a, b)
#define w_sum(x) _mm512_reduce_add_epi32(x)

INLINE void w_store8(int8_t *to, const whole x[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes =
        _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
}

#include "microkernels/attention_kv.h"

/* The codes of four values of k in 16 lanes: those of the low or the high half of each byte. */
INLINE __m512i decode(const uint8_t *upper, const uint8_t *lower, int half, int has_lower)
{
    enum { SELECT = 0xca }; /* where a is set b, else c */
    const __m512i low_nibble = _mm512_set1_epi8(15);
    __m512i up = _mm512_loadu_si512(upper);
    if (!has_lower) return _mm512_and_si512(half ? _mm512_srli_epi16(up, 4) : up, low_nibble);
    __m512i low = _mm512_loadu_si512(lower);
    return half ? _mm512_ternarylogic_epi32(low_nibble, _mm512_srli_epi16(low, 4), up, SELECT)
                : _mm512_ternarylogic_epi32(low_nibble, low, _mm512_slli_epi16(up, 4), SELECT);
}

#endif
