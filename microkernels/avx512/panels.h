/* Decoding of panels for the AVX-512 and AMX kernels. */
#ifndef RF_MICROKERNELS_AVX512_PANELS_H
#define RF_MICROKERNELS_AVX512_PANELS_H

#include <immintrin.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/kernels.h"
#include "microkernels/x86.h"

/* avx512's kernels, by format: times 8-bit and 16-bit rows. */
extern rf_linear_fn *const rf_avx512_linear_panels[RF_FORMAT_COUNT],
    *const rf_avx512_linear_panels_a16[RF_FORMAT_COUNT];

/* 1 if groups have 16 values, not 32. */
INLINE int is_by_16(enum rf_format format)
{
    return rf_panel_layout(format)->group == 16;
}

/* 1 if scales are stored for units of 256 values. */
INLINE int is_super(enum rf_format format)
{
    return rf_panel_layout(format)->unit == RF_SUPERBLOCK;
}

/* 1 if a group of 32 has a minimum, which is multiplied by d_sum. */
INLINE int has_min(enum rf_format format)
{
    return rf_panel_layout(format)->has_min && !is_by_16(format);
}

/* The first value of the sum over a row's group, which subtracts the format's offset. `half`: of a
 * block, where groups have 16 values. */
INLINE int32_t offset_of(enum rf_format format, const struct rf_a8 *x, int half)
{
    return rf_a8_start(x, rf_panel_layout(format)->offset, half);
}

/* Two vectors of codes: k = 8j .. 8j + 3 of each row, and the four after them. */
INLINE void decode(enum rf_format format, const uint8_t *block, int j, __m512i codes[2])
{
    if (rf_panel_layout(format)->bits == 8) {
        codes[0] = _mm512_load_si512(block + 128 * j);
        codes[1] = _mm512_load_si512(block + 128 * j + 64);
        return;
    }
    __m512i low = _mm512_load_si512(block + 64 * j), high = _mm512_srli_epi16(low, 4);
    if (rf_panel_table(format)) {
        /* vpermb uses six bits of an index. The upper two belong to the next code, so the table is
         * repeated four times. */
        __m512i table = _mm512_broadcast_i32x4(
            _mm_loadu_si128((const __m128i *)(const void *)rf_panel_table(format)));
        codes[0] = _mm512_permutexvar_epi8(low, table);
        codes[1] = _mm512_permutexvar_epi8(high, table);
        return;
    }
    __m512i nibble = _mm512_set1_epi8(15), upper = _mm512_set1_epi8(0x30);
    codes[0] = _mm512_and_si512(low, nibble);
    codes[1] = _mm512_and_si512(high, nibble);
    if (format != RF_FORMAT_Q6_K) return;
    __m512i bits = _mm512_load_si512(block + 256 + j / 2 * 64);
    __m512i first = j % 2 ? bits : _mm512_slli_epi16(bits, 4);
    __m512i second = j % 2 ? _mm512_srli_epi16(bits, 2) : _mm512_slli_epi16(bits, 2);
    codes[0] = _mm512_ternarylogic_epi64(codes[0], first, upper, 0xf8); /* a | b & c */
    codes[1] = _mm512_ternarylogic_epi64(codes[1], second, upper, 0xf8);
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
    __m512i a = _mm512_loadu_si512(packed), b = _mm512_loadu_si512(packed + 64),
            c = _mm512_loadu_si512(packed + 128);
    __m512i fourth = _mm512_and_si512(_mm512_srli_epi16(a, 6), two);
    fourth =
        _mm512_ternarylogic_epi64(fourth, _mm512_srli_epi16(b, 4), _mm512_set1_epi8(0x0c), 0xf8);
    fourth =
        _mm512_ternarylogic_epi64(fourth, _mm512_srli_epi16(c, 2), _mm512_set1_epi8(0x30), 0xf8);
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
INLINE struct scales scales_of(enum rf_format format, const uint8_t *at, size_t t,
                               const uint8_t *numbers)
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
    } else if (format == RF_FORMAT_IQ4_XS) {
        out.s[0] = _mm512_mul_ps(load_f16(at + 128), load_i8(at + 16 * t));
    } else if (rf_has_f32_scale(format)) {
        __m512 d = _mm512_loadu_ps(at + rf_panel_layout(format)->scale_bytes - 64);
        size_t first = is_by_16(format) ? 32 * t : 16 * t;
        out.s[0] = _mm512_mul_ps(d, load_i8(at + first));
        if (is_by_16(format)) out.s[1] = _mm512_mul_ps(d, load_i8(at + first + 16));
    } else if (format == RF_FORMAT_Q8_K) {
        __m512 d = load_f16(at + 512),
               n = _mm512_mul_ps(load_f16(at + 544), _mm512_set1_ps(-1.0f / 32.0f));
        out.s[0] = _mm512_mul_ps(d, load_i8(at + 32 * t));
        out.s[1] = _mm512_mul_ps(d, load_i8(at + 32 * t + 16));
        out.b[0] = _mm512_mul_ps(n, load_i8(at + 256 + 32 * t));
        out.b[1] = _mm512_mul_ps(n, load_i8(at + 256 + 32 * t + 16));
    } else {
        out.s[0] = load_f16(at);
        if (has_min(format)) out.b[0] = load_f16(at + 32);
    }
    return out;
}

/* Writes the sums of row i and a panel. */
INLINE void store_panel(const struct rf_linear_args *args, size_t panel, size_t i, __m512 sum)
{
    size_t r = panel * RF_PANEL_ROWS;
    __mmask16 mask = rf_mask16(args->m - r);
    float *y = args->y + i * args->ldy + r;
    if (args->bias) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, args->bias + r));
    if (args->accumulate) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), sum);
    _mm512_mask_storeu_ps(y, mask, sum);
}

#endif
