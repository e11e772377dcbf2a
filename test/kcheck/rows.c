/* Norm, gate, conversions. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kcheck/kcheck.h"

static void norm(struct kcheck *check, const struct rf_kernels *kernels, float *out, const float *x,
                 const float *weight, size_t n)
{
    kcheck_call(check, "rms_norm", (kcheck_kernel *)kernels->rms_norm,
                (uint64_t[4]){kcheck_pointer(out), kcheck_pointer(x), kcheck_pointer(weight), n},
                1e-5f);
}

static void check_norm(struct kcheck *check, size_t n, float size)
{
    size_t bytes = n * sizeof(float);
    float *x = kcheck_guarded(bytes), *weight = kcheck_guarded(bytes), *got = kcheck_guarded(bytes);
    float *wanted = kcheck_guarded(bytes), *again = kcheck_guarded(bytes);
    for (size_t i = 0; i < n; i++) {
        x[i] = kcheck_normal(check) * size;
        weight[i] = kcheck_normal(check);
    }
    norm(check, check->ref, wanted, x, weight, n);
    norm(check, check->kernels, got, x, weight, n);
    for (size_t i = 0; i < n; i++)
        kcheck_near(check, (double)got[i], (double)wanted[i],
                    1e-6 * (1.0 + fabs((double)wanted[i])), "rms_norm n=%zu: element %zu", n, i);
    memcpy(again, x, bytes);
    norm(check, check->kernels, again, again, weight, n);
    kcheck_same(check, again, got, bytes, "rms_norm n=%zu: in place it gives other bits", n);
    float *all[] = {x, weight, got, wanted, again};
    for (size_t i = 0; i < 5; i++) kcheck_release(all[i], bytes);
}

static void check_gate(struct kcheck *check, size_t n, int gelu)
{
    size_t bytes = n * sizeof(float);
    float *gate = kcheck_guarded(bytes), *up = kcheck_guarded(bytes), *got = kcheck_guarded(bytes);
    float *wanted = kcheck_guarded(bytes);
    for (size_t i = 0; i < n; i++) {
        gate[i] = kcheck_normal(check) * (i % 11 == 3 ? 1000.0f : i % 5 == 0 ? 60.0f : 4.0f);
        up[i] = kcheck_normal(check);
    }
    const struct rf_kernels *tables[] = {check->ref, check->kernels};
    float *results[] = {wanted, got};
    for (size_t i = 0; i < 2; i++)
        kcheck_call(
            check, gelu ? "gelu_gate" : "silu_gate",
            (kcheck_kernel *)(gelu ? tables[i]->gelu_gate : tables[i]->silu_gate),
            (uint64_t[4]){kcheck_pointer(results[i]), kcheck_pointer(gate), kcheck_pointer(up), n},
            0.0f);
    /* gelu's exponent is a polynomial, of up to 104 here, whose rounding the exponential amplifies.
     */
    double relative = gelu ? 104 * 4 * 0x1p-24 : 2e-6;
    for (size_t i = 0; i < n; i++)
        kcheck_near(check, (double)got[i], (double)wanted[i],
                    relative * (1e-6 + fabs((double)wanted[i])) + 1e-30,
                    "%s_gate n=%zu: element %zu, gate %g", gelu ? "gelu" : "silu", n, i,
                    (double)gate[i]);
    float *all[] = {gate, up, got, wanted};
    for (size_t i = 0; i < 4; i++) kcheck_release(all[i], bytes);
}

