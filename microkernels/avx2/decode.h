/* Decoding of half panels, 8 weight rows in 8 lanes, for the kernels on 256 bits. */
#ifndef RF_MICROKERNELS_AVX2_DECODE_H
#define RF_MICROKERNELS_AVX2_DECODE_H

#include <immintrin.h>

#include "microkernels/kernels.h"
#include "microkernels/x86.h"

INLINE __m256i load(const uint8_t *from)
{
    return _mm256_load_si256((const __m256i *)(const void *)from);
}

/* Decodes part `part` (0, 1) of a block's codes for the 8 rows at which `block` points. Vector v
 * holds k = 16 part + 4v .. + 3. */
INLINE void decode(enum rf_format format, const uint8_t *block, int part, __m256i codes[4])
{
    __m256i nibble = _mm256_set1_epi8(15);
    if (rf_panel_layout(format)->bits == 8) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) codes[v] = load(block + 64 * (4 * part + v));
        return;
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        __m256i both = load(block + 64 * (2 * part + j));
        codes[2 * j] = _mm256_and_si256(both, nibble);
        codes[2 * j + 1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
    }
    if (rf_panel_table(format)) {
        __m256i table = _mm256_broadcastsi128_si256(
            _mm_loadu_si128((const __m128i *)(const void *)rf_panel_table(format)));
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) codes[v] = _mm256_shuffle_epi8(table, codes[v]);
    } else if (format == RF_FORMAT_Q6_K) {
        __m256i bits = load(block + 256 + 64 * part), upper = _mm256_set1_epi8(0x30);
        codes[0] = _mm256_or_si256(codes[0], _mm256_and_si256(_mm256_slli_epi16(bits, 4), upper));
        codes[1] = _mm256_or_si256(codes[1], _mm256_and_si256(_mm256_slli_epi16(bits, 2), upper));
        codes[2] = _mm256_or_si256(codes[2], _mm256_and_si256(bits, upper));
        codes[3] = _mm256_or_si256(codes[3], _mm256_and_si256(_mm256_srli_epi16(bits, 2), upper));
    }
}

INLINE __m256 load_f16(const uint8_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

INLINE __m256 load_f32(const uint8_t *from)
{
    return _mm256_loadu_ps((const float *)(const void *)from);
}

INLINE __m256 load_u8(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}

INLINE __m256 load_i8(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
}

/* The 256 6-bit numbers of a Q4_K unit, as bytes. */
INLINE void unpack_q4k(const uint8_t *packed, uint8_t numbers[256])
{
    __m256i six = _mm256_set1_epi8(63);
    for (int half = 0; half < 64; half += 32) {
        __m256i a = load(packed + half), b = load(packed + 64 + half),
                c = load(packed + 128 + half);
        __m256i fourth = _mm256_and_si256(_mm256_srli_epi16(a, 6), _mm256_set1_epi8(3));
        fourth = _mm256_or_si256(fourth,
                                 _mm256_and_si256(_mm256_srli_epi16(b, 4), _mm256_set1_epi8(0x0c)));
        fourth = _mm256_or_si256(fourth,
                                 _mm256_and_si256(_mm256_srli_epi16(c, 2), _mm256_set1_epi8(0x30)));
        _mm256_store_si256((__m256i *)(void *)(numbers + half), _mm256_and_si256(a, six));
        _mm256_store_si256((__m256i *)(void *)(numbers + 64 + half), _mm256_and_si256(b, six));
        _mm256_store_si256((__m256i *)(void *)(numbers + 128 + half), _mm256_and_si256(c, six));
        _mm256_store_si256((__m256i *)(void *)(numbers + 192 + half), fourth);
    }
}

/* Scale s and minimum b of part `part` of block t of a unit for the rows from r, 0 or 8. `numbers`:
 * of a Q4_K unit. */
INLINE void scale_of(enum rf_format format, const uint8_t *at, size_t t, int part, size_t r,
                     const uint8_t *numbers, __m256 *s, __m256 *b)
{
    size_t group = 32 * t + 16 * (size_t)part;
    *b = _mm256_setzero_ps();
    if (format == RF_FORMAT_MXFP4) {
        __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(at + r)));
        *s = _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
    } else if (format == RF_FORMAT_Q4_K) {
        *s = _mm256_mul_ps(load_f16(at + 192 + 2 * r), load_u8(numbers + 16 * t + r));
        *b = _mm256_mul_ps(load_f16(at + 224 + 2 * r), load_u8(numbers + 128 + 16 * t + r));
    } else if (format == RF_FORMAT_Q6_K) {
        *s = _mm256_mul_ps(load_f16(at + 256 + 2 * r), load_i8(at + group + r));
    } else if (format == RF_FORMAT_IQ4_XS) {
        *s = _mm256_mul_ps(load_f16(at + 128 + 2 * r), load_i8(at + 16 * t + r));
    } else if (rf_has_f32_scale(format)) {
        const uint8_t *numbers_at = at + (rf_panel_layout(format)->group == 16 ? group : 16 * t);
        size_t d_at = rf_panel_layout(format)->scale_bytes - 64;
        *s = _mm256_mul_ps(load_f32(at + d_at + 4 * r), load_i8(numbers_at + r));
    } else if (format == RF_FORMAT_Q8_K) {
        __m256 n = _mm256_mul_ps(load_f16(at + 544 + 2 * r), _mm256_set1_ps(-1.0f / 32.0f));
        *s = _mm256_mul_ps(load_f16(at + 512 + 2 * r), load_i8(at + group + r));
        *b = _mm256_mul_ps(n, load_i8(at + 256 + group + r));
    } else {
        *s = load_f16(at + 2 * r);
        if (rf_panel_layout(format)->has_min) *b = load_f16(at + 32 + 2 * r);
    }
}

/* Sum and maximum of eight lanes. */
INLINE int32_t sum8(__m256i v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

INLINE float max8(__m256 v)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* Writes the sums of weight rows r .. r + 7 and row i. */
INLINE void store(const struct rf_linear_args *args, size_t r, size_t i, __m256 sum)
{
    if (r >= args->m) return;
    size_t left = args->m - r;
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left < 8 ? (int)left : 8),
                                      _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    float *y = args->y + i * args->ldy + r;
    if (args->bias) sum = _mm256_add_ps(sum, _mm256_maskload_ps(args->bias + r, mask));
    if (args->accumulate) sum = _mm256_add_ps(_mm256_maskload_ps(y, mask), sum);
    _mm256_maskstore_ps(y, mask, sum);
}

#endif
