/* Formats with a scale for a row times 8-bit rows with one scale (kernels.h), on vectors of LANES
 * weight rows.
 *
 * The including file defines `integers`, a vector of LANES 32-bit lanes; v_load, v_store, v_and
 * (with 15), v_srl4, v_add, v_mul (the low 32 bits), v_set and v_zero; v_widen, LANES signed bytes
 * as integers; and row_finish, which converts a vector of sums and stores it. Products: v_begin
 * makes a part of a sum, v_step adds four products to each lane, and after eight of them, 32 values
 * of k, v_end makes it a sum again.
 *
 * It also defines the shape of tiles. TILE vectors of weight rows (2 panels, or 2 halves of one)
 * times up to TILE_ROWS rows decode their codes in registers; DECODED_TILE vectors times up to
 * DECODED_ROWS rows read codes that were decoded before, DECODE_K values of k of them, into the
 * first- or second-level cache. Calls of more than MOST_IN_REGISTERS rows do the latter, of
 * W4A8_ROW where DECODES_ALL is 1. PASS_ROWS rows wait with their sums for the next codes.
 * TILE_SUMS is the most sums of a tile, EACH_TILE_ROWS has all numbers of rows, EACH_FEW_ROWS those
 * that are one tile and its vectors.
 *
 * SCALED_CODES: decoded codes of W4A8_G128 are unsigned bytes, a (code - 8) + 128: sums over
 * all of k that begin with -128 times the sum of q. v_factor prepares a group's integers for
 * v_scaled, which makes these bytes. Otherwise a group of W4A8_G128 is summed with its codes as
 * they are, from -8 times the sum of its q on. Then this sum times the group's integer is added to
 * the row's. So no product exceeds what the tier's instructions sum: `vpmaddubsw` saturates beyond
 * 32767, and eight pairs of codes up to 15 reach 8 * 2 * 15 * 127 = 30480. */
#include "microkernels/panel.h"

enum {
    PER_PANEL = RF_PANEL_ROWS / LANES, /* vectors of weight rows in a panel */
    ROW_AHEAD = 4096                   /* prefetch distance in bytes of codes */
};

/* Operands of a tile: nr rows times nv vectors of weight rows, values [from, to) of k. */
struct row_tile {
    const uint8_t *codes[4], *scales[4]; /* of each vector of weight rows, from value 0 on */
    const uint8_t *decoded; /* [to - from / 4][nv][LANES * 4] codes as bytes, or NULL */
    const char *x;
    size_t row_bytes, sums_bytes;
    size_t from, to;
    int32_t *sums; /* [nr][nv][LANES] */
};

/* Hides from the compiler where a pointer points: sums that are used once a group stay in memory.
 */
INLINE int32_t *row_opaque(int32_t *memory)
{
    __asm__("" : "+r"(memory));
    return memory;
}

/* Vector v of codes as the panel has them, values 8j .. 8j + 7 of a block. */
INLINE integers row_both(const struct row_tile *tile, size_t k, int j, int v)
{
    return v_load(tile->codes[v] + k / RF_BLOCK * 256 + 64 * (size_t)j);
}

/* Codes of values 8j + 4h .. 8j + 4h + 3 of a block and vector v, decoded. */
INLINE const uint8_t *row_decoded_at(const struct row_tile *tile, size_t k, int j, int h, int v,
                                     int nv)
{
    size_t four = (k - tile->from) / 4 + 2 * (size_t)j + (size_t)h;
    return tile->decoded + (four * (size_t)nv + (size_t)v) * LANES * 4;
}

/* Adds a block of 32 values to sums. There are few registers beside the sums: codes of four values
 * are used before the next four are decoded. */
INLINE void row_block(const struct row_tile *tile, size_t k, int nr, int nv, int is_decoded,
                      integers *sums)
{
    integers parts[TILE_SUMS];
#pragma GCC unroll 24
    for (int t = 0; t < nr * nv; t++) parts[t] = v_begin(sums[t]);
#pragma GCC unroll 8
    for (int step = 0; step < 8; step++) {
        int j = step / 2, h = step % 2;
        integers codes[4];
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            if (is_decoded)
                codes[v] = v_load(row_decoded_at(tile, k, j, h, v, nv));
            else
                codes[v] = v_and(h ? v_srl4(row_both(tile, k, j, v)) : row_both(tile, k, j, v));
        }
#pragma GCC unroll 12
        for (int i = 0; i < nr; i++) {
            const int32_t *q =
                (const int32_t *)(const void *)(tile->x + (size_t)i * tile->row_bytes +
                                                sizeof(struct rf_a8_row) + tile->sums_bytes + k);
            integers four = v_set(q[step]);
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                parts[i * nv + v] = v_step(parts[i * nv + v], codes[v], four);
        }
    }