/* The reference beside erf, and the same bits as the reference's, also in place. */
static void check_gelu(struct kcheck *check, size_t n, float size)
{
    size_t bytes = n * sizeof(float);
    float *x = kcheck_guarded(bytes), *got = kcheck_guarded(bytes), *wanted = kcheck_guarded(bytes);
    for (size_t i = 0; i < n; i++)
        x[i] = i % 13 == 5 ? (i % 2 ? 1000.0f : -1000.0f) : kcheck_normal(check) * size;
    float *const ins[] = {x, x, got}, *const outs[] = {wanted, got, got};
    const struct rf_kernels *tables[] = {check->ref, check->kernels, check->kernels};
    for (size_t i = 0; i < 3; i++) {
        if (i == 2) memcpy(got, x, bytes);
        kcheck_call(check, "gelu", (kcheck_kernel *)tables[i]->gelu,
                    (uint64_t[4]){kcheck_pointer(outs[i]), kcheck_pointer(ins[i]), n, 0}, 0.0f);
        kcheck_same(check, outs[i], wanted, bytes, "gelu n=%zu: call %zu gives other bits", n, i);
    }
    for (size_t i = 0; i < n; i++)
        kcheck_near(check, (double)wanted[i],
                    0.5 * (double)x[i] * (1 + erf((double)x[i] * 0.70710678118654752440)),
                    x[i] > -6.0f ? 3e-7 * fabs((double)x[i]) : 1e-8,
                    "gelu n=%zu: element %zu of %g", n, i, (double)x[i]);
    kcheck_release(x, bytes);
    kcheck_release(got, bytes);
    kcheck_release(wanted, bytes);
}

/* Rows that follow each other, in place, and then one beside; the same bits as the reference's. */
static void check_delta(struct kcheck *check, size_t rows, size_t width, int is_mamba)
{
    size_t bytes = rows * width * sizeof(float), row_bytes = rows * sizeof(float),
           column_bytes = width * sizeof(float);
    float *k = kcheck_guarded(row_bytes), *q = kcheck_guarded(row_bytes),
          *v = kcheck_guarded(column_bytes);
    float *states[2], *beside[2], *outs[2];
    for (int t = 0; t < 2; t++) {
        states[t] = kcheck_guarded(bytes);
        beside[t] = kcheck_guarded(bytes);
        outs[t] = kcheck_guarded(column_bytes);
        memset(states[t], 0, bytes);
    }
    for (int step = 0; step < 6; step++) {
        for (size_t r = 0; r < rows; r++) {
            k[r] = kcheck_normal(check) / 4;
            q[r] = kcheck_normal(check);
        }
        for (size_t c = 0; c < width; c++) v[c] = kcheck_normal(check) * (step == 3 ? 1e4f : 1.0f);
        float b = fabsf(kcheck_normal(check)), g = step == 4 ? 0 : fabsf(kcheck_normal(check));
        for (int t = 0; t < 2; t++) {
            const struct rf_kernels *kernels = t ? check->kernels : check->ref;
            struct rf_delta_args args = {.from = states[t],
                                         .to = step == 5   ? beside[t]
                                               : step == 2 ? NULL
                                                           : states[t],
                                         .rows = rows,
                                         .width = width,
                                         .q = q,
                                         .k = k,
                                         .v = v,
                                         .b = b,
                                         .g = g,
                                         .out = step == 1 ? NULL : outs[t],
                                         .is_mamba = is_mamba};
            kcheck_call(check, "delta_step", (kcheck_kernel *)kernels->delta_step,
                        (uint64_t[4]){kcheck_pointer(&args)}, 0.0f);
        }
        const char *what = "delta_step rows=%zu width=%zu mamba %d step %d: %s";
        kcheck_same(check, states[1], states[0], bytes, what, rows, width, is_mamba, step, "S");
        kcheck_same(check, outs[1], outs[0], column_bytes, what, rows, width, is_mamba, step,
                    "out");
        kcheck_same(check, beside[1], beside[0], bytes, what, rows, width, is_mamba, step,
                    "S beside");
    }
    for (int t = 0; t < 2; t++) {
        kcheck_release(states[t], bytes);
        kcheck_release(beside[t], bytes);
        kcheck_release(outs[t], column_bytes);
    }
    kcheck_release(k, row_bytes);
    kcheck_release(q, row_bytes);
    kcheck_release(v, column_bytes);
}

