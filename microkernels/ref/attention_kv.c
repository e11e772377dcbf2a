/* Attention over quantised groups: the definition (struct rf_attention_kv_args). */
#include <math.h>

#include "base/half.h"
#include "microkernels/ref/tier.h"

enum { MOST = 127, CODES_MIDDLE = 128 };

static const float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

/* Integers that are multiples of `unit`. */
struct rounded {
    int32_t x[RF_KV_MOST_DIM];
    float unit;
};

/* `dither` may be NULL. */
static void round_vector(struct rounded *to, const float *x, size_t n, const float *dither)
{
    float top = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > top) top = fabsf(x[i]);
    to->unit = top / MOST;
    float factor = top > 0 ? MOST / top : 0;
    for (size_t i = 0; i < n; i++) {
        float value = rintf(x[i] * factor + (dither ? dither[i] : 0));
        to->x[i] =
            fabsf(value) <= MOST ? (int32_t)value : 0; /* a value that is not finite shows anyway */
    }
}

static float ref_kv_exp2_weight(float x)
{
    if (x < RF_KV_LEAST_EXPONENT) x = RF_KV_LEAST_EXPONENT;
    float n = rintf(x), r = x - n;
    float p = RF_KV_EXP2_4 * r + RF_KV_EXP2_3;
    p = p * r + RF_KV_EXP2_2;
    p = p * r + RF_KV_EXP2_1;
    return isfinite(n) ? ldexpf(p * r + 1, (int)n) : n;
}

/* sum_k x_k (code of the row - 128), k < n. */
static float ref_kv_dot(const struct rounded *x, const uint8_t *upper, const uint8_t *lower,
                        size_t row, size_t n, size_t depth)
{
    int32_t sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += x->x[k] * (rf_kv_code(upper, lower, row, k, depth) - CODES_MIDDLE);
    return (float)sum * x->unit;
}

static void ref_kv_attend_group(const struct rf_attention_kv_args *args,
                                const struct rf_kv_group *g, const float *q, size_t first,
                                float *out)
{
    size_t dim = args->head_dim, padded = rf_padded(dim);
    float folded[RF_KV_MOST_DIM], score[RF_KV_GROUP], max = -INFINITY, sum = 0, middle = 0;
    struct rounded rounded;
    for (size_t j = 0; j < dim; j++) {
        folded[j] = q[j] * rf_f16_to_f32(g->k_scale[j]);
        middle += q[j] * rf_f16_to_f32(g->k_middle[j]);
    }
    round_vector(&rounded, folded, dim, NULL);
    for (size_t p = 0; p < RF_KV_GROUP; p++) {
        score[p] =
            (ref_kv_dot(&rounded, g->k_upper, g->k_lower, p, dim, padded) + middle) * args->scale;
        score[p] = p < first ? -INFINITY : rf_capped(score[p], args->cap);
        if (score[p] > max) max = score[p];
    }
    float exponent = rintf(max * LOG2_E);
    middle = 0;
    for (size_t p = 0; p < RF_KV_GROUP; p++) {
        float weight = ref_kv_exp2_weight(score[p] * LOG2_E - exponent);
        sum += weight;
        middle += weight * rf_f16_to_f32(g->v_middle[p]);
        score[p] = weight * rf_f16_to_f32(g->v_scale[p]);
    }
    round_vector(&rounded, score, RF_KV_GROUP, rf_kv_dither);
    float most = exponent > out[padded] ? exponent : out[padded];
    float keep = ref_kv_exp2_weight(out[padded] - most), take = ref_kv_exp2_weight(exponent - most);
    for (size_t j = 0; j < dim; j++) {
        float value =
            ref_kv_dot(&rounded, g->v_upper, g->v_lower, j, RF_KV_GROUP, RF_KV_GROUP) + middle;
        out[j] = out[j] * keep + value * take;
    }
    out[padded] = most;
    out[padded + 1] = out[padded + 1] * keep + sum * take;
}

static void ref_attention_kv(const struct rf_attention_kv_args *args)
{
    size_t padded = rf_padded(args->head_dim);
    for (size_t i = 0; i < args->n_q; i++) {
        float *out = args->out + i * args->ldo;
        for (size_t j = 0; j < padded + 2; j++) out[j] = j == padded ? -INFINITY : 0;
        for (size_t g = 0; g < args->n_groups; g++)
            ref_kv_attend_group(args, &args->groups[g], args->q[i],
                                args->first && g == 0 ? (size_t)args->first[i] : 0, out);
        out[padded] *= LN_2;
    }
}

void rf_ref_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = ref_attention_kv;
}
