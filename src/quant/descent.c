#include "quant/descent.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

enum {
    STEP = 256, /* columns whose changes reach the other columns together; whole blocks */
    SWEEPS = 3,
    ROWS_GRAIN = 8
};

struct descent {
    const struct rf_gptq *gptq;
    const struct rf_grid_layout *layout;
    float *gradient; /* [m][k]: (w - q) H, half the squared error's falling slope */
    float *changes;  /* [m][STEP] of q in a step */
    float *square;   /* [STEP][STEP] of H in a step */
    uint8_t *blocks;
    size_t m, k, first, n; /* columns [first, first + n) */
    size_t group;          /* values of W4A8 that share a scale; 0: scales stay */
    size_t block_elems, block_bytes;
};

/* The scale of a group of W4A8, values [first, end), with the least error for its codes. */
static void fit_scale(const struct descent *d, uint8_t *blocks, float *q, float *gradient,
                      float *changes, size_t first, size_t end)
{
    float slope = 0, curvature = 0, sums[STEP] = {0}; /* q H over the group */
    for (size_t i = first; i < end; i++) {
        const float *h = d->square + i * STEP;
        for (size_t j = 0; j < d->n; j++) sums[j] += q[i] * h[j];
        slope += q[i] * gradient[i];
    }
    for (size_t i = first; i < end; i++) curvature += q[i] * sums[i];
    uint8_t *block = blocks + first / d->block_elems * d->block_bytes;
    uint16_t half;
    memcpy(&half, block, sizeof half);
    float old = rf_f16_to_f32(half);
    half = rf_f32_to_f16(old * (1 + slope / curvature));
    float more = rf_f16_to_f32(half) / old - 1;
    if (!(fabsf(more) < 0.5f)) return; /* no codes, or no numbers */
    for (size_t j = 0; j < d->n; j++) gradient[j] -= more * sums[j];
    for (size_t i = first; i < end; i++) {
        changes[i] += more * q[i];
        q[i] += more * q[i];
    }
    for (size_t i = first; i < end; i += d->block_elems, block += d->block_bytes)
        memcpy(block, &half, sizeof half);
}

/* Gives each value of a block the code that is best with all others as they are. */
static void choose_codes(const struct descent *d, uint8_t *block, float *q, float *gradient,
                         float *changes, size_t first)
{
    struct rf_grid grids[RF_SUPERBLOCK / RF_GRID_GROUP];
    uint8_t codes[RF_SUPERBLOCK];
    rf_grid_read(d->layout, block, grids);
    for (size_t i = d->block_elems; i-- > 0;) {
        size_t j = first + i;
        const struct rf_grid *grid = &grids[i / RF_GRID_GROUP];
        float value, best = q[j] + gradient[j] / d->square[j * STEP + j];
        codes[i] = (uint8_t)rf_grid_round(d->layout, grid, best, &value);
        if (fabsf(value - q[j]) < 0.25f * fabsf(grid->scale)) continue; /* the code it had */
        const float *h = d->square + j * STEP;
        float change = value - q[j];
        for (size_t c = 0; c < d->n; c++) gradient[c] -= change * h[c];
        changes[j] += change;
        q[j] = value;
    }
    rf_grid_put(d->layout, block, codes);
}

static void descend_row(const struct descent *d, size_t row)
{
    float q[STEP], *gradient = d->gradient + row * d->k + d->first,
                   *changes = d->changes + row * STEP;
    uint8_t *blocks = d->blocks + (row * d->k + d->first) / d->block_elems * d->block_bytes;
    rf_dequantize_f32(d->layout->dtype, blocks, q, d->n);
    memset(changes, 0, STEP * sizeof *changes);
    for (size_t i = 0; d->group && i < d->n; i += d->group)
        fit_scale(d, blocks, q, gradient, changes, i, i + d->group < d->n ? i + d->group : d->n);
    for (size_t i = d->n; i; i -= d->block_elems)
        choose_codes(d, blocks + (i / d->block_elems - 1) * d->block_bytes, q, gradient, changes,
                     i - d->block_elems);
}

static void descend_rows(void *argument, struct rf_worker *worker)
{
    const struct descent *d = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, d->m, ROWS_GRAIN, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin; row < end; row++) descend_row(d, row);
}

/* `h`: the upper triangle of H counts. */
static void descend(struct descent *d, const float *h)
{
    const struct rf_blas *blas = d->gptq->blas;
    size_t k = d->k, end = d->first + d->n;
    const float *corner = h + d->first * k + d->first;
    for (size_t i = 0; i < d->n; i++)
        for (size_t j = i; j < d->n; j++)
            d->square[i * STEP + j] = d->square[j * STEP + i] = corner[i * k + j];
    rf_team_run(d->gptq->team, 0, descend_rows, d);
    rf_blas_subtract_product(blas, d->gradient + end, k, d->changes, STEP, h + d->first * k + end,
                             k, d->m, k - end, d->n);
    rf_blas_subtract_transposed(blas, d->gradient, k, d->changes, STEP, h + d->first, k, d->m,
                                d->first, d->n);
}

int rf_gptq_descend(const struct rf_gptq *gptq, const float *h, float *w, size_t m, size_t k,
                    enum rf_dtype dtype, size_t group, void *blocks, struct rf_error *error)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    struct descent d = {.gptq = gptq,
                        .layout = rf_grid_layout(dtype),
                        .blocks = blocks,
                        .m = m,
                        .k = k,
                        .block_elems = info->block_elems,
                        .block_bytes = info->block_bytes};
    if (dtype == RF_W4A8 && group && STEP % group == 0) d.group = group;
    /* One block: gradient, changes, square. */
    d.gradient = rf_malloc(gptq->allocator, m * (k + STEP) + STEP * STEP, sizeof *d.gradient,
                           "calibrating", error);
    if (!d.gradient) return RF_ERR_MEMORY;
    d.changes = d.gradient + m * k;
    d.square = d.changes + m * STEP;
    rf_dequantize_f32(dtype, blocks, d.gradient, m * k);
    for (size_t i = 0; i < m * k; i++) w[i] -= d.gradient[i];
    rf_blas_symmetric_product(gptq->blas, d.gradient, w, h, m, k);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (size_t end = k; end; end = d.first) {
            d.first = (end - 1) / STEP * STEP;
            d.n = end - d.first;
            descend(&d, h);
        }
    rf_free(gptq->allocator, d.gradient);
    return 0;
}
