/* Attention over a quantised group, written in vectors of 16 lanes that a tier defines before it
 * includes this file: types `lanes` (floats) and `whole` (integers), and
 *
 *     l_set, l_load, l_load_first, l_store_first (n lanes, zeros after them), l_load_f16, l_store,
 *     l_add, l_mul, l_fma, l_max, l_abs, l_exp, l_sum, l_top (of all lanes), l_round (to integers),
 *     l_float;
 *     w_set, w_load, w_add, w_sub, w_shift (left), w_split (an integer x of 15 bits: high = (x +
 *     64) / 128 rounded down, low = x - 128 high), w_store8 (each to a signed byte), w_sum;
 *     kv_dots (struct dots): the sums of products.
 *
 * A vector of 15 bits is two rows of bytes, high and low. */
#ifndef RF_MICROKERNELS_ATTENTION_KV_H
#define RF_MICROKERNELS_ATTENTION_KV_H

enum {
    TILE = 8, /* queries */
    FINE = 127 * 128,
    COARSE = 127,
    ROWS = 2 * TILE
};

/* Vectors as rows of bytes. */
struct byte_rows {
    _Alignas(64) int8_t at[ROWS][RF_KV_MOST_DIM];
    size_t n;
    float unit[TILE];
    int32_t sum[TILE];
};

/* out[r][16 b + i] = sum_k code x.at[r][k] over the nibbles of the lane i of block b. `code`: both
 * nibbles, or the upper one alone (0 .. 15) where `lower` is NULL. */
static void kv_dots(const uint8_t *upper, const uint8_t *lower, size_t depth, size_t blocks,
                    const struct byte_rows *x, int32_t (*out)[RF_KV_MOST_DIM]);

/* Appends a vector of n values, a multiple of 16, whose greatest magnitude is top. */
INLINE void append(struct byte_rows *rows, size_t a, const float *x, size_t n, float top, int fine)
{
    float most = fine ? (float)FINE : (float)COARSE;
    lanes factor = l_set(top > 0 ? most / top : 0.0f);
    whole sum = w_set(0);
    int8_t *high = rows->at[rows->n], *low = fine ? rows->at[rows->n + 1] : NULL;
    for (size_t i = 0; i < n; i += 16) {
        whole value = l_round(l_mul(l_load(x + i), factor));
        sum = w_add(sum, value);
        if (fine) {
            whole rest;
            value = w_split(value, &rest);
            w_store8(low + i, rest);
        }
        w_store8(high + i, value);
    }
    rows->n += fine ? 2 : 1;
    rows->unit[a] = top / most;
    rows->sum[a] = w_sum(sum);
}

/* 16 sums over (code - 128) of the vector whose rows of sums begin at `sums`. */
INLINE lanes take_sums(int32_t (*sums)[RF_KV_MOST_DIM], size_t at, int32_t sum, int fine,
                       int has_lower)
{
    whole value = w_load(sums[0] + at);
    if (fine) value = w_add(w_shift(value, 7), w_load(sums[1] + at));
    if (!has_lower) value = w_shift(value, 4);
    return l_float(w_sub(value, w_set(sum * (has_lower ? 128 : 120))));
}

INLINE float fold_query(const struct rf_attention_kv_args *args, const float *q, float *folded,
                        float *top)
{
    size_t dim = args->head_dim;
    lanes most = l_set(0.0f), middle = l_set(0.0f);
    for (size_t j = 0; j < dim; j += 16) {
        lanes value = l_load_first(q + j, dim - j);
        middle = l_fma(value, l_load_f16(args->group.k_middle + j), middle);
        value = l_mul(value, l_load_f16(args->group.k_scale + j));
        l_store(folded + j, value);
        most = l_max(l_abs(value), most);
    }
    *top = l_top(most);
    return l_sum(middle);
}

/* From scores to weights times V's scales; returns the greatest of these and writes the greatest
 * score, the sum of weights and V's middle. */
INLINE float soften_group(const struct rf_kv_group *group, float *score, float *max, float *sum,
                          float *middle)
{
    lanes most = l_set(-INFINITY), total = l_set(0.0f), middles = total, top = total;
    for (size_t p = 0; p < RF_KV_GROUP; p += 16) most = l_max(l_load(score + p), most);
    *max = l_top(most);
    for (size_t p = 0; p < RF_KV_GROUP; p += 16) {
        lanes weight = l_exp(l_add(l_load(score + p), l_set(-*max)));
        total = l_add(total, weight);
        middles = l_fma(weight, l_load_f16(group->v_middle + p), middles);
        weight = l_mul(weight, l_load_f16(group->v_scale + p));
        l_store(score + p, weight);
        top = l_max(weight, top);
    }
    *sum = l_sum(total);
    *middle = l_sum(middles);
    return l_top(top);
}

INLINE void attend(const struct rf_attention_kv_args *args, size_t first, size_t n, int has_lower)
{
    const struct rf_kv_group *group = &args->group;
    size_t padded = rf_padded(args->head_dim), planes = has_lower ? 2 : 1;
    _Alignas(64) float x[RF_KV_MOST_DIM];
    _Alignas(64) int32_t sums[ROWS][RF_KV_MOST_DIM];
    struct byte_rows rows;
    float middle[TILE], top;
    rows.n = 0;
    for (size_t a = 0; a < n; a++) {
        middle[a] = fold_query(args, args->q[first + a], x, &top);
        append(&rows, a, x, padded, top, has_lower);
    }
    kv_dots(group->k_upper, has_lower ? group->k_lower : NULL, padded, RF_KV_GROUP / 16, &rows,
            sums);
    struct byte_rows weights;
    weights.n = 0;
    for (size_t a = 0; a < n; a++) {
        float *out = args->out + (first + a) * args->ldo + padded;
        for (size_t p = 0; p < RF_KV_GROUP; p += 16) {
            lanes dot = take_sums(sums + a * planes, p, rows.sum[a], has_lower, has_lower);
            dot = l_fma(dot, l_set(rows.unit[a]), l_set(middle[a]));
            l_store(x + p, l_mul(dot, l_set(args->scale)));
        }
        top = soften_group(group, x, out, out + 1, &middle[a]);
        append(&weights, a, x, RF_KV_GROUP, top, 1);
    }
    kv_dots(group->v_upper, has_lower ? group->v_lower : NULL, RF_KV_GROUP, padded / 16, &weights,
            sums);
    for (size_t a = 0; a < n; a++)
        for (size_t j = 0; j < padded; j += 16) {
            lanes dot = take_sums(sums + 2 * a, j, weights.sum[a], 1, has_lower);
            dot = l_fma(dot, l_set(weights.unit[a]), l_set(middle[a]));
            float *out = args->out + (first + a) * args->ldo + j;
            if (args->head_dim - j >= 16)
                l_store(out, dot);
            else
                l_store_first(out, dot, args->head_dim - j);
        }
}

static void attention_kv(const struct rf_attention_kv_args *args)
{
    for (size_t i = 0; i < args->n_q; i += TILE) {
        size_t n = args->n_q - i < TILE ? args->n_q - i : TILE;
        if (args->group.k_lower)
            attend(args, i, n, 1);
        else
            attend(args, i, n, 0);
    }
}

#endif
