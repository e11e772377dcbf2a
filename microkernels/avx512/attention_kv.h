/* Vectors of 16 lanes, and codes, for attention over quantised groups (avx512, amx). */
#ifndef RF_MICROKERNELS_AVX512_ATTENTION_KV_H
#define RF_MICROKERNELS_AVX512_ATTENTION_KV_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/math.h"
#include "microkernels/x86.h"

typedef __m512 lanes;
typedef __m512i whole;

enum {
    LANES = 16,
    COLUMN_LEAST = 12, /* an estimate: fewer are faster one by one */
    CODE_BYTES = 1
};

#define l_set(x) _mm512_set1_ps(x)
#define l_load(from) _mm512_loadu_ps(from)
#define l_load_first(from, n) _mm512_maskz_loadu_ps(rf_mask16(n), from)
#define l_load_f16(from) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from)))
#define l_store(to, x) _mm512_storeu_ps(to, x)
#define l_store_first(to, x, n) _mm512_storeu_ps(to, _mm512_maskz_mov_ps(rf_mask16(n), x))
#define l_add(a, b) _mm512_add_ps(a, b)
#define l_sub(a, b) _mm512_sub_ps(a, b)
#define l_mul(a, b) _mm512_mul_ps(a, b)
#define l_div(a, b) _mm512_div_ps(a, b)
#define l_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define l_max(a, b) _mm512_max_ps(a, b)
#define l_abs(x) _mm512_abs_ps(x)
#define l_positive(x, y) _mm512_maskz_mov_ps(_mm512_cmplt_ps_mask(_mm512_setzero_ps(), y), x)
#define l_exp2(x) rf_exp2_weight_ps(x)
#define l_tanh(x) rf_tanh_ps(x)
#define l_top(x) _mm512_reduce_max_ps(x)
#define l_round(x) _mm512_cvtps_epi32(x)
#define l_float(x) _mm512_cvtepi32_ps(x)
#define w_set(x) _mm512_set1_epi32(x)
#define w_load(from) _mm512_loadu_si512(from)
#define w_add(a, b) _mm512_add_epi32(a, b)
#define w_sum(x) _mm512_reduce_add_epi32(x)

INLINE float l_sum(lanes x)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* x0 to x3 of every lane, as bytes: of four lanes each after the other. */
INLINE __m512i to_bytes(const whole x[4])
{
    return _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
}

INLINE void w_store8(int8_t *to, const whole x[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, to_bytes(x)));
}

#include "microkernels/attention_kv.h"

/* The codes of four values of k in 16 lanes: those of the low or the high half of each byte. */
INLINE __m512i decode(const uint8_t *upper, const uint8_t *lower, int half, int has_lower)
{
    enum { SELECT = 0xca }; /* ternary logic: b where a is set, else c */
    const __m512i low_nibble = _mm512_set1_epi8(15);
    __m512i up = _mm512_loadu_si512(upper);
    if (!has_lower) return _mm512_and_si512(half ? _mm512_srli_epi16(up, 4) : up, low_nibble);
    __m512i low = _mm512_loadu_si512(lower);
    return half ? _mm512_ternarylogic_epi32(low_nibble, _mm512_srli_epi16(low, 4), up, SELECT)
                : _mm512_ternarylogic_epi32(low_nibble, low, _mm512_slli_epi16(up, 4), SELECT);
}

/* Quads are [16][4]. */
INLINE whole kv_store(int8_t *quad, const whole x[4], int has_lower)
{
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    (void)has_lower;
    _mm512_storeu_si512(quad, _mm512_shuffle_epi8(to_bytes(x), order));
    return w_set(0);
}

#endif
