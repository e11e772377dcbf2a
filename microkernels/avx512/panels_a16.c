/* Weights in panels times 16-bit rows with vpdpwssd (the verifying half of QSpec).
 *
 * Codes less their offset become 16-bit integers. A decoded block of 32 k is sixteen vectors of
 * pairs: a 32-bit lane is a weight row and holds two codes, in the order of packed rows. For a few
 * rows codes are decoded in registers; for more, once into the L1 cache. */
#include "microkernels/avx512/panels.h"
#include "microkernels/avx512/tier.h"

enum {
    PAIRS = RF_BLOCK / 2,             /* vectors of a decoded block */
    CHUNK = RF_SUPERBLOCK / RF_BLOCK, /* blocks that are decoded at a time */
    MAX_PANELS = 2,                   /* of a tile, or decoded at a time */
    FEW_ROWS = 8,                     /* for which codes are decoded again */
    MAX_TILE = 8,                     /* accumulators of such a tile: rows times panels */
    TILE_ROWS = 6,                    /* rows of a tile of decoded codes */
    MOST_ROWS = 256,                  /* rows whose sums wait for the next chunk */
    PREFETCH = 4096                   /* prefetch distance in bytes of codes */
};

/* The integers of codes of 4 bits, repeated, or of 6 bits in both. Other codes need none. */
struct table {
    __m512i low, high;
};

INLINE struct table table_of(enum rf_format format)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    __m512i offset = _mm512_set1_epi16((short)layout->offset),
            numbers = _mm512_cvtepu8_epi16(
                _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31));
    if (format == RF_FORMAT_MXFP4)
        numbers = _mm512_cvtepu8_epi16(_mm256_broadcastsi128_si256(
            _mm_loadu_si128((const __m128i *)(const void *)rf_mxfp4_codes)));
    else if (layout->bits == 4)
        numbers = _mm512_and_si512(numbers, _mm512_set1_epi16(15));
    __m512i low = _mm512_sub_epi16(numbers, offset);
    return (struct table){low, _mm512_add_epi16(low, _mm512_set1_epi16(32))};
}

/* k = 8j .. 8j + 7 of a block: the pairs (0,2), (1,3), (4,6), (5,7). */
INLINE void decode_pairs(enum rf_format format, const uint8_t *block, int j,
                         const struct table *table, __m512i pairs[4])
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    __m512i codes[2], byte = _mm512_set1_epi16(0xff), nibble = _mm512_set1_epi16(15);
    if (layout->bits == 4) {
        __m512i four = _mm512_load_si512(block + 64 * j);
        __m512i shifted[4] = {four, _mm512_srli_epi16(four, 8), _mm512_srli_epi16(four, 4),
                              _mm512_srli_epi16(four, 12)};
        /* The fifth bit of an index belongs to another code, so the table is repeated. */
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            pairs[v] = layout->offset ? _mm512_permutexvar_epi16(shifted[v], table->low)
                       : v == 3       ? shifted[v]
                                      : _mm512_and_si512(shifted[v], nibble);
        return;
    }
    decode(format, block, j, codes);
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        __m512i *pair = pairs + 2 * v, high = _mm512_srli_epi16(codes[v], 8);
        if (layout->offset == 128) {
            codes[v] = _mm512_xor_si512(codes[v], _mm512_set1_epi8((char)0x80));
            pair[0] = _mm512_srai_epi16(_mm512_slli_epi16(codes[v], 8), 8);
            pair[1] = _mm512_srai_epi16(codes[v], 8);
        } else if (layout->offset) {
            pair[0] = _mm512_permutex2var_epi16(table->low, codes[v], table->high);
            pair[1] = _mm512_permutex2var_epi16(table->low, high, table->high);
        } else {
            pair[0] = _mm512_and_si512(codes[v], byte);
            pair[1] = high;
        }
    }
}

INLINE void prefetch(const uint8_t *codes, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T1);
}

/* Groups of a block: one of 32 values, or two of 16. */
INLINE int groups_of(enum rf_format format)
{
    return is_by_16(format) ? 2 : 1;
}

