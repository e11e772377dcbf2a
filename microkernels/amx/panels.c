/* Weights in panels times many 8-bit or 16-bit rows with AMX tiles (tdpbf16ps).
 *
 * Codes and rows are integers that BF16 holds exactly, and F32 holds the sums of a group exactly:
 * below 2^24, whatever their order. 16-bit rows are two numbers, 256 high + low. So a group's sum
 * leaves a tile as the float that other tiers get by converting an integer, and is scaled as there,
 * to the same bits.
 *
 * A table turns a vector of codes into vectors of BF16, which are operand B: [pair][16 weights][2].
 * Few rows, which are bound by memory, are left to avx512's kernels. */
#include <immintrin.h>

#include "microkernels/amx/tier.h"
#include "microkernels/avx512/panels.h"

enum {
    SIDE = RF_AMX_SIDE,
    TILE_BYTES = 1024,
    ROW_BYTES = 64,
    BLOCKS =
        RF_SUPERBLOCK / RF_BLOCK, /* blocks of a panel that all rows are multiplied with in turn */
    LAG = 3,                      /* steps from loading a group to scaling it */
    RING = 8,                     /* more than LAG + 1, a power of 2 */
    BAND = 4,                     /* panels whose codes are kept for all rows of a prompt */
    MOST_ROWS = 256,              /* rows whose sums wait for the next chunk of k */
    PREFETCH = 4096               /* prefetch distance in bytes of codes */
};

/* ---- formats ---- */

/* Groups of a block: one of 32 values, or two of 16. */
INLINE int amx_panels_groups_of(enum rf_format format)
{
    return is_by_16(format) ? 2 : 1;
}

/* Signed codes of 8 bits are sums of two tiles: 16 upper + lower. */
INLINE int amx_parts_of(enum rf_format format)
{
    return format == RF_FORMAT_Q8_0 ? 2 : 1;
}

/* 1 if the sums of upper and lower bytes of rows do not fit 24 bits together, and so are added when
 * both have left their tiles. */
INLINE int is_apart(enum rf_format format, enum rf_operand form)
{
    return form == RF_OPERAND_A16 &&
           (format == RF_FORMAT_Q8_0 || format == RF_FORMAT_Q8_1 || format == RF_FORMAT_IQ4_NL ||
            format == RF_FORMAT_IQ4_XS || format == RF_FORMAT_IQ3_XXS);
}

INLINE size_t block_bytes_of(enum rf_operand form)
{
    return form == RF_OPERAND_A8 ? sizeof(struct rf_amx_a8) : sizeof(struct rf_amx_a16);
}

/* ---- decoding ---- */

/* BF16 of codes 0 to 31 and 32 to 63. Codes of 4 bits repeat, since the next code's lowest bit is
 * part of an index. Of Q8_0: the lower and the upper parts. */
struct tables {
    __m512i first, second;
};

INLINE __m512i amx_panels_bf16_of(__m512i low, __m512i high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_cvtepi32_ps(high), _mm512_cvtepi32_ps(low));
}

INLINE struct tables tables_of(enum rf_format format)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
            step = _mm512_set1_epi32(16), offset = _mm512_set1_epi32(layout->offset);
    struct tables tables;
    if (format == RF_FORMAT_Q8_0) {
        __m512i upper = _mm512_sub_epi32(_mm512_slli_epi32(i, 4), offset);
        tables.first = amx_panels_bf16_of(i, i);
        tables.second = amx_panels_bf16_of(upper, upper);
        return tables;
    }
    if (rf_panel_table(format))
        i = _mm512_cvtepu8_epi32(
            _mm_loadu_si128((const __m128i *)(const void *)rf_panel_table(format)));
    i = _mm512_sub_epi32(i, offset);
    if (layout->bits == 4) {
        tables.first = tables.second = amx_panels_bf16_of(i, i);
        return tables;
    }
    __m512i next = _mm512_add_epi32(i, step), third = _mm512_add_epi32(next, step);
    tables.first = amx_panels_bf16_of(i, next);
    tables.second = amx_panels_bf16_of(third, _mm512_add_epi32(third, step));
    return tables;
}

INLINE __m512i six_bits(const struct tables *tables, __m512i codes)
{
    return _mm512_permutex2var_epi16(tables->first, codes, tables->second);
}

