/* Attention over quantised groups for many queries: lanes are queries. A group's code, scale or
 * middle for a channel or a position is one number for all lanes. attention_kv.h, the driver, calls
 * it. */
#ifndef RF_MICROKERNELS_ATTENTION_KV_COLUMNS_H
#define RF_MICROKERNELS_ATTENTION_KV_COLUMNS_H

#include "microkernels/attention_kv_common.h"

enum {
    HALF = SUMS / 2,
    QUAD = 4 * LANES * CODE_BYTES, /* bytes of four values of k of a column, rounded */
    MOST_COLUMNS = TOGETHER / LANES
};

/* Up to LANES queries in progress. Vectors in memory are [.][LANES]. */
struct column {
    float *q, *out;  /* [padded dim] */
    float *x;        /* [RF_KV_GROUP]: scores, then weights */
    int8_t *rounded; /* quads: folded queries, then weights */
    whole excess;    /* excess of a tier's products with `rounded` */
    lanes top, unit, sum, middle;
    lanes most; /* score */
    struct results results;
    lanes exponent, total; /* weights are relative to 2^exponent; their sum */
    lanes keep;            /* factor of earlier groups' results */
};

/* Decodes a block of 16 rows, in the tier's order. Without lower nibbles codes are the upper ones,
 * 0 .. 15. */
INLINE void kv_decode(uint8_t *codes, const struct planes *planes, size_t block, size_t depth,
                      int has_lower);

/* Writes four values of k of all lanes, -127 .. 127, as a quad. What it returns is added to the
 * column's excess. */
INLINE whole kv_store(int8_t *quad, const whole x[4], int has_lower);

/* sums[c][16][LANES] = sum_k code x_k, of a block's codes with the quads of one or two columns. */
static void kv_products(const uint8_t *codes, const struct column *columns, size_t n, size_t depth,
                        int has_lower, int32_t *sums);

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Takes n queries from rows. Lanes without one are zeros. */
INLINE void load_queries(struct column *column, const float *const *q, size_t n, size_t dim)
{
    memset(column->q, 0, rf_padded(dim) * LANES * sizeof(float));
    for (size_t a = 0; a < n; a += 4)
        for (size_t j = 0; j < dim; j += 4) {
            float *to = column->q + j * LANES + a;
            if (n - a >= 4 && dim - j >= 4) {
                __m128 x[4];
                UNROLL
                for (size_t i = 0; i < 4; i++) x[i] = _mm_loadu_ps(q[a + i] + j);
                _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
                UNROLL
                for (size_t i = 0; i < 4; i++) _mm_storeu_ps(to + i * LANES, x[i]);
                continue;
            }
            for (size_t i = 0; i < least(n - a, 4); i++)
                for (size_t k = 0; k < least(dim - j, 4); k++) to[k * LANES + i] = q[a + i][j + k];
        }
}

/* Puts the results of n queries into rows. */
INLINE void store_results(const struct column *column, float *out, size_t ldo, size_t n,
                          size_t padded)
{
    float exponent[LANES], total[LANES];
    l_store(exponent, column->exponent);
    l_store(total, column->total);
    for (size_t a = 0; a < n; a++) {
        out[a * ldo + padded] = exponent[a] * LN_2;
        out[a * ldo + padded + 1] = total[a];
    }
    for (size_t a = 0; a < n; a += 4)
        for (size_t j = 0; j < padded; j += 4) {
            __m128 x[4];
            UNROLL
            for (size_t i = 0; i < 4; i++) x[i] = _mm_loadu_ps(column->out + (j + i) * LANES + a);
            _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
            UNROLL
            for (size_t i = 0; i < 4; i++)
                if (a + i < n) _mm_storeu_ps(out + (a + i) * ldo + j, x[i]);
        }
}

/* ---- steps ---- */

