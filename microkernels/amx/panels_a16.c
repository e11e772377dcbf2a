/* Weights in panels times 16-bit rows with AMX tiles (tdpbf16ps).
 *
 * A decoded block of a panel, [16 pairs][16 rows], is operand B as it is; rows of activations are
 * operand A. One row takes a tile of one row, since tdpbf16ps adds in an order of its own: of a
 * block, even and odd products each, then both, then to the sum. It also flushes subnormal numbers.
 */
#include <immintrin.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/panels_a16.h"

enum {
    SIDE = 16,
    LINE = 64,                                             /* bytes of a row of a tile */
    SUMS = A16_PANELS * RF_PANEL_ROWS * (int)sizeof(float) /* bytes from one row's sums on */
};

/* Tiles 2a + p: sums of rows 16a .. 16a + 15 and panel p; 4 + a: the rows; 6 + p: the weights. The
 * second 16 rows may be fewer, or none. */
static void configure(size_t n)
{
    struct rf_tile_config config = {.palette = 1};
    uint8_t rows[2] = {n < SIDE ? (uint8_t)n : SIDE, n > SIDE ? (uint8_t)(n - SIDE) : 0};
    for (int t = 0; t < 8; t++) {
        uint8_t height = t < 4 ? rows[t / 2] : t < 6 ? rows[t - 4] : SIDE;
        config.rows[t] = height;
        config.row_bytes[t] = height ? LINE : 0;
    }
    _tile_loadconfig(&config);
}

/* 17 to 32 rows times two panels. */
static void two_by_two(const struct a16_chunk *chunk, const uint16_t *x, size_t row_bytes,
                       int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums[0][0], SUMS);
        _tile_loadd(1, sums[0][1], SUMS);
        _tile_loadd(2, sums[SIDE][0], SUMS);
        _tile_loadd(3, sums[SIDE][1], SUMS);
    }
    for (size_t block = 0; block < chunk->blocks; block++, x += RF_BLOCK) {
        _tile_loadd(4, x, row_bytes);
        _tile_loadd(6, chunk->pairs[0] + block * A16_PAIRS, LINE);
        _tile_loadd(7, chunk->pairs[1] + block * A16_PAIRS, LINE);
        _tile_loadd(5, (const char *)x + SIDE * row_bytes, row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums[0][0], SUMS);
    _tile_stored(1, sums[0][1], SUMS);
    _tile_stored(2, sums[SIDE][0], SUMS);
    _tile_stored(3, sums[SIDE][1], SUMS);
}

/* 1 to 16 rows times two panels. */
static void one_by_two(const struct a16_chunk *chunk, const uint16_t *x, size_t row_bytes,
                       int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
    } else {
        _tile_loadd(0, sums[0][0], SUMS);
        _tile_loadd(1, sums[0][1], SUMS);
    }
    for (size_t block = 0; block < chunk->blocks; block++, x += RF_BLOCK) {
        _tile_loadd(4, x, row_bytes);
        _tile_loadd(6, chunk->pairs[0] + block * A16_PAIRS, LINE);
        _tile_loadd(7, chunk->pairs[1] + block * A16_PAIRS, LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, sums[0][0], SUMS);
    _tile_stored(1, sums[0][1], SUMS);
}

/* 1 to 16 rows times one panel, the last one. */
static void one_by_one(const struct a16_chunk *chunk, const uint16_t *x, size_t row_bytes,
                       int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    if (first)
        _tile_zero(0);
    else
        _tile_loadd(0, sums[0][0], SUMS);
    for (size_t block = 0; block < chunk->blocks; block++, x += RF_BLOCK) {
        _tile_loadd(4, x, row_bytes);
        _tile_loadd(6, chunk->pairs[0] + block * A16_PAIRS, LINE);
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, sums[0][0], SUMS);
}

static void multiply_chunk(const struct a16_chunk *chunk, const uint16_t *x, size_t stride,
                           size_t n, int first, float (*sums)[A16_PANELS][RF_PANEL_ROWS])
{
    size_t most = chunk->panels == A16_PANELS ? 2 * SIDE : SIDE, configured = 0, rows;
    for (size_t i = 0; i < n; i += rows, x += rows * stride, sums += rows) {
        rows = n - i < most ? n - i : most;
        if (rows != configured) configure(rows);
        configured = rows;
        if (chunk->panels < A16_PANELS)
            one_by_one(chunk, x, stride * sizeof *x, first, sums);
        else if (rows > SIDE)
            two_by_two(chunk, x, stride * sizeof *x, first, sums);
        else
            one_by_two(chunk, x, stride * sizeof *x, first, sums);
    }
}

static void linear(const struct rf_linear_args *args, enum rf_format format)
{
    walk_a16(args, rf_avx512_decode_a16[format], multiply_chunk);
    _tile_release();
}

#define LINEAR(name, FORMAT, ...)                                      \
    static void linear_##name##_a16(const struct rf_linear_args *args) \
    {                                                                  \
        linear(args, RF_FORMAT_##FORMAT);                              \
    }
RF_EACH_PANEL_FORMAT(LINEAR)

void rf_amx_init_panels_a16(struct rf_kernels *kernels)
{
#define SET(name, FORMAT, ...) kernels->linear_a16[RF_FORMAT_##FORMAT] = linear_##name##_a16;
    RF_EACH_PANEL_FORMAT(SET)
#undef SET
}
