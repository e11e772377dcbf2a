/* Emits one kernel of 512 bits: p panels of 16 weight rows, each a stream of its own, times n rows of activations.
 *
 * A block of 32 values of k is one turn of the loop. All n * p products of the block stay in registers: the block's codes
 * are decoded two vectors at a time, 8 values of k, and every row's values, once broadcast, meet all panels, because a core
 * loads two vectors in the time of two dot products. Then the products are scaled into F32 sums, in registers where there
 * are enough, else in memory, which is the nearest cache. */
#include <stdalign.h>

#include "jit/panels.h"

enum {
    AHEAD_FEW = 1024, /* bytes of codes from a load to its prefetch, about: with one row, */
    AHEAD = 2048      /* with more, and in formats with units of 256, where it is one unit */
};

/* General registers. The first row of each four has a pointer; so has what is asked for ahead of its use. */
static const enum rf_gpr call = RF_RDI, codes = RF_RSI, scales = RF_RDX, part = RF_RCX, part3 = RF_R8,
                         rows[2] = {RF_R9, RF_R10}, stride = RF_R11, stride3 = RF_RBX, units = RF_RAX,
                         constants = RF_R13, numbers = RF_RBP, turns = RF_R12, codes_ahead = RF_R14,
                         scales_ahead = RF_R15;
/* Those of them that the System V calling convention gives back to the caller as they were. */
static const enum rf_gpr saved[] = {RF_RBX, RF_RBP, RF_R12, RF_R13, RF_R14, RF_R15};
enum { SAVED = sizeof saved / sizeof *saved };

#define TIMES4(...)                                        \
    {                                                      \
        __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__ \
    }
#define TIMES64(x) TIMES4(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)
static const struct tables {
    alignas(64) uint8_t mxfp4[64]; /* rf_mxfp4_codes */
    alignas(64) uint8_t nibble[64], six[64], two[64], upper_two[64], middle_two[64];
} tables = {
    TIMES4(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0),
    TIMES64(0x0f),
    TIMES64(0x3f),
    TIMES64(0x03),
    TIMES64(0x30),
    TIMES64(0x0c),
};

/* What a kernel must know of a format beyond its layout. */
struct traits {
    const struct rf_panel_layout *layout;
    int offset_at; /* of what products start from, in a row's block; -1: zero */
    int super;     /* scales lie in units of 8 blocks */
    int halves;    /* groups of a block */
};

struct kernel {
    struct rf_assembler *out;
    enum rf_format format;
    struct traits traits;
    int n, p;
    int ahead;     /* units from a load to its prefetch */
    int rows_stay; /* the two vectors of every row are held while panels are decoded one by one; else all panels' codes */
    int sums_stay; /* in registers */
    /* Vector registers: the products come first, [p][n]. */
    int sum, code, value, scale, minimum, mask, upper, temporary;
};

static struct traits traits_of(enum rf_format format)
{
    struct traits traits = {rf_panel_layout(format), -1, 0, 1};
    switch (format) {
    case RF_FORMAT_MXFP4: traits.offset_at = offsetof(struct rf_a8, m12); break;
    case RF_FORMAT_Q4_0: traits.offset_at = offsetof(struct rf_a8, m8); break;
    case RF_FORMAT_Q8_0: traits.offset_at = offsetof(struct rf_a8, m128); break;
    case RF_FORMAT_Q6_K: traits.offset_at = offsetof(struct rf_a8, m32); break;
    default: break;
    }
    traits.super = traits.layout->unit == RF_SUPERBLOCK;
    traits.halves = RF_BLOCK / (int)traits.layout->group;
    return traits;
}

int rf_panels_can(enum rf_format format)
{
    return format == RF_FORMAT_MXFP4 || format == RF_FORMAT_Q4_0 || format == RF_FORMAT_Q4_1 ||
           format == RF_FORMAT_Q4_K || format == RF_FORMAT_Q6_K || format == RF_FORMAT_Q8_0;
}

static struct rf_address at(enum rf_gpr base, int displacement)
{
    return (struct rf_address){base, RF_NO_GPR, 1, displacement};
}

