/* clang-format off */
/* The layout in memory of quantised weights and of activations beside them. It is the same for every
 * tier. Weights take it once, when a model is loaded.
 *
 * Weights lie in panels of 16 rows. A panel holds all codes of its rows, then all of their scales,
 * each in the order of k:
 *
 *     panel = [k/32 blocks of codes][k/unit groups of scales][tail][padding to 64 bytes]
 *
 * A block of codes covers 32 values of k of the 16 rows r. It consists of vectors of 64 bytes, in
 * which a 32-bit lane is a row and holds what one dot-product instruction sums:
 *
 *     4 bits  vectors j = 0 .. 3: byte 4r + t (t = 0 .. 3) holds the code of k = 8j + t in its low
 *             nibble and the code of k = 8j + 4 + t in its high nibble
 *     6 bits  the low four bits as above, then vectors h = 0, 1 with the upper two bits: byte
 *             4r + t holds at bits 0, 2, 4, 6 those of k = 16h + t, + 4, + 8, + 12
 *     8 bits  vectors j = 0 .. 7: byte 4r + t holds the code of k = 4j + t
 *
 * The value of a code c is  s (c - offset) + b.  Each row has a scale s, and in some formats a
 * minimum b, for each group of values of k. A unit stores these numbers; [16] runs over the rows of
 * the panel:
 *
 *     MXFP4       uint8 e[16]                                   s = 2^(e - 127), 0 for e = 0
 *     Q4_0, Q8_0, IQ4_NL
 *                 F16 d[16]                                     s = d
 *     Q4_1, Q8_1  F16 d[16], b[16]                              s = d
 *     Q4_K        6-bit a[16][16] (rf_q4k_scale), F16 d[16], n[16]
 *                                                               s = d a[group], b = n a[8 + group]
 *     Q6_K        int8 a[16 groups][16], F16 d[16]              s = d a
 *     IQ4_XS      int8 a[8 groups][16], F16 d[16]               s = d a
 *     IQ2         int8 a[16 groups][16], F32 d[16]              s = d a
 *     IQ3_XXS, IQ3_S
 *                 int8 a[8 groups][16], F32 d[16]               s = d a
 *     Q8_K        int8 a[16 groups][16], m[16 groups][16], F16 d[16], n[16]
 *                                                               s = d a, b = n m
 *     W4A8_G128     int8 a[16]; tail: F32 d[16]                   s = d a, a from -15 to 15
 *     W4A8_ROW      none; tail: F32 d[16]                         s = d
 *
 * The last two are for rows of activations with one scale: sums stay integers to the end of the row.
 * There a code less 8, times its a, is a number of 8 bits, from -120 to 120.
 *
 * Codes of Q8_1 and Q8_K are below 64: both formats hold types of fewer bits.
 * Some codes of 4 bits are indices into a table of codes (rf_panel_table). MXFP4's entries are
 * 2 * E2M1 + 12, and its e is the file's exponent minus 1. IQ4_NL and IQ4_XS have 16 levels of
 * -127 .. 113, plus 128. The other tables have magnitudes and their negatives, plus the offset: IQ2
 * those of IQ2_XXS, IQ2_XS and IQ2_S, then those of IQ1_S and IQ1_M.
 *
 * If the number of rows of a matrix is no multiple of 16, its last panel ends in rows of zero
 * scales. */
#ifndef RF_MICROKERNELS_PANEL_H
#define RF_MICROKERNELS_PANEL_H

#include <stddef.h>
#include <stdint.h>

enum { RF_PANEL_ROWS = 16, RF_BLOCK = 32, RF_SUPERBLOCK = 256 };

/* One row for each format: X(name, FORMAT, bits, offset, group, has_min, unit, scale_bytes), where
 * the numbers are fields of struct rf_panel_layout. The first list has those of CUDA devices. */
