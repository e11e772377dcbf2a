/* Generates all functions of a form into one executable block, and walks over weight panels and
 * activation rows with them. Every form and every walk gives the bits of the reference kernels.
 * src/cpu/tiers.c calls it. */
#include <stdio.h>

#include "jit/frame.h"

enum {
    MOST_BYTES = 2 << 20, /* more than all functions of a form need */
    FEW_ROWS = 4,         /* up to which a function takes RF_PANELS_MOST panels at once */
    FUNCTIONS_PER_FORMAT = 3 * FEW_ROWS + 2 * ((int)RF_PANELS_MOST_ROWS - FEW_ROWS),
    DECODING_ROWS = 16
};
_Static_assert((int)RF_PANELS_MOST_SUMS >= FEW_ROWS * (int)RF_PANELS_MOST &&
                   (int)RF_PANELS_MOST_SUMS >= (int)RF_PANELS_MOST_ROWS * (int)RF_PANELS_MOST / 2,
               "rf_panels_call.sums holds every function's sums");

int rf_panels_can(enum rf_panels_form form, enum rf_format format)
{
    switch (format) {
    case RF_FORMAT_MXFP4:
    case RF_FORMAT_Q4_0:
    case RF_FORMAT_Q4_1:
    case RF_FORMAT_Q4_K:
    case RF_FORMAT_Q6_K: return 1;
    case RF_FORMAT_Q8_0:
    case RF_FORMAT_IQ4_NL:
    case RF_FORMAT_IQ4_XS:
    case RF_FORMAT_IQ2:
    case RF_FORMAT_IQ3_XXS:
    case RF_FORMAT_IQ3_S: return form != RF_PANELS_AVX2; /* sums of products exceed 16 bits */
    default: return 0;
    }
}

size_t rf_panels_at_once(size_t n)
{
    return n <= FEW_ROWS ? RF_PANELS_MOST : RF_PANELS_MOST / 2;
}

void rf_panels_emit(struct rf_assembler *assembler, enum rf_panels_form form, enum rf_format format,
                    int n, int p)
{
    if (form == RF_PANELS_AVX512)
        rf_panels_emit_512(assembler, format, n, p);
    else
        rf_panels_emit_256(assembler, form, format, n, p);
}

