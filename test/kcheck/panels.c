/* Weights in panels times rows of 8 and of 16 bits: to the reference's bits on every tier. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "kcheck/kcheck.h"
#include "microkernels/amx/tier.h"
#include "microkernels/ref/tier.h"

/* A product of one format, by the kernel that is checked and by the reference. */
struct product {
    const char *name;
    enum rf_format format;
    enum rf_operand form;
    rf_linear_fn *kernel, *reference;
};

struct operands {
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

/* Codes of a block: random, or all the least or the greatest. */
static void fill_codes(struct kcheck *check, enum rf_format format, uint8_t *block, int hard)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t n = layout->block_bytes, choice = kcheck_between(check, 0, 2);
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)kcheck_random(check);
        if (hard && choice < 2) byte = choice ? 0xff : 0;
        if (layout->bits == 8 && layout->offset == 0) byte &= 63; /* codes without an offset */
        block[i] = byte;
    }
}

/* Scales of the format's kind; hard ones: none, the least, the greatest, negative. */
static void fill_scales(struct kcheck *check, enum rf_format format, uint8_t *scales, int hard)
{
    static const float hard_scales[] = {0.0f,     -0.0f,    0x1p-24f,  -0x1p-24f,
                                        0x1p-14f, 65504.0f, -65504.0f, 1.0f};
    static const uint8_t hard_exponents[] = {0, 1, 2, 127, 253, 254};
    size_t bytes = rf_panel_layout(format)->scale_bytes, halves = bytes;
    for (size_t i = 0; i < bytes; i++) {
        static const uint8_t extreme[] = {0, 0xff, 0x80, 0x7f};
        scales[i] = (uint8_t)kcheck_random(check);
        if (hard && scales[i] % 3 == 0) scales[i] = extreme[scales[i] / 3 % 4];
    }
    switch (format) {
    case RF_FORMAT_MXFP4:
        for (size_t r = 0; r < RF_PANEL_ROWS; r++) {
            uint8_t usual = kcheck_between(check, 0, 9) ? (uint8_t)(110 + scales[r] % 20) : 0;
            scales[r] = hard ? hard_exponents[scales[r] % sizeof hard_exponents] : usual;
        }
        return;
    case RF_FORMAT_W4A8_G128:
        for (size_t r = 0; r < RF_PANEL_ROWS; r++)
            scales[r] = (uint8_t)(hard && scales[r] % 2 ? (r % 2 ? RF_ROW_MOST : -RF_ROW_MOST)
                                                        : scales[r] % 31 - RF_ROW_MOST);
        return;
    case RF_FORMAT_Q4_K: halves = 64; break;
    case RF_FORMAT_Q6_K:
    case RF_FORMAT_IQ4_XS: halves = 32; break;
    case RF_FORMAT_Q8_K: halves = 64; break;
    default: break;
    }
    uint8_t *f16 = scales + bytes - halves;
    for (size_t i = 0; i < halves / 2; i++) {
        float usual = kcheck_normal(check) * 0.05f;
        size_t choice = kcheck_between(check, 0, 2 * sizeof hard_scales / sizeof *hard_scales - 1);
        int extreme = hard && choice < sizeof hard_scales / sizeof *hard_scales;
        put_f16(f16 + 2 * i, extreme ? hard_scales[choice] : usual);
    }
}

void kcheck_fill_panel(struct kcheck *check, enum rf_format format, uint8_t *panel, size_t k,
                       int hard)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    for (size_t i = 0; i < k / RF_BLOCK; i++)
        fill_codes(check, format, panel + i * layout->block_bytes, hard);
    panel += k / RF_BLOCK * layout->block_bytes;
    for (size_t i = 0; i < k / layout->unit && layout->scale_bytes; i++)
        fill_scales(check, format, panel + i * layout->scale_bytes, hard);
    panel += k / layout->unit * layout->scale_bytes;
    for (size_t r = 0; r < RF_PANEL_ROWS && rf_is_row_format(format); r++) {
        static const float hard_scales[] = {0.0f, -0.0f, 0x1p-28f, 4094.0f, -4094.0f, 1.0f};
        float d = kcheck_normal(check) * 0.05f;
        if (hard) d = hard_scales[kcheck_between(check, 0, 5)];
        memcpy(panel + r * sizeof d, &d, sizeof d);
    }
}

