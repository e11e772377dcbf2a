/* Emits one 256-bit kernel: p panels of 16 weight rows, each a separate stream, times n rows of
 * activations.
 *
 * Each turn of the loop handles a block of 32 values of k, panel after panel. A panel is two
 * vectors of 8 weight rows. Both are handled together, so that they share the broadcast values. A
 * tile's sums of products stay in registers while codes are decoded two pairs of vectors, or 8
 * values of k, at a time. At the end of a group they are scaled into the F32 sums, which are in
 * memory, that is, the L1 cache. If there are more rows than a tile has, the first tile leaves the
 * decoded codes there, too. */
#include "jit/frame.h"

enum dot { DOT_MADDUBS, DOT_BUSD, DOT_BSSD };

static const struct form {
    int evex;
    enum dot dot;
    int rows; /* rows of a tile: as many as registers hold */
} forms[] = {
    [RF_PANELS_AVX2] = {0, DOT_MADDUBS, 4},
    [RF_PANELS_AVXVNNI] = {0, DOT_BUSD, 4},
    [RF_PANELS_AVXVNNI_EVEX] = {1, DOT_BUSD, 8},
    [RF_PANELS_AVXVNNIINT8] = {0, DOT_BSSD, 4},
};
_Static_assert(sizeof forms / sizeof *forms == RF_PANELS_AVX512, "all forms of 256 bits");

enum {
    HALVES = 2,
    VECTORS = RF_BLOCK / 4, /* times HALVES: of codes in a block */
    AHEAD = 2048,           /* prefetch distance in bytes of codes; formats with units of 256 use
                               one unit */
};

struct kernel {
    struct rf_frame frame;
    enum dot dot;
    int rows;  /* rows of a tile */
    int run;   /* vectors of codes whose products are summed before they are widened to 32 bits */
    int stays; /* two runs a group at most; the first one's sums stay in registers, not memory */
    /* Vector registers, the products first: [rows][HALVES]. */
    int earlier; /* [rows][HALVES]; of dot products, the sums of every second vector */
    int code;    /* [2][HALVES]; at the end of a group scales, then minima */
    int value, other, mask;
    int constant; /* the operand used most: a table of codes, else ones for vpmaddwd */
};

/* Some rows, from row `first` on, times a block of a panel. */
struct tile {
    const struct kernel *kernel;
    int panel, first, n;
};

static int ymm_product(int i, int half)
{
    return HALVES * i + half;
}

static int is_first(const struct tile *tile)
{
    return tile->first == 0;
}

/* Further tiles will need what this one has decoded. */
static int leaves_codes(const struct tile *tile)
{
    return is_first(tile) && tile->kernel->frame.n > tile->n;
}

static struct rf_address ymm_code_at(int v, int half)
{
    return rf_in_call(offsetof(struct rf_panels_call, block) + 64 * (size_t)v + 32 * (size_t)half);
}

/* Vectors 2j and 2j + 1 of a half's codes, from the panel. */
static void ymm_decode(const struct tile *tile, int j, int half)
{
    const struct kernel *kernel = tile->kernel;
    struct rf_assembler *out = kernel->frame.out;
    int low = kernel->code + half, high = low + HALVES, bits = kernel->value;
    rf_asm_move(out, RF_VMOVDQU, high,
                rf_mem(rf_in_panel(reg_codes, tile->panel, 64 * j + 32 * half)));
    rf_asm_vector(out, RF_VPAND, low, high, rf_reg(kernel->mask));
    rf_asm_vector(out, RF_VPSRLW, high, high, rf_imm(4));
    rf_asm_vector(out, RF_VPAND, high, high, rf_reg(kernel->mask));
    if (rf_panel_table(kernel->frame.format)) {
        rf_asm_vector(out, RF_VPSHUFB, low, kernel->constant, rf_reg(low));
        rf_asm_vector(out, RF_VPSHUFB, high, kernel->constant, rf_reg(high));
    }
    if (kernel->frame.format != RF_FORMAT_Q6_K) return;
    /* One vector holds the upper two bits of four vectors. Each pair of bits moves to bits 4 and 5.
     */
    static const int left[4] = {4, 2, 0, -2};
    for (int v = 0; v < 2; v++) {
        int shift = left[j % 2 * 2 + v], to = kernel->code + v * HALVES + half;
        rf_asm_move(out, RF_VMOVDQU, bits,
                    rf_mem(rf_in_panel(reg_codes, tile->panel, 256 + 64 * (j / 2) + 32 * half)));
        if (shift)
            rf_asm_vector(out, shift > 0 ? RF_VPSLLW : RF_VPSRLW, bits, bits,
                          rf_imm(shift > 0 ? shift : -shift));
        rf_asm_vector(out, RF_VPAND, bits, bits,
                      rf_constant(offsetof(struct rf_frame_constants, upper_two)));
        rf_asm_vector(out, RF_VPOR, to, to, rf_reg(bits));
    }
}

