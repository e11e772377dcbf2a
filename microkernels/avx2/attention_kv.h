/* Attention over quantised groups with vectors of 256 bits. With RF_DPBUSD as vpdpbusd, else with
 * vpmaddubsw on single nibbles, whose sums of eight fit into 16 bits: 8 * 2 * 15 * 127. For several
 * queries codes of 8 bits are widened instead (attention_kv_wide.h). */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "microkernels/avx2/math.h"
#include "microkernels/x86.h"

typedef __m256 lanes;
typedef __m256i whole;

enum {
    LANES = 8,
    COLUMN_LEAST = 6, /* fewer are faster one by one */
    TOGETHER = 48,
    COLUMNS_ROOM = 96 * 1024,
#ifdef RF_DPBUSD
    CODE_BYTES = 1
#else
    CODE_BYTES = 2 /* words for vpmaddwd, where there are lower nibbles */
#endif
};

#define l_set(x) _mm256_set1_ps(x)
#define l_load(from) _mm256_loadu_ps(from)
#define l_load_first(from, n) _mm256_maskload_ps(from, rf_lanes(n))
#define l_load_f16(from) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from)))
#define l_store(to, x) _mm256_storeu_ps(to, x)
#define l_store_first(to, x, n) \
    _mm256_storeu_ps(to, _mm256_and_ps(x, _mm256_castsi256_ps(rf_lanes(n))))
#define l_add(x, y) _mm256_add_ps(x, y)
#define l_sub(x, y) _mm256_sub_ps(x, y)
#define l_mul(x, y) _mm256_mul_ps(x, y)
#define l_div(x, y) _mm256_div_ps(x, y)
#define l_fma(x, y, z) _mm256_fmadd_ps(x, y, z)
#define l_max(x, y) _mm256_max_ps(x, y)
#define l_abs(x) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define l_positive(x, y) _mm256_and_ps(x, _mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ))
#define l_exp2(x) rf_exp2_weight_ps(x)
#define l_tanh(x) rf_tanh_ps(x)
#define l_sum(x) rf_sum_ps(x)
#define l_top(x) rf_max_ps(x)
#define l_round(x) _mm256_cvtps_epi32(x)
#define l_float(x) _mm256_cvtepi32_ps(x)
#define w_set(x) _mm256_set1_epi32(x)
#define w_load(from) _mm256_loadu_si256((const __m256i *)(from))
#define w_add(x, y) _mm256_add_epi32(x, y)

INLINE void w_store8(int8_t *to, const whole x[8])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    UNROLL
    for (int i = 0; i < 2; i++, x += 4) {
        __m256i bytes =
            _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
        _mm256_storeu_si256((__m256i *)(to + i * 32), _mm256_permutevar8x32_epi32(bytes, order));
    }
}

INLINE int32_t w_sum(whole x)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 1)));
}

#include "microkernels/attention_kv.h"

/* Rows of a tile: as many as leave room for codes in 16 registers. */
#ifdef RF_DPBUSD
enum { MOST_ROWS = 4 };
#else
enum { MOST_ROWS = 6 };
#endif

INLINE __m256i broadcast(const void *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

INLINE __m256i nibbles(__m256i plane, int half)
{
    return _mm256_and_si256(half ? _mm256_srli_epi16(plane, 4) : plane, _mm256_set1_epi8(15));
}

INLINE __m256i load(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

INLINE void store(void *to, __m256i x)
{
    _mm256_storeu_si256((__m256i *)to, x);
}

/* The codes of four values of k in eight lanes, then those of the next four. */
INLINE void decode(__m256i codes[2], const uint8_t *upper, const uint8_t *lower, int has_lower)
{
    const __m256i low_nibble = _mm256_set1_epi8(15), high_nibble = _mm256_set1_epi8(-16);
    __m256i up = load(upper);
    codes[0] = nibbles(up, 0);
    codes[1] = nibbles(up, 1);
    if (!has_lower) return;
    __m256i low = load(lower);
    codes[0] = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(up, 4), high_nibble),
                               _mm256_and_si256(low, low_nibble));
    codes[1] = _mm256_or_si256(_mm256_and_si256(up, high_nibble), nibbles(low, 1));
}

#ifndef RF_DPBUSD
#    include "microkernels/avx2/attention_kv_wide.h"
#endif

/* ---- few queries ---- */

/* tile: eight lanes of a block (from byte 0 or 32 of its lines on) with `rows` rows. */
#ifdef RF_DPBUSD
INLINE void tile(const uint8_t *upper, const uint8_t *lower, size_t depth, const int8_t *x,
                 int32_t *out, int rows, int has_lower)
{
    __m256i acc[2][MOST_ROWS]; /* a result takes the time of ten others */
    UNROLL
    for (int r = 0; r < rows; r++) acc[0][r] = acc[1][r] = _mm256_setzero_si256();
    for (size_t k = 0; k < depth; k += 8) {
        __m256i codes[2];
        decode(codes, upper + k * 8, has_lower ? lower + k * 8 : NULL, has_lower);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const int8_t *at = x + r * WIDTH + k;
            acc[0][r] = RF_DPBUSD(acc[0][r], codes[0], broadcast(at));
            acc[1][r] = RF_DPBUSD(acc[1][r], codes[1], broadcast(at + 4));
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) store(out + r * WIDTH, _mm256_add_epi32(acc[0][r], acc[1][r]));
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
        __m256i codes = nibbles(load(plane + i / 2 * 64), i % 2);
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
    for (int r = 0; r < rows; r++) store(out + r * WIDTH, acc[r]);
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
#ifndef RF_DPBUSD
    if (planes->lower && x->n >= WIDE_LEAST) {
        wide_dots(planes, depth, blocks, x, out, ahead, lines);
        return;
    }
#endif
    if (planes->lower)
        all_blocks(planes, depth, blocks, x, out, ahead, lines, 1);
    else
        all_blocks(planes, depth, blocks, x, out, ahead, lines, 0);
}

#include "microkernels/avx2/attention_kv_columns.h"
