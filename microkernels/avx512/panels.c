/* Weights in panels times 8-bit rows with vpdpbusd (AVX512_VNNI); 16 lanes are 16 weight rows.
 *
 * A block of 32 k of a panel becomes eight vectors of codes, each with four values of k for every
 * row. A row of activations is multiplied as broadcast words. One tile handles several panels that
 * are far apart in memory, since memory is fastest with a few long streams. The tile's shape never
 * changes a result. */
#include <immintrin.h>

#include "microkernels/avx512/panels.h"
#include "microkernels/avx512/tier.h"

enum {
    MAX_PANELS = 4,
    MAX_TILE = 16,  /* integer accumulators of a tile: rows times panels */
    PREFETCH = 4096 /* prefetch distance in bytes of codes */
};

INLINE __m512i broadcast(const int8_t *q, int v)
{
    return _mm512_set1_epi32(((const int32_t *)(const void *)q)[v]);
}

/* Hides from the compiler where a pointer points. Otherwise it moves loads into registers that a
 * loop does not have to spare, and spills them. */
INLINE float *avx512_panels_opaque(float *memory)
{
    __asm__("" : "+r"(memory));
    return memory;
}

/* Panels first, first + step, ... (np of them) times rows i .. i + nr - 1. */
INLINE void avx512_panels_tile(const struct rf_linear_args *args, enum rf_format format,
                               size_t first, size_t step, size_t i, int np, int nr, int prefetch)
{
    size_t blocks = args->k / RF_BLOCK, stride = rf_a8_stride(args->k),
           block_bytes = rf_panel_layout(format)->block_bytes;
    size_t scale_bytes = rf_panel_layout(format)->scale_bytes, gap = step * args->ldw;
    int halves = is_by_16(format) ? 2 : 1, stays = np * nr <= 8;
    const struct rf_a8 *x = (const struct rf_a8 *)args->x + i * stride;
    const uint8_t *codes_at = (const uint8_t *)args->w + first * args->ldw,
                  *scales_at = codes_at + blocks * block_bytes;
    _Alignas(64) uint8_t numbers[MAX_PANELS][256];
    _Alignas(64) float memory[MAX_TILE * 16];
    float *kept = avx512_panels_opaque(memory);
    __m512 acc[8];

#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++) {
        if (stays)
            acc[t] = _mm512_setzero_ps();
        else
            _mm512_store_ps(kept + 16 * t, _mm512_setzero_ps());
    }
    for (size_t block = 0; block < blocks; block++) {
        const uint8_t *codes_of = codes_at + block * block_bytes;
        const uint8_t *unit = scales_at + (is_super(format) ? block / 8 : block) * scale_bytes;
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            for (size_t line = 0; line < block_bytes && prefetch; line += 64)
                _mm_prefetch((const char *)codes_of + (size_t)p * gap + PREFETCH + line,
                             _MM_HINT_T1);
            if (format == RF_FORMAT_Q4_K && block % 8 == 0)
                unpack_q4k(unit + (size_t)p * gap, numbers[p]);
        }
#pragma GCC unroll 2
        for (int half = 0; half < halves; half++) {
            __m512i sums[MAX_TILE];
#pragma GCC unroll 8
            for (int a = 0; a < nr; a++) {
                __m512i start =
                    _mm512_set1_epi32(offset_of(format, x + (size_t)a * stride + block, half));
#pragma GCC unroll 4
                for (int p = 0; p < np; p++) sums[p * nr + a] = start;
            }
#pragma GCC unroll 4
            for (int j = 4 / halves * half; j < 4 / halves * (half + 1); j++) {
                __m512i codes[MAX_PANELS][2];
#pragma GCC unroll 4
                for (int p = 0; p < np; p++)
                    decode(format, codes_of + (size_t)p * gap, j, codes[p]);
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++) {
                    const int8_t *q = x[(size_t)a * stride + block].q;
                    __m512i even = broadcast(q, 2 * j), odd = broadcast(q, 2 * j + 1);
#pragma GCC unroll 4
                    for (int p = 0; p < np; p++) {
                        sums[p * nr + a] = _mm512_dpbusd_epi32(sums[p * nr + a], codes[p][0], even);
                        sums[p * nr + a] = _mm512_dpbusd_epi32(sums[p * nr + a], codes[p][1], odd);
                    }
                }
            }
