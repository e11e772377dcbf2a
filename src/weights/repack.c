/* Repacks blocks of a file's types into panels; weights/pack.c calls it for each panel. Each
 * repack_TYPE repacks one block: its codes go to row r's 32-bit lane of every vector of a unit, its
 * scales to entry r of every list. Codes are handled in 64-bit words of eight, one in each byte.
 * src/model/dequant.c explains the bits of each type. Little-endian hosts only, as there. */
#include "weights/repack.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "model/iq.h"

_Static_assert((int)RF_W4A8_MOST_K == (int)RF_ROW_MOST_K && (int)RF_W4A8_MOST_A == (int)RF_ROW_MOST,
               "files and kernels have the same bounds");

static const uint64_t BIT = 0x0101010101010101u; /* the lowest bit of each byte */

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline void store32(uint8_t *p, uint32_t word)
{
    memcpy(p, &word, sizeof word);
}

/* ---- codes: 32 of them in four words, to a row's lane of a block ---- */

/* Eight 4-bit codes: the first four become low join_nibbles, the others high join_nibbles. */
static inline uint32_t join_nibbles(uint64_t codes)
{
    return (uint32_t)(codes | codes >> 28);
}

/* The upper two bits of sixteen 6-bit codes. */
static inline uint32_t join_upper_bits(uint64_t a, uint64_t b)
{
    return (uint32_t)(a | a >> 30 | b << 4 | b >> 26);
}

static inline void put_4bit(uint8_t *lane, const uint64_t codes[4])
{
    for (int j = 0; j < 4; j++) store32(lane + 64 * j, join_nibbles(codes[j]));
}

static inline void put_8bit(uint8_t *lane, const uint64_t codes[4])
{
    for (int j = 0; j < 4; j++) {
        store32(lane + 128 * j, (uint32_t)codes[j]);
        store32(lane + 128 * j + 64, (uint32_t)(codes[j] >> 32));
    }
}

/* ---- scales: to entry r of a list of 16 ---- */

static inline void put_scale(uint8_t *list, size_t r, const uint8_t *half)
{
    memcpy(list + 2 * r, half, 2);
}

static inline void put_negated_scale(uint8_t *list, size_t r, const uint8_t *half)
{
    list[2 * r] = half[0];
    list[2 * r + 1] = half[1] ^ 0x80;
}

/* Four bytes to four lists. */
static inline void put_in_lists(uint8_t *lists, size_t r, uint32_t four)
{
    for (size_t i = 0; i < 4; i++) lists[16 * i + r] = (uint8_t)(four >> 8 * i);
}

/* ---- blocks of 32: low join_nibbles are the first half of the values ---- */

static inline void take_nibbles(const uint8_t *q, uint64_t codes[4])
{
    uint64_t a = load64(q), b = load64(q + 8);
    codes[0] = a & 15 * BIT;
    codes[1] = b & 15 * BIT;
    codes[2] = a >> 4 & 15 * BIT;
    codes[3] = b >> 4 & 15 * BIT;
}

/* Bit i of `bits` as the lowest bit of byte i. */
static inline uint64_t spread(uint32_t bits)
{
    return (((bits & 255) * BIT & 0x8040201008040201u) + 127 * BIT) >> 7 & BIT;
}

static inline void add_fifth_bits(uint32_t bits, uint64_t codes[4])
{
    for (int j = 0; j < 4; j++) codes[j] |= spread(bits >> 8 * j) << 4;
}

/* Also IQ4_NL, whose codes are indices into rf_iq4_codes. */
static inline void repack_q4_0(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint64_t c[4];
    take_nibbles(block + 2, c);
    put_4bit(codes + 4 * r, c);
    put_scale(scales, r, block);
}

static inline void repack_q4_1(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint64_t c[4];
    take_nibbles(block + 4, c);
    put_4bit(codes + 4 * r, c);
    put_scale(scales, r, block);
    put_scale(scales, 16 + r, block + 2);
}

/* 64 codes of the types like W4A8. */
static inline void put_w4a8_codes(const uint8_t *q, uint8_t *codes, size_t r)
{
    uint64_t low[4], high[4];
    for (int j = 0; j < 4; j++) {
        uint64_t both = load64(q + 8 * j);
        low[j] = both & 15 * BIT;
        high[j] = both >> 4 & 15 * BIT;
    }
    put_4bit(codes + 4 * r, low);
    put_4bit(codes + 256 + 4 * r, high);
}