/* Vectors 2j and 2j + 1 of both halves into their registers. */
static void fetch_codes(const struct tile *tile, int j)
{
    const struct kernel *kernel = tile->kernel;
    struct rf_assembler *out = kernel->frame.out;
    int is_ready = kernel->frame.layout->bits == 8;
    for (int half = 0; half < HALVES && !is_ready && is_first(tile); half++)
        ymm_decode(tile, j, half);
    for (int v = 2 * j; v < 2 * j + 2; v++)
        for (int half = 0; half < HALVES; half++) {
            int to = kernel->code + v % 2 * HALVES + half;
            if (is_ready)
                rf_asm_move(out, RF_VMOVDQU, to,
                            rf_mem(rf_in_panel(reg_codes, tile->panel, 64 * v + 32 * half)));
            else if (!is_first(tile))
                rf_asm_move(out, RF_VMOVDQU, to, rf_mem(ymm_code_at(v, half)));
            else if (leaves_codes(tile))
                rf_asm_store(out, ymm_code_at(v, half), to);
        }
}

/* Adds the products of a vector of codes by instructions that sum four products in 32 bits. Where
 * registers allow, every second vector has sums of its own, since each instruction waits for the
 * one before. */
static void dot_products(const struct tile *tile, int v)
{
    const struct kernel *kernel = tile->kernel;
    enum rf_vector_op op = kernel->dot == DOT_BSSD ? RF_VPDPBSSD : RF_VPDPBUSD;
    int sums = kernel->stays && v % 2 ? kernel->earlier : 0;
    for (int i = 0; i < tile->n; i++) {
        rf_frame_broadcast(&kernel->frame, kernel->value, tile->first + i, 4 * v);
        for (int half = 0; half < HALVES; half++)
            rf_asm_vector(kernel->frame.out, op, sums + ymm_product(i, half),
                          kernel->code + v % 2 * HALVES + half, rf_reg(kernel->value));
    }
}

/* The same by sums of pairs in 16 bits. */
static void pair_products(const struct tile *tile, int v)
{
    const struct kernel *kernel = tile->kernel;
    struct rf_assembler *out = kernel->frame.out;
    for (int i = 0; i < tile->n; i++) {
        rf_frame_broadcast(&kernel->frame, kernel->value, tile->first + i, 4 * v);
        for (int half = 0; half < HALVES; half++) {
            int sum = ymm_product(i, half), pairs = half ? kernel->value : kernel->other,
                code = kernel->code + v % 2 * HALVES + half;
            if (v % kernel->run == 0) {
                rf_asm_vector(out, RF_VPMADDUBSW, sum, code, rf_reg(kernel->value));
                continue;
            }
            rf_asm_vector(out, RF_VPMADDUBSW, pairs, code, rf_reg(kernel->value));
            rf_asm_vector(out, RF_VPADDW, sum, sum, rf_reg(pairs));
        }
    }
}

/* Widens a run of 16-bit sums, which has ended with vector v, and adds the sums of earlier runs. */
static void widen(const struct tile *tile, int v)
{
    const struct kernel *kernel = tile->kernel;
    struct rf_assembler *out = kernel->frame.out;
    int depth = VECTORS / kernel->frame.traits.groups, is_last = (v + 1) % depth == 0;
    for (int at = 0; at < ymm_product(tile->n, 0); at++) {
        int earlier = kernel->earlier + at;
        struct rf_address memory =
            rf_in_call(offsetof(struct rf_panels_call, earlier) + 32 * (size_t)at);
        int to = !is_last && kernel->stays ? earlier : at;
        rf_asm_vector(out, RF_VPMADDWD, to, at,
                      kernel->frame.format == RF_FORMAT_MXFP4
                          ? rf_constant(offsetof(struct rf_frame_constants, ones))
                          : rf_reg(kernel->constant));
        if (!is_last && !kernel->stays) rf_asm_store(out, memory, at);
        if (is_last && kernel->run < depth)
            rf_asm_vector(out, RF_VPADDD, at, at, kernel->stays ? rf_reg(earlier) : rf_mem(memory));
    }
}