/* scales_of, with minimums that are multiplied by sums of values. */
INLINE struct scales scales_for(enum rf_format format, const uint8_t *unit, size_t t,
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
INLINE __m512 fold(enum rf_format format, __m512 acc, __m512i sum, const struct scales *scales,
                   int g, const struct rf_a16 *x)
{
    acc = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(x->d)),
                          scales->s[g], acc);
    if (!rf_panel_layout(format)->has_min) return acc;
    float d_sum = is_by_16(format) ? x->d_half[g] : x->d_sum;
    return _mm512_fmadd_ps(scales->b[g], _mm512_set1_ps(d_sum), acc);
}

/* Hides from the compiler where rows are. Otherwise it keeps what panels have in common of them in
 * registers that a loop does not have to spare, and spills others. */
INLINE const struct rf_a16 *opaque(const struct rf_a16 *x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* sum + the products of a vector of pairs and pair v of a row. */
INLINE __m512i add_products(__m512i sum, __m512i pairs, const struct rf_a16 *x, size_t v)
{
    int32_t pair;
    __builtin_memcpy(&pair, x->q + 2 * v, sizeof pair);
    return _mm512_dpwssd_epi32(sum, pairs, _mm512_set1_epi32(pair));
}

/* Adds a block of np panels, `gap` bytes apart, times nr rows, `stride` blocks apart, to acc,
 * [panel][row]. Panels take turns, since each sum waits for its last addition. */
INLINE void add_block(enum rf_format format, const uint8_t *codes, size_t gap,
                      const struct scales *scales, const struct table *table,
                      const struct rf_a16 *x, size_t stride, int np, int nr, __m512 *acc)
{
    __m512i products[MAX_TILE];
#pragma GCC unroll 2
    for (int g = 0; g < groups_of(format); g++) {
        int parts = 4 / groups_of(format);
#pragma GCC unroll 8
        for (int t = 0; t < np * nr; t++) products[t] = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int j = g * parts; j < (g + 1) * parts; j++)
#pragma GCC unroll 4
            for (int p = 0; p < np; p++) {
                __m512i pairs[4];
                x = opaque(x);
                decode_pairs(format, codes + (size_t)p * gap, j, table, pairs);
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++)
#pragma GCC unroll 4
                    for (int v = 0; v < 4; v++)
                        products[p * nr + a] =
                            add_products(products[p * nr + a], pairs[v], x + (size_t)a * stride,
                                         (size_t)(4 * j + v));
            }
#pragma GCC unroll 8
        for (int t = 0; t < np * nr; t++)
            acc[t] = fold(format, acc[t], products[t], &scales[t / nr], g,
                          x + (size_t)(t % nr) * stride);
    }
}

/* Panels first, first + step, ... (np of them) times nr rows. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                 size_t step, int np, int nr)
{
    size_t blocks = args->k / RF_BLOCK, gap = step * args->ldw, stride = rf_a16_stride(args->k),
           block_bytes = rf_panel_layout(format)->block_bytes,
           scale_bytes = rf_panel_layout(format)->scale_bytes;
    const uint8_t *codes = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes + blocks * block_bytes;
    const struct rf_a16 *x = args->x;
    struct table table = table_of(format);
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
            prefetch(codes + (size_t)p * gap, block_bytes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
            scales[p] = scales_for(format, unit, block % 8, numbers[p]);
        }
        add_block(format, codes, gap, scales, &table, x, stride, np, nr, acc);
    }
#pragma GCC unroll 8
    for (int t = 0; t < np * nr; t++)
        store_panel(args, first + (size_t)(t / nr) * step, (size_t)(t % nr), acc[t]);
}

/* All panels times nr <= FEW_ROWS rows. Panels are cut into np parts, each read from end to end. */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, int np, int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / (size_t)np;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, np, nr);
    for (size_t p = part * (size_t)np; p < panels; p++) tile(args, format, p, 1, 1, nr);
}

