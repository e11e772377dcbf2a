/* Operations on single rows: norm, gate, conversions; reading at full speed. */
#include <immintrin.h>
#include <math.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/math.h"
#include "microkernels/avx512/tier.h"
#include "microkernels/gelu.h"
#include "microkernels/x86.h"

typedef __m512i line;
#define READ_HINT _MM_HINT_T1

INLINE line xor_line(line sum, const char *at)
{
    return _mm512_xor_si512(sum, _mm512_loadu_si512(at));
}

#include "microkernels/read_streams.h"

typedef __m512 columns;
typedef __mmask16 columns_lanes;

INLINE columns columns_load(const float *x, columns_lanes lanes)
{
    return _mm512_maskz_loadu_ps(lanes, x);
}

INLINE void columns_store(float *x, columns_lanes lanes, columns a)
{
    _mm512_mask_storeu_ps(x, lanes, a);
}

INLINE columns columns_set(float x)
{
    return _mm512_set1_ps(x);
}

INLINE columns columns_add(columns a, columns b)
{
    return _mm512_add_ps(a, b);
}

INLINE columns columns_mul(columns a, columns b)
{
    return _mm512_mul_ps(a, b);
}

INLINE columns columns_fma(columns a, columns b, columns c)
{
    return _mm512_fmadd_ps(a, b, c);
}

#include "microkernels/delta_step.h"

static void avx512_delta_step(const struct rf_delta_args *args)
{
    delta_step_in(args, rf_mask16(args->width));
}

static void avx512_rms_norm(float *out, const float *x, const float *weight, float eps, size_t n)
{
    /* Two accumulators of eight doubles; the reference also sums in double. */
    __m512d low = _mm512_setzero_pd(), high = low;
    for (size_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_maskz_loadu_ps(rf_mask16(n - i), x + i);
        __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
        low = _mm512_fmadd_pd(a, a, low);
        high = _mm512_fmadd_pd(b, b, high);
    }
    double sum = _mm512_reduce_add_pd(_mm512_add_pd(low, high));
    __m512 scale = _mm512_set1_ps(1.0f / sqrtf((float)(sum / (double)n) + eps));
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = rf_mask16(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), scale);
        _mm512_mask_storeu_ps(out + i, mask,
                              _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, weight + i)));
    }
}

static void avx512_silu_gate(float *out, const float *gate, const float *up, size_t n)
{
    __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = rf_mask16(n - i);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, rf_exp_ps(_mm512_sub_ps(zero, g))));
        _mm512_mask_storeu_ps(out + i, mask,
                              _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i)));
    }
}

static void avx512_gelu_gate(float *out, const float *gate, const float *up, size_t n)
{
    const __m512 one = _mm512_set1_ps(1.0f), outer = _mm512_set1_ps(-2 * 0.797884561f),
                 inner = _mm512_set1_ps(-2 * 0.797884561f * 0.044715f);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = rf_mask16(n - i);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 u = _mm512_mul_ps(g, _mm512_fmadd_ps(inner, _mm512_mul_ps(g, g), outer));
        __m512 gelu = _mm512_div_ps(g, _mm512_add_ps(one, rf_exp_ps(u)));
        _mm512_mask_storeu_ps(out + i, mask,
                              _mm512_mul_ps(gelu, _mm512_maskz_loadu_ps(mask, up + i)));
    }
}

static void avx512_gelu(float *out, const float *x, size_t n)
{
    const __m512 one = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(0.5f),
                 end = _mm512_set1_ps(RF_ERF_END), minus_one = _mm512_set1_ps(-1.0f),
                 minus_end = _mm512_set1_ps(-RF_ERF_END);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = rf_mask16(n - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 c = _mm512_min_ps(_mm512_max_ps(v, minus_end), end), t = _mm512_mul_ps(c, c);
        __m512 p = _mm512_set1_ps(rf_erf_p[RF_ERF_TERMS - 1]),
               q = _mm512_set1_ps(rf_erf_q[RF_ERF_TERMS - 1]);
        for (int k = RF_ERF_TERMS - 2; k >= 0; k--) {
            p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(rf_erf_p[k]));
            q = _mm512_fmadd_ps(q, t, _mm512_set1_ps(rf_erf_q[k]));
        }
        __m512 e = _mm512_div_ps(_mm512_mul_ps(c, p), q);
        e = _mm512_min_ps(_mm512_max_ps(e, minus_one), one);
        _mm512_mask_storeu_ps(out + i, mask,
                              _mm512_mul_ps(_mm512_mul_ps(v, half), _mm512_add_ps(one, e)));
    }
}

static void avx512_f32_to_f16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = rf_mask16(n - i);
        _mm256_mask_storeu_epi16(
            out + i, mask,
            _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), _MM_FROUND_TO_NEAREST_INT));
    }
}

static void avx512_bf16_to_f32(float *out, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = rf_mask16(n - i);
        __m512i bits =
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x + i)), 16);
        _mm512_mask_storeu_ps(out + i, mask, _mm512_castsi512_ps(bits));
    }
}

static size_t avx512_first_above(const float *x, size_t n, float threshold)
{
    __m512 bound = _mm512_set1_ps(threshold);
    for (size_t i = 0; i < n; i += 64) {
        __mmask16 found[4];
        for (size_t v = 0; v < 4; v++) {
            __mmask16 mask = rf_mask16(n - i > 16 * v ? n - i - 16 * v : 0);
            found[v] = _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, x + i + 16 * v),
                                               bound, _CMP_GT_OQ);
        }
        uint64_t all = found[0] | (uint64_t)found[1] << 16 | (uint64_t)found[2] << 32 |
                       (uint64_t)found[3] << 48;
        if (all) return i + (size_t)__builtin_ctzll(all);
    }
    return n;
}

void rf_avx512_init_rows(struct rf_kernels *kernels)
{
    kernels->rms_norm = avx512_rms_norm;
    kernels->silu_gate = avx512_silu_gate;
    kernels->delta_step = avx512_delta_step;
    kernels->gelu_gate = avx512_gelu_gate;
    kernels->gelu = avx512_gelu;
    kernels->f32_to_f16 = avx512_f32_to_f16;
    kernels->bf16_to_f32 = avx512_bf16_to_f32;
    kernels->first_above = avx512_first_above;
    kernels->read_streams = read_streams;
}

void rf_kernels_init_avx512(struct rf_kernels *kernels)
{
    rf_avx512_init_linear(kernels);
    rf_avx512_init_panels(kernels);
    rf_avx512_init_panels_a16(kernels);
    rf_avx512_init_panels_row(kernels);
    rf_avx512_init_attention(kernels);
    rf_avx512_init_attention_bf16(kernels);
    rf_avx512_init_attention_kv(kernels);
    rf_avx512_init_rows(kernels);
    rf_avx512_init_cast(kernels);
}