/* The rest of add_sums: x[i] has the sums i and i + HALF. */
INLINE lanes add_lanes(lanes x[HALF])
{
    UNROLL
    for (size_t half = HALF / 2; half > 0; half /= 2) UNROLL
    for (size_t i = 0; i < half; i++) x[i] = l_add(x[i], x[i + half]);
    return x[0];
}

INLINE void fold_queries(struct column *column, const struct group_floats *floats, size_t padded)
{
    const float *q = column->q;
    lanes top = l_set(0.0f), middles[HALF];
    for (size_t i = 0; i < HALF; i++) {
        lanes middle[2] = {l_set(0.0f), l_set(0.0f)};
        for (size_t k = i; k < padded; k += SUMS) UNROLL
        for (size_t s = 0; s < 2; s++) {
            size_t j = k + s * HALF;
            lanes value = l_load(q + j * LANES);
            middle[s] = l_fma(value, l_set(floats->k_middle[j]), middle[s]);
            top = l_max(l_abs(l_mul(value, l_set(floats->k_scale[j]))), top);
        }
        middles[i] = l_add(middle[0], middle[1]);
    }
    column->top = top;
    column->middle = add_lanes(middles);
}

/* Rounds n vectors, times a scale of each (or NULL), or with a dither. */
INLINE void round_column(struct column *column, const float *x, size_t n, const float *scale,
                         const float *dither, int has_lower)
{
    lanes most = l_set(MOST), factor = l_positive(l_div(most, column->top), column->top);
    whole sum = w_set(0), excess = w_set(0), value[4];
    for (size_t k = 0; k < n; k += 4) {
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            lanes at = l_load(x + (k + i) * LANES);
            at = scale ? l_mul(l_mul(at, l_set(scale[k + i])), factor)
                       : l_fma(at, factor, l_set(dither[k + i]));
            value[i] = l_round(at);
            sum = w_add(sum, value[i]);
        }
        excess = w_add(excess, kv_store(column->rounded + k / 4 * QUAD, value, has_lower));
    }
    column->excess = excess;
    column->unit = l_div(column->top, most);
    column->sum = l_float(sum);
}

/* The results' step and start, for what was rounded last. */
INLINE void prepare_results(struct column *column, lanes scale, int has_lower)
{
    lanes unit = l_mul(column->unit, scale);
    lanes codes = l_mul(l_mul(unit, l_set(code_middle(has_lower))), column->sum);
    column->results.step = has_lower ? unit : l_mul(l_set(16.0f), unit);
    column->results.start = l_sub(l_mul(column->middle, scale), codes);
}

/* The scores of a block of 16 positions from p on, times log2 e. */
INLINE void take_column_scores(struct column *column, const int32_t *sums, size_t p)
{
    const struct results results = column->results;
    float *score = column->x + p * LANES;
    lanes most = column->most;
    UNROLL
    for (size_t i = 0; i < 16; i++) {
        lanes value = take_sums(&results, sums + i * LANES);
        l_store(score + i * LANES, value);
        most = l_max(value, most);
    }
    column->most = most;
}

/* Applies a cap to the scores, and hides positions before each query's `first` (or NULL: none). */
INLINE void limit_column(struct column *column, const int32_t *first, size_t n, float cap)
{
    lanes most = l_set(-INFINITY), inner = l_set(1 / cap), outer = l_set(cap);
    for (size_t p = 0; cap > 0 && p < RF_KV_GROUP; p++) {
        float *x = column->x + p * LANES;
        l_store(x, l_mul(l_tanh(l_mul(l_load(x), inner)), outer));
    }
    for (size_t a = 0; first && a < n; a++)
        for (size_t p = 0; p < (size_t)first[a]; p++) column->x[p * LANES + a] = -INFINITY;
    for (size_t p = 0; p < RF_KV_GROUP; p++) most = l_max(l_load(column->x + p * LANES), most);
    column->most = most;
}

