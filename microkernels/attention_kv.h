/* Attention over quantised groups, written in vectors of 16 lanes that a tier defines before it
 * includes this file: types `lanes` (floats) and `whole` (integers), and
 *
 *     l_set, l_load, l_load_first, l_store_first (n lanes, zeros after them), l_load_f16, l_store,
 *     l_add, l_mul, l_fma, l_max, l_abs, l_exp2 (rf_exp2_weight_ps), l_tanh, l_sum, l_top (of all
 *     lanes), l_round (to integers), l_float;
 *     w_set, w_load, w_add, w_sum, w_store8 (four vectors to 64 signed bytes);
 *     kv_dots: the sums of products. */
#ifndef RF_MICROKERNELS_ATTENTION_KV_H
#define RF_MICROKERNELS_ATTENTION_KV_H

enum {
    LANES = 16,
    TILE = 12, /* queries, at most LANES */
    MOST = 127,
    WIDTH = RF_KV_MOST_DIM + 64 /* of a row in memory: no power of 2, so rows share no cache sets */
};

static const float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

/* Vectors of up to TILE queries, rounded to bytes. */
struct byte_rows {
    _Alignas(64) int8_t at[TILE][WIDTH];
    size_t n;
    float unit[TILE];
    float sum[TILE];
};

/* A group's scales and middles as floats, for all queries of a call. */
struct group_floats {
    _Alignas(64) float k_scale[RF_KV_MOST_DIM], k_middle[RF_KV_MOST_DIM];
    float v_scale[RF_KV_GROUP], v_middle[RF_KV_GROUP];
};

/* Up to TILE queries in progress: first folded queries, then scores, then weights. */
struct tile_state {
    _Alignas(64) float x[TILE][WIDTH];
    float top[TILE], middle[TILE];
    float exponent[TILE], total[TILE]; /* weights are relative to 2^exponent; their sum */
    float keep[LANES], take[LANES];    /* what earlier groups' results and this one's count */
    struct byte_rows rows;
    _Alignas(64) int32_t sums[TILE][WIDTH];
};

/* What is left to prefetch of the planes of the group that is probably read next: the upper one,
 * with the scales, and the lower one. A core has few requests to memory in flight, so they are
 * spread over all steps of the work. */
struct ahead {
    const char *upper, *lower;
    size_t upper_lines, lower_lines;
    size_t unit; /* lines of each plane for a step on one query */
};

INLINE void prefetch_lines(const char **at, size_t *left, size_t lines)
{
    enum { LINE = 64 };
    if (lines > *left) lines = *left;
    *left -= lines;
    for (; lines > 0; lines--, *at += LINE) _mm_prefetch(*at, _MM_HINT_T1);
}

INLINE void prefetch(struct ahead *ahead, size_t lines)
{
    prefetch_lines(&ahead->upper, &ahead->upper_lines, lines);
    prefetch_lines(&ahead->lower, &ahead->lower_lines, lines);
}

/* Nibbles of K or V. */
struct planes {
    const uint8_t *upper, *lower; /* lower: NULL without */
};

/* out[r][16 b + i] = sum_k code x.at[r][k] over the nibbles of the lane i of block b. `code`: both
 * nibbles, or the upper one alone (0 .. 15) where there are no lower ones. Meanwhile it prefetches
 * `lines` of each plane. Inlined, or copied for one caller, its sums would not stay in registers.
 */
APART static void kv_dots(const struct planes *planes, size_t depth, size_t blocks,
                          const struct byte_rows *x, int32_t (*out)[WIDTH], struct ahead *ahead,
                          size_t lines);

INLINE void widen(float *to, const uint16_t *halves, size_t n)
{
    for (size_t i = 0; i < n; i += 16) l_store(to + i, l_load_f16(halves + i));
}

/* Rounds the vector of query a, of n values and zeros up to a multiple of 64. `dither` may be NULL.
 */
INLINE void round_query(struct tile_state *tile, size_t a, size_t n, const float *dither)
{
    const float *x = tile->x[a];
    float top = tile->top[a];
    lanes factor = l_set(top > 0 ? MOST / top : 0.0f);
    whole sum = w_set(0), value[4];
    for (size_t i = 0; i < n; i += 64) {
#pragma GCC unroll 4
        for (size_t b = 0; b < 4; b++) {
            lanes scaled = l_load(x + i + b * 16);
            scaled =
                dither ? l_fma(scaled, factor, l_load(dither + i + b * 16)) : l_mul(scaled, factor);
            value[b] = l_round(scaled);
            sum = w_add(sum, value[b]);
        }
        w_store8(tile->rows.at[a] + i, value);
    }
    tile->rows.unit[a] = top / MOST;
    tile->rows.sum[a] = (float)w_sum(sum);
}

/* Of the vector of query a, scale * (unit * sum of r (code - 128) + middle) is `step` times a sum
 * of products, and `start`. */
struct results {
    lanes step, start;
};

