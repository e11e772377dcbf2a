/* Operations on single rows: norm, gate, conversions; reading at full speed. */
#include <immintrin.h>
#include <math.h>

#include "base/half.h"
#include "microkernels/avx2/math.h"
#include "microkernels/avx2/tier.h"
#include "microkernels/gelu.h"
#include "microkernels/x86.h"

typedef struct {
    __m256i low, high;
} line;
#define READ_HINT _MM_HINT_T0

INLINE line xor_line(line sum, const char *at)
{
    sum.low = _mm256_xor_si256(sum.low, _mm256_loadu_si256((const __m256i *)at));
    sum.high = _mm256_xor_si256(sum.high, _mm256_loadu_si256((const __m256i *)(at + 32)));
    return sum;
}

#include "microkernels/read_streams.h"

typedef struct {
    __m256 low, high;
} columns;

typedef struct {
    int are_all;
    __m256i low, high;
} columns_lanes;

INLINE columns columns_load(const float *x, columns_lanes lanes)
{
    if (lanes.are_all) return (columns){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
    return (columns){_mm256_maskload_ps(x, lanes.low), _mm256_maskload_ps(x + 8, lanes.high)};
}

INLINE void columns_store(float *x, columns_lanes lanes, columns a)
{
    if (lanes.are_all) {
        _mm256_storeu_ps(x, a.low);
        _mm256_storeu_ps(x + 8, a.high);
    } else {
        _mm256_maskstore_ps(x, lanes.low, a.low);
        _mm256_maskstore_ps(x + 8, lanes.high, a.high);
    }
}

INLINE columns columns_set(float x)
{
    return (columns){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

INLINE columns columns_add(columns a, columns b)
{
    return (columns){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

INLINE columns columns_mul(columns a, columns b)
{
    return (columns){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

INLINE columns columns_fma(columns a, columns b, columns c)
{
    return (columns){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

#include "microkernels/delta_step.h"

static void avx2_delta_step(const struct rf_delta_args *args)
{
    __m256i low = rf_lanes(args->width), high = rf_lanes(args->width > 8 ? args->width - 8 : 0);
    if (args->width == RF_DELTA_COLUMNS)
        delta_step_in(args, (columns_lanes){1, low, high});
    else
        delta_step_in(args, (columns_lanes){0, low, high});
}

static void avx2_rms_norm(float *out, const float *x, const float *weight, float eps, size_t n)
{
    __m256d low = _mm256_setzero_pd(), high = low;
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_maskload_ps(x + i, rf_lanes(n - i));
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    __m256d four = _mm256_add_pd(low, high);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    double sum = _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf((float)(sum / (double)n) + eps));
    for (size_t i = 0; i < n; i += 8) {
        __m256i lanes = rf_lanes(n - i);
        __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, lanes), scale);
        _mm256_maskstore_ps(out + i, lanes,
                            _mm256_mul_ps(v, _mm256_maskload_ps(weight + i, lanes)));
    }
}

static void avx2_silu_gate(float *out, const float *gate, const float *up, size_t n)
{
    __m256 one = _mm256_set1_ps(1.0f), zero = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        __m256i lanes = rf_lanes(n - i);
        __m256 g = _mm256_maskload_ps(gate + i, lanes);
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, rf_exp_ps(_mm256_sub_ps(zero, g))));
        _mm256_maskstore_ps(out + i, lanes, _mm256_mul_ps(silu, _mm256_maskload_ps(up + i, lanes)));
    }
}

static void avx2_gelu_gate(float *out, const float *gate, const float *up, size_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), outer = _mm256_set1_ps(-2 * 0.797884561f),
                 inner = _mm256_set1_ps(-2 * 0.797884561f * 0.044715f);
    for (size_t i = 0; i < n; i += 8) {
        __m256i lanes = rf_lanes(n - i);
        __m256 g = _mm256_maskload_ps(gate + i, lanes);
        __m256 u = _mm256_mul_ps(g, _mm256_fmadd_ps(inner, _mm256_mul_ps(g, g), outer));
        __m256 gelu = _mm256_div_ps(g, _mm256_add_ps(one, rf_exp_ps(u)));
        _mm256_maskstore_ps(out + i, lanes, _mm256_mul_ps(gelu, _mm256_maskload_ps(up + i, lanes)));
    }
}

static void avx2_gelu(float *out, const float *x, size_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), half = _mm256_set1_ps(0.5f),
                 end = _mm256_set1_ps(RF_ERF_END), minus_one = _mm256_set1_ps(-1.0f),
                 minus_end = _mm256_set1_ps(-RF_ERF_END);
    for (size_t i = 0; i < n; i += 8) {
        __m256i lanes = rf_lanes(n - i);
        __m256 v = _mm256_maskload_ps(x + i, lanes);
        __m256 c = _mm256_min_ps(_mm256_max_ps(v, minus_end), end), t = _mm256_mul_ps(c, c);
        __m256 p = _mm256_set1_ps(rf_erf_p[RF_ERF_TERMS - 1]),
               q = _mm256_set1_ps(rf_erf_q[RF_ERF_TERMS - 1]);
        for (int k = RF_ERF_TERMS - 2; k >= 0; k--) {
            p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(rf_erf_p[k]));
            q = _mm256_fmadd_ps(q, t, _mm256_set1_ps(rf_erf_q[k]));
        }
        __m256 e = _mm256_div_ps(_mm256_mul_ps(c, p), q);
        e = _mm256_min_ps(_mm256_max_ps(e, minus_one), one);
        _mm256_maskstore_ps(out + i, lanes,
                            _mm256_mul_ps(_mm256_mul_ps(v, half), _mm256_add_ps(one, e)));
    }
}

static void avx2_f32_to_f16(uint16_t *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) out[i] = rf_f32_to_f16(x[i]);
}

static void avx2_bf16_to_f32(float *out, const uint16_t *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i bits =
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(x + i))), 16);
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
    }
    for (; i < n; i++) out[i] = rf_bf16_to_f32(x[i]);
}

static size_t avx2_first_above(const float *x, size_t n, float threshold)
{
    __m256 bound = _mm256_set1_ps(threshold);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        unsigned found = 0;
        for (int v = 0; v < 4; v++) {
            __m256 greater = _mm256_cmp_ps(_mm256_loadu_ps(x + i + 8 * v), bound, _CMP_GT_OQ);
            found |= (unsigned)_mm256_movemask_ps(greater) << 8 * v;
        }
        if (found) return i + (size_t)__builtin_ctz(found);
    }
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

void rf_avx2_init_rows(struct rf_kernels *kernels)
{
    kernels->rms_norm = avx2_rms_norm;
    kernels->silu_gate = avx2_silu_gate;
    kernels->delta_step = avx2_delta_step;
    kernels->gelu_gate = avx2_gelu_gate;
    kernels->gelu = avx2_gelu;
    kernels->f32_to_f16 = avx2_f32_to_f16;
    kernels->bf16_to_f32 = avx2_bf16_to_f32;
    kernels->first_above = avx2_first_above;
    kernels->read_streams = read_streams;
}

void rf_kernels_init_avx2(struct rf_kernels *kernels)
{
    rf_avx2_init_linear(kernels);
    rf_avx2_init_panels(kernels);
    rf_avx2_init_panels_a16(kernels);
    rf_avx2_init_panels_row(kernels);
    rf_avx2_init_attention(kernels);
    rf_avx2_init_attention_kv(kernels);
    rf_avx2_init_rows(kernels);
    rf_avx2_init_cast(kernels);
}
