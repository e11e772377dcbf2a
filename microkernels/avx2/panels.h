/* Weights in panels times 8-bit rows; 8 weight rows are 8 lanes. This is a template. The including
 * file defines RF_NAMED(kernel), which puts its tier in front of a kernel's name, and may define
 * RF_DPBUSD(sum, codes, q), the instruction that multiplies unsigned by signed bytes and adds each
 * four products. Otherwise vpmaddubsw does the same with 16-bit sums, which vpmaddwd adds up before
 * they overflow. All sums are exact, so all tiers agree.
 *
 * For a few rows codes are decoded in registers; for more, once into the L1 cache. */
#include <immintrin.h>
#include <string.h>

#include "microkernels/avx2/decode.h"

enum {
    FEW_ROWS = 4, /* rows for which codes are decoded in registers */
    HALVES = 2,   /* vectors of weight rows of a panel */
#ifdef RF_DPBUSD
    TILE_ROWS = 6, /* rows of a tile of decoded codes: enough sums to hide the latency */
#else
    TILE_ROWS = 4,
#endif
    MAX_PANELS = 4,                   /* panels of a tile of few rows */
    VECTORS = RF_BLOCK / 4,           /* vectors of codes in a block */
    CHUNK = RF_SUPERBLOCK / RF_BLOCK, /* blocks that are decoded at a time: 4 KiB of codes */
    MOST_ROWS = 256,                  /* rows whose sums wait for the next chunk */
    PREFETCH = 2048                   /* prefetch distance in bytes of codes */
};

/* Hides from the compiler that it has read memory before, for it has no registers to keep that in.
 */
INLINE const struct rf_a8 *opaque(const struct rf_a8 *x)
{
    __asm__ volatile("" : "+r"(x));
    return x;
}

/* Groups of a block: one of 32 values, or two of 16. */
INLINE int groups_of(enum rf_format format)
{
    return rf_panel_layout(format)->group == RF_BLOCK ? 1 : 2;
}

/* 1 if 128 is subtracted from codes before they are multiplied, as signed bytes. Codes above 127
 * would overflow 16-bit sums. */
INLINE int has_signed_codes(enum rf_format format)
{
#ifdef RF_DPBUSD
    (void)format;
    return 0;
#else
    return rf_panel_layout(format)->offset >= 64;
#endif
}

/* Vectors of codes whose products 16-bit sums hold: n * 2 * 127 * the greatest code < 2^15. */
INLINE int run_of(enum rf_format format)
{
    if (has_signed_codes(format)) return 1;
    if (rf_panel_layout(format)->bits == 4) return format == RF_FORMAT_MXFP4 ? 4 : 8;
    return 2;
}

/* The start of a group's sum: less the codes' offset. */
INLINE __m256i start(enum rf_format format, const struct rf_a8 *x, int g)
{
    int offset = rf_panel_layout(format)->offset;
    if (has_signed_codes(format) || offset == 0) return _mm256_setzero_si256();
    return _mm256_set1_epi32(rf_a8_start(x, offset, g));
}

/* The products of a group of values for 8 weight rows and one row. */
struct products {
    __m256i sum, words;
};

/* Adds the products of vector v of codes. */
INLINE void add_products(enum rf_format format, struct products *to, __m256i codes,
                         const struct rf_a8 *x, int v)
{
    __m256i q = _mm256_set1_epi32(((const int32_t *)(const void *)x->q)[v]);
#ifdef RF_DPBUSD
    int first = v % (VECTORS / groups_of(format)) == 0;
    if (first) to->sum = start(format, x, v / (VECTORS / groups_of(format)));
    to->sum = RF_DPBUSD(to->sum, codes, q);
#else
    int run = run_of(format), depth = VECTORS / groups_of(format);
    __m256i words = has_signed_codes(format)
                        ? _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(q, codes))
                        : _mm256_maddubs_epi16(codes, q);
    to->words = v % run ? _mm256_add_epi16(to->words, words) : words;
    __asm__("" : "+x"(to->words)); /* gcc would add in an order for which it lacks registers */
    if ((v + 1) % run) return;
    __m256i sum = _mm256_madd_epi16(to->words, _mm256_set1_epi16(1));
    to->sum = v % depth < run ? sum : _mm256_add_epi32(to->sum, sum);
    __asm__("" : "+x"(to->sum)); /* for the same reason */
    if ((v + 1) % depth == 0) to->sum = _mm256_add_epi32(to->sum, start(format, x, v / depth));