INLINE struct results results_of(const struct tile_state *tile, size_t a, float scale,
                                 int has_lower)
{
    float unit = tile->rows.unit[a] * scale;
    float start = tile->middle[a] * scale - unit * (has_lower ? 128 : 120) * tile->rows.sum[a];
    return (struct results){l_set(has_lower ? unit : 16 * unit), l_set(start)};
}

INLINE lanes take_sums(const struct results *results, const int32_t *sums)
{
    return l_fma(l_float(w_load(sums)), results->step, results->start);
}

INLINE void fold_query(struct tile_state *tile, size_t a, const struct group_floats *floats,
                       const float *q, size_t dim)
{
    lanes most = l_set(0.0f), middle = l_set(0.0f);
    for (size_t j = 0; j < dim; j += 16) {
        lanes value = dim - j >= 16 ? l_load(q + j) : l_load_first(q + j, dim - j);
        middle = l_fma(value, l_load(floats->k_middle + j), middle);
        value = l_mul(value, l_load(floats->k_scale + j));
        l_store(tile->x[a] + j, value);
        most = l_max(l_abs(value), most);
    }
    for (size_t j = rf_padded(dim); j % 64; j += 16) l_store(tile->x[a] + j, l_set(0.0f));
    tile->top[a] = l_top(most);
    tile->middle[a] = l_sum(middle);
}

/* Scores of query a, times log2 e; returns the greatest. */
INLINE float take_scores(struct tile_state *tile, size_t a, float scale, int has_lower)
{
    float *score = tile->x[a];
    struct results results = results_of(tile, a, scale * LOG2_E, has_lower);
    lanes most = l_set(-INFINITY);
    for (size_t p = 0; p < RF_KV_GROUP; p += 16) {
        lanes dot = take_sums(&results, tile->sums[a] + p);
        l_store(score + p, dot);
        most = l_max(dot, most);
    }
    return l_top(most);
}

/* Takes a cap into the scores of query a, and hides the positions before `first`; returns the
 * greatest score. */
INLINE float limit_scores(struct tile_state *tile, size_t a, size_t first, float cap)
{
    float *score = tile->x[a];
    lanes most = l_set(-INFINITY), inner = l_set(1 / cap), outer = l_set(cap);
    for (size_t p = 0; cap > 0 && p < RF_KV_GROUP; p += 16)
        l_store(score + p, l_mul(l_tanh(l_mul(l_load(score + p), inner)), outer));
    for (size_t p = 0; p < first; p++) score[p] = -INFINITY;
    for (size_t p = 0; p < RF_KV_GROUP; p += 16) most = l_max(l_load(score + p), most);
    return l_top(most);
}

/* The nearest integer, or a number that is one. */
INLINE float to_integer(float x)
{
    const float shift = 3 << 22;
    return x + shift - shift;
}

/* From scores to weights times V's scales. */
INLINE void soften_group(struct tile_state *tile, size_t a, const struct group_floats *floats)
{
    float *score = tile->x[a];
    lanes total = l_set(0.0f), middles = total, top = total, below = l_set(-tile->exponent[a]);
    for (size_t p = 0; p < RF_KV_GROUP; p += 16) {
        lanes weight = l_exp2(l_add(l_load(score + p), below));
        total = l_add(total, weight);
        middles = l_fma(weight, l_load(floats->v_middle + p), middles);
        weight = l_mul(weight, l_load(floats->v_scale + p));
        l_store(score + p, weight);
        top = l_max(weight, top);
    }
    tile->top[a] = l_top(top);
    tile->middle[a] = l_sum(middles);
    tile->total[a] = l_sum(total);
}

/* Takes the weights' exponents and sums into the results of n queries, `tails` of them ldo apart.
 * Factors are powers of 2, so that merging rounds nothing but sums. */
INLINE void merge_exponents(struct tile_state *tile, float *tails, size_t ldo, size_t n)
{
    for (size_t a = n; a < LANES; a++) tile->keep[a] = tile->take[a] = 0.0f;
    for (size_t a = 0; a < n; a++) {
        float *exponent = tails + a * ldo, later = tile->exponent[a];
        float most = later > *exponent ? later : *exponent;
        tile->keep[a] = *exponent - most;
        tile->take[a] = later - most;
        *exponent = most;
    }
    l_store(tile->keep, l_exp2(l_load(tile->keep)));
    l_store(tile->take, l_exp2(l_load(tile->take)));
    for (size_t a = 0; a < n; a++) {
        float *sum = tails + a * ldo + 1;
        *sum = *sum * tile->keep[a] + tile->total[a] * tile->take[a];
    }
}

/* Adds the values of query a to its result. */
INLINE void take_values(const struct tile_state *tile, size_t a, float *out, size_t dim,
                        int has_lower)
{
    struct results results = results_of(tile, a, tile->take[a], has_lower);
    lanes keep = l_set(tile->keep[a]);
    for (size_t j = 0; j < dim; j += 16) {
        lanes value = l_fma(l_load(out + j), keep, take_sums(&results, tile->sums[a] + j));
        if (dim - j >= 16)
            l_store(out + j, value);
        else
            l_store_first(out + j, value, dim - j);
    }
}

