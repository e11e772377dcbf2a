/* A row's step of the delta rule or of Mamba-2 in vectors (struct rf_delta_args). A tier's file
 * defines `columns`, which holds RF_DELTA_COLUMNS floats, `columns_lanes`, those of them that are
 * in the matrix, and the functions on them; then it includes this. No sum waits for the one of the
 * row before. */
#include "microkernels/kernels.h"

/* Sums of rows r, r + 4, r + 8 and so on. */
typedef struct {
    columns sums[RF_DELTA_SUMS];
} columns_sums;

INLINE columns columns_total(const columns_sums *s)
{
    return columns_add(columns_add(s->sums[0], s->sums[1]), columns_add(s->sums[2], s->sums[3]));
}

INLINE void recall_row(const struct rf_delta_args *args, size_t r, columns_lanes lanes,
                       columns *sum)
{
    columns s = columns_load(args->from + r * args->width, lanes);
    *sum = columns_fma(s, columns_set(args->k[r]), *sum);
}

INLINE void store_row(const struct rf_delta_args *args, size_t r, columns_lanes lanes, columns u,
                      columns g, columns *sum)
{
    columns s = columns_mul(g, columns_load(args->from + r * args->width, lanes));
    s = columns_fma(columns_set(args->k[r]), u, s);
    if (args->to) columns_store(args->to + r * args->width, lanes, s);
    if (args->out) *sum = columns_fma(s, columns_set(args->q[r]), *sum);
}

/* S'^T k */
INLINE columns recall(const struct rf_delta_args *args, columns_lanes lanes)
{
    const columns zero = columns_set(0.0f);
    columns_sums held = {{zero, zero, zero, zero}};
    size_t r = 0, n = args->rows;
    for (; r + 4 <= n; r += 4) {
        recall_row(args, r, lanes, &held.sums[0]);
        recall_row(args, r + 1, lanes, &held.sums[1]);
        recall_row(args, r + 2, lanes, &held.sums[2]);
        recall_row(args, r + 3, lanes, &held.sums[3]);
    }
    if (r < n) recall_row(args, r, lanes, &held.sums[0]);
    if (r + 1 < n) recall_row(args, r + 1, lanes, &held.sums[1]);
    if (r + 2 < n) recall_row(args, r + 2, lanes, &held.sums[2]);
    return columns_total(&held);
}

INLINE void delta_step_in(const struct rf_delta_args *args, columns_lanes lanes)
{
    const columns zero = columns_set(0.0f), g = columns_set(args->g);
    columns_sums results = {{zero, zero, zero, zero}};
    columns u = columns_load(args->v, lanes);
    size_t r, n = args->rows;
    if (!args->is_mamba) u = columns_fma(columns_set(-args->g), recall(args, lanes), u);
    u = columns_mul(columns_set(args->b), u);
    for (r = 0; r + 4 <= n; r += 4) {
        store_row(args, r, lanes, u, g, &results.sums[0]);
        store_row(args, r + 1, lanes, u, g, &results.sums[1]);
        store_row(args, r + 2, lanes, u, g, &results.sums[2]);
        store_row(args, r + 3, lanes, u, g, &results.sums[3]);
    }
    if (r < n) store_row(args, r, lanes, u, g, &results.sums[0]);
    if (r + 1 < n) store_row(args, r + 1, lanes, u, g, &results.sums[1]);
    if (r + 2 < n) store_row(args, r + 2, lanes, u, g, &results.sums[2]);
    if (args->out) columns_store(args->out, lanes, columns_total(&results));
}
