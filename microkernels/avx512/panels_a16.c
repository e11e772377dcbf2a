/* Weights in panels times 16-bit rows with vpdpbusd (the verifying half of QSpec).
 *
 * A row's integers are split into their upper and lower bytes, 256 high + low, so that codes are
 * multiplied as bytes, as with 8-bit rows: 16 products of a block, as with 16-bit integers, but
 * half as much decoding. For a few rows codes are decoded in registers; for more, once into the L1
 * cache. */
#include <string.h>

#include "microkernels/avx512/panels.h"
#include "microkernels/avx512/tier.h"

enum {
    VECTORS = RF_BLOCK / 4,           /* vectors of a decoded block */
    CHUNK = RF_SUPERBLOCK / RF_BLOCK, /* blocks that are decoded at a time */
    MAX_PANELS = 2,                   /* panels of a tile */
    FEW_ROWS = 8,                     /* rows of a tile; for more, decoded codes are kept */
    MAX_TILE = 8,                     /* sums of a tile: rows times panels */
    MOST_ROWS = 128,                  /* rows whose sums wait for the next chunk */
    BAND = 8,                         /* panels of such sums */
    PREFETCH = 4096                   /* prefetch distance in bytes of codes */
};

INLINE void avx512_a16_prefetch(const uint8_t *codes, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T1);
}

/* Groups of a block: one of 32 values, or two of 16. */
INLINE int avx512_a16_groups_of(enum rf_format format)
{
    return is_by_16(format) ? 2 : 1;
}

/* scales_of, with minimums that are multiplied by sums of values. */
INLINE struct scales avx512_a16_scales_for(enum rf_format format, const uint8_t *unit, size_t t,
                                           const uint8_t *numbers)
{
    struct scales scales = scales_of(format, unit, t, numbers);
    if (format == RF_FORMAT_Q8_K)
#pragma GCC unroll 2
        for (int g = 0; g < 2; g++)
            scales.b[g] = _mm512_mul_ps(scales.b[g], _mm512_set1_ps(-32.0f)); /* see scales_of */
    return scales;
}

/* acc + the products of group g of a block, scaled, + its minimum. */
INLINE __m512 avx512_a16_fold(enum rf_format format, __m512 acc, __m512i sum,
                              const struct scales *scales, int g, const struct rf_a16_split *x)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(x->d)),
                          scales->s[g], acc);
    if (!rf_panel_layout(format)->has_min) return acc;
    float d_sum = is_by_16(format) ? x->d_half[g] : x->d_sum;
    return _mm512_fmadd_ps(scales->b[g], _mm512_set1_ps(d_sum), acc);
}

/* Hides from the compiler where rows are. Otherwise it keeps what panels have in common of them in
 * registers that a loop does not have to spare, and spills others. */
INLINE const struct rf_a16_split *avx512_a16_opaque(const struct rf_a16_split *x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* sum + the products of four codes and four bytes in each lane. In assembly, because gcc would copy
 * every sum to another register and back. */
INLINE __m512i avx512_a16_add_products(__m512i sum, __m512i codes, const int8_t *bytes, size_t v)
{
    int32_t four;
    memcpy(&four, bytes + 4 * v, sizeof four);
#ifdef __AVX512VNNI__
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(_mm512_set1_epi32(four)));
    return sum;
#else /* test/wide */
    return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(four));
#endif
}