/* From scores to weights times V's scales, and what earlier results and these count: merging rounds
 * nothing but sums, as factors are powers of 2. */
INLINE void soften_column(struct column *column, const struct group_floats *floats,
                          struct ahead *ahead, int has_lower)
{
    const lanes shift = l_set(TO_INTEGER);
    lanes exponent = l_sub(l_add(column->most, shift), shift), top = l_set(0.0f);
    lanes totals[HALF], middles[HALF];
    float *x = column->x;
    for (size_t i = 0; i < HALF; i++) {
        lanes total[2] = {l_set(0.0f), l_set(0.0f)}, middle[2] = {l_set(0.0f), l_set(0.0f)};
        for (size_t k = i; k < RF_KV_GROUP; k += SUMS) UNROLL
        for (size_t s = 0; s < 2; s++) {
            size_t p = k + s * HALF;
            lanes weight = l_exp2(l_sub(l_load(x + p * LANES), exponent));
            total[s] = l_add(total[s], weight);
            middle[s] = l_fma(weight, l_set(floats->v_middle[p]), middle[s]);
            weight = l_mul(weight, l_set(floats->v_scale[p]));
            l_store(x + p * LANES, weight);
            top = l_max(weight, top);
        }
        totals[i] = l_add(total[0], total[1]);
        middles[i] = l_add(middle[0], middle[1]);
        prefetch(ahead, ahead->unit);
    }
    lanes later = l_max(exponent, column->exponent), take = l_exp2(l_sub(exponent, later));
    column->keep = l_exp2(l_sub(column->exponent, later));
    column->total = l_add(l_mul(column->total, column->keep), l_mul(add_lanes(totals), take));
    column->exponent = later;
    column->top = top;
    column->middle = add_lanes(middles);
    round_column(column, column->x, RF_KV_GROUP, NULL, rf_kv_dither, has_lower);
    prepare_results(column, take, has_lower);
}

/* Adds the values of up to 16 channels from j on to the results. */
INLINE void take_column_values(struct column *column, const int32_t *sums, size_t j, size_t dim)
{
    const struct results results = column->results;
    lanes keep = column->keep;
    float *out = column->out + j * LANES;
    for (size_t i = 0; i < least(16, dim - j); i++)
        l_store(out + i * LANES,
                l_fma(l_load(out + i * LANES), keep, take_sums(&results, sums + i * LANES)));
}

/* ---- columns together ---- */

INLINE size_t column_bytes(size_t padded)
{
    size_t longest = padded > RF_KV_GROUP ? padded : RF_KV_GROUP;
    return (2 * padded + RF_KV_GROUP) * LANES * sizeof(float) + longest / 4 * QUAD;
}

INLINE size_t columns_at_once(size_t padded)
{
    return least(MOST_COLUMNS, COLUMNS_ROOM / column_bytes(padded));
}

/* Columns over a group. */
struct columns {
    struct column *at;
    size_t n;
    struct group_floats floats;
    _Alignas(64) uint8_t codes[16 * (4 + RF_KV_MOST_DIM * CODE_BYTES)];
    _Alignas(64) int32_t sums[2][16 * LANES];
};

INLINE void fold_columns(struct columns *columns, float scale, size_t padded, int has_lower)
{
    for (size_t c = 0; c < columns->n; c++) {
        struct column *column = &columns->at[c];
        fold_queries(column, &columns->floats, padded);
        round_column(column, column->q, padded, columns->floats.k_scale, NULL, has_lower);
        prepare_results(column, l_set(scale * LOG2_E), has_lower);
        column->most = l_set(-INFINITY);
    }
}

