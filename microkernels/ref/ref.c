/* The scalar reference: the definition of every kernel, in plain loops. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "microkernels/gelu.h"
#include "microkernels/ref/tier.h"

static size_t ref_bf16_row_bytes(size_t k)
{
    return (k * sizeof(uint16_t) + 63) & ~(size_t)63;
}

static size_t ref_packed_bytes_bf16(size_t n, size_t k)
{
    return n * ref_bf16_row_bytes(k);
}

static void ref_f32_to_f16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = rf_f32_to_f16(x[i]);
}

static void ref_f32_to_bf16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = rf_f32_to_bf16(x[i]);
}

static void ref_bf16_to_f32(float *out, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = rf_bf16_to_f32(x[i]);
}

static void ref_pack_bf16(const struct rf_pack_args *args)
{
    char *out = (char *)args->packed + args->row * ref_bf16_row_bytes(args->k);
    memset(out, 0, ref_bf16_row_bytes(args->k));
    ref_f32_to_bf16((uint16_t *)(void *)out, args->x, args->k);
}

static void ref_linear_bf16(const struct rf_linear_args *args)
{
    for (size_t i = 0; i < args->n; i++) {
        const uint16_t *x =
            (const uint16_t *)((const char *)args->x + i * ref_bf16_row_bytes(args->k));
        for (size_t r = 0; r < args->m; r++) {
            const uint16_t *w = (const uint16_t *)args->w + r * args->ldw;
            float sum = 0.0f;
            for (size_t j = 0; j < args->k; j++) sum += rf_bf16_to_f32(w[j]) * rf_bf16_to_f32(x[j]);
            if (args->bias) sum += args->bias[r];
            float *y = args->y + i * args->ldy + r;
            *y = args->accumulate ? *y + sum : sum;
        }
    }
}

static float float_as_is(float x)
{
    return x;
}

static float float_to_bf16(float x)
{
    return rf_bf16_to_f32(rf_f32_to_bf16(x));
}

/* `load` widens keys and values, `rounded` is what queries and weights enter products as. */
static void ref_attention(const struct rf_attention_args *args, float (*load)(uint16_t),
                          float (*rounded)(float))
{
    size_t dim = args->head_dim, padded = rf_padded(dim);
    for (size_t i = 0; i < args->n_q; i++) {
        float *out = args->out + i * args->ldo;
        float score[RF_ATTENTION_CHUNK], max = -INFINITY, sum = 0.0f;
        size_t visible = (size_t)args->visible[i], first = args->first ? (size_t)args->first[i] : 0;
        for (size_t p = first; p < visible; p++) {
            const uint16_t *k = args->k + p / RF_KV_BLOCK * RF_KV_BLOCK * dim + p % RF_KV_BLOCK;
            float dot = 0.0f;
            for (size_t j = 0; j < dim; j++)
                dot += rounded(args->q[i][j]) * load(k[j * RF_KV_BLOCK]);
            score[p] = rf_capped(dot * args->scale, args->cap);
            max = fmaxf(max, score[p]);
        }
        for (size_t j = 0; j < padded; j++) out[j] = 0.0f;
        for (size_t p = first; p < visible; p++) {
            float weight = rounded(expf(score[p] - max));
            sum += weight;
            for (size_t j = 0; j < padded; j++) out[j] += weight * load(args->v[p * padded + j]);
        }
        out[padded] = max;
        out[padded + 1] = sum;
    }
}

static void ref_attention_f16(const struct rf_attention_args *args)
{
    ref_attention(args, rf_f16_to_f32, float_as_is);
}

static void ref_attention_bf16(const struct rf_attention_args *args)
{
    ref_attention(args, rf_bf16_to_f32, float_to_bf16);
}

static void ref_rms_norm(float *out, const float *x, const float *weight, float eps, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    float scale = 1.0f / sqrtf((float)(sum / (double)n) + eps);
    for (size_t i = 0; i < n; i++) out[i] = x[i] * scale * weight[i];
}

static void ref_silu_gate(float *out, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void ref_gelu_gate(float *out, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = gate[i], u = 0.797884561f * (v + 0.044715f * v * v * v);
        out[i] = v / (1.0f + expf(-2.0f * u)) * up[i];
    }
}

