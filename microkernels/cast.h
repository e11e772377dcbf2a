/* Casts weights to blocks of fewer bits, as in a GGUF file. Every tier compiles this source for its
 * own vectors, and defines RF_NAMED(kernel), which puts the tier in front of a kernel's name. The
 * bits are the same on all tiers, because every sum runs in the order written here.
 *
 * Sixteen blocks of 32 values are cast side by side: value j of block l is t[j][l]. So a block is a
 * lane, no sum crosses lanes, and each inner loop over l is a few vector operations. A loop holds
 * at most one comparison: with a second one that depends on the first, gcc sees control flow and
 * does not vectorise the loop. */
#ifndef RF_MICROKERNELS_CAST_H
#define RF_MICROKERNELS_CAST_H

#include <string.h>

#include "base/half.h"
#include "microkernels/kernels.h"

enum {
    CAST_LANES = 16,
    CAST_BLOCK = 32,
    CAST_BATCH = CAST_LANES * CAST_BLOCK,
    CAST_SUPERBLOCK = 256,
    CAST_GROUPS = CAST_SUPERBLOCK / CAST_BLOCK, /* lanes of a superblock */
    CAST_MAGIC = 0x4b400000, /* bits of 1.5 * 2^23: adding it rounds to an integer, ties to even */
    CAST_SUM_STEP = 4 /* values summed in registers before they are added to the sums in memory */
};

/* Scales are F16, at most 65504. */
#define CAST_LIMIT 0x1p17f
/* Lower bound of divisors; smaller than any block's that has a scale. */
#define CAST_TINY 0x1p-60f

typedef float cast_values[CAST_BLOCK][CAST_LANES];
typedef int32_t cast_codes[CAST_BLOCK][CAST_LANES];
typedef float cast_lanes[CAST_LANES];

static inline float cast_greater(float a, float b)
{
    return a > b ? a : b;
}

static inline float cast_lesser(float a, float b)
{
    return a < b ? a : b;
}

static inline float cast_magnitude(float x)
{
    return rf_bits_float(rf_float_bits(x) & 0x7fffffffu);
}

static inline void cast_at_least(cast_lanes x, float least)
{
    for (size_t l = 0; l < CAST_LANES; l++) x[l] = cast_greater(x[l], least);
}

/* 1 / scale; finite for a scale of 0. */
static inline void cast_invert(cast_lanes inverse, const cast_lanes scale)
{
    for (size_t l = 0; l < CAST_LANES; l++) inverse[l] = cast_greater(scale[l], CAST_TINY);
    for (size_t l = 0; l < CAST_LANES; l++) inverse[l] = 1.0f / inverse[l];
}

/* Limits the magnitude to `limit`; a NaN becomes 0. */
static inline void cast_take(cast_values t, const float *x, float limit)
{
    float y[CAST_BATCH];
    for (size_t i = 0; i < CAST_BATCH; i++) y[i] = x[i] == x[i] ? x[i] : 0.0f;
    for (size_t i = 0; i < CAST_BATCH; i++) y[i] = cast_lesser(y[i], limit);
    for (size_t i = 0; i < CAST_BATCH; i++) y[i] = cast_greater(y[i], -limit);
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++) t[j][l] = y[l * CAST_BLOCK + j];
}

/* v rounded to an integer from 0 to `top`, as bits above CAST_MAGIC. These integers compare as the
 * floats do. */
static inline int32_t cast_code_bits(float v, int32_t top)
{
    int32_t bits = (int32_t)rf_float_bits(v + 0x1.8p23f), last = CAST_MAGIC + top;
    bits = bits > CAST_MAGIC ? bits : CAST_MAGIC;
    return bits < last ? bits : last;
}

static inline float cast_code(float v, int32_t top)
{
    return rf_bits_float((uint32_t)cast_code_bits(v, top)) - 0x1.8p23f;
}

/* Writes blocks whose byte i holds the code of value i in its low half and that of value 16 + i in
 * its high half. `out`: the first block's codes. */
static inline void cast_put_nibbles(uint8_t *out, size_t block_bytes, cast_codes c)
{
    uint32_t words[4][CAST_LANES];
    for (size_t i = 0; i < 4; i++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            int32_t word = 0;
            for (size_t b = 0; b < 3; b++)
                word |= (c[4 * i + b][l] | c[16 + 4 * i + b][l] << 4) << 8 * b;
            words[i][l] = (uint32_t)word | (uint32_t)(c[4 * i + 3][l] | c[16 + 4 * i + 3][l] << 4)
                                               << 24;
        }
    for (size_t l = 0; l < CAST_LANES; l++)
        for (size_t i = 0; i < 4; i++) memcpy(out + l * block_bytes + 4 * i, &words[i][l], 4);
}

