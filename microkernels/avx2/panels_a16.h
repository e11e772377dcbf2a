/* Weights in panels times 16-bit rows on 256 bits (the verifying half of QSpec): integers of 15
 * bits with a power of two for each 32. This is a template. The including file may define
 * RF_DPWSSD(sum, codes, q), the instruction that multiplies 16-bit integers and adds each two
 * products. Otherwise vpmaddwd and an addition do the same. All sums are exact, so tiers agree.
 *
 * For a few rows codes are decoded in registers; for more, once into the L1 cache. */
#include <immintrin.h>
#include <string.h>

#include "microkernels/avx2/decode.h"

enum {
    FEW_ROWS = 2,         /* rows for which codes are decoded in registers */
    MAX_PANELS = 2,       /* panels of such a tile */
    HALVES = 2,           /* vectors of weight rows of a panel */
    TILE_ROWS = 6,        /* rows of a tile of decoded codes */
    PAIRS = RF_BLOCK / 2, /* pairs of k in a block */
    CHUNK = 8,            /* blocks that are decoded at a time: 8 KiB */
    MOST_ROWS = 256,      /* rows whose sums wait for the next chunk */
    PREFETCH = 2048       /* prefetch distance in bytes of codes */
};

/* Scales and minimums of a group for 8 weight rows. */
struct group {
    __m256 s, b;
};

/* Part `part` of block t of a unit, for the rows from r, 0 or 8. */
INLINE struct group group_of(enum rf_format format, const uint8_t *unit, size_t t, int part,
                             size_t r, const uint8_t *numbers)
{
    struct group out;
    scale_of(format, unit, t, part, r, numbers, &out.s, &out.b);
    if (format == RF_FORMAT_Q8_K)
        out.b = _mm256_mul_ps(out.b, _mm256_set1_ps(-32.0f)); /* see scale_of */
    return out;
}

/* Groups of a block: one of 32 values, or two of 16. */
INLINE int groups_of(enum rf_format format)
{
    return rf_panel_layout(format)->group == RF_BLOCK ? 1 : 2;
}

/* acc + the products of group g of a block, scaled, + its minimum. */
INLINE __m256 fold(enum rf_format format, __m256 acc, __m256i sum, const struct group *group, int g,
                   const struct rf_a16 *x)
{
    __m256 products = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_broadcast_ss(&x->d));
    acc = _mm256_fmadd_ps(products, group->s, acc);
    if (!rf_panel_layout(format)->has_min) return acc;
    const float *d_sum = groups_of(format) == 2 ? &x->d_half[g] : &x->d_sum;
    return _mm256_fmadd_ps(group->b, _mm256_broadcast_ss(d_sum), acc);
}

/* Codes of k = 0 .. 3 in each lane, less the offset, as the pairs (0,2), (1,3). */
INLINE void pairs_of(enum rf_format format, __m256i codes, __m256i pairs[2])
{
    int offset = rf_panel_layout(format)->offset;
    if (!offset) {
        pairs[0] = _mm256_and_si256(codes, _mm256_set1_epi16(0xff));
        pairs[1] = _mm256_srli_epi16(codes, 8);
        return;
    }
    codes = _mm256_sub_epi8(codes, _mm256_set1_epi8((char)offset));
    pairs[0] = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 8);
    pairs[1] = _mm256_srai_epi16(codes, 8);
}

/* Pair v of a row in all lanes. */
INLINE __m256i pair_of(const struct rf_a16 *x, int v)
{
    int32_t pair;
    memcpy(&pair, x->q + 2 * v, sizeof pair);
    return _mm256_set1_epi32(pair);
}

/* sum + the products of two vectors of pairs. */
INLINE __m256i add_products(__m256i sum, __m256i codes, __m256i row)
{
#ifdef RF_DPWSSD
    return RF_DPWSSD(sum, codes, row);
#else
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(codes, row));
    __asm__("" : "+x"(sum)); /* gcc would add in another order, for which it lacks registers */
    return sum;
#endif
}

/* The same for a sum that lives through a loop, which gcc would move from register to register. */
INLINE void add_to(__m256i *sum, __m256i codes, __m256i row)
{
#ifdef RF_DPWSSD
    *sum = RF_DPWSSD(*sum, codes, row);
    __asm__("" : "+x"(*sum)); /* gcc would store and copy each */
#else
    __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(_mm256_madd_epi16(codes, row)));
#endif
}

INLINE void prefetch(const uint8_t *codes, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T0);
}

