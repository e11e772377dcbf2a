/* Formats with a scale for a row times 8-bit rows with tiles of bytes (tdpbssd).
 *
 * A panel's vectors are a tile's rows: four values of k of 16 weight rows. They are decoded once
 * for up to PASS_ROWS rows, times the integer of their group, which stays within 8 bits. Rows of
 * activations are tiles as they are packed. All sums are exact. */
#include <immintrin.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/panels_row.h"

enum {
    SIDE = RF_AMX_SIDE,
    DEPTH = 64,      /* values of k in a tile */
    PAIR = 2,        /* panels that share the tiles of rows */
    DECODE_K = 1024, /* values of k that are decoded at once, whole groups */
    PASS_ROWS = 128, /* rows whose sums wait for the next of them, in whole tiles */
    SUM_BYTES = PAIR * SIDE * sizeof(int32_t)
};

/* A tile's rows are readable, though the last ones may be no operand's. */
static size_t amx_packed_bytes_row(size_t n, size_t k)
{
    return (n + SIDE - 1) / SIDE * SIDE * rf_a8_row_bytes(k);
}

static void amx_row_configure(void)
{
    struct rf_tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.rows[t] = SIDE;
        config.row_bytes[t] = DEPTH;
    }
    _tile_loadconfig(&config);
}

/* Codes [from, to) of k of a panel, less 8, times their groups' integers. */
INLINE void amx_row_decode(enum rf_format format, const uint8_t *panel, size_t k, size_t from,
                           size_t to, uint8_t *out)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    const uint8_t *scales = panel + k / RF_BLOCK * 256;
    int has_groups = rf_panel_layout(format)->scale_bytes > 0;
    for (size_t j = from; j < to; j += 8, out += 2 * DEPTH) {
        __m512i both = _mm512_load_si512(panel + j * 8), low = _mm512_and_si512(both, nibble),
                high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble),
                offset = _mm512_set1_epi8(8);
        __mmask64 is_negative = 0;
        if (has_groups) {
            __m512i a = _mm512_cvtepi8_epi32(_mm_load_si128(
                (const __m128i *)(const void *)(scales + j / RF_ROW_GROUP * RF_PANEL_ROWS)));
            is_negative = _mm512_movepi8_mask(_mm512_srai_epi32(a, 31));
            a = _mm512_abs_epi32(a);
            a = _mm512_or_si512(a, _mm512_slli_epi32(a, 16));
            /* Products are below 256, so two of them do not meet in a word. */
            low = _mm512_mullo_epi16(low, a);
            high = _mm512_mullo_epi16(high, a);
            offset = _mm512_or_si512(_mm512_slli_epi16(a, 3), _mm512_slli_epi16(a, 11));
        }
        low = _mm512_sub_epi8(low, offset);
        high = _mm512_sub_epi8(high, offset);
        low = _mm512_mask_sub_epi8(low, is_negative, _mm512_setzero_si512(), low);
        high = _mm512_mask_sub_epi8(high, is_negative, _mm512_setzero_si512(), high);
        _mm512_store_si512(out, low);
        _mm512_store_si512(out + DEPTH, high);
    }
}

