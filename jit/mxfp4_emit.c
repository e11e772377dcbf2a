/* Emits one kernel: p panels of 16 weight rows, each a stream of its own, times n rows of activations.
 *
 * A block of 32 values of k is one turn of the loop. Of each panel, the block's codes are looked up into registers, of which
 * number c (0 .. 7) holds in each 32-bit lane, which is a weight row, the values of k = 4c .. 4c + 3. Then every
 * row of activations takes eight dot products with them into an integer accumulator, which is scaled into the F32 sum.
 * Some rows are interleaved, since each dot product waits for the one before it.
 *
 * A panel is one vector of 512 bits, or two halves of 256 that are worked on together, so that they share what is broadcast.
 * Where there are 16 registers, they hold half of a block's codes: all rows take four dot products with these,
 * then, in a second phase, four with the rest. */
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
    CODES = 8 /* vectors of codes that cover a block */
};

/* How many panels are best walked at once, and how many bytes ahead of a load its line is asked for. Few rows are bound by
 * memory, more by products; docs/jit.md has the measurements. */
static struct walk {
    int panels, ahead;
} walk_of(enum rf_mxfp4_form form, int n)
{
    if (n <= 2 && form == RF_MXFP4_AVX512) return (struct walk){6, 1024};
    return (struct walk){n <= 8 ? 4 : 2, 2048};
}

/* General registers. The first panel of each four has pointers to its codes and scales, the first row of each four one. */
static const enum rf_gpr call = RF_RDI, sums = RF_RDI, codes[2] = {RF_RSI, RF_R14}, scales[2] = {RF_RDX, RF_R15},
                         part = RF_RCX, part3 = RF_R8, rows[4] = {RF_R9, RF_R10, RF_RBP, RF_R12}, stride = RF_R11,
                         stride3 = RF_RBX, blocks = RF_RAX, constants = RF_R13;
/* Those of them that the System V calling convention gives back to the caller as they were. */
static const enum rf_gpr saved[] = {RF_RBX, RF_RBP, RF_R12, RF_R13, RF_R14, RF_R15};
enum { SAVED = sizeof saved / sizeof *saved };

#define TIMES4(...)                                        \
    {                                                      \
        __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__ \
    }
