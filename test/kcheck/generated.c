/* Checks generated kernels one by one, called as the backend calls them: every format, number of
 * rows and number of panels gives the reference's bits. Their instructions are emitted by hand, so
 * registers are checked too. */
#include "kcheck/kcheck.h"

#include <string.h>

#include "base/error.h"
#include "jit/panels.h"
#include "platform/cpu.h"

static const struct form {
    const char *name;
    enum rf_tier tier;
} forms[RF_PANELS_FORM_COUNT] = {
    [RF_PANELS_AVX2] = {"generated, avx2", RF_TIER_AVX2},
    [RF_PANELS_AVXVNNI] = {"generated, avxvnni (VEX)", RF_TIER_AVXVNNI},
    [RF_PANELS_AVXVNNI_EVEX] = {"generated, avxvnni (EVEX)", RF_TIER_AVXVNNI},
    [RF_PANELS_AVXVNNIINT8] = {"generated, avxvnniint8", RF_TIER_AVXVNNIINT8},
    [RF_PANELS_AVX512] = {"generated, avx512", RF_TIER_AVX512},
};

/* [n] rows and [p] panels, the panels `part` bytes apart and farther than one needs. */
static void check_function(struct kcheck *check, const struct rf_panels_kernels *kernels,
                           enum rf_format format, size_t n, size_t p, size_t k)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    size_t panel_bytes = rf_panel_bytes(format, k), part = panel_bytes + 64,
           w_bytes = (p - 1) * part + panel_bytes;
    size_t x_bytes, y_bytes = p * n * RF_PANEL_ROWS * sizeof(float),
                    hard = kcheck_between(check, 0, 1);
    uint8_t *w = kcheck_guarded(w_bytes);
    float *x = kcheck_guarded(n * k * sizeof *x), *wanted = kcheck_guarded(y_bytes);
    struct rf_panels_call *call = kcheck_guarded(sizeof *call);
    for (size_t i = 0; i < p; i++) kcheck_fill_panel(check, format, w + i * part, k, (int)hard);
    for (size_t i = 0; i < n * k; i += RF_BLOCK) kcheck_fill_block(check, x + i, (int)hard);
    void *rows = kcheck_pack(check, check->ref, RF_OPERAND_A8, x, n, k, &x_bytes);
    memset(call->sums, 0, sizeof call->sums);
    call->codes = w;
    call->scales = w + k / RF_BLOCK * layout->block_bytes;
    call->next_codes = call->next_scales = NULL; /* prefetched, never read */
    call->part = part;
    call->rows = rows;
    call->row_bytes = rf_a8_stride(k) * sizeof(struct rf_a8);
    call->units = k / layout->unit;
    check->is_generated = 1;
    kcheck_call(check, forms[kernels->form].name,
                (kcheck_kernel *)kernels->fn[format][n - 1][p - 1],
                (uint64_t[4]){kcheck_pointer(call)}, 0.0f);
    check->is_generated = 0;
    for (size_t i = 0; i < p; i++) {
        struct rf_linear_args args = {.y = wanted + i * n * RF_PANEL_ROWS,
                                      .ldy = RF_PANEL_ROWS,
                                      .w = w + i * part,
                                      .ldw = panel_bytes,
                                      .x = rows,
                                      .m = RF_PANEL_ROWS,
                                      .n = n,
                                      .k = k};
        check->ref->linear[format](&args);
    }
    kcheck_same(check, call->sums, wanted, y_bytes,
                "%s, %zu rows, %zu panels, k=%zu: bits differ from the reference's", layout->name,
                n, p, k);
    size_t used = p * n + n; /* products are stored behind the results */
    if (used < sizeof call->sums / sizeof *call->sums) {
        static const uint8_t none[sizeof call->sums];
        kcheck_same(check, call->sums[used], none, sizeof call->sums - used * sizeof *call->sums,
                    "%s, %zu rows, %zu panels: something is written behind the sums", layout->name,
                    n, p);
    }
    kcheck_release(w, w_bytes);
    kcheck_release(x, n * k * sizeof *x);
    kcheck_release(rows, x_bytes);
    kcheck_release(call, sizeof *call);
    kcheck_release(wanted, y_bytes);
}

int kcheck_generated_tier(int form)
{
    return form >= 0 && form < RF_PANELS_FORM_COUNT ? (int)forms[form].tier : -1;
}

const char *kcheck_generated_name(int form)
{
    return forms[form].name;
}

int kcheck_generated_is_native(int form)
{
    switch (form) {
    case RF_PANELS_AVXVNNI: return rf_cpu_has_tier(RF_TIER_AVXVNNI) && !rf_cpu_needs_evex();
    case RF_PANELS_AVXVNNI_EVEX: return rf_cpu_has_tier(RF_TIER_AVX512);
    default: return rf_cpu_has_tier(forms[form].tier);
    }
}

void kcheck_generated(struct kcheck *check, int form)
{
    struct rf_panels_kernels kernels;
    struct rf_error error = {0};
    int code = rf_panels_generate(&kernels, (enum rf_panels_form)form, &error);
    kcheck_near(check, code, 0, 0, "%s", error.text);
    if (code) return;
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (size_t n = 1; n <= RF_PANELS_MOST_ROWS; n++)
            for (size_t p = 1; p <= RF_PANELS_MOST; p++) {
                if (!kernels.fn[format][n - 1][p - 1]) continue;
                size_t unit = rf_panel_layout((enum rf_format)format)->unit;
                for (size_t units = 1; units <= 3; units++)
                    check_function(check, &kernels, (enum rf_format)format, n, p, units * unit);
            }
    rf_panels_free(&kernels);
}