/* A chunk of k of one or two decoded panels. */
struct chunk {
    _Alignas(64) __m512i pairs[MAX_PANELS][CHUNK * PAIRS];
    struct scales scales[MAX_PANELS][CHUNK];
    size_t blocks;
};

/* Decodes blocks begin .. end - 1 of a panel. */
INLINE void decode_chunk(enum rf_format format, const uint8_t *panel, size_t k, size_t begin,
                         size_t end, __m512i *pairs, struct scales *scales)
{
    size_t block_bytes = rf_panel_layout(format)->block_bytes,
           scale_bytes = rf_panel_layout(format)->scale_bytes;
    const uint8_t *scales_at = panel + k / RF_BLOCK * block_bytes;
    _Alignas(64) uint8_t numbers[256];
    struct table table = table_of(format);
    if (format == RF_FORMAT_Q4_K) unpack_q4k(scales_at + begin / 8 * scale_bytes, numbers);
    for (size_t block = begin; block < end; block++, pairs += PAIRS) {
        const uint8_t *unit = scales_at + (is_super(format) ? block / 8 : block) * scale_bytes;
        prefetch(panel + block * block_bytes, block_bytes);
        *scales++ = scales_for(format, unit, block % 8, numbers);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            decode_pairs(format, panel + block * block_bytes, j, &table, pairs + 4 * j);
    }
}

/* nr rows times np panels of a chunk. Sums are [row][panel][16]; `first`: they begin with this. */
INLINE void chunk_tile(enum rf_format format, const struct chunk *chunk, int np,
                       const struct rf_a16 *x, size_t stride, int nr, int first,
                       float (*sums)[MAX_PANELS][RF_PANEL_ROWS])
{
    __m512 acc[TILE_ROWS * MAX_PANELS];
    __m512i products[TILE_ROWS * MAX_PANELS];
    size_t group = PAIRS / (size_t)groups_of(format);
#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++)
        acc[t] = first ? _mm512_setzero_ps() : _mm512_load_ps(sums[t / np][t % np]);
    for (size_t block = 0; block < chunk->blocks; block++, x++)
#pragma GCC unroll 2
        for (int g = 0; g < groups_of(format); g++) {
#pragma GCC unroll 16
            for (int t = 0; t < np * nr; t++) products[t] = _mm512_setzero_si512();
            for (size_t v = (size_t)g * group; v < (size_t)(g + 1) * group; v++)
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
                    for (int p = 0; p < np; p++)
                        products[a * np + p] =
                            add_products(products[a * np + p], chunk->pairs[p][block * PAIRS + v],
                                         x + (size_t)a * stride, v);
#pragma GCC unroll 16
            for (int t = 0; t < np * nr; t++)
                acc[t] = fold(format, acc[t], products[t], &chunk->scales[t % np][block], g,
                              x + (size_t)(t / np) * stride);
        }
#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++) _mm512_store_ps(sums[t / np][t % np], acc[t]);
}

/* n rows times np panels of a chunk. */
INLINE void chunk_rows(enum rf_format format, const struct chunk *chunk, int np,
                       const struct rf_a16 *x, size_t stride, size_t n, int first,
                       float (*sums)[MAX_PANELS][RF_PANEL_ROWS])
{
    for (; n >= TILE_ROWS; n -= TILE_ROWS, sums += TILE_ROWS, x += TILE_ROWS * stride)
        chunk_tile(format, chunk, np, x, stride, TILE_ROWS, first, sums);
    switch (n) {
    case 1: chunk_tile(format, chunk, np, x, stride, 1, first, sums); break;
    case 2: chunk_tile(format, chunk, np, x, stride, 2, first, sums); break;
    case 3: chunk_tile(format, chunk, np, x, stride, 3, first, sums); break;
    case 4: chunk_tile(format, chunk, np, x, stride, 4, first, sums); break;
    case 5: chunk_tile(format, chunk, np, x, stride, 5, first, sums); break;
    default: break;
    }
}