/* The lower four bits of `codes` and the next two of `upper`. Others do not count. */
INLINE __m512i with_upper(__m512i codes, __m512i upper)
{
    return _mm512_ternarylogic_epi64(_mm512_set1_epi16(15), codes, upper, 0xca);
}

/* Two vectors of pairs of 8-bit codes: k = 4j and 4j + 2 of each weight, then 4j + 1 and 4j + 3. Of
 * Q8_0 also the upper parts. */
INLINE void decode_8(enum rf_format format, const struct tables *tables, __m512i v, __m512i *to,
                     __m512i *upper)
{
    __m512i odd = _mm512_srli_epi16(v, 8);
    if (format != RF_FORMAT_Q8_0) {
        to[0] = six_bits(tables, v);
        to[1] = six_bits(tables, odd);
        return;
    }
    to[0] = _mm512_permutexvar_epi16(v, tables->first);
    to[1] = _mm512_permutexvar_epi16(odd, tables->first);
    upper[0] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 4), tables->second);
    upper[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 12), tables->second);
}

/* Four vectors of pairs: k = 8j and 8j + 2, 8j + 1 and 8j + 3, 8j + 4 and 8j + 6, ... */
INLINE void decode_4(const struct tables *tables, __m512i v, __m512i *to)
{
    to[0] = _mm512_permutexvar_epi16(v, tables->first);
    to[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 8), tables->first);
    to[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 4), tables->first);
    to[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(v, 12), tables->first);
}

/* The same for codes of 6 bits. upper: their upper two bits, of k = 8j + t at bit 4 (j % 2) of byte
 * t, of k = 8j + 4 + t two bits higher. */
INLINE void decode_6(const struct tables *tables, __m512i v, __m512i upper, int j, __m512i *to)
{
    __m512i of[4];
    if (j % 2 == 0) {
        of[0] = _mm512_slli_epi16(upper, 4);
        of[1] = _mm512_srli_epi16(upper, 4);
        of[2] = _mm512_slli_epi16(upper, 2);
        of[3] = _mm512_srli_epi16(upper, 6);
    } else {
        of[0] = upper;
        of[1] = _mm512_srli_epi16(upper, 8);
        of[2] = _mm512_srli_epi16(upper, 2);
        of[3] = _mm512_srli_epi16(upper, 10);
    }
    to[0] = six_bits(tables, with_upper(v, of[0]));
    to[1] = six_bits(tables, with_upper(_mm512_srli_epi16(v, 8), of[1]));
    to[2] = six_bits(tables, with_upper(_mm512_srli_epi16(v, 4), of[2]));
    to[3] = six_bits(tables, with_upper(_mm512_srli_epi16(v, 12), of[3]));
}

/* A block's codes as operand B. */
INLINE void decode_codes(enum rf_format format, const struct tables *tables, const uint8_t *block,
                         __m512i *to, __m512i *upper)
{
    int bits = rf_panel_layout(format)->bits, vectors = bits == 8 ? 8 : 4;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
        __m512i v = _mm512_load_si512(block + 64 * j);
        if (bits == 8)
            decode_8(format, tables, v, to + 2 * j, upper + 2 * j);
        else if (bits == 4)
            decode_4(tables, v, to + 4 * j);
        else
            decode_6(tables, v, _mm512_load_si512(block + 256 + j / 2 * 64), j, to + 4 * j);
    }
}

/* A block of a panel, decoded. */
struct codes {
    __m512i tiles[2][TILE_BYTES / 64]; /* [part] */
    __m512 s[2], b[2];                 /* [group] */
};

/* `numbers`: of the block's unit of Q4_K. Blocks come in order. */
INLINE void amx_panels_decode_block(enum rf_format format, enum rf_operand form,
                                    const struct tables *tables, const uint8_t *panel, size_t k,
                                    size_t block, uint8_t numbers[256], struct codes *to)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t t = block % BLOCKS;
    const uint8_t *codes = panel + block * layout->block_bytes,
                  *unit = panel + k / RF_BLOCK * layout->block_bytes +
                          (is_super(format) ? block / BLOCKS : block) * layout->scale_bytes;
    for (size_t line = 0; line < layout->block_bytes; line += 64)
        _mm_prefetch((const char *)codes + PREFETCH + line, _MM_HINT_T1);
    if (format == RF_FORMAT_Q4_K && t == 0) unpack_q4k(unit, numbers);
    struct scales scales = scales_of(format, unit, t, numbers);