/* The reference is the rule itself, in double. */
static void check_delta_rule(struct kcheck *check, int is_mamba)
{
    enum { ROWS = 13, WIDTH = 5 };
    float from[ROWS * WIDTH], to[ROWS * WIDTH], k[ROWS], q[ROWS], v[WIDTH], out[WIDTH];
    for (size_t i = 0; i < ROWS * WIDTH; i++) from[i] = kcheck_normal(check);
    for (size_t r = 0; r < ROWS; r++) {
        k[r] = kcheck_normal(check);
        q[r] = kcheck_normal(check);
    }
    for (size_t c = 0; c < WIDTH; c++) v[c] = kcheck_normal(check);
    const struct rf_delta_args args = {from, to, ROWS, WIDTH, q, k, v, 0.75f, 0.5f, out, is_mamba};
    kcheck_call(check, "delta_step", (kcheck_kernel *)check->kernels->delta_step,
                (uint64_t[4]){kcheck_pointer(&args)}, 0.0f);
    for (size_t c = 0; c < WIDTH; c++) {
        double held = 0, result = 0;
        for (size_t r = 0; r < ROWS && !is_mamba; r++)
            held += 0.5 * (double)from[r * WIDTH + c] * (double)k[r];
        double u = 0.75 * ((double)v[c] - held);
        for (size_t r = 0; r < ROWS; r++) {
            double s = 0.5 * (double)from[r * WIDTH + c] + (double)k[r] * u;
            result += s * (double)q[r];
            kcheck_near(check, (double)to[r * WIDTH + c], s, 1e-4, "delta_step: S[%zu][%zu]", r, c);
        }
        kcheck_near(check, (double)out[c], result, 1e-3, "delta_step: out[%zu]", c);
    }
}

/* Every value that a conversion must get right: signs, subnormals, ties, overflow, infinities, NaN.
 */
static float hard_value(struct kcheck *check)
{
    static const float special[] = {0.0f,       -0.0f,     65504.0f,     65519.9f,
                                    65520.0f,   -1e30f,    0x1p-24f,     0x1p-25f,
                                    0x1.8p-25f, 0x1p-14f,  0x1.ffcp-15f, 0x1.001p0f,
                                    0x1.003p0f, 0x1.01p0f, 0x1.03p0f,    0x1p-126f};
    uint32_t choice = kcheck_random(check) % 40;
    if (choice < sizeof special / sizeof *special) return special[choice];
    if (choice == 20) return INFINITY;
    if (choice == 21) return NAN;
    return ldexpf(kcheck_normal(check), (int)(kcheck_random(check) % 50) - 30);
}

static void convert(struct kcheck *check, const char *name, kcheck_kernel *kernel, void *out,
                    const void *x, size_t n)
{
    kcheck_call(check, name, kernel, (uint64_t[4]){kcheck_pointer(out), kcheck_pointer(x), n},
                0.0f);
}

static void check_conversions(struct kcheck *check, size_t n)
{
    float *x = kcheck_guarded(n * sizeof *x), *wide = kcheck_guarded(n * sizeof *wide);
    uint16_t *got = kcheck_guarded(n * sizeof *got);
    for (size_t i = 0; i < n; i++) x[i] = hard_value(check);
    convert(check, "f32_to_f16", (kcheck_kernel *)check->kernels->f32_to_f16, got, x, n);
    for (size_t i = 0; i < n; i++) {
        uint16_t wanted = rf_f32_to_f16(x[i]);
        int both_nan = isnan(x[i]) && (got[i] & 0x7c00) == 0x7c00 && (got[i] & 0x3ff);
        kcheck_near(check, both_nan ? 0 : got[i], both_nan ? 0 : wanted, 0, "f32_to_f16 n=%zu: %a",
                    n, (double)x[i]);
    }
    convert(check, "f32_to_bf16", (kcheck_kernel *)check->kernels->f32_to_bf16, got, x, n);
    for (size_t i = 0; i < n; i++)
        kcheck_near(check, got[i], rf_f32_to_bf16(x[i]), 0, "f32_to_bf16 n=%zu: %a", n,
                    (double)x[i]);
    convert(check, "bf16_to_f32", (kcheck_kernel *)check->kernels->bf16_to_f32, wide, got, n);
    for (size_t i = 0; i < n; i++) {
        float wanted = rf_bf16_to_f32(got[i]);
        kcheck_same(check, &wide[i], &wanted, sizeof wanted, "bf16_to_f32 n=%zu: 0x%04x", n,
                    got[i]);
    }
    kcheck_release(x, n * sizeof *x);
    kcheck_release(wide, n * sizeof *wide);
    kcheck_release(got, n * sizeof *got);
}