/* Codes 4 i to 4 i + 3 of a lane become the bytes of its word i. */
static inline void cast_pack_bytes(uint32_t words[8][CAST_LANES], cast_codes c)
{
    for (size_t i = 0; i < 8; i++)
        for (size_t l = 0; l < CAST_LANES; l++)
            words[i][l] = (uint32_t)(c[4 * i][l] | c[4 * i + 1][l] << 8 | c[4 * i + 2][l] << 16 |
                                     c[4 * i + 3][l] << 24);
}

/* ---- MXFP4: E2M1 codes, a power of two for each block (OCP Microscaling Formats 1.0) ---- */

/* The bits of the power of two of which E2M1's numbers around a are half apart; below 1, as at 1.
 */
static inline int32_t cast_e2m1_unit(float a)
{
    int32_t bits = (int32_t)(rf_float_bits(a) & 0x7f800000u);
    return bits > 0x3f800000 ? bits : 0x3f800000;
}

/* 1.5 * 2^22 times that power of two. Adding it to a rounds a to E2M1, ties to even. */
static inline int32_t cast_e2m1_magic(int32_t unit)
{
    return unit + 0x0b400000;
}

/* The squared rounding error, in units of the scale. */
static inline void cast_mxfp4_error(cast_lanes error, cast_values t, const cast_lanes inverse)
{
    for (size_t l = 0; l < CAST_LANES; l++) error[l] = 0.0f;
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            float a = cast_magnitude(t[j][l]) * inverse[l];
            float magic = rf_bits_float((uint32_t)cast_e2m1_magic(cast_e2m1_unit(a)));
            float off = a - cast_lesser((a + magic) - magic, 6.0f);
            error[l] += off * off;
        }
}

static inline void cast_mxfp4_codes(cast_codes c, cast_values t, const cast_lanes inverse)
{
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            uint32_t bits = rf_float_bits(t[j][l]);
            float a = cast_magnitude(t[j][l]) * inverse[l];
            int32_t unit = cast_e2m1_unit(a), magic = cast_e2m1_magic(unit);
            int32_t n = (int32_t)rf_float_bits(a + rf_bits_float((uint32_t)magic)) - magic +
                        (unit >> 22) - 2 * 127;
            n = n < 7 ? n : 7;
            c[j][l] = n | (int32_t)(bits >> 28 & 8);
        }
}

/* The scale 2^(floor(log2 max) - 2) or, if `best`, twice that where it leaves less squared error.
 * The maximum is then between 2 and 4 instead of 4 and 8, where values above 6 are cut off. */
static inline void cast_mxfp4_batch(uint8_t *out, const float *x, int best)
{
    cast_values t;
    cast_codes c;
    cast_lanes inverse, half, error, half_error;
    int32_t exponent[CAST_LANES], none[CAST_LANES];
    cast_take(t, x, 0x1.8p127f); /* so that both scales are finite */
    for (size_t l = 0; l < CAST_LANES; l++) exponent[l] = 0;
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            int32_t magnitude = (int32_t)(rf_float_bits(t[j][l]) & 0x7fffffffu);
            exponent[l] = magnitude > exponent[l] ? magnitude : exponent[l];
        }
    /* Blocks of tiny values become zero. */
    for (size_t l = 0; l < CAST_LANES; l++) {
        none[l] = exponent[l] >> 23 < 8 ? -1 : 0;
        exponent[l] = (exponent[l] >> 23) - 2;
        inverse[l] = rf_bits_float((uint32_t)(254 - exponent[l]) << 23 & (uint32_t)~none[l]);
        half[l] = 0.5f * inverse[l];
    }
    if (best) {
        cast_mxfp4_error(error, t, inverse);
        cast_mxfp4_error(half_error, t, half);
        for (size_t l = 0; l < CAST_LANES; l++) exponent[l] += 4.0f * half_error[l] < error[l];
        for (size_t l = 0; l < CAST_LANES; l++)
            inverse[l] = 4.0f * half_error[l] < error[l] ? half[l] : inverse[l];
    }
    cast_mxfp4_codes(c, t, inverse);
    for (size_t l = 0; l < CAST_LANES; l++) out[17 * l] = (uint8_t)(exponent[l] & ~none[l]);
    cast_put_nibbles(out + 1, 17, c);
}

static void RF_NAMED(cast_mxfp4_floor_16)(uint8_t *out, const float *x)
{
    cast_mxfp4_batch(out, x, 0);
}

static void RF_NAMED(cast_mxfp4_best_16)(uint8_t *out, const float *x)
{
    cast_mxfp4_batch(out, x, 1);
}

/* ---- affine grids: x = scale * code + minimum, codes 0 to 15 ---- */

