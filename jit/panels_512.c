/* Emits one 512-bit kernel: p panels of 16 weight rows, each a separate stream, times n rows of
 * activations.
 *
 * Each turn of the loop handles a block of 32 values of k. All n * p products of the block stay in
 * registers. The block's codes are decoded two vectors, or 8 values of k, at a time, and every
 * row's values are broadcast once for all panels, because a core loads two vectors in the time of
 * two dot products. Then the products are scaled into the F32 sums, which are in registers or,
 * where these do not suffice, in memory, that is, the L1 cache. */
#include "jit/frame.h"

enum {
    AHEAD_FEW = 1024, /* prefetch distance in bytes of codes: with one row */
    AHEAD = 2048      /* the same with more rows; formats with units of 256 use one unit */
};

struct kernel {
    struct rf_frame frame;
    int rows_stay; /* 1: every row's two vectors stay in registers while panels are decoded one by
                      one; 0: all panels' codes do */
    /* Vector registers: the products come first, [p][n]. */
    int code, value, scale, minimum, mask, upper, temporary;
};

static int zmm_product(const struct kernel *kernel, int panel, int row)
{
    return panel * kernel->frame.n + row;
}

/* Decodes vectors 2j and 2j + 1 of a panel's codes into two registers. */
static void zmm_decode(const struct kernel *kernel, int panel, int j, int to)
{
    struct rf_assembler *out = kernel->frame.out;
    int low = to, high = to + 1;
    if (kernel->frame.layout->bits == 8) {
        rf_asm_move(out, RF_VMOVDQU, low, rf_mem(rf_in_panel(reg_codes, panel, 128 * j)));
        rf_asm_move(out, RF_VMOVDQU, high, rf_mem(rf_in_panel(reg_codes, panel, 128 * j + 64)));
        return;
    }
    rf_asm_move(out, RF_VMOVDQU, high, rf_mem(rf_in_panel(reg_codes, panel, 64 * j)));
    if (rf_panel_table(kernel->frame.format)) {
        /* vpermb uses six bits of an index. The upper two belong to the next code, so the table is
         * repeated four times. */
        rf_asm_vector(out, RF_VPERMB, low, high, rf_reg(kernel->mask));
        rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
        rf_asm_vector(out, RF_VPERMB, high, high, rf_reg(kernel->mask));
        return;
    }
    rf_asm_vector(out, RF_VPAND, low, high, rf_reg(kernel->mask));
    rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
    rf_asm_vector(out, RF_VPAND, high, high, rf_reg(kernel->mask));
    if (kernel->frame.format != RF_FORMAT_Q6_K) return;
    /* One vector holds the upper two bits of four vectors. Each pair of bits moves to bits 4 and 5.
     */
    static const int left[4] = {4, 2, 0, -2};
    for (int v = 0; v < 2; v++) {
        int shift = left[j % 2 * 2 + v], bits = kernel->temporary;
        rf_asm_move(out, RF_VMOVDQU, bits,
                    rf_mem(rf_in_panel(reg_codes, panel, 256 + 64 * (j / 2))));
        if (shift)
            rf_asm_vector(out, shift > 0 ? RF_VPSLLW : RF_VPSRLW, bits, bits,
                          rf_imm(shift > 0 ? shift : -shift));
        rf_asm_ternary(out, to + v, bits, rf_reg(kernel->upper), 0xf8); /* to | bits & upper */
    }
}

/* Emits the products of vectors 2j and 2j + 1. */
static void zmm_multiply(const struct kernel *kernel, int j)
{
    struct rf_assembler *out = kernel->frame.out;
    int n = kernel->frame.n, p = kernel->frame.p;
    if (kernel->rows_stay) {
        for (int row = 0; row < n; row++)
            for (int v = 0; v < 2; v++)
                rf_frame_broadcast(&kernel->frame, kernel->value + 2 * row + v, row,
                                   4 * (2 * j + v));
        for (int panel = 0; panel < p; panel++) {
            zmm_decode(kernel, panel, j, kernel->code);
            for (int v = 0; v < 2; v++)
                for (int row = 0; row < n; row++)
                    rf_asm_vector(out, RF_VPDPBUSD, zmm_product(kernel, panel, row),
                                  kernel->code + v, rf_reg(kernel->value + 2 * row + v));
        }
        return;
    }
    for (int panel = 0; panel < p; panel++) zmm_decode(kernel, panel, j, kernel->code + 2 * panel);
    for (int row = 0; row < n; row++) {
        for (int v = 0; v < 2; v++)
            rf_frame_broadcast(&kernel->frame, kernel->value + v, row, 4 * (2 * j + v));
        for (int v = 0; v < 2; v++)
            for (int panel = 0; panel < p; panel++)
                rf_asm_vector(out, RF_VPDPBUSD, zmm_product(kernel, panel, row),
                              kernel->code + 2 * panel + v, rf_reg(kernel->value + v));
    }
}

