/* Attention over quantised groups for a few queries: lanes are channels or positions.
 * attention_kv.h, the driver, calls it. */
#ifndef RF_MICROKERNELS_ATTENTION_KV_ROWS_H
#define RF_MICROKERNELS_ATTENTION_KV_ROWS_H

#include "microkernels/attention_kv_common.h"

enum {
    FEW = 12,     /* queries of a call */
    FACTORS = 16, /* whole vectors of numbers of queries */
    WIDTH =
        RF_KV_MOST_DIM + 64 /* row length in memory: no power of 2, so rows share no cache sets */
};

/* Vectors of n queries, rounded to bytes, and zeros up to a multiple of 64. */
struct byte_rows {
    _Alignas(64) int8_t at[FEW][WIDTH];
    size_t n;
    float unit[FEW];
    float sum[FEW];
};

/* Queries in progress: first folded queries, then scores, then weights. */
struct rows_state {
    _Alignas(64) float x[FEW][WIDTH];
    float top[FEW], middle[FEW];
    float exponent[FEW], total[FEW];    /* weights are relative to 2^exponent; their sum */
    float keep[FACTORS], take[FACTORS]; /* factors of earlier groups' results and of this one's */
    struct byte_rows rows;
    _Alignas(64) int32_t sums[FEW][WIDTH];
};

/* out[r][16 b + i] = sum_k code x.at[r][k] over the nibbles of the lane i of block b. `code`: both
 * nibbles, or the upper one alone (0 .. 15) where there are no lower ones. Meanwhile it prefetches
 * `lines` of each plane. Inlined, or copied for one caller, its sums would not stay in registers.
 */
APART static void kv_dots(const struct planes *planes, size_t depth, size_t blocks,
                          const struct byte_rows *x, int32_t (*out)[WIDTH], struct ahead *ahead,
                          size_t lines);

/* Rounds the vector of query a, of n values and zeros up to a multiple of 64. `dither` may be NULL.
 */
INLINE void round_query(struct rows_state *state, size_t a, size_t n, const float *dither)
{
    const float *x = state->x[a];
    float top = state->top[a];
    lanes factor = l_set(top > 0 ? MOST / top : 0.0f);
    whole sum = w_set(0), value[64 / LANES];
    for (size_t i = 0; i < n; i += 64) {
        UNROLL
        for (size_t b = 0; b < 64 / LANES; b++) {
            lanes scaled = l_load(x + i + b * LANES);
            scaled = dither ? l_fma(scaled, factor, l_load(dither + i + b * LANES))
                            : l_mul(scaled, factor);
            value[b] = l_round(scaled);
            sum = w_add(sum, value[b]);
        }
        w_store8(state->rows.at[a] + i, value);
    }
    state->rows.unit[a] = top / MOST;
    state->rows.sum[a] = (float)w_sum(sum);
}

INLINE struct results results_of_row(const struct rows_state *state, size_t a, float scale,
                                     int has_lower)
{
    float unit = state->rows.unit[a] * scale;
    float start = state->middle[a] * scale - unit * code_middle(has_lower) * state->rows.sum[a];
    return (struct results){l_set(has_lower ? unit : 16 * unit), l_set(start)};
}

INLINE void fold_query(struct rows_state *state, size_t a, const struct group_floats *floats,
                       const float *q, size_t dim)
{
    size_t padded = rf_padded(dim);
    lanes most = l_set(0.0f), middle[PARTS];
    UNROLL
    for (int i = 0; i < PARTS; i++) middle[i] = l_set(0.0f);
    for (size_t j = 0; j < padded;) UNROLL
    for (int i = 0; i < PARTS; i++, j += LANES) {
        lanes value = j + LANES <= dim ? l_load(q + j)
                      : j < dim        ? l_load_first(q + j, dim - j)
                                       : l_set(0.0f);
        middle[i] = l_fma(value, l_load(floats->k_middle + j), middle[i]);
        value = l_mul(value, l_load(floats->k_scale + j));
        l_store(state->x[a] + j, value);
        most = l_max(l_abs(value), most);
    }
    for (size_t j = padded; j % 64; j += LANES) l_store(state->x[a] + j, l_set(0.0f));
    state->top[a] = l_top(most);
    state->middle[a] = add_sums(middle);
}