/* Sums over the values' codes q on a grid: of q, q^2 and x q. */
struct cast_sums {
    cast_lanes q, qq, xq;
};

static inline void cast_sum(struct cast_sums *sums, cast_values t, const cast_lanes inverse,
                            const cast_lanes minimum)
{
    cast_lanes sum_q, sum_qq, sum_xq;
    for (size_t l = 0; l < CAST_LANES; l++) sum_q[l] = sum_qq[l] = sum_xq[l] = 0.0f;
    for (size_t j = 0; j < CAST_BLOCK; j += CAST_SUM_STEP)
        for (size_t l = 0; l < CAST_LANES; l++) {
            float q = sum_q[l], qq = sum_qq[l], xq = sum_xq[l];
            for (size_t i = 0; i < CAST_SUM_STEP; i++) {
                float v = cast_code((t[j + i][l] - minimum[l]) * inverse[l], 15);
                q += v;
                qq += v * v;
                xq += t[j + i][l] * v;
            }
            sum_q[l] = q;
            sum_qq[l] = qq;
            sum_xq[l] = xq;
        }
    for (size_t l = 0; l < CAST_LANES; l++) sums->q[l] = sum_q[l];
    for (size_t l = 0; l < CAST_LANES; l++) sums->qq[l] = sum_qq[l];
    for (size_t l = 0; l < CAST_LANES; l++) sums->xq[l] = sum_xq[l];
}

/* The best grid so far. `gain` is the sum of squares that it explains. */
struct cast_fit {
    cast_lanes scale, minimum, gain;
    cast_lanes sum; /* sum of x */
};

/* Fits a grid by least squares to the codes that the values have on the given grid, and keeps it
 * where it explains more. Its minimum is at most `highest`, which is 0 or infinite. */
static inline void cast_improve(struct cast_fit *fit, cast_values t, const cast_lanes inverse,
                                const cast_lanes minimum, float highest)
{
    struct cast_sums sums;
    cast_lanes both, alone, scale, constant, gain;
    cast_sum(&sums, t, inverse, minimum);
    for (size_t l = 0; l < CAST_LANES; l++)
        both[l] = CAST_BLOCK * sums.qq[l] - sums.q[l] * sums.q[l];
    cast_at_least(both, 1.0f);
    cast_at_least(sums.qq, 1.0f);
    for (size_t l = 0; l < CAST_LANES; l++) alone[l] = sums.xq[l] / sums.qq[l];
    for (size_t l = 0; l < CAST_LANES; l++) {
        scale[l] = (CAST_BLOCK * sums.xq[l] - sums.q[l] * fit->sum[l]) / both[l];
        constant[l] = (fit->sum[l] - scale[l] * sums.q[l]) / CAST_BLOCK;
    }
    for (size_t l = 0; l < CAST_LANES; l++) scale[l] = constant[l] > highest ? alone[l] : scale[l];
    for (size_t l = 0; l < CAST_LANES; l++) {
        constant[l] = cast_lesser(constant[l], highest);
        gain[l] = scale[l] * sums.xq[l] + constant[l] * fit->sum[l];
    }
    for (size_t l = 0; l < CAST_LANES; l++)
        fit->scale[l] = gain[l] > fit->gain[l] ? scale[l] : fit->scale[l];
    for (size_t l = 0; l < CAST_LANES; l++)
        fit->minimum[l] = gain[l] > fit->gain[l] ? constant[l] : fit->minimum[l];
    for (size_t l = 0; l < CAST_LANES; l++) fit->gain[l] = cast_greater(gain[l], fit->gain[l]);
}

/* Tries grids whose 15, 14 and 13 steps span the values, which finds the grid of values that were
 * on one, and a grid of 16 steps that cuts off the extremes. Then the best grid is fitted once
 * more. */
static inline void cast_fit_grid(struct cast_fit *fit, cast_values t, float highest)
{
    static const float steps[] = {15, 14, 13, 16};
    cast_lanes low, range, inverse, minimum;
    for (size_t l = 0; l < CAST_LANES; l++) {
        low[l] = range[l] = t[0][l];
        fit->sum[l] = fit->scale[l] = fit->minimum[l] = 0.0f;
        fit->gain[l] = -1.0f;
    }
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            low[l] = cast_lesser(t[j][l], low[l]);
            range[l] = cast_greater(t[j][l], range[l]);
            fit->sum[l] += t[j][l];
        }
    for (size_t l = 0; l < CAST_LANES; l++) low[l] = cast_lesser(low[l], highest);
    for (size_t l = 0; l < CAST_LANES; l++) range[l] -= low[l];
    cast_at_least(range, CAST_TINY);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        float cut = steps[i] > 15 ? 0.5f * (steps[i] - 15) / steps[i] : 0.0f;
        for (size_t l = 0; l < CAST_LANES; l++) {
            inverse[l] = steps[i] / range[l];
            minimum[l] = low[l] + cut * range[l];
        }
        cast_improve(fit, t, inverse, minimum, highest);
    }
    cast_invert(inverse, fit->scale);
    for (size_t l = 0; l < CAST_LANES; l++) minimum[l] = fit->minimum[l];
    cast_improve(fit, t, inverse, minimum, highest);
    cast_at_least(fit->scale, 0.0f);
}

