/* Emits one 256-bit kernel for MXFP4: p panels of 16 weight rows, each a separate stream, times n
 * rows of activations.
 *
 * Each turn of the loop handles a block of 32 values of k. The block's codes of each panel are
 * looked up into registers. Each 32-bit lane is a weight row; register c (0 .. 7) holds the values
 * k = 4c .. 4c + 3. Every row of activations takes eight dot products with these registers into an
 * integer accumulator, which is scaled into the F32 sum. Some rows are interleaved, since each dot
 * product waits for the one before it.
 *
 * A panel is two vectors. Both halves are handled together, so that they share the broadcast
 * values. With 16 registers only half of a block's codes fit: all rows take four dot products with
 * these and then, in a second phase, four with the rest. */
#include "jit/frame.h"

enum dot { DOT_MADDUBS, DOT_BUSD, DOT_BSSD };

static const struct form {
    int evex;
    enum dot dot;
} forms[] = {
    [RF_PANELS_AVX2] = {0, DOT_MADDUBS},
    [RF_PANELS_AVXVNNI] = {0, DOT_BUSD},
    [RF_PANELS_AVXVNNI_EVEX] = {1, DOT_BUSD},
    [RF_PANELS_AVXVNNIINT8] = {0, DOT_BSSD},
};
_Static_assert(sizeof forms / sizeof *forms == RF_PANELS_AVX512, "all forms of 256 bits");

enum {
    HALVES = 2,
    CODES = 8,    /* times HALVES: vectors of codes in a block */
    AHEAD = 2048, /* prefetch distance in bytes of codes */
};

struct kernel {
    struct rf_frame frame;
    struct form form;
    int phases;        /* 1 or 2 */
    int together;      /* rows that are interleaved */
    int products_stay; /* in registers from phase to phase; else in memory, that is, the L1 cache */
    /* Vector registers: first the codes of a phase, [CODES / phases][HALVES], then the scales,
     * [HALVES]. */
    int scale;
    int ones;      /* operand of vpmaddwd */
    int product;   /* [together][HALVES] */
    int temporary; /* and the one before it */
};

/* The address of a vector of products between the phases. */
static struct rf_address product_at(const struct kernel *kernel, int row, int half)
{
    return rf_sum_at(&kernel->frame, (kernel->frame.p * kernel->frame.n + row) * HALVES + half);
}

/* Loads a panel's codes of a phase, and its scales, into their registers. */
static void look_up(const struct kernel *kernel, int panel, int phase)
{
    struct rf_assembler *out = kernel->frame.out;
    int table = kernel->temporary - 1, mask = kernel->temporary, lines = 4 / kernel->phases;
    rf_asm_move(out, RF_VMOVDQU, table,
                rf_constant(kernel->form.dot == DOT_BSSD
                                ? offsetof(struct rf_frame_constants, mxfp4_signed)
                                : offsetof(struct rf_frame_constants, mxfp4)));
    rf_asm_move(out, RF_VMOVDQU, mask, rf_constant(offsetof(struct rf_frame_constants, nibble)));
    for (int j = 0; j < lines; j++)
        for (int half = 0; half < HALVES; half++) {
            int low = 2 * j * HALVES + half, high = low + HALVES;
            struct rf_address from =
                rf_in_panel(reg_codes, panel, 64 * (phase * lines + j) + 32 * half);
            rf_asm_move(out, RF_VMOVDQU, high, rf_mem(from));
            rf_asm_vector(out, RF_VPAND, low, high, rf_reg(mask));
            rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
            rf_asm_vector(out, RF_VPAND, high, high, rf_reg(mask));
            rf_asm_vector(out, RF_VPSHUFB, low, table, rf_reg(low));
            rf_asm_vector(out, RF_VPSHUFB, high, table, rf_reg(high));
        }
    if (phase) return;
    for (int half = 0; half < HALVES; half++) {
        int to = kernel->scale + half;
        rf_asm_move(out, RF_VPMOVZXBD, to, rf_mem(rf_in_panel(reg_scales, panel, 8 * half)));
        rf_asm_vector(out, RF_VPSLLD, to, to, rf_imm(23));
    }
}

/* Emits a phase's products of `count` rows, by instructions that add four products to a 32-bit
 * lane. Unsigned codes are 12 too large, so sums start at -12 times the sum of the row's values. */
static void dot_products(const struct kernel *kernel, int first, int count, int phase)
{
    struct rf_assembler *out = kernel->frame.out;
    enum rf_vector_op op = kernel->form.dot == DOT_BSSD ? RF_VPDPBSSD : RF_VPDPBUSD;
    int vectors_of_codes = CODES / kernel->phases;
    for (int i = 0; i < count; i++)
        for (int half = 0; half < HALVES; half++) {
            int to = kernel->product + i * HALVES + half;
            if (phase && kernel->products_stay) continue;
            if (phase)
                rf_asm_move(out, RF_VMOVDQU, to, rf_mem(product_at(kernel, first + i, half)));
            else if (op == RF_VPDPBSSD)
                rf_asm_vector(out, RF_VPXOR, to, to, rf_reg(to));
            else
                rf_frame_broadcast(&kernel->frame, to, first + i, offsetof(struct rf_a8, m12));
        }
    for (int c = 0; c < vectors_of_codes; c++)
        for (int i = 0; i < count; i++) {
            rf_frame_broadcast(&kernel->frame, kernel->temporary, first + i,
                               4 * (phase * vectors_of_codes + c));
            for (int half = 0; half < HALVES; half++)
                rf_asm_vector(out, op, kernel->product + i * HALVES + half, c * HALVES + half,
                              rf_reg(kernel->temporary));
        }
}