void kcheck_fill_block(struct kcheck *check, float *x, int hard)
{
    size_t choice = kcheck_between(check, 0, hard ? 6 : 10);
    float size = hard ? ldexpf(1.0f + (float)kcheck_between(check, 0, 7) / 8.0f, -20) : 1.0f;
    for (size_t i = 0; i < RF_BLOCK; i++) {
        x[i] = choice == 0 ? 0.0f : kcheck_normal(check) * size;
        if (!hard) continue;
        if (choice == 1) x[i] = size;
        if (choice == 2) x[i] = -size;
        if (choice == 3) x[i] = i % 2 ? size : -size;
        if (choice == 4) x[i] = i % 4 < 2 ? size : -size;
        if (choice == 5 && i == 13) x[i] = size * 1000.0f;
    }
}

/* All of y with one call; or, `singly`, one row and one panel a call. */
static float *multiply(struct kcheck *check, const struct product *product, int by_reference,
                       const struct operands *o, int accumulate, int singly)
{
    const struct rf_kernels *table = by_reference ? check->ref : check->kernels;
    float *y = kcheck_results(o->n, o->m, accumulate);
    size_t rows = singly ? 1 : o->n, weights = singly ? RF_PANEL_ROWS : o->m,
           ldy = kcheck_ldy(o->m);
    for (size_t i = 0; i < o->n; i += rows) {
        size_t bytes;
        void *packed =
            kcheck_pack(check, table, product->form, o->x + i * o->k, rows, o->k, &bytes);
        for (size_t r = 0; r < o->m; r += weights) {
            struct rf_linear_args args = {.y = y + i * ldy + r,
                                          .ldy = ldy,
                                          .w = o->panels + r / RF_PANEL_ROWS * o->panel_bytes,
                                          .ldw = o->panel_bytes,
                                          .x = packed,
                                          .m = o->m - r < weights ? o->m - r : weights,
                                          .n = rows,
                                          .k = o->k,
                                          .bias = o->bias ? o->bias + r : NULL,
                                          .accumulate = accumulate};
            kcheck_multiply(check, product->name,
                            by_reference ? product->reference : product->kernel, &args);
        }
        kcheck_release(packed, bytes);
    }
    return y;
}

static void check_product(struct kcheck *check, const struct product *product,
                          const struct operands *o, int accumulate)
{
    size_t y_bytes = kcheck_y_bytes(o->n, o->m), ldy = kcheck_ldy(o->m);
    float *wanted = multiply(check, product, 1, o, accumulate, 0),
          *got = multiply(check, product, 0, o, accumulate, 0);
    for (size_t i = 0; i < o->n; i++)
        for (size_t r = 0; r < o->m; r++) {
            size_t at = i * ldy + r;
            kcheck_near(check, (double)got[at], (double)wanted[at], 0.0,
                        "%s m=%zu n=%zu k=%zu: row %zu, weight %zu", product->name, o->m, o->n,
                        o->k, i, r);
        }
    kcheck_gaps(check, product->name, got, o->n, o->m);
    float *single = multiply(check, product, 0, o, accumulate, 1);
    kcheck_same(check, got, single, y_bytes,
                "%s m=%zu n=%zu k=%zu: bits depend on the call's shape", product->name, o->m, o->n,
                o->k);
    kcheck_release(single, y_bytes);
    kcheck_release(wanted, y_bytes);
    kcheck_release(got, y_bytes);
}

