/* Formats with a scale for a row times 8-bit rows with tiles of bytes (tdpbssd).
 *
 * A panel's vectors are a tile's rows: four values of k of 16 weight rows. They are decoded once
 * for up to PASS_ROWS rows, times the integer of their group, which stays within 8 bits. While the
 * tiles of some values of k are multiplied, the next are decoded: tiles and vectors have units of
 * their own. Rows of activations are tiles as they are packed. All sums are exact. */
#include <immintrin.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/panels_row.h"

enum {
    SIDE = RF_AMX_SIDE,
    DEPTH = 64,      /* values of k in a tile */
    PAIR = 2,        /* panels that share the tiles of rows */
    DECODE_K = 1024, /* values of k that are decoded at once, whole groups */
    STEP_K = 8,      /* values of k that a panel's vector holds */
    PASS_ROWS = 128, /* rows whose sums wait for the next of them, in whole tiles */
    AHEAD = 2,       /* tiles from one that is loaded to one that is fetched into the first cache */
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

/* Vectors of one panel after the other that are still to be decoded. */
struct amx_decoding {
    const uint8_t *panel[PAIR];
    uint8_t *out[PAIR];
    size_t k, from, to;  /* values of k of each panel */
    size_t p, at, count; /* the next: panel, value; of so many panels */
};

/* Codes [j, j + 8) of k of a panel, less 8, times their group's integers. */
INLINE void amx_row_decode(enum rf_format format, const uint8_t *panel, size_t k, size_t j,
                           uint8_t *out)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    __m512i both = _mm512_load_si512(panel + j * 8), low = _mm512_and_si512(both, nibble),
            high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble),
            offset = _mm512_set1_epi8(8);
    __mmask64 is_negative = 0;
    if (rf_panel_layout(format)->scale_bytes > 0) {
        const uint8_t *scales = panel + k / RF_BLOCK * 256;
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

/* Decodes up to `most` vectors. */
INLINE void amx_row_decode_some(struct amx_decoding *left, enum rf_format format, size_t most)
{
    for (; most > 0 && left->p < left->count; most--) {
        amx_row_decode(format, left->panel[left->p], left->k, left->at,
                       left->out[left->p] + (left->at - left->from) * SIDE);
        left->at += STEP_K;
        if (left->at < left->to) continue;
        left->at = left->from;
        left->p++;
    }
}

INLINE void amx_row_fetch(const int8_t *tile, size_t row_bytes)
{
#pragma GCC unroll 16
    for (int r = 0; r < SIDE; r++)
        _mm_prefetch((const char *)tile + (size_t)r * row_bytes, _MM_HINT_T0);
}

/* 32 or 16 rows times two panels, of which the second may be the first again. Beside each step of
 * the tiles, `each` vectors of `left` are decoded. */
INLINE void amx_row_tiles(const int8_t *q, size_t row_bytes, const uint8_t *first,
                          const uint8_t *second, size_t n, int32_t *sums, int is_pair,
                          struct amx_decoding *left, size_t each, enum rf_format format)
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
        amx_row_fetch(q + j + AHEAD * DEPTH, row_bytes);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        if (is_pair) {
            _tile_loadd(5, q + j + SIDE * row_bytes, row_bytes);
            amx_row_fetch(q + j + AHEAD * DEPTH + SIDE * row_bytes, row_bytes);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
        }
        amx_row_decode_some(left, format, each);
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

/* The values of k from `from` on that are decoded next, into `out`. */
INLINE struct amx_decoding amx_row_next(const struct rf_linear_args *args, size_t panel,
                                        size_t count, size_t from, uint8_t (*out)[DECODE_K * SIDE])
{
    struct amx_decoding next = {.k = args->k, .from = from, .at = from, .count = count};
    next.to = args->k - from > DECODE_K ? from + DECODE_K : args->k;
    if (from >= args->k) next.count = 0;
    for (size_t p = 0; p < count; p++) {
        next.panel[p] = (const uint8_t *)args->w + (panel + p) * args->ldw;
        next.out[p] = out[p];
    }
    return next;
}

/* Rows [i, i + n) times `count` panels. */
INLINE void amx_row_pass(const struct rf_linear_args *args, enum rf_format format, size_t panel,
                         size_t count, size_t i, size_t n)
{
    _Alignas(64) uint8_t decoded[2][PAIR][DECODE_K * SIDE];
    _Alignas(64) int32_t sums[PASS_ROWS * PAIR * SIDE];
    size_t row_bytes = rf_a8_row_bytes(args->k), k = args->k;
    struct amx_decoding now = amx_row_next(args, panel, count, 0, decoded[0]);
    for (size_t s = 0; s < (n + SIDE - 1) / SIDE * SIDE * PAIR; s++)
        _mm512_store_si512(sums + s * SIDE, _mm512_setzero_si512());
    amx_row_decode_some(&now, format, SIZE_MAX);
    for (size_t from = 0, to, turn = 0; from < k; from = to, turn ^= 1) {
        to = k - from > DECODE_K ? from + DECODE_K : k;
        struct amx_decoding next = amx_row_next(args, panel, count, to, decoded[turn ^ 1]);
        const uint8_t *first = decoded[turn][0], *second = decoded[turn][count - 1];
        size_t pairs = (n + 2 * SIDE - 1) / (2 * SIDE),
               each = (PAIR * DEPTH / STEP_K + pairs - 1) / pairs;
        for (size_t r = 0; r < n; r += 2 * SIDE) {
            const struct rf_a8_row *row =
                (const struct rf_a8_row *)(const void *)((const char *)args->x +
                                                         (i + r) * row_bytes);
            const int8_t *q = rf_a8_row_codes(row, k) + from;
            int32_t *at = sums + r * PAIR * SIDE;
            if (n - r > SIDE)
                amx_row_tiles(q, row_bytes, first, second, to - from, at, 1, &next, each, format);
            else
                amx_row_tiles(q, row_bytes, first, second, to - from, at, 0, &next, each, format);
        }
        amx_row_decode_some(&next, format, SIZE_MAX);
    }
    amx_row_finish(args, format, panel, count, i, n, sums);
}

/* A call's panels stay in the second cache, and so do PASS_ROWS rows: these are read once. */
INLINE void amx_linear_row(const struct rf_linear_args *args, enum rf_format format)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
    if (args->n < RF_AMX_LEAST_ROW) {
        rf_avx512_linear_row[format](args);
        return;
    }
    amx_row_configure();
    for (size_t i = 0, n; i < args->n; i += n) {
        n = args->n - i < PASS_ROWS ? args->n - i : PASS_ROWS;
        for (size_t p = 0; p < panels; p += PAIR)
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