static inline void cast_grid_codes(cast_codes c, cast_values t, const cast_lanes scale,
                                   const cast_lanes minimum)
{
    cast_lanes inverse;
    cast_invert(inverse, scale);
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++)
            c[j][l] = cast_code_bits((t[j][l] - minimum[l]) * inverse[l], 15) - CAST_MAGIC;
}

static inline float cast_to_f16(float x)
{
    return rf_f16_to_f32(rf_f32_to_f16(x));
}

static inline void cast_put_f16(uint8_t *out, float x)
{
    uint16_t half = rf_f32_to_f16(x);
    memcpy(out, &half, sizeof half);
}

static void RF_NAMED(cast_q4_1_16)(uint8_t *out, const float *x)
{
    cast_values t;
    cast_codes c;
    struct cast_fit fit;
    cast_take(t, x, CAST_LIMIT);
    cast_fit_grid(&fit, t, 2 * CAST_LIMIT);
    for (size_t l = 0; l < CAST_LANES; l++) {
        fit.scale[l] = cast_to_f16(fit.scale[l]);
        fit.minimum[l] =
            cast_to_f16(cast_greater(cast_lesser(fit.minimum[l], 65504.0f), -65504.0f));
        cast_put_f16(out + 20 * l, fit.scale[l]);
        cast_put_f16(out + 20 * l + 2, fit.minimum[l]);
    }
    cast_grid_codes(c, t, fit.scale, fit.minimum);
    cast_put_nibbles(out + 4, 20, c);
}

/* ---- Q4_K: 256 values, eight affine grids whose scales and minima are 6-bit multiples of two
 * numbers ---- */

struct cast_q4_k {
    cast_lanes scale, minimum; /* 0 to 63 */
    cast_lanes d, m;           /* units of scale and minimum; minima are subtracted */
};

static inline void cast_set_multiples(struct cast_q4_k *grid, size_t first, float d, float m)
{
    for (size_t l = first; l < first + CAST_GROUPS; l++) {
        grid->d[l] = cast_to_f16(d);
        grid->m[l] = cast_to_f16(m);
    }
}

/* The greatest scale and the lowest minimum become 63; the others are rounded to multiples. */
static inline void cast_q4_k_grid(struct cast_q4_k *grid, const struct cast_fit *fit)
{
    for (size_t first = 0; first < CAST_LANES; first += CAST_GROUPS) {
        float scale = 0.0f, minimum = 0.0f;
        for (size_t l = first; l < first + CAST_GROUPS; l++) {
            scale = cast_greater(fit->scale[l], scale);
            minimum = cast_lesser(fit->minimum[l], minimum);
        }
        cast_set_multiples(grid, first, scale / 63, -minimum / 63);
    }
    cast_lanes inverse;
    cast_invert(inverse, grid->d);
    for (size_t l = 0; l < CAST_LANES; l++)
        grid->scale[l] = cast_code(fit->scale[l] * inverse[l], 63);
    cast_invert(inverse, grid->m);
    for (size_t l = 0; l < CAST_LANES; l++)
        grid->minimum[l] = cast_code(-fit->minimum[l] * inverse[l], 63);
}

static inline void cast_q4_k_products(const struct cast_q4_k *grid, cast_lanes scale,
                                      cast_lanes minimum)
{
    for (size_t l = 0; l < CAST_LANES; l++) scale[l] = grid->d[l] * grid->scale[l];
    for (size_t l = 0; l < CAST_LANES; l++) minimum[l] = -(grid->m[l] * grid->minimum[l]);
}

/* Fits d and m by least squares over the superblock, with scales, minima and codes fixed. */
static inline void cast_q4_k_refine(struct cast_q4_k *grid, const struct cast_fit *fit,
                                    cast_values t)
{
    struct cast_sums sums;
    cast_lanes scale, inverse, minimum;
    cast_q4_k_products(grid, scale, minimum);
    cast_invert(inverse, scale);
    cast_sum(&sums, t, inverse, minimum);
    for (size_t first = 0; first < CAST_LANES; first += CAST_GROUPS) {
        float aa = 0.0f, ab = 0.0f, bb = 0.0f, ax = 0.0f, bx = 0.0f;
        for (size_t l = first; l < first + CAST_GROUPS; l++) {
            float a = grid->scale[l], b = -grid->minimum[l];
            aa += a * a * sums.qq[l];
            ab += a * b * sums.q[l];
            bb += b * b * CAST_BLOCK;
            ax += a * sums.xq[l];
            bx += b * fit->sum[l];
        }
        float both = aa * bb - ab * ab, d = ax * bb - bx * ab, m = bx * aa - ax * ab;
        if (both > 1e-6f * aa * bb && d > 0.0f && m >= 0.0f)
            cast_set_multiples(grid, first, d / both, m / both);
    }
}