/* Against the definition, with the threshold at every kind of value, ties and NaNs among them. */
static void check_first_above(struct kcheck *check, size_t n)
{
    float *x = kcheck_guarded(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = kcheck_random(check) % 19 ? (float)(kcheck_random(check) % 64) : NAN;
    for (int t = -1; t < 66; t += 5) {
        float threshold = t < 0 ? -INFINITY : (float)t;
        size_t wanted = 0;
        while (wanted < n && !(x[wanted] > threshold)) wanted++;
        uint64_t got =
            kcheck_call(check, "first_above", (kcheck_kernel *)check->kernels->first_above,
                        (uint64_t[4]){kcheck_pointer(x), n}, threshold);
        kcheck_near(check, (double)got, (double)wanted, 0, "first_above n=%zu, threshold %g", n,
                    (double)threshold);
    }
    kcheck_release(x, n * sizeof *x);
}

/* read_streams reads exactly n bytes, each as often as asked: three times leave one. */
static void check_read(struct kcheck *check, size_t n)
{
    uint64_t *data = kcheck_guarded(n), wanted = 0;
    for (size_t i = 0; i < n / sizeof *data; i++) {
        data[i] = (uint64_t)kcheck_random(check) << 32 | kcheck_random(check);
        wanted ^= data[i];
    }
    for (size_t streams = 1; streams <= 16; streams *= 2)
        for (int way = 0; way < 4; way++) {
            struct rf_read_args args = {.data = data,
                                        .n = n,
                                        .streams = streams,
                                        .step = way & 1 ? 256 : 64,
                                        .ahead = way & 2 ? 1024 : 0,
                                        .times = way == 3 ? 3 : 1};
            uint64_t got =
                kcheck_call(check, "read_streams", (kcheck_kernel *)check->kernels->read_streams,
                            (uint64_t[4]){kcheck_pointer(&args)}, 0.0f);
            kcheck_same(check, &got, &wanted, sizeof got, "read_streams n=%zu, %zu streams, way %d",
                        n, streams, way);
        }
    kcheck_release(data, n);
}

/* The scalar conversions define the others, so they are checked on all 16-bit values. */
static void check_half(struct kcheck *check)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t half = (uint16_t)bits;
        float value = rf_f16_to_f32(half);
        int exponent = (half >> 10 & 31), fraction = half & 0x3ff;
        double magnitude = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                           : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                          : ldexp(fraction, -24);
        double wanted = half & 0x8000 ? -magnitude : magnitude;
        if (isnan(wanted)) {
            kcheck_near(check, isnan(value), 1, 0, "f16 0x%04x is a NaN", bits);
        } else {
            kcheck_near(check, (double)value, wanted, 0, "f16 0x%04x", bits);
            kcheck_near(check, rf_f32_to_f16(value), bits, 0, "f16 0x%04x there and back", bits);
        }
    }
}

void kcheck_rows(struct kcheck *check)
{
    for (size_t n = 1; n <= 40; n++) {
        check_norm(check, n, 10.0f);
        check_norm(check, n, 0.0f);
        check_norm(check, n, 1e-4f); /* values near epsilon */
        for (int gelu = 0; gelu < 2; gelu++) check_gate(check, n, gelu);
        check_gelu(check, n, n % 2 ? 0.1f : 4.0f);
        check_conversions(check, n);
    }
    check_norm(check, 1536, 10.0f);
    for (int gelu = 0; gelu < 2; gelu++) check_gate(check, 8960, gelu);
    check_gelu(check, 8960, 3.0f);
    check_conversions(check, 4001);
    for (size_t width = 1; width <= RF_DELTA_COLUMNS; width++)
        for (size_t rows = 1; rows <= 18; rows++) check_delta(check, rows / 2, width, rows % 2);
    for (int is_mamba = 0; is_mamba < 2; is_mamba++) {
        check_delta(check, 128, RF_DELTA_COLUMNS, is_mamba);
        check_delta_rule(check, is_mamba);
    }
    for (size_t n = 1; n <= 130; n++) check_first_above(check, n);
    for (size_t n = 64; n <= 1 << 16; n = 3 * n / 2 / 64 * 64 + 64) check_read(check, n);
    check_half(check);
}