/* 256 high + low. */
INLINE __m512i avx512_a16_join(__m512i high, __m512i low)
{
    return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

/* The start of group g's sums: -offset times the sum of the row's integers. */
INLINE __m512i avx512_a16_start_of(enum rf_format format, const struct rf_a16_split *x, int g)
{
    int32_t sum = is_by_16(format) ? x->sum[g] : x->sum[0] + x->sum[1];
    return _mm512_set1_epi32(-rf_panel_layout(format)->offset * sum);
}

/* Adds a block of np panels, `gap` bytes apart, times nr rows, `stride` blocks apart, to acc,
 * [panel][row]. `form`: how codes lie, as in panels of this format. */
INLINE void avx512_a16_add_block(enum rf_format format, enum rf_format form, const uint8_t *codes,
                                 size_t gap, const struct scales *scales,
                                 const struct rf_a16_split *x, size_t stride, int np, int nr,
                                 __m512 *acc)
{
    __m512i high[MAX_TILE], low[MAX_TILE];
#pragma GCC unroll 2
    for (int g = 0; g < avx512_a16_groups_of(format); g++) {
        int parts = 4 / avx512_a16_groups_of(format);
#pragma GCC unroll 8
        for (int t = 0; t < np * nr; t++) {
            high[t] = _mm512_setzero_si512();
            low[t] = avx512_a16_start_of(format, x + (size_t)(t % nr) * stride, g);
        }
#pragma GCC unroll 4
        for (int j = g * parts; j < (g + 1) * parts; j++)
#pragma GCC unroll 4
            for (int p = 0; p < np; p++) {
                __m512i pair[2];
                x = avx512_a16_opaque(x);
                decode(form, codes + (size_t)p * gap, j, pair);
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
                    for (int v = 0; v < 2; v++) {
                        const struct rf_a16_split *row = x + (size_t)a * stride;
                        int t = p * nr + a;
                        high[t] = avx512_a16_add_products(high[t], pair[v], row->high,
                                                          (size_t)(2 * j + v));
                        low[t] =
                            avx512_a16_add_products(low[t], pair[v], row->low, (size_t)(2 * j + v));
                    }
            }
#pragma GCC unroll 8
        for (int t = 0; t < np * nr; t++)
            acc[t] = avx512_a16_fold(format, acc[t], avx512_a16_join(high[t], low[t]),
                                     &scales[t / nr], g, x + (size_t)(t % nr) * stride);
    }
}

/* Panels first, first + step, ... (np of them) times nr rows. */
INLINE void avx512_a16_tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                            size_t step, int np, int nr)
{
    size_t blocks = args->k / RF_BLOCK, gap = step * args->ldw, stride = rf_a16_stride(args->k),
           block_bytes = rf_panel_layout(format)->block_bytes,
           scale_bytes = rf_panel_layout(format)->scale_bytes;
    const uint8_t *codes = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes + blocks * block_bytes;
    const struct rf_a16_split *x = args->x;
    _Alignas(64) uint8_t numbers[MAX_PANELS][256];
    __m512 acc[MAX_TILE];
#pragma GCC unroll 8
    for (int t = 0; t < np * nr; t++) acc[t] = _mm512_setzero_ps();
    for (size_t block = 0; block < blocks; block++, codes += block_bytes, x++) {
        struct scales scales[MAX_PANELS];
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const uint8_t *unit =
                scales_at + (size_t)p * gap + (is_super(format) ? block / 8 : block) * scale_bytes;
            avx512_a16_prefetch(codes + (size_t)p * gap, block_bytes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
            scales[p] = avx512_a16_scales_for(format, unit, block % 8, numbers[p]);
        }
        avx512_a16_add_block(format, format, codes, gap, scales, x, stride, np, nr, acc);
    }
#pragma GCC unroll 8
    for (int t = 0; t < np * nr; t++)
        store_panel(args, first + (size_t)(t / nr) * step, (size_t)(t % nr), acc[t]);
}

/* All panels times nr <= FEW_ROWS rows. Panels are cut into np parts, each read from end to end. */
INLINE void avx512_a16_stream(const struct rf_linear_args *args, enum rf_format format, int np,
                              int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / (size_t)np;
    for (size_t p = 0; p < part; p++) avx512_a16_tile(args, format, p, part, np, nr);
    for (size_t p = part * (size_t)np; p < panels; p++) avx512_a16_tile(args, format, p, 1, 1, nr);
}

/* A chunk of k of a panel with codes of a byte, which lie as in panels of Q8_0. */
struct chunk {
    _Alignas(64) __m512i codes[CHUNK][VECTORS];
    struct scales scales[CHUNK];
};