#pragma GCC unroll 24
    for (int t = 0; t < nr * nv; t++) sums[t] = v_end(sums[t], parts[t]);
}

/* A group's sums begin with -8 times the sum of its q. */
INLINE void row_start(const struct row_tile *tile, size_t group, int nr, int nv, integers *sums)
{
#pragma GCC unroll 12
    for (int i = 0; i < nr; i++) {
        const struct rf_a8_row *row =
            (const struct rf_a8_row *)(const void *)(tile->x + (size_t)i * tile->row_bytes);
        integers start = v_set(rf_a8_row_sums(row)[group / RF_ROW_GROUP]);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) sums[i * nv + v] = start;
    }
}

/* Adds a group's sums, times its integers, to those of the row. */
INLINE void row_scale(const struct row_tile *tile, size_t group, int nr, int nv,
                      const integers *sums, int32_t *kept)
{
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) {
        integers a = v_widen(tile->scales[v] + group / RF_ROW_GROUP * RF_PANEL_ROWS);
#pragma GCC unroll 12
        for (int i = 0; i < nr; i++) {
            int32_t *at = kept + (i * nv + v) * LANES;
            v_store(at, v_add(v_load(at), v_mul(sums[i * nv + v], a)));
        }
    }
}

INLINE void row_prefetch(const struct row_tile *tile, size_t k, int nv)
{
#pragma GCC unroll 4
    for (int v = 0; v < nv; v += PER_PANEL)
#pragma GCC unroll 4
        for (int line = 0; line < 4; line++)
            _mm_prefetch((const char *)tile->codes[v] + k / RF_BLOCK * 256 + ROW_AHEAD + 64 * line,
                         _MM_HINT_T1);
}

/* Whether sums are those of groups, which are scaled. */
INLINE int row_has_groups(enum rf_format format, int is_decoded)
{
    return rf_panel_layout(format)->scale_bytes > 0 && !(SCALED_CODES && is_decoded);
}

/* Adds the values [from, to) to the tile's sums. */
INLINE void row_tile(const struct row_tile *tile, enum rf_format format, int nr, int nv,
                     int is_decoded)
{
    int has_groups = row_has_groups(format, is_decoded);
    int32_t *kept = row_opaque(tile->sums);
    integers sums[TILE_SUMS];
#pragma GCC unroll 24
    for (int t = 0; t < nr * nv; t++) sums[t] = v_load(kept + t * LANES);
    for (size_t group = tile->from; group < tile->to; group += RF_ROW_GROUP) {
        size_t end = group + RF_ROW_GROUP < tile->to ? group + RF_ROW_GROUP : tile->to;
        if (has_groups) row_start(tile, group, nr, nv, sums);
        for (size_t k = group; k < end; k += RF_BLOCK) {
            if (!is_decoded) row_prefetch(tile, k, nv);
            row_block(tile, k, nr, nv, is_decoded, sums);
        }
        if (has_groups) row_scale(tile, group, nr, nv, sums, kept);
    }
    if (has_groups) return;
#pragma GCC unroll 24
    for (int t = 0; t < nr * nv; t++) v_store(kept + t * LANES, sums[t]);
}

/* Points a tile to vectors of weight rows: nv / PER_PANEL panels, `step` apart. */
INLINE void row_place(struct row_tile *tile, const struct rf_linear_args *args, size_t panel,
                      size_t step, int nv)
{
    for (int v = 0; v < nv; v++) {
        const uint8_t *at =
            (const uint8_t *)args->w + (panel + (size_t)(v / PER_PANEL) * step) * args->ldw;
        tile->codes[v] = at + (size_t)(v % PER_PANEL) * LANES * 4;
        tile->scales[v] = at + args->k / RF_BLOCK * 256 + (size_t)(v % PER_PANEL) * LANES;
    }
}

/* Sums begin with 0, or where there are no groups with -8 times the sum of q; where codes are
 * scaled, with -128 times. */
