/* Attention over a quantised group: the definition (struct rf_attention_kv_args). */
#include <math.h>

#include "base/half.h"
#include "microkernels/ref/tier.h"

enum { FINE = 127 * 128, COARSE = 127, CODES_MIDDLE = 128 };

/* Integers that are multiples of `unit`. */
struct rounded {
    int32_t x[RF_KV_MOST_DIM];
    float unit;
};

/* `dither` may be NULL. */
static void round_vector(struct rounded *to, const float *x, size_t n, float most,
                         const float *dither)
{
    float top = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > top) top = fabsf(x[i]);
    to->unit = top / most;
    float factor = top > 0 ? most / top : 0;
    for (size_t i = 0; i < n; i++) {
        float value = rintf(x[i] * factor + (dither ? dither[i] : 0));
        to->x[i] = fabsf(value) <= most ? (int32_t)value : 0; /* what is not finite shows anyway */
    }
}

/* sum_k x_k (code of the row - 128), k < n. */
static float dot(const struct rounded *x, const uint8_t *upper, const uint8_t *lower, size_t row,
                 size_t n, size_t depth)
{
    int32_t sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += x->x[k] * (rf_kv_code(upper, lower, row, k, depth) - CODES_MIDDLE);
    return (float)sum * x->unit;
}

static void attend(const struct rf_attention_kv_args *args, const float *q, size_t first,
                   float *out)
{
    const struct rf_kv_group *g = &args->group;
    size_t dim = args->head_dim, padded = rf_padded(dim);
    float folded[RF_KV_MOST_DIM], score[RF_KV_GROUP], max = -INFINITY, sum = 0, middle = 0;
    struct rounded rounded;
    for (size_t j = 0; j < dim; j++) {
        folded[j] = q[j] * rf_f16_to_f32(g->k_scale[j]);
        middle += q[j] * rf_f16_to_f32(g->k_middle[j]);
    }
    round_vector(&rounded, folded, dim, g->k_lower ? FINE : COARSE, NULL);
    for (size_t p = 0; p < RF_KV_GROUP; p++) {
        score[p] = (dot(&rounded, g->k_upper, g->k_lower, p, dim, padded) + middle) * args->scale;
        score[p] = p < first ? -INFINITY : rf_capped(score[p], args->cap);
        if (score[p] > max) max = score[p];
    }
    middle = 0;
    for (size_t p = 0; p < RF_KV_GROUP; p++) {
        float weight = expf(score[p] - max);
        sum += weight;
        middle += weight * rf_f16_to_f32(g->v_middle[p]);
        score[p] = weight * rf_f16_to_f32(g->v_scale[p]);
    }
    round_vector(&rounded, score, RF_KV_GROUP, COARSE, rf_kv_dither);
    for (size_t j = 0; j < padded; j++)
        out[j] = j < dim
                     ? dot(&rounded, g->v_upper, g->v_lower, j, RF_KV_GROUP, RF_KV_GROUP) + middle
                     : 0;
    out[padded] = max;
    out[padded + 1] = sum;
}

static void attention_kv(const struct rf_attention_kv_args *args)
{
    for (size_t i = 0; i < args->n_q; i++)
        attend(args, args->q[i], args->first ? (size_t)args->first[i] : 0,
               args->out + i * args->ldo);
}

void rf_ref_init_attention_kv(struct rf_kernels *kernels)
{
    kernels->attention_kv = attention_kv;
}