/* Scores of query a, times log2 e; returns the greatest. */
INLINE float take_scores(struct rows_state *state, size_t a, float scale, int has_lower)
{
    float *score = state->x[a];
    struct results results = results_of_row(state, a, scale * LOG2_E, has_lower);
    lanes most = l_set(-INFINITY);
    for (size_t p = 0; p < RF_KV_GROUP; p += LANES) {
        lanes dot = take_sums(&results, state->sums[a] + p);
        l_store(score + p, dot);
        most = l_max(dot, most);
    }
    return l_top(most);
}

/* Takes a cap into the scores of query a, and hides the positions before `first`; returns the
 * greatest score. */
INLINE float limit_scores(struct rows_state *state, size_t a, size_t first, float cap)
{
    float *score = state->x[a];
    lanes most = l_set(-INFINITY), inner = l_set(1 / cap), outer = l_set(cap);
    for (size_t p = 0; cap > 0 && p < RF_KV_GROUP; p += LANES)
        l_store(score + p, l_mul(l_tanh(l_mul(l_load(score + p), inner)), outer));
    for (size_t p = 0; p < first; p++) score[p] = -INFINITY;
    for (size_t p = 0; p < RF_KV_GROUP; p += LANES) most = l_max(l_load(score + p), most);
    return l_top(most);
}

/* The nearest integer, or a number that is one. */
INLINE float to_integer(float x)
{
    return x + TO_INTEGER - TO_INTEGER;
}

/* From scores to weights times V's scales. */
INLINE void soften_group(struct rows_state *state, size_t a, const struct group_floats *floats)
{
    float *score = state->x[a];
    lanes total[PARTS], middle[PARTS], top = l_set(0.0f), exponent = l_set(state->exponent[a]);
    UNROLL
    for (int i = 0; i < PARTS; i++) total[i] = middle[i] = l_set(0.0f);
    for (size_t p = 0; p < RF_KV_GROUP;) UNROLL
    for (int i = 0; i < PARTS; i++, p += LANES) {
        lanes weight = l_exp2(l_sub(l_load(score + p), exponent));
        total[i] = l_add(total[i], weight);
        middle[i] = l_fma(weight, l_load(floats->v_middle + p), middle[i]);
        weight = l_mul(weight, l_load(floats->v_scale + p));
        l_store(score + p, weight);
        top = l_max(weight, top);
    }
    state->top[a] = l_top(top);
    state->middle[a] = add_sums(middle);
    state->total[a] = add_sums(total);
}

/* Takes the weights' exponents and sums into the results of n queries, `tails` of them ldo apart.
 * Factors are powers of 2, so that merging rounds nothing but sums. */
INLINE void merge_exponents(struct rows_state *state, float *tails, size_t ldo, size_t n)
{
    for (size_t a = n; a < FACTORS; a++) state->keep[a] = state->take[a] = 0.0f;
    for (size_t a = 0; a < n; a++) {
        float *exponent = tails + a * ldo, later = state->exponent[a];
        float most = later > *exponent ? later : *exponent;
        state->keep[a] = *exponent - most;
        state->take[a] = later - most;
        *exponent = most;
    }
    for (size_t a = 0; a < FACTORS; a += LANES) {
        l_store(state->keep + a, l_exp2(l_load(state->keep + a)));
        l_store(state->take + a, l_exp2(l_load(state->take + a)));
    }
    for (size_t a = 0; a < n; a++) {
        float *sum = tails + a * ldo + 1;
        *sum = *sum * state->keep[a] + state->total[a] * state->take[a];
    }
}

