/* How quantised weights and their 8-bit rows lie in memory: one layout for every tier, made once
 * when a model is loaded.
 *
 * Weights lie in panels of 16 rows; a panel holds all codes of its rows, then all of their scales,
 * each in the order of k:
 *
 *     panel = [k/32 blocks of codes][k/unit groups of scales][padding to 64 bytes]
 *
 * A block of codes covers 32 values of k of the 16 rows r. 4-bit codes: four 64-byte vectors j =
 * 0..3, whose byte 4r + t has in its low nibble the code of k = 8j + t and in its high nibble that
 * of k = 8j + 4 + t, t = 0..3. 6-bit codes: the low nibbles so, then two vectors h = 0, 1 with the
 * upper two bits: byte 4r + t has at bits 0, 2, 4, 6 those of k = 16h + t, + 4, + 8, + 12. 8-bit
 * codes: eight vectors j, byte 4r + t that of k = 4j + t. So a 32-bit lane is a row, and holds what
 * one instruction of the dot-product kind sums.
 *
 * The value of a code c is  s (c - offset) + b,  with a scale s and, in some formats, a minimum b
 * for each row and each group of 32 or 16 values of k; below, [16] runs over the rows of the panel:
 *
 *     format  code  offset  group  unit  scales of a unit
 *     MXFP4    4*     12     32     32   uint8 e[16]                     s = 2^(e - 127), 0 for e =
 * 0; * through a table Q4_0     4       8     32     32   F16 d[16]                       s = d
 *     Q4_1     4       0     32     32   F16 d[16], b[16]                s = d
 *     Q4_K     4       0     32    256   6-bit a[16][16] (rf_q4k_scales), F16 d[16], n[16]
 *                                                                        s = d a[group], b = n a[8
 * + group] Q6_K     6      32     16    256   int8 a[16 groups][16], F16 d[16]      s = d a Q8_0 8
 * 128     32     32   F16 d[16]                       s = d Q8_1     8       0     32     32   F16
 * d[16], b[16]                s = d Q8_K     8       0     16    256   int8 a[16][16], int8
 * m[16][16], F16 d[16], n[16]    s = d a, b = n m
 *
 * Codes of Q8_1 and Q8_K are below 64: both hold formats of fewer bits.
 * MXFP4's codes stand for the 8-bit values of rf_mxfp4_codes, which are 2 * E2M1 + 12; e is one
 * less than the file's.
 *
 * A matrix whose rows are no multiple of 16 ends with rows of zero scales. */
#ifndef RF_MICROKERNELS_PANEL_H
#define RF_MICROKERNELS_PANEL_H

#include <stddef.h>
#include <stdint.h>

enum { RF_PANEL_ROWS = 16, RF_BLOCK = 32, RF_SUPERBLOCK = 256 };

enum rf_format {
    RF_FORMAT_BF16, /* no panels: rows as the model's file has them */
    RF_FORMAT_MXFP4,
    RF_FORMAT_Q4_0,
    RF_FORMAT_Q4_1,
    RF_FORMAT_Q4_K,
    RF_FORMAT_Q6_K,
    RF_FORMAT_Q8_0,
    RF_FORMAT_Q8_1,
    RF_FORMAT_Q8_K,
    RF_FORMAT_COUNT
};

/* X(name, FORMAT) for each format of panels: what a tier says of all of them, said once. */
#define RF_EACH_PANEL_FORMAT(X)                                                         \
    X(mxfp4, MXFP4)                                                                     \
    X(q4_0, Q4_0) X(q4_1, Q4_1) X(q4_k, Q4_K) X(q6_k, Q6_K) X(q8_0, Q8_0) X(q8_1, Q8_1) \
        X(q8_k, Q8_K)

struct rf_panel_layout {
    const char *name;
    int bits;           /* of a code */
    int offset;         /* that is taken from a code */
    size_t group;       /* values of k that share a scale: 32 or 16 */
    int has_min;        /* there is a b */
    size_t block_bytes; /* codes of 32 values of k */
    size_t unit;        /* values of k whose scales lie together; k is a multiple */
    size_t scale_bytes; /* of a unit */
};

/* NULL for BF16. */
const struct rf_panel_layout *rf_panel_layout(enum rf_format format);
/* From the start of one panel to the next; a multiple of 64. */
size_t rf_panel_bytes(enum rf_format format, size_t k);

extern const uint8_t rf_mxfp4_codes[16];

/* 32 values of one row of activations in 8 bits, symmetric around zero (QSpec's and ML-SpecQD's
 * draft precision): d = max|x| / 127,  q = x / d rounded to the nearest, ties to even with what the
 * formats' offsets and minimums need of the sum of q. One cache line. */
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

/* What the values of a block are multiplied by to become codes; max: the greatest |x|. What is next
 * to nothing counts as nothing, so that 127 / max is finite; so does what is not finite. */
static inline float rf_a8_inverse(float max)
{
    return max > 0x1p-100f && max <= 3.4028234e38f ? 127.0f / max : 0.0f;
}

/* Fills in all of a block but its codes, whose halves have these sums. */
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

/* Blocks from row to row: an odd number, so that rows do not meet in the same sets of a cache. */
static inline size_t rf_a8_stride(size_t k)
{
    return k / RF_BLOCK | 1;
}

/* The 6-bit numbers a[i][r] of a Q4_K unit: number i of row r is at place p = 16 i + r of four
 * vectors of 64. The first three are the low 6 bits of the 192 bytes; the fourth is made of their
 * upper two: place p of it has its bits 0-1, 2-3 and 4-5 above those of the bytes p, 64 + p and 128
 * + p. */
static inline int rf_q4k_scale(const uint8_t packed[192], size_t i, size_t r)
{
    size_t vector = i / 4, place = i % 4 * 16 + r;
    if (vector < 3) return packed[vector * 64 + place] & 63;
    return packed[place] >> 6 | packed[64 + place] >> 6 << 2 | packed[128 + place] >> 6 << 4;
}

#endif
