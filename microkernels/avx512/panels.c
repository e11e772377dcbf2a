/* Weights in panels times rows of 8 bits with vpdpbusd (AVX512_VNNI): 16 lanes are 16 weight rows.
 *
 * A block of 32 k of a panel becomes eight vectors of codes, each four values of k for every row; a row of activations meets
 * them as broadcast words. One tile serves several panels, which lie far apart, so that memory sees a few long streams;
 * what it computes for a result never depends on its shape. */
#include <immintrin.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/panels.h"
#include "microkernels/avx512/tier.h"

enum {
    MAX_PANELS = 4,
    MAX_TILE = 16,  /* accumulators of a tile: rows times panels */
    PREFETCH = 4096 /* bytes ahead in a stream of codes */
};

INLINE __m512i broadcast(const int8_t *q, int v)
{
    return _mm512_set1_epi32(((const int32_t *)(const void *)q)[v]);
}

/* Adds what a block gives for one row of activations. */
INLINE __m512 add_block(enum rf_format format, __m512 acc, const __m512i codes[8], struct scales scales,
                        const struct rf_a8 *x)
{
    __m512 d = _mm512_set1_ps(x->d);
    int halves = is_by_16(format) ? 2 : 1, words = 8 / halves;
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++) {
        __m512i sum = _mm512_set1_epi32(offset_of(format, x, half));
#pragma GCC unroll 8
        for (int v = words * half; v < words * half + words; v++)
            sum = _mm512_dpbusd_epi32(sum, codes[v], broadcast(x->q, v));
        acc = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), d), scales.s[half], acc);
        if (format == RF_FORMAT_Q8_K)
            acc = _mm512_fmadd_ps(scales.b[half], _mm512_set1_ps((float)x->m32[half] * x->d), acc);
    }
    if (has_min(format)) acc = _mm512_fmadd_ps(scales.b[0], _mm512_set1_ps(x->d_sum), acc);
    return acc;
}

INLINE void store(const struct rf_linear_args *args, size_t panel, size_t i, __m512 sum)
{
    size_t r = panel * RF_PANEL_ROWS;
    __mmask16 mask = rf_mask16(args->m - r);
    float *y = args->y + i * args->ldy + r;
    if (args->bias) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, args->bias + r));
    if (args->accumulate) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), sum);
    _mm512_mask_storeu_ps(y, mask, sum);
}

/* Panels first, first + step, ... (np of them) times rows i .. i + nr - 1. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first, size_t step, size_t i, int np,
                 int nr)
{
    size_t blocks = args->k / RF_BLOCK, stride = rf_a8_stride(args->k), block_bytes = block_bytes_of(format);
    size_t scale_bytes = rf_panel_layout(format)->scale_bytes;
    const struct rf_a8 *x = (const struct rf_a8 *)args->x + i * stride;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * block_bytes;
    size_t gap = step * args->ldw;
    _Alignas(64) uint8_t numbers[MAX_PANELS][256];
    __m512 acc[MAX_TILE];

#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++) acc[t] = _mm512_setzero_ps();
    for (size_t block = 0; block < blocks; block++) {
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const uint8_t *codes_of = codes_at + (size_t)p * gap + block * block_bytes;
            const uint8_t *unit = scales_at + (size_t)p * gap + (is_super(format) ? block / 8 : block) * scale_bytes;
            __m512i codes[8];
            for (size_t line = 0; line < block_bytes; line += 64)
                _mm_prefetch((const char *)codes_of + PREFETCH + line, _MM_HINT_T1);
            decode(format, codes_of, codes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
            struct scales scales = scales_of(format, unit, block % 8, numbers[p]);
#pragma GCC unroll 16
            for (int a = 0; a < nr; a++)
                acc[p * nr + a] = add_block(format, acc[p * nr + a], codes, scales, x + (size_t)a * stride + block);
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++) store(args, first + (size_t)(t / nr) * step, i + (size_t)(t % nr), acc[t]);
}

/* All panels times nr rows from i: the decoding shape. The call's panels are cut into np parts, each walked from end to
 * end. */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, size_t i, int np, int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / (size_t)np;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, i, np, nr);
    for (size_t p = part * (size_t)np; p < panels; p++) tile(args, format, p, 1, i, 1, nr);
}

