/* Decoding of panels to BF16, and the walk over many 16-bit rows, for AVX-512 and AMX.
 *
 * A decoded block of 32 k is sixteen vectors of pairs: a 32-bit lane is a weight row and holds two
 * values. The pairs of each eight k are (0,2), (1,3), (4,6), (5,7), which is the order of packed
 * rows: codes of 4 bits come apart in it. It is also operand B of tdpbf16ps. */
#ifndef RF_MICROKERNELS_AVX512_PANELS_A16_H
#define RF_MICROKERNELS_AVX512_PANELS_A16_H

#include "microkernels/avx512/panels.h"

enum {
    A16_PAIRS = RF_BLOCK / 2,             /* vectors of a decoded block */
    A16_CHUNK = RF_SUPERBLOCK / RF_BLOCK, /* blocks that are decoded at a time */
    A16_PANELS = 2,                       /* panels that are decoded at a time */
    A16_MOST_ROWS = 256                   /* rows whose sums wait for the next chunk */
};

/* Weights s c + b of one group of a block. Vector h has rows 8h to 8h + 7, each in two lanes. */
struct a16_group {
    __m512 s[2], b[2];
};

INLINE __m512 twice(__m512 v, int half)
{
    __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(half ? _mm512_add_epi32(low, _mm512_set1_epi32(8)) : low, v);
}

/* Group `group` of a block. The format's offset is a minimum, too: s (c - offset) is exact in F32.
 */
INLINE struct a16_group a16_group_of(enum rf_format format, const struct scales *scales, int group)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    struct a16_group out;
    __m512 s = scales->s[group], b = scales->b[group];
    if (!layout->has_min) b = _mm512_mul_ps(s, _mm512_set1_ps((float)-layout->offset));
    if (format == RF_FORMAT_Q8_K) b = _mm512_mul_ps(b, _mm512_set1_ps(-32.0f)); /* see scales_of */
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        out.s[half] = twice(s, half);
        out.b[half] = twice(b, half);
    }
    return out;
}

/* The weights of codes that lie at bit `bit` of the lanes, where `mask` has them alone; the mask is
 * not needed (0) for those that nothing follows. */
INLINE __m512 affine(__m512i codes, int bit, uint32_t mask, __m512 s, __m512 b)
{
    if (mask) codes = _mm512_and_si512(codes, _mm512_set1_epi32((int)mask));
    if (mask && bit) s = _mm512_mul_ps(s, _mm512_set1_ps(1.0f / (float)(1 << bit)));
    if (!mask) codes = _mm512_srli_epi32(codes, (unsigned)bit);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(codes), s, b);
}

/* Pairs of bytes of codes, k = 4v .. 4v + 3 of each row: (0,2) and (1,3). `half` of the rows. */
INLINE void affine_bytes(__m256i codes, const struct a16_group *group, int half, __m512 *even,
                         __m512 *odd)
{
    __m512i words = _mm512_cvtepu16_epi32(codes);
    *even = affine(words, 0, 0xff, group->s[half], group->b[half]);
    *odd = affine(words, 8, 0, group->s[half], group->b[half]);
}

/* The same for a vector of 4-bit codes: (0,2), (1,3), (4,6), (5,7). */
INLINE void affine_nibbles(__m256i codes, const struct a16_group *group, int half, __m512 to[4])
{
    __m512i words = _mm512_cvtepu16_epi32(codes);
    __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
           s = group->s[half], b = group->b[half];
    to[0] = _mm512_fmadd_ps(_mm512_permutexvar_ps(words, numbers), s, b);
    to[1] = affine(words, 8, 0xf00, s, b);
    to[2] = affine(words, 4, 0xf0, s, b);
    to[3] = affine(words, 12, 0, s, b);
}

/* MXFP4: the pairs have the values of E2M1, to which exponents are added. */
struct a16_exponents {
    __m512i add, live; /* live: all ones in rows whose scale is not zero */
};

INLINE struct a16_exponents a16_exponents_of(const uint8_t *scales)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)scales)),
            both = _mm512_or_si512(e, _mm512_slli_epi32(e, 16));
    struct a16_exponents out = {
        _mm512_slli_epi16(_mm512_sub_epi16(both, _mm512_set1_epi16(127)), 7),
        _mm512_movm_epi32(_mm512_test_epi32_mask(e, e))};
    return out;
}

/* Eight k of an MXFP4 block. Zeros stay zeros. */
INLINE void scale_mxfp4(__m512i codes, const struct a16_exponents *exponents, __m512i pairs[4])
{
    /* Twice the values of E2M1 in BF16. The table is repeated, since the fifth bit of an index
     * belongs to the next code. */
    __m512i table = _mm512_broadcast_i64x4(_mm256_setr_epi16(
        0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40c0, 0x4100, 0x4140, 0, (short)0xbf80,
        (short)0xc000, (short)0xc040, (short)0xc080, (short)0xc0c0, (short)0xc100, (short)0xc140));
    __m512i shifted[4] = {codes, _mm512_srli_epi16(codes, 8), _mm512_srli_epi16(codes, 4),
                          _mm512_srli_epi16(codes, 12)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m512i values = _mm512_permutexvar_epi16(shifted[v], table);
        __mmask32 live = _mm512_test_epi16_mask(values, exponents->live);
        pairs[v] = _mm512_maskz_add_epi16(live, values, exponents->add);
    }
}