#pragma GCC unroll 2
    for (int g = 0; g < amx_panels_groups_of(format); g++) {
        to->s[g] = scales.s[g];
        if (!layout->has_min) continue;
        to->b[g] = scales.b[g];
        if (format == RF_FORMAT_Q8_K && form == RF_OPERAND_A16)
            to->b[g] = _mm512_mul_ps(scales.b[g], _mm512_set1_ps(-32.0f)); /* see scales_of */
    }
    decode_codes(format, tables, codes, to->tiles[0], to->tiles[1]);
}

/* ---- products ---- */

/* A group of a panel times up to 16 rows. */
struct item {
    const char *codes; /* operand B */
    const __m512 *s, *b;
    const char *x; /* operand A */
    const float *d, *d_sum;
    float (*sums)[SIDE]; /* [rows][weight], or NULL: nothing is to be done */
    size_t panel;
    int is_first, is_last; /* first, last of the groups that are added up in registers */
    int begins;            /* sums begin at 0 with this group */
};

/* Sums of a group that have left a tile: [row][weight]. */
struct products {
    _Alignas(64) float of[2][SIDE][SIDE]; /* sums of upper and of lower bytes */
};

/* Step i loads item i, multiplies the one before, stores the sums of that
 * before, and scales those of the one that is LAG behind: each operation's operands were asked for
 * a step before, since few operations on tiles overlap on some cores (docs/design/kernels.md). Even
 * and odd items have four tiles each: sums, rows, rows' lower bytes or the codes' upper parts,
 * codes.
 */
struct pipeline {
    struct item items[RING];
    struct products products[RING];
};

INLINE struct item *item_at(struct pipeline *pipeline, size_t i)
{
    return &pipeline->items[i % RING];
}

#define STAGES(parity, sum, rows, second, codes_tile)                                            \
    INLINE void load_##parity(enum rf_format format, enum rf_operand form,                       \
                              const struct item *item)                                           \
    {                                                                                            \
        _tile_loadd(rows, item->x, ROW_BYTES);                                                   \
        if (form == RF_OPERAND_A16) _tile_loadd(second, item->x + TILE_BYTES, ROW_BYTES);        \
        _tile_loadd(codes_tile, item->codes, ROW_BYTES);                                         \
        if (amx_parts_of(format) == 2) _tile_loadd(second, item->codes + TILE_BYTES, ROW_BYTES); \
    }                                                                                            \
    INLINE void multiply_##parity(enum rf_format format, enum rf_operand form)                   \
    {                                                                                            \
        _tile_zero(sum);                                                                         \
        _tile_dpbf16ps(sum, rows, codes_tile);                                                   \
        if (form == RF_OPERAND_A16) _tile_dpbf16ps(sum, second, codes_tile);                     \
        if (amx_parts_of(format) == 2) _tile_dpbf16ps(sum, rows, second);                        \
    }                                                                                            \
    INLINE void store_##parity(struct products *to)                                              \
    {                                                                                            \
        _tile_stored(sum, to->of[0], ROW_BYTES);                                                 \
    }
STAGES(even, 0, 1, 2, 3)
STAGES(odd, 4, 5, 6, 7)

/* An item with all its stages, where upper and lower bytes have sums of their own. */
INLINE void multiply_apart(enum rf_format format, const struct item *item, struct products *to)
{
    _tile_zero(0);
    _tile_zero(4);
    _tile_loadd(1, item->x, ROW_BYTES);
    _tile_loadd(2, item->x + TILE_BYTES, ROW_BYTES);
#pragma GCC unroll 2
    for (int p = 0; p < amx_parts_of(format); p++) {
        _tile_loadd(3, item->codes + p * TILE_BYTES, ROW_BYTES);
        _tile_dpbf16ps(0, 1, 3);
        _tile_dpbf16ps(4, 2, 3);
    }
    _tile_stored(0, to->of[0], ROW_BYTES);
    _tile_stored(4, to->of[1], ROW_BYTES);
}