INLINE void score_columns(struct columns *columns, const struct planes *planes, size_t padded,
                          struct ahead *ahead, int has_lower)
{
    for (size_t p = 0; p < RF_KV_GROUP; p += 16) {
        kv_decode(columns->codes, planes, p / 16, padded, has_lower);
        for (size_t c = 0, n; c < columns->n; c += n) {
            struct column *column = &columns->at[c];
            n = least(columns->n - c, 2);
            kv_products(columns->codes, column, n, padded, has_lower, columns->sums[0]);
            for (size_t i = 0; i < n; i++) take_column_scores(column + i, columns->sums[i], p);
            prefetch(ahead, n * ahead->unit);
        }
    }
}

INLINE void value_columns(struct columns *columns, const struct planes *planes, size_t dim,
                          struct ahead *ahead, int has_lower)
{
    for (size_t j = 0; j < dim; j += 16) {
        kv_decode(columns->codes, planes, j / 16, RF_KV_GROUP, has_lower);
        for (size_t c = 0, n; c < columns->n; c += n) {
            struct column *column = &columns->at[c];
            n = least(columns->n - c, 2);
            kv_products(columns->codes, column, n, RF_KV_GROUP, has_lower, columns->sums[0]);
            for (size_t i = 0; i < n; i++) take_column_values(column + i, columns->sums[i], j, dim);
            prefetch(ahead, n * ahead->unit);
        }
    }
}

INLINE void attend_columns_group(const struct rf_attention_kv_args *args, size_t g,
                                 struct columns *columns, struct ahead *ahead, int has_lower)
{
    const struct rf_kv_group *group = &args->groups[g];
    const struct planes k = {group->k_upper, has_lower ? group->k_lower : NULL},
                        v = {group->v_upper, has_lower ? group->v_lower : NULL};
    const int32_t *first = g == 0 ? args->first : NULL;
    size_t padded = rf_padded(args->head_dim);
    widen_group(&columns->floats, group, padded);
    fold_columns(columns, args->scale, padded, has_lower);
    score_columns(columns, &k, padded, ahead, has_lower);
    for (size_t c = 0; c < columns->n; c++) {
        size_t begin = c * LANES;
        if (first || args->cap > 0)
            limit_column(&columns->at[c], first ? first + begin : NULL,
                         least(LANES, args->n_q - begin), args->cap * LOG2_E);
        soften_column(&columns->at[c], &columns->floats, ahead, has_lower);
    }
    value_columns(columns, &v, args->head_dim, ahead, has_lower);
}

INLINE void begin_column(struct column *column, char *room, size_t padded)
{
    column->q = (float *)(void *)room;
    column->out = column->q + padded * LANES;
    column->x = column->out + padded * LANES;
    column->rounded = (int8_t *)(column->x + RF_KV_GROUP * LANES);
    column->exponent = l_set(-INFINITY);
    column->total = l_set(0.0f);
    memset(column->out, 0, padded * LANES * sizeof(float));
}

/* At most columns_at_once of them. */
APART static void attend_columns(const struct part *part)
{
    const struct rf_attention_kv_args *args = &part->args;
    size_t padded = rf_padded(args->head_dim), n = (args->n_q + LANES - 1) / LANES;
    struct column at[MOST_COLUMNS];
    struct columns columns;
    _Alignas(64) char room[COLUMNS_ROOM];
    columns.at = at;
    columns.n = n;
    for (size_t c = 0; c < n; c++) {
        begin_column(&at[c], room + c * column_bytes(padded), padded);
        load_queries(&at[c], args->q + c * LANES, least(LANES, args->n_q - c * LANES),
                     args->head_dim);
    }
    for (size_t g = 0; g < args->n_groups; g++) {
        struct ahead ahead = ahead_of(part, g, n * (RF_KV_GROUP / 16 + HALF + padded / 16));
        if (args->groups[g].k_lower)
            attend_columns_group(args, g, &columns, &ahead, 1);
        else
            attend_columns_group(args, g, &columns, &ahead, 0);
    }
    for (size_t c = 0; c < n; c++)
        store_results(&at[c], args->out + c * LANES * args->ldo, args->ldo,
                      least(LANES, args->n_q - c * LANES), padded);
}

#endif