/* What decoding needs of a block's scales. */
struct a16_scales {
    struct a16_group group[2];
    struct a16_exponents exponents;
};

/* `unit`: the scales of the unit; block number t in it. `numbers`: of a Q4_K unit. */
INLINE struct a16_scales a16_scales_of(enum rf_format format, const uint8_t *unit, size_t t,
                                       const uint8_t *numbers)
{
    struct a16_scales out;
    if (format == RF_FORMAT_MXFP4) {
        out.exponents = a16_exponents_of(unit);
        return out;
    }
    struct scales scales = scales_of(format, unit, t, numbers);
    out.group[0] = a16_group_of(format, &scales, 0);
    out.group[1] = is_by_16(format) ? a16_group_of(format, &scales, 1) : out.group[0];
    return out;
}

INLINE __m256i half_line(const uint8_t *line, int half)
{
    return _mm256_load_si256((const __m256i *)(const void *)(line + 32 * half));
}

INLINE __m256i half_of(__m512i v, int half)
{
    return half ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

/* k = 8j .. 8j + 7 of a block: the pairs (0,2), (1,3), (4,6), (5,7). */
INLINE void decode_a16(enum rf_format format, const uint8_t *block, int j,
                       const struct a16_scales *scales, __m512i pairs[4])
{
    const struct a16_group *group = &scales->group[j / 2];
    __m512 weights[2][4];
    if (format == RF_FORMAT_MXFP4) {
        scale_mxfp4(_mm512_load_si512(block + 64 * j), &scales->exponents, pairs);
        return;
    }
    __m512i codes[2];
    if (format == RF_FORMAT_Q6_K) decode(format, block, j, codes);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        if (rf_panel_layout(format)->bits == 4) {
            affine_nibbles(half_line(block + 64 * j, half), group, half, weights[half]);
            continue;
        }
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            affine_bytes(format == RF_FORMAT_Q6_K ? half_of(codes[v], half)
                                                  : half_line(block + 128 * j + 64 * v, half),
                         group, half, &weights[half][2 * v], &weights[half][2 * v + 1]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++)
        pairs[v] = (__m512i)_mm512_cvtne2ps_pbh(weights[1][v], weights[0][v]);
}

/* Decodes blocks begin .. end - 1 of a panel, at most A16_CHUNK of one unit. Prefetches what
 * follows them. */
typedef void rf_avx512_decode_fn(const uint8_t *panel, size_t k, size_t begin, size_t end,
                                 __m512i *pairs);
extern rf_avx512_decode_fn *const rf_avx512_decode_a16[RF_FORMAT_COUNT];

/* A chunk of k of one or two decoded panels. Sums are [row][panel][16]. */
struct a16_chunk {
    _Alignas(64) __m512i pairs[A16_PANELS][A16_CHUNK * A16_PAIRS];
    size_t blocks;
    int panels;
};

/* Adds the products of a chunk and rows 0 .. n - 1, `stride` apart, to sums; `first`: the sums
 * begin with it. */
typedef void a16_multiply_fn(const struct a16_chunk *chunk, const uint16_t *x, size_t stride,
                             size_t n, int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS]);

/* All rows of a call: each chunk of weights is decoded once for at most A16_MOST_ROWS of them.
 * Panels are cut into A16_PANELS parts, each read from end to end. */
INLINE void walk_a16(const struct rf_linear_args *args, rf_avx512_decode_fn *decode_chunk,
                     a16_multiply_fn *multiply)
{
    _Alignas(64) float sums[A16_MOST_ROWS][A16_PANELS][RF_PANEL_ROWS];
    struct a16_chunk chunk;
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, blocks = args->k / RF_BLOCK,
           part = (panels + A16_PANELS - 1) / A16_PANELS, stride = rf_a16_stride(args->k);
    for (size_t i = 0, n; i < args->n; i += n) {
        n = args->n - i < A16_MOST_ROWS ? args->n - i : A16_MOST_ROWS;
        const uint16_t *x = (const uint16_t *)args->x + i * stride;
        for (size_t p = 0; p < part; p++) {
            chunk.panels = p + part < panels ? A16_PANELS : 1;
            for (size_t begin = 0; begin < blocks; begin += A16_CHUNK) {
                size_t end = begin + A16_CHUNK < blocks ? begin + A16_CHUNK : blocks;
                chunk.blocks = end - begin;
                for (int t = 0; t < chunk.panels; t++)
                    decode_chunk((const uint8_t *)args->w + (p + (size_t)t * part) * args->ldw,
                                 args->k, begin, end, chunk.pairs[t]);
                multiply(&chunk, x + begin * RF_BLOCK, stride, n, begin == 0, sums);
            }
            for (int t = 0; t < chunk.panels; t++)
                for (size_t a = 0; a < n; a++)
                    store_panel(args, p + (size_t)t * part, i + a, _mm512_load_ps(sums[a][t]));
        }
    }
}

#endif