#define RF_EACH_DEVICE_PANEL_FORMAT(X) \
    X(mxfp4, MXFP4, 4, 12,  32, 0, 32,  16)  \
    X(q4_0,  Q4_0,  4, 8,   32, 0, 32,  32)  \
    X(q4_1,  Q4_1,  4, 0,   32, 1, 32,  64)  \
    X(q4_k,  Q4_K,  4, 0,   32, 1, 256, 256) \
    X(q6_k,  Q6_K,  6, 32,  16, 0, 256, 288) \
    X(q8_0,  Q8_0,  8, 128, 32, 0, 32,  32)  \
    X(q8_1,  Q8_1,  8, 0,   32, 1, 32,  64)  \
    X(q8_k,  Q8_K,  8, 0,   16, 1, 256, 576)
#define RF_EACH_PANEL_FORMAT(X) \
    RF_EACH_DEVICE_PANEL_FORMAT(X) \
    X(iq4_nl, IQ4_NL, 4, 128, 32, 0, 32,  32) \
    X(iq4_xs, IQ4_XS, 4, 128, 32, 0, 256, 160) \
    X(iq2, IQ2, 4, 64, 16, 0, 256, 320) \
    X(iq3_xxs, IQ3_XXS, 4, 128, 32, 0, 256, 192) \
    X(iq3_s, IQ3_S, 4, 128, 32, 0, 256, 192)
/* Formats with a scale for a row in their tail; the others have none. */
#define RF_EACH_ROW_FORMAT(X) \
    X(w4a8_g128, W4A8_G128, 4, 8, 128, 0, 128, 16) \
    X(w4a8_row,  W4A8_ROW,  4, 8, 64,  0, 64,  0)

enum rf_format {
    RF_FORMAT_BF16, /* no panels: rows as the model's file has them */
#define RF_ROW(name, FORMAT, ...) RF_FORMAT_##FORMAT,
    RF_EACH_PANEL_FORMAT(RF_ROW)
    RF_EACH_ROW_FORMAT(RF_ROW)
#undef RF_ROW
    RF_FORMAT_COUNT,
    RF_DEVICE_FORMAT_COUNT = RF_FORMAT_IQ4_NL,
    RF_BLOCK_FORMAT_COUNT = RF_FORMAT_W4A8_G128 /* formats of RF_EACH_PANEL_FORMAT come before it */
};

struct rf_panel_layout {
    const char *name;   /* "Q4_K" */
    int bits;           /* bits of a code */
    int offset;         /* subtracted from a code */
    size_t group;       /* values of k that share a scale */
    int has_min;        /* there is a b */
    size_t unit;        /* values of k whose scales lie together; k is a multiple */
    size_t scale_bytes; /* bytes of a unit's scales */
    size_t block_bytes; /* codes of 32 values of k of 16 rows */
};