static void check_shape(struct kcheck *check, const struct product *product, size_t m, size_t n,
                        size_t k, int hard)
{
    struct operands o = {.m = m, .n = n, .k = k, .panel_bytes = rf_panel_bytes(product->format, k)};
    size_t panels = (m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS;
    o.bytes = panels * o.panel_bytes;
    o.panels = kcheck_guarded(o.bytes);
    o.x = kcheck_guarded(n * k * sizeof *o.x);
    float *bias = kcheck_guarded(m * sizeof *bias);
    for (size_t p = 0; p < panels; p++)
        kcheck_fill_panel(check, product->format, o.panels + p * o.panel_bytes, k, hard);
    for (size_t i = 0; i < n * k; i += RF_BLOCK) kcheck_fill_block(check, o.x + i, hard);
    for (size_t i = 0; i < m; i++) bias[i] = kcheck_normal(check);
    /* Plain; with a bias; with a bias, accumulating. */
    size_t first = check->emulated ? n % 3 : 0, forms = check->emulated ? first + 1 : 3;
    for (size_t form = first; form < forms; form++) {
        o.bias = form ? bias : NULL;
        check_product(check, product, &o, form == 2);
    }
    kcheck_release(o.panels, o.bytes);
    kcheck_release(o.x, n * k * sizeof *o.x);
    kcheck_release(bias, m * sizeof *bias);
}

/* Two 16-bit rows with bytes apart, in the reference's form. */
static void join_rows(const struct rf_a16_split *rows, size_t k, struct rf_a16 *to)
{
    static const size_t place[] = {0, 2, 1, 3};
    for (size_t g = 0; g < 2 * rf_a16_stride(k); g++, rows++, to++) {
        if (g % rf_a16_stride(k) == k / RF_BLOCK) continue; /* padding */
        for (size_t j = 0; j < RF_BLOCK; j++)
            to->q[j - j % 4 + place[j % 4]] = (int16_t)(256 * rows->high[j] + rows->low[j]);
        to->d = rows->d;
        to->d_sum = rows->d_sum;
        memcpy(to->d_half, rows->d_half, sizeof to->d_half);
        memcpy(to->sum, rows->sum, sizeof to->sum);
    }
}

static void check_numbers(struct kcheck *check, const struct rf_amx_numbers *numbers, size_t row,
                          const float wanted[4])
{
    const float got[] = {numbers->d[row], numbers->d_sum[row], numbers->d_half[0][row],
                         numbers->d_half[1][row]};
    kcheck_same(check, got, wanted, sizeof got, "numbers of row %zu beside tiles", row);
}

/* The same rows by sixteens: values, and the numbers beside them. */
static void check_sixteens(struct kcheck *check, enum rf_operand form, const char *packed,
                           const void *wanted, size_t k)
{
    static const size_t place[] = {0, 2, 1, 3};
    for (size_t i = 0; i < 2 * k; i++) {
        size_t row = i / k, block = i % k / RF_BLOCK, j = i % RF_BLOCK,
               at = j - j % 4 + place[j % 4];
        if (form == RF_OPERAND_A8) {
            const struct rf_amx_a8 *got = (const struct rf_amx_a8 *)packed + block;
            const struct rf_a8 *of = (const struct rf_a8 *)wanted + row * rf_a8_stride(k) + block;
            kcheck_near(check, (double)rf_bf16_to_f32(got->q[row][at]), of->q[j], 0.0,
                        "8 bits by tiles, k=%zu: row %zu, block %zu, value %zu", k, row, block, j);
            const float numbers[] = {of->d, of->d_sum, (float)of->m32[0] * of->d,
                                     (float)of->m32[1] * of->d};
            if (j == 0) check_numbers(check, &got->numbers, row, numbers);
        } else {
            const struct rf_amx_a16 *got = (const struct rf_amx_a16 *)packed + block;
            const struct rf_a16 *of =
                (const struct rf_a16 *)wanted + row * rf_a16_stride(k) + block;
            float sum = rf_bf16_to_f32(got->q[row][at]) + rf_bf16_to_f32(got->low[row][at]);
            kcheck_near(check, (double)sum, of->q[at], 0.0,
                        "16 bits by tiles, k=%zu: row %zu, block %zu, value %zu", k, row, block, j);
            const float numbers[] = {of->d, of->d_sum, of->d_half[0], of->d_half[1]};
            if (j == 0) check_numbers(check, &got->numbers, row, numbers);
        }
    }
}

/* Rows whose unit is that of a superblock: as in the reference, and by eights. */
static void check_pack_super(struct kcheck *check, size_t k)
{
    static const size_t place[] = {0, 2, 1, 3};
    enum { ROWS = 3 };
    size_t bytes, wanted_bytes, supers = rf_a16_supers(k), x_bytes = ROWS * k * sizeof(float);
    float *x = kcheck_guarded(x_bytes);
    for (size_t i = 0; i < ROWS * k; i++)
        x[i] = kcheck_normal(check) * (i / RF_SUPERBLOCK % 4 == 3 ? 1e-3f : 20.0f);
    if (k > RF_SUPERBLOCK) x[RF_SUPERBLOCK + 9] = INFINITY; /* then none of the superblock counts */
    void *got = kcheck_pack(check, check->kernels, RF_OPERAND_A16_SUPER, x, ROWS, k, &bytes),
         *wanted = kcheck_pack(check, check->ref, RF_OPERAND_A16_SUPER, x, ROWS, k, &wanted_bytes);
    const struct rf_a16_super *of = wanted;
    const struct rf_amx_super *eight =
        (const struct rf_amx_super *)((const char *)got + rf_amx_eights_at(k));
    size_t same = check->has_sixteens ? rf_amx_eights_at(k) : bytes;
    kcheck_same(check, got, wanted, same, "superblocks of rows, k=%zu: bits differ", k);
    for (size_t i = 0; check->has_sixteens && i < ROWS * supers; i++) {
        size_t row = i / supers;
        const struct rf_amx_super *by_tiles = &eight[i % supers];
        kcheck_same(check, &by_tiles->numbers[row], &of[i].numbers, sizeof of[i].numbers,
                    "numbers of row %zu by eights, k=%zu", row, k);
        for (size_t j = 0; j < RF_SUPERBLOCK; j++) {
            const int8_t(*q)[64] = by_tiles->q[j / 64];
            kcheck_near(check, 256 * q[row][j % 64] + q[RF_AMX_EIGHT + row][j % 64],
                        of[i].q[j - j % 4 + place[j % 4]], 0.0,
                        "by eights, k=%zu: row %zu, superblock %zu, value %zu", k, row, i % supers,
                        j);
        }
    }
    kcheck_release(got, bytes);
    kcheck_release(wanted, wanted_bytes);
    kcheck_release(x, x_bytes);
}

/* Rows as operands: the reference's bits, packed whole and in two parts. */
static void check_pack(struct kcheck *check, enum rf_operand form, size_t k)
{
    size_t x_bytes = 2 * k * sizeof(float), bytes = check->ref->packed_bytes[form](2, k),
           got_bytes = check->kernels->packed_bytes[form](2, k);
    float *x = kcheck_guarded(x_bytes);
    for (size_t i = 0; i < 2 * k; i++) {
        x[i] = kcheck_normal(check) * (i / 32 % 5 == 3 ? 1e-3f : 20.0f);
        if (i / 32 % 7 == 2)
            x[i] = (float)((int)(kcheck_random(check) % 255) - 127) + 0.5f; /* ties */
        if (i / 32 % 7 == 5) x[i] = 0.0f;
        if (i / 32 % 7 == 6)
            x[i] = ldexpf(copysignf(1.0f + fabsf(x[i]), x[i]),
                          -104); /* about where values stop to count */
    }
    void *got = kcheck_guarded(got_bytes), *wanted = kcheck_guarded(bytes);
    size_t half = k / 64 * 32;
    for (size_t i = 0; i < 2; i++) {
        const float *row = x + i * k;
        kcheck_pack_part(check, check->ref, form,
                         &(struct rf_pack_args){wanted, i, k, row, 0, k, 0});
        kcheck_pack_part(check, check->kernels, form,
                         &(struct rf_pack_args){got, i, k, row + half, half, k - half, 0});
        if (half)
            kcheck_pack_part(check, check->kernels, form,
                             &(struct rf_pack_args){got, i, k, row, 0, half, 0});
    }
    if (check->has_sixteens)
        check_sixteens(check, form, (const char *)got + rf_amx_sixteens_at(form, k), wanted, k);
    void *rows = kcheck_guarded(bytes);
    if (form == RF_OPERAND_A16 && check->has_split_rows)
        join_rows(got, k, rows);
    else
        memcpy(rows, got, bytes);
    kcheck_same(check, rows, wanted, bytes,
                "operand form %d, k=%zu: bits differ from the reference's", (int)form, k);
    kcheck_release(rows, bytes);
    kcheck_release(got, got_bytes);
    kcheck_release(wanted, bytes);
    kcheck_release(x, x_bytes);
}

/* Whole rows with one scale: the reference's bits, also of rows that have no numbers. */
static void check_pack_row(struct kcheck *check, size_t k)
{
    enum { ROWS = 4 };
    size_t x_bytes = ROWS * k * sizeof(float), bytes, wanted_bytes;
    float *x = kcheck_guarded(x_bytes);
    for (size_t i = 0; i < ROWS * k; i++) {
        x[i] = kcheck_normal(check) * (i / 32 % 5 == 3 ? 1e-3f : 20.0f);
        if (i / k == 1) x[i] = (float)((int)(kcheck_random(check) % 255) - 127) + 0.5f; /* ties */
        if (i / k == 2) x[i] = ldexpf(x[i], -108); /* about where values stop to count */
    }
    x[k + 1] = 127.0f;
    x[3 * k + 7] = k % 128 ? INFINITY : NAN;
    void *got = kcheck_pack(check, check->kernels, RF_OPERAND_A8_ROW, x, ROWS, k, &bytes),
         *wanted = kcheck_pack(check, check->ref, RF_OPERAND_A8_ROW, x, ROWS, k, &wanted_bytes);
    kcheck_same(check, got, wanted, wanted_bytes, "whole rows, k=%zu: bits differ", k);
    kcheck_release(got, bytes);
    kcheck_release(wanted, wanted_bytes);
    kcheck_release(x, x_bytes);
}

/* The longest row, whose codes, integers and activations are the greatest: the sum is exact, as
 * 64 bits show. */
static void check_long(struct kcheck *check, const struct product *product)
{
    const size_t k = RF_ROW_MOST_K, m = 2, n = check->emulated ? 1 : 2;
    size_t bytes = rf_panel_bytes(product->format, k), row_bytes;
    const struct rf_panel_layout *layout = rf_panel_layout(product->format);
    uint8_t *panel = kcheck_guarded(bytes);
    float *x = kcheck_guarded(n * k * sizeof *x), *y = kcheck_results(n, m, 0), d = 1.0f;
    memset(panel, 0, bytes); /* codes of -8 */
    memset(panel + k / RF_BLOCK * layout->block_bytes, RF_ROW_MOST,
           k / layout->unit * layout->scale_bytes);
    for (size_t r = 0; r < RF_PANEL_ROWS; r++)
        memcpy(panel + rf_panel_tail_at(product->format, k) + r * sizeof d, &d, sizeof d);
    for (size_t i = 0; i < n * k; i++) x[i] = i < k ? -127.0f : 127.0f;
    void *packed = kcheck_pack(check, check->kernels, product->form, x, n, k, &row_bytes);
    struct rf_linear_args args = {.y = y,
                                  .ldy = kcheck_ldy(m),
                                  .w = panel,
                                  .ldw = bytes,
                                  .x = packed,
                                  .m = m,
                                  .n = n,
                                  .k = k};
    kcheck_multiply(check, product->name, product->kernel, &args);
    int64_t wanted = 8ll * 127 * (int64_t)k * (layout->scale_bytes ? RF_ROW_MOST : 1);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < m; r++)
            kcheck_near(check, (double)y[i * kcheck_ldy(m) + r],
                        (double)(float)(i ? -wanted : wanted), 0.0,
                        "%s, the longest row: row %zu, weight %zu", product->name, i, r);
    kcheck_release(packed, row_bytes);
    kcheck_release(panel, bytes);
    kcheck_release(x, n * k * sizeof *x);
    kcheck_release(y, kcheck_y_bytes(n, m));
}