static void ref_gelu(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float c = fminf(fmaxf(x[i], -RF_ERF_END), RF_ERF_END), t = c * c;
        float p = rf_erf_p[RF_ERF_TERMS - 1], q = rf_erf_q[RF_ERF_TERMS - 1];
        for (int k = RF_ERF_TERMS - 2; k >= 0; k--) {
            p = fmaf(p, t, rf_erf_p[k]);
            q = fmaf(q, t, rf_erf_q[k]);
        }
        out[i] = x[i] * 0.5f * (1.0f + fminf(fmaxf(c * p / q, -1.0f), 1.0f));
    }
}

static void ref_delta_sums(float (*sums)[RF_DELTA_COLUMNS], const float *s, float x, size_t r,
                           size_t width)
{
    float *sum = sums[r % RF_DELTA_SUMS];
    for (size_t c = 0; c < width; c++) sum[c] = fmaf(s[c], x, sum[c]);
}

static float ref_delta_sum(float (*sums)[RF_DELTA_COLUMNS], size_t c)
{
    return (sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]);
}

static void ref_delta_step(const struct rf_delta_args *args)
{
    float held[RF_DELTA_SUMS][RF_DELTA_COLUMNS] = {{0}},
          sums[RF_DELTA_SUMS][RF_DELTA_COLUMNS] = {{0}}, u[RF_DELTA_COLUMNS], s[RF_DELTA_COLUMNS];
    size_t width = args->width;
    for (size_t r = 0; r < args->rows && !args->is_mamba; r++)
        ref_delta_sums(held, args->from + r * width, args->k[r], r, width);
    for (size_t c = 0; c < width; c++)
        u[c] = args->b *
               (args->is_mamba ? args->v[c] : fmaf(-args->g, ref_delta_sum(held, c), args->v[c]));
    for (size_t r = 0; r < args->rows; r++) {
        const float *from = args->from + r * width;
        for (size_t c = 0; c < width; c++) s[c] = fmaf(args->k[r], u[c], args->g * from[c]);
        if (args->to) memcpy(args->to + r * width, s, width * sizeof *s);
        if (args->out) ref_delta_sums(sums, s, args->q[r], r, width);
    }
    for (size_t c = 0; args->out && c < width; c++) args->out[c] = ref_delta_sum(sums, c);
}

static size_t ref_first_above(const float *x, size_t n, float threshold)
{
    size_t i = 0;
    while (i < n && !(x[i] > threshold)) i++;
    return i;
}

static uint64_t read_streams(const struct rf_read_args *args)
{
    const char *bytes = args->data;
    uint64_t sum = 0, word;
    for (size_t time = 0; time < args->times; time++)
        for (size_t i = 0; i < args->n; i += sizeof word) {
            memcpy(&word, bytes + i, sizeof word);
            sum ^= word;
        }
    return sum;
}

void rf_kernels_init_ref(struct rf_kernels *kernels)
{
    *kernels = (struct rf_kernels){.packed_bytes[RF_OPERAND_BF16] = ref_packed_bytes_bf16,
                                   .pack[RF_OPERAND_BF16] = ref_pack_bf16,
                                   .linear[RF_FORMAT_BF16] = ref_linear_bf16,
                                   .linear_rows = 48,
                                   .attention_f16 = ref_attention_f16,
                                   .attention_bf16 = ref_attention_bf16,
                                   .rms_norm = ref_rms_norm,
                                   .silu_gate = ref_silu_gate,
                                   .gelu_gate = ref_gelu_gate,
                                   .gelu = ref_gelu,
                                   .delta_step = ref_delta_step,
                                   .f32_to_f16 = ref_f32_to_f16,
                                   .f32_to_bf16 = ref_f32_to_bf16,
                                   .bf16_to_f32 = ref_bf16_to_f32,
                                   .first_above = ref_first_above,
                                   .read_streams = read_streams};
    rf_ref_init_panels(kernels);
    rf_ref_init_panels_row(kernels);
    rf_ref_init_attention_kv(kernels);
    rf_ref_init_cast(kernels);
}
