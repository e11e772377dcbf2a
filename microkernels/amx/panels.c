/* Weights in panels times many 8-bit rows with AMX tiles (tdpbsud).
 *
 * A decoded group of a panel, [k/4][16 rows][4], is operand B as it is. 16 rows of activations,
 * with blocks 64 bytes apart, are operand A. Each group's integers leave the tile to be scaled, so
 * that results have the same bits as on other tiers. Few rows, which are bound by memory, are left
 * to avx512's kernels. */
#include <immintrin.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/panels.h"

enum { SIDE = 16, ROWS = 2 * SIDE };

/* The rows of activations of one pass over a panel. */
struct rows {
    const struct rf_a8 *x;
    size_t stride, n; /* n <= ROWS */
};

/* Tiles 0, 1: sums [row][weight]; 2, 3: activations; 4: codes. The second 16 rows may be fewer, or
 * none. */
static void configure(size_t n, size_t group)
{
    struct rf_tile_config config = {.palette = 1};
    uint8_t rows[2] = {n < SIDE ? (uint8_t)n : SIDE, n > SIDE ? (uint8_t)(n - SIDE) : 0};
    for (int t = 0; t < 2 && rows[t]; t++) {
        config.rows[t] = rows[t];
        config.row_bytes[t] = 64;
        config.rows[2 + t] = rows[t];
        config.row_bytes[2 + t] = (uint16_t)group;
    }
    config.rows[4] = (uint8_t)(group / 4);
    config.row_bytes[4] = 64;
    _tile_loadconfig(&config);
}

/* Scales the sums of up to 16 rows and adds them to their accumulators. */
INLINE void scale(enum rf_format format, float acc[SIDE][16], const int32_t sums[SIDE][16],
                  const struct rows *rows, size_t first, size_t block, int half,
                  struct scales scales)
{
    size_t n = rows->n - first < SIDE ? rows->n - first : SIDE;
    for (size_t a = 0; a < n; a++) {
        const struct rf_a8 *x = rows->x + (first + a) * rows->stride + block;
        __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums[a]),
                                       _mm512_set1_epi32(offset_of(format, x, half)));
        __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(x->d)),
               to = _mm512_load_ps(acc[a]);
        to = _mm512_fmadd_ps(value, scales.s[half], to);
        if (has_min(format)) to = _mm512_fmadd_ps(scales.b[0], _mm512_set1_ps(x->d_sum), to);
        if (format == RF_FORMAT_Q8_K)
            to = _mm512_fmadd_ps(scales.b[half], _mm512_set1_ps((float)x->m32[half] * x->d), to);
        _mm512_store_ps(acc[a], to);
    }
}

INLINE void panel(const struct rf_linear_args *args, enum rf_format format, size_t index,
                  const struct rows *rows, float acc[ROWS][16])
{
    size_t blocks = args->k / RF_BLOCK, block_bytes = rf_panel_layout(format)->block_bytes,
           row_bytes = rows->stride * sizeof(struct rf_a8);
    size_t scale_bytes = rf_panel_layout(format)->scale_bytes;
    int halves = is_by_16(format) ? 2 : 1, group = RF_BLOCK / halves;
    const uint8_t *codes_at = (const uint8_t *)args->w + index * args->ldw,
                  *scales_at = codes_at + blocks * block_bytes;
    _Alignas(64) uint8_t decoded[8][64], numbers[256];
    _Alignas(64) int32_t sums[2][SIDE][16];

    for (size_t a = 0; a < rows->n; a++) _mm512_store_ps(acc[a], _mm512_setzero_ps());
    for (size_t block = 0; block < blocks; block++) {
        const uint8_t *unit = scales_at + (is_super(format) ? block / 8 : block) * scale_bytes;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            __m512i codes[2];
            decode(format, codes_at + block * block_bytes, j, codes);
            _mm512_store_si512(decoded[2 * j], codes[0]);
            _mm512_store_si512(decoded[2 * j + 1], codes[1]);
        }
        if (format == RF_FORMAT_Q4_K && block % 8 == 0) unpack_q4k(unit, numbers);
        struct scales scales = scales_of(format, unit, block % 8, numbers);
#pragma GCC unroll 2
        for (int half = 0; half < halves; half++) {
            const int8_t *q = rows->x[block].q + half * group;
            _tile_loadd(4, decoded[half * 4], 64);
            _tile_zero(0);
            _tile_loadd(2, q, row_bytes);
            _tile_dpbsud(0, 2, 4);
            _tile_stored(0, sums[0], 64);
            if (rows->n > SIDE) {
                _tile_zero(1);
                _tile_loadd(3, q + SIDE * row_bytes, row_bytes);
                _tile_dpbsud(1, 3, 4);
                _tile_stored(1, sums[1], 64);
            }
            scale(format, acc, (const int32_t(*)[16])sums[0], rows, 0, block, half, scales);
            if (rows->n > SIDE)
                scale(format, acc + SIDE, (const int32_t(*)[16])sums[1], rows, SIDE, block, half,
                      scales);
        }
    }
}

INLINE void linear(const struct rf_linear_args *args, enum rf_format format)
{
    _Alignas(64) float acc[ROWS][16];
    size_t stride = rf_a8_stride(args->k), configured = 0;
    for (size_t i = 0; i < args->n; i += ROWS) {
        struct rows rows = {(const struct rf_a8 *)args->x + i * stride, stride,
                            args->n - i < ROWS ? args->n - i : ROWS};
        if (rows.n != configured) configure(rows.n, is_by_16(format) ? 16 : 32);
        configured = rows.n;
        for (size_t r = 0; r < args->m; r += RF_PANEL_ROWS) {
            panel(args, format, r / RF_PANEL_ROWS, &rows, acc);
            for (size_t a = 0; a < rows.n; a++)
                store_panel(args, r / RF_PANEL_ROWS, i + a, _mm512_load_ps(acc[a]));
        }
    }
    _tile_release();
}

#define LINEAR(name, FORMAT, ...)                                \
    static void linear_##name(const struct rf_linear_args *args) \
    {                                                            \
        if (args->n < RF_AMX_LEAST_ROWS)                         \
            rf_avx512_linear_panels[RF_FORMAT_##FORMAT](args);   \
        else                                                     \
            linear(args, RF_FORMAT_##FORMAT);                    \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

void rf_amx_init_panels(struct rf_kernels *kernels)
{
#define SET(name, FORMAT, ...) kernels->linear[RF_FORMAT_##FORMAT] = linear_##name;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