/* Element i (0 .. 3) of what lies `step` apart from base on; step3 is three times the step. */
static struct rf_address at_step(enum rf_gpr base, enum rf_gpr step, enum rf_gpr step3, int i, int displacement)
{
    if (i == 0) return at(base, displacement);
    return (struct rf_address){base, i == 3 ? step3 : step, i == 2 ? 2 : 1, displacement};
}

static struct rf_address in_row(int row, int displacement)
{
    return at_step(rows[row / 4], stride, stride3, row % 4, displacement);
}

static struct rf_address in_codes(int panel, int displacement)
{
    return at_step(codes, part, part3, panel, displacement);
}

static struct rf_address in_scales(int panel, int displacement)
{
    return at_step(scales, part, part3, panel, displacement);
}

static struct rf_address field(size_t offset)
{
    return at(call, (int)offset);
}

static struct rf_source constant(size_t offset)
{
    return rf_mem(at(constants, (int)offset));
}

static int product(const struct kernel *kernel, int panel, int row)
{
    return panel * kernel->n + row;
}

static struct rf_address sum_at(int number)
{
    return at(call, (int)offsetof(struct rf_panels_call, sums) + 64 * number);
}

static void broadcast(const struct kernel *kernel, int to, int row, int displacement)
{
    rf_asm_move(kernel->out, RF_VPBROADCASTD, to, rf_mem(in_row(row, displacement)));
}

/* Vectors 2j and 2j + 1 of a panel's codes to two registers. */
static void decode(const struct kernel *kernel, int panel, int j, int to)
{
    struct rf_assembler *out = kernel->out;
    int low = to, high = to + 1;
    if (kernel->traits.layout->bits == 8) {
        rf_asm_move(out, RF_VMOVDQU, low, rf_mem(in_codes(panel, 128 * j)));
        rf_asm_move(out, RF_VMOVDQU, high, rf_mem(in_codes(panel, 128 * j + 64)));
        return;
    }
    rf_asm_move(out, RF_VMOVDQU, high, rf_mem(in_codes(panel, 64 * j)));
    if (kernel->format == RF_FORMAT_MXFP4) {
        /* Of an index six bits count, of which the upper two are the neighbour's; the table is there four times. */
        rf_asm_vector(out, RF_VPERMB, low, high, rf_reg(kernel->mask));
        rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
        rf_asm_vector(out, RF_VPERMB, high, high, rf_reg(kernel->mask));
        return;
    }
    rf_asm_vector(out, RF_VPAND, low, high, rf_reg(kernel->mask));
    rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
    rf_asm_vector(out, RF_VPAND, high, high, rf_reg(kernel->mask));
    if (kernel->format != RF_FORMAT_Q6_K) return;
    /* The upper two bits of four vectors lie in one; each two are moved to bits 4 and 5. */
    static const int left[4] = {4, 2, 0, -2};
    for (int v = 0; v < 2; v++) {
        int shift = left[j % 2 * 2 + v], bits = kernel->temporary;
        rf_asm_move(out, RF_VMOVDQU, bits, rf_mem(in_codes(panel, 256 + 64 * (j / 2))));
        if (shift)
            rf_asm_vector(out, shift > 0 ? RF_VPSLLW : RF_VPSRLW, bits, bits, rf_imm(shift > 0 ? shift : -shift));
        rf_asm_ternary(out, to + v, bits, rf_reg(kernel->upper), 0xf8); /* to | bits & upper */
    }
}

/* The products of vectors 2j and 2j + 1. */
static void multiply(const struct kernel *kernel, int j)
{
    struct rf_assembler *out = kernel->out;
    int n = kernel->n, p = kernel->p;
    if (kernel->rows_stay) {
        for (int row = 0; row < n; row++)
            for (int v = 0; v < 2; v++) broadcast(kernel, kernel->value + 2 * row + v, row, 4 * (2 * j + v));
        for (int panel = 0; panel < p; panel++) {
            decode(kernel, panel, j, kernel->code);
            for (int v = 0; v < 2; v++)
                for (int row = 0; row < n; row++)
                    rf_asm_vector(out, RF_VPDPBUSD, product(kernel, panel, row), kernel->code + v,
                                  rf_reg(kernel->value + 2 * row + v));
        }
        return;
    }
    for (int panel = 0; panel < p; panel++) decode(kernel, panel, j, kernel->code + 2 * panel);
    for (int row = 0; row < n; row++) {
        for (int v = 0; v < 2; v++) broadcast(kernel, kernel->value + v, row, 4 * (2 * j + v));
        for (int v = 0; v < 2; v++)
            for (int panel = 0; panel < p; panel++)
                rf_asm_vector(out, RF_VPDPBUSD, product(kernel, panel, row), kernel->code + 2 * panel + v,
                              rf_reg(kernel->value + v));
    }
}