/* Makes two blocks of Q4_0 with the same scale. */
static inline void repack_w4a8(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    put_w4a8_codes(block + 2, codes, r);
    put_scale(scales, r, block);
    put_scale(scales + 32, r, block);
}

static inline void repack_w4a8_g128(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    put_w4a8_codes(block + 3, codes, r);
    put_w4a8_codes(block + 35, codes + 512, r);
    scales[r] = block[2]; /* rf_check_rows has looked at it */
}

static inline void repack_w4a8_row(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    (void)scales;
    put_w4a8_codes(block + 2, codes, r);
}

/* The scale of a row, from its first block. */
static void put_row_scale(enum rf_dtype dtype, const uint8_t *row, uint8_t *tail, size_t r)
{
    uint16_t half;
    memcpy(&half, row, sizeof half);
    float d = rf_f16_to_f32(half) * (dtype == RF_W4A8_G128 ? 0.0625f : 1.0f);
    memcpy(tail + r * sizeof d, &d, sizeof d);
}

/* Makes Q8_0: q - 16 is the code q + 112 less 128. */
static inline void repack_q5_0(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint64_t c[4];
    take_nibbles(block + 6, c);
    add_fifth_bits(load32(block + 2), c);
    for (int j = 0; j < 4; j++) c[j] += 112 * BIT;
    put_8bit(codes + 4 * r, c);
    put_scale(scales, r, block);
}

/* Makes Q8_1. */
static inline void repack_q5_1(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint64_t c[4];
    take_nibbles(block + 8, c);
    add_fifth_bits(load32(block + 4), c);
    put_8bit(codes + 4 * r, c);
    put_scale(scales, r, block);
    put_scale(scales, 16 + r, block + 2);
}

static inline void repack_q8_0(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint64_t c[4];
    for (int j = 0; j < 4; j++) c[j] = load64(block + 2 + 8 * j) ^ 128 * BIT;
    put_8bit(codes + 4 * r, c);
    put_scale(scales, r, block);
}

static inline void repack_mxfp4(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint64_t c[4];
    take_nibbles(block + 1, c);
    put_4bit(codes + 4 * r, c);
    scales[r] = (uint8_t)(block[0] - (block[0] > 0));
}

/* ---- blocks of 256 ---- */

/* The 6-bit numbers of Q4_K and Q5_K, four a word: scales 0-3, 4-7, minima 0-3, 4-7. */
static inline void take_6bit_scales(const uint8_t *packed, uint32_t a[4])
{
    uint32_t low = load32(packed), middle = load32(packed + 4), high = load32(packed + 8);
    a[0] = low & 0x3f3f3f3fu;
    a[1] = (high & 0x0f0f0f0fu) | (low >> 6 & 0x03030303u) << 4;
    a[2] = middle & 0x3f3f3f3fu;
    a[3] = (high >> 4 & 0x0f0f0f0fu) | (middle >> 6 & 0x03030303u) << 4;
}

static inline void repack_q4_k(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    for (int pair = 0; pair < 4; pair++) {
        uint64_t low[4], high[4];
        for (int j = 0; j < 4; j++) {
            uint64_t both = load64(block + 16 + 32 * pair + 8 * j);
            low[j] = both & 15 * BIT;
            high[j] = both >> 4 & 15 * BIT;
        }
        put_4bit(codes + 512 * pair + 4 * r, low);
        put_4bit(codes + 512 * pair + 256 + 4 * r, high);
    }
    uint32_t a[4];
    take_6bit_scales(block + 4, a);
    for (int v = 0; v < 3; v++)
        put_in_lists(scales + 64 * v, r, a[v] | (a[3] >> 2 * v & 0x03030303u) << 6);
    put_scale(scales + 192, r, block);
    put_negated_scale(scales + 192, 16 + r, block + 2);
}

/* 32 codes of Q6_K. Their low join_nibbles are at bit 0 or 4 of 32 bytes, their upper bits in 32
 * other bytes. */
