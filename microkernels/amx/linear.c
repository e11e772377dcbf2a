/* BF16 weights times packed rows with AMX tiles (tdpbf16ps).
 *
 * Row-major weights are operand A as in the file: 16 weight rows of 32 values. Rows of activations
 * are packed as operand B: for 16 rows and 32 values, [16 pairs][16 rows][2]. C is 16 weights x 16
 * rows. So one row costs as much as sixteen, and weights need no packing. Each result adds its
 * products over the pairs in order, whatever else the tile holds. */
#include <immintrin.h>
#include <string.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/mask.h"

enum {
    SIDE = 16,
    DEPTH = 32,
    TILE_BYTES = 1024,
    ROW_BYTES = 64,
    AHEAD = 512,   /* prefetch distance in bytes */
    STRETCH = 16,  /* chunks of k: 32 KiB of 32 weight rows */
    MOST_PAIRS = 8 /* pairs of tiles of rows whose sums wait at a time */
};

static size_t chunks(size_t k)
{
    return (k + DEPTH - 1) / DEPTH;
}

static size_t amx_packed_bytes_bf16(size_t n, size_t k)
{
    return (n + SIDE - 1) / SIDE * chunks(k) * TILE_BYTES;
}

static void amx_pack_bf16(const struct rf_pack_args *args)
{
    size_t row = args->row, k = args->k;
    const float *x = args->x;
    char *to = (char *)args->packed + row / SIDE * chunks(k) * TILE_BYTES + row % SIDE * 4;
    __m512i places =
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(ROW_BYTES));
    for (size_t j = 0; j < k; j += DEPTH, to += TILE_BYTES) {
        __mmask16 low = rf_mask16(k - j), high = rf_mask16_high(k - j);
        __m512bh both = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + j + 16),
                                            _mm512_maskz_loadu_ps(low, x + j));
        _mm512_i32scatter_epi32(to, places, (__m512i)both, 1);
    }
}

static void amx_linear_configure(void)
{
    struct rf_tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = SIDE;
        config.row_bytes[i] = ROW_BYTES;
    }
    _tile_loadconfig(&config);
}

/* The address of a tile of weights: in place or, at the matrix's edges, a copy padded with zeros.
 */
struct source {
    const void *at;
    size_t stride;
};

static struct source weights_at(const struct rf_linear_args *args, size_t r, size_t j,
                                uint16_t copy[SIDE][DEPTH])
{
    const uint16_t *w = (const uint16_t *)args->w + r * args->ldw + j;
    size_t rows = args->m - r < SIDE ? args->m - r : SIDE,
           values = args->k - j < DEPTH ? args->k - j : DEPTH;
    if (rows == SIDE && values == DEPTH) return (struct source){w, args->ldw * sizeof *w};
    memset(copy, 0, SIDE * sizeof *copy);
    for (size_t i = 0; i < rows; i++) memcpy(copy[i], w + i * args->ldw, values * sizeof *w);
    return (struct source){copy, ROW_BYTES};
}