#pragma GCC unroll 4
            for (int p = 0; p < np; p++) {
                struct scales scales =
                    scales_of(format, unit + (size_t)p * gap, block % 8, numbers[p]);
#pragma GCC unroll 8
                for (int a = 0; a < nr; a++) {
                    const struct rf_a8 *row = x + (size_t)a * stride + block;
                    int t = p * nr + a;
                    __m512 value =
                        _mm512_mul_ps(_mm512_cvtepi32_ps(sums[t]), _mm512_set1_ps(row->d));
                    __m512 sum = stays ? acc[t] : _mm512_load_ps(kept + 16 * t);
                    sum = _mm512_fmadd_ps(value, scales.s[half], sum);
                    if (has_min(format))
                        sum = _mm512_fmadd_ps(scales.b[0], _mm512_set1_ps(row->d_sum), sum);
                    if (format == RF_FORMAT_Q8_K)
                        sum = _mm512_fmadd_ps(scales.b[half],
                                              _mm512_set1_ps((float)row->m32[half] * row->d), sum);
                    if (stays)
                        acc[t] = sum;
                    else
                        _mm512_store_ps(kept + 16 * t, sum);
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < np * nr; t++)
        store_panel(args, first + (size_t)(t / nr) * step, i + (size_t)(t % nr),
                    stays ? acc[t] : _mm512_load_ps(kept + 16 * t));
}

/* Panels first, first + step, ... times rows i .. i + n - 1. A function for each format and number
 * of panels. */
typedef void walk_fn(const struct rf_linear_args *args, size_t first, size_t step, size_t i,
                     size_t n, int prefetch);

/* One panel: the rest where two or four panels are handled at once. */
INLINE void avx512_panels_walk_1(const struct rf_linear_args *args, enum rf_format format,
                                 size_t first, size_t i, size_t n, int prefetch)
{
    for (; n >= 4; n -= 4, i += 4) avx512_panels_tile(args, format, first, 1, i, 1, 4, prefetch);
    if (n >= 2) {
        avx512_panels_tile(args, format, first, 1, i, 1, 2, prefetch);
        n -= 2;
        i += 2;
    }
    if (n) avx512_panels_tile(args, format, first, 1, i, 1, 1, prefetch);
}

/* Two panels and up to 8 rows. */
INLINE void avx512_panels_walk_2(const struct rf_linear_args *args, enum rf_format format,
                                 size_t first, size_t step, size_t i, size_t n, int prefetch)
{
    switch (n) {
    case 1: avx512_panels_tile(args, format, first, step, i, 2, 1, prefetch); break;
    case 2: avx512_panels_tile(args, format, first, step, i, 2, 2, prefetch); break;
    case 3: avx512_panels_tile(args, format, first, step, i, 2, 3, prefetch); break;
    case 4: avx512_panels_tile(args, format, first, step, i, 2, 4, prefetch); break;
    case 5: avx512_panels_tile(args, format, first, step, i, 2, 5, prefetch); break;
    case 6: avx512_panels_tile(args, format, first, step, i, 2, 6, prefetch); break;
    case 7: avx512_panels_tile(args, format, first, step, i, 2, 7, prefetch); break;
    case 8: avx512_panels_tile(args, format, first, step, i, 2, 8, prefetch); break;
    default: break;
    }
}

/* Four panels and up to 4 rows. */
INLINE void avx512_panels_walk_4(const struct rf_linear_args *args, enum rf_format format,
                                 size_t first, size_t step, size_t i, size_t n, int prefetch)
{
    switch (n) {
    case 1: avx512_panels_tile(args, format, first, step, i, 4, 1, prefetch); break;
    case 2: avx512_panels_tile(args, format, first, step, i, 4, 2, prefetch); break;
    case 3: avx512_panels_tile(args, format, first, step, i, 4, 3, prefetch); break;
    case 4: avx512_panels_tile(args, format, first, step, i, 4, 4, prefetch); break;
    default: break;
    }
}

/* Up to 16 rows: the decoding shape. Panels are cut into np parts, each read from end to end. Rows
 * after the first eight find the weights in a cache. */
static void avx512_panels_stream(const struct rf_linear_args *args, walk_fn *walk, size_t np,
                                 walk_fn *walk_alone)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, part = panels / np;
    size_t n = args->n < 8 ? args->n : 8, more = args->n - n;
    for (size_t p = 0; p < part; p++) {
        walk(args, p, part, 0, n, 1);
        if (more) walk(args, p, part, n, more, 0);
    }
    for (size_t p = part * np; p < panels; p++) walk_alone(args, p, 1, 0, args->n, 1);
}