INLINE void row_begin(const struct rf_linear_args *args, enum rf_format format, size_t i, size_t nr,
                      int nv, int is_decoded, int32_t *sums)
{
    size_t bytes = rf_a8_row_bytes(args->k);
    int has_groups = row_has_groups(format, is_decoded),
        times = rf_panel_layout(format)->scale_bytes ? 16 : 1;
    for (size_t r = 0; r < nr; r++) {
        const struct rf_a8_row *row =
            (const struct rf_a8_row *)(const void *)((const char *)args->x + (i + r) * bytes);
        for (int v = 0; v < nv; v++)
            v_store(sums + (r * (size_t)nv + (size_t)v) * LANES,
                    has_groups ? v_zero() : v_set(times * row->m8));
    }
}

/* Results of the vectors of weight rows that row_place points to. */
INLINE void row_end(const struct rf_linear_args *args, enum rf_format format, size_t panel,
                    size_t step, size_t i, size_t nr, int nv, const int32_t *sums)
{
    size_t bytes = rf_a8_row_bytes(args->k), tail = rf_panel_tail_at(format, args->k);
    for (size_t r = 0; r < nr; r++) {
        const struct rf_a8_row *row =
            (const struct rf_a8_row *)(const void *)((const char *)args->x + (i + r) * bytes);
        for (int v = 0; v < nv; v++) {
            size_t of = panel + (size_t)(v / PER_PANEL) * step,
                   first = of * RF_PANEL_ROWS + (size_t)(v % PER_PANEL) * LANES;
            if (first >= args->m) continue;
            const char *scales = (const char *)args->w + of * args->ldw + tail +
                                 (size_t)(v % PER_PANEL) * LANES * sizeof(float);
            row_finish(args, i + r, first, row->d, (const float *)(const void *)scales,
                       v_load(sums + (r * (size_t)nv + (size_t)v) * LANES));
        }
    }
}

INLINE struct row_tile row_tile_of(const struct rf_linear_args *args, int32_t *sums)
{
    return (struct row_tile){.x = args->x,
                             .row_bytes = rf_a8_row_bytes(args->k),
                             .sums_bytes = rf_a8_row_sums_bytes(args->k),
                             .to = args->k,
                             .sums = sums};
}

/* All rows of the call, nr of them, with codes decoded in registers: nv vectors at once, from
 * panels that are far apart, since memory is fastest with a few long streams. */
INLINE void row_stream(const struct rf_linear_args *args, enum rf_format format, int nr, int nv)
{
    _Alignas(64) int32_t sums[TILE_SUMS * LANES];
    struct row_tile tile = row_tile_of(args, sums);
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, at_once = (size_t)nv / PER_PANEL,
           step = panels / at_once;
    for (size_t p = 0; p < step; p++) {
        row_place(&tile, args, p, step, nv);
        row_begin(args, format, 0, (size_t)nr, nv, 0, sums);
        row_tile(&tile, format, nr, nv, 0);
        row_end(args, format, p, step, 0, (size_t)nr, nv, sums);
    }
    for (size_t p = step * at_once; p < panels; p++) {
        row_place(&tile, args, p, 0, PER_PANEL);
        row_begin(args, format, 0, (size_t)nr, PER_PANEL, 0, sums);
        row_tile(&tile, format, nr, PER_PANEL, 0);
        row_end(args, format, p, 0, 0, (size_t)nr, PER_PANEL, sums);
    }
}

/* Codes [from, to) of k of a tile's vectors as bytes. */
INLINE void row_decode(const struct row_tile *tile, enum rf_format format, int nv, uint8_t *to)
{
    int is_scaled = SCALED_CODES && rf_panel_layout(format)->scale_bytes > 0;
    for (size_t group = tile->from; group < tile->to; group += RF_ROW_GROUP) {
        size_t end = group + RF_ROW_GROUP < tile->to ? group + RF_ROW_GROUP : tile->to;
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            struct row_factor factor;
            uint8_t *at = to + v * LANES * 4;
            if (is_scaled)
                factor = v_factor(tile->scales[v] + group / RF_ROW_GROUP * RF_PANEL_ROWS);
            for (size_t k = group; k < end; k += RF_BLOCK)
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++, at += 2 * nv * LANES * 4) {
                    integers both = row_both(tile, k, j, v), low = v_and(both),
                             high = v_and(v_srl4(both));
                    v_store(at, is_scaled ? v_scaled(low, &factor) : low);
                    v_store(at + nv * LANES * 4, is_scaled ? v_scaled(high, &factor) : high);
                }
        }
        to += (end - group) / 4 * (size_t)nv * LANES * 4;
    }
}