/* Starts the products so that the codes' offset is subtracted. */
static void zmm_start(const struct kernel *kernel, int half)
{
    struct rf_assembler *out = kernel->frame.out;
    for (int row = 0; row < kernel->frame.n; row++)
        for (int panel = 0; panel < kernel->frame.p; panel++) {
            int to = zmm_product(kernel, panel, row);
            if (kernel->frame.traits.offset_at < 0)
                rf_asm_vector(out, RF_VPXOR, to, to, rf_reg(to));
            else if (panel)
                rf_asm_move(out, RF_VMOVDQU, to, rf_reg(zmm_product(kernel, 0, row)));
            else
                rf_frame_start(&kernel->frame, to, row, half);
        }
}

/* Loads a panel's scales and minimums of a group. */
static void zmm_load_scales(const struct kernel *kernel, int panel, int half)
{
    struct rf_assembler *out = kernel->frame.out;
    int s = kernel->scale, b = kernel->minimum, t = kernel->temporary;
    switch (kernel->frame.format) {
    case RF_FORMAT_MXFP4:
        rf_asm_move(out, RF_VPMOVZXBD, s, rf_mem(rf_in_panel(reg_scales, panel, 0)));
        rf_asm_vector(out, RF_VPSLLD, s, s, rf_imm(23));
        break;
    case RF_FORMAT_Q4_K:
        for (int i = 0; i < 2; i++) {
            int to = i ? b : s;
            rf_asm_move(out, RF_VPMOVZXBD, t, rf_mem(rf_at(reg_numbers, 256 * panel + 128 * i)));
            rf_asm_move(out, RF_VCVTDQ2PS, t, rf_reg(t));
            rf_asm_move(out, RF_VCVTPH2PS, to,
                        rf_mem(rf_in_panel(reg_scales, panel, 192 + 32 * i)));
            rf_asm_vector(out, RF_VMULPS, to, to, rf_reg(t));
        }
        break;
    case RF_FORMAT_IQ2:
    case RF_FORMAT_IQ3_XXS:
    case RF_FORMAT_IQ3_S:
        rf_asm_move(out, RF_VPMOVSXBD, t, rf_mem(rf_in_panel(reg_numbers, panel, 16 * half)));
        rf_asm_move(out, RF_VCVTDQ2PS, t, rf_reg(t));
        rf_asm_vector(
            out, RF_VMULPS, s, t,
            rf_mem(rf_in_panel(reg_scales, panel, (int)kernel->frame.layout->scale_bytes - 64)));
        break;
    case RF_FORMAT_Q6_K:
    case RF_FORMAT_IQ4_XS:
        rf_asm_move(out, RF_VPMOVSXBD, t, rf_mem(rf_in_panel(reg_numbers, panel, 16 * half)));
        rf_asm_move(out, RF_VCVTDQ2PS, t, rf_reg(t));
        rf_asm_move(
            out, RF_VCVTPH2PS, s,
            rf_mem(rf_in_panel(reg_scales, panel, (int)kernel->frame.layout->scale_bytes - 32)));
        rf_asm_vector(out, RF_VMULPS, s, s, rf_reg(t));
        break;
    default:
        rf_asm_move(out, RF_VCVTPH2PS, s, rf_mem(rf_in_panel(reg_scales, panel, 0)));
        if (kernel->frame.format == RF_FORMAT_Q4_1)
            rf_asm_move(out, RF_VCVTPH2PS, b, rf_mem(rf_in_panel(reg_scales, panel, 32)));
        break;
    }
}

/* sum = fma(float(product) * d, s, sum), then sum = fma(b, d_sum, sum) where there is a minimum. */
static void zmm_add_scaled(const struct kernel *kernel, int panel, int row)
{
    struct rf_assembler *out = kernel->frame.out;
    int number = zmm_product(kernel, panel, row),
        to = kernel->frame.sum >= 0 ? kernel->frame.sum + number : number;
    rf_asm_move(out, RF_VCVTDQ2PS, number, rf_reg(number));
    rf_asm_vector(out, RF_VMULPS, number, number,
                  rf_mem_each(rf_in_row(row, offsetof(struct rf_a8, d))));
    if (kernel->frame.sum >= 0)
        rf_asm_vector(out, RF_VFMADD231PS, to, number, rf_reg(kernel->scale));
    else
        rf_asm_vector(out, RF_VFMADD213PS, to, kernel->scale,
                      rf_mem(rf_sum_at(&kernel->frame, number)));
    if (kernel->frame.layout->has_min)
        rf_asm_vector(out, RF_VFMADD231PS, to, kernel->minimum,
                      rf_mem_each(rf_in_row(row, offsetof(struct rf_a8, d_sum))));
    if (kernel->frame.sum < 0) rf_asm_store(out, rf_sum_at(&kernel->frame, number), to);
}