static void check_shapes(struct kcheck *check, const struct product *product)
{
    size_t unit = rf_panel_layout(product->format)->unit;
    for (size_t n = 1; n <= 18; n++) check_shape(check, product, 37, n, unit, 0);
    for (size_t n = 1; n <= 8; n++)
        check_shape(check, product, 21, kcheck_shapes(check, n + 8 * (n % 2), n), unit * 2, 1);
    for (size_t m = 1; m <= 5; m++)
        check_shape(check, product, m * 16 + m % 3,
                    kcheck_between(check, 1, kcheck_shapes(check, 40, 9)), unit * 2, 0);
    check_shape(check, product, 150, 3, unit * 3, 0);
    check_shape(check, product, 48, 35, kcheck_shapes(check, 1024, unit), 0);
}

void kcheck_panels(struct kcheck *check)
{
    for (size_t k = 32; k <= 1024; k += 32) {
        check_pack(check, RF_OPERAND_A8, k);
        check_pack(check, RF_OPERAND_A16, k);
        if (k % RF_SUPERBLOCK == 0) check_pack_super(check, k);
        if (k % 64 == 0) check_pack_row(check, k);
    }
    for (int format = RF_FORMAT_MXFP4; format < RF_FORMAT_COUNT; format++) {
        struct product product = {.name = rf_panel_layout((enum rf_format)format)->name,
                                  .format = (enum rf_format)format,
                                  .form = rf_operand_of((enum rf_format)format),
                                  .kernel = check->kernels->linear[format],
                                  .reference = check->ref->linear[format]};
        check_shapes(check, &product);
        if (rf_is_row_format(product.format)) {
            check_long(check, &product);
            /* More rows than are summed at a time, and more of k than is decoded at once. */
            check_shape(check, &product, 40, 135, 1024 + rf_panel_layout(product.format)->unit, 0);
        }
        if (!check->generated || check->generated->linear[format] == product.kernel) continue;
        char name[32];
        snprintf(name, sizeof name, "%s (generated)", product.name);
        product.name = name;
        product.kernel = check->generated->linear[format];
        check_shapes(check, &product);
    }
    for (int format = RF_FORMAT_MXFP4; format < RF_BLOCK_FORMAT_COUNT; format++) {
        char name[32];
        enum rf_operand form = check->kernels->operand_a16[format];
        snprintf(name, sizeof name, "%s (A16)", rf_panel_layout((enum rf_format)format)->name);
        struct product product = {.name = name,
                                  .format = (enum rf_format)format,
                                  .form = form,
                                  .kernel = check->kernels->linear_a16[format],
                                  .reference = form == RF_OPERAND_A16
                                                   ? check->ref->linear_a16[format]
                                                   : rf_ref_linear_a16_super[format]};
        check_shapes(check, &product);
        /* More rows than avx512 sums at a time; other tiers' instructions may be emulated. */
        if (check->has_split_rows)
            check_shape(check, &product, 150, 131,
                        512 + rf_panel_layout((enum rf_format)format)->unit, 0);
        /* The same of tiles. */
        if (check->has_sixteens)
            check_shape(check, &product, 85, form == RF_OPERAND_A16 ? 275 : 530,
                        rf_panel_layout((enum rf_format)format)->unit, 0);
    }
}