/* Transposes: rows[i] becomes column i. */
static void amx_linear_transpose(__m512 rows[SIDE])
{
    __m512 t[SIDE];
    for (int i = 0; i < SIDE; i += 2) {
        t[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4)
        for (int h = 0; h < 2; h++) {
            __m512d a = _mm512_castps_pd(t[i + h]), b = _mm512_castps_pd(t[i + h + 2]);
            rows[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            rows[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    /* Now rows[4g + c] holds, in its four lanes l, elements 4g .. 4g+3 of column 4l + c. */
    for (int c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_f32x4(rows[c], rows[4 + c], 0x88);
        t[4 + c] = _mm512_shuffle_f32x4(rows[c], rows[4 + c], 0xdd);
        t[8 + c] = _mm512_shuffle_f32x4(rows[8 + c], rows[12 + c], 0x88);
        t[12 + c] = _mm512_shuffle_f32x4(rows[8 + c], rows[12 + c], 0xdd);
    }
    for (int c = 0; c < 4; c++) {
        rows[c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0x88);
        rows[8 + c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0xdd);
        rows[4 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0x88);
        rows[12 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0xdd);
    }
}

/* Writes the tile of weights from r and rows from i that `tile` holds as [weight][row]. */
static void amx_linear_finish(const struct rf_linear_args *args, size_t r, size_t i,
                              float tile[SIDE][SIDE])
{
    size_t weights = args->m - r < SIDE ? args->m - r : SIDE,
           rows = args->n - i < SIDE ? args->n - i : SIDE;
    __mmask16 mask = rf_mask16(weights);
    __m512 bias = args->bias ? _mm512_maskz_loadu_ps(mask, args->bias + r) : _mm512_setzero_ps(),
           sums[SIDE];
    for (int a = 0; a < SIDE; a++) sums[a] = _mm512_load_ps(tile[a]);
    amx_linear_transpose(sums);
    for (size_t b = 0; b < rows; b++) {
        float *y = args->y + (i + b) * args->ldy + r;
        __m512 sum = sums[b];
        if (args->bias) sum = _mm512_add_ps(sum, bias);
        if (args->accumulate) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), sum);
        _mm512_mask_storeu_ps(y, mask, sum);
    }
}

/* Prefetches what sixteen weight rows need a few steps later: in these rows, or at the beginning of
 * the next sixteen. */
static void amx_linear_prefetch(const struct rf_linear_args *args, size_t r, size_t chunk)
{
    size_t at = chunk * ROW_BYTES + AHEAD, row = at < args->k * sizeof(uint16_t) ? r : r + SIDE - 1;
    const char *w = (const char *)((const uint16_t *)args->w + row * args->ldw) + at;
    for (size_t i = 0; i < SIDE; i++)
        _mm_prefetch(w + i * args->ldw * sizeof(uint16_t), _MM_HINT_T0);
}

/* One tile of weights from r times one tile of rows from i: the decoding shape. Two tiles side by
 * side would share the load of the rows, but 32 weight rows are too many streams for memory. */
static void one_by_one(const struct rf_linear_args *args, size_t r, size_t i)
{
    _Alignas(64) uint16_t copy[SIDE][DEPTH];
    _Alignas(64) float results[SIDE][SIDE];
    const char *x = (const char *)args->x + i / SIDE * chunks(args->k) * TILE_BYTES;
    _tile_zero(0);
    for (size_t c = 0; c < chunks(args->k); c++) {
        struct source weights = weights_at(args, r, c * DEPTH, copy);
        amx_linear_prefetch(args, r, c);
        _tile_loadd(6, x + c * TILE_BYTES, ROW_BYTES);
        _tile_loadd(4, weights.at, weights.stride);
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, results, ROW_BYTES);
    amx_linear_finish(args, r, i, results);
}

/* 32 whole weight rows from r times 32 rows from i (the second 16 may be fewer), chunks begin ..
 * end - 1 of k. Between stretches of k the sums are in `kept`. */
static void two_by_two(const struct rf_linear_args *args, size_t r, size_t i, size_t begin,
                       size_t end, float kept[4][SIDE][SIDE])
{
    _Alignas(64) uint16_t copy[2][SIDE][DEPTH];
    const char *x = (const char *)args->x + i / SIDE * chunks(args->k) * TILE_BYTES;
    size_t next = chunks(args->k) * TILE_BYTES;
    if (begin) {
        _tile_loadd(0, kept[0], ROW_BYTES);
        _tile_loadd(1, kept[1], ROW_BYTES);
        _tile_loadd(2, kept[2], ROW_BYTES);
        _tile_loadd(3, kept[3], ROW_BYTES);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t c = begin; c < end; c++) {
        struct source first = weights_at(args, r, c * DEPTH, copy[0]);
        struct source second = weights_at(args, r + SIDE, c * DEPTH, copy[1]);
        _tile_loadd(4, first.at, first.stride);
        _tile_loadd(6, x + c * TILE_BYTES, ROW_BYTES);
        _tile_loadd(5, second.at, second.stride);
        _tile_loadd(7, x + next + c * TILE_BYTES, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, kept[0], ROW_BYTES);
    _tile_stored(1, kept[1], ROW_BYTES);
    _tile_stored(2, kept[2], ROW_BYTES);
    _tile_stored(3, kept[3], ROW_BYTES);
    if (end < chunks(args->k)) return;
    amx_linear_finish(args, r, i, kept[0]);
    amx_linear_finish(args, r + SIDE, i, kept[1]);
    amx_linear_finish(args, r, i + SIDE, kept[2]);
    amx_linear_finish(args, r + SIDE, i + SIDE, kept[3]);
}

/* All weight rows times `pairs` times 32 rows from i: the prompt shape. A stretch of k of 32 weight
 * rows stays in the L1 cache while all rows of activations pass, so that only two of four tiles
 * come from the L2 cache. */
static void amx_linear_block(const struct rf_linear_args *args, size_t i, size_t pairs)
{
    _Alignas(64) float kept[MOST_PAIRS][4][SIDE][SIDE];
    size_t r = 0, all = chunks(args->k);
    for (; args->m - r >= 2 * SIDE; r += 2 * SIDE)
        for (size_t begin = 0; begin < all; begin += STRETCH)
            for (size_t p = 0; p < pairs; p++)
                two_by_two(args, r, i + p * 2 * SIDE, begin,
                           begin + STRETCH < all ? begin + STRETCH : all, kept[p]);
    for (; r < args->m; r += SIDE)
        for (size_t t = 0; t < 2 * pairs; t++) one_by_one(args, r, i + t * SIDE);
}

static void amx_linear_bf16(const struct rf_linear_args *args)
{
    amx_linear_configure();
    size_t i = 0, pairs = args->n / (2 * SIDE) + (args->n % (2 * SIDE) > SIDE), count;
    for (; pairs > 0; pairs -= count, i += count * 2 * SIDE) {
        count = pairs < MOST_PAIRS ? pairs : MOST_PAIRS;
        amx_linear_block(args, i, count);
    }
    if (i < args->n)
        for (size_t r = 0; r < args->m; r += SIDE) one_by_one(args, r, i);
    _tile_release();
}

void rf_kernels_init_amx(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_BF16] = amx_packed_bytes_bf16;
    kernels->pack[RF_OPERAND_BF16] = amx_pack_bf16;
    kernels->linear[RF_FORMAT_BF16] = amx_linear_bf16;
    kernels->linear_rows = 2 * SIDE;
    rf_amx_init_pack(kernels);
    rf_amx_init_panels(kernels);
    rf_amx_init_panels_super(kernels);
    rf_amx_init_panels_row(kernels);
    rf_amx_init_attention(kernels);
    rf_amx_init_attention_kv(kernels);
}