/* Decodes blocks begin .. end - 1 of a panel. */
INLINE void avx512_a16_decode_chunk(enum rf_format format, const uint8_t *panel, size_t k,
                                    size_t begin, size_t end, struct chunk *chunk)
{
    size_t block_bytes = rf_panel_layout(format)->block_bytes,
           scale_bytes = rf_panel_layout(format)->scale_bytes;
    const uint8_t *scales_at = panel + k / RF_BLOCK * block_bytes;
    _Alignas(64) uint8_t numbers[256];
    if (format == RF_FORMAT_Q4_K) unpack_q4k(scales_at + begin / 8 * scale_bytes, numbers);
    for (size_t block = begin; block < end; block++) {
        const uint8_t *unit = scales_at + (is_super(format) ? block / 8 : block) * scale_bytes;
        avx512_a16_prefetch(panel + block * block_bytes, block_bytes);
        chunk->scales[block - begin] = avx512_a16_scales_for(format, unit, block % 8, numbers);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            decode(format, panel + block * block_bytes, j, &chunk->codes[block - begin][2 * j]);
    }
}

/* nr rows times a chunk of so many blocks. `first`: the sums begin with it. */
INLINE void avx512_a16_chunk_tile(enum rf_format format, const struct chunk *chunk, size_t blocks,
                                  const struct rf_a16_split *x, size_t stride, int nr, int first,
                                  float (*sums)[RF_PANEL_ROWS])
{
    __m512 acc[MAX_TILE];
#pragma GCC unroll 8
    for (int t = 0; t < nr; t++) acc[t] = first ? _mm512_setzero_ps() : _mm512_load_ps(sums[t]);
    for (size_t block = 0; block < blocks; block++)
        avx512_a16_add_block(format, RF_FORMAT_Q8_0, (const uint8_t *)chunk->codes[block], 0,
                             &chunk->scales[block], x + block, stride, 1, nr, acc);
#pragma GCC unroll 8
    for (int t = 0; t < nr; t++) _mm512_store_ps(sums[t], acc[t]);
}

/* n <= FEW_ROWS rows times a chunk. */
INLINE void avx512_a16_chunk_rows(enum rf_format format, const struct chunk *chunk, size_t blocks,
                                  const struct rf_a16_split *x, size_t stride, size_t n, int first,
                                  float (*sums)[RF_PANEL_ROWS])
{
    switch (n) {
    case 1: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 1, first, sums); break;
    case 2: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 2, first, sums); break;
    case 3: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 3, first, sums); break;
    case 4: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 4, first, sums); break;
    case 5: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 5, first, sums); break;
    case 6: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 6, first, sums); break;
    case 7: avx512_a16_chunk_tile(format, chunk, blocks, x, stride, 7, first, sums); break;
    case FEW_ROWS:
        avx512_a16_chunk_tile(format, chunk, blocks, x, stride, FEW_ROWS, first, sums);
        break;
    default: break;
    }
}

/* Panels p .. p + np - 1 times rows i .. i + n - 1, n <= MOST_ROWS. A chunk of the rows stays in
 * the L2 cache for all panels, eight of them in the L1 cache for two. */
INLINE void avx512_a16_multiply_band(const struct rf_linear_args *args, enum rf_format format,
                                     size_t p, size_t np, size_t i, size_t n)
{
    _Alignas(64) float sums[BAND][MOST_ROWS][RF_PANEL_ROWS];
    struct chunk chunk[2];
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k);
    const struct rf_a16_split *x = (const struct rf_a16_split *)args->x + i * stride;
    const uint8_t *panels = (const uint8_t *)args->w + p * args->ldw;
    for (size_t begin = 0; begin < blocks; begin += CHUNK) {
        size_t end = begin + CHUNK < blocks ? begin + CHUNK : blocks;
        for (size_t first = 0; first < np; first += 2) {
            size_t last = first + 2 < np ? first + 2 : np;
            for (size_t t = first; t < last; t++)
                avx512_a16_decode_chunk(format, panels + t * args->ldw, args->k, begin, end,
                                        &chunk[t % 2]);
            for (size_t a = 0; a < n; a += FEW_ROWS)
                for (size_t t = first; t < last; t++)
                    avx512_a16_chunk_rows(
                        format, &chunk[t % 2], end - begin, x + a * stride + begin, stride,
                        n - a < FEW_ROWS ? n - a : FEW_ROWS, begin == 0, sums[t] + a);
        }
    }
    for (size_t t = 0; t < np; t++)
        for (size_t a = 0; a < n; a++) store_panel(args, p + t, i + a, _mm512_load_ps(sums[t][a]));
}

