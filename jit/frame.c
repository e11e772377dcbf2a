/* Emits what all generated functions have: entry and exit, the loops over units and blocks,
 * prefetches, and addresses of operands. A function begins with the pushes of rf_frame_prologue
 * and ends with its pops and `ret`; the unwinding data rely on that. panels_256.c and panels_512.c
 * hand in the work on a block. */
#include "jit/frame.h"

/* The callee-saved registers of the System V calling convention. */
enum { SAVED = 6 };
const struct rf_prologue rf_frame_prologue = {SAVED,
                                              {RF_RBX, RF_RBP, RF_R12, RF_R13, RF_R14, RF_R15}};

#define TIMES4(...)                                        \
    {                                                      \
        __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__ \
    }
#define TIMES32(x) TIMES4(x, x, x, x, x, x, x, x)
#define TIMES64(x) TIMES4(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)
static const struct rf_frame_constants constants = {
    .mxfp4 = TIMES4(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0),
    .iq4 = TIMES4(1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241),
    .iq4_signed = TIMES4(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
    .iq2 = TIMES4(72, 89, 107, 64, 57, 65, 73, 64, 56, 39, 21, 64, 55, 63, 71, 64),
    .iq2_signed = TIMES4(8, 25, 43, 0, -7, 1, 9, 0, -8, -25, -43, 0, -9, -1, 7, 0),
    .iq3_xxs = TIMES4(132, 140, 148, 156, 164, 172, 180, 190, 124, 116, 108, 100, 92, 84, 76, 66),
    .iq3_xxs_signed = TIMES4(4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62),
    .iq3_s = TIMES4(129, 131, 133, 135, 137, 139, 141, 143, 127, 125, 123, 121, 119, 117, 115, 113),
    .iq3_s_signed = TIMES4(1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15),
    .mxfp4_signed = TIMES4(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12),
    .ones = TIMES32(1),
    .nibble = TIMES64(0x0f),
    .six = TIMES64(0x3f),
    .two = TIMES64(0x03),
    .upper_two = TIMES64(0x30),
    .middle_two = TIMES64(0x0c),
};
#undef TIMES4
#undef TIMES32
#undef TIMES64

static struct rf_traits format_traits(enum rf_format format)
{
    const struct rf_panel_layout *layout = rf_panel_layout(format);
    struct rf_traits traits = {-1, layout->offset == 64, layout->unit == RF_SUPERBLOCK,
                               RF_BLOCK / (int)layout->group};
    switch (layout->offset) {
    case 8: traits.offset_at = offsetof(struct rf_a8, m8); break;
    case 12: traits.offset_at = offsetof(struct rf_a8, m12); break;
    case 32:
    case 64: traits.offset_at = offsetof(struct rf_a8, m32); break;
    case 128: traits.offset_at = offsetof(struct rf_a8, m128); break;
    default: break;
    }
    return traits;
}

size_t rf_frame_table(enum rf_format format, int is_signed)
{
#define TABLE(name)                                                 \
    (is_signed ? offsetof(struct rf_frame_constants, name##_signed) \
               : offsetof(struct rf_frame_constants, name))
    switch (format) {
    case RF_FORMAT_MXFP4: return TABLE(mxfp4);
    case RF_FORMAT_IQ2: return TABLE(iq2);
    case RF_FORMAT_IQ3_XXS: return TABLE(iq3_xxs);
    case RF_FORMAT_IQ3_S: return TABLE(iq3_s);
    default: return TABLE(iq4);
    }
#undef TABLE
}

struct rf_frame rf_frame_of(struct rf_assembler *out, enum rf_format format, int n, int p)
{
    return (struct rf_frame){.out = out,
                             .format = format,
                             .layout = rf_panel_layout(format),
                             .traits = format_traits(format),
                             .n = n,
                             .p = p};
}

/* The address of element i (0 .. 3); elements are `step` apart, and step3 is three times the step.
 */
static struct rf_address at_step(enum rf_gpr base, enum rf_gpr step, enum rf_gpr step3, int i,
                                 int displacement)
{
    if (i == 0) return rf_at(base, displacement);
    return (struct rf_address){base, i == 3 ? step3 : step, i == 2 ? 2 : 1, displacement};
}

struct rf_address rf_in_panel(enum rf_gpr base, int panel, int displacement)
{
    return at_step(base, reg_part, reg_part3, panel, displacement);
}

struct rf_address rf_in_row(int row, int displacement)
{
    return at_step(reg_rows[row / 4], reg_stride, reg_stride3, row % 4, displacement);
}

struct rf_address rf_sum_at(const struct rf_frame *frame, int number)
{
    return rf_in_call(offsetof(struct rf_panels_call, sums) +
                      (size_t)(number * frame->out->vector_bytes));
}

/* Vectors of sums. */
static int sum_vectors(const struct rf_frame *frame)
{
    return frame->n * frame->p * RF_PANEL_ROWS * (int)sizeof(float) / frame->out->vector_bytes;
}

void rf_frame_broadcast(const struct rf_frame *frame, int to, int row, int displacement)
{
    rf_asm_move(frame->out, RF_VPBROADCASTD, to, rf_mem(rf_in_row(row, displacement)));
}

void rf_frame_start(const struct rf_frame *frame, int to, int row, int half)
{
    rf_frame_broadcast(frame, to, row, frame->traits.offset_at + 4 * half);
    if (frame->traits.is_half) rf_asm_vector(frame->out, RF_VPADDD, to, to, rf_reg(to));
}

/* Loads the general registers and zeroes the sums; overwrites vector register 0. */
static void emit_entry(const struct rf_frame *frame)
{
    struct rf_assembler *out = frame->out;
    const struct rf_panel_layout *layout = frame->layout;
    int unit_bytes = (int)(layout->unit / RF_BLOCK * layout->block_bytes);
    for (int i = 0; i < SAVED; i++) rf_asm_push(out, (enum rf_gpr)rf_frame_prologue.registers[i]);
    rf_asm_constant(out, reg_constants, &constants);
    rf_asm_load(out, reg_codes, rf_in_call(offsetof(struct rf_panels_call, codes)));
    rf_asm_load(out, reg_scales, rf_in_call(offsetof(struct rf_panels_call, scales)));
    rf_asm_load(out, reg_part, rf_in_call(offsetof(struct rf_panels_call, part)));
    rf_asm_load(out, reg_rows[0], rf_in_call(offsetof(struct rf_panels_call, rows)));
    rf_asm_load(out, reg_stride, rf_in_call(offsetof(struct rf_panels_call, row_bytes)));
    rf_asm_load(out, reg_units, rf_in_call(offsetof(struct rf_panels_call, units)));
    rf_asm_address(out, reg_codes_ahead, rf_at(reg_codes, frame->ahead * unit_bytes));
    rf_asm_address(out, reg_scales_ahead,
                   rf_at(reg_scales, frame->ahead * (int)layout->scale_bytes));
    rf_asm_address(out, reg_part3, (struct rf_address){reg_part, reg_part, 2, 0});
    rf_asm_address(out, reg_stride3, (struct rf_address){reg_stride, reg_stride, 2, 0});
    for (int i = 1; 4 * i < frame->n; i++)
        rf_asm_address(out, reg_rows[i], (struct rf_address){reg_rows[i - 1], reg_stride, 4, 0});
    for (int i = 0; i < sum_vectors(frame); i++) {
        int zero = frame->sum < 0 ? 0 : frame->sum + i;
        rf_asm_vector(out, RF_VPXOR, zero, zero, rf_reg(zero));
        if (frame->sum < 0) rf_asm_store(out, rf_sum_at(frame, i), zero);
    }
}

/* Begins a unit: sets the prefetch position and prefetches the scales there. In the last `ahead`
 * units the position is in the next panels, since the bytes behind a panel may not be read soon. */
static void emit_unit_begin(const struct rf_frame *frame)
{
    struct rf_assembler *out = frame->out;
    rf_asm_compare(out, reg_units, frame->ahead);
    rf_asm_load_if_equal(out, reg_codes_ahead,
                         rf_in_call(offsetof(struct rf_panels_call, next_codes)));
    rf_asm_load_if_equal(out, reg_scales_ahead,
                         rf_in_call(offsetof(struct rf_panels_call, next_scales)));
    for (int panel = 0; panel < frame->p; panel++)
        for (int line = 0; line < (int)frame->layout->scale_bytes; line += 64)
            rf_asm_prefetch(out, rf_in_panel(reg_scales_ahead, panel, line));
}

/* Prefetches a block of each panel, handles the one at hand, and advances. */
static void emit_block(const struct rf_frame *frame, const struct rf_frame_body *body,
                       const void *kernel)
{
    for (int panel = 0; panel < frame->p && frame->asks; panel++)
        for (int line = 0; line < (int)frame->layout->block_bytes; line += 64)
            rf_asm_prefetch(frame->out, rf_in_panel(reg_codes_ahead, panel, line));
    body->block(kernel);
    rf_asm_add(frame->out, reg_codes, (int)frame->layout->block_bytes);
    rf_asm_add(frame->out, reg_codes_ahead, (int)frame->layout->block_bytes);
    for (int i = 0; 4 * i < frame->n; i++)
        rf_asm_add(frame->out, reg_rows[i], sizeof(struct rf_a8));
}

/* The eight blocks of a unit of 256 values. */
static void emit_superblock(const struct rf_frame *frame, const struct rf_frame_body *body,
                            const void *kernel)
{
    struct rf_assembler *out = frame->out;
    int unpacks = frame->format == RF_FORMAT_Q4_K;
    for (int panel = 0; panel < frame->p; panel++) body->unit(kernel, panel);
    rf_asm_address(out, reg_numbers,
                   unpacks ? rf_in_call(offsetof(struct rf_panels_call, numbers))
                           : rf_at(reg_scales, 0));
    rf_asm_set(out, reg_turns, RF_SUPERBLOCK / RF_BLOCK);
    rf_asm_align(out);
    size_t top = out->used;
    emit_block(frame, body, kernel);
    rf_asm_add(out, reg_numbers, 16 * frame->traits.groups);
    rf_asm_loop(out, reg_turns, top);
}

static void emit_exit(const struct rf_frame *frame)
{
    struct rf_assembler *out = frame->out;
    for (int i = 0; frame->sum >= 0 && i < sum_vectors(frame); i++)
        rf_asm_store(out, rf_sum_at(frame, i), frame->sum + i);
    rf_asm_vzeroupper(out);
    for (int i = SAVED; i-- > 0;) rf_asm_pop(out, (enum rf_gpr)rf_frame_prologue.registers[i]);
    rf_asm_return(out);
}

void rf_frame_emit(const struct rf_frame *frame, const struct rf_frame_body *body,
                   const void *kernel)
{
    struct rf_assembler *out = frame->out;
    emit_entry(frame);
    body->prepare(kernel);
    rf_asm_align(out);
    size_t top = out->used;
    emit_unit_begin(frame);
    if (frame->traits.super)
        emit_superblock(frame, body, kernel);
    else
        emit_block(frame, body, kernel);
    rf_asm_add(out, reg_scales, (int)frame->layout->scale_bytes);
    rf_asm_add(out, reg_scales_ahead, (int)frame->layout->scale_bytes);
    rf_asm_loop(out, reg_units, top);
    emit_exit(frame);
}