static inline void cast_put_q4_k(uint8_t *out, const struct cast_q4_k *grid, cast_codes c)
{
    uint32_t words[8][CAST_LANES];
    cast_pack_bytes(words, c);
    for (size_t first = 0; first < CAST_LANES; first += CAST_GROUPS, out += 144) {
        cast_put_f16(out, grid->d[first]);
        cast_put_f16(out + 2, grid->m[first]);
        for (size_t l = 0; l < 4; l++) {
            int32_t s0 = (int32_t)grid->scale[first + l], s1 = (int32_t)grid->scale[first + 4 + l];
            int32_t m0 = (int32_t)grid->minimum[first + l],
                    m1 = (int32_t)grid->minimum[first + 4 + l];
            out[4 + l] = (uint8_t)(s0 | s1 >> 4 << 6);
            out[8 + l] = (uint8_t)(m0 | m1 >> 4 << 6);
            out[12 + l] = (uint8_t)((s1 & 15) | (m1 & 15) << 4);
        }
        for (size_t pair = 0; pair < 4; pair++)
            for (size_t i = 0; i < 8; i++) {
                uint32_t both = words[i][first + 2 * pair] | words[i][first + 2 * pair + 1] << 4;
                memcpy(out + 16 + 32 * pair + 4 * i, &both, sizeof both);
            }
    }
}

static void RF_NAMED(cast_q4_k_16)(uint8_t *out, const float *x)
{
    cast_values t;
    cast_codes c;
    cast_lanes scale, minimum;
    struct cast_fit fit;
    struct cast_q4_k grid;
    cast_take(t, x, CAST_LIMIT);
    cast_fit_grid(&fit, t, 0.0f);
    cast_q4_k_grid(&grid, &fit);
    cast_q4_k_refine(&grid, &fit, t);
    cast_q4_k_products(&grid, scale, minimum);
    cast_grid_codes(c, t, scale, minimum);
    cast_put_q4_k(out, &grid, c);
}

/* ---- symmetric grids: x = scale (code - centre), codes 0 to 2 centre - 1 ---- */

/* The value of the greatest magnitude of n rows of t, with its sign; not 0. */
static inline void cast_extreme(cast_lanes extreme, cast_lanes *t, size_t n)
{
    cast_lanes low, high;
    for (size_t l = 0; l < CAST_LANES; l++) low[l] = high[l] = 0.0f;
    for (size_t j = 0; j < n; j++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            low[l] = cast_lesser(t[j][l], low[l]);
            high[l] = cast_greater(t[j][l], high[l]);
        }
    for (size_t l = 0; l < CAST_LANES; l++) high[l] = cast_greater(high[l], CAST_TINY);
    for (size_t l = 0; l < CAST_LANES; l++) extreme[l] = -low[l] > high[l] ? low[l] : high[l];
}

/* Scales of n rows of t. In each try the value of the greatest magnitude has code 0 or lies a
 * little beyond; that is `steps` from the centre. The scale is the least-squares fit to the best
 * try, negative where the extreme is positive. */
static inline void cast_fit_symmetric(cast_lanes scale, cast_lanes *t, size_t n, int32_t centre,
                                      const float *steps, size_t n_steps)
{
    cast_lanes extreme, gain, inverse, product, square;
    float middle = (float)centre;
    cast_extreme(extreme, t, n);
    for (size_t l = 0; l < CAST_LANES; l++) scale[l] = gain[l] = 0.0f;
    for (size_t i = 0; i < n_steps; i++) {
        for (size_t l = 0; l < CAST_LANES; l++) {
            inverse[l] = -steps[i] / extreme[l];
            product[l] = square[l] = 0.0f;
        }
        for (size_t j = 0; j < n; j++)
            for (size_t l = 0; l < CAST_LANES; l++) {
                float q = cast_code(t[j][l] * inverse[l] + middle, 2 * centre - 1) - middle;
                product[l] += t[j][l] * q;
                square[l] += q * q;
            }
        cast_at_least(square, 1.0f);
        for (size_t l = 0; l < CAST_LANES; l++) square[l] = product[l] / square[l];
        for (size_t l = 0; l < CAST_LANES; l++) product[l] = product[l] * square[l];
        for (size_t l = 0; l < CAST_LANES; l++)
            scale[l] = product[l] > gain[l] ? square[l] : scale[l];
        for (size_t l = 0; l < CAST_LANES; l++) gain[l] = cast_greater(product[l], gain[l]);
    }
}

