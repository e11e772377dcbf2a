/* Attention over quantised groups with vectors of 256 bits. With RF_DPBUSD as vpdpbusd, else with
 * vpmaddubsw on single nibbles, whose sums of eight fit into 16 bits: 8 * 2 * 15 * 127. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "microkernels/avx2/math.h"
#include "microkernels/avx2/tier.h"
#include "microkernels/x86.h"

typedef struct {
    __m256 a, b;
} lanes;
typedef struct {
    __m256i a, b;
} whole;

INLINE lanes l_set(float x)
{
    return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

INLINE lanes l_load(const float *from)
{
    return (lanes){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

INLINE lanes l_load_first(const float *from, size_t n)
{
    return (lanes){_mm256_maskload_ps(from, rf_lanes(n)),
                   n > 8 ? _mm256_maskload_ps(from + 8, rf_lanes(n - 8)) : _mm256_setzero_ps()};
}

INLINE lanes l_load_f16(const uint16_t *from)
{
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + 8)))};
}

INLINE void l_store(float *to, lanes x)
{
    _mm256_storeu_ps(to, x.a);
    _mm256_storeu_ps(to + 8, x.b);
}

INLINE void l_store_first(float *to, lanes x, size_t n)
{
    _mm256_storeu_ps(to, _mm256_and_ps(x.a, _mm256_castsi256_ps(rf_lanes(n))));
    _mm256_storeu_ps(to + 8, _mm256_and_ps(x.b, _mm256_castsi256_ps(rf_lanes(n > 8 ? n - 8 : 0))));
}

INLINE lanes l_add(lanes x, lanes y)
{
    return (lanes){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

INLINE lanes l_mul(lanes x, lanes y)
{
    return (lanes){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

INLINE lanes l_fma(lanes x, lanes y, lanes z)
{
    return (lanes){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

INLINE lanes l_max(lanes x, lanes y)
{
    return (lanes){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

INLINE lanes l_abs(lanes x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

INLINE lanes l_exp2(lanes x)
{
    return (lanes){rf_exp2_weight_ps(x.a), rf_exp2_weight_ps(x.b)};
}

INLINE lanes l_tanh(lanes x)
{
    return (lanes){rf_tanh_ps(x.a), rf_tanh_ps(x.b)};
}

INLINE float l_sum(lanes x)
{
    return rf_sum_ps(_mm256_add_ps(x.a, x.b));
}

INLINE float l_top(lanes x)
{
    return rf_max_ps(_mm256_max_ps(x.a, x.b));
}

INLINE whole l_round(lanes x)
{
    return (whole){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}

INLINE lanes l_float(whole x)
{
    return (lanes){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

INLINE whole w_set(int32_t x)
{
    return (whole){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}

INLINE whole w_load(const int32_t *from)
{
    return (whole){_mm256_loadu_si256((const __m256i *)from),
                   _mm256_loadu_si256((const __m256i *)(from + 8))};
}

INLINE whole w_add(whole x, whole y)
{
    return (whole){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}

INLINE __m256i pack_two(whole x, whole y) /* to bytes */
{
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINE void w_store8(int8_t *to, const whole x[4])
{
    _mm256_storeu_si256((__m256i *)(to), pack_two(x[0], x[1]));
    _mm256_storeu_si256((__m256i *)(to + 32), pack_two(x[2], x[3]));
}

INLINE int32_t w_sum(whole x)
{
    __m256i eight = _mm256_add_epi32(x.a, x.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 1)));
}

#include "microkernels/attention_kv.h"

/* Of a tile, as many as leave room for codes in 16 registers. */
#ifdef RF_DPBUSD
enum { MOST_ROWS = 4 };
#else
enum { MOST_ROWS = 6 };
#endif