/* Panels p and p + part, or p alone, times rows i .. i + n - 1, n <= MOST_ROWS. */
INLINE void multiply_panels(const struct rf_linear_args *args, enum rf_format format, size_t p,
                            size_t part, int np, size_t i, size_t n)
{
    _Alignas(64) float sums[MOST_ROWS][MAX_PANELS][RF_PANEL_ROWS];
    struct chunk chunk;
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k);
    const struct rf_a16 *x = (const struct rf_a16 *)args->x + i * stride;
    for (size_t begin = 0; begin < blocks; begin += CHUNK) {
        size_t end = begin + CHUNK < blocks ? begin + CHUNK : blocks;
        chunk.blocks = end - begin;
        for (int t = 0; t < np; t++)
            decode_chunk(format, (const uint8_t *)args->w + (p + (size_t)t * part) * args->ldw,
                         args->k, begin, end, chunk.pairs[t], chunk.scales[t]);
        chunk_rows(format, &chunk, np, x + begin, stride, n, begin == 0, sums);
    }
    for (int t = 0; t < np; t++)
        for (size_t a = 0; a < n; a++)
            store_panel(args, p + (size_t)t * part, i + a, _mm512_load_ps(sums[a][t]));
}

/* Any number of rows. Panels are cut into MAX_PANELS parts, each read from end to end. */
INLINE void walk(const struct rf_linear_args *args, enum rf_format format)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS,
           part = (panels + MAX_PANELS - 1) / MAX_PANELS;
    for (size_t i = 0, n; i < args->n; i += n) {
        n = args->n - i < MOST_ROWS ? args->n - i : MOST_ROWS;
        for (size_t p = 0; p < part; p++)
            if (p + part < panels)
                multiply_panels(args, format, p, part, MAX_PANELS, i, n);
            else
                multiply_panels(args, format, p, part, 1, i, n);
    }
}

#define LINEAR(name, FORMAT, ...)                                            \
    static void linear_##name##_a16(const struct rf_linear_args *args)       \
    {                                                                        \
        switch (args->n) {                                                   \
        case 1: stream(args, RF_FORMAT_##FORMAT, 2, 1); break;               \
        case 2: stream(args, RF_FORMAT_##FORMAT, 2, 2); break;               \
        case 3: stream(args, RF_FORMAT_##FORMAT, 2, 3); break;               \
        case 4: stream(args, RF_FORMAT_##FORMAT, 2, 4); break;               \
        case 5: stream(args, RF_FORMAT_##FORMAT, 1, 5); break;               \
        case 6: stream(args, RF_FORMAT_##FORMAT, 1, 6); break;               \
        case 7: stream(args, RF_FORMAT_##FORMAT, 1, 7); break;               \
        case FEW_ROWS: stream(args, RF_FORMAT_##FORMAT, 1, FEW_ROWS); break; \
        default: walk(args, RF_FORMAT_##FORMAT); break;                      \
        }                                                                    \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

static void pack_a16(const struct rf_pack_args *args)
{
    struct rf_a16 *to = rf_a16_blocks(args);
    __m512 sign = _mm512_set1_ps(-0.0f);
    __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (size_t j = 0; j < args->n; j += RF_BLOCK, to++) {
        __m512 low = _mm512_loadu_ps(args->x + j), high = _mm512_loadu_ps(args->x + j + 16);
        float max = _mm512_reduce_max_ps(
            _mm512_max_ps(_mm512_andnot_ps(sign, low), _mm512_andnot_ps(sign, high)));
        float inverse = rf_a16_begin(to, max);
        __mmask16 finite = inverse > 0.0f ? 0xffff : 0;
        __m512i a = _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(low, _mm512_set1_ps(inverse))),
                b = _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(high, _mm512_set1_ps(inverse)));
        __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(a)),
                                           _mm512_cvtepi32_epi16(b), 1);
        _mm512_storeu_si512(to->q, _mm512_shuffle_epi8(words, order));
        rf_a16_complete(to, _mm512_reduce_add_epi32(a), _mm512_reduce_add_epi32(b));
    }
}

void rf_avx512_init_panels_a16(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A16] = pack_a16;
#define SET(name, FORMAT, ...) kernels->linear_a16[RF_FORMAT_##FORMAT] = linear_##name##_a16;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
