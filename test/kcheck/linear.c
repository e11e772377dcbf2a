/* BF16 weights times packed rows. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kcheck/kcheck.h"

struct operands {
    size_t m, n, k;
    uint16_t *w;
    float *x; /* unpacked [n][k] */
    float *bias;
};

/* The n rows from row `first`, as the kernels want them. */
static void *pack(const struct rf_kernels *kernels, const struct operands *o, size_t first, size_t n)
{
    void *packed = kcheck_guarded(kernels->packed_bytes[RF_OPERAND_BF16](n, o->k));
    for (size_t i = 0; i < n; i++) kernels->pack[RF_OPERAND_BF16](packed, i, o->x + (first + i) * o->k, o->k);
    return packed;
}

/* All of y = W x^T with one call, into guarded memory with ldy = m. */
static float *multiply(const struct rf_kernels *kernels, const struct operands *o, int accumulate)
{
    float *y = kcheck_guarded(o->n * o->m * sizeof *y);
    if (accumulate)
        for (size_t i = 0; i < o->n * o->m; i++) y[i] = (float)(i % 7) - 3.0f;
    void *packed = pack(kernels, o, 0, o->n);
    struct rf_linear_args args = {.y = y,
                                  .ldy = o->m,
                                  .w = o->w,
                                  .ldw = o->k,
                                  .x = packed,
                                  .m = o->m,
                                  .n = o->n,
                                  .k = o->k,
                                  .bias = o->bias,
                                  .accumulate = accumulate};
    kernels->linear[RF_FORMAT_BF16](&args);
    kcheck_release(packed, kernels->packed_bytes[RF_OPERAND_BF16](o->n, o->k));
    return y;
}

/* The same, one row and one weight at a time: what row independence promises the same bits for. */
static float *multiply_singly(const struct rf_kernels *kernels, const struct operands *o)
{
    float *y = kcheck_guarded(o->n * o->m * sizeof *y);
    for (size_t i = 0; i < o->n; i++) {
        void *packed = pack(kernels, o, i, 1);
        for (size_t r = 0; r < o->m; r++) {
            struct rf_linear_args args = {.y = y + i * o->m + r,
                                          .ldy = 1,
                                          .w = o->w + r * o->k,
                                          .ldw = o->k,
                                          .x = packed,
                                          .m = 1,
                                          .n = 1,
                                          .k = o->k,
                                          .bias = o->bias ? o->bias + r : NULL};
            kernels->linear[RF_FORMAT_BF16](&args);
        }
        kcheck_release(packed, kernels->packed_bytes[RF_OPERAND_BF16](1, o->k));
    }
    return y;
}

static void check_shape(struct kcheck *check, size_t m, size_t n, size_t k)
{
    struct operands o = {.m = m, .n = n, .k = k};
    o.w = kcheck_guarded(m * k * sizeof *o.w);
    o.x = kcheck_guarded(n * k * sizeof *o.x);
    float *bias = kcheck_guarded(m * sizeof *bias);
    for (size_t i = 0; i < m * k; i++) o.w[i] = rf_f32_to_bf16(kcheck_normal(check));
    for (size_t i = 0; i < n * k; i++) o.x[i] = kcheck_normal(check);
    for (size_t i = 0; i < m; i++) bias[i] = kcheck_normal(check);
    size_t y_bytes = n * m * sizeof(float);

    for (int form = 0; form < 3; form++) {
        o.bias = form ? bias : NULL;
        float *wanted = multiply(check->ref, &o, form == 2), *got = multiply(check->kernels, &o, form == 2);
        /* k terms of size about 1, summed in F32 in another order. */
        double tolerance = 0x1p-22 * (double)k + 0x1p-20;
        for (size_t i = 0; i < n * m; i++)
            kcheck_near(check, (double)got[i], (double)wanted[i], tolerance,
                        "linear_bf16 m=%zu n=%zu k=%zu form %d: row %zu, weight %zu", m, n, k, form, i / m, i % m);
        if (form < 2) {
            float *single = multiply_singly(check->kernels, &o);
            kcheck_same(check, got, single, y_bytes, "linear_bf16 m=%zu n=%zu k=%zu: bits depend on the call's shape",
                        m, n, k);
            kcheck_release(single, y_bytes);
        }
        kcheck_release(wanted, y_bytes);
        kcheck_release(got, y_bytes);
    }
    kcheck_release(o.w, m * k * sizeof *o.w);
    kcheck_release(o.x, n * k * sizeof *o.x);
    kcheck_release(bias, m * sizeof *bias);
}

void kcheck_linear(struct kcheck *check)
{
    for (size_t n = 1; n <= 20; n++) check_shape(check, 19, n, 96);
    for (size_t k = 1; k <= 70; k++) check_shape(check, 5, 3, k);
    for (size_t m = 1; m <= 26; m++) check_shape(check, m, kcheck_between(check, 1, 33), 48);
    check_shape(check, 24, 64, 1536);
    check_shape(check, 9, 37, 8960);
    for (int i = 0; i < 40; i++)
        check_shape(check, kcheck_between(check, 1, 40), kcheck_between(check, 1, 40), kcheck_between(check, 1, 400));
}
