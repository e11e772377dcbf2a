/* Attention over quantised groups: vpdpbusd takes codes as the unsigned operand and a broadcast of
 * four bytes of a row as the signed one. */
#include <string.h>

#include "microkernels/avx512/attention_kv.h"
#include "microkernels/avx512/tier.h"

enum { MOST_ROWS = 8, AHEAD = 8192 /* prefetch distance in bytes of a plane */ };

INLINE void tile(const uint8_t *upper, const uint8_t *lower, size_t depth, const int8_t *x,
                 int32_t *out, int rows, int blocks)
{
    __m512i acc[MOST_ROWS * 2];
    size_t block = depth * 8;
#pragma GCC unroll 16
    for (int t = 0; t < rows * blocks; t++) acc[t] = _mm512_setzero_si512();
    for (size_t k = 0; k < depth; k += 8) {
        __m512i codes[4][2];
#pragma GCC unroll 4
        for (int b = 0; b < blocks; b++) {
            const uint8_t *up = upper + (size_t)b * block + k * 8;
            const uint8_t *low = lower ? lower + (size_t)b * block + k * 8 : NULL;
            decode(up, low, codes[b]);
            _mm_prefetch((const char *)(up + AHEAD), _MM_HINT_T0);
            if (low) _mm_prefetch((const char *)(low + AHEAD), _MM_HINT_T0);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++)
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, x + (size_t)r * WIDTH + k + (size_t)half * 4, sizeof four);
                __m512i bytes = _mm512_set1_epi32(four);
#pragma GCC unroll 4
                for (int b = 0; b < blocks; b++)
                    acc[r * blocks + b] =
                        _mm512_dpbusd_epi32(acc[r * blocks + b], codes[b][half], bytes);
            }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int b = 0; b < blocks; b++)
            _mm512_storeu_si512(out + r * WIDTH + b * 16, acc[r * blocks + b]);
}

/* `blocks` lane blocks with all rows. */
INLINE void all_rows(const uint8_t *upper, const uint8_t *lower, size_t depth,
                     const struct byte_rows *x, int32_t (*out)[WIDTH], size_t at, int blocks)
{
    size_t tiles = (x->n + MOST_ROWS - 1) / MOST_ROWS;
    for (size_t t = 0, r = 0, end; t < tiles; t++, r = end) {
        end = x->n * (t + 1) / tiles;
        const int8_t *from = x->at[r];
        int32_t *to = out[r] + at;
        switch (end - r) {
        case 1: tile(upper, lower, depth, from, to, 1, blocks); break;
        case 2: tile(upper, lower, depth, from, to, 2, blocks); break;
        case 3: tile(upper, lower, depth, from, to, 3, blocks); break;
        case 4: tile(upper, lower, depth, from, to, 4, blocks); break;
        case 5: tile(upper, lower, depth, from, to, 5, blocks); break;
        case 6: tile(upper, lower, depth, from, to, 6, blocks); break;
        case 7: tile(upper, lower, depth, from, to, 7, blocks); break;
        case 8: tile(upper, lower, depth, from, to, 8, blocks); break;
        default: break;
        }
    }
}

INLINE void all_blocks(const uint8_t *upper, const uint8_t *lower, size_t depth, size_t blocks,
                       const struct byte_rows *x, int32_t (*out)[WIDTH])
{
    size_t b = 0, bytes = depth * 8;
    for (; b + 2 <= blocks; b += 2)
        all_rows(upper + b * bytes, lower ? lower + b * bytes : NULL, depth, x, out, b * 16, 2);
    if (b < blocks)
        all_rows(upper + b * bytes, lower ? lower + b * bytes : NULL, depth, x, out, b * 16, 1);
}

static void kv_dots(const uint8_t *upper, const uint8_t *lower, size_t depth, size_t blocks,
                    const struct byte_rows *x, int32_t (*out)[WIDTH])
{
    if (lower)
        all_blocks(upper, lower, depth, blocks, x, out);
    else
        all_blocks(upper, NULL, depth, blocks, x, out);
}

void rf_avx512_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = attention_kv;
}