INLINE void few(const struct rf_linear_args *args, enum rf_format format, size_t i, size_t n)
{
    switch (n) {
    case 1: stream(args, format, i, 4, 1); break;
    case 2: stream(args, format, i, 4, 2); break;
    case 3: stream(args, format, i, 4, 3); break;
    case 4: stream(args, format, i, 4, 4); break;
    case 5: stream(args, format, i, 1, 5); break;
    case 6: stream(args, format, i, 1, 6); break;
    case 7: stream(args, format, i, 1, 7); break;
    case 8: stream(args, format, i, 1, 8); break;
    case 16: stream(args, format, i, 1, 16); break;
    default: break;
    }
}

/* Rows past one panel after another: 16 and 8 of them at a time. */
INLINE void linear(const struct rf_linear_args *args, enum rf_format format)
{
    size_t i = 0;
    for (; args->n - i >= 16; i += 16) few(args, format, i, 16);
    if (args->n - i > 8) {
        few(args, format, i, 8);
        i += 8;
    }
    few(args, format, i, args->n - i);
}

#define LINEAR(name, format)                            \
    static void name(const struct rf_linear_args *args) \
    {                                                   \
        linear(args, format);                           \
    }
LINEAR(linear_mxfp4, RF_FORMAT_MXFP4)
LINEAR(linear_q4_0, RF_FORMAT_Q4_0)
LINEAR(linear_q4_1, RF_FORMAT_Q4_1)
LINEAR(linear_q4_k, RF_FORMAT_Q4_K)
LINEAR(linear_q6_k, RF_FORMAT_Q6_K)
LINEAR(linear_q8_0, RF_FORMAT_Q8_0)
LINEAR(linear_q8_1, RF_FORMAT_Q8_1)
LINEAR(linear_q8_k, RF_FORMAT_Q8_K)

rf_linear_fn *const rf_avx512_linear_panels[RF_FORMAT_COUNT] = {
    [RF_FORMAT_MXFP4] = linear_mxfp4, [RF_FORMAT_Q4_0] = linear_q4_0, [RF_FORMAT_Q4_1] = linear_q4_1,
    [RF_FORMAT_Q4_K] = linear_q4_k,   [RF_FORMAT_Q6_K] = linear_q6_k, [RF_FORMAT_Q8_0] = linear_q8_0,
    [RF_FORMAT_Q8_1] = linear_q8_1,   [RF_FORMAT_Q8_K] = linear_q8_k,
};

static void pack_a8(void *packed, size_t row, const float *x, size_t k)
{
    struct rf_a8 *to = (struct rf_a8 *)packed + row * rf_a8_stride(k);
    __m512 sign = _mm512_set1_ps(-0.0f);
    for (size_t g = 0; g < k / RF_BLOCK; g++, to++, x += RF_BLOCK) {
        __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
        float max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_andnot_ps(sign, low), _mm512_andnot_ps(sign, high)));
        float inverse = max > 0x1p-100f && max <= 3.4028234e38f ? 127.0f / max : 0.0f;
        __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(low, _mm512_set1_ps(inverse)));
        __m512i second = _mm512_cvtps_epi32(_mm512_mul_ps(high, _mm512_set1_ps(inverse)));
        int sum0 = _mm512_reduce_add_epi32(first), sum1 = _mm512_reduce_add_epi32(second);
        _mm_store_si128((__m128i *)(void *)to->q, _mm512_cvtsepi32_epi8(first));
        _mm_store_si128((__m128i *)(void *)to->q + 1, _mm512_cvtsepi32_epi8(second));
        to->d = max > 0x1p-100f ? max / 127.0f : 0.0f;
        to->d_sum = to->d * (float)(sum0 + sum1);
        to->m8 = -8 * (sum0 + sum1);
        to->m12 = -12 * (sum0 + sum1);
        to->m128 = -128 * (sum0 + sum1);
        to->m32[0] = -32 * sum0;
        to->m32[1] = -32 * sum1;
        to->unused = 0;
    }
}

void rf_avx512_init_panels(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A8] = pack_a8;
    for (int format = RF_FORMAT_MXFP4; format < RF_FORMAT_COUNT; format++)
        kernels->linear[format] = rf_avx512_linear_panels[format];
}