/* Inline, so that kernels fold the traits of their format into constants. BF16 has only a name. */
static inline const struct rf_panel_layout *rf_panel_layout(enum rf_format format)
{
#define RF_ROW(name, FORMAT, bits, offset, group, has_min, unit, scale_bytes) \
    {#FORMAT, bits, offset, group, has_min, unit, scale_bytes, bits * RF_BLOCK * RF_PANEL_ROWS / 8},
    static const struct rf_panel_layout layouts[] = {{.name = "BF16"},
                                                     RF_EACH_PANEL_FORMAT(RF_ROW)
                                                     RF_EACH_ROW_FORMAT(RF_ROW)};
#undef RF_ROW
    return &layouts[format];
}
/* clang-format on */

/* 1 for a format with one scale for a row: it is multiplied by rows of struct rf_a8_row. */
static inline int rf_is_row_format(enum rf_format format)
{
    return format >= RF_BLOCK_FORMAT_COUNT;
}

enum {
    RF_ROW_GROUP = 128,    /* values of k that share an a in W4A8_G128 */
    RF_ROW_MOST = 15,      /* the greatest |a|: 8 times it is below 128 */
    RF_ROW_MOST_K = 131072 /* the longest row whose sum surely is in 32 bits: 120 * 127 * k < 2^31.
                              Parts of a sum may leave them and return, as they are modulo 2^32 */
};

/* Where the tail begins. */
static inline size_t rf_panel_tail_at(enum rf_format format, size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    return k / RF_BLOCK * layout->block_bytes + k / layout->unit * layout->scale_bytes;
}

/* From the start of one panel to the next, rounded up to a multiple of 64. */
size_t rf_panel_bytes(enum rf_format format, size_t k);

extern const uint8_t rf_mxfp4_codes[16], rf_iq4_codes[16], rf_iq2_codes[16], rf_iq3_xxs_codes[16],
    rf_iq3_s_codes[16];

/* The codes that 4 bits stand for; NULL: themselves. */
static inline const uint8_t *rf_panel_table(enum rf_format format)
{
    switch (format) {
    case RF_FORMAT_MXFP4: return rf_mxfp4_codes;
    case RF_FORMAT_IQ4_NL:
    case RF_FORMAT_IQ4_XS: return rf_iq4_codes;
    case RF_FORMAT_IQ2: return rf_iq2_codes;
    case RF_FORMAT_IQ3_XXS: return rf_iq3_xxs_codes;
    case RF_FORMAT_IQ3_S: return rf_iq3_s_codes;
    default: return NULL;
    }
}

/* 1 if the d of a unit is an F32: the file's F16 times a power of two, which F16 may not hold. */
static inline int rf_has_f32_scale(enum rf_format format)
{
    return format == RF_FORMAT_IQ2 || format == RF_FORMAT_IQ3_XXS || format == RF_FORMAT_IQ3_S;
}

/* 32 values of one row of activations in 8 bits, symmetric around zero (the draft precision of
 * QSpec and ML-SpecQD): d = max|x| / 127,  q = x / d rounded to nearest, ties to even. The other
 * fields are what the offsets and minima of the formats need of the sum of q. One cache line. */
struct rf_a8 {
    int8_t q[32];
    float d;
    float d_sum;    /* d * sum of q */
    int32_t m8;     /* -8 * sum of q */
    int32_t m12;    /* -12 * sum of q */
    int32_t m128;   /* -128 * sum of q */
    int32_t m32[2]; /* -32 * sum of each half of q */
    int32_t unused;
};

/* The factor that turns the values of a block into codes; max: the greatest |x|. It is 0 where max
 * is not finite, or so small that 127 / max would overflow. */
static inline float rf_a8_inverse(float max)
{
    return max > 0x1p-100f && max <= 3.4028234e38f ? 127.0f / max : 0.0f;
}

/* Fills in everything but the codes. sum0 and sum1: the sums of the two halves of the codes. */
static inline void rf_a8_complete(struct rf_a8 *block, float max, int32_t sum0, int32_t sum1)
{
    int32_t sum = sum0 + sum1;
    block->d = max > 0x1p-100f ? max / 127.0f : 0.0f;
    block->d_sum = block->d * (float)sum;
    block->m8 = -8 * sum;
    block->m12 = -12 * sum;
    block->m128 = -128 * sum;
    block->m32[0] = -32 * sum0;
    block->m32[1] = -32 * sum1;
    block->unused = 0;
}

/* The first value of the integer sum over a group of 32, or over half `half` of the block where
 * groups have 16 values: -offset times the sum of q. The offsets are those of the formats above. */
static inline int32_t rf_a8_start(const struct rf_a8 *block, int offset, int half)
{
    switch (offset) {
    case 8: return block->m8;
    case 12: return block->m12;
    case 32: return block->m32[half];
    case 64: return 2 * block->m32[half];
    case 128: return block->m128;
    default: return 0;
    }
}

/* A row of activations in 8 bits with one scale, d = max|x| / 127, and q as in struct rf_a8: this
 * head, then int32 m8[k / 128, rounded up], each -8 * the sum of 128 q, then q[k]; each part is
 * padded to 64 bytes. */
struct rf_a8_row {
    float d;
    int32_t m8; /* the sum of all m8 */
    int32_t unused[14];
};

static inline size_t rf_a8_row_sums_bytes(size_t k)
{
    return ((k + RF_ROW_GROUP - 1) / RF_ROW_GROUP * sizeof(int32_t) + 63) & ~(size_t)63;
}

static inline int32_t *rf_a8_row_sums(const struct rf_a8_row *row)
{
    return (int32_t *)(void *)(row + 1);
}

static inline int8_t *rf_a8_row_codes(const struct rf_a8_row *row, size_t k)
{
    return (int8_t *)(void *)(row + 1) + rf_a8_row_sums_bytes(k);
}

/* Bytes from row to row: an odd number of lines. */
static inline size_t rf_a8_row_bytes(size_t k)
{
    size_t bytes = sizeof(struct rf_a8_row) + rf_a8_row_sums_bytes(k) + ((k + 63) & ~(size_t)63);
    return bytes | 64;
}

/* 32 values of one row of activations in 16 bits: integers of 15 bits whose unit is a power of two
 * (the verifying precision of QSpec),  2^13 d <= max|x| < 2^14 d,  q = x / d rounded to nearest,
 * ties to even. All q and d are 0 where max|x| is not finite, or 2^-100 or less. */
struct rf_a16 {
    int16_t q[32]; /* each four k in the order 0, 2, 1, 3, in which codes of 4 bits come apart */
    float d;
    float d_sum;     /* d * sum of q */
    float d_half[2]; /* d * sum of each half of q */
    int32_t sum[2];  /* sum of each half of q */
};

/* The same where codes are multiplied as bytes (avx512). */
struct rf_a16_split {
    int8_t high[32], low[32]; /* q = 256 high + low, each in the order of k */
    float d, d_sum, d_half[2];
    int32_t sum[2]; /* sum of each half of q */
};

/* The same of a superblock, with one unit. */
struct rf_a16_super {
    int16_t q[RF_SUPERBLOCK]; /* order: that of rf_a16.q */
    struct rf_a16_super_numbers {
        float d;
        float d_sum[RF_SUPERBLOCK / RF_BLOCK]; /* d * sum of each 32 q */
        float unused[7];
    } numbers;
};

/* Sets a block's unit and returns the factor that turns its values into integers. max: the greatest
 * |x|. */
static inline float rf_a16_begin(float *d, float max)
{
    union {
        float value;
        uint32_t bits;
    } unit = {max}, inverse = {0.0f};
    *d = 0.0f;
    if (!(max > 0x1p-100f && max <= 3.4028234e38f)) return 0.0f;
    uint32_t exponent = (unit.bits >> 23) - 13;
    unit.bits = exponent << 23;
    inverse.bits = (254 - exponent) << 23;
    *d = unit.value;
    return inverse.value;
}

/* Fills in the sums. */
static inline void rf_a16_complete(struct rf_a16 *block, int32_t sum0, int32_t sum1)
{
    block->sum[0] = sum0;
    block->sum[1] = sum1;
    block->d_half[0] = block->d * (float)sum0;
    block->d_half[1] = block->d * (float)sum1;
    block->d_sum = block->d * (float)(sum0 + sum1);
}

/* Blocks from row to row. The number is odd, so that rows fall into different sets of a cache. */
static inline size_t rf_a8_stride(size_t k)
{
    return k / RF_BLOCK | 1;
}

static inline size_t rf_a16_stride(size_t k)
{
    return k / RF_BLOCK | 1;
}

/* Superblocks from row to row. */
static inline size_t rf_a16_supers(size_t k)
{
    return k / RF_SUPERBLOCK;
}

/* The 6-bit number a[i][r] of a Q4_K unit. Number i of row r is at place p = 16 i + r of four
 * vectors of 64 numbers. The first three vectors are the low 6 bits of the 192 bytes. The fourth
 * consists of the upper 2 bits: bits 0-1 of its place p come from byte p, bits 2-3 from byte 64 +
 * p, bits 4-5 from byte 128 + p. */
static inline int rf_q4k_scale(const uint8_t packed[192], size_t i, size_t r)
{
    size_t vector = i / 4, place = i % 4 * 16 + r;
    if (vector < 3) return packed[vector * 64 + place] & 63;
    return packed[place] >> 6 | packed[64 + place] >> 6 << 2 | packed[128 + place] >> 6 << 4;
}

#endif
