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

/* All of y = W x^T with one call, into guarded memory. */
static float *multiply(struct kcheck *check, const struct rf_kernels *kernels,
                       const struct operands *o, int accumulate)
{
    size_t bytes;
    float *y = kcheck_results(o->n, o->m, accumulate);
    void *packed = kcheck_pack(check, kernels, RF_OPERAND_BF16, o->x, o->n, o->k, &bytes);
    struct rf_linear_args args = {.y = y,
                                  .ldy = kcheck_ldy(o->m),
                                  .w = o->w,
                                  .ldw = o->k,
                                  .x = packed,
                                  .m = o->m,
                                  .n = o->n,
                                  .k = o->k,
                                  .bias = o->bias,
                                  .accumulate = accumulate};
    kcheck_multiply(check, "linear BF16", kernels->linear[RF_FORMAT_BF16], &args);
    kcheck_release(packed, bytes);
    return y;
}

/* The same, one row and one weight per call. Row independence promises the same bits. */
static float *multiply_singly(struct kcheck *check, const struct operands *o)
{
    float *y = kcheck_results(o->n, o->m, 0);
    for (size_t i = 0; i < o->n; i++) {
        size_t bytes;
        void *packed =
            kcheck_pack(check, check->kernels, RF_OPERAND_BF16, o->x + i * o->k, 1, o->k, &bytes);
        for (size_t r = 0; r < o->m; r++) {
            struct rf_linear_args args = {.y = y + i * kcheck_ldy(o->m) + r,
                                          .ldy = 1,
                                          .w = o->w + r * o->k,
                                          .ldw = o->k,
                                          .x = packed,
                                          .m = 1,
                                          .n = 1,
                                          .k = o->k,
                                          .bias = o->bias ? o->bias + r : NULL};
            kcheck_multiply(check, "linear BF16", check->kernels->linear[RF_FORMAT_BF16], &args);
        }
        kcheck_release(packed, bytes);
    }
    return y;
}

/* One element in eight is zero, as large as its row's others together, or next to nothing. */
static float hard_value(struct kcheck *check)
{
    float value = kcheck_normal(check);
    switch (kcheck_between(check, 0, 23)) {
    case 0: return 0.0f;
    case 1: return value * 300.0f;
    case 2: return value * 0x1p-100f;
    default: return value;
    }
}

/* Sum of the products' magnitudes: what rounding errors are measured by. */
static double magnitude(const struct operands *o, size_t i, size_t r)
{
    double sum = 0.0;
    for (size_t j = 0; j < o->k; j++)
        sum += fabs((double)rf_bf16_to_f32(o->w[r * o->k + j])) * fabs((double)o->x[i * o->k + j]);
    return sum;
}

static void check_shape(struct kcheck *check, size_t m, size_t n, size_t k)
{
    struct operands o = {.m = m, .n = n, .k = k};
    o.w = kcheck_guarded(m * k * sizeof *o.w);
    o.x = kcheck_guarded(n * k * sizeof *o.x);
    float *bias = kcheck_guarded(m * sizeof *bias);
    for (size_t i = 0; i < m * k; i++) o.w[i] = rf_f32_to_bf16(hard_value(check));
    for (size_t i = 0; i < n * k; i++) o.x[i] = hard_value(check);
    for (size_t i = 0; i < m; i++) bias[i] = kcheck_normal(check);
    size_t ldy = kcheck_ldy(m), y_bytes = kcheck_y_bytes(n, m);

    /* Plain; with a bias; with a bias, accumulating. Bits are compared with single calls in the
     * first two. */
    int first = check->emulated ? (int)(n % 2) : 0, forms = check->emulated ? first + 1 : 3;
    for (int form = first; form < forms; form++) {
        o.bias = form ? bias : NULL;
        float *wanted = multiply(check, check->ref, &o, form == 2),
              *got = multiply(check, check->kernels, &o, form == 2);
        for (size_t i = 0; i < n; i++)
            for (size_t r = 0; r < m; r++) {
                /* k products, exact, summed in F32 in another order. */
                double tolerance = 0x1p-23 * (sqrt((double)k) + 2.0) * (magnitude(&o, i, r) + 4.0);
                kcheck_near(check, (double)got[i * ldy + r], (double)wanted[i * ldy + r], tolerance,
                            "linear BF16 m=%zu n=%zu k=%zu form %d: row %zu, weight %zu", m, n, k,
                            form, i, r);
            }
        kcheck_gaps(check, "linear BF16", got, n, m);
        if (form < 2) {
            float *single = multiply_singly(check, &o);
            kcheck_same(check, got, single, y_bytes,
                        "linear BF16 m=%zu n=%zu k=%zu: bits depend on the call's shape", m, n, k);
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
    check_shape(check, 35, 37, 64);
    check_shape(check, 24, 64, kcheck_shapes(check, 1536, 96));
    check_shape(check, 9, 37, kcheck_shapes(check, 8960, 160));
    for (size_t i = 0; i < kcheck_shapes(check, 40, 5); i++)
        check_shape(check, kcheck_between(check, 1, 40), kcheck_between(check, 1, 40),
                    kcheck_between(check, 1, 400));
}
