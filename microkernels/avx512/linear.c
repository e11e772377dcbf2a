/* BF16 weights times packed BF16 rows with vdpbf16ps (AVX512_BF16).
 *
 * One form serves one row and five hundred. Every result has one accumulator of 16 lanes. Lane l
 * adds the products of j = 32c + 2l and 32c + 2l + 1 over the chunks c in order, and one fixed tree
 * adds the lanes. The number of results in a tile changes only which loads are shared. So a prompt
 * read in blocks gets the bits that decoding gets. */
#include <immintrin.h>

#include "microkernels/avx512/mask.h"
#include "microkernels/avx512/tier.h"
#include "microkernels/x86.h"

/* The cache lines of weights that a walk prefetches: all or, where two walks use the same weights,
 * each its half of what comes next. */
enum lines { ALL_LINES, EVEN_LINES, ODD_LINES };

enum {
    MAX_TILE = 24, /* accumulators of a tile: 32 registers minus 8 operands */
    /* Prefetch distance in bytes with one row, with two or three, with more. The less a stream
     * waits for products, the more the processor prefetches by itself. */
    AHEAD_ONE = 1024,
    AHEAD_TWO = 2048,
    AHEAD_MORE = 3072,
    PIECE = 24, /* weight rows read twice */
    LONG = 3072 /* values of a row; eight longer rows fill the L1 cache */
};

/* An odd number of cache lines, so that rows of 2^n values do not share the same cache sets. */
static size_t avx512_linear_row_bytes(size_t k)
{
    return ((k * sizeof(uint16_t) + 63) / 64 | 1) * 64;
}

static size_t avx512_packed_bytes_bf16(size_t n, size_t k)
{
    return n * avx512_linear_row_bytes(k);
}

static void avx512_pack_bf16(const struct rf_pack_args *args)
{
    size_t k = args->k;
    const float *x = args->x;
    uint16_t *to =
        (uint16_t *)(void *)((char *)args->packed + args->row * avx512_linear_row_bytes(k));
    for (size_t j = 0; j < k; j += 32) {
        __mmask16 low = rf_mask16(k - j), high = rf_mask16_high(k - j);
        __m512bh both = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + j + 16),
                                            _mm512_maskz_loadu_ps(low, x + j));
        _mm512_store_si512(to + j, (__m512i)both);
    }
}

/* The sums of the lanes of a, b, c, d: 256-bit halves, 128-bit halves, then rf_sum4's tree. */
INLINE __m128 avx512_linear_sum4(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m256 a8 = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m256 b8 = _mm256_add_ps(_mm512_castps512_ps256(b), _mm512_extractf32x8_ps(b, 1));
    __m256 c8 = _mm256_add_ps(_mm512_castps512_ps256(c), _mm512_extractf32x8_ps(c, 1));
    __m256 d8 = _mm256_add_ps(_mm512_castps512_ps256(d), _mm512_extractf32x8_ps(d, 1));
    __m128 a4 = _mm_add_ps(_mm256_castps256_ps128(a8), _mm256_extractf128_ps(a8, 1));
    __m128 b4 = _mm_add_ps(_mm256_castps256_ps128(b8), _mm256_extractf128_ps(b8, 1));
    __m128 c4 = _mm_add_ps(_mm256_castps256_ps128(c8), _mm256_extractf128_ps(c8, 1));
    __m128 d4 = _mm_add_ps(_mm256_castps256_ps128(d8), _mm256_extractf128_ps(d8, 1));
    return rf_sum4(a4, b4, c4, d4);
}

/* Writes the lane sums of `count` (1..4) results of weights r, r + step, ... */
INLINE void avx512_linear_finish(const struct rf_linear_args *args, float *y, size_t r, size_t step,
                                 const __m512 *acc, int count)
{
    __m512 zero = _mm512_setzero_ps();
    __m128 sum = avx512_linear_sum4(acc[0], count > 1 ? acc[1] : zero, count > 2 ? acc[2] : zero,
                                    count > 3 ? acc[3] : zero);
    if (step == 1) {
        __mmask8 mask = (__mmask8)((1 << count) - 1);
        if (args->bias) sum = _mm_add_ps(sum, _mm_maskz_loadu_ps(mask, args->bias + r));
        if (args->accumulate) sum = _mm_add_ps(_mm_maskz_loadu_ps(mask, y + r), sum);
        _mm_mask_storeu_ps(y + r, mask, sum);
        return;
    }
    rf_store4(args, y, r, step, sum, count);
}

/* Adds to acc the products of vectors begin .. end - 1 of mr weight rows, r and every step-th after
 * it, and nr packed rows from i. `ahead`: prefetch distance in bytes. */