/* Where products start, so that the codes' offset is taken off. */
static void start(const struct kernel *kernel, int half)
{
    struct rf_assembler *out = kernel->out;
    for (int row = 0; row < kernel->n; row++)
        for (int panel = 0; panel < kernel->p; panel++) {
            int to = product(kernel, panel, row);
            if (kernel->traits.offset_at < 0)
                rf_asm_vector(out, RF_VPXOR, to, to, rf_reg(to));
            else if (panel)
                rf_asm_move(out, RF_VMOVDQU, to, rf_reg(product(kernel, 0, row)));
            else
                broadcast(kernel, to, row, kernel->traits.offset_at + 4 * half);
        }
}

/* A panel's scales of a group to their register, and its minimums. */
static void load_scales(const struct kernel *kernel, int panel, int half)
{
    struct rf_assembler *out = kernel->out;
    int s = kernel->scale, b = kernel->minimum, t = kernel->temporary;
    switch (kernel->format) {
    case RF_FORMAT_MXFP4:
        rf_asm_move(out, RF_VPMOVZXBD, s, rf_mem(in_scales(panel, 0)));
        rf_asm_vector(out, RF_VPSLLD, s, s, rf_imm(23));
        break;
    case RF_FORMAT_Q4_K:
        for (int i = 0; i < 2; i++) {
            int to = i ? b : s;
            rf_asm_move(out, RF_VPMOVZXBD, t, rf_mem(at(numbers, 256 * panel + 128 * i)));
            rf_asm_move(out, RF_VCVTDQ2PS, t, rf_reg(t));
            rf_asm_move(out, RF_VCVTPH2PS, to, rf_mem(in_scales(panel, 192 + 32 * i)));
            rf_asm_vector(out, RF_VMULPS, to, to, rf_reg(t));
        }
        break;
    case RF_FORMAT_Q6_K:
        rf_asm_move(out, RF_VPMOVSXBD, t, rf_mem(at_step(numbers, part, part3, panel, 16 * half)));
        rf_asm_move(out, RF_VCVTDQ2PS, t, rf_reg(t));
        rf_asm_move(out, RF_VCVTPH2PS, s, rf_mem(in_scales(panel, 256)));
        rf_asm_vector(out, RF_VMULPS, s, s, rf_reg(t));
        break;
    default:
        rf_asm_move(out, RF_VCVTPH2PS, s, rf_mem(in_scales(panel, 0)));
        if (kernel->format == RF_FORMAT_Q4_1) rf_asm_move(out, RF_VCVTPH2PS, b, rf_mem(in_scales(panel, 32)));
        break;
    }
}

/* sum = fma(float(product) * d, s, sum), then sum = fma(b, d_sum, sum) where there is a minimum. */
static void add_scaled(const struct kernel *kernel, int panel, int row)
{
    struct rf_assembler *out = kernel->out;
    int number = product(kernel, panel, row), to = kernel->sums_stay ? kernel->sum + number : number;
    rf_asm_move(out, RF_VCVTDQ2PS, number, rf_reg(number));
    rf_asm_vector(out, RF_VMULPS, number, number, rf_mem_each(in_row(row, offsetof(struct rf_a8, d))));
    if (kernel->sums_stay)
        rf_asm_vector(out, RF_VFMADD231PS, to, number, rf_reg(kernel->scale));
    else
        rf_asm_vector(out, RF_VFMADD213PS, to, kernel->scale, rf_mem(sum_at(number)));
    if (kernel->traits.layout->has_min)
        rf_asm_vector(out, RF_VFMADD231PS, to, kernel->minimum,
                      rf_mem_each(in_row(row, offsetof(struct rf_a8, d_sum))));
    if (!kernel->sums_stay) rf_asm_store(out, sum_at(number), to);
}

