/* Attention over quantised groups: products with many queries on tiles, everything else as avx512.
 * Codes are operand A, a row of a tile for each row of the block; quads of a column are operand B.
 * Sums are exact, so they are avx512's. */
enum { TOGETHER = 160, COLUMNS_ROOM = 256 * 1024 }; /* many, as decoding for tiles takes longer */

#define RF_NAMED(kernel) amx_##kernel
#include "microkernels/avx512/attention_kv_rows.h"

#include "microkernels/amx/tier.h"

enum {
    DEPTH = 64, /* values of k in a tile */
    TILE_BYTES = 64 * RF_AMX_SIDE,
    LINES = TILE_BYTES / 2 / 64 /* lines of a plane with a tile's nibbles */
};

/* Tiles 0 and 1: sums of two columns; 2: codes; 3 and 4: quads; 5 to 7 the same for the rest of
 * head_dim, fewer than DEPTH. */
static void amx_attention_kv_configure(size_t padded)
{
    struct rf_tile_config config = {.palette = 1};
    size_t left = padded % DEPTH ? padded % DEPTH : DEPTH;
    for (int t = 0; t < 8; t++) {
        config.rows[t] = RF_AMX_SIDE;
        config.row_bytes[t] = 64;
    }
    config.row_bytes[5] = (uint16_t)left;
    config.rows[6] = config.rows[7] = (uint8_t)(left / 4);
    _tile_loadconfig(&config);
}

/* Transposes 16 x 16 words. */
INLINE void kv_transpose(__m512i x[16])
{
    __m512i two[16], four[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        two[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        two[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    /* four[i + j] has word j of each quarter of x[i .. i + 4). */
    UNROLL
    for (int i = 0; i < 16; i += 4) UNROLL
    for (int j = 0; j < 2; j++) {
        four[i + 2 * j] = _mm512_unpacklo_epi64(two[i + j], two[i + j + 2]);
        four[i + 2 * j + 1] = _mm512_unpackhi_epi64(two[i + j], two[i + j + 2]);
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        enum { EVEN = 0x88, ODD = 0xdd }; /* quarters 0 and 2, 1 and 3 of both */
        __m512i low[2] = {_mm512_shuffle_i32x4(four[j], four[4 + j], EVEN),
                          _mm512_shuffle_i32x4(four[j], four[4 + j], ODD)},
                high[2] = {_mm512_shuffle_i32x4(four[8 + j], four[12 + j], EVEN),
                           _mm512_shuffle_i32x4(four[8 + j], four[12 + j], ODD)};
        x[j] = _mm512_shuffle_i32x4(low[0], high[0], EVEN);
        x[4 + j] = _mm512_shuffle_i32x4(low[1], high[1], EVEN);
        x[8 + j] = _mm512_shuffle_i32x4(low[0], high[0], ODD);
        x[12 + j] = _mm512_shuffle_i32x4(low[1], high[1], ODD);
    }
}

/* One tile of codes: `lines` of each plane, and zeros. */
INLINE void kv_decode_tile(uint8_t *codes, const uint8_t *upper, const uint8_t *lower, int lines,
                           int has_lower)
{
    __m512i x[16];
    UNROLL
    for (int i = 0; i < LINES; i++) UNROLL
    for (int half = 0; half < 2; half++)
        x[2 * i + half] = i < lines ? decode(upper + i * 64, lower + i * 64, half, has_lower)
                                    : _mm512_setzero_si512();
    kv_transpose(x);
    UNROLL
    for (int r = 0; r < 16; r++) _mm512_storeu_si512(codes + r * 64, x[r]);
}

/* codes[k / DEPTH][16][DEPTH] of a block. */
INLINE void kv_decode(uint8_t *codes, const struct planes *planes, size_t block, size_t depth,
                      int has_lower)
{
    const uint8_t *upper = planes->upper + block * depth * 8,
                  *lower = has_lower ? planes->lower + block * depth * 8 : upper;
    int lines = (int)depth / 8;
    for (; lines >= LINES; lines -= LINES, codes += TILE_BYTES) {
        kv_decode_tile(codes, upper, lower, LINES, has_lower);
        upper += LINES * 64;
        lower += LINES * 64;
    }
    if (lines) kv_decode_tile(codes, upper, lower, lines, has_lower);
}

INLINE void kv_products(const uint8_t *codes, const struct column *columns, size_t n, size_t depth,
                        int has_lower, int32_t *sums)
{
    enum { QUADS_BYTES = DEPTH / 4 * QUAD };
    const int8_t *first = columns[0].rounded, *second = columns[n - 1].rounded;
    (void)has_lower;
    _tile_zero(0);
    _tile_zero(1);
    for (; depth >= DEPTH; depth -= DEPTH, codes += TILE_BYTES) {
        _tile_loadd(2, codes, DEPTH);
        _tile_loadd(3, first, QUAD);
        _tile_dpbusd(0, 2, 3);
        if (n > 1) {
            _tile_loadd(4, second, QUAD);
            _tile_dpbusd(1, 2, 4);
        }
        first += QUADS_BYTES;
        second += QUADS_BYTES;
    }
    if (depth) {
        _tile_loadd(5, codes, DEPTH);
        _tile_loadd(6, first, QUAD);
        _tile_dpbusd(0, 5, 6);
        if (n > 1) {
            _tile_loadd(7, second, QUAD);
            _tile_dpbusd(1, 5, 7);
        }
    }
    _tile_stored(0, sums, sizeof *sums * LANES);
    if (n > 1) _tile_stored(1, sums + 16 * LANES, sizeof *sums * LANES);
}

static void amx_attention_kv_tiles(const struct rf_attention_kv_args *args)
{
    int uses_tiles = queries_in_columns(args->n_q) > 0;
    if (uses_tiles) amx_attention_kv_configure(rf_padded(args->head_dim));
    amx_attention_kv(args);
    if (uses_tiles) _tile_release();
}

void rf_amx_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = amx_attention_kv_tiles;
}
