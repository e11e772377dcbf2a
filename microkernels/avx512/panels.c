/* Weights in panels times rows of 8 bits with vpdpbusd (AVX512_VNNI): 16 lanes are 16 weight rows.
 *
 * A block of 32 k of a panel becomes eight vectors of codes, each four values of k for every row; a row of activations meets
 * them as broadcast words. One tile serves several panels, which lie far apart, so that memory sees a few long streams;
 * what it computes for a result never depends on its shape. */
#include <immintrin.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/tier.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    MAX_PANELS = 4,
    MAX_TILE = 16,  /* accumulators of a tile: rows times panels */
    PREFETCH = 4096 /* bytes ahead in a stream of codes */
};

/* Eight vectors of codes: vector v holds k = 4v .. 4v + 3 of each row. */
INLINE void decode(enum rf_format format, const uint8_t *block, __m512i codes[8])
{
    __m512i nibble = _mm512_set1_epi8(15);
    if (format == RF_FORMAT_Q8_0 || format == RF_FORMAT_Q8_1 || format == RF_FORMAT_Q8_K) {
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++) codes[v] = _mm512_load_si512(block + 64 * v);
        return;
    }
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)rf_mxfp4_codes));
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i low = _mm512_load_si512(block + 64 * j), high = _mm512_srli_epi16(low, 4);
        if (format == RF_FORMAT_MXFP4) {
            /* Of an index six bits count, of which the upper two are the neighbour's; the table is there four times. */
            codes[2 * j] = _mm512_permutexvar_epi8(low, table);
            codes[2 * j + 1] = _mm512_permutexvar_epi8(high, table);
        } else {
            codes[2 * j] = _mm512_and_si512(low, nibble);
            codes[2 * j + 1] = _mm512_and_si512(high, nibble);
        }
    }
    if (format != RF_FORMAT_Q6_K) return;
    __m512i upper = _mm512_set1_epi8(0x30);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        __m512i bits = _mm512_load_si512(block + 256 + 64 * h);
        /* 0xf8: a | b & c */
        codes[4 * h] = _mm512_ternarylogic_epi64(codes[4 * h], _mm512_slli_epi16(bits, 4), upper, 0xf8);
        codes[4 * h + 1] = _mm512_ternarylogic_epi64(codes[4 * h + 1], _mm512_slli_epi16(bits, 2), upper, 0xf8);
        codes[4 * h + 2] = _mm512_ternarylogic_epi64(codes[4 * h + 2], bits, upper, 0xf8);
        codes[4 * h + 3] = _mm512_ternarylogic_epi64(codes[4 * h + 3], _mm512_srli_epi16(bits, 2), upper, 0xf8);
    }
}