INLINE void row_any_tile(const struct row_tile *tile, enum rf_format format, size_t nr, int nv,
                         int is_decoded)
{
    switch (nr) {
#define CASE(n)                                           \
    case n:                                               \
        if (n <= (is_decoded ? DECODED_ROWS : TILE_ROWS)) \
            row_tile(tile, format, n, nv, is_decoded);    \
        break;
        EACH_TILE_ROWS(CASE)
#undef CASE
    default: break;
    }
}

#if SCALED_CODES
/* A tile of decoded codes is the same in both formats. In a function of its own gcc has registers
 * for its sums. */
static APART void RF_NAMED(row_decoded_tile)(const struct row_tile *tile, size_t nr, int nv)
{
    if (nv == DECODED_TILE)
        row_any_tile(tile, RF_FORMAT_W4A8_ROW, nr, DECODED_TILE, 1);
    else
        row_any_tile(tile, RF_FORMAT_W4A8_ROW, nr, PER_PANEL, 1);
}
#endif

/* Rows [i, i + n), at most PASS_ROWS, times some vectors of weight rows. */
INLINE void row_pass(const struct rf_linear_args *args, enum rf_format format, size_t panel, int nv,
                     size_t i, size_t n, int is_decoded)
{
    _Alignas(64) uint8_t decoded[is_decoded ? DECODE_K * DECODED_TILE * LANES : 64];
    _Alignas(64) int32_t sums[PASS_ROWS * (is_decoded ? DECODED_TILE : TILE) * LANES];
    struct row_tile tile = row_tile_of(args, sums);
    size_t most = is_decoded ? DECODED_ROWS : TILE_ROWS, tiles = (n + most - 1) / most,
           rows = (n + tiles - 1) / tiles;
    row_place(&tile, args, panel, 1, nv);
    row_begin(args, format, i, n, nv, is_decoded, sums);
    tile.decoded = decoded;
    for (; tile.from < args->k; tile.from = tile.to) {
        tile.to = tile.from + DECODE_K < args->k ? tile.from + DECODE_K : args->k;
        if (is_decoded) row_decode(&tile, format, nv, decoded);
        for (size_t r = 0; r < n; r += rows) {
            tile.x = (const char *)args->x + (i + r) * tile.row_bytes;
            tile.sums = sums + r * (size_t)nv * LANES;
            size_t nr = n - r < rows ? n - r : rows;
#if SCALED_CODES
            if (is_decoded) {
                RF_NAMED(row_decoded_tile)(&tile, nr, nv);
                continue;
            }
#endif
            row_any_tile(&tile, format, nr, nv, is_decoded);
        }
    }
    row_end(args, format, panel, 1, i, n, nv, sums);
}

INLINE void row_walk(const struct rf_linear_args *args, enum rf_format format, int is_decoded)
{
    size_t panels = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS,
           at_once = (is_decoded ? DECODED_TILE : TILE) / PER_PANEL;
    for (size_t p = 0; p < panels; p += panels - p < at_once ? 1 : at_once)
        for (size_t i = 0, n; i < args->n; i += n) {
            n = args->n - i < PASS_ROWS ? args->n - i : PASS_ROWS;
            if (panels - p >= at_once)
                row_pass(args, format, p, is_decoded ? DECODED_TILE : TILE, i, n, is_decoded);
            else
                row_pass(args, format, p, PER_PANEL, i, n, is_decoded);
        }
}

INLINE void row_many(const struct rf_linear_args *args, enum rf_format format)
{
    if (args->n > MOST_IN_REGISTERS && (DECODES_ALL || row_has_groups(format, 0)))
        row_walk(args, format, 1);
    else
        row_walk(args, format, 0);
}

#define LINEAR(name, FORMAT, ...)                                               \
    static void RF_NAMED(linear_##name##_a8)(const struct rf_linear_args *args) \
    {                                                                           \
        switch (args->n) {                                                      \
            EACH_FEW_ROWS(FORMAT)                                               \
        default: row_many(args, RF_FORMAT_##FORMAT); break;                     \
        }                                                                       \
    }
#define STREAM(n, nv, FORMAT) \
    case n: row_stream(args, RF_FORMAT_##FORMAT, n, nv); break;
RF_EACH_ROW_FORMAT(LINEAR)

static void init_panels_row(struct rf_kernels *kernels)
{
#define SET(name, FORMAT, ...)                                          \
    kernels->linear[RF_FORMAT_##FORMAT] = RF_NAMED(linear_##name##_a8); \
    kernels->linear_a16[RF_FORMAT_##FORMAT] = kernels->linear[RF_FORMAT_##FORMAT];
    RF_EACH_ROW_FORMAT(SET)
#undef SET
}