static void zmm_block(const void *of)
{
    const struct kernel *kernel = of;
    int halves = kernel->frame.traits.groups;
    for (int half = 0; half < halves; half++) {
        zmm_start(kernel, half);
        for (int j = 4 / halves * half; j < 4 / halves * (half + 1); j++) zmm_multiply(kernel, j);
        for (int panel = 0; panel < kernel->frame.p; panel++) {
            zmm_load_scales(kernel, panel, half);
            for (int row = 0; row < kernel->frame.n; row++) zmm_add_scaled(kernel, panel, row);
        }
    }
}

/* Unpacks the 6-bit numbers of a Q4_K unit (rf_q4k_scale) to bytes in memory. */
static void zmm_unpack(const void *of, int panel)
{
    const struct kernel *kernel = of;
    if (kernel->frame.format != RF_FORMAT_Q4_K) return;
    struct rf_assembler *out = kernel->frame.out;
    int low = kernel->code, fourth = kernel->scale, t = kernel->temporary;
    static const size_t place[3] = {offsetof(struct rf_frame_constants, two),
                                    offsetof(struct rf_frame_constants, middle_two),
                                    offsetof(struct rf_frame_constants, upper_two)};
    for (int v = 0; v < 3; v++) {
        rf_asm_move(out, RF_VMOVDQU, t, rf_mem(rf_in_panel(reg_scales, panel, 64 * v)));
        rf_asm_vector(out, RF_VPAND, low, t, rf_constant(offsetof(struct rf_frame_constants, six)));
        rf_asm_store(out,
                     rf_in_call(offsetof(struct rf_panels_call, numbers) + 256 * (size_t)panel +
                                64 * (size_t)v),
                     low);
        rf_asm_vector(out, RF_VPSRLW, t, t, rf_imm(6 - 2 * v));
        if (v == 0)
            rf_asm_vector(out, RF_VPAND, fourth, t, rf_constant(place[v]));
        else
            rf_asm_ternary(out, fourth, t, rf_constant(place[v]), 0xf8);
    }
    rf_asm_store(out,
                 rf_in_call(offsetof(struct rf_panels_call, numbers) + 256 * (size_t)panel + 192),
                 fourth);
}

static void zmm_load_constants(const void *of)
{
    const struct kernel *kernel = of;
    struct rf_assembler *out = kernel->frame.out;
    rf_asm_move(out, RF_VMOVDQU, kernel->mask,
                rf_constant(rf_panel_table(kernel->frame.format)
                                ? rf_frame_table(kernel->frame.format, 0)
                                : offsetof(struct rf_frame_constants, nibble)));
    if (kernel->frame.format == RF_FORMAT_Q6_K)
        rf_asm_move(out, RF_VMOVDQU, kernel->upper,
                    rf_constant(offsetof(struct rf_frame_constants, upper_two)));
}

static void zmm_assign_registers(struct kernel *kernel)
{
    enum { REGISTERS = 32 };
    int n = kernel->frame.n, p = kernel->frame.p, next = n * p;
    kernel->rows_stay = n <= p;
    kernel->code = next;
    next += kernel->rows_stay ? 2 : 2 * p;
    kernel->value = next;
    next += kernel->rows_stay ? 2 * n : 2;
    kernel->scale = next++;
    kernel->minimum = next++;
    kernel->mask = next++;
    kernel->upper = next++;
    kernel->temporary = next++;
    kernel->frame.sum = next + n * p <= REGISTERS ? next : -1;
}

void rf_panels_emit_512(struct rf_assembler *assembler, enum rf_format format, int n, int p)
{
    static const struct rf_frame_body body = {zmm_load_constants, zmm_unpack, zmm_block};
    struct kernel kernel = {.frame = rf_frame_of(assembler, format, n, p)};
    struct rf_frame *frame = &kernel.frame;
    int bytes = (int)frame->layout->block_bytes;
    frame->ahead = frame->traits.super ? 1 : (n == 1 ? AHEAD_FEW : AHEAD) / bytes;
    frame->asks = 1;
    zmm_assign_registers(&kernel);
    assembler->vector_bytes = 64;
    assembler->evex = 1;
    rf_frame_emit(&kernel.frame, &body, &kernel);
}