/* Hides from the compiler that it has read a pair before. It has no registers to keep them in. */
INLINE const struct rf_a16 *opaque(const struct rf_a16 *x)
{
    __asm__ volatile("" : "+r"(x)); /* else one would do for two panels */
    return x;
}

/* The start of group g's sums of products with codes: -offset times the sum of the row's
 * integers. */
INLINE __m256i start_of(enum rf_format format, const struct rf_a16 *x, int g)
{
    int offset = rf_panel_layout(format)->offset;
    if (!offset) return _mm256_setzero_si256();
    return _mm256_set1_epi32(-offset *
                             (groups_of(format) == 2 ? x->sum[g] : x->sum[0] + x->sum[1]));
}

/* Adds the products of part `part` of a half panel's block and nr rows, `stride` blocks apart, to
 * `products`. */
INLINE void add_part(enum rf_format format, const uint8_t *codes, int part, const struct rf_a16 *x,
                     size_t stride, int nr, __m256i *products)
{
    __m256i four[4];
    decode(format, codes, part, four);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m256i pairs[2] = {_mm256_and_si256(four[v], _mm256_set1_epi16(0xff)),
                            _mm256_srli_epi16(four[v], 8)};
#pragma GCC unroll 2
        for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
            for (int t = 0; t < 2; t++)
                products[a] = add_products(products[a], pairs[t],
                                           pair_of(x + (size_t)a * stride, 8 * part + 2 * v + t));
    }
}

/* Whether codes are nibbles as they are. */
INLINE int has_nibbles(enum rf_format format)
{
    return rf_panel_layout(format)->bits == 4 && !rf_panel_table(format);
}

/* The same for nibbles. They stay at their places in 16 bits, so that decoding is a mask, and have
 * sums of their own: `by_16` and `by_256` are multiples of these numbers. */
INLINE void add_nibbles(const uint8_t *codes, int part, const struct rf_a16 *x, size_t stride,
                        int nr, __m256i *products, __m256i *by_16, __m256i *by_256)
{
#pragma GCC unroll 2
    for (int j = 2 * part; j < 2 * part + 2; j++) {
        __m256i four = load(codes + 64 * j);
#pragma GCC unroll 2
        for (int a = 0; a < nr; a++) {
            const struct rf_a16 *row = x + (size_t)a * stride;
            products[a] =
                add_products(products[a], _mm256_and_si256(four, _mm256_set1_epi16(0x000f)),
                             pair_of(row, 4 * j));
            by_16[a] = add_products(by_16[a], _mm256_and_si256(four, _mm256_set1_epi16(0x00f0)),
                                    pair_of(row, 4 * j + 2));
            by_256[a] = add_products(by_256[a], _mm256_and_si256(four, _mm256_set1_epi16(0x0f00)),
                                     pair_of(row, 4 * j + 1));
            products[a] =
                add_products(products[a], _mm256_srli_epi16(four, 12), pair_of(row, 4 * j + 3));
        }
    }
}

/* Where the scales of a half panel's block are: block t of a unit, rows from r, 0 or 8. */
struct scales_at {
    const uint8_t *unit, *numbers;
    size_t t, r;
};

/* Adds a half panel's block times nr rows, `stride` blocks apart, to acc. */
INLINE void add_block(enum rf_format format, const uint8_t *codes, struct scales_at at,
                      const struct rf_a16 *x, size_t stride, int nr, __m256 *acc)
{
    __m256i products[FEW_ROWS], by_16[FEW_ROWS], by_256[FEW_ROWS];
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        int g = groups_of(format) == 2 ? part : 0;
        x = opaque(x);
#pragma GCC unroll 2
        for (int a = 0; a < nr; a++)
            if (part == g) {
                products[a] = start_of(format, x + (size_t)a * stride, g);
                by_16[a] = by_256[a] = _mm256_setzero_si256();
            }
        if (has_nibbles(format))
            add_nibbles(codes, part, x, stride, nr, products, by_16, by_256);
        else
            add_part(format, codes, part, x, stride, nr, products);
        if (part == 0 && groups_of(format) == 1) continue;
        /* Scales are read this late, so that they take no registers from products. */
        struct group group = group_of(format, at.unit, at.t, g, at.r, at.numbers);
#pragma GCC unroll 2
        for (int a = 0; a < nr; a++) {
            __m256i sum = products[a];
            if (has_nibbles(format))
                sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_srai_epi32(by_16[a], 4),
                                                             _mm256_srai_epi32(by_256[a], 8)));
            acc[a] = fold(format, acc[a], sum, &group, g, x + (size_t)a * stride);
        }
    }
}