/* 1 / scale; 1 for a scale of 0. */
static inline void cast_invert_signed(cast_lanes inverse, const cast_lanes scale)
{
    for (size_t l = 0; l < CAST_LANES; l++) inverse[l] = scale[l] == 0.0f ? 1.0f : scale[l];
    for (size_t l = 0; l < CAST_LANES; l++) inverse[l] = 1.0f / inverse[l];
}

static inline void cast_symmetric_codes(cast_codes c, cast_lanes *t, size_t n, int32_t centre,
                                        const cast_lanes scale)
{
    cast_lanes inverse, minimum;
    for (size_t l = 0; l < CAST_LANES; l++) minimum[l] = (float)-centre * scale[l];
    cast_invert_signed(inverse, scale);
    for (size_t j = 0; j < n; j++)
        for (size_t l = 0; l < CAST_LANES; l++)
            c[j][l] =
                cast_code_bits((t[j][l] - minimum[l]) * inverse[l], 2 * centre - 1) - CAST_MAGIC;
}

static void RF_NAMED(cast_q4_0_16)(uint8_t *out, const float *x)
{
    static const float steps[] = {8, 7.25f, 6.5f, 8.75f, 9.5f};
    cast_values t;
    cast_codes c;
    cast_lanes scale;
    cast_take(t, x, CAST_LIMIT);
    cast_fit_symmetric(scale, t, CAST_BLOCK, 8, steps, sizeof steps / sizeof *steps);
    for (size_t l = 0; l < CAST_LANES; l++) {
        scale[l] = cast_to_f16(scale[l]);
        cast_put_f16(out + 18 * l, scale[l]);
    }
    cast_symmetric_codes(c, t, CAST_BLOCK, 8, scale);
    cast_put_nibbles(out + 2, 18, c);
}

/* ---- Q6_K: 256 values, 16 symmetric grids whose scales are 8-bit multiples of a number ---- */

enum { CAST_Q6_K_GROUP = 16, CAST_Q6_K_PARTS = CAST_BLOCK / CAST_Q6_K_GROUP };

/* Scales of the groups, part p of a lane in scale[p], and their multiples of d. */
struct cast_q6_k {
    cast_lanes scale[CAST_Q6_K_PARTS], multiple[CAST_Q6_K_PARTS], d;
};

/* The scale of the greatest magnitude becomes -128, as in ggml; the others are rounded to
 * multiples. */
static inline void cast_q6_k_grid(struct cast_q6_k *grid)
{
    cast_lanes inverse;
    for (size_t first = 0; first < CAST_LANES; first += CAST_GROUPS) {
        float extreme = 0.0f;
        for (size_t p = 0; p < CAST_Q6_K_PARTS; p++)
            for (size_t l = first; l < first + CAST_GROUPS; l++)
                if (cast_magnitude(grid->scale[p][l]) > cast_magnitude(extreme))
                    extreme = grid->scale[p][l];
        for (size_t l = first; l < first + CAST_GROUPS; l++)
            grid->d[l] = cast_to_f16(extreme / -128);
    }
    cast_invert_signed(inverse, grid->d);
    for (size_t p = 0; p < CAST_Q6_K_PARTS; p++)
        for (size_t l = 0; l < CAST_LANES; l++)
            grid->multiple[p][l] = cast_code(grid->scale[p][l] * inverse[l] + 128.0f, 255) - 128.0f;
    for (size_t p = 0; p < CAST_Q6_K_PARTS; p++)
        for (size_t l = 0; l < CAST_LANES; l++)
            grid->scale[p][l] = grid->d[l] * grid->multiple[p][l];
}

/* Four lanes share the bytes of their low bits, two to a byte, and of their high bits. */
static inline void cast_put_q6_k(uint8_t *out, const struct cast_q6_k *grid, cast_codes c)
{
    static const uint32_t low = 0x0f0f0f0f, high = 0x03030303;
    uint32_t words[8][CAST_LANES];
    cast_pack_bytes(words, c);
    for (size_t l = 0; l < CAST_LANES; l += 4) {
        uint8_t *block = out + l / CAST_GROUPS * 210;
        size_t half = l % CAST_GROUPS / 4;
        for (size_t i = 0; i < 8; i++) {
            const uint32_t *w = &words[i][l];
            uint32_t bytes[3] = {(w[0] & low) | (w[2] & low) << 4, (w[1] & low) | (w[3] & low) << 4,
                                 (w[0] >> 4 & high) | (w[1] >> 4 & high) << 2 |
                                     (w[2] >> 4 & high) << 4 | (w[3] >> 4 & high) << 6};
            memcpy(block + 64 * half + 4 * i, &bytes[0], 4);
            memcpy(block + 64 * half + 32 + 4 * i, &bytes[1], 4);
            memcpy(block + 128 + 32 * half + 4 * i, &bytes[2], 4);
        }
        for (size_t i = 0; i < 4 * CAST_Q6_K_PARTS; i++)
            block[192 + 8 * half + i] =
                (uint8_t)(int32_t)grid->multiple[i % CAST_Q6_K_PARTS][l + i / CAST_Q6_K_PARTS];
        cast_put_f16(block + 208, grid->d[l]);
    }
}