/* Adds the values of query a to its result. */
INLINE void take_values(const struct rows_state *state, size_t a, float *out, size_t dim,
                        int has_lower)
{
    struct results results = results_of_row(state, a, state->take[a], has_lower);
    lanes keep = l_set(state->keep[a]);
    for (size_t j = 0; j < dim; j += LANES) {
        lanes value = l_fma(l_load(out + j), keep, take_sums(&results, state->sums[a] + j));
        if (dim - j >= LANES)
            l_store(out + j, value);
        else
            l_store_first(out + j, value, dim - j);
    }
}

/* Half of the lines to prefetch go with the products of K, a quarter with those of V, and a quarter
 * with the steps on single queries, of which softmax is as long as three others. */
enum { ROW_STEPS = 8, LONG_STEP = 3 };

/* All queries over one group. Steps are for all queries one after the other, so that their
 * reductions overlap. */
INLINE void attend_rows_group(const struct rf_attention_kv_args *args, size_t g,
                              const struct group_floats *floats, struct ahead *ahead, int has_lower)
{
    const struct rf_kv_group *group = &args->groups[g];
    const int32_t *first = g == 0 ? args->first : NULL;
    size_t n = args->n_q, dim = args->head_dim, padded = rf_padded(dim), lines = ahead->upper_lines;
    struct rows_state state;
    state.rows.n = n;
    for (size_t a = 0; a < n; a++) {
        fold_query(&state, a, floats, args->q[a], dim);
        prefetch(ahead, ahead->unit);
    }
    for (size_t a = 0; a < n; a++) {
        round_query(&state, a, padded, NULL);
        prefetch(ahead, ahead->unit);
    }
    kv_dots(&(struct planes){group->k_upper, has_lower ? group->k_lower : NULL}, padded,
            RF_KV_GROUP / 16, &state.rows, state.sums, ahead, lines / 2);
    for (size_t a = 0; a < n; a++) {
        state.exponent[a] = to_integer(take_scores(&state, a, args->scale, has_lower));
        prefetch(ahead, ahead->unit);
    }
    for (size_t a = 0; (first || args->cap > 0) && a < n; a++)
        state.exponent[a] =
            to_integer(limit_scores(&state, a, first ? (size_t)first[a] : 0, args->cap * LOG2_E));
    for (size_t a = 0; a < n; a++) {
        soften_group(&state, a, floats);
        prefetch(ahead, LONG_STEP * ahead->unit);
    }
    for (size_t a = 0; a < n; a++) {
        round_query(&state, a, RF_KV_GROUP, rf_kv_dither);
        prefetch(ahead, ahead->unit);
    }
    kv_dots(&(struct planes){group->v_upper, has_lower ? group->v_lower : NULL}, RF_KV_GROUP,
            padded / 16, &state.rows, state.sums, ahead, lines / 4);
    merge_exponents(&state, args->out + padded, args->ldo, n);
    for (size_t a = 0; a < n; a++) {
        take_values(&state, a, args->out + a * args->ldo, dim, has_lower);
        prefetch(ahead, ahead->unit);
    }
}

APART static void attend_rows(const struct part *part)
{
    const struct rf_attention_kv_args *args = &part->args;
    size_t padded = rf_padded(args->head_dim);
    for (size_t a = 0; a < args->n_q; a++) {
        float *out = args->out + a * args->ldo;
        for (size_t j = 0; j < padded; j += LANES) l_store(out + j, l_set(0.0f));
        out[padded] = -INFINITY;
        out[padded + 1] = 0.0f;
    }
    for (size_t g = 0; g < args->n_groups; g++) {
        struct group_floats floats;
        widen_group(&floats, &args->groups[g], padded);
        struct ahead ahead = ahead_of(part, g, 4 * ROW_STEPS * args->n_q);
        if (args->groups[g].k_lower)
            attend_rows_group(args, g, &floats, &ahead, 1);
        else
            attend_rows_group(args, g, &floats, &ahead, 0);
    }
    for (size_t a = 0; a < args->n_q; a++) args->out[a * args->ldo + padded] *= LN_2;
}

#endif