#endif
}

/* Scales and minimums of a group for 8 weight rows. */
struct group {
    __m256 s, b;
};

/* acc + the products of group g of a block, scaled, + its minimum. */
INLINE __m256 fold(enum rf_format format, __m256 acc, __m256i sum, const struct group *group, int g,
                   const struct rf_a8 *x)
{
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_broadcast_ss(&x->d));
    acc = _mm256_fmadd_ps(value, group->s, acc);
    if (!rf_panel_layout(format)->has_min) return acc;
    __m256 d_sum = format == RF_FORMAT_Q8_K ? _mm256_set1_ps((float)x->m32[g] * x->d)
                                            : _mm256_broadcast_ss(&x->d_sum);
    return _mm256_fmadd_ps(group->b, d_sum, acc);
}

INLINE void prefetch(const uint8_t *codes, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T0);
}

INLINE __m256i less_offset(enum rf_format format, __m256i codes)
{
    return _mm256_sub_epi8(codes, _mm256_set1_epi8((char)rf_panel_layout(format)->offset));
}

/* The vectors of part `part` of a block as they are multiplied. */
INLINE void codes_of(enum rf_format format, const uint8_t *block, int part, __m256i codes[4])
{
    decode(format, block, part, codes);
    if (!has_signed_codes(format)) return;
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) codes[v] = less_offset(format, codes[v]);
}

INLINE __m256i broadcast(const int8_t *q, int v)
{
    return _mm256_set1_epi32(((const int32_t *)(const void *)q)[v]);
}

/* sum + the products of four vectors of codes and 16 values of a row. */
INLINE __m256i dot(enum rf_format format, __m256i sum, const __m256i codes[4], const int8_t *q)
{
#ifdef RF_DPBUSD
    (void)format;
#    pragma GCC unroll 4
    for (int v = 0; v < 4; v++) sum = RF_DPBUSD(sum, codes[v], broadcast(q, v));
    return sum;
#else
    __m256i ones = _mm256_set1_epi16(1), pairs[4];
    if (has_signed_codes(format)) {
        /* The codes' signs move to the row: 2 * 128 * 127 fits. */
#    pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            __m256i code = less_offset(format, codes[v]);
            pairs[v] = _mm256_maddubs_epi16(_mm256_abs_epi8(code),
                                            _mm256_sign_epi8(broadcast(q, v), code));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs[v], ones));
        }
        return sum;
    }
#    pragma GCC unroll 4
    for (int v = 0; v < 4; v++) pairs[v] = _mm256_maddubs_epi16(codes[v], broadcast(q, v));
    __m256i low = _mm256_add_epi16(pairs[0], pairs[1]), high = _mm256_add_epi16(pairs[2], pairs[3]);
    /* Codes up to 24 allow four additions (4 * 2 * 24 * 127 = 24384), codes up to 63 allow two
     * (32004). */
    if (rf_panel_layout(format)->bits == 4)
        return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(low, high), ones));
    return _mm256_add_epi32(_mm256_add_epi32(sum, _mm256_madd_epi16(low, ones)),
                            _mm256_madd_epi16(high, ones));
#endif
}