/* 1 if sums must begin with, or have added, a correction: unsigned codes are too large by the
 * offset. */
static int has_start(const struct kernel *kernel)
{
    return kernel->frame.traits.offset_at >= 0 && kernel->dot != DOT_BSSD;
}

static void load_start(const struct tile *tile, int to, int i, int group)
{
    rf_frame_start(&tile->kernel->frame, to, tile->first + i, group);
}

static void start_dots(const struct tile *tile, int group)
{
    const struct kernel *kernel = tile->kernel;
    for (int i = 0; i < tile->n; i++)
        for (int half = 0; half < HALVES; half++) {
            int to = ymm_product(i, half), other = kernel->earlier + to;
            if (kernel->stays)
                rf_asm_vector(kernel->frame.out, RF_VPXOR, other, other, rf_reg(other));
            if (has_start(kernel))
                load_start(tile, to, i, group);
            else
                rf_asm_vector(kernel->frame.out, RF_VPXOR, to, to, rf_reg(to));
        }
}

static struct rf_address ymm_unit_at(int panel, int is_minimum, int half)
{
    size_t vector = 2 * (2 * (size_t)panel + (size_t)is_minimum) + (size_t)half;
    return rf_in_call(offsetof(struct rf_panels_call, floats) + 32 * vector);
}

/* The scale of a group for 8 weight rows, or its minimum. */
static void decode_scale(const struct tile *tile, int group, int is_minimum, int half, int to)
{
    const struct kernel *kernel = tile->kernel;
    struct rf_assembler *out = kernel->frame.out;
    int of_half = 8 * half;
    switch (kernel->frame.format) {
    case RF_FORMAT_MXFP4:
        rf_asm_move(out, RF_VPMOVZXBD, to, rf_mem(rf_in_panel(reg_scales, tile->panel, of_half)));
        rf_asm_vector(out, RF_VPSLLD, to, to, rf_imm(23));
        return;
    case RF_FORMAT_Q4_K:
        rf_asm_move(out, RF_VPMOVZXBD, to,
                    rf_mem(rf_at(reg_numbers, 256 * tile->panel + 128 * is_minimum + of_half)));
        break;
    case RF_FORMAT_Q6_K:
    case RF_FORMAT_IQ4_XS:
    case RF_FORMAT_IQ2:
    case RF_FORMAT_IQ3_XXS:
    case RF_FORMAT_IQ3_S:
        rf_asm_move(out, RF_VPMOVSXBD, to,
                    rf_mem(rf_in_panel(reg_numbers, tile->panel, 16 * group + of_half)));
        break;
    default:
        rf_asm_move(out, RF_VCVTPH2PS, to,
                    rf_mem(rf_in_panel(reg_scales, tile->panel, 32 * is_minimum + 2 * of_half)));
        return;
    }
    rf_asm_move(out, RF_VCVTDQ2PS, to, rf_reg(to));
    rf_asm_vector(out, RF_VMULPS, to, to, rf_mem(ymm_unit_at(tile->panel, is_minimum, half)));
}

/* Scales, then minima, into the registers of codes. */
static void fetch_scales(const struct tile *tile, int group)
{
    const struct kernel *kernel = tile->kernel;
    struct rf_assembler *out = kernel->frame.out;
    for (int i = 0; i < (kernel->frame.layout->has_min ? 2 * HALVES : HALVES); i++) {
        int to = kernel->code + i;
        struct rf_address memory = rf_in_call(offsetof(struct rf_panels_call, scales_of) +
                                              128 * (size_t)group + 32 * (size_t)i);
        if (is_first(tile))
            decode_scale(tile, group, i / HALVES, i % HALVES, to);
        else
            rf_asm_move(out, RF_VMOVUPS, to, rf_mem(memory));
        if (leaves_codes(tile)) rf_asm_store(out, memory, to);
    }
}

