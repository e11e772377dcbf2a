/* exp and tanh for 16 lanes. */
#ifndef RF_MICROKERNELS_AVX512_MATH_H
#define RF_MICROKERNELS_AVX512_MATH_H

#include <immintrin.h>
#include <math.h>
#include <stddef.h>

#include "microkernels/kv.h"

/* exp(x) within 2 ulp: x = n ln2 + r, |r| <= ln2/2, a Taylor polynomial of degree 7 for exp(r),
 * scaled by 2^n. Results under 2^-126 are gradually lost, over the range they are infinite; NaN
 * stays NaN. */
static inline __m512 rf_exp_ps(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x); /* the operand order lets a NaN through */
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                    _MM_FROUND_TO_NEAREST_INT);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x); /* ln2 in two parts */
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* 2^x for weights that are summed in 8 bits (kernels.h, struct rf_attention_kv_args). */
static inline __m512 rf_exp2_weight_ps(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(RF_KV_LEAST_EXPONENT), x);
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT), r = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(RF_KV_EXP2_4);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_KV_EXP2_3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_KV_EXP2_2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(RF_KV_EXP2_1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* tanh(x) within 4 ulp: below 1/4 the Taylor polynomial of degree 9, else (1 - e) / (1 + e) with
 * e = exp(-2 |x|). NaN stays NaN. */
static inline __m512 rf_tanh_ps(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 size = _mm512_abs_ps(x), square = _mm512_mul_ps(x, x);
    __m512 p = _mm512_set1_ps(62.0f / 2835);
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-17.0f / 315));
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(2.0f / 15));
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-1.0f / 3));
    __m512 near = _mm512_fmadd_ps(_mm512_mul_ps(p, square), x, x);
    __m512 e = rf_exp_ps(_mm512_mul_ps(size, _mm512_set1_ps(-2.0f)));
    __m512 far = _mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e));
    far = _mm512_mask_sub_ps(far, _mm512_cmplt_ps_mask(x, _mm512_setzero_ps()), _mm512_setzero_ps(),
                             far);
    return _mm512_mask_mov_ps(far, _mm512_cmplt_ps_mask(size, _mm512_set1_ps(0.25f)), near);
}

/* The step before the softmax over a chunk with a window or a cap. Turns scores, which are yet to
 * be multiplied by `scale`, into cap * tanh(scale s / cap) / scale if cap > 0; then, into -inf
 * before `first`. n is a multiple of 16. */
static inline void rf_limit_scores(float *score, size_t n, size_t first, float scale, float cap)
{
    const __m512 inner = _mm512_set1_ps(scale / cap), outer = _mm512_set1_ps(cap / scale);
    for (size_t p = 0; cap > 0 && p < n; p += 16)
        _mm512_storeu_ps(
            score + p,
            _mm512_mul_ps(rf_tanh_ps(_mm512_mul_ps(_mm512_loadu_ps(score + p), inner)), outer));
    for (size_t p = 0; p < first; p++) score[p] = -INFINITY;
}

#endif
