/* Rounds a matrix column by column and makes up for each error in the columns that are left, in
 * steps whose effect on the rest is one matrix product. Rows are independent of each other, so
 * workers share them. src/calibrate calls it. */
#include "quant/gptq.h"

#include <math.h>
#include <string.h>

enum {
    STEP = 256, /* columns that are rounded before the others are compensated; whole blocks */
    PART = RF_GRID_GROUP, /* columns before the others of a step are */
    LANES = RF_GRID_LANES /* rows that a worker rounds together */
};

/* ---- the factor ---- */

/* Copies the triangle below the diagonal to the one above it, or back; in tiles, as whole columns
 * would miss the cache. */
static void mirror(float *h, size_t k, int back)
{
    enum { TILE = 32 };
    for (size_t row = 0; row < k; row += TILE)
        for (size_t column = 0; column <= row; column += TILE)
            for (size_t i = row; i < row + TILE && i < k; i++)
                for (size_t j = column; j < column + TILE && j < i; j++) {
                    float *below = &h[i * k + j], *above = &h[j * k + i];
                    *(back ? below : above) = *(back ? above : below);
                }
}

void rf_gptq_swap_diagonal(float *h, size_t k)
{
    for (size_t i = 0; i < k; i++) {
        float kept = h[i * k + i];
        h[i * k + i] = h[k * k + i];
        h[k * k + i] = kept;
    }
}

int rf_gptq_factor(const struct rf_gptq *gptq, float *h, size_t k, const float *damping,
                   struct rf_error *error)
{
    enum { TRIES = 5 };
    float *diagonal = h + k * k, times = 1, before = 0;
    int failed = 1, is_finite = 1;
    for (size_t i = 0; i < k; i++) {
        diagonal[i] = h[i * k + i];
        is_finite &= isfinite(diagonal[i] + damping[i]);
    }
    mirror(h, k, 0);
    for (int i = 0; is_finite && failed && i < TRIES; i++, before = times, times *= 10) {
        if (i) mirror(h, k, 1); /* the last try has spoilt it */
        for (size_t j = 0; j < k; j++) {
            diagonal[j] += (times - before) * damping[j];
            h[j * k + j] = diagonal[j];
        }
        failed = rf_blas_invert_factor(gptq->blas, h, k);
    }
    return failed ? rf_fail(error, RF_ERR_UNSUPPORTED,
                            "calibrating: the inputs of a layer have no numbers")
                  : 0;
}

/* ---- rounding ---- */

struct step {
    const struct rf_gptq *gptq;
    const struct rf_grid_layout *layout;
    const float *factor;
    float *w; /* [m][k]: a column holds its errors once it is rounded */
    uint8_t *blocks;
    size_t m, k, first, end; /* columns */
    size_t group;            /* columns that share a scale */
    size_t block_elems, block_bytes;
    const float *importance; /* [k] of errors */
    struct rf_grid *grids;   /* [m][STEP / PART] */
    uint8_t *codes;          /* [m][STEP] */
};

static uint8_t *gptq_block(const struct step *step, size_t row, size_t column)
{
    return step->blocks + (row * step->k + column) / step->block_elems * step->block_bytes;
}

/* Begins a block. If a group ends with it, its scales are chosen for the columns' current values.
 */
static void begin_block(const struct step *step, size_t row, size_t block_end)
{
    size_t first = (block_end - 1) / step->group * step->group, k = step->k;
    size_t end = first + step->group < k ? first + step->group : k;
    size_t block = block_end - step->block_elems;
    if (block_end == end)
        rf_grid_choose(step->layout, step->w + row * k + first, step->importance + first,
                       end - first, gptq_block(step, row, first));
    rf_grid_read(step->layout, gptq_block(step, row, block),
                 step->grids + row * (STEP / PART) + (block - step->first) / PART);
}