INLINE __m256i broadcast(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

INLINE __m256i nibbles(__m256i plane, int half)
{
    return _mm256_and_si256(half ? _mm256_srli_epi16(plane, 4) : plane, _mm256_set1_epi8(15));
}

INLINE __m256i load_plane(const uint8_t *plane)
{
    return _mm256_loadu_si256((const __m256i *)plane);
}

/* tile: eight lanes of a block (from byte 0 or 32 of its lines on) with `rows` rows. */
#ifdef RF_DPBUSD
INLINE void tile(const uint8_t *upper, const uint8_t *lower, size_t depth, const int8_t *x,
                 int32_t *out, int rows, int has_lower)
{
    const __m256i low_nibble = _mm256_set1_epi8(15), high_nibble = _mm256_set1_epi8(-16);
    __m256i acc[2][MOST_ROWS]; /* a result takes the time of ten others */
    UNROLL
    for (int r = 0; r < rows; r++) acc[0][r] = acc[1][r] = _mm256_setzero_si256();
    for (size_t k = 0; k < depth; k += 8) {
        __m256i up = load_plane(upper + k * 8), codes[2] = {nibbles(up, 0), nibbles(up, 1)};
        if (has_lower) {
            __m256i low = load_plane(lower + k * 8);
            codes[0] = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(up, 4), high_nibble),
                                       _mm256_and_si256(low, low_nibble));
            codes[1] = _mm256_or_si256(_mm256_and_si256(up, high_nibble), nibbles(low, 1));
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            const int8_t *at = x + r * WIDTH + k;
            acc[0][r] = RF_DPBUSD(acc[0][r], codes[0], broadcast(at));
            acc[1][r] = RF_DPBUSD(acc[1][r], codes[1], broadcast(at + 4));
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        _mm256_storeu_si256((__m256i *)(out + r * WIDTH), _mm256_add_epi32(acc[0][r], acc[1][r]));
}
#else
/* Adds the products with a plane's nibbles of `steps` times eight values of k, as many as 16 bits
 * hold, times `unit`. */
INLINE void add_plane(__m256i *acc, const uint8_t *plane, const int8_t *x, int rows, int steps,
                      int16_t unit)
{
    __m256i sums[MOST_ROWS];
    /* gcc would keep the bytes for both planes, for which it lacks registers. */
    __asm__ volatile("" : "+r"(x));
    UNROLL
    for (int i = 0; i < 2 * steps; i++) {
        __m256i codes = nibbles(load_plane(plane + i / 2 * 64), i % 2);
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256i product = _mm256_maddubs_epi16(codes, broadcast(x + r * WIDTH + i * 4));
            sums[r] = i > 0 ? _mm256_add_epi16(sums[r], product) : product;
            IN_ORDER(sums[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(sums[r], _mm256_set1_epi16(unit)));
        IN_ORDER(acc[r]);
    }
}

INLINE void tile(const uint8_t *upper, const uint8_t *lower, size_t depth, const int8_t *x,
                 int32_t *out, int rows, int has_lower)
{
    enum { STEPS = 4, DEPTH = STEPS * 8 };
    __m256i acc[MOST_ROWS];
    size_t k = 0;
    UNROLL
    for (int r = 0; r < rows; r++) acc[r] = _mm256_setzero_si256();
    for (; k + DEPTH <= depth; k += DEPTH) {
        add_plane(acc, upper + k * 8, x + k, rows, STEPS, has_lower ? 16 : 1);
        if (has_lower) add_plane(acc, lower + k * 8, x + k, rows, STEPS, 1);
    }
    if (k < depth) { /* half of that: depths are multiples of 16 */
        add_plane(acc, upper + k * 8, x + k, rows, STEPS / 2, has_lower ? 16 : 1);
        if (has_lower) add_plane(acc, lower + k * 8, x + k, rows, STEPS / 2, 1);
    }
    UNROLL
    for (int r = 0; r < rows; r++) _mm256_storeu_si256((__m256i *)(out + r * WIDTH), acc[r]);
}
#endif

INLINE void all_rows(const uint8_t *upper, const uint8_t *lower, size_t depth,
                     const struct byte_rows *x, int32_t (*out)[WIDTH], size_t at, int has_lower)
{
    size_t tiles = (x->n + MOST_ROWS - 1) / MOST_ROWS;
    for (size_t r = 0, n; r < x->n; r += n, tiles--) {
        n = (x->n - r + tiles - 1) / tiles;
#define ROWS_CASE(rows) \
    case rows: tile(upper, lower, depth, x->at[r], out[r] + at, rows, has_lower); break;
        switch (n) {
            ROWS_CASE(1)
            ROWS_CASE(2)
            ROWS_CASE(3)
            ROWS_CASE(4)
#ifndef RF_DPBUSD
            ROWS_CASE(5)
            ROWS_CASE(6)
#endif
        default: break;
        }
#undef ROWS_CASE
    }
}

INLINE void all_blocks(const struct planes *planes, size_t depth, size_t blocks,
                       const struct byte_rows *x, int32_t (*out)[WIDTH], struct ahead *ahead,
                       size_t lines, int has_lower)
{
    for (size_t h = 0; h < 2 * blocks; h++) { /* halves of blocks */
        size_t at = h / 2 * depth * 8 + h % 2 * 32;
        prefetch(ahead, lines / (2 * blocks) + 1);
        all_rows(planes->upper + at, has_lower ? planes->lower + at : NULL, depth, x, out, h * 8,
                 has_lower);
    }
}

static void kv_dots(const struct planes *planes, size_t depth, size_t blocks,
                    const struct byte_rows *x, int32_t (*out)[WIDTH], struct ahead *ahead,
                    size_t lines)
{
    if (planes->lower)
        all_blocks(planes, depth, blocks, x, out, ahead, lines, 1);
    else
        all_blocks(planes, depth, blocks, x, out, ahead, lines, 0);
}
