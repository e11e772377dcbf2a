/* Chooses the scales of blocks by least squares in which each weight's error counts as much as its
 * inputs are large. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "quant/grid.h"

enum { GROUP = RF_GRID_GROUP, LANES = 8, CODES = 16 };

#define F16_MOST 65504.0f
#define TO_INTEGER 0x1.8p23f /* sums with it have no fraction */

static float to_f16(float x)
{
    x = x < F16_MOST ? x : F16_MOST; /* a NaN, too */
    return rf_f16_to_f32(rf_f32_to_f16(x > -F16_MOST ? x : -F16_MOST));
}

static void write_half(uint8_t *out, float x)
{
    uint16_t half = rf_f32_to_f16(x);
    memcpy(out, &half, sizeof half);
}

static float group_dot(const float *a, const float *b)
{
    float sums[LANES] = {0}, sum = 0.0f;
    for (size_t i = 0; i < GROUP; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) sums[lane] += a[i + lane] * b[i + lane];
    for (size_t lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* The codes 0 to 15 next to w. */
static void codes_near(const float *w, float scale, float base, float *codes)
{
    float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < GROUP; i++) {
        float code = (w[i] - base) * inverse;
        code = code > 0.0f ? code : 0.0f;
        code = code < CODES - 1 ? code : CODES - 1;
        codes[i] = code + TO_INTEGER - TO_INTEGER;
    }
}

/* ---- affine grids: scale code + base ---- */

/* A group's weights, and weighted sums with their codes on a grid. Sums of squares are of what is
 * left of the means: one weight may count for nearly all. */
struct group {
    const float *w, *importance;
    float centred[GROUP]; /* importance times (w - mean) */
    float all, mean;      /* the sum of importance; the mean of w */
    float code, qq, xq;   /* the mean code; sums of squared codes, and of products with w */
    float scale, base;    /* the best grid so far */
    float gain;           /* the part of the squares that it explains, but for the mean */
};

static void sum_codes(struct group *group, float scale, float base)
{
    float codes[GROUP], weighted[GROUP];
    codes_near(group->w, scale, base, codes);
    group->code = group_dot(group->importance, codes) / group->all;
    for (size_t i = 0; i < GROUP; i++) codes[i] -= group->code;
    for (size_t i = 0; i < GROUP; i++) weighted[i] = group->importance[i] * codes[i];
    group->qq = group_dot(weighted, codes);
    group->xq = group_dot(group->centred, codes);
}

/* Sums of whole squares and products, with the means. */
static float whole_qq(const struct group *group)
{
    return group->qq + group->all * group->code * group->code;
}

static float whole_xq(const struct group *group)
{
    return group->xq + group->all * group->mean * group->code;
}

/* Fits a grid to the codes that the weights have on the given one. */
static void improve(struct group *group, float scale, float base, float highest)
{
    sum_codes(group, scale, base);
    if (!(group->qq > 0.0f)) return; /* all codes are the same */
    scale = group->xq / group->qq;
    base = group->mean - scale * group->code;
    float gain = scale * group->xq;
    if (base > highest) { /* then highest is 0 */
        base = 0.0f;
        scale = whole_xq(group) / whole_qq(group);
        gain = scale * whole_xq(group) - group->all * group->mean * group->mean;
    }
    if (!(gain > group->gain) || !(scale > 0.0f)) return;
    group->scale = scale;
    group->base = base;
    group->gain = gain;
}

/* The grids that are tried first are those of the casts (microkernels/cast.h). `highest`: of the
 * base, 0 or infinite. */
static void fit_group(struct group *group, const float *w, const float *importance, float highest)
{
    static const float steps[] = {15, 14, 13, 12, 16};
    float low = w[0], high = w[0];
    *group = (struct group){.w = w, .importance = importance, .gain = -INFINITY};
    for (size_t i = 0; i < GROUP; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
        group->all += importance[i];
    }
    group->mean = group_dot(importance, w) / group->all;
    for (size_t i = 0; i < GROUP; i++) group->centred[i] = importance[i] * (w[i] - group->mean);
    low = low < highest ? low : highest;
    group->base = low;
    group->scale = (high - low) / (CODES - 1);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        float scale = (high - low) / steps[i];
        float cut = steps[i] > 15 ? 0.5f * (steps[i] - 15) * scale : 0.0f;
        improve(group, scale, low + cut, highest);
    }
    for (int i = 0; i < 2; i++) improve(group, group->scale, group->base, highest);
}

