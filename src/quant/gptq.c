#include "quant/gptq.h"

#include <string.h>

enum {
    STEP = 256,    /* columns that are rounded before the others are compensated */
    ROWS_GRAIN = 8 /* rows that a worker takes at a time */
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

int rf_gptq_factor(const struct rf_gptq *gptq, float *h, size_t k, struct rf_error *error)
{
    float *diagonal = h + k * k;
    double mean = 0, before = 0;
    int failed = 1;
    for (size_t i = 0; i < k; i++) {
        diagonal[i] = h[i * k + i];
        mean += (double)diagonal[i] / (double)k;
    }
    if (mean == 0) mean = 1; /* no input at all */
    mirror(h, k, 0);
    for (double damping = 0.01; failed && damping * mean < 100 * mean; damping *= 10) {
        if (damping > 0.01) mirror(h, k, 1); /* the last try has spoilt it */
        for (size_t i = 0; i < k; i++) {
            diagonal[i] += (float)((damping - before) * mean);
            h[i * k + i] = diagonal[i];
        }
        before = damping;
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
    float *w, *errors; /* [m][k]; [m][STEP] */
    uint8_t *blocks;
    size_t m, k, first, end; /* columns */
    size_t block_elems, block_bytes;
    size_t group;            /* columns that share a scale */
    const float *importance; /* [k] of errors */
};

/* Where a group ends with a block, its scales are chosen for what its columns hold by now. */
static void choose_scales(const struct step *step, size_t row, size_t block_end)
{
    size_t first = (block_end - 1) / step->group * step->group, k = step->k;
    size_t end = first + step->group < k ? first + step->group : k;
    if (block_end != end) return;
    rf_grid_choose(step->layout, step->gptq->kernels, step->w + row * k + first,
                   step->importance + first, end - first,
                   step->blocks + (row * k + first) / step->block_elems * step->block_bytes);
}

/* Rounds one row of a block whose columns begin at `at`, and makes up for the errors in the columns
 * of this step. */
static void round_block(const struct step *step, size_t row, size_t at)
{
    struct rf_grid grids[RF_SUPERBLOCK / RF_GRID_GROUP];
    uint8_t codes[RF_SUPERBLOCK];
    size_t k = step->k;
    float *w = step->w + row * k, *errors = step->errors + row * STEP;
    uint8_t *block =
        step->blocks + (row * (k / step->block_elems) + at / step->block_elems) * step->block_bytes;
    choose_scales(step, row, at + step->block_elems);
    rf_grid_read(step->layout, block, grids);
    for (size_t i = step->block_elems; i-- > 0;) {
        size_t j = at + i;
        const float *factor = step->factor + j * k;
        float value;
        codes[i] = (uint8_t)rf_grid_round(step->layout, &grids[i / RF_GRID_GROUP], w[j], &value);
        float error = (w[j] - value) / factor[j];
        errors[j - step->first] = error;
        for (size_t c = step->first; c < j; c++) w[c] -= error * factor[c];
    }
    rf_grid_put(step->layout, block, codes);
}

static void round_rows(void *argument, struct rf_worker *worker)
{
    const struct step *step = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, step->m, ROWS_GRAIN, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin; row < end; row++)
            for (size_t at = step->end; at > step->first; at -= step->block_elems)
                round_block(step, row, at - step->block_elems);
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
    /* One block: [m][STEP] errors, [k] importances. */
    step.errors =
        rf_malloc(gptq->allocator, m * STEP + k, sizeof *step.errors, "calibrating", error);
    if (!step.errors) return RF_ERR_MEMORY;
    float *importance = step.errors + m * STEP;
    for (size_t j = 0; j < k; j++) importance[j] = 1.0f / (factor[j * k + j] * factor[j * k + j]);
    step.importance = importance;
    for (step.end = k; step.end; step.end = step.first) {
        step.first = (step.end - 1) / STEP * STEP;
        rf_team_run(gptq->team, 0, round_rows, &step);
        rf_blas_subtract_product(gptq->blas, w, k, step.errors, STEP, factor + step.first * k, k, m,
                                 step.first, step.end - step.first);
    }
    rf_free(gptq->allocator, step.errors);
    return 0;
}