/* Panels first, first + step, ... (np of them) times nr rows. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                 size_t step, int np, int nr)
{
    size_t blocks = args->k / RF_BLOCK, stride = rf_a8_stride(args->k);
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    int by_16 = layout->group == 16, super = layout->unit == RF_SUPERBLOCK,
        has_min = layout->has_min && !by_16;
    size_t block_bytes = layout->block_bytes, scale_bytes = layout->scale_bytes,
           gap = step * args->ldw;
    const struct rf_a8 *x = args->x;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * block_bytes;
    _Alignas(32) uint8_t numbers[MAX_PANELS][256];
    __m256 acc[MAX_PANELS * HALVES * FEW_ROWS];

#pragma GCC unroll 16
    for (int t = 0; t < 2 * np * nr; t++) acc[t] = _mm256_setzero_ps();
    for (size_t block = 0; block < blocks; block++) {
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const uint8_t *at = codes_at + (size_t)p * gap + block * block_bytes;
            const uint8_t *unit =
                scales_at + (size_t)p * gap + (super ? block / 8 : block) * scale_bytes;
            prefetch(at, block_bytes);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers[p]);
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                __m256i sums[8], codes[4];
                __m256 s, b, *to = acc + (2 * p + half) * nr;
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++)
                    sums[a] = start(format, x + (size_t)a * stride + block, 0);
#pragma GCC unroll 2
                for (int part = 0; part < 2; part++) {
                    decode(format, at + 32 * half, part, codes);
#pragma GCC unroll 8
                    for (int a = 0; a < nr; a++)
                        sums[a] = dot(format, sums[a], codes,
                                      x[(size_t)a * stride + block].q + 16 * part);
                    if (!by_16 && part == 0) continue;
                    scale_of(format, unit, block % 8, part, 8 * (size_t)half, numbers[p], &s, &b);
#pragma GCC unroll 8
                    for (int a = 0; a < nr; a++) {
                        const struct rf_a8 *row = x + (size_t)a * stride + block;
                        __m256 d = _mm256_set1_ps(row->d);
                        to[a] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[a]), d), s,
                                                to[a]);
                        if (has_min) to[a] = _mm256_fmadd_ps(b, _mm256_set1_ps(row->d_sum), to[a]);
                        if (format == RF_FORMAT_Q8_K)
                            to[a] = _mm256_fmadd_ps(
                                b, _mm256_set1_ps((float)row->m32[part] * row->d), to[a]);
                        if (by_16 && part == 0) sums[a] = start(format, row, 1);
                    }
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < 2 * np * nr; t++) {
        size_t half = (size_t)(t / nr);
        store(args, (first + half / 2 * step) * RF_PANEL_ROWS + half % 2 * 8, (size_t)(t % nr),
              acc[t]);
    }
}

/* All panels times nr <= FEW_ROWS rows. Panels are cut into np parts, each read from end to end. */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, int np, int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / (size_t)np;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, np, nr);
    for (size_t p = part * (size_t)np; p < panels; p++) tile(args, format, p, 1, 1, nr);
}

/* CHUNK blocks of a panel: the codes of 16 rows, and the groups. */
struct chunk {
    _Alignas(64) __m256i codes[CHUNK][VECTORS][HALVES];
    struct group groups[CHUNK][2][HALVES];
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
        prefetch(codes, layout->block_bytes);
#pragma GCC unroll 2
        for (int half = 0; half < HALVES; half++) {
#pragma GCC unroll 2
            for (int g = 0; g < groups_of(format); g++) {
                struct group *group = &chunk->groups[block - begin][g][half];
                scale_of(format, unit, block % per_unit, g, 8 * (size_t)half, numbers, &group->s,
                         &group->b);
            }
#pragma GCC unroll 2
            for (int part = 0; part < 2; part++) {
                __m256i four[4];
                codes_of(format, codes + 32 * half, part, four);
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++)
                    chunk->codes[block - begin][4 * part + v][half] = four[v];
            }
        }
    }
}