/* The groups of block t of a unit, for each half of the rows. */
INLINE void groups_at(enum rf_format format, const uint8_t *unit, size_t t, const uint8_t *numbers,
                      struct group groups[HALVES][2])
{
#pragma GCC unroll 2
    for (int half = 0; half < HALVES; half++)
#pragma GCC unroll 2
        for (int g = 0; g < groups_of(format); g++)
            groups[half][g] = group_of(format, unit, t, g, 8 * (size_t)half, numbers);
}

/* Panels first, first + step, ... (np of them) times nr rows. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                 size_t step, int np, int nr)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k), gap = step * args->ldw,
           per_unit = layout->unit / RF_BLOCK;
    const struct rf_a16 *x = args->x;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * layout->block_bytes;
    _Alignas(32) uint8_t numbers[MAX_PANELS][256];
    __m256 acc[MAX_PANELS * HALVES * FEW_ROWS];
#pragma GCC unroll 16
    for (int t = 0; t < HALVES * np * nr; t++) acc[t] = _mm256_setzero_ps();
    for (size_t block = 0; block < blocks; block++, x++) {
#pragma GCC unroll 2
        for (int p = 0; p < np; p++) {
            const uint8_t *codes = codes_at + (size_t)p * gap + block * layout->block_bytes,
                          *unit =
                              scales_at + (size_t)p * gap + block / per_unit * layout->scale_bytes;
            prefetch(codes, layout->block_bytes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
#pragma GCC unroll 2
            for (int half = 0; half < HALVES; half++) {
                struct scales_at at = {unit, numbers[p], block % per_unit, 8 * (size_t)half};
                add_block(format, codes + 32 * half, at, x, stride, nr,
                          acc + (HALVES * p + half) * nr);
            }
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < HALVES * np * nr; t++) {
        size_t half = (size_t)(t / nr);
        store(args, (first + half / 2 * step) * RF_PANEL_ROWS + half % 2 * 8, (size_t)(t % nr),
              acc[t]);
    }
}

/* All panels times nr <= FEW_ROWS rows. Panels are cut into np parts, each read from end to end.
 */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / MAX_PANELS;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, MAX_PANELS, nr);
    for (size_t p = part * MAX_PANELS; p < panels; p++) tile(args, format, p, 1, 1, nr);
}

/* CHUNK blocks of a panel: the codes of 16 rows in pairs of k, and the groups. */
struct chunk {
    _Alignas(32) __m256i pairs[CHUNK * PAIRS][HALVES];
    struct group groups[CHUNK][HALVES][2];
    size_t blocks;
};

/* Decodes blocks begin .. end - 1 of a panel. */
INLINE void decode_chunk(enum rf_format format, const uint8_t *panel, size_t k, size_t begin,
                         size_t end, struct chunk *chunk)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const uint8_t *scales_at = panel + k / RF_BLOCK * layout->block_bytes;
    size_t per_unit = layout->unit / RF_BLOCK;
    _Alignas(32) uint8_t numbers[256];
    if (format == RF_FORMAT_Q4_K)
        unpack_q4k(scales_at + begin / per_unit * layout->scale_bytes, numbers);
    chunk->blocks = end - begin;
    for (size_t block = begin; block < end; block++) {
        const uint8_t *codes = panel + block * layout->block_bytes,
                      *unit = scales_at + block / per_unit * layout->scale_bytes;
        __m256i(*to)[HALVES] = chunk->pairs + (block - begin) * PAIRS;
        prefetch(codes, layout->block_bytes);
        groups_at(format, unit, block % per_unit, numbers, chunk->groups[block - begin]);
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++) {
            int half = part % 2;
            __m256i four[4];
            decode(format, codes + 32 * half, part / 2, four);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) {
                __m256i pairs[2];
                pairs_of(format, four[v], pairs);
                to[8 * (part / 2) + 2 * v][half] = pairs[0];
                to[8 * (part / 2) + 2 * v + 1][half] = pairs[1];
            }
        }
    }
}

/* Adds the products of a chunk and nr rows to their sums, [row][half][8]; `first`: the sums begin
 * with it. */