static void RF_NAMED(cast_q6_k_16)(uint8_t *out, const float *x)
{
    static const float steps[] = {32, 31, 30, 33, 29};
    cast_values t;
    cast_codes c;
    struct cast_q6_k grid;
    cast_take(t, x, CAST_LIMIT);
    for (size_t p = 0; p < CAST_Q6_K_PARTS; p++)
        cast_fit_symmetric(grid.scale[p], t + CAST_Q6_K_GROUP * p, CAST_Q6_K_GROUP, 32, steps,
                           sizeof steps / sizeof *steps);
    cast_q6_k_grid(&grid);
    for (size_t p = 0; p < CAST_Q6_K_PARTS; p++)
        cast_symmetric_codes(c + CAST_Q6_K_GROUP * p, t + CAST_Q6_K_GROUP * p, CAST_Q6_K_GROUP, 32,
                             grid.scale[p]);
    cast_put_q6_k(out, &grid, c);
}

/* ggml's definition: d = max / 127; x / d is rounded half away from zero with d in F32; then d
 * becomes F16. */
static void RF_NAMED(cast_q8_0_16)(uint8_t *out, const float *x)
{
    cast_values t;
    cast_codes c;
    cast_lanes extreme, inverse;
    cast_take(t, x, CAST_LIMIT);
    cast_extreme(extreme, t, CAST_BLOCK);
    for (size_t l = 0; l < CAST_LANES; l++) {
        float d = cast_magnitude(extreme[l]) / 127.0f;
        inverse[l] = d > CAST_TINY ? 1.0f / d : 0.0f;
        cast_put_f16(out + 34 * l, d);
    }
    for (size_t j = 0; j < CAST_BLOCK; j++)
        for (size_t l = 0; l < CAST_LANES; l++) {
            float v = t[j][l] * inverse[l];
            int32_t whole = (int32_t)v;
            int32_t twice = (int32_t)((v - (float)whole) * 2.0f);
            c[j][l] = whole + twice;
        }
    for (size_t l = 0; l < CAST_LANES; l++)
        for (size_t j = 0; j < CAST_BLOCK; j++) out[34 * l + 2 + j] = (uint8_t)c[j][l];
}

/* ---- W4A8_G128: 128 values on a symmetric grid, whose scale is a multiple of the row's number
 * ----
 */

enum {
    CAST_W4A8_GROUP = 128,
    CAST_W4A8_BYTES = 67,
    CAST_W4A8_BATCH = CAST_LANES * CAST_W4A8_GROUP
};

static inline void cast_take_groups(cast_lanes *t, const float *x)
{
    float y[CAST_BATCH];
    for (size_t part = 0; part < CAST_W4A8_GROUP; part += CAST_BLOCK) {
        for (size_t l = 0; l < CAST_LANES; l++)
            memcpy(y + l * CAST_BLOCK, x + l * CAST_W4A8_GROUP + part, CAST_BLOCK * sizeof *y);
        cast_take(t + part, y, CAST_LIMIT);
    }
}

static void RF_NAMED(cast_w4a8_scales_16)(uint8_t *out, const float *x)
{
    static const float steps[] = {8, 7.25f, 8.75f, 9.75f, 11};
    cast_lanes t[CAST_W4A8_GROUP], scale;
    cast_take_groups(t, x);
    cast_fit_symmetric(scale, t, CAST_W4A8_GROUP, 8, steps, sizeof steps / sizeof *steps);
    memcpy(out, scale, sizeof scale);
}

/* Byte i of 32 has code i and code 32 + i of 64 values. */
static void RF_NAMED(cast_w4a8_codes_16)(uint8_t *out, const float *x)
{
    cast_lanes t[CAST_W4A8_GROUP], scale;
    int32_t c[CAST_W4A8_GROUP][CAST_LANES];
    cast_take_groups(t, x);
    for (size_t l = 0; l < CAST_LANES; l++) {
        uint16_t half;
        memcpy(&half, out + l * CAST_W4A8_BYTES, sizeof half);
        scale[l] = rf_f16_to_f32(half) * 0.0625f * (float)(int8_t)out[l * CAST_W4A8_BYTES + 2];
    }
    cast_symmetric_codes(c, t, CAST_W4A8_GROUP, 8, scale);
    for (size_t l = 0; l < CAST_LANES; l++)
        for (size_t i = 0; i < CAST_W4A8_GROUP / 2; i++) {
            size_t low = i / 32 * 64 + i % 32;
            out[l * CAST_W4A8_BYTES + 3 + i] = (uint8_t)(c[low][l] | c[low + 32][l] << 4);
        }
}

