/* Weights in panels times rows of 8 bits, which every tier computes to the reference's bits, and of 16 bits. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kcheck/kcheck.h"

struct operands {
    enum rf_format format;
    size_t m, n, k;
    uint8_t *panels;
    size_t panel_bytes, bytes;
    float *x; /* unpacked [n][k] */
    float *bias;
};

static void put_f16(uint8_t *to, float value)
{
    uint16_t half = rf_f32_to_f16(value);
    memcpy(to, &half, sizeof half);
}

/* Random codes and random scales of the format's kind. */
static void fill_panel(struct kcheck *check, enum rf_format format, uint8_t *panel, size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t codes = k / RF_BLOCK * layout->block_bytes, units = k / layout->unit;
    for (size_t i = 0; i < codes + units * layout->scale_bytes; i++) panel[i] = (uint8_t)kcheck_random(check);
    if (format == RF_FORMAT_Q8_1 || format == RF_FORMAT_Q8_K) /* codes below 64 */
        for (size_t i = 0; i < codes; i++) panel[i] &= 63;
    for (size_t u = 0; u < units; u++) {
        uint8_t *scales = panel + codes + u * layout->scale_bytes;
        size_t halves = layout->scale_bytes;
        switch (format) {
        case RF_FORMAT_MXFP4:
            for (size_t r = 0; r < 16; r++) scales[r] = (uint8_t)kcheck_between(check, 0, 9) ? 110 + scales[r] % 20 : 0;
            continue;
        case RF_FORMAT_Q4_K: halves = 64; break;
        case RF_FORMAT_Q6_K: halves = 32; break;
        case RF_FORMAT_Q8_K: halves = 64; break;
        default: break;
        }
        uint8_t *f16 = scales + layout->scale_bytes - halves;
        for (size_t i = 0; i < halves / 2; i++) put_f16(f16 + 2 * i, kcheck_normal(check) * 0.05f);
    }
}

static void *pack(const struct rf_kernels *kernels, const struct operands *o, enum rf_operand form, size_t first,
                  size_t n)
{
    void *packed = kcheck_guarded(kernels->packed_bytes[form](n, o->k));
    for (size_t i = 0; i < n; i++) kernels->pack[form](packed, i, o->x + (first + i) * o->k, o->k);
    return packed;
}

/* All of y with one call, into guarded memory with ldy = m; or, `singly`, one row and one panel a call. */
static float *multiply(const struct rf_kernels *kernels, const struct operands *o, int a16, int accumulate, int singly)
{
    enum rf_operand form = a16 ? RF_OPERAND_A16 : RF_OPERAND_A8;
    rf_linear_fn *linear = a16 ? kernels->linear_mxfp4_a16 : kernels->linear[o->format];
    float *y = kcheck_guarded(o->n * o->m * sizeof *y);
    if (accumulate)
        for (size_t i = 0; i < o->n * o->m; i++) y[i] = (float)(i % 7) - 3.0f;
    size_t rows = singly ? 1 : o->n, weights = singly ? RF_PANEL_ROWS : o->m;
    for (size_t i = 0; i < o->n; i += rows) {
        void *packed = pack(kernels, o, form, i, rows);
        for (size_t r = 0; r < o->m; r += weights) {
            struct rf_linear_args args = {.y = y + i * o->m + r,
                                          .ldy = o->m,
                                          .w = o->panels + r / RF_PANEL_ROWS * o->panel_bytes,
                                          .ldw = o->panel_bytes,
                                          .x = packed,
                                          .m = o->m - r < weights ? o->m - r : weights,
                                          .n = rows,
                                          .k = o->k,
                                          .bias = o->bias ? o->bias + r : NULL,
                                          .accumulate = accumulate};
            linear(&args);
        }
        kcheck_release(packed, kernels->packed_bytes[form](rows, o->k));
    }
    return y;
}

