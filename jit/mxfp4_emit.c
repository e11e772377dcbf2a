/* Emits one kernel: p panels of 16 weight rows, each a stream of its own, times n rows of activations.
 *
 * A block of 32 values of k is one turn of the loop. Of each panel (in forms of 256 bits, of each half of it: 8 weight rows)
 * the block's codes are looked up into eight registers, of which number c holds the values of k = 4c .. 4c + 3 of a weight
 * row in each 32-bit lane. Then every row of activations takes eight dot products with them into an integer
 * accumulator, which starts at -12 times the sum of the row's values, and is scaled into the F32 sum. Four rows
 * are interleaved, since each dot product waits for the one before it. */
#include <stdalign.h>

#include "jit/mxfp4.h"

enum dot { DOT_MADDUBS, DOT_BUSD, DOT_BSSD };

struct form {
    int vector_bytes, evex;
    int permb; /* vpermb looks up without a mask: it ignores the two bits above an index into 64 bytes */
    enum dot dot;
};

static const struct form forms[RF_MXFP4_FORM_COUNT] = {
    [RF_MXFP4_AVX2] = {32, 0, 0, DOT_MADDUBS},      [RF_MXFP4_AVXVNNI] = {32, 0, 0, DOT_BUSD},
    [RF_MXFP4_AVXVNNI_EVEX] = {32, 1, 0, DOT_BUSD}, [RF_MXFP4_AVXVNNIINT8] = {32, 0, 0, DOT_BSSD},
    [RF_MXFP4_AVX512] = {64, 1, 1, DOT_BUSD},
};

enum {
    BLOCK_BYTES = 256, /* of codes */
    SCALE_BYTES = 16,
    AHEAD = 3072, /* bytes of codes from a load to its prefetch */
    CODES = 8,    /* registers of codes: 0 .. 7 */
    INTERLEAVED = 4
};

/* Vector registers after the codes; then come up to INTERLEAVED products and, in EVEX forms, the sums. VEX forms have 16
 * registers: their sums are in memory, and they broadcast elements into the last one. */
enum { SCALE = CODES, TABLE, MASK, ONES, TEMPORARY = 15 };

/* General registers. The first row of each four has a pointer; so have the codes and the scales of the first panel. */
static const enum rf_gpr call = RF_RDI, sums = RF_RDI, codes = RF_RSI, scales = RF_RDX, part = RF_RCX, part3 = RF_R8,
                         rows[4] = {RF_R9, RF_R10, RF_RBP, RF_R12}, stride = RF_R11, stride3 = RF_RBX, blocks = RF_RAX;

#define TIMES4(...)                                        \
    {                                                      \
        __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__ \
    }
static const struct {
    alignas(64) uint8_t unsigned_codes[64]; /* rf_mxfp4_codes */
    alignas(64) int8_t signed_codes[64];    /* 12 less */
    alignas(64) uint8_t mask[64];
    alignas(64) int16_t ones[32];
} tables = {
    TIMES4(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0),
    TIMES4(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12),
    TIMES4(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15),
    TIMES4(1, 1, 1, 1, 1, 1, 1, 1),
};
#undef TIMES4

struct kernel {
    struct rf_assembler *out;
    struct form form;
    int n, p, halves;
    int work, sum; /* the first register of the products, and of the sums */
    int sums_stay; /* in registers; else in memory, which is the nearest cache */
};

static struct rf_address at(enum rf_gpr base, int displacement)
{
    return (struct rf_address){base, RF_NO_GPR, 1, displacement};
}

/* Element i of what lies `step` apart from base on; step3 is three times the step. */
static struct rf_address at_step(enum rf_gpr base, enum rf_gpr step, enum rf_gpr step3, int i, int displacement)
{
    if (i == 0) return at(base, displacement);
    return (struct rf_address){base, i == 3 ? step3 : step, i == 2 ? 2 : 1, displacement};
}

static struct rf_address in_row(int row, int displacement)
{
    return at_step(rows[row / 4], stride, stride3, row % 4, displacement);
}

static int vectors(const struct kernel *kernel)
{
    return kernel->n * kernel->p * kernel->halves;
}

/* The place of a vector of sums: its number, for registers and memory alike. */
static int sum_number(const struct kernel *kernel, int panel, int row, int half)
{
    return (panel * kernel->n + row) * kernel->halves + half;
}

static struct rf_address sum_at(const struct kernel *kernel, int number)
{
    return at(sums, number * kernel->form.vector_bytes);
}

/* An element of a row to all lanes. */
static void broadcast(const struct kernel *kernel, int to, int row, int displacement)
{
    rf_asm_move(kernel->out, RF_VPBROADCASTD, to, rf_mem(in_row(row, displacement)));
}