/* Emits a phase's products of one row with 16-bit sums of pairs. A pair is at most 24 * 127 * 2 =
 * 6096, so that five fit into 16 bits; a phase adds four. */
static void pair_products(const struct kernel *kernel, int row, int phase)
{
    struct rf_assembler *out = kernel->frame.out;
    int first = kernel->product, second = first + 1, pairs = kernel->temporary - 1,
        values = kernel->temporary;
    for (int c = 0; c < 4; c++) {
        rf_frame_broadcast(&kernel->frame, values, row, 4 * (4 * phase + c));
        rf_asm_vector(out, RF_VPMADDUBSW, c ? pairs : first, 2 * c, rf_reg(values));
        rf_asm_vector(out, RF_VPMADDUBSW, c ? values : second, 2 * c + 1, rf_reg(values));
        if (c == 0) continue;
        rf_asm_vector(out, RF_VPADDW, first, first, rf_reg(pairs));
        rf_asm_vector(out, RF_VPADDW, second, second, rf_reg(values));
    }
    if (!phase) rf_frame_broadcast(&kernel->frame, values, row, offsetof(struct rf_a8, m12));
    for (int half = 0; half < 2; half++) {
        int to = first + half;
        rf_asm_vector(out, RF_VPMADDWD, to, to, rf_reg(kernel->ones));
        rf_asm_vector(out, RF_VPADDD, to, to,
                      phase ? rf_mem(product_at(kernel, row, half)) : rf_reg(values));
    }
}

/* sum = fma(float(product) * d, scale, sum), for a row whose products lie from `product` on. */
static void add_scaled(const struct kernel *kernel, int product, int panel, int row)
{
    struct rf_assembler *out = kernel->frame.out;
    rf_frame_broadcast(&kernel->frame, kernel->temporary, row, offsetof(struct rf_a8, d));
    for (int half = 0; half < HALVES; half++, product++) {
        int number = (panel * kernel->frame.n + row) * HALVES + half, scale = kernel->scale + half;
        rf_asm_move(out, RF_VCVTDQ2PS, product, rf_reg(product));
        rf_asm_vector(out, RF_VMULPS, product, product, rf_reg(kernel->temporary));
        if (kernel->frame.sum >= 0) {
            rf_asm_vector(out, RF_VFMADD231PS, kernel->frame.sum + number, product, rf_reg(scale));
        } else {
            rf_asm_vector(out, RF_VFMADD213PS, product, scale,
                          rf_mem(rf_sum_at(&kernel->frame, number)));
            rf_asm_store(out, rf_sum_at(&kernel->frame, number), product);
        }
    }
}

static void multiply_rows(const struct kernel *kernel, int panel, int phase)
{
    for (int row = 0; row < kernel->frame.n; row += kernel->together) {
        int count =
            kernel->frame.n - row < kernel->together ? kernel->frame.n - row : kernel->together;
        if (kernel->form.dot == DOT_MADDUBS)
            pair_products(kernel, row, phase);
        else
            dot_products(kernel, row, count, phase);
        for (int i = 0; i < count; i++) {
            int product = kernel->product + i * HALVES;
            if (phase == kernel->phases - 1)
                add_scaled(kernel, product, panel, row + i);
            else if (!kernel->products_stay)
                for (int half = 0; half < HALVES; half++)
                    rf_asm_store(kernel->frame.out, product_at(kernel, row + i, half),
                                 product + half);
        }
    }
}

static void assign_registers(struct kernel *kernel)
{
    int evex = kernel->form.evex, maddubs = kernel->form.dot == DOT_MADDUBS;
    int n = kernel->frame.n, most = maddubs ? 1 : evex ? 4 : 2;
    kernel->phases = evex ? 1 : 2;
    kernel->together = n < most ? n : most;
    kernel->temporary = evex ? 31 : 15;
    kernel->scale = CODES / kernel->phases * HALVES;
    kernel->ones = kernel->scale + HALVES;
    kernel->product = kernel->ones + maddubs;
    kernel->products_stay = kernel->phases == 1 || (!maddubs && n <= kernel->together);
    int sum = kernel->product + kernel->together * HALVES;
    kernel->frame.sum = sum + n * kernel->frame.p * HALVES <= kernel->temporary - 1 ? sum : -1;
}

void rf_panels_emit_256(struct rf_assembler *assembler, enum rf_panels_form form, int n, int p)
{
    const struct rf_panel_layout *layout = rf_panel_layout(RF_FORMAT_MXFP4);
    struct kernel kernel = {.frame = {.out = assembler,
                                      .layout = layout,
                                      .n = n,
                                      .p = p,
                                      .ahead = AHEAD / (int)layout->block_bytes},
                            .form = forms[form]};
    const struct rf_frame *frame = &kernel.frame;
    assign_registers(&kernel);
    assembler->vector_bytes = 32;
    assembler->evex = kernel.form.evex;

    rf_frame_begin(frame);
    if (kernel.form.dot == DOT_MADDUBS)
        rf_asm_move(assembler, RF_VMOVDQU, kernel.ones,
                    rf_constant(offsetof(struct rf_frame_constants, ones)));
    rf_asm_align(assembler);
    size_t top = assembler->used;
    rf_frame_unit(frame);
    for (int panel = 0; panel < p; panel++) {
        rf_frame_ask(frame, panel);
        for (int phase = 0; phase < kernel.phases; phase++) {
            look_up(&kernel, panel, phase);
            multiply_rows(&kernel, panel, phase);
        }
    }
    rf_frame_next_block(frame);
    rf_frame_next_unit(frame, top);
    rf_frame_end(frame);
}