/* Scales the sums of all rows of a tile and adds them to their accumulators. Accumulators behind
 * the last row are not used. */
INLINE void amx_panels_scale(enum rf_format format, enum rf_operand form, const struct item *item,
                             const struct products *products, __m512 *acc)
{
    if (item->is_first)
#pragma GCC unroll 16
        for (int r = 0; r < SIDE; r++)
            acc[r] = item->begins ? _mm512_setzero_ps() : _mm512_load_ps(item->sums[r]);
    __m512 s = *item->s;
#pragma GCC unroll 16
    for (int r = 0; r < SIDE; r++) {
        __m512 sum = _mm512_load_ps(products->of[0][r]);
        if (is_apart(format, form)) sum = _mm512_add_ps(sum, _mm512_load_ps(products->of[1][r]));
        acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(sum, _mm512_set1_ps(item->d[r])), s, acc[r]);
        if (rf_panel_layout(format)->has_min)
            acc[r] = _mm512_fmadd_ps(*item->b, _mm512_set1_ps(item->d_sum[r]), acc[r]);
    }
    if (item->is_last)
#pragma GCC unroll 16
        for (int r = 0; r < SIDE; r++) _mm512_store_ps(item->sums[r], acc[r]);
}

/* Step i of even or odd items. */
#define STEP(parity, other)                                                                       \
    INLINE void step_##parity(enum rf_format format, enum rf_operand form,                        \
                              struct pipeline *pipeline, size_t i, __m512 *acc)                   \
    {                                                                                             \
        const struct item *next = item_at(pipeline, i), *now = item_at(pipeline, i - 1),          \
                          *stored = item_at(pipeline, i - 2), *done = item_at(pipeline, i - LAG); \
        __asm__ volatile("" ::: "memory"); /* tiles are loaded from what was stored */            \
        if (is_apart(format, form)) {                                                             \
            if (now->sums) multiply_apart(format, now, &pipeline->products[(i - 1) % RING]);      \
        } else {                                                                                  \
            if (stored->sums) store_##parity(&pipeline->products[(i - 2) % RING]);                \
            if (now->sums) multiply_##other(format, form);                                        \
            if (next->sums) load_##parity(format, form, next);                                    \
        }                                                                                         \
        if (done->sums)                                                                           \
            amx_panels_scale(format, form, done, &pipeline->products[(i - LAG) % RING], acc);     \
    }
STEP(even, odd)
STEP(odd, even)

INLINE void step(enum rf_format format, enum rf_operand form, struct pipeline *pipeline, size_t i,
                 __m512 *acc)
{
    if (i % 2)
        step_odd(format, form, pipeline, i, acc);
    else
        step_even(format, form, pipeline, i, acc);
}

static void empty(struct pipeline *pipeline)
{
    for (size_t i = 0; i < RING; i++) pipeline->items[i].sums = NULL;
}

INLINE void amx_panels_configure(enum rf_format format, enum rf_operand form, size_t rows)
{
    size_t group = rf_panel_layout(format)->group;
    struct rf_tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        int is_sum = t % 4 == 0, is_codes = t % 4 == 3 || (t % 4 == 2 && form == RF_OPERAND_A8);
        config.rows[t] = (uint8_t)(is_codes ? group / 2 : rows);
        config.row_bytes[t] = (uint16_t)(is_codes || is_sum ? ROW_BYTES : group * sizeof(uint16_t));
    }
    _tile_loadconfig(&config);
}

/* Item i: group g of a block times the rows at x. */
INLINE struct item *put_item(enum rf_format format, enum rf_operand form, struct pipeline *pipeline,
                             size_t i, const struct codes *codes, int g, const char *x,
                             float (*sums)[SIDE])
{
    const struct rf_amx_numbers *numbers =
        (const struct rf_amx_numbers *)(x + block_bytes_of(form)) - 1;
    struct item *item = item_at(pipeline, i);
    item->codes = (const char *)codes->tiles + g * TILE_BYTES / 2;
    item->s = &codes->s[g];
    item->b = &codes->b[g];
    item->x = x + g * ROW_BYTES / 2;
    item->d = numbers->d;
    item->d_sum = amx_panels_groups_of(format) == 2 ? numbers->d_half[g] : numbers->d_sum;
    item->sums = sums;
    return item;
}

