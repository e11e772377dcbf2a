#include "jit/panels.h"

enum { MOST_BYTES = 2 << 20, FEW_ROWS = 4, BY_TWO = 2, BY_FOUR = 4 };

/* One panel serves what is left over, two any number of rows, four up to four. */
static int is_used(int n, int p)
{
    return p == 1 || p == BY_TWO || (p == BY_FOUR && n <= FEW_ROWS);
}

int rf_panels_generate(struct rf_panels_kernels *kernels, struct rf_error *error)
{
    *kernels = (struct rf_panels_kernels){0};
    int code = rf_executable_new(&kernels->code, MOST_BYTES, error);
    if (code) return code;
    struct rf_assembler assembler = {.code = kernels->code.memory, .capacity = kernels->code.bytes};
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (int n = 1; n <= RF_PANELS_MOST_ROWS && rf_panels_can((enum rf_format)format); n++)
            for (int p = 1; p <= RF_PANELS_MOST; p++) {
                if (!is_used(n, p)) continue;
                rf_asm_align(&assembler);
                kernels->fn[format][n - 1][p - 1] = (rf_panels_fn *)(uintptr_t)(assembler.code + assembler.used);
                rf_panels_emit(&assembler, (enum rf_format)format, n, p);
            }
    code = rf_asm_finish(&assembler, error);
    if (!code) code = rf_executable_seal(&kernels->code, error);
    if (code) rf_panels_free(kernels);
    return code;
}

void rf_panels_free(struct rf_panels_kernels *kernels)
{
    rf_executable_free(&kernels->code);
    *kernels = (struct rf_panels_kernels){0};
}

/* The 16 sums of one row and one panel, whose first weight row is r, to where they belong. */
static void finish(const struct rf_linear_args *args, size_t i, size_t r, const float sums[RF_PANEL_ROWS])
{
    float *y = args->y + i * args->ldy + r, result[RF_PANEL_ROWS];
    const float *bias = args->bias ? args->bias + r : NULL;
    if (args->m - r >= RF_PANEL_ROWS) {
        for (size_t j = 0; j < RF_PANEL_ROWS; j++) result[j] = bias ? sums[j] + bias[j] : sums[j];
        for (size_t j = 0; j < RF_PANEL_ROWS; j++) y[j] = args->accumulate ? y[j] + result[j] : result[j];
        return;
    }
    for (size_t j = 0; j < args->m - r; j++) {
        float sum = bias ? sums[j] + bias[j] : sums[j];
        y[j] = args->accumulate ? y[j] + sum : sum;
    }
}

/* What a call's walks have in common. */
struct walk {
    const struct rf_panels_kernels *kernels;
    enum rf_format format;
    const struct rf_linear_args *args;
};

/* `count` panels, `step` apart, from panel `first` on, times n rows from i. */
static void panels(const struct walk *walk, size_t first, size_t step, size_t count, size_t i, size_t n)
{
    const struct rf_linear_args *args = walk->args;
    const struct rf_panel_layout *layout = rf_panel_layout(walk->format);
    size_t stride = rf_a8_stride(args->k), on = (step == 1 ? count : 1) * args->ldw;
    struct rf_panels_call call; /* what it does not say here is the function's own */
    call.codes = (const uint8_t *)args->w + first * args->ldw;
    call.scales = call.codes + args->k / RF_BLOCK * layout->block_bytes;
    call.next_codes = call.codes + on;
    call.next_scales = call.scales + on;
    call.part = step * args->ldw;
    call.rows = (const struct rf_a8 *)args->x + i * stride;
    call.row_bytes = stride * sizeof(struct rf_a8);
    call.units = args->k / layout->unit;
    walk->kernels->fn[walk->format][n - 1][count - 1](&call);
    for (size_t p = 0; p < count; p++)
        for (size_t a = 0; a < n; a++) finish(args, i + a, (first + p * step) * RF_PANEL_ROWS, call.sums[p * n + a]);
}

/* Eight rows at a time of the rows from `begin` to `end`. */
static void rows(const struct walk *walk, size_t first, size_t step, size_t count, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i += RF_PANELS_MOST_ROWS)
        panels(walk, first, step, count, i, end - i < RF_PANELS_MOST_ROWS ? end - i : RF_PANELS_MOST_ROWS);
}

void rf_panels_linear(const struct rf_panels_kernels *kernels, enum rf_format format, const struct rf_linear_args *args)
{
    struct walk walk = {kernels, format, args};
    size_t all = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, count = args->n <= FEW_ROWS ? BY_FOUR : BY_TWO, p = 0;
    if (args->n <= 2 * RF_PANELS_MOST_ROWS) {
        /* The decoding shape. As many parts as panels are walked at once, each walked from end to end: a few long streams
         * are what memory serves best. Rows after the first eight find the weights in a cache. */
        size_t part = all / count;
        for (; p < part; p++) rows(&walk, p, part, count, 0, args->n);
        for (p = part * count; p < all; p++) rows(&walk, p, 1, 1, 0, args->n);
        return;
    }
    /* The prompt shape: eight rows, which stay in the nearest cache, past all panels. */
    for (size_t i = 0; i < args->n; i += RF_PANELS_MOST_ROWS) {
        size_t end = i + RF_PANELS_MOST_ROWS < args->n ? i + RF_PANELS_MOST_ROWS : args->n;
        for (p = 0; p + count <= all; p += count) rows(&walk, p, 1, count, i, end);
        for (; p < all; p++) rows(&walk, p, 1, 1, i, end);
    }
}
