/* Rounds weights again by coordinate descent, one step of columns after the other. Within a step
 * rows are independent, so workers share them; before the next step all other columns learn of
 * the changes. src/calibrate calls it after rf_gptq_round. */
#include "quant/descent.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

enum {
    STEP = 256,           /* columns whose changes reach the other columns together; whole blocks */
    PART = RF_GRID_GROUP, /* columns whose changes reach the others of a step together */
    ROUNDS = 2,           /* rounds over a step's columns before the others learn of it */
    LANES = RF_GRID_LANES /* rows that a worker rounds together */
};

/* A row's state during a step. */
struct row {
    float q[STEP];       /* the rounded weights */
    float changes[STEP]; /* changes of q in this step */
    float sums[STEP];    /* q H over a group */
    float latest[PART];  /* changes of a part */
    struct rf_grid grids[STEP / PART];
    uint8_t codes[STEP];
};

enum { LD = sizeof(struct row) / sizeof(float) };

struct descent {
    const struct rf_gptq *gptq;
    const struct rf_grid_layout *layout;
    float *gradient; /* [m][k]: (w - q) H, half the squared error's falling slope */
    struct row *rows;
    float (*square)[STEP]; /* H between the columns of a step */
    uint8_t *blocks;
    size_t m, k, first, n; /* columns [first, first + n) */
    size_t group;          /* columns that share a scale that is fitted; 0: none */
    size_t block_elems, block_bytes;
};

/* Works on rows [row, row + n), n <= LANES. */
typedef void rows_function(const struct descent *d, size_t row, size_t n);

struct work {
    const struct descent *d;
    rows_function *function;
};

static void do_rows(void *argument, struct rf_worker *worker)
{
    const struct work *work = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, work->d->m, LANES, 0.0);
    while (rf_share_next(&share, &begin, &end))
        for (size_t row = begin; row < end; row += LANES)
            work->function(work->d, row, end - row < LANES ? end - row : LANES);
}

static void for_rows(const struct descent *d, rows_function *function)
{
    struct work work = {d, function};
    rf_team_run(d->gptq->team, 0, do_rows, &work);
}

static uint8_t *descent_block(const struct descent *d, size_t row, size_t i)
{
    return d->blocks + (row * d->k + d->first + i) / d->block_elems * d->block_bytes;
}

static void read_rows(const struct descent *d, size_t i, size_t n)
{
    for (size_t end = i + n; i < end; i++) {
        struct row *row = &d->rows[i];
        rf_dequantize_f32(d->layout->dtype, descent_block(d, i, 0), row->q, d->n);
        memset(row->changes, 0, sizeof row->changes);
    }
}

/* The scale of a group of W4A8 with the least error for its codes. */
static void fit_scale(const struct descent *d, size_t i, size_t begin, size_t end)
{
    struct row *row = &d->rows[i];
    float slope = 0, curvature = 0, *gradient = d->gradient + i * d->k + d->first;
    for (size_t j = begin; j < end; j++) {
        slope += row->q[j] * gradient[j];
        curvature += row->q[j] * row->sums[j];
    }
    uint16_t half;
    memcpy(&half, descent_block(d, i, begin), sizeof half);
    float old = rf_f16_to_f32(half);
    half = rf_f32_to_f16(old * (1 + slope / curvature));
    float more = rf_f16_to_f32(half) / old - 1;
    if (!(fabsf(more) < 0.5f)) return; /* no codes, or no numbers */
    for (size_t j = 0; j < d->n; j++) gradient[j] -= more * row->sums[j];
    for (size_t j = begin; j < end; j++) {
        row->changes[j] += more * row->q[j];
        row->q[j] += more * row->q[j];
    }
    for (size_t j = begin; j < end; j += d->block_elems)
        memcpy(descent_block(d, i, j), &half, sizeof half);
}

/* The products of LANES rows are so small that OpenBLAS starts no threads for them. */
static void fit_scales(const struct descent *d, size_t row, size_t n)
{
    for (size_t begin = 0, end; begin < d->n; begin = end) {
        end = begin + d->group < d->n ? begin + d->group : d->n;
        for (size_t at = 0; at < d->n; at += STEP / 2)
            rf_blas_product(d->gptq->blas, d->rows[row].sums + at, LD, d->rows[row].q + begin, LD,
                            d->square[begin] + at, STEP, n,
                            d->n - at < STEP / 2 ? d->n - at : STEP / 2, end - begin);
        for (size_t i = row; i < row + n; i++) fit_scale(d, i, begin, end);
    }
}

static void read_grids(const struct descent *d, size_t row, size_t n)
{
    for (size_t i = row; i < row + n; i++)
        for (size_t j = 0; j < d->n; j += d->block_elems)
            rf_grid_read(d->layout, descent_block(d, i, j), &d->rows[i].grids[j / PART]);
}

/* A part of some rows. */
struct part {
    float q[PART][LANES], changes[PART][LANES], gradient[PART][LANES];
    uint8_t codes[PART][LANES];
    struct rf_grid_lanes grids;
};

