/* Takes blocks apart whose codes are points of grids, or ternary digits. The layouts are those of
 * ggml's block_iq1_s and its kin. Little-endian hosts only, as in dequant.c. */
#include "model/iq.h"

#include <string.h>

#include "base/half.h"
#include "model/grids.h"

static const uint64_t BIT = 0x0101010101010101u; /* the lowest bit of each byte */

/* Code 8 + i has the level of i with a minus. IQ1 has codes of its own among IQ2's: 4 to 6 are -1,
 * 0, 1 plus 1/8, times 8, and 12 to 14 less 1/8. */
static const int8_t iq2_levels[16] = {8, 25, 43, 0, -7, 1, 9, 0, -8, -25, -43, 0, -9, -1, 7, 0},
                    iq3_xxs_levels[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                          -4, -12, -20, -28, -36, -44, -52, -62},
                    iq3_s_levels[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                        -1, -3, -5, -7, -9, -11, -13, -15},
                    ternary_levels[16] = {-1, 0, 1, 2};

static uint32_t load16(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static uint32_t load32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static float load_f16(const uint8_t *p)
{
    return rf_f16_to_f32((uint16_t)load16(p));
}

/* Eight numbers of 2 bits to bytes. */
static uint64_t spread_2(uint64_t point)
{
    point = (point | point << 24) & 0x000000ff000000ffu;
    point = (point | point << 12) & 0x000f000f000f000fu;
    return (point | point << 6) & 0x0303030303030303u;
}

/* Four numbers of 3 bits to bytes. */
static uint64_t spread_3(uint64_t point)
{
    point = (point | point << 10) & 0x003f003fu;
    return (point | point << 5) & 0x07070707u;
}

/* Eight signs, from the lowest bit on, to bit 3 of bytes. */
static uint64_t spread_signs(uint32_t signs)
{
    return (((signs & 255) * BIT & 0x8040201008040201u) + 127 * BIT) >> 4 & 8 * BIT;
}

/* Seven signs; the eighth makes their number even. */
static uint64_t spread_even_signs(uint32_t signs)
{
    signs &= 127;
    return spread_signs(signs | (uint32_t)__builtin_parity(signs) << 7);
}

/* A scale is the file's number + 1/2; times 2. */
static uint8_t odd(uint32_t scale)
{
    return (uint8_t)(2 * scale + 1);
}

/* d; for each 32 values four numbers of points, then 28 signs and a scale. */
static void unpack_iq2_xxs(const uint8_t *block, struct rf_iq_block *out)
{
    out->d = load_f16(block) / 8;
    for (int g = 0; g < 8; g++) {
        const uint8_t *points = block + 2 + 8 * g;
        uint32_t signs = load32(points + 4);
        out->a[2 * g] = out->a[2 * g + 1] = odd(signs >> 28);
        for (int i = 0; i < 4; i++)
            out->codes[4 * g + i] =
                spread_2(rf_grid_iq2_xxs[points[i]]) | spread_even_signs(signs >> 7 * i);
    }
}

/* d; for each 8 values a number of 9 bits and seven signs; scales of 4 bits. */
static void unpack_iq2_xs(const uint8_t *block, struct rf_iq_block *out)
{
    out->d = load_f16(block) / 8;
    for (int i = 0; i < 32; i++) {
        uint32_t both = load16(block + 2 + 2 * i);
        out->codes[i] = spread_2(rf_grid_iq2_xs[both & 511]) | spread_even_signs(both >> 9);
    }
    for (int g = 0; g < 16; g++) out->a[g] = odd(block[66 + g / 2] >> g % 2 * 4 & 15u);
}

/* d; the low 8 bits of the points' numbers, signs, the upper 2 bits, scales. */
static void unpack_iq2_s(const uint8_t *block, struct rf_iq_block *out)
{
    out->d = load_f16(block) / 8;
    for (int i = 0; i < 32; i++) {
        uint32_t upper = block[66 + i / 4] >> i % 4 * 2 & 3u;
        out->codes[i] =
            spread_2(rf_grid_iq2_s[block[2 + i] | upper << 8]) | spread_signs(block[34 + i]);
    }
    for (int g = 0; g < 16; g++) out->a[g] = odd(block[74 + g / 2] >> g % 2 * 4 & 15u);
}

/* d; numbers of points; for each 32 values 28 signs and a scale. */
static void unpack_iq3_xxs(const uint8_t *block, struct rf_iq_block *out)
{
    out->d = load_f16(block) / 4;
    for (int g = 0; g < 8; g++) {
        uint32_t signs = load32(block + 66 + 4 * g);
        out->a[2 * g] = out->a[2 * g + 1] = odd(signs >> 28);
        for (int i = 0; i < 4; i++) {
            const uint8_t *points = block + 2 + 8 * g + 2 * i;
            out->codes[4 * g + i] = spread_3(rf_grid_iq3_xxs[points[0]]) |
                                    spread_3(rf_grid_iq3_xxs[points[1]]) << 32 |
                                    spread_even_signs(signs >> 7 * i);
        }
    }
}

/* d; the low 8 bits of the points' numbers, their ninth bits, signs, scales. */
static void unpack_iq3_s(const uint8_t *block, struct rf_iq_block *out)
{
    out->d = load_f16(block);
    for (int i = 0; i < 32; i++) {
        uint32_t upper = block[66 + i / 4] >> i % 4 * 2, first = block[2 + 2 * i],
                 second = block[3 + 2 * i];
        out->codes[i] = spread_3(rf_grid_iq3_s[first | (upper & 1) << 8]) |
                        spread_3(rf_grid_iq3_s[second | (upper & 2) << 7]) << 32 |
                        spread_signs(block[74 + i]);
    }
    for (int g = 0; g < 16; g++) out->a[g] = odd(block[106 + g / 4] >> g / 2 % 2 * 4 & 15u);
}

/* Eight codes of IQ1, all less 1/8 or not. */
static uint64_t iq1_codes(uint32_t number, int is_less)
{
    return spread_2(rf_grid_iq1_s[number]) + (is_less ? 12 : 4) * BIT;
}

/* d; the low 8 bits of the points' numbers; for each 32 values four times 3 bits more, a scale and
 * the sign of the 1/8. */
static void unpack_iq1_s(const uint8_t *block, struct rf_iq_block *out)
{
    out->d = load_f16(block) / 8;
    for (int g = 0; g < 8; g++) {
        uint32_t upper = load16(block + 34 + 2 * g);
        out->a[2 * g] = out->a[2 * g + 1] = odd(upper >> 12 & 7);
        for (int i = 0; i < 4; i++)
            out->codes[4 * g + i] =
                iq1_codes(block[2 + 4 * g + i] | (upper >> 3 * i & 7) << 8, (upper & 0x8000) != 0);
    }
}

/* The low 8 bits of the points' numbers; for each 3 bits more and the sign of the 1/8; four times
 * four scales of 3 bits and 4 bits of d. */
static void unpack_iq1_m(const uint8_t *block, struct rf_iq_block *out)
{
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) d |= load16(block + 48 + 2 * i) >> 12 << 4 * i;
    out->d = rf_f16_to_f32((uint16_t)d) / 8;
    for (int i = 0; i < 32; i++) {
        uint32_t upper = block[32 + i / 2] >> i % 2 * 4;
        out->codes[i] = iq1_codes(block[i] | (upper & 7) << 8, (upper & 8) != 0);
    }
    for (int g = 0; g < 16; g++) out->a[g] = odd(load16(block + 48 + g / 4 * 2) >> g % 4 * 3 & 7);
}