static inline void q6_k_codes(const uint8_t *low, int low_shift, const uint8_t *high,
                              int high_shift, uint8_t *lane)
{
    uint64_t upper[4];
    for (int j = 0; j < 4; j++) {
        store32(lane + 64 * j, join_nibbles(load64(low + 8 * j) >> low_shift & 15 * BIT));
        upper[j] = load64(high + 8 * j) >> high_shift & 3 * BIT;
    }
    store32(lane + 256, join_upper_bits(upper[0], upper[1]));
    store32(lane + 320, join_upper_bits(upper[2], upper[3]));
}

static inline void repack_q6_k(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
        uint8_t *lane = codes + 4 * 384 * half + 4 * r;
        q6_k_codes(low, 0, high, 0, lane);
        q6_k_codes(low + 32, 0, high, 2, lane + 384);
        q6_k_codes(low, 4, high, 4, lane + 2 * 384);
        q6_k_codes(low + 32, 4, high, 6, lane + 3 * 384);
    }
    for (int i = 0; i < 4; i++) put_in_lists(scales + 64 * i, r, load32(block + 192 + 4 * i));
    put_scale(scales + 256, r, block + 208);
}

static inline void repack_iq4_xs(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    uint32_t upper = block[2] | (uint32_t)block[3] << 8;
    for (size_t g = 0; g < 8; g++) {
        uint64_t c[4];
        take_nibbles(block + 8 + 16 * g, c);
        put_4bit(codes + 256 * g + 4 * r, c);
        uint32_t low = block[4 + g / 2] >> g % 2 * 4 & 15u;
        scales[16 * g + r] = (uint8_t)((low | (upper >> 2 * g & 3) << 4) - 32);
    }
    put_scale(scales + 128, r, block);
}

/* Makes IQ2 with 16 groups, IQ3_XXS or IQ3_S with 8. */
static inline void repack_iq(enum rf_dtype dtype, size_t groups, const uint8_t *block,
                             uint8_t *codes, uint8_t *scales, size_t r)
{
    struct rf_iq_block taken;
    rf_iq_unpack(dtype, block, &taken);
    for (size_t b = 0; b < 8; b++) put_4bit(codes + 256 * b + 4 * r, taken.codes + 4 * b);
    for (size_t g = 0; g < groups; g++) scales[16 * g + r] = taken.a[16 / groups * g];
    memcpy(scales + 16 * groups + sizeof taken.d * r, &taken.d, sizeof taken.d);
}

/* Makes eight blocks of Q4_0: a digit less 1 is the code digit + 7 less 8. `d`: where it is. */
static inline void repack_ternary(enum rf_dtype dtype, size_t d, const uint8_t *block,
                                  uint8_t *codes, uint8_t *scales, size_t r)
{
    struct rf_iq_block taken;
    rf_iq_unpack(dtype, block, &taken);
    for (size_t b = 0; b < 8; b++) {
        for (size_t j = 4 * b; j < 4 * b + 4; j++) taken.codes[j] += 7 * BIT;
        put_4bit(codes + 256 * b + 4 * r, taken.codes + 4 * b);
        put_scale(scales + 32 * b, r, block + d);
    }
}

/* X(TYPE, FORMAT, how to repack it, its number) */
#define EACH_IQ(X)                     \
    X(IQ1_S, IQ2, repack_iq, 16)       \
    X(IQ1_M, IQ2, repack_iq, 16)       \
    X(IQ2_XXS, IQ2, repack_iq, 16)     \
    X(IQ2_XS, IQ2, repack_iq, 16)      \
    X(IQ2_S, IQ2, repack_iq, 16)       \
    X(IQ3_XXS, IQ3_XXS, repack_iq, 8)  \
    X(IQ3_S, IQ3_S, repack_iq, 8)      \
    X(TQ1_0, Q4_0, repack_ternary, 52) \
    X(TQ2_0, Q4_0, repack_ternary, 64)