static void read_part(const struct descent *d, struct part *part, size_t row, size_t n,
                      size_t begin)
{
    memset(part, 0, sizeof *part);
    for (size_t lane = 0; lane < n; lane++) {
        const struct row *from = &d->rows[row + lane];
        const struct rf_grid *grid = &from->grids[begin / PART];
        const float *gradient = d->gradient + (row + lane) * d->k + d->first + begin;
        part->grids.scale[lane] = grid->scale;
        part->grids.inverse[lane] = grid->inverse;
        part->grids.base[lane] = grid->base;
        for (size_t i = 0; i < PART; i++) {
            part->q[i][lane] = from->q[begin + i];
            part->gradient[i][lane] = gradient[i];
        }
    }
}

static void store_part(const struct descent *d, const struct part *part, size_t row, size_t n,
                       size_t begin)
{
    for (size_t lane = 0; lane < n; lane++) {
        struct row *to = &d->rows[row + lane];
        for (size_t i = 0; i < PART; i++) {
            to->q[begin + i] = part->q[i][lane];
            to->latest[i] = part->changes[i][lane];
            to->changes[begin + i] += part->changes[i][lane];
            to->codes[begin + i] = part->codes[i][lane];
        }
    }
}

/* Gives each value of a part the code that is best with all others as they are. */
static void choose_codes(const struct descent *d, size_t row, size_t n, size_t begin)
{
    struct part part;
    read_part(d, &part, row, n, begin);
    for (size_t i = PART; i-- > 0;) {
        const float *h = d->square[begin + i] + begin;
        float best[LANES], inverse = 1.0f / h[i], *q = part.q[i], *change = part.changes[i];
        for (size_t lane = 0; lane < LANES; lane++)
            best[lane] = q[lane] + part.gradient[i][lane] * inverse;
        for (size_t lane = 0; lane < LANES; lane++) change[lane] = q[lane];
        rf_grid_round(d->layout, &part.grids, best, q, part.codes[i]);
        for (size_t lane = 0; lane < LANES; lane++) change[lane] = q[lane] - change[lane];
        for (size_t c = 0; c < i; c++)
            for (size_t lane = 0; lane < LANES; lane++)
                part.gradient[c][lane] -= change[lane] * h[c];
    }
    store_part(d, &part, row, n, begin);
}

static void put_codes(const struct descent *d, size_t row, size_t n)
{
    for (size_t i = row; i < row + n; i++)
        for (size_t j = 0; j < d->n; j += d->block_elems)
            rf_grid_put(d->layout, descent_block(d, i, j), d->rows[i].codes + j);
}

static void descend_rows(const struct descent *d, size_t row, size_t n)
{
    read_rows(d, row, n);
    for (int round = 0; round < ROUNDS; round++) {
        if (d->group) fit_scales(d, row, n);
        read_grids(d, row, n);
        for (size_t begin = d->n; begin;) {
            begin -= PART;
            choose_codes(d, row, n, begin);
            rf_blas_subtract_product(d->gptq->blas, d->gradient + row * d->k + d->first, d->k,
                                     d->rows[row].latest, LD, d->square[begin], STEP, n, d->n,
                                     PART);
        }
    }
    put_codes(d, row, n);
}

/* `h`: the upper triangle of H counts. is_last: no other sweep follows, which would look at the
 * columns behind. */
static void descend(struct descent *d, const float *h, int is_last)
{
    const struct rf_blas *blas = d->gptq->blas;
    size_t k = d->k, end = d->first + d->n;
    const float *corner = h + d->first * k + d->first;
    for (size_t i = 0; i < d->n; i++)
        for (size_t j = i; j < d->n; j++) d->square[i][j] = d->square[j][i] = corner[i * k + j];
    for_rows(d, descend_rows);
    if (!is_last)
        rf_blas_subtract_product(blas, d->gradient + end, k, d->rows->changes, LD,
                                 h + d->first * k + end, k, d->m, k - end, d->n);
    rf_blas_subtract_transposed(blas, d->gradient, k, d->rows->changes, LD, h + d->first, k, d->m,
                                d->first, d->n);
}

int rf_gptq_descend(const struct rf_gptq *gptq, float *factor, float *errors, size_t m, size_t k,
                    enum rf_dtype dtype, size_t group, int sweeps, void *blocks,
                    struct rf_error *error)
{
    const struct rf_dtype_info *info = rf_dtype_info(dtype);
    struct descent d = {.gptq = gptq,
                        .layout = rf_grid_layout(dtype),
                        .gradient = errors,
                        .blocks = blocks,
                        .m = m,
                        .k = k,
                        .block_elems = info->block_elems,
                        .block_bytes = info->block_bytes};
    if (dtype == RF_W4A8 && group && STEP % group == 0) d.group = group;
    d.rows = rf_malloc(gptq->allocator, m, sizeof *d.rows, "calibrating", error);
    d.square = rf_malloc(gptq->allocator, STEP, sizeof *d.square, "calibrating", error);
    int code = d.rows && d.square ? 0 : RF_ERR_MEMORY;
    if (!code) {
        /* (w - q) H = errors L^-1 L L^T */
        rf_blas_divide_transposed(gptq->blas, errors, factor, m, k);
        rf_gptq_swap_diagonal(factor, k);
        for (int sweep = 1; sweep <= sweeps; sweep++)
            for (size_t end = k; end; end = d.first) {
                d.first = (end - 1) / STEP * STEP;
                d.n = end - d.first;
                descend(&d, factor, sweep == sweeps);
            }
        rf_gptq_swap_diagonal(factor, k);
    }
    rf_free(gptq->allocator, d.rows);
    rf_free(gptq->allocator, d.square);
    return code;
}