/* The codes and scales of half a panel or a whole one into their registers. */
static void look_up(const struct kernel *kernel, int panel, int half)
{
    struct rf_assembler *out = kernel->out;
    for (int j = 0; j < 4; j++) {
        int low = 2 * j, high = low + 1;
        rf_asm_move(out, RF_VMOVDQU, high, rf_mem(at_step(codes, part, part3, panel, 64 * j + 32 * half)));
        if (kernel->form.permb) {
            rf_asm_vector(out, RF_VPERMB, low, high, rf_reg(TABLE));
            rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
            rf_asm_vector(out, RF_VPERMB, high, high, rf_reg(TABLE));
        } else {
            rf_asm_vector(out, RF_VPAND, low, high, rf_reg(MASK));
            rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
            rf_asm_vector(out, RF_VPAND, high, high, rf_reg(MASK));
            rf_asm_vector(out, RF_VPSHUFB, low, TABLE, rf_reg(low));
            rf_asm_vector(out, RF_VPSHUFB, high, TABLE, rf_reg(high));
        }
    }
    rf_asm_move(out, RF_VPMOVZXBD, SCALE, rf_mem(at_step(scales, part, part3, panel, 8 * half)));
    rf_asm_vector(out, RF_VPSLLD, SCALE, SCALE, rf_imm(23));
}

/* Products of up to INTERLEAVED rows, by instructions that add four products to a 32-bit lane. */
static void dot_products(const struct kernel *kernel, int first, int count)
{
    struct rf_assembler *out = kernel->out;
    enum rf_vector_op op = kernel->form.dot == DOT_BSSD ? RF_VPDPBSSD : RF_VPDPBUSD;
    for (int i = 0; i < count; i++) {
        int to = kernel->work + i;
        if (op == RF_VPDPBSSD)
            rf_asm_vector(out, RF_VPXOR, to, to, rf_reg(to));
        else
            broadcast(kernel, to, first + i, offsetof(struct rf_a8, m12));
    }
    for (int c = 0; c < CODES; c++)
        for (int i = 0; i < count; i++) {
            if (kernel->form.evex) {
                rf_asm_vector(out, op, kernel->work + i, c, rf_mem_each(in_row(first + i, 4 * c)));
            } else {
                broadcast(kernel, TEMPORARY, first + i, 4 * c);
                rf_asm_vector(out, op, kernel->work + i, c, rf_reg(TEMPORARY));
            }
        }
}

/* Products of one row, in pairs of 16 bits. A pair is at most 24 * 127 * 2 = 6096, so that five fit into 16 bits: the
 * eight are summed in two chains of four. */
static void pair_products(const struct kernel *kernel, int row)
{
    struct rf_assembler *out = kernel->out;
    for (int chain = 0; chain < 2; chain++) {
        int to = kernel->work + chain;
        for (int c = 4 * chain; c < 4 * chain + 4; c++) {
            int product = c % 4 ? TEMPORARY : to;
            broadcast(kernel, product, row, 4 * c);
            rf_asm_vector(out, RF_VPMADDUBSW, product, c, rf_reg(product));
            if (c % 4) rf_asm_vector(out, RF_VPADDW, to, to, rf_reg(product));
        }
        rf_asm_vector(out, RF_VPMADDWD, to, to, rf_reg(ONES));
    }
    broadcast(kernel, TEMPORARY, row, offsetof(struct rf_a8, m12));
    rf_asm_vector(out, RF_VPADDD, kernel->work, kernel->work, rf_reg(kernel->work + 1));
    rf_asm_vector(out, RF_VPADDD, kernel->work, kernel->work, rf_reg(TEMPORARY));
}

/* sum = fma(float(product) * d, scale, sum) */
static void add_scaled(const struct kernel *kernel, int product, int row, int number)
{
    struct rf_assembler *out = kernel->out;
    struct rf_address d = in_row(row, offsetof(struct rf_a8, d));
    rf_asm_move(out, RF_VCVTDQ2PS, product, rf_reg(product));
    if (kernel->form.evex) {
        rf_asm_vector(out, RF_VMULPS, product, product, rf_mem_each(d));
    } else {
        rf_asm_move(out, RF_VPBROADCASTD, TEMPORARY, rf_mem(d));
        rf_asm_vector(out, RF_VMULPS, product, product, rf_reg(TEMPORARY));
    }
    if (kernel->sums_stay) {
        rf_asm_vector(out, RF_VFMADD231PS, kernel->sum + number, product, rf_reg(SCALE));
    } else {
        rf_asm_vector(out, RF_VFMADD213PS, product, SCALE, rf_mem(sum_at(kernel, number)));
        rf_asm_store(out, sum_at(kernel, number), product);
    }
}

static void multiply_rows(const struct kernel *kernel, int panel, int half)
{
    int together = kernel->form.dot == DOT_MADDUBS ? 1 : INTERLEAVED;
    for (int row = 0; row < kernel->n; row += together) {
        int count = kernel->n - row < together ? kernel->n - row : together;
        if (kernel->form.dot == DOT_MADDUBS)
            pair_products(kernel, row);
        else
            dot_products(kernel, row, count);
        for (int i = 0; i < count; i++)
            add_scaled(kernel, kernel->work + i, row + i, sum_number(kernel, panel, row + i, half));
    }
}