void rf_panels_name(char name[RF_FUNCTION_NAME], enum rf_panels_form form, enum rf_format format,
                    int n, int p)
{
    static const char *const forms[RF_PANELS_FORM_COUNT] = {"avx2", "avxvnni", "avxvnni_evex",
                                                            "avxvnniint8", "avx512"};
    snprintf(name, RF_FUNCTION_NAME, "riffle_jit_%s_%s_a8_n%d_p%d", forms[form],
             rf_panel_layout(format)->name, n, p);
    for (char *at = name; *at; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
}

/* The functions of a block of code, in ascending order. */
struct function_list {
    size_t n;
    struct rf_function functions[RF_FORMAT_COUNT * FUNCTIONS_PER_FORMAT];
};

static void generate_function(struct rf_panels_kernels *kernels, struct rf_assembler *assembler,
                              enum rf_format format, size_t n, size_t p, struct function_list *list)
{
    struct rf_function *function = &list->functions[list->n++];
    rf_asm_align(assembler);
    function->begin = (unsigned)assembler->used;
    kernels->fn[format][n - 1][p - 1] =
        (rf_panels_fn *)(uintptr_t)(assembler->code + assembler->used);
    rf_panels_emit(assembler, kernels->form, format, (int)n, (int)p);
    function->end = (unsigned)assembler->used;
    rf_panels_name(function->name, kernels->form, format, (int)n, (int)p);
}

int rf_panels_generate(struct rf_panels_kernels *kernels, enum rf_panels_form form,
                       struct rf_error *error)
{
    *kernels = (struct rf_panels_kernels){.form = form};
    int code = rf_executable_new(&kernels->code, MOST_BYTES, error);
    if (code) return code;
    struct rf_assembler assembler = {.code = kernels->code.memory, .capacity = kernels->code.bytes};
    struct function_list list = {0};
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (size_t n = 1; n <= RF_PANELS_MOST_ROWS && rf_panels_can(form, (enum rf_format)format);
             n++)
            for (size_t p = rf_panels_at_once(n); p > 0; p /= 2)
                generate_function(kernels, &assembler, (enum rf_format)format, n, p, &list);
    code = rf_asm_finish(&assembler, error);
    if (!code)
        code = rf_executable_describe(&kernels->code, &rf_frame_prologue, list.functions, list.n,
                                      error);
    if (!code) code = rf_executable_seal(&kernels->code, error);
    if (code) rf_panels_free(kernels);
    return code;
}

void rf_panels_free(struct rf_panels_kernels *kernels)
{
    rf_executable_free(&kernels->code);
    *kernels = (struct rf_panels_kernels){0};
}

/* Writes the 16 sums of one row and one panel, whose first weight row is r, to y. */
static void panels_finish(const struct rf_linear_args *args, size_t i, size_t r,
                          const float sums[RF_PANEL_ROWS])
{
    float *y = args->y + i * args->ldy + r, result[RF_PANEL_ROWS];
    const float *bias = args->bias ? args->bias + r : NULL;
    if (args->m - r >= RF_PANEL_ROWS) {
        for (size_t j = 0; j < RF_PANEL_ROWS; j++) result[j] = bias ? sums[j] + bias[j] : sums[j];
        for (size_t j = 0; j < RF_PANEL_ROWS; j++)
            y[j] = args->accumulate ? y[j] + result[j] : result[j];
        return;
    }
    for (size_t j = 0; j < args->m - r; j++) {
        float sum = bias ? sums[j] + bias[j] : sums[j];
        y[j] = args->accumulate ? y[j] + sum : sum;
    }
}

/* Some rows of a call, which are multiplied by all panels. */
struct walk {
    const struct rf_panels_kernels *kernels;
    enum rf_format format;
    const struct rf_linear_args *args;
    size_t begin, end;
};

/* Multiplies `count` panels, first, first + step, ..., by n rows from i. */
static void walk_tile(const struct walk *walk, size_t first, size_t step, size_t count, size_t i,
                      size_t n)
{
    const struct rf_linear_args *args = walk->args;
    const struct rf_panel_layout *layout = rf_panel_layout(walk->format);
    size_t stride = rf_a8_stride(args->k), on = (step == 1 ? count : 1) * args->ldw;
    struct rf_panels_call call; /* the other members are set for each tile */
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
        for (size_t a = 0; a < n; a++)
            panels_finish(args, i + a, (first + p * step) * RF_PANEL_ROWS, call.sums[p * n + a]);
}

/* The same for all rows of the walk. The first tile brings the weights into a cache for the next
 * ones. */
static void walk_rows(const struct walk *walk, size_t first, size_t step, size_t count)
{
    size_t most = RF_PANELS_MOST_ROWS;
    for (size_t i = walk->begin; i < walk->end; i += most)
        walk_tile(walk, first, step, count, i, walk->end - i < most ? walk->end - i : most);
}

/* Multiplies panels first .. end - 1, one after another. */
static void walk_neighbours(const struct walk *walk, size_t first, size_t end, size_t count)
{
    for (; first < end; first += count) {
        while (count > end - first) count /= 2;
        walk_rows(walk, first, 1, count);
    }
}

void rf_panels_linear(const struct rf_panels_kernels *kernels, enum rf_format format,
                      const struct rf_linear_args *args)
{
    struct walk walk = {kernels, format, args, 0, args->n};
    size_t all = (args->m + RF_PANEL_ROWS - 1) / RF_PANEL_ROWS, count = rf_panels_at_once(args->n);
    if (args->n <= DECODING_ROWS) {
        /* Panels are cut into as many parts as a function takes panels, and each part is read from
         * end to end: memory is fastest with a few long streams. */
        size_t part = all / count;
        for (size_t first = 0; first < part; first++) walk_rows(&walk, first, part, count);
        walk_neighbours(&walk, part * count, all, count);
        return;
    }
    /* A prompt: a few rows stay in the L1 cache while all panels pass. */
    for (; walk.begin < args->n; walk.begin = walk.end) {
        walk.end = walk.begin + RF_PANELS_MOST_ROWS;
        if (walk.end > args->n) walk.end = args->n;
        walk_neighbours(&walk, 0, all, count);
    }
}
