/* Quantised keys and values (QuantSpec, section 4.2): groups of RF_KV_GROUP positions, keys by
 * channel, values by token. For one KV head a code of 8 bits stands for
 *
 *     (code - 128) * scale + mid
 *
 * and its upper nibble alone for that of the code with 8 as its lower nibble. Each nibble has a
 * plane of its own, so a 4-bit reading touches half of the bytes:
 *
 *     upper: nibbles of K, nibbles of V, then, in F16, K's scales and middles [padded dim] and V's
 *            [RF_KV_GROUP];
 *     lower: nibbles of K, nibbles of V.
 *
 * Nibbles lie as operands of vpdpbusd: 16 rows are lanes of four values of k. Of K the rows are
 * positions and k is the channel, of V the rows are channels and k is the position. [row / 16][k /
 * 8][16 rows][4]: of eight values of k, a byte's low half has one of the first four, its high half
 * the value four further on. */
#ifndef RF_MICROKERNELS_KV_H
#define RF_MICROKERNELS_KV_H

#include <stddef.h>
#include <stdint.h>

enum {
    RF_KV_GROUP = 128,   /* positions with common scales */
    RF_KV_SPAN = 4,      /* groups of one call of attention; calls start at its multiples */
    RF_KV_MOST_DIM = 576 /* padded head_dim: sums of products stay below 2^31 */
};

/* Bytes of the nibbles of K, or of V; dim is padded to a multiple of 16. */
static inline size_t rf_kv_nibbles(size_t padded_dim)
{
    return RF_KV_GROUP * padded_dim / 2;
}

/* Bytes of one head's planes, multiples of 64. */
static inline size_t rf_kv_upper_bytes(size_t padded_dim)
{
    return 2 * rf_kv_nibbles(padded_dim) + 2 * (padded_dim + RF_KV_GROUP) * sizeof(uint16_t);
}

static inline size_t rf_kv_lower_bytes(size_t padded_dim)
{
    return 2 * rf_kv_nibbles(padded_dim);
}

/* The parts of one head's planes. */
struct rf_kv_group {
    const uint8_t *k_upper, *v_upper, *k_lower, *v_lower;    /* lower: NULL without */
    const uint16_t *k_scale, *k_middle, *v_scale, *v_middle; /* F16 */
};

static inline struct rf_kv_group rf_kv_group_at(const void *upper, const void *lower,
                                                size_t padded_dim)
{
    const uint8_t *up = (const uint8_t *)upper, *low = (const uint8_t *)lower;
    size_t nibbles = rf_kv_nibbles(padded_dim);
    const uint16_t *scales = (const uint16_t *)(const void *)(up + 2 * nibbles);
    return (struct rf_kv_group){.k_upper = up,
                                .v_upper = up + nibbles,
                                .k_lower = low,
                                .v_lower = low ? low + nibbles : NULL,
                                .k_scale = scales,
                                .k_middle = scales + padded_dim,
                                .v_scale = scales + 2 * padded_dim,
                                .v_middle = scales + 2 * padded_dim + RF_KV_GROUP};
}

/* Quantises a group of one head: K [RF_KV_GROUP / 16][dim][16], V [RF_KV_GROUP][padded dim], both
 * F16. The least and the greatest value of a channel or token get the codes 8 and 248, and thus the
 * first and last of the 16 steps of the upper nibble. Where one of them is no finite number, `mid`
 * is NaN. `lower` may be NULL. */
void rf_kv_quantize(void *upper, void *lower, const uint16_t *k, const uint16_t *v, size_t dim);

/* The dither that attention adds to the weight of position p, as a multiple of the rounding unit,
 * before it rounds: bit-reversed p, spread evenly over (-1/2, 1/2). Many small weights so keep
 * their sum, though each alone would be rounded to 0. */
extern const float rf_kv_dither[RF_KV_GROUP];

/* 2^x for weights, x = n + r with the nearest integer n: 2^n (1 + sum_i RF_KV_EXP2_i r^i), within
 * 3e-6 of its value and exact for integers. x is raised to the least exponent first. */
#define RF_KV_EXP2_1 0.693124175f
#define RF_KV_EXP2_2 0.240240991f
#define RF_KV_EXP2_3 0.0559064262f
#define RF_KV_EXP2_4 0.00958285294f
#define RF_KV_LEAST_EXPONENT (-125.0f)

/* The code of a row from the nibbles of K or V, which have `depth` values of k; without lower ones
 * the upper and 8. */
int rf_kv_code(const uint8_t *upper, const uint8_t *lower, size_t row, size_t k, size_t depth);
/* The value of position p in channel j of K or V. */
float rf_kv_key(const struct rf_kv_group *group, size_t p, size_t j, size_t padded_dim);
float rf_kv_value(const struct rf_kv_group *group, size_t p, size_t j);

#endif
