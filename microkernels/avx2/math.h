/* exp and tanh for 8 lanes, and the sum and the maximum of 8 lanes. */
#ifndef RF_MICROKERNELS_AVX2_MATH_H
#define RF_MICROKERNELS_AVX2_MATH_H

#include <immintrin.h>
#include <math.h>
#include <stddef.h>

#include "microkernels/kv.h"

/* exp(x) within 2 ulp: x = n ln2 + r, |r| <= ln2/2, a Taylor polynomial of degree 7 for exp(r),
 * scaled by 2^n in two steps, so that results under 2^-126 are gradually lost. Over the range they
 * are infinite; NaN stays NaN. */
static inline __m256 rf_exp_ps(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(-104.0f), x); /* the operand order lets a NaN through */
    x = _mm256_min_ps(_mm256_set1_ps(89.0f), x);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), x); /* ln2 in two parts */
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.0f / 5040);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 second = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(p, first), second);
}

/* 2^x for weights that are summed in 8 bits (kernels.h, struct rf_attention_kv_args). */
static inline __m256 rf_exp2_weight_ps(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(RF_KV_LEAST_EXPONENT), x);
    __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_sub_ps(x, n), p = _mm256_set1_ps(RF_KV_EXP2_4);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RF_KV_EXP2_3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RF_KV_EXP2_2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(RF_KV_EXP2_1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

/* tanh(x) within 4 ulp: below 1/4 the Taylor polynomial of degree 9, else (1 - e) / (1 + e) with
 * e = exp(-2 |x|). NaN stays NaN. */
static inline __m256 rf_tanh_ps(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x), square = _mm256_mul_ps(x, x);
    __m256 p = _mm256_set1_ps(62.0f / 2835);
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(-17.0f / 315));
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0f / 15));
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(-1.0f / 3));
    __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(p, square), x, x);
    __m256 e = rf_exp_ps(_mm256_mul_ps(size, _mm256_set1_ps(-2.0f)));
    __m256 far = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    far = _mm256_or_ps(far, _mm256_and_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_blendv_ps(far, near, _mm256_cmp_ps(size, _mm256_set1_ps(0.25f), _CMP_LT_OQ));
}

/* The step before the softmax over a chunk with a window or a cap. Turns scores, which are yet to
 * be multiplied by `scale`, into cap * tanh(scale s / cap) / scale if cap > 0; then, into -inf
 * before `first`. n is a multiple of 16. */
static inline void rf_limit_scores(float *score, size_t n, size_t first, float scale, float cap)
{
    const __m256 inner = _mm256_set1_ps(scale / cap), outer = _mm256_set1_ps(cap / scale);
    for (size_t p = 0; cap > 0 && p < n; p += 8)
        _mm256_storeu_ps(
            score + p,
            _mm256_mul_ps(rf_tanh_ps(_mm256_mul_ps(_mm256_loadu_ps(score + p), inner)), outer));
    for (size_t p = 0; p < first; p++) score[p] = -INFINITY;
}

static inline float rf_sum_ps(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float rf_max_ps(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* All ones in the first `left` lanes (all eight if left >= 8). */
static inline __m256i rf_lanes(size_t left)
{
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(left >= 8 ? 8 : (int)left), index);
}

#endif