INLINE void avx512_linear_multiply(const struct rf_linear_args *args, size_t r, size_t step,
                                   size_t i, int mr, int nr, size_t begin, size_t end, size_t ahead,
                                   enum lines lines, __m512 *acc)
{
    size_t stride = avx512_linear_row_bytes(args->k), gap = step * args->ldw;
    const uint16_t *w = (const uint16_t *)args->w + r * args->ldw;
    const char *x = (const char *)args->x + i * stride;
    for (size_t c = begin; c < end; c++) {
        int asks = ahead && (lines == ALL_LINES || c % 2 == (lines == ODD_LINES));
        __m512bh weights[8];
#pragma GCC unroll 8
        for (int a = 0; a < mr; a++) {
            const uint16_t *at = w + (size_t)a * gap + c * 32;
            weights[a] = (__m512bh)_mm512_loadu_si512(at);
            if (asks) _mm_prefetch((const char *)at + ahead, _MM_HINT_T1);
        }
#pragma GCC unroll 8
        for (int b = 0; b < nr; b++) {
            __m512bh row = (__m512bh)_mm512_load_si512(x + (size_t)b * stride + c * 64);
#pragma GCC unroll 8
            for (int a = 0; a < mr; a++)
                acc[b * mr + a] = _mm512_dpbf16_ps(acc[b * mr + a], weights[a], row);
        }
    }
}

/* Adds the products of the rest of k after whole vectors, then writes all sums. */
INLINE void avx512_linear_complete(const struct rf_linear_args *args, size_t r, size_t step,
                                   size_t i, int mr, int nr, __m512 *acc)
{
    size_t stride = avx512_linear_row_bytes(args->k), whole = args->k / 32, gap = step * args->ldw;
    const uint16_t *w = (const uint16_t *)args->w + r * args->ldw;
    const char *x = (const char *)args->x + i * stride;
    if (args->k % 32) {
        __mmask32 mask = (1u << args->k % 32) - 1;
        __m512bh weights[8];
#pragma GCC unroll 8
        for (int a = 0; a < mr; a++)
            weights[a] = (__m512bh)_mm512_maskz_loadu_epi16(mask, w + (size_t)a * gap + whole * 32);
#pragma GCC unroll 8
        for (int b = 0; b < nr; b++) {
            __m512bh row = (__m512bh)_mm512_load_si512(x + (size_t)b * stride + whole * 64);
#pragma GCC unroll 8
            for (int a = 0; a < mr; a++)
                acc[b * mr + a] = _mm512_dpbf16_ps(acc[b * mr + a], weights[a], row);
        }
    }
#pragma GCC unroll 8
    for (int b = 0; b < nr; b++) {
        float *y = args->y + (i + (size_t)b) * args->ldy;
#pragma GCC unroll 2
        for (int a = 0; a < mr; a += 4)
            avx512_linear_finish(args, y, r + (size_t)a * step, step, acc + b * mr + a,
                                 mr - a < 4 ? mr - a : 4);
    }
}

/* mr weight rows, r and every step-th after it, times nr packed rows from i. */
INLINE void avx512_linear_tile(const struct rf_linear_args *args, size_t r, size_t step, size_t i,
                               int mr, int nr, size_t ahead, enum lines lines)
{
    __m512 acc[MAX_TILE];
#pragma GCC unroll 24
    for (int t = 0; t < mr * nr; t++) acc[t] = _mm512_setzero_ps();
    avx512_linear_multiply(args, r, step, i, mr, nr, 0, args->k / 32, ahead, lines, acc);
    avx512_linear_complete(args, r, step, i, mr, nr, acc);
}

/* All weight rows times nr packed rows from i: the decoding shape, bound by memory. Weight rows are
 * cut into mr parts, each read from end to end: memory is fastest with a few long streams. */
INLINE void avx512_linear_stream(const struct rf_linear_args *args, size_t i, int mr, int nr,
                                 size_t ahead, enum lines lines)
{
    size_t part = args->m / (size_t)mr;
    for (size_t r = 0; r < part; r++) avx512_linear_tile(args, r, part, i, mr, nr, ahead, lines);
    for (size_t r = part * (size_t)mr; r < args->m; r++)
        avx512_linear_tile(args, r, 1, i, 1, nr, ahead, lines);
}

/* All weight rows times nr packed rows from i that are too long for the L1 cache: every three rows
 * of weights would load them again. So DEPTH vectors of them at a time are multiplied by BAND
 * tiles, whose sums wait in memory. The order of additions is that of `stream`. */
