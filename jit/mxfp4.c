#include "jit/mxfp4.h"

#include <stdalign.h>

enum { MOST_BYTES = 1 << 20 }; /* of a form's functions, with room to spare */

int rf_mxfp4_generate(struct rf_mxfp4_kernels *kernels, enum rf_mxfp4_form form, struct rf_error *error)
{
    *kernels = (struct rf_mxfp4_kernels){0};
    int code = rf_executable_new(&kernels->code, MOST_BYTES, error);
    if (code) return code;
    struct rf_assembler assembler = {.code = kernels->code.memory, .capacity = kernels->code.bytes};
    for (int n = 1; n <= RF_MXFP4_MOST_ROWS; n++) {
        kernels->panels[n - 1] = rf_mxfp4_panels(form, n);
        for (int p = 1; p <= kernels->panels[n - 1]; p++) {
            rf_asm_align(&assembler);
            kernels->fn[n - 1][p - 1] = (rf_mxfp4_fn *)(uintptr_t)(assembler.code + assembler.used);
            rf_mxfp4_emit(&assembler, form, n, p);
        }
    }
    kernels->code_bytes = assembler.used;
    code = rf_asm_finish(&assembler, error);
    if (!code) code = rf_executable_seal(&kernels->code, error);
    if (code) rf_mxfp4_free(kernels);
    return code;
}

void rf_mxfp4_free(struct rf_mxfp4_kernels *kernels)
{
    rf_executable_free(&kernels->code);
    *kernels = (struct rf_mxfp4_kernels){0};
}

/* The 16 sums of one row and one panel, whose first weight row is r, to where they belong. */
static void finish(const struct rf_linear_args *args, size_t i, size_t r, const float *sums)
{
    float *y = args->y + i * args->ldy + r, result[RF_PANEL_ROWS];
    size_t count = args->m - r < RF_PANEL_ROWS ? args->m - r : RF_PANEL_ROWS;
    for (size_t j = 0; j < RF_PANEL_ROWS; j++) result[j] = sums[j];
    if (args->bias)
        for (size_t j = 0; j < count; j++) result[j] += args->bias[r + j];
    if (args->accumulate)
        for (size_t j = 0; j < count; j++) result[j] = y[j] + result[j];
    for (size_t j = 0; j < count; j++) y[j] = result[j];
}

/* `count` panels, `step` apart, from panel `first` on. */
static void panels(const struct rf_mxfp4_kernels *kernels, const struct rf_linear_args *args, size_t first, size_t step,
                   size_t count)
{
    alignas(64) float sums[(RF_MXFP4_MOST_PANELS + 1) * RF_MXFP4_MOST_ROWS * RF_PANEL_ROWS];
    const uint8_t *codes = (const uint8_t *)args->w + first * args->ldw;
    size_t blocks = args->k / RF_BLOCK;
    struct rf_mxfp4_call call = {.codes = codes,
                                 .scales = codes + blocks * rf_panel_layout(RF_FORMAT_MXFP4)->block_bytes,
                                 .part = step * args->ldw,
                                 .rows = args->x,
                                 .row_bytes = rf_a8_stride(args->k) * sizeof(struct rf_a8),
                                 .blocks = blocks,
                                 .sums = sums};
    kernels->fn[args->n - 1][count - 1](&call);
    for (size_t p = 0; p < count; p++)
        for (size_t i = 0; i < args->n; i++)
            finish(args, i, (first + p * step) * RF_PANEL_ROWS, sums + (p * args->n + i) * RF_PANEL_ROWS);
}

void rf_mxfp4_linear(const struct rf_mxfp4_kernels *kernels, const struct rf_linear_args *args)
{
    if (args->n == 0) return;
    /* As many parts as panels are walked at once, each walked from end to end: a few long streams are what memory serves
     * best. */
    size_t all = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, most = (size_t)kernels->panels[args->n - 1];
    size_t step = all / most, left = all % most;
    for (size_t first = 0; first < step; first++) panels(kernels, args, first, step, most);
    if (left) panels(kernels, args, all - left, 1, left);
}