/* Rounds a part of n rows, and makes up for the errors in the columns of the part. */
static void round_part(const struct step *step, size_t row, size_t n, size_t part)
{
    size_t k = step->k, at = part - step->first;
    float w[PART][LANES] = {{0}};
    uint8_t codes[PART][LANES];
    struct rf_grid_lanes grids = {{0}, {0}, {0}};
    for (size_t lane = 0; lane < n; lane++) {
        if ((part + PART) % step->block_elems == 0) begin_block(step, row + lane, part + PART);
        const struct rf_grid *grid = &step->grids[(row + lane) * (STEP / PART) + at / PART];
        grids.scale[lane] = grid->scale;
        grids.inverse[lane] = grid->inverse;
        grids.base[lane] = grid->base;
        for (size_t i = 0; i < PART; i++) w[i][lane] = step->w[(row + lane) * k + part + i];
    }
    for (size_t i = PART; i-- > 0;) {
        const float *factor = step->factor + (part + i) * k + part;
        float values[LANES], inverse = 1.0f / factor[i];
        rf_grid_round(step->layout, &grids, w[i], values, codes[i]);
        for (size_t lane = 0; lane < LANES; lane++)
            w[i][lane] = (w[i][lane] - values[lane]) * inverse;
        for (size_t c = 0; c < i; c++)
            for (size_t lane = 0; lane < LANES; lane++) w[c][lane] -= w[i][lane] * factor[c];
    }
    for (size_t lane = 0; lane < n; lane++) {
        uint8_t *out = step->codes + (row + lane) * STEP + at;
        for (size_t i = 0; i < PART; i++) {
            step->w[(row + lane) * k + part + i] = w[i][lane];
            out[i] = codes[i][lane];
        }
        if (part % step->block_elems == 0)
            rf_grid_put(step->layout, gptq_block(step, row + lane, part), out);
    }
}

/* Makes up for the errors of columns [from, to) of m rows in columns [first, from). */
static void compensate(const struct step *step, size_t row, size_t m, size_t first, size_t from,
                       size_t to)
{
    size_t k = step->k;
    float *w = step->w + row * k;
    rf_blas_subtract_product(step->gptq->blas, w + first, k, w + from, k,
                             step->factor + from * k + first, k, m, from - first, to - from);
}

static void round_rows(void *argument, struct rf_worker *worker)
{
    const struct step *step = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, step->m, LANES, 0.0);
    while (rf_share_next(&share, &begin, &end)) {
        for (size_t row = begin; row < end && step->end == step->k; row++)
            rf_grid_begin_row(step->layout, step->w + row * step->k, step->importance, step->k,
                              gptq_block(step, row, 0));
        for (size_t row = begin, n; row < end; row += n) {
            n = end - row < LANES ? end - row : LANES;
            for (size_t part = step->end; part > step->first;) {
                part -= PART;
                round_part(step, row, n, part);
                /* The product is so small that OpenBLAS starts no threads for it. */
                compensate(step, row, n, step->first, part, part + PART);
            }
        }
    }
}

int rf_gptq_round(const struct rf_gptq *gptq, const float *factor, float *w, size_t m, size_t k,
                  enum rf_dtype dtype, size_t group, void *blocks, struct rf_error *error)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    struct step step = {.gptq = gptq,
                        .layout = rf_grid_layout(dtype),
                        .factor = factor,
                        .w = w,
                        .blocks = blocks,
                        .m = m,
                        .k = k,
                        .block_elems = info->block_elems,
                        .block_bytes = info->block_bytes,
                        .group = group ? group : k};
    float *importance = rf_malloc(gptq->allocator, k, sizeof *importance, "calibrating", error);
    step.grids =
        rf_malloc(gptq->allocator, m, STEP / PART * sizeof *step.grids, "calibrating", error);
    step.codes = rf_malloc(gptq->allocator, m, STEP, "calibrating", error);
    step.importance = importance;
    int code = importance && step.grids && step.codes ? 0 : RF_ERR_MEMORY;
    for (size_t j = 0; !code && j < k; j++)
        importance[j] = 1.0f / (factor[j * k + j] * factor[j * k + j]);
    for (step.end = k; !code && step.end; step.end = step.first) {
        step.first = (step.end - 1) / STEP * STEP;
        rf_team_run(gptq->team, 0, round_rows, &step);
        compensate(&step, 0, m, 0, step.first, step.end);
    }
    rf_free(gptq->allocator, importance);
    rf_free(gptq->allocator, step.grids);
    rf_free(gptq->allocator, step.codes);
    return code;
}
