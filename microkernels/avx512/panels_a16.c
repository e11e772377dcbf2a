/* Weights in panels times 16-bit rows with vdpbf16ps (AVX512_BF16): weights are dequantised and
 * rounded to BF16 (the verifying half of QSpec).
 *
 * For a few rows weights are decoded in registers; for more, once into the L1 cache. Every result
 * has one accumulator lane, which adds pair after pair, so that both give the same bits. */
#include <immintrin.h>

#include "microkernels/avx512/panels_a16.h"
#include "microkernels/avx512/tier.h"

enum {
    MAX_PANELS = 2, /* of a tile that is decoded in registers */
    FEW_ROWS = 8,   /* for which weights are decoded again */
    MAX_TILE = 8,   /* accumulators of such a tile: rows times panels */
    TILE_ROWS = 8,  /* rows of a tile of decoded weights */
    PREFETCH = 4096 /* prefetch distance in bytes of codes */
};

INLINE void prefetch(const uint8_t *codes, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T1);
}

/* Hides from the compiler where rows are. Otherwise it keeps what panels have in common of them in
 * registers that a loop does not have to spare, and spills others. */
INLINE const uint16_t *opaque(const uint16_t *x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* acc + the products of a vector of pairs and one pair of a row. */
INLINE __m512 add_products(__m512 acc, __m512i pairs, const uint16_t *x)
{
    int32_t pair;
    __builtin_memcpy(&pair, x, sizeof pair);
    return _mm512_dpbf16_ps(acc, (__m512bh)pairs, (__m512bh)_mm512_set1_epi32(pair));
}

/* Panels first, first + step, ... (np of them) times rows i .. i + nr - 1. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                 size_t step, size_t i, int np, int nr)
{
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k), gap = step * args->ldw,
           block_bytes = rf_panel_layout(format)->block_bytes,
           scale_bytes = rf_panel_layout(format)->scale_bytes;
    const uint16_t *x = (const uint16_t *)args->x + i * stride;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * block_bytes;
    _Alignas(64) uint8_t numbers[MAX_PANELS][256];
    __m512 acc[MAX_TILE];
#pragma GCC unroll 8
    for (int t = 0; t < np * nr; t++) acc[t] = _mm512_setzero_ps();
    for (size_t block = 0; block < blocks; block++, x += RF_BLOCK) {
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const uint8_t *codes = codes_at + (size_t)p * gap + block * block_bytes,
                          *unit = scales_at + (size_t)p * gap +
                                  (is_super(format) ? block / 8 : block) * scale_bytes;
            const uint16_t *rows = opaque(x);
            prefetch(codes, block_bytes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
            struct a16_scales scales = a16_scales_of(format, unit, block % 8, numbers[p]);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                __m512i pairs[4];
                decode_a16(format, codes, j, &scales, pairs);
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++)
#pragma GCC unroll 4
                    for (int v = 0; v < 4; v++)
                        acc[p * nr + a] = add_products(acc[p * nr + a], pairs[v],
                                                       rows + (size_t)a * stride + 8 * j + 2 * v);
            }
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < np * nr; t++)
        store_panel(args, first + (size_t)(t / nr) * step, i + (size_t)(t % nr), acc[t]);
}

/* All panels times nr <= FEW_ROWS rows. Panels are cut into np parts, each read from end to end. */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, int np, int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / (size_t)np;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, 0, np, nr);
    for (size_t p = part * (size_t)np; p < panels; p++) tile(args, format, p, 1, 0, 1, nr);
}

/* Rows 0 .. nr - 1 of all panels of a chunk. */
INLINE void chunk_tile(const struct a16_chunk *chunk, int np, const uint16_t *x, size_t stride,
                       int nr, int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    __m512 acc[TILE_ROWS * A16_PANELS];
#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++)
        acc[t] = first ? _mm512_setzero_ps() : _mm512_load_ps(sums[t / np][t % np]);
    for (size_t v = 0; v < chunk->blocks * A16_PAIRS; v++) {
        __m512i pairs[A16_PANELS];
#pragma GCC unroll 2
        for (int p = 0; p < np; p++) pairs[p] = chunk->pairs[p][v];
#pragma GCC unroll 8
        for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
            for (int p = 0; p < np; p++)
                acc[a * np + p] =
                    add_products(acc[a * np + p], pairs[p], x + (size_t)a * stride + 2 * v);
    }
#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++) _mm512_store_ps(sums[t / np][t % np], acc[t]);
}

