/* Attention over one chunk, in both cache types. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kcheck/kcheck.h"

enum { MAX_QUERIES = 40 };

struct shape {
    size_t n_q, dim, positions; /* positions that are written */
    int bf16;
};

static float *attend(struct kcheck *check, const struct rf_kernels *kernels,
                     const struct shape *shape, const float *const *q, const int32_t *visible,
                     const uint16_t *k, const uint16_t *v, size_t n_q)
{
    size_t ldo = rf_padded(shape->dim) + 2;
    float *out = kcheck_guarded(n_q * ldo * sizeof *out);
    struct rf_attention_args args = {.q = q,
                                     .visible = visible,
                                     .n_q = n_q,
                                     .k = k,
                                     .v = v,
                                     .head_dim = shape->dim,
                                     .scale = 1.0f / sqrtf((float)shape->dim),
                                     .out = out,
                                     .ldo = ldo};
    kcheck_call(check, shape->bf16 ? "attention_bf16" : "attention_f16",
                (kcheck_kernel *)(shape->bf16 ? kernels->attention_bf16 : kernels->attention_f16),
                (uint64_t[4]){kcheck_pointer(&args)}, 0.0f);
    return out;
}

static void check_shape(struct kcheck *check, const struct shape *shape)
{
    size_t padded = rf_padded(shape->dim), ldo = padded + 2, blocks = (shape->positions + 15) / 16;
    size_t k_bytes = blocks * 16 * shape->dim * sizeof(uint16_t),
           v_bytes = shape->positions * padded * sizeof(uint16_t);
    size_t q_bytes = shape->dim * sizeof(float);
    uint16_t (*half)(float) = shape->bf16 ? rf_f32_to_bf16 : rf_f32_to_f16;
    /* Positions after the written ones stay NaN in K: no query sees them, so no result may show
     * them. */
    uint16_t *k = kcheck_guarded(k_bytes), *v = kcheck_guarded(v_bytes);
    for (size_t p = 0; p < shape->positions; p++) {
        for (size_t j = 0; j < shape->dim; j++)
            k[p / 16 * 16 * shape->dim + j * 16 + p % 16] = half(kcheck_normal(check));
        for (size_t j = 0; j < padded; j++)
            v[p * padded + j] = j < shape->dim ? half(kcheck_normal(check)) : 0;
    }
    float *q[MAX_QUERIES];
    const float *queries[MAX_QUERIES];
    int32_t visible[MAX_QUERIES];
    for (size_t i = 0; i < shape->n_q; i++) {
        queries[i] = q[i] = kcheck_guarded(q_bytes);
        for (size_t j = 0; j < shape->dim; j++) q[i][j] = kcheck_normal(check) * 3.0f;
        visible[i] = (int32_t)kcheck_between(check, 0, shape->positions);
    }
    visible[0] = (int32_t)shape->positions;

    float *wanted = attend(check, check->ref, shape, queries, visible, k, v, shape->n_q);
    float *got = attend(check, check->kernels, shape, queries, visible, k, v, shape->n_q);
    for (size_t i = 0; i < shape->n_q; i++) {
        for (size_t j = 0; j < ldo; j++)
            kcheck_near(
                check, (double)got[i * ldo + j], (double)wanted[i * ldo + j],
                1e-5 * (1.0 + (double)fabsf(wanted[i * ldo + padded + 1])),
                "attention_%s dim=%zu queries=%zu positions=%zu visible=%d: query %zu, element %zu",
                shape->bf16 ? "bf16" : "f16", shape->dim, shape->n_q, shape->positions, visible[i],
                i, j);
        float *single = attend(check, check->kernels, shape, queries + i, visible + i, k, v, 1);
        kcheck_same(check, single, got + i * ldo, ldo * sizeof *got,
                    "attention_%s dim=%zu queries=%zu: bits of query %zu depend on the others",
                    shape->bf16 ? "bf16" : "f16", shape->dim, shape->n_q, i);
        kcheck_release(single, ldo * sizeof *got);
        kcheck_release(q[i], q_bytes);
    }
    kcheck_release(wanted, shape->n_q * ldo * sizeof *wanted);
    kcheck_release(got, shape->n_q * ldo * sizeof *got);
    kcheck_release(k, k_bytes);
    kcheck_release(v, v_bytes);
}

void kcheck_attention(struct kcheck *check)
{
    const size_t dims[] = {2, 8, 16, 24, 40, 64, 80, 96, 128, 256};
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t i = 0; i < kcheck_shapes(check, 8, 5); i++) {
                struct shape shape = {.n_q = kcheck_between(check, 1, i < 4 ? 8 : MAX_QUERIES),
                                      .dim = dims[d],
                                      .positions = i == 0   ? 1
                                                   : i == 1 ? 256
                                                            : kcheck_between(check, 1, 256),
                                      .bf16 = bf16};
                check_shape(check, &shape);
            }
}