#define BLOCK(TYPE, FORMAT, repack, number)                                                    \
    static void repack_##TYPE(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r) \
    {                                                                                          \
        repack(RF_##TYPE, number, block, codes, scales, r);                                    \
    }
EACH_IQ(BLOCK)
#undef BLOCK

/* Q2_K, Q3_K and Q5_K go to Q8_K: 8-bit codes, scales and minima for each 16 values. */

static inline void repack_q2_k(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    for (int b = 0; b < 8; b++) {
        uint64_t c[4];
        for (int j = 0; j < 4; j++)
            c[j] = load64(block + 16 + b / 4 * 32 + 8 * j) >> b % 4 * 2 & 3 * BIT;
        put_8bit(codes + 512 * b + 4 * r, c);
    }
    for (int i = 0; i < 4; i++) {
        uint32_t both = load32(block + 4 * i);
        put_in_lists(scales + 64 * i, r, both & 0x0f0f0f0fu);
        put_in_lists(scales + 256 + 64 * i, r, both >> 4 & 0x0f0f0f0fu);
    }
    put_scale(scales + 512, r, block + 80);
    put_negated_scale(scales + 512, 16 + r, block + 82);
}

/* A value is d a (q - 4) with a = scale - 32: the minimum is 4 a, and its scale -d. */
static inline void repack_q3_k(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    for (int b = 0; b < 8; b++) {
        uint64_t c[4];
        for (int j = 0; j < 4; j++)
            c[j] = (load64(block + 32 + b / 4 * 32 + 8 * j) >> b % 4 * 2 & 3 * BIT) |
                   (load64(block + 8 * j) >> b & BIT) << 2;
        put_8bit(codes + 512 * b + 4 * r, c);
    }
    for (size_t g = 0; g < 16; g++) {
        int low = block[96 + g % 8] >> g / 8 * 4 & 15, high = block[104 + g % 4] >> g / 4 * 2 & 3;
        int a = (low | high << 4) - 32;
        scales[16 * g + r] = (uint8_t)a;
        scales[256 + 16 * g + r] = (uint8_t)(4 * a);
    }
    put_scale(scales + 512, r, block + 108);
    put_negated_scale(scales + 512, 16 + r, block + 108);
}

static inline void repack_q5_k(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r)
{
    for (int b = 0; b < 8; b++) {
        uint64_t c[4];
        for (int j = 0; j < 4; j++)
            c[j] = (load64(block + 48 + b / 2 * 32 + 8 * j) >> b % 2 * 4 & 15 * BIT) |
                   (load64(block + 16 + 8 * j) >> b & BIT) << 4;
        put_8bit(codes + 512 * b + 4 * r, c);
    }
    uint32_t a[4];
    take_6bit_scales(block + 4, a);
    for (size_t i = 0; i < 32; i++) scales[16 * i + r] = (uint8_t)(a[i / 8] >> i / 2 % 4 * 8);
    put_scale(scales + 512, r, block);
    put_negated_scale(scales + 512, 16 + r, block + 2);
}

/* ---- panels ---- */

typedef void block_fn(const uint8_t *block, uint8_t *codes, uint8_t *scales, size_t r);

struct file_rows {
    const uint8_t *data;
    size_t bytes; /* distance of rows */
    size_t count;
    size_t units, unit_bytes;             /* units of a row; bytes of one in the file */
    size_t unit_codes_bytes, scale_bytes; /* bytes of a unit in the panel */
};

/* Goes unit by unit, so that the panel is written from front to back. Reading sixteen rows in
 * parallel makes many short streams, which hardware prefetches badly. So this function prefetches
 * the next panel's bytes, which are contiguous. Prefetching past the last panel does no harm. Each
 * case below inlines this function and its `block`. */
static inline void repack_units(const struct file_rows *rows, uint8_t *panel, block_fn *block)
{
    uint8_t *codes = panel, *scales = panel + rows->units * rows->unit_codes_bytes;
    for (size_t u = 0; u < rows->units;
         u++, codes += rows->unit_codes_bytes, scales += rows->scale_bytes) {
        const uint8_t *next = rows->data + RF_PANEL_ROWS * (rows->bytes + u * rows->unit_bytes);
        for (size_t i = 0; i < RF_PANEL_ROWS * rows->unit_bytes; i += 64)
            __builtin_prefetch(next + i);
        for (size_t r = 0; r < rows->count; r++)
            block(rows->data + r * rows->bytes + u * rows->unit_bytes, codes, scales, r);
    }
}

/* X(type, format, function): the format that holds the type's values, and the function that repacks
 * a block. */
#define EACH_TYPE(X)                          \
    X(MXFP4, MXFP4, repack_mxfp4)             \
    X(Q4_0, Q4_0, repack_q4_0)                \
    X(Q4_1, Q4_1, repack_q4_1)                \
    X(Q4_K, Q4_K, repack_q4_k)                \
    X(Q6_K, Q6_K, repack_q6_k)                \
    X(Q8_0, Q8_0, repack_q8_0)                \
    X(IQ4_NL, IQ4_NL, repack_q4_0)            \
    X(IQ4_XS, IQ4_XS, repack_iq4_xs)          \
    X(Q5_0, Q8_0, repack_q5_0)                \
    X(Q5_1, Q8_1, repack_q5_1)                \
    X(W4A8, Q4_0, repack_w4a8)                \
    X(W4A8_G128, W4A8_G128, repack_w4a8_g128) \
    X(W4A8_ROW, W4A8_ROW, repack_w4a8_row)    \
    X(Q2_K, Q8_K, repack_q2_k)                \
    X(Q3_K, Q8_K, repack_q3_k)                \
    X(Q5_K, Q8_K, repack_q5_k)

/* The float types have no row: their format is 0, RF_FORMAT_BF16. */
static const enum rf_format formats[RF_DTYPE_LIMIT] = {
#define FORMAT_OF(TYPE, FORMAT, ...) [RF_##TYPE] = RF_FORMAT_##FORMAT,
    EACH_TYPE(FORMAT_OF) EACH_IQ(FORMAT_OF)
#undef FORMAT_OF
};

enum rf_format rf_format_of(enum rf_dtype dtype)
{
    return formats[dtype];
}

void rf_repack_panel(enum rf_dtype dtype, const void *data, size_t row_bytes, size_t rows, size_t k,
                     void *panel)
{
    enum rf_format format = rf_format_of(dtype);
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    size_t unit = layout->unit > info->block_elems ? layout->unit : info->block_elems;
    assert(format != RF_FORMAT_BF16 && rows >= 1 && rows <= RF_PANEL_ROWS && k % unit == 0);
    const struct file_rows in = {.data = data,
                                 .bytes = row_bytes,
                                 .count = rows,
                                 .units = k / unit,
                                 .unit_bytes = info->block_bytes,
                                 .unit_codes_bytes = unit / RF_BLOCK * layout->block_bytes,
                                 .scale_bytes = unit / layout->unit * layout->scale_bytes};
    size_t used = in.units * (in.unit_codes_bytes + in.scale_bytes),
           bytes = rf_panel_bytes(format, k);
    if (rows < RF_PANEL_ROWS) memset(panel, 0, used);
    memset((uint8_t *)panel + used, 0, bytes - used);
    switch (dtype) {
#define FILL(TYPE, FORMAT, function) \
    case RF_##TYPE: repack_units(&in, panel, function); break;
        EACH_TYPE(FILL)
#undef FILL
#define FILL(TYPE, ...) \
    case RF_##TYPE: repack_units(&in, panel, repack_##TYPE); break;
        EACH_IQ(FILL)
#undef FILL
    default: break;
    }
    for (size_t r = 0; r < rows && rf_is_row_format(format); r++)
        put_row_scale(dtype, in.data + r * row_bytes,
                      (uint8_t *)panel + rf_panel_tail_at(format, k), r);
}

int rf_check_rows(const struct rf_tensor *tensor, struct rf_error *error)
{
    const struct rf_dtype_info *info = rf_dtype_info(tensor->dtype);
    size_t k = (size_t)tensor->ne[0], bytes = rf_dtype_bytes(tensor->dtype, k),
           rows = (size_t)rf_tensor_elements(tensor) / k;
    if (!rf_is_row_dtype(tensor->dtype)) return 0;
    for (size_t row = 0; row < rows; row++) {
        const uint8_t *first = rf_tensor_rows(tensor, row, 1, NULL);
        for (const uint8_t *at = first; at < first + bytes; at += info->block_bytes) {
            if (memcmp(at, first, sizeof(uint16_t)) != 0)
                return rf_fail(error, RF_ERR_FORMAT,
                               "tensor %s: row %zu has two scales, but those of %s have one",
                               tensor->name, row, info->name);
            int a = tensor->dtype == RF_W4A8_G128 ? (int8_t)at[2] : 1;
            if (a == 0 || abs(a) > RF_ROW_MOST)
                return rf_fail(
                    error, RF_ERR_FORMAT,
                    "tensor %s: row %zu has a group with the scale %d; possible are 1 to "
                    "%d and their negatives",
                    tensor->name, row, a, (int)RF_ROW_MOST);
        }
    }
    return 0;
}