INLINE void chunk_tile(enum rf_format format, const struct chunk *chunk, const struct rf_a16 *x,
                       size_t stride, int nr, int first, float (*sums)[HALVES][8])
{
    int count = groups_of(format);
    int depth = PAIRS / count;
    for (size_t block = 0; block < chunk->blocks; block++, x++)
        for (int g = 0; g < count; g++) {
            __m256i products[TILE_ROWS][HALVES];
#pragma GCC unroll 6
            for (int a = 0; a < nr; a++) products[a][0] = products[a][1] = _mm256_setzero_si256();
            x = opaque(x);
#pragma GCC unroll 1 /* more iterations would lack registers */
            for (int v = g * depth; v < (g + 1) * depth; v++) {
                const __m256i *pairs = chunk->pairs[block * PAIRS + (size_t)v];
#pragma GCC unroll 6
                for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
                    for (int h = 0; h < HALVES; h++)
                        add_to(&products[a][h], pairs[h], pair_of(x + (size_t)a * stride, v));
            }
#pragma GCC unroll 6
            for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
                for (int h = 0; h < HALVES; h++) {
                    int begin = first && block == 0 && g == 0;
                    __m256 acc = begin ? _mm256_setzero_ps() : _mm256_load_ps(sums[a][h]);
                    acc = fold(format, acc, products[a][h], &chunk->groups[block][h][g], g,
                               x + (size_t)a * stride);
                    _mm256_store_ps(sums[a][h], acc);
                }
        }
}

INLINE void multiply_chunk(enum rf_format format, const struct chunk *chunk, const struct rf_a16 *x,
                           size_t stride, size_t n, int first, float (*sums)[HALVES][8])
{
    for (; n >= TILE_ROWS; n -= TILE_ROWS, x += TILE_ROWS * stride, sums += TILE_ROWS)
        chunk_tile(format, chunk, x, stride, TILE_ROWS, first, sums);
    switch (n) {
    case 1: chunk_tile(format, chunk, x, stride, 1, first, sums); break;
    case 2: chunk_tile(format, chunk, x, stride, 2, first, sums); break;
    case 3: chunk_tile(format, chunk, x, stride, 3, first, sums); break;
    case 4: chunk_tile(format, chunk, x, stride, 4, first, sums); break;
    case 5: chunk_tile(format, chunk, x, stride, 5, first, sums); break;
    default: break;
    }
}

/* A panel times rows i .. i + n - 1, n <= MOST_ROWS. */
INLINE void multiply_panel(const struct rf_linear_args *args, enum rf_format format, size_t panel,
                           size_t i, size_t n)
{
    _Alignas(32) float sums[MOST_ROWS][HALVES][8];
    struct chunk chunk;
    size_t blocks = args->k / RF_BLOCK, stride = rf_a16_stride(args->k);
    const struct rf_a16 *x = (const struct rf_a16 *)args->x + i * stride;
    for (size_t begin = 0; begin < blocks; begin += CHUNK) {
        size_t end = begin + CHUNK < blocks ? begin + CHUNK : blocks;
        decode_chunk(format, (const uint8_t *)args->w + panel * args->ldw, args->k, begin, end,
                     &chunk);
        multiply_chunk(format, &chunk, x + begin, stride, n, begin == 0, sums);
    }
    for (size_t a = 0; a < n; a++)
        for (int h = 0; h < HALVES; h++)
            store(args, panel * RF_PANEL_ROWS + 8 * (size_t)h, i + a, _mm256_load_ps(sums[a][h]));
}

INLINE void walk(const struct rf_linear_args *args, enum rf_format format)
{
    for (size_t i = 0; i < args->n; i += MOST_ROWS)
        for (size_t panel = 0; panel * RF_PANEL_ROWS < args->m; panel++)
            multiply_panel(args, format, panel, i,
                           args->n - i < MOST_ROWS ? args->n - i : MOST_ROWS);
}

#define LINEAR_A16(name, FORMAT, ...)                                            \
    static void RF_NAMED(linear_##name##_a16)(const struct rf_linear_args *args) \
    {                                                                            \
        switch (args->n) {                                                       \
        case 1: stream(args, RF_FORMAT_##FORMAT, 1); break;                      \
        case FEW_ROWS: stream(args, RF_FORMAT_##FORMAT, FEW_ROWS); break;        \
        default: walk(args, RF_FORMAT_##FORMAT); break;                          \
        }                                                                        \
    }
RF_EACH_PANEL_FORMAT(LINEAR_A16)

static void init_panels_a16(struct rf_kernels *kernels)
{
#define SET_A16(name, FORMAT, ...) \
    kernels->linear_a16[RF_FORMAT_##FORMAT] = RF_NAMED(linear_##name##_a16);
    RF_EACH_PANEL_FORMAT(SET_A16)
#undef SET_A16
}