/* The first digits of all bytes, then the next ones. A byte is a fraction of 256: times 3 the digit
 * is in front of the point. */
static void take_digits(const uint8_t *numbers, int bytes, int digits, uint8_t *to)
{
    unsigned power = 1;
    for (int i = 0; i < digits; i++, power *= 3)
        for (int m = 0; m < bytes; m++) *to++ = (uint8_t)((uint8_t)(numbers[m] * power) * 3u >> 8);
}

/* Bytes of five digits of base 3, 32 and 16 of them; four of four; d. */
static void unpack_tq1_0(const uint8_t *block, struct rf_iq_block *out)
{
    uint8_t codes[256];
    take_digits(block, 32, 5, codes);
    take_digits(block + 32, 16, 5, codes + 160);
    take_digits(block + 48, 4, 4, codes + 240);
    memcpy(out->codes, codes, sizeof codes);
    memset(out->a, 1, sizeof out->a);
    out->d = load_f16(block + 52);
}

/* Numbers of 2 bits, as codes of Q2_K lie; d. */
static void unpack_tq2_0(const uint8_t *block, struct rf_iq_block *out)
{
    for (int i = 0; i < 32; i++) {
        uint64_t four;
        memcpy(&four, block + i / 16 * 32 + i % 4 * 8, sizeof four);
        out->codes[i] = four >> i % 16 / 4 * 2 & 3 * BIT;
    }
    memset(out->a, 1, sizeof out->a);
    out->d = load_f16(block + 64);
}

const int8_t *rf_iq_levels(enum rf_dtype dtype)
{
    switch (dtype) {
    case RF_IQ1_S:
    case RF_IQ1_M:
    case RF_IQ2_XXS:
    case RF_IQ2_XS:
    case RF_IQ2_S: return iq2_levels;
    case RF_IQ3_XXS: return iq3_xxs_levels;
    case RF_IQ3_S: return iq3_s_levels;
    case RF_TQ1_0:
    case RF_TQ2_0: return ternary_levels;
    default: return NULL;
    }
}

void rf_iq_unpack(enum rf_dtype dtype, const uint8_t *block, struct rf_iq_block *out)
{
    switch (dtype) {
    case RF_IQ1_S: unpack_iq1_s(block, out); break;
    case RF_IQ1_M: unpack_iq1_m(block, out); break;
    case RF_IQ2_XXS: unpack_iq2_xxs(block, out); break;
    case RF_IQ2_XS: unpack_iq2_xs(block, out); break;
    case RF_IQ2_S: unpack_iq2_s(block, out); break;
    case RF_IQ3_XXS: unpack_iq3_xxs(block, out); break;
    case RF_IQ3_S: unpack_iq3_s(block, out); break;
    case RF_TQ1_0: unpack_tq1_0(block, out); break;
    case RF_TQ2_0: unpack_tq2_0(block, out); break;
    default: break;
    }
}