static const char *rows_at(const struct rf_linear_args *args, enum rf_operand form, size_t row)
{
    return (const char *)args->x + rf_amx_sixteens_at(form, args->k) +
           row / SIDE * (args->k / RF_BLOCK) * block_bytes_of(form);
}

static size_t amx_panel_count(const struct rf_linear_args *args)
{
    return (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
}

/* Up to 16 rows, of 16 bits: all panels from end to end. A block is decoded a step before it is
 * loaded. Behind the last one are empty steps. */
INLINE void amx_panels_few_rows(const struct rf_linear_args *args, enum rf_format format)
{
    const enum rf_operand form = RF_OPERAND_A16;
    _Alignas(64) float sums[SIDE][SIDE];
    _Alignas(64) uint8_t numbers[256];
    struct codes codes[RING];
    struct pipeline pipeline;
    struct tables tables = tables_of(format);
    __m512 acc[SIDE] = {_mm512_setzero_ps()};
    size_t blocks = args->k / RF_BLOCK, panels = amx_panel_count(args), i = RING, n = 0;
    amx_panels_configure(format, form, args->n);
    empty(&pipeline);
    for (size_t p = 0; p <= panels; p++) {
        const uint8_t *panel = (const uint8_t *)args->w + p * args->ldw;
        const char *x = rows_at(args, form, 0);
        size_t steps = p < panels ? blocks : LAG + 1;
        for (size_t block = 0; block < steps; block++, x += block_bytes_of(form), n++) {
            struct codes *to = &codes[n % RING];
            if (p < panels)
                amx_panels_decode_block(format, form, &tables, panel, args->k, block, numbers, to);
#pragma GCC unroll 2
            for (int g = 0; g < amx_panels_groups_of(format); g++, i++) {
                const struct item *done = item_at(&pipeline, i - LAG);
                struct item *item =
                    put_item(format, form, &pipeline, i + 1, to, g, x, p < panels ? sums : NULL);
                item->panel = p;
                item->is_first = block == 0 && g == 0;
                item->is_last = block == blocks - 1 && g == amx_panels_groups_of(format) - 1;
                item->begins = 1;
                step(format, form, &pipeline, i, acc);
                if (done->sums && done->is_last)
                    for (size_t a = 0; a < args->n; a++)
                        store_panel(args, done->panel, a, _mm512_load_ps(sums[a]));
            }
        }
    }
}

/* 16 rows times blocks begin .. end - 1 of a panel. Returns the next item's number. */
INLINE size_t multiply_blocks(enum rf_format format, enum rf_operand form,
                              struct pipeline *pipeline, size_t i, const struct codes *codes,
                              const char *x, size_t begin, size_t end, float (*sums)[SIDE],
                              __m512 *acc)
{
    for (size_t block = begin; block < end; block++, codes++, x += block_bytes_of(form))
#pragma GCC unroll 2
        for (int g = 0; g < amx_panels_groups_of(format); g++, i++) {
            struct item *item = put_item(format, form, pipeline, i, codes, g, x, sums);
            item->is_first = block == begin && g == 0;
            item->is_last = block == end - 1 && g == amx_panels_groups_of(format) - 1;
            item->begins = begin == 0;
            step(format, form, pipeline, i, acc);
        }
    return i;
}

/* Panels p .. p + np - 1 times rows first .. first + n - 1, n <= MOST_ROWS. 256 values of k of 16
 * rows stay in the first cache for all panels, and those of the panels in the second for all rows.
 */
INLINE void amx_panels_multiply_band(const struct rf_linear_args *args, enum rf_format format,
                                     enum rf_operand form, const struct tables *tables, size_t p,
                                     size_t np, size_t first, size_t n)
{
    _Alignas(64) float sums[BAND][MOST_ROWS][SIDE];
    _Alignas(64) uint8_t numbers[256];
    struct codes codes[BAND][BLOCKS];
    struct pipeline pipeline;
    __m512 acc[SIDE] = {_mm512_setzero_ps()};
    size_t blocks = args->k / RF_BLOCK, i = RING;
    empty(&pipeline);
    for (size_t begin = 0; begin < blocks; begin += BLOCKS) {
        size_t end = begin + BLOCKS < blocks ? begin + BLOCKS : blocks;
        for (size_t j = 0; j < np; j++)
            for (size_t block = begin; block < end; block++)
                amx_panels_decode_block(format, form, tables,
                                        (const uint8_t *)args->w + (p + j) * args->ldw, args->k,
                                        block, numbers, &codes[j][block - begin]);
        for (size_t a = 0; a < n; a += SIDE)
            for (size_t j = 0; j < np; j++)
                i = multiply_blocks(format, form, &pipeline, i, codes[j],
                                    rows_at(args, form, first + a) + begin * block_bytes_of(form),
                                    begin, end, sums[j] + a, acc);
        for (int left = 0; left < LAG; left++, i++) {
            item_at(&pipeline, i)->sums = NULL;
            step(format, form, &pipeline, i, acc);
        }
    }
    for (size_t j = 0; j < np; j++)
        for (size_t a = 0; a < n; a++)
            store_panel(args, p + j, first + a, _mm512_load_ps(sums[j][a]));
}

INLINE void amx_panels_many_rows(const struct rf_linear_args *args, enum rf_format format,
                                 enum rf_operand form)
{
    struct tables tables = tables_of(format);
    size_t panels = amx_panel_count(args);
    amx_panels_configure(format, form, SIDE);
    for (size_t i = 0; i < args->n; i += MOST_ROWS)
        for (size_t p = 0; p < panels; p += BAND)
            amx_panels_multiply_band(args, format, form, &tables, p,
                                     panels - p < BAND ? panels - p : BAND, i,
                                     args->n - i < MOST_ROWS ? args->n - i : MOST_ROWS);
}

/* At least as many rows as tier.h says. */
INLINE void amx_panels_linear(const struct rf_linear_args *args, enum rf_format format,
                              enum rf_operand form)
{
    if (args->n <= SIDE && form == RF_OPERAND_A16)
        amx_panels_few_rows(args, format);
    else
        amx_panels_many_rows(args, format, form);
    _tile_release();
}

#define LINEAR_A8(name, FORMAT, ...)                                      \
    static void amx_linear_##name##_a8(const struct rf_linear_args *args) \
    {                                                                     \
        if (args->n < RF_AMX_LEAST_A8)                                    \
            rf_avx512_linear_panels[RF_FORMAT_##FORMAT](args);            \
        else                                                              \
            amx_panels_linear(args, RF_FORMAT_##FORMAT, RF_OPERAND_A8);   \
    }
RF_EACH_PANEL_FORMAT(LINEAR_A8)

/* Q4_K and Q6_K: panels_super.c. */
#define EACH_A16(X)     \
    X(mxfp4, MXFP4)     \
    X(q4_0, Q4_0)       \
    X(q4_1, Q4_1)       \
    X(q8_0, Q8_0)       \
    X(q8_1, Q8_1)       \
    X(q8_k, Q8_K)       \
    X(iq4_nl, IQ4_NL)   \
    X(iq4_xs, IQ4_XS)   \
    X(iq2, IQ2)         \
    X(iq3_xxs, IQ3_XXS) \
    X(iq3_s, IQ3_S)
#define LINEAR_A16(name, FORMAT)                                           \
    static void amx_linear_##name##_a16(const struct rf_linear_args *args) \
    {                                                                      \
        if (args->n < RF_AMX_LEAST_A16)                                    \
            rf_avx512_linear_panels_a16[RF_FORMAT_##FORMAT](args);         \
        else                                                               \
            amx_panels_linear(args, RF_FORMAT_##FORMAT, RF_OPERAND_A16);   \
    }
EACH_A16(LINEAR_A16)

void rf_amx_init_panels(struct rf_kernels *kernels)
{
#define SET_A8(name, FORMAT, ...) kernels->linear[RF_FORMAT_##FORMAT] = amx_linear_##name##_a8;
#define SET_A16(name, FORMAT) kernels->linear_a16[RF_FORMAT_##FORMAT] = amx_linear_##name##_a16;
    RF_EACH_PANEL_FORMAT(SET_A8)
    EACH_A16(SET_A16)
#undef SET_A8
#undef SET_A16
}