/* cast_all, with blocks that have their scales already. `bytes`: of a group. */
static inline void cast_groups(uint8_t *out, const float *x, size_t n, size_t bytes,
                               void (*batch)(uint8_t *out, const float *x))
{
    float rest[CAST_W4A8_BATCH] = {0};
    uint8_t blocks[CAST_LANES * CAST_W4A8_BYTES] = {0};
    size_t whole = n / CAST_W4A8_BATCH * CAST_W4A8_BATCH,
           left = (n - whole) / CAST_W4A8_GROUP * bytes;
    for (size_t i = 0; i < whole; i += CAST_W4A8_BATCH)
        batch(out + i / CAST_W4A8_GROUP * bytes, x + i);
    if (n == whole) return;
    out += whole / CAST_W4A8_GROUP * bytes;
    memcpy(rest, x + whole, (n - whole) * sizeof *x);
    memcpy(blocks, out, left);
    batch(blocks, rest);
    memcpy(out, blocks, left);
}

/* ---- rows ---- */

/* Casts n values in batches; the last one is padded with zeros. `bytes`: of 256 values. */
static inline void cast_all(uint8_t *out, const float *x, size_t n, size_t bytes,
                            void (*batch)(uint8_t *out, const float *x))
{
    float rest[CAST_BATCH] = {0};
    uint8_t blocks[CAST_LANES * 34];
    size_t whole = n / CAST_BATCH * CAST_BATCH;
    for (size_t i = 0; i < whole; i += CAST_BATCH) batch(out + i / CAST_SUPERBLOCK * bytes, x + i);
    if (n == whole) return;
    memcpy(rest, x + whole, (n - whole) * sizeof *x);
    batch(blocks, rest);
    memcpy(out + whole / CAST_SUPERBLOCK * bytes, blocks, (n - whole) * bytes / CAST_SUPERBLOCK);
}

static void RF_NAMED(cast_mxfp4_floor)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 136, RF_NAMED(cast_mxfp4_floor_16));
}

static void RF_NAMED(cast_mxfp4)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 136, RF_NAMED(cast_mxfp4_best_16));
}

static void RF_NAMED(cast_q4_0)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 144, RF_NAMED(cast_q4_0_16));
}

static void RF_NAMED(cast_q4_1)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 160, RF_NAMED(cast_q4_1_16));
}

static void RF_NAMED(cast_q4_k)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 144, RF_NAMED(cast_q4_k_16));
}

static void RF_NAMED(cast_q6_k)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 210, RF_NAMED(cast_q6_k_16));
}

static void RF_NAMED(cast_q8_0)(void *blocks, const float *x, size_t n)
{
    cast_all(blocks, x, n, 272, RF_NAMED(cast_q8_0_16));
}

static void RF_NAMED(cast_w4a8_scales)(void *scales, const float *x, size_t n)
{
    cast_groups(scales, x, n, sizeof(float), RF_NAMED(cast_w4a8_scales_16));
}

static void RF_NAMED(cast_w4a8_codes)(void *blocks, const float *x, size_t n)
{
    cast_groups(blocks, x, n, CAST_W4A8_BYTES, RF_NAMED(cast_w4a8_codes_16));
}

static inline void rf_cast_init(struct rf_kernels *kernels)
{
    kernels->cast[RF_CAST_MXFP4_FLOOR] = RF_NAMED(cast_mxfp4_floor);
    kernels->cast[RF_CAST_MXFP4] = RF_NAMED(cast_mxfp4);
    kernels->cast[RF_CAST_Q4_0] = RF_NAMED(cast_q4_0);
    kernels->cast[RF_CAST_Q4_1] = RF_NAMED(cast_q4_1);
    kernels->cast[RF_CAST_Q4_K] = RF_NAMED(cast_q4_k);
    kernels->cast[RF_CAST_Q6_K] = RF_NAMED(cast_q6_k);
    kernels->cast[RF_CAST_Q8_0] = RF_NAMED(cast_q8_0);
    kernels->cast[RF_CAST_W4A8_SCALES] = RF_NAMED(cast_w4a8_scales);
    kernels->cast[RF_CAST_W4A8_CODES] = RF_NAMED(cast_w4a8_codes);
}

#endif
