/* Attention over quantised groups: the numbers, the prefetches and the results that both ways of
 * attention_kv.h have, for queries in columns and in rows. It is written in vectors that a tier
 * defines before: the number of their LANES (8 or 16), COLUMN_LEAST, TOGETHER (queries that share
 * decoded codes, at most), COLUMNS_ROOM (bytes of their vectors, for LANES queries of
 * RF_KV_MOST_DIM at least) and CODE_BYTES, types `lanes` (floats) and `whole` (integers), and
 *
 *     l_set, l_load, l_load_first, l_store_first (n lanes, zeros after them), l_load_f16, l_store,
 *     l_add, l_sub, l_mul, l_div, l_fma, l_max, l_abs, l_positive (x where y > 0, else 0), l_exp2
 *     (rf_exp2_weight_ps), l_tanh, l_top (of all lanes), l_sum (adds the upper half of the lanes to
 *     the lower one until one is left), l_round (to integers), l_float;
 *     w_set, w_load, w_add, w_sum, w_store8 (64 integers to signed bytes);
 *     kv_dots, kv_decode, kv_store, kv_products: the sums of products. */
#ifndef RF_MICROKERNELS_ATTENTION_KV_COMMON_H
#define RF_MICROKERNELS_ATTENTION_KV_COMMON_H

enum {
    MOST = 127,
    SUMS = 16, /* partial sums: each takes every 16th channel or position */
    PARTS = SUMS / LANES
};

static const float LOG2_E = 1.44269504f, LN_2 = 0.693147181f,
                   TO_INTEGER = 3 << 22; /* x + this - this: the nearest integer, or one near it */

/* A group's scales and middles as floats, for all queries of a call. */
struct group_floats {
    _Alignas(64) float k_scale[RF_KV_MOST_DIM], k_middle[RF_KV_MOST_DIM];
    float v_scale[RF_KV_GROUP], v_middle[RF_KV_GROUP];
};

INLINE void widen(float *to, const uint16_t *halves, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) l_store(to + i, l_load_f16(halves + i));
}

INLINE void widen_group(struct group_floats *floats, const struct rf_kv_group *group, size_t padded)
{
    widen(floats->k_scale, group->k_scale, padded);
    widen(floats->k_middle, group->k_middle, padded);
    widen(floats->v_scale, group->v_scale, RF_KV_GROUP);
    widen(floats->v_middle, group->v_middle, RF_KV_GROUP);
}

/* Some queries of a call. The first ones find its groups in memory, the others in the
 * cache; the last ones look after the group that is probably read next. */
struct part {
    struct rf_attention_kv_args args; /* next: NULL unless these are the last */
    int is_first;
};

/* The rest to prefetch of the next group's planes: the upper one, with the scales, and the
 * lower one. A core has few requests to memory in flight, so they are spread over all steps of the
 * work. */
struct ahead {
    const char *upper, *lower;
    size_t upper_lines, lower_lines;
    size_t unit; /* lines of each plane for a step */
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

INLINE struct ahead ahead_of(const struct part *part, size_t group, size_t steps)
{
    const struct rf_attention_kv_args *args = &part->args;
    const struct rf_kv_group *next = args->next;
    if (group + 1 < args->n_groups) next = part->is_first ? &args->groups[group + 1] : NULL;
    if (!next) return (struct ahead){0};
    size_t padded = rf_padded(args->head_dim), lines = rf_kv_upper_bytes(padded) / 64;
    return (struct ahead){.upper = (const char *)next->k_upper,
                          .lower = (const char *)next->k_lower,
                          .upper_lines = lines,
                          .lower_lines = next->k_lower ? rf_kv_lower_bytes(padded) / 64 : 0,
                          .unit = lines / steps + 1};
}

/* Nibbles of K or V. */
struct planes {
    const uint8_t *upper, *lower; /* lower: NULL without */
};

/* A result of rounded vectors r and their sums of products, scale * (unit * sum of r (code - 128) +
 * middle), is `step` times the sum of r code, and `start`. */
struct results {
    lanes step, start;
};

INLINE lanes take_sums(const struct results *results, const int32_t *sums)
{
    return l_fma(l_float(w_load(sums)), results->step, results->start);
}

/* The middle of a code, in units of the code or of its upper nibble, times 16. */
INLINE float code_middle(int has_lower)
{
    return has_lower ? 128.0f : 120.0f;
}

/* Adds the upper half of the sums to the lower one until one is left. */
INLINE float add_sums(const lanes x[PARTS])
{
    return l_sum(PARTS == 1 ? x[0] : l_add(x[0], x[PARTS - 1]));
}

#endif