static void choose_q4_1(const float *w, const float *importance, uint8_t *block)
{
    struct group group;
    fit_group(&group, w, importance, INFINITY);
    write_half(block, to_f16(group.scale));
    write_half(block + 2, to_f16(group.base));
}

/* ---- Q4_K ---- */

enum { GROUPS = RF_SUPERBLOCK / GROUP, MOST = 63 };

struct multiples {
    float d, m; /* units of scales and of minima, which are subtracted */
    float scale[GROUPS], minimum[GROUPS];
};

static float multiple(float x, float unit)
{
    float n = unit > 0.0f ? rintf(x / unit) : 0.0f;
    n = n > 0.0f ? n : 0.0f;
    return n < MOST ? n : MOST;
}

/* d and m by least squares, with scales, minima and codes as they are. */
static void fit_units(struct multiples *grid, struct group *groups)
{
    float aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &groups[i];
        float a = grid->scale[i], b = -grid->minimum[i];
        sum_codes(group, grid->d * a, grid->m * b);
        aa += a * a * whole_qq(group);
        ab += a * b * group->all * group->code;
        bb += b * b * group->all;
        ax += a * whole_xq(group);
        bx += b * group->all * group->mean;
    }
    float both = aa * bb - ab * ab, d = ax * bb - bx * ab, m = bx * aa - ax * ab;
    if (!(both > 1e-6f * aa * bb && d > 0.0f && m >= 0.0f)) return;
    grid->d = to_f16(d / both);
    grid->m = to_f16(m / both);
}

/* The greatest scale and the lowest base become 63 units; the others are rounded. A minimum makes
 * up for what rounding its scale changes. */
static void choose_q4_k(const float *w, const float *importance, uint8_t *block)
{
    struct group groups[GROUPS];
    struct multiples grid = {0};
    uint8_t s[GROUPS], m[GROUPS];
    float scale = 0, base = 0;
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &groups[i];
        fit_group(group, w + i * GROUP, importance + i * GROUP, 0.0f);
        scale = group->scale > scale ? group->scale : scale;
        base = group->base < base ? group->base : base;
    }
    grid.d = to_f16(scale / MOST);
    grid.m = to_f16(-base / MOST);
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &groups[i];
        grid.scale[i] = multiple(group->scale, grid.d);
        sum_codes(group, group->scale, group->base);
        base = group->mean - grid.d * grid.scale[i] * group->code;
        grid.minimum[i] = multiple(-base, grid.m);
    }
    fit_units(&grid, groups);
    for (size_t i = 0; i < GROUPS; i++) {
        s[i] = (uint8_t)grid.scale[i];
        m[i] = (uint8_t)grid.minimum[i];
    }
    write_half(block, grid.d);
    write_half(block + 2, grid.m);
    for (size_t i = 0; i < 4; i++) {
        block[4 + i] = (uint8_t)(s[i] | s[4 + i] >> 4 << 6);
        block[8 + i] = (uint8_t)(m[i] | m[4 + i] >> 4 << 6);
        block[12 + i] = (uint8_t)((s[4 + i] & 15) | (m[4 + i] & 15) << 4);
    }
}

/* ---- MXFP4 ---- */

static float e2m1_error(const float *w, const float *importance, float inverse)
{
    static const float between[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5},
                       step[7] = {0.5f, 0.5f, 0.5f, 0.5f, 1, 1, 2};
    float off[GROUP], weighted[GROUP];
    for (size_t i = 0; i < GROUP; i++) {
        float magnitude = fabsf(w[i]) * inverse, value = 0;
        for (size_t j = 0; j < 7; j++) value += magnitude > between[j] ? step[j] : 0;
        off[i] = magnitude - value;
        weighted[i] = importance[i] * off[i];
    }
    return group_dot(weighted, off);
}