static void block(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    const struct rf_panel_layout *layout = kernel->traits.layout;
    int block_bytes = (int)layout->block_bytes, halves = kernel->traits.halves;
    for (int panel = 0; panel < kernel->p; panel++) {
        for (int line = 0; line < block_bytes; line += 64)
            rf_asm_prefetch(out, at_step(codes_ahead, part, part3, panel, line));
        if (!kernel->traits.super) rf_asm_prefetch(out, at_step(scales_ahead, part, part3, panel, 0));
    }
    for (int half = 0; half < halves; half++) {
        start(kernel, half);
        for (int j = 4 / halves * half; j < 4 / halves * (half + 1); j++) multiply(kernel, j);
        for (int panel = 0; panel < kernel->p; panel++) {
            load_scales(kernel, panel, half);
            for (int row = 0; row < kernel->n; row++) add_scaled(kernel, panel, row);
        }
    }
}

/* The numbers of a Q4_K unit from 6 bits (rf_q4k_scale) to bytes in memory. */
static void unpack(const struct kernel *kernel, int panel)
{
    struct rf_assembler *out = kernel->out;
    int low = kernel->code, fourth = kernel->scale, t = kernel->temporary;
    static const size_t place[3] = {offsetof(struct tables, two), offsetof(struct tables, middle_two),
                                    offsetof(struct tables, upper_two)};
    for (int v = 0; v < 3; v++) {
        rf_asm_move(out, RF_VMOVDQU, t, rf_mem(in_scales(panel, 64 * v)));
        rf_asm_vector(out, RF_VPAND, low, t, constant(offsetof(struct tables, six)));
        rf_asm_store(out, field(offsetof(struct rf_panels_call, numbers) + 256 * (size_t)panel + 64 * (size_t)v), low);
        rf_asm_vector(out, RF_VPSRLW, t, t, rf_imm(6 - 2 * v));
        if (v == 0)
            rf_asm_vector(out, RF_VPAND, fourth, t, constant(place[v]));
        else
            rf_asm_ternary(out, fourth, t, constant(place[v]), 0xf8);
    }
    rf_asm_store(out, field(offsetof(struct rf_panels_call, numbers) + 256 * (size_t)panel + 192), fourth);
}

static void begin(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    for (int i = 0; i < SAVED; i++) rf_asm_push(out, saved[i]);
    rf_asm_constant(out, constants, &tables);
    rf_asm_move(
        out, RF_VMOVDQU, kernel->mask,
        constant(kernel->format == RF_FORMAT_MXFP4 ? offsetof(struct tables, mxfp4) : offsetof(struct tables, nibble)));
    if (kernel->format == RF_FORMAT_Q6_K)
        rf_asm_move(out, RF_VMOVDQU, kernel->upper, constant(offsetof(struct tables, upper_two)));
    rf_asm_load(out, codes, at(call, offsetof(struct rf_panels_call, codes)));
    rf_asm_load(out, scales, at(call, offsetof(struct rf_panels_call, scales)));
    rf_asm_load(out, part, at(call, offsetof(struct rf_panels_call, part)));
    rf_asm_load(out, stride, at(call, offsetof(struct rf_panels_call, row_bytes)));
    rf_asm_load(out, units, at(call, offsetof(struct rf_panels_call, units)));
    rf_asm_load(out, rows[0], at(call, offsetof(struct rf_panels_call, rows)));
    rf_asm_address(out, part3, (struct rf_address){part, part, 2, 0});
    rf_asm_address(out, stride3, (struct rf_address){stride, stride, 2, 0});
    if (kernel->n > 4) rf_asm_address(out, rows[1], (struct rf_address){rows[0], stride, 4, 0});
    for (int i = 0; i < kernel->n * kernel->p; i++) {
        int zero = kernel->sums_stay ? kernel->sum + i : kernel->scale;
        rf_asm_vector(out, RF_VPXOR, zero, zero, rf_reg(zero));
        if (!kernel->sums_stay) rf_asm_store(out, sum_at(i), zero);
    }
}

static void end(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    if (kernel->sums_stay)
        for (int i = 0; i < kernel->n * kernel->p; i++) rf_asm_store(out, sum_at(i), kernel->sum + i);
    rf_asm_vzeroupper(out);
    for (int i = SAVED; i-- > 0;) rf_asm_pop(out, saved[i]);
    rf_asm_return(out);
}

