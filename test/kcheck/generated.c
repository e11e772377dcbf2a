/* Generated kernels one by one, called as the backend's code calls them: every number of rows and of panels, to the
 * reference's bits. Their instructions are all written by hand, so that registers are worth a look. */
#include "kcheck/kcheck.h"

#include <string.h>

#include "base/error.h"
#include "jit/mxfp4.h"
#include "platform/cpu.h"

static const struct form {
    const char *name;
    enum rf_tier tier;
} forms[RF_MXFP4_FORM_COUNT] = {
    [RF_MXFP4_AVX2] = {"generated, avx2", RF_TIER_AVX2},
    [RF_MXFP4_AVXVNNI] = {"generated, avxvnni (VEX)", RF_TIER_AVXVNNI},
    [RF_MXFP4_AVXVNNI_EVEX] = {"generated, avxvnni (EVEX)", RF_TIER_AVXVNNI},
    [RF_MXFP4_AVXVNNIINT8] = {"generated, avxvnniint8", RF_TIER_AVXVNNIINT8},
    [RF_MXFP4_AVX512] = {"generated, avx512", RF_TIER_AVX512},
};

/* [n] rows and [p] panels, the panels `part` bytes apart and farther than one needs. */
static void check_function(struct kcheck *check, const struct form *form, rf_mxfp4_fn *fn, size_t n, size_t p, size_t k)
{
    size_t panel_bytes = rf_panel_bytes(RF_FORMAT_MXFP4, k), part = panel_bytes + 64, blocks = k / RF_BLOCK;
    size_t w_bytes = (p - 1) * part + panel_bytes, codes = blocks * rf_panel_layout(RF_FORMAT_MXFP4)->block_bytes;
    size_t x_bytes, one_panel = n * RF_PANEL_ROWS * sizeof(float), y_bytes = p * one_panel;
    uint8_t *w = kcheck_guarded(w_bytes);
    float *x = kcheck_guarded(n * k * sizeof *x), *wanted = kcheck_guarded(y_bytes);
    float *sums = kcheck_guarded(y_bytes + one_panel); /* a function may write behind its results */
    for (size_t i = 0; i < w_bytes; i++) w[i] = (uint8_t)kcheck_random(check);
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j < blocks * RF_PANEL_ROWS; j++) {
            uint8_t *scale = w + i * part + codes + j;
            *scale = *scale % 8 ? (uint8_t)(110 + *scale % 20) : 0;
        }
    for (size_t i = 0; i < n * k; i++) x[i] = kcheck_normal(check);
    void *rows = kcheck_pack(check, check->ref, RF_OPERAND_A8, x, n, k, &x_bytes);
    struct rf_mxfp4_call call = {.codes = w,
                                 .scales = w + codes,
                                 .part = part,
                                 .rows = rows,
                                 .row_bytes = rf_a8_stride(k) * sizeof(struct rf_a8),
                                 .blocks = blocks,
                                 .sums = sums};
    kcheck_call(check, form->name, (kcheck_kernel *)fn, (uint64_t[4]){kcheck_pointer(&call)}, 0.0f);
    for (size_t i = 0; i < p; i++) {
        struct rf_linear_args args = {.y = wanted + i * n * RF_PANEL_ROWS,
                                      .ldy = RF_PANEL_ROWS,
                                      .w = w + i * part,
                                      .ldw = panel_bytes,
                                      .x = rows,
                                      .m = RF_PANEL_ROWS,
                                      .n = n,
                                      .k = k};
        check->ref->linear[RF_FORMAT_MXFP4](&args);
    }
    kcheck_same(check, sums, wanted, y_bytes, "%zu rows, %zu panels, k=%zu: bits differ from the reference's", n, p, k);
    kcheck_release(w, w_bytes);
    kcheck_release(x, n * k * sizeof *x);
    kcheck_release(rows, x_bytes);
    kcheck_release(sums, y_bytes + one_panel);
    kcheck_release(wanted, y_bytes);
}

int kcheck_generated_tier(int form)
{
    return form >= 0 && form < RF_MXFP4_FORM_COUNT ? (int)forms[form].tier : -1;
}

const char *kcheck_generated_name(int form)
{
    return forms[form].name;
}

int kcheck_generated_is_native(int form)
{
    switch (form) {
    case RF_MXFP4_AVXVNNI: return rf_cpu_has_tier(RF_TIER_AVXVNNI) && !rf_cpu_needs_evex();
    case RF_MXFP4_AVXVNNI_EVEX: return rf_cpu_has_tier(RF_TIER_AVX512);
    default: return rf_cpu_has_tier(forms[form].tier);
    }
}

void kcheck_generated(struct kcheck *check, int form)
{
    struct rf_mxfp4_kernels kernels;
    struct rf_error error = {0};
    int code = rf_mxfp4_generate(&kernels, (enum rf_mxfp4_form)form, &error);
    kcheck_near(check, code, 0, 0, "%s", error.text);
    if (code) return;
    for (size_t n = 1; n <= RF_MXFP4_MOST_ROWS; n++)
        for (size_t p = 1; p <= (size_t)kernels.panels[n - 1]; p++)
            for (size_t k = 32; k <= 96; k += 32)
                check_function(check, &forms[form], kernels.fn[n - 1][p - 1], n, p, k);
    rf_mxfp4_free(&kernels);
}
