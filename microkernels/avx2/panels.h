/* Weights in panels times 8-bit rows; 8 weight rows are 8 lanes. This is a template. The including
 * file may define RF_DPBUSD(sum, codes, q), the instruction that multiplies unsigned by signed
 * bytes and adds each four products. Otherwise vpmaddubsw and vpmaddwd do the same with 16-bit
 * sums. All sums are exact, so all tiers agree.
 *
 * Half a panel's block is handled in two parts of 16 k: four vectors of codes stay in registers
 * while all rows of activations pass, with one integer accumulator each. */
#include <immintrin.h>

#include "microkernels/avx2/decode.h"

enum {
    MAX_TILE = 16,  /* accumulators of a tile: halves of panels times rows */
    PREFETCH = 2048 /* prefetch distance in bytes of codes */
};

INLINE __m256i broadcast(const int8_t *q, int v)
{
    return _mm256_set1_epi32(((const int32_t *)(const void *)q)[v]);
}

/* 1 if dot() takes codes less 128. Bytes above 127 would overflow 16-bit sums. */
INLINE int has_signed_codes(enum rf_format format)
{
#ifdef RF_DPBUSD
    (void)format;
    return 0;
#else
    return rf_panel_layout(format)->offset == 128;
#endif
}

/* The first value of a sum, which subtracts the codes' offset. */
INLINE __m256i start(enum rf_format format, const struct rf_a8 *x, int part)
{
    int offset = rf_panel_layout(format)->offset;
    if (has_signed_codes(format) || offset == 0) return _mm256_setzero_si256();
    return _mm256_set1_epi32(rf_a8_start(x, offset, part));
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
            __m256i code = _mm256_xor_si256(codes[v], _mm256_set1_epi8(-128));
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

/* Panels first, first + step, ... (np of them) times rows i .. i + nr - 1. */
INLINE void tile(const struct rf_linear_args *args, enum rf_format format, size_t first,
                 size_t step, size_t i, int np, int nr)
{
    size_t blocks = args->k / RF_BLOCK, stride = rf_a8_stride(args->k);
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    int by_16 = layout->group == 16, super = layout->unit == RF_SUPERBLOCK,
        has_min = layout->has_min && !by_16;
    size_t block_bytes = layout->block_bytes, scale_bytes = layout->scale_bytes,
           gap = step * args->ldw;
    const struct rf_a8 *x = (const struct rf_a8 *)args->x + i * stride;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * block_bytes;
    _Alignas(32) uint8_t numbers[MAX_TILE / 2][256];
    __m256 acc[MAX_TILE];

#pragma GCC unroll 16
    for (int t = 0; t < 2 * np * nr; t++) acc[t] = _mm256_setzero_ps();
    for (size_t block = 0; block < blocks; block++) {
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const uint8_t *codes_of = codes_at + (size_t)p * gap + block * block_bytes;
            const uint8_t *unit =
                scales_at + (size_t)p * gap + (super ? block / 8 : block) * scale_bytes;
            for (size_t line = 0; line < block_bytes; line += 64)
                _mm_prefetch((const char *)codes_of + PREFETCH + line, _MM_HINT_T0);
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
                    decode(format, codes_of + 32 * half, part, codes);
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
        store(args, (first + half / 2 * step) * RF_PANEL_ROWS + half % 2 * 8, i + (size_t)(t % nr),
              acc[t]);
    }
}

/* All panels times nr rows from i. Panels are cut into np parts, each read from end to end. */
INLINE void stream(const struct rf_linear_args *args, enum rf_format format, size_t i, int np,
                   int nr)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / (size_t)np;
    for (size_t p = 0; p < part; p++) tile(args, format, p, part, i, np, nr);
    for (size_t p = part * (size_t)np; p < panels; p++) tile(args, format, p, 1, i, 1, nr);
}

INLINE void linear(const struct rf_linear_args *args, enum rf_format format)
{
    size_t i = 0;
    for (; args->n - i >= 8; i += 8) stream(args, format, i, 1, 8);
    switch (args->n - i) {
    case 1: stream(args, format, i, 4, 1); break;
    case 2: stream(args, format, i, 4, 2); break;
    case 3: stream(args, format, i, 2, 3); break;
    case 4: stream(args, format, i, 2, 4); break;
    case 5: stream(args, format, i, 1, 5); break;
    case 6: stream(args, format, i, 1, 6); break;
    case 7: stream(args, format, i, 1, 7); break;
    default: break;
    }
}

#define LINEAR(name, FORMAT, ...)                                \
    static void linear_##name(const struct rf_linear_args *args) \
    {                                                            \
        linear(args, RF_FORMAT_##FORMAT);                        \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

static void init_panels(struct rf_kernels *kernels)
{
#define SET(name, FORMAT, ...) kernels->linear[RF_FORMAT_##FORMAT] = linear_##name;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