/* sum = fma(float(product) * d, s, sum), then sum = fma(b, d_sum, sum) where there is a minimum. */
static void ymm_add_scaled(const struct tile *tile, int i)
{
    const struct kernel *kernel = tile->kernel;
    const struct rf_frame *frame = &kernel->frame;
    struct rf_assembler *out = frame->out;
    int row = tile->first + i, d = kernel->value, d_sum = kernel->other;
    rf_frame_broadcast(frame, d, row, offsetof(struct rf_a8, d));
    if (frame->layout->has_min)
        rf_frame_broadcast(frame, d_sum, row, offsetof(struct rf_a8, d_sum));
    for (int half = 0; half < HALVES; half++) {
        int at = ymm_product(i, half), scale = kernel->code + half;
        struct rf_address sum = rf_sum_at(frame, ymm_product(tile->panel * frame->n + row, half));
        rf_asm_move(out, RF_VCVTDQ2PS, at, rf_reg(at));
        rf_asm_vector(out, RF_VMULPS, at, at, rf_reg(d));
        rf_asm_vector(out, RF_VFMADD213PS, at, scale, rf_mem(sum));
        if (frame->layout->has_min)
            rf_asm_vector(out, RF_VFMADD231PS, at, scale + HALVES, rf_reg(d_sum));
        rf_asm_store(out, sum, at);
    }
}

/* Sums in 16 bits begin with nothing, so the start is added when they are widened. */
static void add_start(const struct tile *tile, int i, int group)
{
    const struct kernel *kernel = tile->kernel;
    load_start(tile, kernel->value, i, group);
    for (int half = 0; half < HALVES; half++)
        rf_asm_vector(kernel->frame.out, RF_VPADDD, ymm_product(i, half), ymm_product(i, half),
                      rf_reg(kernel->value));
}

static void ymm_multiply(const struct tile *tile, int group)
{
    const struct kernel *kernel = tile->kernel;
    int is_pairs = kernel->dot == DOT_MADDUBS, depth = VECTORS / kernel->frame.traits.groups;
    if (!is_pairs) start_dots(tile, group);
    for (int v = group * depth; v < (group + 1) * depth; v++) {
        if (v % 2 == 0) fetch_codes(tile, v / 2);
        if (is_pairs)
            pair_products(tile, v);
        else
            dot_products(tile, v);
        if (is_pairs && (v + 1) % kernel->run == 0) widen(tile, v);
    }
    for (int at = 0; !is_pairs && kernel->stays && at < ymm_product(tile->n, 0); at++)
        rf_asm_vector(kernel->frame.out, RF_VPADDD, at, at, rf_reg(kernel->earlier + at));
    fetch_scales(tile, group);
    for (int i = 0; i < tile->n; i++) {
        if (is_pairs && has_start(kernel)) add_start(tile, i, group);
        ymm_add_scaled(tile, i);
    }
}

static void ymm_block(const void *of)
{
    const struct kernel *kernel = of;
    int n = kernel->frame.n;
    for (int panel = 0; panel < kernel->frame.p; panel++)
        for (int first = 0; first < n; first += kernel->rows) {
            struct tile tile = {kernel, panel, first,
                                n - first < kernel->rows ? n - first : kernel->rows};
            for (int group = 0; group < kernel->frame.traits.groups; group++)
                ymm_multiply(&tile, group);
        }
}

/* Unpacks the 6-bit numbers of a Q4_K unit (rf_q4k_scale) to bytes in memory. */
static void ymm_unpack(const struct kernel *kernel, int panel, int half)
{
    struct rf_assembler *out = kernel->frame.out;
    int t = 0, low = 1, fourth = 2; /* no products are in progress */
    size_t to = offsetof(struct rf_panels_call, numbers) + 256 * (size_t)panel + 32 * (size_t)half;
    static const size_t place[3] = {offsetof(struct rf_frame_constants, two),
                                    offsetof(struct rf_frame_constants, middle_two),
                                    offsetof(struct rf_frame_constants, upper_two)};
    for (int v = 0; v < 3; v++) {
        rf_asm_move(out, RF_VMOVDQU, t, rf_mem(rf_in_panel(reg_scales, panel, 64 * v + 32 * half)));
        rf_asm_vector(out, RF_VPAND, low, t, rf_constant(offsetof(struct rf_frame_constants, six)));
        rf_asm_store(out, rf_in_call(to + 64 * (size_t)v), low);
        rf_asm_vector(out, RF_VPSRLW, t, t, rf_imm(6 - 2 * v));
        rf_asm_vector(out, RF_VPAND, v ? t : fourth, t, rf_constant(place[v]));
        if (v) rf_asm_vector(out, RF_VPOR, fourth, fourth, rf_reg(t));
    }
    rf_asm_store(out, rf_in_call(to + 192), fourth);
}