static void check_product(struct kcheck *check, const struct operands *o, int a16, int accumulate)
{
    const char *name = a16 ? "MXFP4 (A16)" : rf_panel_layout(o->format)->name;
    size_t y_bytes = o->n * o->m * sizeof(float);
    float *wanted = multiply(check->ref, o, a16, accumulate, 0), *got = multiply(check->kernels, o, a16, accumulate, 0);
    if (a16) {
        for (size_t i = 0; i < o->n * o->m; i++)
            kcheck_near(check, (double)got[i], (double)wanted[i],
                        1e-5 * (double)o->k * (1.0 + fabs((double)wanted[i])) * 0x1p-6,
                        "%s m=%zu n=%zu k=%zu: row %zu, weight %zu", name, o->m, o->n, o->k, i / o->m, i % o->m);
    } else {
        for (size_t i = 0; i < o->n * o->m; i++)
            kcheck_near(check, (double)got[i], (double)wanted[i], 0.0, "%s m=%zu n=%zu k=%zu: row %zu, weight %zu",
                        name, o->m, o->n, o->k, i / o->m, i % o->m);
    }
    float *single = multiply(check->kernels, o, a16, accumulate, 1);
    kcheck_same(check, got, single, y_bytes, "%s m=%zu n=%zu k=%zu: bits depend on the call's shape", name, o->m, o->n,
                o->k);
    kcheck_release(single, y_bytes);
    kcheck_release(wanted, y_bytes);
    kcheck_release(got, y_bytes);
}

static void check_shape(struct kcheck *check, enum rf_format format, size_t m, size_t n, size_t k)
{
    struct operands o = {.format = format, .m = m, .n = n, .k = k, .panel_bytes = rf_panel_bytes(format, k)};
    size_t panels = (m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
    o.bytes = panels * o.panel_bytes;
    o.panels = kcheck_guarded(o.bytes);
    o.x = kcheck_guarded(n * k * sizeof *o.x);
    float *bias = kcheck_guarded(m * sizeof *bias);
    for (size_t p = 0; p < panels; p++) fill_panel(check, format, o.panels + p * o.panel_bytes, k);
    for (size_t i = 0; i < n * k; i++) o.x[i] = i / 32 % 11 == 7 ? 0.0f : kcheck_normal(check);
    for (size_t i = 0; i < m; i++) bias[i] = kcheck_normal(check);
    for (int a16 = 0; a16 <= (format == RF_FORMAT_MXFP4); a16++)
        for (int form = 0; form < 3; form++) {
            o.bias = form ? bias : NULL;
            check_product(check, &o, a16, form == 2);
        }
    kcheck_release(o.panels, o.bytes);
    kcheck_release(o.x, n * k * sizeof *o.x);
    kcheck_release(bias, m * sizeof *bias);
}

/* Rows as operands, to the reference's bits. */
static void check_pack(struct kcheck *check, size_t k)
{
    for (int form = RF_OPERAND_A8; form <= RF_OPERAND_A16; form++) {
        size_t x_bytes = 2 * k * sizeof(float), bytes = check->ref->packed_bytes[form](2, k);
        float *x = kcheck_guarded(x_bytes);
        for (size_t i = 0; i < 2 * k; i++) {
            x[i] = kcheck_normal(check) * (i / 32 % 5 == 3 ? 1e-3f : 20.0f);
            if (i / 32 % 7 == 2) x[i] = (float)((int)(kcheck_random(check) % 255) - 127) + 0.5f; /* ties */
            if (i / 32 % 7 == 5) x[i] = 0.0f;
            if (i / 32 % 7 == 6) x[i] *= 0x1p-104f; /* below what counts, or just above */
        }
        void *got = kcheck_guarded(bytes), *wanted = kcheck_guarded(bytes);
        memset(got, 0, bytes);
        memset(wanted, 0, bytes);
        for (size_t i = 0; i < 2; i++) {
            check->ref->pack[form](wanted, i, x + i * k, k);
            check->kernels->pack[form](got, i, x + i * k, k);
        }
        kcheck_same(check, got, wanted, bytes, "operand form %d, k=%zu: bits differ from the reference's", form, k);
        kcheck_release(got, bytes);
        kcheck_release(wanted, bytes);
        kcheck_release(x, x_bytes);
    }
}

void kcheck_panels(struct kcheck *check)
{
    for (size_t k = 32; k <= 1024; k += 32) check_pack(check, k);
    for (int format = RF_FORMAT_MXFP4; format < RF_FORMAT_COUNT; format++) {
        size_t unit = rf_panel_layout((enum rf_format)format)->unit;
        for (size_t n = 1; n <= 18; n++) check_shape(check, (enum rf_format)format, 37, n, unit);
        for (size_t m = 1; m <= 5; m++)
            check_shape(check, (enum rf_format)format, m * 16 + m % 3, kcheck_between(check, 1, 40), unit * 2);
        check_shape(check, (enum rf_format)format, 150, 3, unit * 3);
        check_shape(check, (enum rf_format)format, 48, 35, 1024);
    }
}
