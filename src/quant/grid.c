#include "quant/grid.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/* The casts that choose scales block by block; the types without one have no entry. */
static const enum rf_cast casts[RF_DTYPE_LIMIT] = {[RF_MXFP4] = RF_CAST_MXFP4,
                                                   [RF_Q4_0] = RF_CAST_Q4_0,
                                                   [RF_Q4_1] = RF_CAST_Q4_1,
                                                   [RF_Q4_K] = RF_CAST_Q4_K};

const struct rf_grid_layout *rf_grid_layout(enum rf_dtype dtype)
{
    static const struct rf_grid_layout layouts[] = {{RF_MXFP4, 1, 16, 1},
                                                    {RF_Q4_0, 2, 16, 0},
                                                    {RF_Q4_1, 4, 16, 0},
                                                    {RF_Q4_K, 16, 32, 0},
                                                    {RF_W4A8, 2, 32, 0}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].dtype == dtype) return &layouts[i];
    return NULL;
}

/* The weighted squared error of rounding n values, a multiple of 32 and each at most 16 steps, to
 * d (0 .. 15 - 8). */
static float symmetric_error(const float *w, const float *importance, size_t n, float d)
{
    enum { LANES = 32 };
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: sums with it have no fraction */
    float inverse = 1.0f / d, sums[LANES] = {0}, sum = 0.0f;
    for (size_t i = 0; i < n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            int32_t code = (int32_t)(w[i + lane] * inverse + to_integer - to_integer);
            code = code < -8 ? -8 : code;
            code = code > 7 ? 7 : code;
            float off = w[i + lane] - (float)code * d;
            sums[lane] += importance[i + lane] * off * off;
        }
    for (size_t lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* The scale, of either sign, with the least error among those under which the value of the greatest
 * magnitude is 6.75 to 16 steps from 0. */
static float symmetric_scale(const float *w, const float *importance, size_t n)
{
    float most = 0.0f, best = 0.0f, least = INFINITY;
    for (size_t i = 0; i < n; i++) most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    if (!(most > 0.0f) || most > 65504.0f) return 0.0f;
    for (float steps = 6.75f; steps <= 16.0f; steps *= 1.06f)
        for (int sign = -1; sign <= 1; sign += 2) {
            float d = rf_f16_to_f32(rf_f32_to_f16((float)sign * most / steps));
            float error = d != 0.0f ? symmetric_error(w, importance, n, d) : INFINITY;
            if (error < least) {
                least = error;
                best = d;
            }
        }
    return best;
}

void rf_grid_choose(const struct rf_grid_layout *layout, const struct rf_kernels *kernels,
                    const float *w, const float *importance, size_t n, void *blocks)
{
    const struct rf_dtype_info *info = rf_dtype_info(layout->dtype);
    if (layout->dtype != RF_W4A8) {
        kernels->cast[casts[layout->dtype]](blocks, w, n);
        return;
    }
    uint16_t d = rf_f32_to_f16(symmetric_scale(w, importance, n));
    for (size_t i = 0; i < n / info->block_elems; i++)
        memcpy((char *)blocks + i * info->block_bytes, &d, sizeof d);
}

/* What a block's values are where all of its codes are `code`. */
static void values_of(const struct rf_grid_layout *layout, const void *block, int code,
                      float *values)
{
    const struct rf_dtype_info *info = rf_dtype_info(layout->dtype);
    uint8_t copy[RF_SUPERBLOCK];
    memcpy(copy, block, layout->header);
    memset(copy + layout->header, code * 0x11, info->block_bytes - layout->header);
    rf_dequantize_f32(layout->dtype, copy, values, info->block_elems);
}

void rf_grid_read(const struct rf_grid_layout *layout, const void *block, struct rf_grid *grids)
{
    float low[RF_SUPERBLOCK], high[RF_SUPERBLOCK];
    values_of(layout, block, 0, low);
    values_of(layout, block, layout->is_e2m1 ? 7 : 15, high);
    for (size_t i = 0; i < rf_dtype_info(layout->dtype)->block_elems; i += RF_GRID_GROUP) {
        struct rf_grid *grid = &grids[i / RF_GRID_GROUP];
        grid->base = low[i];
        grid->scale = (high[i] - low[i]) / (layout->is_e2m1 ? 6.0f : 15.0f);
        grid->inverse = grid->scale != 0.0f ? 1.0f / grid->scale : 0.0f;
    }
}

static void round_e2m1(const struct rf_grid_lanes *grids, const float *w, float *values,
                       uint8_t *codes)
{
    static const float between[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    for (size_t lane = 0; lane < RF_GRID_LANES; lane++) {
        float magnitude = fabsf((w[lane] - grids->base[lane]) * grids->inverse[lane]);
        int code = 0;
        for (size_t i = 0; i < sizeof between / sizeof *between; i++)
            code += magnitude > between[i];
        values[lane] = copysignf(e2m1[code] * grids->scale[lane], w[lane]);
        codes[lane] = (uint8_t)(code | (signbit(w[lane]) ? 8 : 0));
    }
}

void rf_grid_round(const struct rf_grid_layout *layout, const struct rf_grid_lanes *grids,
                   const float *w, float *values, uint8_t *codes)
{
    if (layout->is_e2m1) {
        round_e2m1(grids, w, values, codes);
        return;
    }
    for (size_t lane = 0; lane < RF_GRID_LANES; lane++) {
        float steps = (w[lane] - grids->base[lane]) * grids->inverse[lane] + 0.5f;
        steps = steps > 0.0f ? steps : 0.0f; /* a NaN, too */
        int32_t code = (int32_t)(steps < 15.5f ? steps : 15.5f);
        values[lane] = grids->base[lane] + grids->scale[lane] * (float)code;
        codes[lane] = (uint8_t)code;
    }
}

void rf_grid_put(const struct rf_grid_layout *layout, void *block, const uint8_t *codes)
{
    size_t half = layout->half, n = rf_dtype_info(layout->dtype)->block_elems;
    uint8_t *out = (uint8_t *)block + layout->header;
    for (size_t i = 0; i < n; i += 2 * half)
        for (size_t j = 0; j < half; j++)
            *out++ = (uint8_t)(codes[i + j] | codes[i + half + j] << 4);
}