/* Adds the products of a chunk and nr rows to their sums. */
INLINE void chunk_tile(enum rf_format format, const struct chunk *chunk, const struct rf_a8 *x,
                       size_t stride, int nr, float (*sums)[HALVES][8])
{
    int count = groups_of(format), depth = VECTORS / count;
    for (size_t block = 0; block < chunk->blocks; block++, x++)
#pragma GCC unroll 2
        for (int g = 0; g < count; g++) {
            struct products products[TILE_ROWS][HALVES];
#pragma GCC unroll 8
            for (int v = g * depth; v < (g + 1) * depth; v++) {
                const __m256i *codes = chunk->codes[block][v];
                x = opaque(x);
#pragma GCC unroll 6
                for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
                    for (int h = 0; h < HALVES; h++) {
                        add_products(format, &products[a][h], codes[h], x + (size_t)a * stride, v);
                    }
            }
#pragma GCC unroll 6
            for (int a = 0; a < nr; a++)
#pragma GCC unroll 2
                for (int h = 0; h < HALVES; h++) {
                    __m256 acc = _mm256_load_ps(sums[a][h]);
                    acc = fold(format, acc, products[a][h].sum, &chunk->groups[block][g][h], g,
                               x + (size_t)a * stride);
                    _mm256_store_ps(sums[a][h], acc);
                }
        }
}

INLINE void multiply_chunk(enum rf_format format, const struct chunk *chunk, const struct rf_a8 *x,
                           size_t stride, size_t n, float (*sums)[HALVES][8])
{
    for (; n >= TILE_ROWS; n -= TILE_ROWS, x += TILE_ROWS * stride, sums += TILE_ROWS)
        chunk_tile(format, chunk, x, stride, TILE_ROWS, sums);
    switch (n) {
    case 1: chunk_tile(format, chunk, x, stride, 1, sums); break;
    case 2: chunk_tile(format, chunk, x, stride, 2, sums); break;
    case 3: chunk_tile(format, chunk, x, stride, 3, sums); break;
#ifdef RF_DPBUSD
    case 4: chunk_tile(format, chunk, x, stride, 4, sums); break;
    case 5: chunk_tile(format, chunk, x, stride, 5, sums); break;
#endif
    default: break;
    }
}

/* A panel times rows i .. i + n - 1, n <= MOST_ROWS. */
INLINE void multiply_panel(const struct rf_linear_args *args, enum rf_format format, size_t panel,
                           size_t i, size_t n)
{
    _Alignas(64) float sums[MOST_ROWS][HALVES][8];
    struct chunk chunk;
    size_t blocks = args->k / RF_BLOCK, stride = rf_a8_stride(args->k);
    const struct rf_a8 *x = (const struct rf_a8 *)args->x + i * stride;
    memset(sums, 0, n * sizeof *sums);
    for (size_t begin = 0; begin < blocks; begin += CHUNK) {
        size_t end = begin + CHUNK < blocks ? begin + CHUNK : blocks;
        decode_chunk(format, (const uint8_t *)args->w + panel * args->ldw, args->k, begin, end,
                     &chunk);
        multiply_chunk(format, &chunk, x + begin, stride, n, sums);
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

#define LINEAR(name, FORMAT, ...)                                               \
    static void RF_NAMED(linear_##name##_a8)(const struct rf_linear_args *args) \
    {                                                                           \
        switch (args->n) {                                                      \
        case 1: stream(args, RF_FORMAT_##FORMAT, 4, 1); break;                  \
        case 2: stream(args, RF_FORMAT_##FORMAT, 4, 2); break;                  \
        case 3: stream(args, RF_FORMAT_##FORMAT, 2, 3); break;                  \
        case 4: stream(args, RF_FORMAT_##FORMAT, 2, 4); break;                  \
        default: walk(args, RF_FORMAT_##FORMAT); break;                         \
        }                                                                       \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

static void init_panels(struct rf_kernels *kernels)
{
#define SET(name, FORMAT, ...) kernels->linear[RF_FORMAT_##FORMAT] = RF_NAMED(linear_##name##_a8);
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