/* The F16 or F32 numbers, the last of a unit, become floats in memory. */
static void ymm_unit(const void *of, int panel)
{
    const struct kernel *kernel = of;
    struct rf_assembler *out = kernel->frame.out;
    int numbers = kernel->frame.layout->has_min ? 2 : 1,
        is_f32 = rf_has_f32_scale(kernel->frame.format), bytes = is_f32 ? 64 : 32,
        begin = (int)kernel->frame.layout->scale_bytes - bytes * numbers;
    for (int half = 0; half < HALVES && kernel->frame.format == RF_FORMAT_Q4_K; half++)
        ymm_unpack(kernel, panel, half);
    for (int i = 0; i < numbers; i++)
        for (int half = 0; half < HALVES; half++) {
            rf_asm_move(
                out, is_f32 ? RF_VMOVUPS : RF_VCVTPH2PS, 0,
                rf_mem(rf_in_panel(reg_scales, panel, begin + bytes * i + bytes / 2 * half)));
            rf_asm_store(out, ymm_unit_at(panel, i, half), 0);
        }
}

static void ymm_load_constants(const void *of)
{
    const struct kernel *kernel = of;
    struct rf_assembler *out = kernel->frame.out;
    size_t constant = rf_panel_table(kernel->frame.format)
                          ? rf_frame_table(kernel->frame.format, kernel->dot == DOT_BSSD)
                          : offsetof(struct rf_frame_constants, ones);
    rf_asm_move(out, RF_VMOVDQU, kernel->mask,
                rf_constant(offsetof(struct rf_frame_constants, nibble)));
    rf_asm_move(out, RF_VMOVDQU, kernel->constant, rf_constant(constant));
}

/* Vectors of codes whose products 16-bit sums hold: n * 2 * 127 * the greatest code < 2^15. */
static int run_of(enum rf_format format)
{
    return format == RF_FORMAT_Q6_K ? 2 : format == RF_FORMAT_MXFP4 ? 4 : 8;
}

static void ymm_assign_registers(struct kernel *kernel)
{
    int rows = kernel->rows, registers = kernel->frame.out->evex ? 32 : 16;
    kernel->earlier = HALVES * rows;
    kernel->stays = 2 * HALVES * rows + 8 <= registers;
    kernel->code = kernel->stays ? 2 * HALVES * rows : HALVES * rows;
    kernel->value = kernel->code + 2 * HALVES;
    kernel->other = kernel->value + 1;
    kernel->mask = kernel->value + 2;
    kernel->constant = kernel->value + 3;
}

void rf_panels_emit_256(struct rf_assembler *assembler, enum rf_panels_form form,
                        enum rf_format format, int n, int p)
{
    static const struct rf_frame_body body = {ymm_load_constants, ymm_unit, ymm_block};
    const struct form *of = &forms[form];
    /* Signed codes come from a table. */
    int is_signed = of->dot == DOT_BSSD && rf_panel_table(format);
    struct kernel kernel = {.frame = rf_frame_of(assembler, format, n, p),
                            .dot = of->dot == DOT_BSSD && !is_signed ? DOT_BUSD : of->dot,
                            .rows = n < of->rows ? n : of->rows,
                            .run = run_of(format)};
    struct rf_frame *frame = &kernel.frame;
    frame->ahead = frame->traits.super ? 1 : AHEAD / (int)frame->layout->block_bytes;
    frame->asks = n > 1 || of->dot != DOT_MADDUBS;
    frame->sum = -1;
    assembler->vector_bytes = 32;
    assembler->evex = of->evex;
    ymm_assign_registers(&kernel);
    rf_frame_emit(&kernel.frame, &body, &kernel);
}