/* The exponent of OCP's rule, or a neighbour that loses less. */
static void choose_mxfp4(const float *w, const float *importance, uint8_t *block)
{
    float most = 0.0f, least = INFINITY;
    for (size_t i = 0; i < GROUP; i++) most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    *block = 0;
    if (!(most > 0x1p-100f && most < 0x1p100f)) return;
    int exponent = ilogbf(most) - 2;
    for (int i = exponent - 1; i <= exponent + 1; i++) {
        float scale = ldexpf(1.0f, i), error = scale * scale * e2m1_error(w, importance, 1 / scale);
        if (error < least) {
            least = error;
            *block = (uint8_t)(i + 127);
        }
    }
}

/* ---- symmetric grids: scale (code - half), code 0 .. 2 half - 1 ---- */

/* The weighted squared error of rounding n values, a multiple of 32, to d (code - half). */
static float symmetric_error(const float *w, const float *importance, size_t n, int32_t half,
                             float d)
{
    float inverse = 1.0f / d, sums[GROUP] = {0}, sum = 0.0f;
    for (size_t i = 0; i < n; i += GROUP)
        for (size_t lane = 0; lane < GROUP; lane++) {
            int32_t code = (int32_t)(w[i + lane] * inverse + TO_INTEGER - TO_INTEGER);
            code = code < -half ? -half : code;
            code = code > half - 1 ? half - 1 : code;
            float off = w[i + lane] - (float)code * d;
            sums[lane] += importance[i + lane] * off * off;
        }
    for (size_t lane = 0; lane < GROUP; lane++) sum += sums[lane];
    return sum;
}

/* The scale, of either sign, with the least error among those under which the value of the greatest
 * magnitude is 0.84 to 2 times `half` steps from 0. */
static float symmetric_scale(const float *w, const float *importance, size_t n, int32_t half)
{
    float most = 0.0f, best = 0.0f, least = INFINITY;
    for (size_t i = 0; i < n; i++) most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    if (!(most > 0.0f) || most > 65504.0f) return 0.0f;
    for (float steps = 0.84375f * (float)half; steps <= 2.0f * (float)half; steps *= 1.06f)
        for (int sign = -1; sign <= 1; sign += 2) {
            float d = rf_f16_to_f32(rf_f32_to_f16((float)sign * most / steps));
            float error = d != 0.0f ? symmetric_error(w, importance, n, half, d) : INFINITY;
            if (error < least) {
                least = error;
                best = d;
            }
        }
    return best;
}

/* Chooses one scale for all blocks. */
static void choose_symmetric(const struct rf_dtype_info *info, const float *w,
                             const float *importance, size_t n, uint8_t *blocks)
{
    float d = symmetric_scale(w, importance, n, 8);
    for (size_t i = 0; i < n / info->block_elems; i++)
        write_half(blocks + i * info->block_bytes, d);
}

/* The multiple of a unit, 1 to 15 or negative, that as the scale of a group has the least error;
 * `near`: the scale that would be best. */
static int best_multiple(const float *w, const float *importance, float unit, float near,
                         float *error)
{
    int best = 1, sign = near < 0 ? -1 : 1, below = (int)fminf(fabsf(near) / unit, RF_W4A8_MOST_A);
    *error = INFINITY;
    for (int a = below > 1 ? below : 1; a <= below + 1 && a <= RF_W4A8_MOST_A; a++) {
        float its = symmetric_error(w, importance, RF_ROW_GROUP, 8, unit * (float)(sign * a));
        if (!(its < *error)) continue;
        *error = its;
        best = sign * a;
    }
    return best;
}

