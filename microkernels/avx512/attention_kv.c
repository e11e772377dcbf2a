/* Attention over quantised groups with vpdpbusd. */
enum { TOGETHER = 48, COLUMNS_ROOM = 96 * 1024 };

#define RF_NAMED(kernel) avx512_##kernel
#include "microkernels/avx512/attention_kv_rows.h"

#include "microkernels/avx512/tier.h"

/* codes[k / 4][16][4] of a block. */
INLINE void kv_decode(uint8_t *codes, const struct planes *planes, size_t block, size_t depth,
                      int has_lower)
{
    size_t begin = block * depth * 8;
    for (size_t line = begin; line < begin + depth * 8; line += 64, codes += 128) {
        const uint8_t *upper = planes->upper + line,
                      *lower = has_lower ? planes->lower + line : NULL;
        _mm512_storeu_si512(codes, decode(upper, lower, 0, has_lower));
        _mm512_storeu_si512(codes + 64, decode(upper, lower, 1, has_lower));
    }
}

/* `rows` rows of a block with n columns. */
INLINE void column_tile(const uint8_t *codes, const struct column *columns, size_t depth,
                        int32_t *sums, int rows, int n)
{
    __m512i acc[2][16];
    const int8_t *quads[2] = {columns[0].rounded, columns[n - 1].rounded};
    UNROLL
    for (int c = 0; c < n; c++) UNROLL
    for (int r = 0; r < rows; r++) acc[c][r] = _mm512_setzero_si512();
    for (size_t k = 0; k < depth; k += 4, codes += 64) {
        __m512i x[2];
        UNROLL
        for (int c = 0; c < n; c++) x[c] = _mm512_loadu_si512(quads[c] + k * (QUAD / 4));
        UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, codes + r * 4, sizeof four);
            UNROLL
            for (int c = 0; c < n; c++)
                acc[c][r] = _mm512_dpbusd_epi32(acc[c][r], _mm512_set1_epi32(four), x[c]);
        }
    }
    UNROLL
    for (int c = 0; c < n; c++) UNROLL
    for (int r = 0; r < rows; r++) _mm512_storeu_si512(sums + (c * 16 + r) * LANES, acc[c][r]);
}

APART static void kv_products(const uint8_t *codes, const struct column *columns, size_t n,
                              size_t depth, int has_lower, int32_t *sums)
{
    (void)has_lower;
    if (n == 1) {
        column_tile(codes, columns, depth, sums, 16, 1);
        return;
    }
    for (size_t r = 0; r < 16; r += 8)
        column_tile(codes + r * 4, columns, depth, sums + r * LANES, 8, 2);
}

void rf_avx512_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = avx512_attention_kv;
}