INLINE void chunk_rows(const struct a16_chunk *chunk, int np, const uint16_t *x, size_t stride,
                       size_t n, int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    for (; n >= TILE_ROWS; n -= TILE_ROWS, x += TILE_ROWS * stride, sums += TILE_ROWS)
        chunk_tile(chunk, np, x, stride, TILE_ROWS, first, sums);
    switch (n) {
    case 1: chunk_tile(chunk, np, x, stride, 1, first, sums); break;
    case 2: chunk_tile(chunk, np, x, stride, 2, first, sums); break;
    case 3: chunk_tile(chunk, np, x, stride, 3, first, sums); break;
    case 4: chunk_tile(chunk, np, x, stride, 4, first, sums); break;
    case 5: chunk_tile(chunk, np, x, stride, 5, first, sums); break;
    case 6: chunk_tile(chunk, np, x, stride, 6, first, sums); break;
    case 7: chunk_tile(chunk, np, x, stride, 7, first, sums); break;
    default: break;
    }
}

static void multiply_chunk(const struct a16_chunk *chunk, const uint16_t *x, size_t stride,
                           size_t n, int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    if (chunk->panels == A16_PANELS)
        chunk_rows(chunk, A16_PANELS, x, stride, n, first, sums);
    else
        chunk_rows(chunk, 1, x, stride, n, first, sums);
}

INLINE void decode_chunk(enum rf_format format, const uint8_t *panel, size_t k, size_t begin,
                         size_t end, __m512i *pairs)
{
    size_t block_bytes = rf_panel_layout(format)->block_bytes,
           scale_bytes = rf_panel_layout(format)->scale_bytes;
    const uint8_t *scales_at = panel + k / RF_BLOCK * block_bytes;
    _Alignas(64) uint8_t numbers[256];
    if (format == RF_FORMAT_Q4_K) unpack_q4k(scales_at + begin / 8 * scale_bytes, numbers);
    for (size_t block = begin; block < end; block++) {
        const uint8_t *codes = panel + block * block_bytes,
                      *unit = scales_at + (is_super(format) ? block / 8 : block) * scale_bytes;
        prefetch(codes, block_bytes);
        struct a16_scales scales = a16_scales_of(format, unit, block % 8, numbers);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            decode_a16(format, codes, j, &scales, pairs + (block - begin) * A16_PAIRS + 4 * j);
    }
}

#define LINEAR(name, FORMAT, ...)                                                       \
    static void decode_##name(const uint8_t *panel, size_t k, size_t begin, size_t end, \
                              __m512i *pairs)                                           \
    {                                                                                   \
        decode_chunk(RF_FORMAT_##FORMAT, panel, k, begin, end, pairs);                  \
    }                                                                                   \
    static void linear_##name##_a16(const struct rf_linear_args *args)                  \
    {                                                                                   \
        switch (args->n) {                                                              \
        case 1: stream(args, RF_FORMAT_##FORMAT, 2, 1); break;                          \
        case 2: stream(args, RF_FORMAT_##FORMAT, 2, 2); break;                          \
        case 3: stream(args, RF_FORMAT_##FORMAT, 2, 3); break;                          \
        case 4: stream(args, RF_FORMAT_##FORMAT, 2, 4); break;                          \
        case 5: stream(args, RF_FORMAT_##FORMAT, 1, 5); break;                          \
        case 6: stream(args, RF_FORMAT_##FORMAT, 1, 6); break;                          \
        case 7: stream(args, RF_FORMAT_##FORMAT, 1, 7); break;                          \
        case FEW_ROWS: stream(args, RF_FORMAT_##FORMAT, 1, FEW_ROWS); break;            \
        default: walk_a16(args, decode_##name, multiply_chunk); break;                  \
        }                                                                               \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

rf_avx512_decode_fn *const rf_avx512_decode_a16[RF_FORMAT_COUNT] = {
#define ENTRY(name, FORMAT, ...) [RF_FORMAT_##FORMAT] = decode_##name,
    RF_EACH_PANEL_FORMAT(ENTRY)
#undef ENTRY
};

static void pack_a16(void *packed, size_t row, const float *x, size_t k)
{
    uint16_t *to = (uint16_t *)packed + row * rf_a16_stride(k);
    __m512i order =
        _mm512_broadcast_i64x2(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (size_t j = 0; j < k; j += 32) {
        __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + j + 16), _mm512_loadu_ps(x + j));
        _mm512_store_si512(to + j, _mm512_shuffle_epi8((__m512i)both, order));
    }
}

void rf_avx512_init_panels_a16(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A16] = pack_a16;
#define SET(name, FORMAT, ...) kernels->linear_a16[RF_FORMAT_##FORMAT] = linear_##name##_a16;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