void rf_grid_begin_row(const struct rf_grid_layout *layout, const float *w, const float *importance,
                       size_t k, void *blocks)
{
    enum { TRIES = 8 };
    const size_t bytes = rf_dtype_info(layout->dtype)->block_bytes;
    float most = 0.0f, best = 0.0f, least = INFINITY;
    if (layout->dtype != RF_W4A8_G128) return;
    uint8_t *block = blocks;
    /* Until the unit is known, a block has its group's own scale in the place of codes. */
    for (size_t i = 0; i < k; i += RF_ROW_GROUP, block += bytes) {
        float d = symmetric_scale(w + i, importance + i, RF_ROW_GROUP, 8);
        memcpy(block + layout->first, &d, sizeof d);
        most = fabsf(d) > most ? fabsf(d) : most;
    }
    for (int t = 0; t < TRIES && most > 0.0f; t++) {
        float unit = to_f16(16.0f * most / (RF_W4A8_MOST_A - 0.25f * (float)t)) / 16.0f, sum = 0.0f;
        block = blocks;
        for (size_t i = 0; i < k && unit > 0.0f; i += RF_ROW_GROUP, block += bytes) {
            float d, error;
            memcpy(&d, block + layout->first, sizeof d);
            best_multiple(w + i, importance + i, unit, d, &error);
            sum += error;
        }
        if (sum < least && unit > 0.0f) {
            least = sum;
            best = unit;
        }
    }
    block = blocks;
    for (size_t i = 0; i < k; i += RF_ROW_GROUP, block += bytes) {
        memset(block, 0, bytes);
        write_half(block, 16.0f * best);
        block[2] = 1;
    }
}

/* Chooses the multiple of the row's scale. */
static void choose_multiple(const float *w, const float *importance, uint8_t *block)
{
    uint16_t half;
    float error;
    memcpy(&half, block, sizeof half);
    float unit = rf_f16_to_f32(half) / 16.0f;
    if (!(unit > 0.0f)) return;
    float near = symmetric_scale(w, importance, RF_ROW_GROUP, 8);
    block[2] = (uint8_t)(int8_t)best_multiple(w, importance, unit, near, &error);
}

/* The greatest scale becomes 127 units. */
static void choose_q6_k(const float *w, const float *importance, uint8_t *block)
{
    enum { SCALES = 192, UNIT = 208, HIGHEST = 127 };
    float scales[GROUPS], most = 0.0f;
    for (size_t i = 0; i < GROUPS; i++) {
        scales[i] = symmetric_scale(w + i * GROUP, importance + i * GROUP, GROUP, 32);
        most = fabsf(scales[i]) > most ? fabsf(scales[i]) : most;
    }
    float unit = to_f16(most / HIGHEST);
    write_half(block + UNIT, unit);
    for (size_t i = 0; i < GROUPS; i++) {
        float n = unit > 0.0f ? rintf(scales[i] / unit) : 0.0f;
        n = n > HIGHEST ? HIGHEST : n < -HIGHEST ? -HIGHEST : n;
        block[SCALES + 2 * i] = block[SCALES + 2 * i + 1] = (uint8_t)(int8_t)n;
    }
}

void rf_grid_choose(const struct rf_grid_layout *layout, const float *w, const float *importance,
                    size_t n, void *blocks)
{
    const struct rf_dtype_info *info = rf_dtype_info(layout->dtype);
    uint8_t *block = blocks;
    if (layout->dtype == RF_W4A8 || layout->dtype == RF_W4A8_ROW || layout->dtype == RF_Q4_0) {
        choose_symmetric(info, w, importance, n, blocks);
        return;
    }
    for (size_t i = 0; i < n; i += info->block_elems, block += info->block_bytes) {
        if (layout->dtype == RF_Q4_K) choose_q4_k(w + i, importance + i, block);
        if (layout->dtype == RF_Q6_K) choose_q6_k(w + i, importance + i, block);
        if (layout->dtype == RF_Q4_1) choose_q4_1(w + i, importance + i, block);
        if (layout->dtype == RF_W4A8_G128) choose_multiple(w + i, importance + i, block);
        if (layout->dtype == RF_MXFP4) choose_mxfp4(w + i, importance + i, block);
    }
}
