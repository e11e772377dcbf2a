/* Products of nibbles with a few rows (microkernels/attention_kv_rows.h): vpdpbusd takes codes as
 * the unsigned operand and a broadcast of four bytes of a row as the signed one. */
#ifndef RF_MICROKERNELS_AVX512_ATTENTION_KV_ROWS_H
#define RF_MICROKERNELS_AVX512_ATTENTION_KV_ROWS_H

#include "microkernels/avx512/attention_kv.h"

/* A tile has two lane blocks. */
_Static_assert(FEW == 12, "the cases of all_rows");

/* `rows` rows with `blocks` lane blocks, whose nibbles begin at byte `from` of the planes. With
 * every eight values of k it prefetches `lines`. */
INLINE void tile(const struct planes *planes, size_t from, size_t depth, const int8_t *x,
                 int32_t *out, struct ahead *ahead, size_t lines, int rows, int blocks,
                 int has_lower)
{
    __m512i acc[FEW * 2];
    size_t block = depth * 8;
    const uint8_t *upper = planes->upper, *lower = planes->lower;
#pragma GCC unroll 24
    for (int t = 0; t < rows * blocks; t++) acc[t] = _mm512_setzero_si512();
    for (size_t k = 0; k < depth; k += 8) {
        prefetch(ahead, lines);
        /* One half after the other, so that all sums stay in registers. */
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            __m512i codes[2];
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++) {
                size_t at = from + (size_t)b * block + k * 8;
                codes[b] = decode(upper + at, has_lower ? lower + at : NULL, half, has_lower);
            }
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, x + (size_t)r * WIDTH + k + (size_t)half * 4, sizeof four);
                __m512i bytes = _mm512_set1_epi32(four);
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    acc[r * blocks + b] = _mm512_dpbusd_epi32(acc[r * blocks + b], codes[b], bytes);
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
            _mm512_storeu_si512(out + r * WIDTH + b * 16, acc[r * blocks + b]);
}

/* `blocks` lane blocks from block b on with all rows. */
INLINE void all_rows(const struct planes *planes, size_t b, size_t depth, const struct byte_rows *x,
                     int32_t (*out)[WIDTH], struct ahead *ahead, size_t lines, int blocks,
                     int has_lower)
{
    size_t at = b * depth * 8;
    int32_t *to = out[0] + b * 16;
#define ROWS_CASE(rows) \
case rows: tile(planes, at, depth, x->at[0], to, ahead, lines, rows, blocks, has_lower); break;
    switch (x->n) {
        ROWS_CASE(1)
        ROWS_CASE(2)
        ROWS_CASE(3)
        ROWS_CASE(4)
        ROWS_CASE(5)
        ROWS_CASE(6)
        ROWS_CASE(7)
        ROWS_CASE(8)
        ROWS_CASE(9)
        ROWS_CASE(10)
        ROWS_CASE(11)
        ROWS_CASE(12)
    default: break;
    }
#undef ROWS_CASE
}

INLINE void all_blocks(const struct planes *planes, size_t depth, size_t blocks,
                       const struct byte_rows *x, int32_t (*out)[WIDTH], struct ahead *ahead,
                       size_t lines, int has_lower)
{
    size_t b = 0, steps = (blocks + 1) / 2 * depth / 8;
    lines = (lines + steps - 1) / steps;
    for (; b + 2 <= blocks; b += 2) all_rows(planes, b, depth, x, out, ahead, lines, 2, has_lower);
    if (b < blocks) all_rows(planes, b, depth, x, out, ahead, lines, 1, has_lower);
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

#endif