/* The prompt shape: eight rows of activations stay in the L1 cache while all panels pass. */
static void avx512_panels_block(const struct rf_linear_args *args, walk_fn *walk_by_two,
                                walk_fn *walk_alone)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
    for (size_t i = 0; i < args->n; i += 8) {
        size_t n = args->n - i < 8 ? args->n - i : 8, p = 0;
        for (; p + 2 <= panels; p += 2) walk_by_two(args, p, 1, i, n, 0);
        if (p < panels) walk_alone(args, p, 1, i, n, 0);
    }
}

#define LINEAR(name, FORMAT, ...)                                                                \
    static void avx512_linear_##name##_a8_1(const struct rf_linear_args *args, size_t first,     \
                                            size_t step, size_t i, size_t n, int prefetch)       \
    {                                                                                            \
        (void)step;                                                                              \
        avx512_panels_walk_1(args, RF_FORMAT_##FORMAT, first, i, n, prefetch);                   \
    }                                                                                            \
    static void avx512_linear_##name##_a8_2(const struct rf_linear_args *args, size_t first,     \
                                            size_t step, size_t i, size_t n, int prefetch)       \
    {                                                                                            \
        avx512_panels_walk_2(args, RF_FORMAT_##FORMAT, first, step, i, n, prefetch);             \
    }                                                                                            \
    static void avx512_linear_##name##_a8_4(const struct rf_linear_args *args, size_t first,     \
                                            size_t step, size_t i, size_t n, int prefetch)       \
    {                                                                                            \
        avx512_panels_walk_4(args, RF_FORMAT_##FORMAT, first, step, i, n, prefetch);             \
    }                                                                                            \
    static void avx512_linear_##name##_a8(const struct rf_linear_args *args)                     \
    {                                                                                            \
        if (args->n <= 4)                                                                        \
            avx512_panels_stream(args, avx512_linear_##name##_a8_4, 4,                           \
                                 avx512_linear_##name##_a8_1);                                   \
        else if (args->n <= 16)                                                                  \
            avx512_panels_stream(args, avx512_linear_##name##_a8_2, 2,                           \
                                 avx512_linear_##name##_a8_1);                                   \
        else                                                                                     \
            avx512_panels_block(args, avx512_linear_##name##_a8_2, avx512_linear_##name##_a8_1); \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

rf_linear_fn *const rf_avx512_linear_panels[RF_FORMAT_COUNT] = {
#define ENTRY(name, FORMAT, ...) [RF_FORMAT_##FORMAT] = avx512_linear_##name##_a8,
    RF_EACH_PANEL_FORMAT(ENTRY)
#undef ENTRY
};

void rf_avx512_pack_a8(const struct rf_pack_args *args)
{
    struct rf_a8 *to = rf_a8_blocks(args);
    const float *x = args->x;
    __m512 sign = _mm512_set1_ps(-0.0f);
    for (size_t g = 0; g < args->n / RF_BLOCK; g++, to++, x += RF_BLOCK) {
        __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
        float max = _mm512_reduce_max_ps(
            _mm512_max_ps(_mm512_andnot_ps(sign, low), _mm512_andnot_ps(sign, high)));
        float inverse = rf_a8_inverse(max);
        __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(low, _mm512_set1_ps(inverse)));
        __m512i second = _mm512_cvtps_epi32(_mm512_mul_ps(high, _mm512_set1_ps(inverse)));
        int sum0 = _mm512_reduce_add_epi32(first), sum1 = _mm512_reduce_add_epi32(second);
        _mm_store_si128((__m128i *)(void *)to->q, _mm512_cvtsepi32_epi8(first));
        _mm_store_si128((__m128i *)(void *)to->q + 1, _mm512_cvtsepi32_epi8(second));
        rf_a8_complete(to, max, sum0, sum1);
    }
}

void rf_avx512_init_panels(struct rf_kernels *kernels)
{
    kernels->pack[RF_OPERAND_A8] = rf_avx512_pack_a8;
    for (int format = RF_FORMAT_MXFP4; format < RF_BLOCK_FORMAT_COUNT; format++)
        kernels->linear[format] = rf_avx512_linear_panels[format];
}
