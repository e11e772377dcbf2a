/* Reads and writes the grids of 4- and 6-bit types through the same conversion that models are
 * run with, so that a rounded value is the value a kernel will use. gptq.c and descent.c call
 * it. */
#include "quant/grid.h"

#include <math.h>
#include <string.h>

static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

const struct rf_grid_layout *rf_grid_layout(enum rf_dtype dtype)
{
    static const struct rf_grid_layout layouts[] = {
        {RF_MXFP4, 1, 17, 16, 1, 15},     {RF_Q4_0, 2, 18, 16, 0, 15},
        {RF_Q4_1, 4, 20, 16, 0, 15},      {RF_Q4_K, 16, 144, 32, 0, 15},
        {RF_Q6_K, 0, 192, 0, 0, 63},      {RF_W4A8, 2, 34, 32, 0, 15},
        {RF_W4A8_G128, 3, 67, 32, 0, 15}, {RF_W4A8_ROW, 2, 34, 32, 0, 15}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].dtype == dtype) return &layouts[i];
    return NULL;
}

/* A block's values if all bytes of its codes were `code`. */
static void grid_values(const struct rf_grid_layout *layout, const void *block, int code,
                        float *values)
{
    const struct rf_dtype_info *info = rf_dtype_info(layout->dtype);
    uint8_t copy[RF_SUPERBLOCK];
    memcpy(copy, block, info->block_bytes);
    memset(copy + layout->first, code, layout->end - layout->first);
    rf_dequantize_f32(layout->dtype, copy, values, info->block_elems);
}

void rf_grid_read(const struct rf_grid_layout *layout, const void *block, struct rf_grid *grids)
{
    float low[RF_SUPERBLOCK], high[RF_SUPERBLOCK];
    grid_values(layout, block, 0, low);
    grid_values(layout, block, layout->is_e2m1 ? 0x77 : 0xff, high);
    for (size_t i = 0; i < rf_dtype_info(layout->dtype)->block_elems; i += RF_GRID_GROUP) {
        struct rf_grid *grid = &grids[i / RF_GRID_GROUP];
        grid->base = low[i];
        grid->scale = (high[i] - low[i]) / (layout->is_e2m1 ? 6.0f : (float)layout->last);
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
    const float most = (float)layout->last + 0.5f;
    for (size_t lane = 0; lane < RF_GRID_LANES; lane++) {
        float steps = (w[lane] - grids->base[lane]) * grids->inverse[lane] + 0.5f;
        steps = steps > 0.0f ? steps : 0.0f; /* a NaN, too */
        int32_t code = (int32_t)(steps < most ? steps : most);
        values[lane] = grids->base[lane] + grids->scale[lane] * (float)code;
        codes[lane] = (uint8_t)code;
    }
}

static void put_q6_k(uint8_t *block, const uint8_t *codes)
{
    for (size_t h = 0; h < 2; h++, codes += 128)
        for (size_t i = 0; i < 32; i++) {
            const uint8_t *c = codes + i;
            block[64 * h + i] = (uint8_t)((c[0] & 15) | c[64] << 4);
            block[64 * h + 32 + i] = (uint8_t)((c[32] & 15) | c[96] << 4);
            block[128 + 32 * h + i] =
                (uint8_t)(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
        }
}

void rf_grid_put(const struct rf_grid_layout *layout, void *block, const uint8_t *codes)
{
    size_t half = layout->half, n = rf_dtype_info(layout->dtype)->block_elems;
    uint8_t *out = (uint8_t *)block + layout->first;
    if (layout->dtype == RF_Q6_K) {
        put_q6_k(out, codes);
        return;
    }
    for (size_t i = 0; i < n; i += 2 * half)
        for (size_t j = 0; j < half; j++)
            *out++ = (uint8_t)(codes[i + j] | codes[i + half + j] << 4);
}