static void block(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    for (int panel = 0; panel < kernel->p; panel++) {
        for (int line = 0; line < BLOCK_BYTES; line += 64)
            rf_asm_prefetch(out, at_step(codes, part, part3, panel, AHEAD + line));
        rf_asm_prefetch(out, at_step(scales, part, part3, panel, AHEAD / BLOCK_BYTES * SCALE_BYTES));
        for (int half = 0; half < kernel->halves; half++) {
            look_up(kernel, panel, half);
            multiply_rows(kernel, panel, half);
        }
    }
}

static void load_constants(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    const void *table = kernel->form.dot == DOT_BSSD ? (const void *)tables.signed_codes : tables.unsigned_codes;
    rf_asm_constant(out, blocks, table);
    rf_asm_move(out, RF_VMOVDQU, TABLE, rf_mem(at(blocks, 0)));
    if (!kernel->form.permb) {
        rf_asm_constant(out, blocks, tables.mask);
        rf_asm_move(out, RF_VMOVDQU, MASK, rf_mem(at(blocks, 0)));
    }
    if (kernel->form.dot == DOT_MADDUBS) {
        rf_asm_constant(out, blocks, tables.ones);
        rf_asm_move(out, RF_VMOVDQU, ONES, rf_mem(at(blocks, 0)));
    }
}

/* The System V calling convention: RBX, RBP and R12 to R15 are the caller's. */
static void begin(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    rf_asm_push(out, RF_RBX);
    rf_asm_push(out, RF_RBP);
    rf_asm_push(out, RF_R12);
    load_constants(kernel);
    rf_asm_load(out, codes, at(call, offsetof(struct rf_mxfp4_call, codes)));
    rf_asm_load(out, scales, at(call, offsetof(struct rf_mxfp4_call, scales)));
    rf_asm_load(out, part, at(call, offsetof(struct rf_mxfp4_call, part)));
    rf_asm_load(out, stride, at(call, offsetof(struct rf_mxfp4_call, row_bytes)));
    rf_asm_load(out, blocks, at(call, offsetof(struct rf_mxfp4_call, blocks)));
    rf_asm_load(out, rows[0], at(call, offsetof(struct rf_mxfp4_call, rows)));
    rf_asm_load(out, sums, at(call, offsetof(struct rf_mxfp4_call, sums)));
    rf_asm_address(out, part3, (struct rf_address){part, part, 2, 0});
    rf_asm_address(out, stride3, (struct rf_address){stride, stride, 2, 0});
    for (int i = 1; 4 * i < kernel->n; i++)
        rf_asm_address(out, rows[i], (struct rf_address){rows[i - 1], stride, 4, 0});
    int zero = kernel->sums_stay ? kernel->sum : kernel->work, count = kernel->sums_stay ? vectors(kernel) : 1;
    for (int i = 0; i < count; i++) rf_asm_vector(out, RF_VPXOR, zero + i, zero + i, rf_reg(zero + i));
    if (!kernel->sums_stay)
        for (int i = 0; i < vectors(kernel); i++) rf_asm_store(out, sum_at(kernel, i), zero);
}

static void end(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    if (kernel->sums_stay)
        for (int i = 0; i < vectors(kernel); i++) rf_asm_store(out, sum_at(kernel, i), kernel->sum + i);
    rf_asm_vzeroupper(out);
    rf_asm_pop(out, RF_R12);
    rf_asm_pop(out, RF_RBP);
    rf_asm_pop(out, RF_RBX);
    rf_asm_return(out);
}

void rf_mxfp4_emit(struct rf_assembler *assembler, enum rf_mxfp4_form form, int n, int p)
{
    struct kernel kernel = {.out = assembler, .form = forms[form], .n = n, .p = p};
    kernel.halves = RF_PANEL_ROWS * 4 / kernel.form.vector_bytes;
    kernel.work = kernel.form.permb ? MASK : kernel.form.dot == DOT_MADDUBS ? ONES + 1 : ONES;
    kernel.sum = kernel.work + INTERLEAVED;
    kernel.sums_stay = kernel.form.evex && kernel.sum + vectors(&kernel) <= 32;
    assembler->vector_bytes = kernel.form.vector_bytes;
    assembler->evex = kernel.form.evex;

    begin(&kernel);
    rf_asm_align(assembler);
    size_t top = assembler->used;
    block(&kernel);
    rf_asm_add(assembler, codes, BLOCK_BYTES);
    rf_asm_add(assembler, scales, SCALE_BYTES);
    for (int i = 0; 4 * i < n; i++) rf_asm_add(assembler, rows[i], sizeof(struct rf_a8));
    rf_asm_loop(assembler, blocks, top);
    end(&kernel);
}

int rf_mxfp4_panels(enum rf_mxfp4_form form, int n)
{
    (void)form;
    (void)n;
    return 4;
}