INLINE void avx512_linear_stream_deep(const struct rf_linear_args *args, size_t i, int nr)
{
    enum { MR = 3, BAND = 4, DEPTH = 32, AHEAD = 2048 };
    size_t part = args->m / MR, whole = args->k / 32, row_end = args->k * sizeof(uint16_t);
    __m512 acc[BAND][MAX_TILE];
    for (size_t r = 0; r < part; r += BAND) {
        size_t band = part - r < BAND ? part - r : BAND;
        for (size_t begin = 0; begin < whole; begin += DEPTH) {
            size_t end = begin + DEPTH < whole ? begin + DEPTH : whole, ahead = AHEAD;
            /* The next band comes after a row's end. */
            if (begin * 64 + AHEAD >= row_end) ahead += (BAND - 1) * args->ldw * sizeof(uint16_t);
            for (size_t t = 0; t < band; t++) {
                __m512 sums[MAX_TILE];
#pragma GCC unroll 24
                for (int a = 0; a < MR * nr; a++) sums[a] = begin ? acc[t][a] : _mm512_setzero_ps();
                avx512_linear_multiply(args, r + t, part, i, MR, nr, begin, end, ahead, ALL_LINES,
                                       sums);
                if (end == whole) {
                    avx512_linear_complete(args, r + t, part, i, MR, nr, sums);
                } else {
#pragma GCC unroll 24
                    for (int a = 0; a < MR * nr; a++) acc[t][a] = sums[a];
                }
            }
        }
    }
    for (size_t r = part * MR; r < args->m; r++)
        avx512_linear_tile(args, r, 1, i, 1, nr, AHEAD, ALL_LINES);
}

/* The prompt shape, bound by arithmetic: six packed rows stay in the L1 cache while the call's
 * weights pass in the L2 cache. */
static void avx512_linear_block(const struct rf_linear_args *args, size_t n)
{
    for (size_t i = 0; i + 6 <= n; i += 6) {
        size_t r = 0;
        for (; r + 4 <= args->m; r += 4) avx512_linear_tile(args, r, 1, i, 4, 6, 0, ALL_LINES);
        for (; r < args->m; r++) avx512_linear_tile(args, r, 1, i, 1, 6, 0, ALL_LINES);
    }
}

/* All weight rows times n <= 8 packed rows from i. */
static void avx512_linear_few(const struct rf_linear_args *args, size_t i, size_t n, size_t ahead,
                              enum lines lines)
{
    switch (n) {
    case 1: avx512_linear_stream(args, i, 4, 1, ahead, lines); break;
    case 2: avx512_linear_stream(args, i, 8, 2, ahead, lines); break;
    case 3: avx512_linear_stream(args, i, 8, 3, ahead, lines); break;
    case 4: avx512_linear_stream(args, i, 4, 4, ahead, lines); break;
    case 5: avx512_linear_stream(args, i, 4, 5, ahead, lines); break;
    case 6: avx512_linear_stream(args, i, 4, 6, ahead, lines); break;
    case 7: avx512_linear_stream(args, i, 3, 7, ahead, lines); break;
    case 8: avx512_linear_stream(args, i, 3, 8, ahead, lines); break;
    default: break;
    }
}

/* The same for 5 to 8 long rows. */
static void avx512_linear_few_deep(const struct rf_linear_args *args, size_t i, size_t n)
{
    switch (n) {
    case 5: avx512_linear_stream_deep(args, i, 5); break;
    case 6: avx512_linear_stream_deep(args, i, 6); break;
    case 7: avx512_linear_stream_deep(args, i, 7); break;
    case 8: avx512_linear_stream_deep(args, i, 8); break;
    default: break;
    }
}

/* More rows than a tile holds, but too few for blocks: weights are read twice, the second time from
 * the L2 cache. Each pass prefetches half of the next piece, so that memory stays busy. */
static void halves(const struct rf_linear_args *args)
{
    struct rf_linear_args piece = *args;
    size_t first = args->n - args->n / 2, ahead = PIECE * args->ldw * sizeof(uint16_t);
    for (size_t r = 0; r < args->m; r += PIECE) {
        piece.m = args->m - r < PIECE ? args->m - r : PIECE;
        piece.w = (const uint16_t *)args->w + r * args->ldw;
        piece.y = args->y + r;
        piece.bias = args->bias ? args->bias + r : NULL;
        avx512_linear_few(&piece, 0, first, ahead, EVEN_LINES);
        avx512_linear_few(&piece, first, args->n / 2, ahead, ODD_LINES);
    }
}

static void avx512_linear_bf16(const struct rf_linear_args *args)
{
    if (args->n > 4 && args->n <= 8 && args->k >= LONG) {
        avx512_linear_few_deep(args, 0, args->n);
    } else if (args->n <= 8) {
        avx512_linear_few(args, 0, args->n,
                          args->n == 1   ? AHEAD_ONE
                          : args->n <= 3 ? AHEAD_TWO
                                         : AHEAD_MORE,
                          ALL_LINES);
    } else if (args->n <= 16) {
        halves(args);
    } else {
        size_t whole = args->n - args->n % 6;
        avx512_linear_block(args, whole);
        avx512_linear_few(args, whole, args->n % 6, 0, ALL_LINES);
    }
}

void rf_avx512_init_linear(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_BF16] = avx512_packed_bytes_bf16;
    kernels->pack[RF_OPERAND_BF16] = avx512_pack_bf16;
    kernels->linear[RF_FORMAT_BF16] = avx512_linear_bf16;
}