INLINE __m512 load_f16(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

INLINE __m512 load_u8(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

INLINE __m512 load_i8(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

/* The 256 6-bit numbers of a Q4_K unit, as bytes. */
INLINE void unpack_q4k(const uint8_t *packed, uint8_t numbers[256])
{
    __m512i six = _mm512_set1_epi8(63), two = _mm512_set1_epi8(3);
    __m512i a = _mm512_loadu_si512(packed), b = _mm512_loadu_si512(packed + 64), c = _mm512_loadu_si512(packed + 128);
    __m512i fourth = _mm512_and_si512(_mm512_srli_epi16(a, 6), two);
    fourth = _mm512_ternarylogic_epi64(fourth, _mm512_srli_epi16(b, 4), _mm512_set1_epi8(0x0c), 0xf8);
    fourth = _mm512_ternarylogic_epi64(fourth, _mm512_srli_epi16(c, 2), _mm512_set1_epi8(0x30), 0xf8);
    _mm512_store_si512(numbers, _mm512_and_si512(a, six));
    _mm512_store_si512(numbers + 64, _mm512_and_si512(b, six));
    _mm512_store_si512(numbers + 128, _mm512_and_si512(c, six));
    _mm512_store_si512(numbers + 192, fourth);
}

/* Scales s and minimums b of a block's groups: one, or two in the formats with groups of 16. */
struct scales {
    __m512 s[2], b[2];
};

/* `at`: the scales of the unit; block number t in it. `numbers`: of a Q4_K unit. */
INLINE struct scales scales_of(enum rf_format format, const uint8_t *at, size_t t, const uint8_t *numbers)
{
    struct scales out;
    out.s[0] = out.s[1] = out.b[0] = out.b[1] = _mm512_setzero_ps();
    if (format == RF_FORMAT_MXFP4) {
        __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at));
        out.s[0] = _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
    } else if (format == RF_FORMAT_Q4_K) {
        out.s[0] = _mm512_mul_ps(load_f16(at + 192), load_u8(numbers + 16 * t));
        out.b[0] = _mm512_mul_ps(load_f16(at + 224), load_u8(numbers + 128 + 16 * t));
    } else if (format == RF_FORMAT_Q6_K) {
        __m512 d = load_f16(at + 256);
        out.s[0] = _mm512_mul_ps(d, load_i8(at + 32 * t));
        out.s[1] = _mm512_mul_ps(d, load_i8(at + 32 * t + 16));
    } else if (format == RF_FORMAT_Q8_K) {
        __m512 d = load_f16(at + 512), n = _mm512_mul_ps(load_f16(at + 544), _mm512_set1_ps(-1.0f / 32.0f));
        out.s[0] = _mm512_mul_ps(d, load_i8(at + 32 * t));
        out.s[1] = _mm512_mul_ps(d, load_i8(at + 32 * t + 16));
        out.b[0] = _mm512_mul_ps(n, load_i8(at + 256 + 32 * t));
        out.b[1] = _mm512_mul_ps(n, load_i8(at + 256 + 32 * t + 16));
    } else {
        out.s[0] = load_f16(at);
        if (format == RF_FORMAT_Q4_1 || format == RF_FORMAT_Q8_1) out.b[0] = load_f16(at + 32);
    }
    return out;
}

INLINE __m512i broadcast(const int8_t *q, int v)
{
    return _mm512_set1_epi32(((const int32_t *)(const void *)q)[v]);
}

/* Adds what a block gives for one row of activations. */
INLINE __m512 add_block(enum rf_format format, __m512 acc, const __m512i codes[8], struct scales scales,
                        const struct rf_a8 *x)
{
    __m512 d = _mm512_set1_ps(x->d);
    if (format == RF_FORMAT_Q6_K || format == RF_FORMAT_Q8_K) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            __m512i sum = format == RF_FORMAT_Q6_K ? _mm512_set1_epi32(x->m32[half]) : _mm512_setzero_si512();
#pragma GCC unroll 4
            for (int v = 4 * half; v < 4 * half + 4; v++) sum = _mm512_dpbusd_epi32(sum, codes[v], broadcast(x->q, v));
            acc = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), d), scales.s[half], acc);
            if (format == RF_FORMAT_Q8_K) {
                __m512 offset = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_set1_epi32(x->m32[half])), d);
                acc = _mm512_fmadd_ps(scales.b[half], offset, acc);
            }
        }
        return acc;
    }
    __m512i sum = format == RF_FORMAT_MXFP4  ? _mm512_set1_epi32(x->m12)
                  : format == RF_FORMAT_Q4_0 ? _mm512_set1_epi32(x->m8)
                  : format == RF_FORMAT_Q8_0 ? _mm512_set1_epi32(x->m128)
                                             : _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) sum = _mm512_dpbusd_epi32(sum, codes[v], broadcast(x->q, v));
    acc = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), d), scales.s[0], acc);
    if (format == RF_FORMAT_Q4_1 || format == RF_FORMAT_Q8_1 || format == RF_FORMAT_Q4_K)
        acc = _mm512_fmadd_ps(scales.b[0], _mm512_set1_ps(x->d_sum), acc);
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
                 int nr, int prefetch)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t blocks = args->k / RF_BLOCK, stride = rf_a8_stride(args->k);
    int super = format == RF_FORMAT_Q4_K || format == RF_FORMAT_Q6_K || format == RF_FORMAT_Q8_K;
    size_t block_bytes = format == RF_FORMAT_Q6_K                                                           ? 384
                         : format == RF_FORMAT_Q8_0 || format == RF_FORMAT_Q8_1 || format == RF_FORMAT_Q8_K ? 512
                                                                                                            : 256;
    size_t scale_bytes = layout->scale_bytes;
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
            const uint8_t *unit = scales_at + (size_t)p * gap + (super ? block / 8 : block) * scale_bytes;
            __m512i codes[8];
            if (prefetch) {
                for (size_t line = 0; line < block_bytes; line += 64)
                    _mm_prefetch((const char *)codes_of + PREFETCH + line, _MM_HINT_T1);
            }
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
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, i, np, nr, 1);
    for (size_t p = part * (size_t)np; p < panels; p++) tile(args, format, p, 1, i, 1, nr, 1);
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
    kernels->linear[RF_FORMAT_MXFP4] = linear_mxfp4;
    kernels->linear[RF_FORMAT_Q4_0] = linear_q4_0;
    kernels->linear[RF_FORMAT_Q4_1] = linear_q4_1;
    kernels->linear[RF_FORMAT_Q4_K] = linear_q4_k;
    kernels->linear[RF_FORMAT_Q6_K] = linear_q6_k;
    kernels->linear[RF_FORMAT_Q8_0] = linear_q8_0;
    kernels->linear[RF_FORMAT_Q8_1] = linear_q8_1;
    kernels->linear[RF_FORMAT_Q8_K] = linear_q8_k;
}