/* Any number of rows. */
INLINE void avx512_a16_walk(const struct rf_linear_args *args, enum rf_format format)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
    for (size_t i = 0; i < args->n; i += MOST_ROWS)
        for (size_t p = 0; p < panels; p += BAND)
            avx512_a16_multiply_band(args, format, p, panels - p < BAND ? panels - p : BAND, i,
                                     args->n - i < MOST_ROWS ? args->n - i : MOST_ROWS);
}

#define LINEAR(name, FORMAT, ...)                                                       \
    static void avx512_linear_##name##_a16(const struct rf_linear_args *args)           \
    {                                                                                   \
        switch (args->n) {                                                              \
        case 1: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 2, 1); break;               \
        case 2: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 2, 2); break;               \
        case 3: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 2, 3); break;               \
        case 4: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 2, 4); break;               \
        case 5: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 1, 5); break;               \
        case 6: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 1, 6); break;               \
        case 7: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 1, 7); break;               \
        case FEW_ROWS: avx512_a16_stream(args, RF_FORMAT_##FORMAT, 1, FEW_ROWS); break; \
        default: avx512_a16_walk(args, RF_FORMAT_##FORMAT); break;                      \
        }                                                                               \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

rf_linear_fn *const rf_avx512_linear_panels_a16[RF_FORMAT_COUNT] = {
#define ENTRY(name, FORMAT, ...) [RF_FORMAT_##FORMAT] = avx512_linear_##name##_a16,
    RF_EACH_PANEL_FORMAT(ENTRY)
#undef ENTRY
};

static size_t avx512_packed_bytes_a16(size_t n, size_t k)
{
    return n * rf_a16_stride(k) * sizeof(struct rf_a16_split);
}

void rf_avx512_pack_a16(const struct rf_pack_args *args)
{
    struct rf_a16_split *to = (struct rf_a16_split *)args->packed +
                              args->row * rf_a16_stride(args->k) + args->first / RF_BLOCK;
    __m512 sign = _mm512_set1_ps(-0.0f);
    __m512i half = _mm512_set1_epi32(128);
    for (size_t j = 0; j < args->n; j += RF_BLOCK, to++) {
        __m512 x[2] = {_mm512_loadu_ps(args->x + j), _mm512_loadu_ps(args->x + j + 16)};
        float max = _mm512_reduce_max_ps(
            _mm512_max_ps(_mm512_andnot_ps(sign, x[0]), _mm512_andnot_ps(sign, x[1])));
        float inverse = rf_a16_begin(&to->d, max);
        __mmask16 finite = inverse > 0.0f ? 0xffff : 0;
        for (int h = 0; h < 2; h++) {
            __m512i q =
                _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(x[h], _mm512_set1_ps(inverse)));
            __m512i high = _mm512_srai_epi32(_mm512_add_epi32(q, half), 8);
            _mm_storeu_si128((__m128i *)(void *)to->high + h, _mm512_cvtepi32_epi8(high));
            _mm_storeu_si128((__m128i *)(void *)to->low + h, _mm512_cvtepi32_epi8(q));
            to->sum[h] = _mm512_reduce_add_epi32(q);
            to->d_half[h] = to->d * (float)to->sum[h];
        }
        to->d_sum = to->d * (float)(to->sum[0] + to->sum[1]);
    }
}

void rf_avx512_init_panels_a16(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A16] = avx512_packed_bytes_a16;
    kernels->pack[RF_OPERAND_A16] = rf_avx512_pack_a16;
    for (int format = RF_FORMAT_MXFP4; format < RF_BLOCK_FORMAT_COUNT; format++)
        kernels->linear_a16[format] = rf_avx512_linear_panels_a16[format];
}