static void next_block(const struct kernel *kernel)
{
    rf_asm_add(kernel->out, codes, (int)kernel->traits.layout->block_bytes);
    rf_asm_add(kernel->out, codes_ahead, (int)kernel->traits.layout->block_bytes);
    for (int i = 0; 4 * i < kernel->n; i++) rf_asm_add(kernel->out, rows[i], sizeof(struct rf_a8));
}

static void assign_registers(struct kernel *kernel)
{
    enum { REGISTERS = 32 };
    int products = kernel->n * kernel->p, next = products;
    kernel->rows_stay = kernel->n <= kernel->p;
    kernel->code = next;
    next += kernel->rows_stay ? 2 : 2 * kernel->p;
    kernel->value = next;
    next += kernel->rows_stay ? 2 * kernel->n : 2;
    kernel->scale = next++;
    kernel->minimum = next++;
    kernel->mask = next++;
    kernel->upper = next++;
    kernel->temporary = next++;
    kernel->sum = next;
    kernel->sums_stay = next + products <= REGISTERS;
}

/* Sets what is asked for: `ahead` units on, and from that many units before the end, the beginning of what comes next. */
static void look_ahead(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    rf_asm_compare(out, units, kernel->ahead);
    rf_asm_load_if_equal(out, codes_ahead, field(offsetof(struct rf_panels_call, next_codes)));
    rf_asm_load_if_equal(out, scales_ahead, field(offsetof(struct rf_panels_call, next_scales)));
}

static void point_ahead(const struct kernel *kernel)
{
    const struct rf_panel_layout *layout = kernel->traits.layout;
    int unit_bytes = (int)(layout->unit / RF_BLOCK * layout->block_bytes);
    rf_asm_address(kernel->out, codes_ahead, at(codes, kernel->ahead * unit_bytes));
    rf_asm_address(kernel->out, scales_ahead, at(scales, kernel->ahead * (int)layout->scale_bytes));
}

/* A unit of 256 values: its scales first, then eight blocks. */
static void superblock(const struct kernel *kernel)
{
    struct rf_assembler *out = kernel->out;
    int q4_k = kernel->format == RF_FORMAT_Q4_K;
    point_ahead(kernel);
    look_ahead(kernel);
    for (int panel = 0; panel < kernel->p; panel++) {
        for (int line = 0; line < (int)kernel->traits.layout->scale_bytes; line += 64)
            rf_asm_prefetch(out, at_step(scales_ahead, part, part3, panel, line));
        if (q4_k) unpack(kernel, panel);
    }
    rf_asm_address(out, numbers, q4_k ? field(offsetof(struct rf_panels_call, numbers)) : at(scales, 0));
    rf_asm_set(out, turns, RF_SUPERBLOCK / RF_BLOCK);
    rf_asm_align(out);
    size_t top = out->used;
    block(kernel);
    next_block(kernel);
    rf_asm_add(out, numbers, 16 * kernel->traits.halves);
    rf_asm_loop(out, turns, top);
}

void rf_panels_emit(struct rf_assembler *assembler, enum rf_format format, int n, int p)
{
    struct kernel kernel = {.out = assembler, .format = format, .traits = traits_of(format), .n = n, .p = p};
    const struct rf_panel_layout *layout = kernel.traits.layout;
    kernel.ahead = kernel.traits.super ? 1 : (n == 1 ? AHEAD_FEW : AHEAD) / (int)layout->block_bytes;
    assign_registers(&kernel);
    assembler->vector_bytes = 64;
    assembler->evex = 1;

    begin(&kernel);
    if (!kernel.traits.super) point_ahead(&kernel);
    rf_asm_align(assembler);
    size_t top = assembler->used;
    if (kernel.traits.super) {
        superblock(&kernel);
    } else {
        look_ahead(&kernel);
        block(&kernel);
        next_block(&kernel);
        rf_asm_add(assembler, scales_ahead, (int)layout->scale_bytes);
    }
    rf_asm_add(assembler, scales, (int)layout->scale_bytes);
    rf_asm_loop(assembler, units, top);
    end(&kernel);
}