static const struct tables {
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
    int n, p, ahead;
    int halves;        /* vectors of a panel: 1 or 2 */
    int phases;        /* 1 or 2 */
    int together;      /* rows that are interleaved */
    int products_stay; /* in registers from phase to phase; else in memory, which is the nearest cache */
    int sums_stay;     /* in registers; else in memory */
    /* Vector registers: first the codes of a phase, [CODES / phases][halves], then the scales, [halves]. */
    int scale;
    int constant; /* the table of vpermb, the ones of vpmaddwd */
    int product;  /* [together][halves] */
    int sum;
    int temporary; /* and, but for vpermb, the one before it */
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

static struct rf_address in_panel(const enum rf_gpr base[2], int panel, int displacement)
{
    return at_step(base[panel / 4], part, part3, panel % 4, displacement);
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

/* Products that wait for their second phase lie behind the sums. */
static struct rf_address product_at(const struct kernel *kernel, int row, int half)
{
    return sum_at(kernel, vectors(kernel) + row * kernel->halves + half);
}

/* An element of a row to all lanes. */
static void broadcast(const struct kernel *kernel, int to, int row, int displacement)
{
    rf_asm_move(kernel->out, RF_VPBROADCASTD, to, rf_mem(in_row(row, displacement)));
}

static struct rf_source table(const struct kernel *kernel)
{
    int is_signed = kernel->form.dot == DOT_BSSD;
    return rf_mem(
        at(constants, is_signed ? offsetof(struct tables, signed_codes) : offsetof(struct tables, unsigned_codes)));
}

/* A phase's codes of a panel, and its scales, into their registers. */
static void look_up(const struct kernel *kernel, int panel, int phase)
{
    struct rf_assembler *out = kernel->out;
    int lookup = kernel->temporary - 1, mask = kernel->temporary, lines = 4 / kernel->phases;
    if (!kernel->form.permb) {
        rf_asm_move(out, RF_VMOVDQU, lookup, table(kernel));
        rf_asm_move(out, RF_VMOVDQU, mask, rf_mem(at(constants, offsetof(struct tables, mask))));
    }
    for (int j = 0; j < lines; j++)
        for (int half = 0; half < kernel->halves; half++) {
            int low = 2 * j * kernel->halves + half, high = low + kernel->halves;
            struct rf_address from = in_panel(codes, panel, 64 * (phase * lines + j) + 32 * half);
            rf_asm_move(out, RF_VMOVDQU, high, rf_mem(from));
            if (kernel->form.permb) {
                rf_asm_vector(out, RF_VPERMB, low, high, rf_reg(kernel->constant));
                rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
                rf_asm_vector(out, RF_VPERMB, high, high, rf_reg(kernel->constant));
            } else {
                rf_asm_vector(out, RF_VPAND, low, high, rf_reg(mask));
                rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
                rf_asm_vector(out, RF_VPAND, high, high, rf_reg(mask));
                rf_asm_vector(out, RF_VPSHUFB, low, lookup, rf_reg(low));
                rf_asm_vector(out, RF_VPSHUFB, high, lookup, rf_reg(high));
            }
        }
    if (phase) return;
    for (int half = 0; half < kernel->halves; half++) {
        int to = kernel->scale + half;
        rf_asm_move(out, RF_VPMOVZXBD, to, rf_mem(in_panel(scales, panel, 8 * half)));
        rf_asm_vector(out, RF_VPSLLD, to, to, rf_imm(23));
    }
}

/* An element of a row as an operand of what is done to all halves. Where there is only one, an EVEX instruction broadcasts
 * it itself. */
static struct rf_source element(const struct kernel *kernel, int row, int displacement)
{
    if (kernel->form.evex && kernel->halves == 1) return rf_mem_each(in_row(row, displacement));
    broadcast(kernel, kernel->temporary, row, displacement);
    return rf_reg(kernel->temporary);
}

/* A phase's products of `count` rows, by instructions that add four products to a 32-bit lane. Unsigned codes are 12 too
 * large, so that the sums start at -12 times the sum of a row's values. */
static void dot_products(const struct kernel *kernel, int first, int count, int phase)
{
    struct rf_assembler *out = kernel->out;
    enum rf_vector_op op = kernel->form.dot == DOT_BSSD ? RF_VPDPBSSD : RF_VPDPBUSD;
    int vectors_of_codes = CODES / kernel->phases;
    for (int i = 0; i < count; i++)
        for (int half = 0; half < kernel->halves; half++) {
            int to = kernel->product + i * kernel->halves + half;
            if (phase && kernel->products_stay) continue;
            if (phase)
                rf_asm_move(out, RF_VMOVDQU, to, rf_mem(product_at(kernel, first + i, half)));
            else if (op == RF_VPDPBSSD)
                rf_asm_vector(out, RF_VPXOR, to, to, rf_reg(to));
            else
                broadcast(kernel, to, first + i, offsetof(struct rf_a8, m12));
        }
    for (int c = 0; c < vectors_of_codes; c++)
        for (int i = 0; i < count; i++) {
            struct rf_source values = element(kernel, first + i, 4 * (phase * vectors_of_codes + c));
            for (int half = 0; half < kernel->halves; half++)
                rf_asm_vector(out, op, kernel->product + i * kernel->halves + half, c * kernel->halves + half, values);
        }
}

/* A phase's products of one row, in pairs of 16 bits. A pair is at most 24 * 127 * 2 = 6096, so that five fit into 16 bits;
 * a phase sums four. */
static void pair_products(const struct kernel *kernel, int row, int phase)
{
    struct rf_assembler *out = kernel->out;
    int first = kernel->product, second = first + 1, pairs = kernel->temporary - 1, values = kernel->temporary;
    for (int c = 0; c < 4; c++) {
        broadcast(kernel, values, row, 4 * (4 * phase + c));
        rf_asm_vector(out, RF_VPMADDUBSW, c ? pairs : first, 2 * c, rf_reg(values));
        rf_asm_vector(out, RF_VPMADDUBSW, c ? values : second, 2 * c + 1, rf_reg(values));
        if (c == 0) continue;
        rf_asm_vector(out, RF_VPADDW, first, first, rf_reg(pairs));
        rf_asm_vector(out, RF_VPADDW, second, second, rf_reg(values));
    }
    if (!phase) broadcast(kernel, values, row, offsetof(struct rf_a8, m12));
    for (int half = 0; half < 2; half++) {
        int to = first + half;
        rf_asm_vector(out, RF_VPMADDWD, to, to, rf_reg(kernel->constant));
        rf_asm_vector(out, RF_VPADDD, to, to, phase ? rf_mem(product_at(kernel, row, half)) : rf_reg(values));
    }
}

/* sum = fma(float(product) * d, scale, sum), for a row whose products lie from `product` on. */
static void add_scaled(const struct kernel *kernel, int product, int panel, int row)
{
    struct rf_assembler *out = kernel->out;
    struct rf_source d = element(kernel, row, offsetof(struct rf_a8, d));
    for (int half = 0; half < kernel->halves; half++, product++) {
        int number = sum_number(kernel, panel, row, half), scale = kernel->scale + half;
        rf_asm_move(out, RF_VCVTDQ2PS, product, rf_reg(product));
        rf_asm_vector(out, RF_VMULPS, product, product, d);
        if (kernel->sums_stay) {
            rf_asm_vector(out, RF_VFMADD231PS, kernel->sum + number, product, rf_reg(scale));
        } else {
            rf_asm_vector(out, RF_VFMADD213PS, product, scale, rf_mem(sum_at(kernel, number)));
            rf_asm_store(out, sum_at(kernel, number), product);
        }
    }
}

static void multiply_rows(const struct kernel *kernel, int panel, int phase)
{
    for (int row = 0; row < kernel->n; row += kernel->together) {
        int count = kernel->n - row < kernel->together ? kernel->n - row : kernel->together;
        if (kernel->form.dot == DOT_MADDUBS)
            pair_products(kernel, row, phase);
        else
            dot_products(kernel, row, count, phase);
        for (int i = 0; i < count; i++) {
            int product = kernel->product + i * kernel->halves;
            if (phase == kernel->phases - 1)
                add_scaled(kernel, product, panel, row + i);
            else if (!kernel->products_stay)
                for (int half = 0; half < kernel->halves; half++)
                    rf_asm_store(kernel->out, product_at(kernel, row + i, half), product + half);
        }
    }
}

static void block(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    for (int panel = 0; panel < kernel->p; panel++) {
        /* Of the scales there is little: the processor's own prefetching sees to them. */
        for (int line = 0; line < BLOCK_BYTES; line += 64)
            rf_asm_prefetch(out, in_panel(codes, panel, kernel->ahead + line));
        for (int phase = 0; phase < kernel->phases; phase++) {
            look_up(kernel, panel, phase);
            multiply_rows(kernel, panel, phase);
        }
    }
}

static void begin(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    for (int i = 0; i < SAVED; i++) rf_asm_push(out, saved[i]);
    rf_asm_constant(out, constants, &tables);
    if (kernel->form.permb) rf_asm_move(out, RF_VMOVDQU, kernel->constant, table(kernel));
    if (kernel->form.dot == DOT_MADDUBS)
        rf_asm_move(out, RF_VMOVDQU, kernel->constant, rf_mem(at(constants, offsetof(struct tables, ones))));
    rf_asm_load(out, codes[0], at(call, offsetof(struct rf_mxfp4_call, codes)));
    rf_asm_load(out, scales[0], at(call, offsetof(struct rf_mxfp4_call, scales)));
    rf_asm_load(out, part, at(call, offsetof(struct rf_mxfp4_call, part)));
    rf_asm_load(out, stride, at(call, offsetof(struct rf_mxfp4_call, row_bytes)));
    rf_asm_load(out, blocks, at(call, offsetof(struct rf_mxfp4_call, blocks)));
    rf_asm_load(out, rows[0], at(call, offsetof(struct rf_mxfp4_call, rows)));
    rf_asm_load(out, sums, at(call, offsetof(struct rf_mxfp4_call, sums))); /* the last: it replaces `call` */
    rf_asm_address(out, part3, (struct rf_address){part, part, 2, 0});
    if (kernel->p > 4) {
        rf_asm_address(out, codes[1], (struct rf_address){codes[0], part, 4, 0});
        rf_asm_address(out, scales[1], (struct rf_address){scales[0], part, 4, 0});
    }
    rf_asm_address(out, stride3, (struct rf_address){stride, stride, 2, 0});
    for (int i = 1; 4 * i < kernel->n; i++)
        rf_asm_address(out, rows[i], (struct rf_address){rows[i - 1], stride, 4, 0});
    for (int i = 0; i < vectors(kernel); i++) {
        int zero = kernel->sums_stay ? kernel->sum + i : kernel->product;
        rf_asm_vector(out, RF_VPXOR, zero, zero, rf_reg(zero));
        if (!kernel->sums_stay) rf_asm_store(out, sum_at(kernel, i), zero);
    }
}

static void end(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    if (kernel->sums_stay)
        for (int i = 0; i < vectors(kernel); i++) rf_asm_store(out, sum_at(kernel, i), kernel->sum + i);
    rf_asm_vzeroupper(out);
    for (int i = SAVED; i-- > 0;) rf_asm_pop(out, saved[i]);
    rf_asm_return(out);
}

static void assign_registers(struct kernel *kernel)
{
    int evex = kernel->form.evex, permb = kernel->form.permb, maddubs = kernel->form.dot == DOT_MADDUBS;
    int most = maddubs ? 1 : evex ? 4 : 2;
    kernel->halves = RF_PANEL_ROWS * 4 / kernel->form.vector_bytes;
    kernel->phases = evex ? 1 : 2;
    kernel->together = kernel->n < most ? kernel->n : most;
    kernel->temporary = evex ? 31 : 15;
    kernel->scale = CODES / kernel->phases * kernel->halves;
    kernel->constant = kernel->scale + kernel->halves;
    kernel->product = kernel->constant + (permb || maddubs);
    kernel->products_stay = kernel->phases == 1 || (!maddubs && kernel->n <= kernel->together);
    kernel->sum = kernel->product + kernel->together * kernel->halves;
    kernel->sums_stay = kernel->sum + vectors(kernel) <= (permb ? kernel->temporary + 1 : kernel->temporary - 1);
}

void rf_mxfp4_emit(struct rf_assembler *assembler, enum rf_mxfp4_form form, int n, int p)
{
    struct kernel kernel = {.out = assembler, .form = forms[form], .n = n, .p = p, .ahead = walk_of(form, n).ahead};
    assign_registers(&kernel);
    assembler->vector_bytes = kernel.form.vector_bytes;
    assembler->evex = kernel.form.evex;

    begin(&kernel);
    rf_asm_align(assembler);
    size_t top = assembler->used;
    block(&kernel);
    for (int i = 0; 4 * i < p; i++) {
        rf_asm_add(assembler, codes[i], BLOCK_BYTES);
        rf_asm_add(assembler, scales[i], SCALE_BYTES);
    }
    for (int i = 0; 4 * i < n; i++) rf_asm_add(assembler, rows[i], sizeof(struct rf_a8));
    rf_asm_loop(assembler, blocks, top);
    end(&kernel);
}

int rf_mxfp4_panels(enum rf_mxfp4_form form, int n)
{
    return walk_of(form, n).panels;
}