/* Half of the lines go with the products of K, a quarter with those of V, and a quarter with the
 * steps on single queries, of which softmax is as long as three others. */
enum { QUERY_STEPS = 8, LONG_STEP = 3 };

INLINE struct ahead ahead_of(const struct rf_attention_kv_args *args, size_t group, int has_lower)
{
    const struct rf_kv_group *next =
        group + 1 < args->n_groups ? &args->groups[group + 1] : args->next;
    if (!next) return (struct ahead){0};
    size_t padded = rf_padded(args->head_dim), lines = rf_kv_upper_bytes(padded) / 64,
           n = args->n_q < TILE ? args->n_q : TILE;
    return (struct ahead){.upper = (const char *)next->k_upper,
                          .lower = (const char *)next->k_lower,
                          .upper_lines = lines,
                          .lower_lines = has_lower ? rf_kv_lower_bytes(padded) / 64 : 0,
                          .unit = lines / (4 * QUERY_STEPS * n) + 1};
}

/* The n queries from `begin` on over one group. `first` may be NULL. Steps are for all queries one
 * after the other, so that their reductions overlap. */
INLINE void attend(const struct rf_attention_kv_args *args, const struct rf_kv_group *group,
                   const struct group_floats *floats, const int32_t *first, size_t begin, size_t n,
                   struct ahead *ahead, int has_lower)
{
    size_t dim = args->head_dim, padded = rf_padded(dim), lines = ahead->upper_lines;
    float *out = args->out + begin * args->ldo, *tails = out + padded;
    struct tile_state tile;
    tile.rows.n = n;
    for (size_t a = 0; a < n; a++) {
        fold_query(&tile, a, floats, args->q[begin + a], dim);
        prefetch(ahead, ahead->unit);
    }
    for (size_t a = 0; a < n; a++) {
        round_query(&tile, a, padded, NULL);
        prefetch(ahead, ahead->unit);
    }
    kv_dots(&(struct planes){group->k_upper, has_lower ? group->k_lower : NULL}, padded,
            RF_KV_GROUP / 16, &tile.rows, tile.sums, ahead, lines / 2);
    for (size_t a = 0; a < n; a++) {
        tile.exponent[a] = to_integer(take_scores(&tile, a, args->scale, has_lower));
        prefetch(ahead, ahead->unit);
    }
    for (size_t a = 0; (first || args->cap > 0) && a < n; a++)
        tile.exponent[a] = to_integer(
            limit_scores(&tile, a, first ? (size_t)first[begin + a] : 0, args->cap * LOG2_E));
    for (size_t a = 0; a < n; a++) {
        soften_group(&tile, a, floats);
        prefetch(ahead, LONG_STEP * ahead->unit);
    }
    for (size_t a = 0; a < n; a++) {
        round_query(&tile, a, RF_KV_GROUP, rf_kv_dither);
        prefetch(ahead, ahead->unit);
    }
    kv_dots(&(struct planes){group->v_upper, has_lower ? group->v_lower : NULL}, RF_KV_GROUP,
            padded / 16, &tile.rows, tile.sums, ahead, lines / 4);
    merge_exponents(&tile, tails, args->ldo, n);
    for (size_t a = 0; a < n; a++) {
        take_values(&tile, a, out + a * args->ldo, dim, has_lower);
        prefetch(ahead, ahead->unit);
    }
}

/* All queries over one group. */
INLINE void attend_group(const struct rf_attention_kv_args *args, size_t g)
{
    const struct rf_kv_group *group = &args->groups[g];
    const int32_t *first = g == 0 ? args->first : NULL;
    size_t padded = rf_padded(args->head_dim);
    struct group_floats floats;
    widen(floats.k_scale, group->k_scale, padded);
    widen(floats.k_middle, group->k_middle, padded);
    widen(floats.v_scale, group->v_scale, RF_KV_GROUP);
    widen(floats.v_middle, group->v_middle, RF_KV_GROUP);
    struct ahead ahead = ahead_of(args, g, group->k_lower != NULL);
    for (size_t i = 0; i < args->n_q; i += TILE) {
        size_t n = args->n_q - i < TILE ? args->n_q - i : TILE;
        if (group->k_lower)
            attend(args, group, &floats, first, i, n, &ahead, 1);
        else
            attend(args, group, &floats, first, i, n, &ahead, 0);
    }
}

static void attention_kv(const struct rf_attention_kv_args *args)
{
    size_t padded = rf_padded(args->head_dim);
    for (size_t i = 0; i < args->n_q; i++) {
        float *out = args->out + i * args->ldo;
        for (size_t j = 0; j < padded; j += 16) l_store(out + j, l_set(0.0f));
        out[padded] = -INFINITY;
        out[padded + 1] = 0.0f;
    }
    for (size_t g = 0; g < args->n_groups; g++) attend_group(args, g);
    for (size_t i = 0; i < args->n_q; i++) args->out[i * args->ldo + padded] *= LN_2;
}

#endif