/* 32 or 16 rows times two panels, of which the second may be the first again. */
INLINE void amx_row_tiles(const int8_t *q, size_t row_bytes, const uint8_t *first,
                          const uint8_t *second, size_t n, int32_t *sums, int is_pair)
{
    char *at = (char *)sums;
    _tile_loadd(0, at, SUM_BYTES);
    _tile_loadd(1, at + SUM_BYTES / 2, SUM_BYTES);
    if (is_pair) {
        _tile_loadd(2, at + SIDE * SUM_BYTES, SUM_BYTES);
        _tile_loadd(3, at + SIDE * SUM_BYTES + SUM_BYTES / 2, SUM_BYTES);
    }
    for (size_t j = 0; j < n; j += DEPTH) {
        _tile_loadd(4, q + j, row_bytes);
        _tile_loadd(6, first + j * SIDE, DEPTH);
        _tile_loadd(7, second + j * SIDE, DEPTH);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        if (is_pair) {
            _tile_loadd(5, q + j + SIDE * row_bytes, row_bytes);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, at, SUM_BYTES);
    _tile_stored(1, at + SUM_BYTES / 2, SUM_BYTES);
    if (is_pair) {
        _tile_stored(2, at + SIDE * SUM_BYTES, SUM_BYTES);
        _tile_stored(3, at + SIDE * SUM_BYTES + SUM_BYTES / 2, SUM_BYTES);
    }
}

static void amx_row_finish(const struct rf_linear_args *args, enum rf_format format, size_t panel,
                           size_t count, size_t i, size_t n, const int32_t *sums)
{
    size_t bytes = rf_a8_row_bytes(args->k), tail = rf_panel_tail_at(format, args->k);
    for (size_t r = 0; r < n; r++)
        for (size_t p = 0; p < count; p++) {
            const struct rf_a8_row *row =
                (const struct rf_a8_row *)(const void *)((const char *)args->x + (i + r) * bytes);
            const char *scales = (const char *)args->w + (panel + p) * args->ldw + tail;
            row_finish(args, i + r, (panel + p) * RF_PANEL_ROWS, row->d,
                       (const float *)(const void *)scales,
                       _mm512_load_si512(sums + (r * PAIR + p) * SIDE));
        }
}

/* Rows [i, i + n) times `count` panels. */
INLINE void amx_row_pass(const struct rf_linear_args *args, enum rf_format format, size_t panel,
                         size_t count, size_t i, size_t n)
{
    _Alignas(64) uint8_t decoded[PAIR][DECODE_K * SIDE];
    _Alignas(64) int32_t sums[PASS_ROWS * PAIR * SIDE];
    size_t row_bytes = rf_a8_row_bytes(args->k), k = args->k;
    const uint8_t *w = (const uint8_t *)args->w + panel * args->ldw;
    for (size_t s = 0; s < (n + SIDE - 1) / SIDE * SIDE * PAIR; s++)
        _mm512_store_si512(sums + s * SIDE, _mm512_setzero_si512());
    for (size_t from = 0, to; from < k; from = to) {
        to = from + DECODE_K < k ? from + DECODE_K : k;
        for (size_t p = 0; p < count; p++)
            amx_row_decode(format, w + p * args->ldw, k, from, to, decoded[p]);
        for (size_t r = 0; r < n; r += 2 * SIDE) {
            const struct rf_a8_row *row =
                (const struct rf_a8_row *)(const void *)((const char *)args->x +
                                                         (i + r) * row_bytes);
            const int8_t *q = rf_a8_row_codes(row, k) + from;
            int32_t *at = sums + r * PAIR * SIDE;
            if (n - r > SIDE)
                amx_row_tiles(q, row_bytes, decoded[0], decoded[count - 1], to - from, at, 1);
            else
                amx_row_tiles(q, row_bytes, decoded[0], decoded[count - 1], to - from, at, 0);
        }
    }
    amx_row_finish(args, format, panel, count, i, n, sums);
}

INLINE void amx_linear_row(const struct rf_linear_args *args, enum rf_format format)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
    if (args->n < RF_AMX_LEAST_ROW) {
        rf_avx512_linear_row[format](args);
        return;
    }
    amx_row_configure();
    for (size_t p = 0; p < panels; p += PAIR)
        for (size_t i = 0, n; i < args->n; i += n) {
            n = args->n - i < PASS_ROWS ? args->n - i : PASS_ROWS;
            amx_row_pass(args, format, p, panels - p < PAIR ? 1 : PAIR, i, n);
        }
    _tile_release();
}

#define LINEAR(name, FORMAT, ...)                                         \
    static void amx_linear_##name##_a8(const struct rf_linear_args *args) \
    {                                                                     \
        amx_linear_row(args, RF_FORMAT_##FORMAT);                         \
    }
RF_EACH_ROW_FORMAT(LINEAR)

void rf_amx_init_panels_row(struct rf_kernels *kernels)
{
    kernels->packed_bytes[RF_OPERAND_A8_ROW] = amx_packed_bytes_row;
#define SET(name, FORMAT, ...)                                    \
    kernels->linear[RF_FORMAT_##FORMAT] = amx_linear_##name##_a8; \
    kernels->linear_a16[RF_FORMAT_##FORMAT] = amx_linear_##name##_a8;
    RF_EACH_ROW_FORMAT(SET)
#undef SET
}
