/* What the generators in panels_256.c and panels_512.c share: the use of general registers, the
 * addresses of panels, rows and sums, entry and exit of a function, and its prefetches. */
#ifndef RF_JIT_FRAME_H
#define RF_JIT_FRAME_H

#include "jit/panels.h"

/* A function that is being emitted. */
struct rf_frame {
    struct rf_assembler *out;
    const struct rf_panel_layout *layout;
    int n, p;
    int ahead; /* prefetch distance in units of the format, at least 1 */
    int sum;   /* first vector register of the sums, in the order of rf_panels_call; -1: sums are in
                  memory */
};

/* General registers. Every fourth row has a pointer, and so has the prefetch position. Functions of
 * up to eight rows do not use reg_rows[2] and [3]. */
static const enum rf_gpr reg_call = RF_RDI, reg_codes = RF_RSI, reg_scales = RF_RDX,
                         reg_codes_ahead = RF_R14, reg_scales_ahead = RF_R15, reg_part = RF_RCX,
                         reg_part3 = RF_R8, reg_rows[4] = {RF_R9, RF_R10, RF_RBP, RF_R12},
                         reg_stride = RF_R11, reg_stride3 = RF_RBX, reg_units = RF_RAX,
                         reg_constants = RF_R13;

/* Constants, which reg_constants points to. */
struct rf_frame_constants {
    alignas(64) uint8_t mxfp4[64]; /* rf_mxfp4_codes */
    int8_t mxfp4_signed[64];       /* the same minus 12 */
    int16_t ones[32];
    uint8_t nibble[64], six[64], two[64], upper_two[64],
        middle_two[64]; /* masks of bits; low bits unless the name says otherwise */
};

static inline struct rf_address rf_at(enum rf_gpr base, int displacement)
{
    return (struct rf_address){base, RF_NO_GPR, 1, displacement};
}

static inline struct rf_address rf_in_call(size_t offset)
{
    return rf_at(reg_call, (int)offset);
}

static inline struct rf_asm_source rf_constant(size_t offset)
{
    return rf_mem(rf_at(reg_constants, (int)offset));
}

/* Addresses in another panel than the first, and in any row. */
struct rf_address rf_in_panel(enum rf_gpr base, int panel, int displacement);
struct rf_address rf_in_row(int row, int displacement);
/* A vector of sums, or of the products stored behind them. */
struct rf_address rf_sum_at(const struct rf_frame *frame, int number);

/* A row's element, broadcast to all lanes. */
void rf_frame_broadcast(const struct rf_frame *frame, int to, int row, int displacement);

/* How every function begins. */
extern const struct rf_prologue rf_frame_prologue;

/* Emits the entry: loads the general registers and zeroes the sums; overwrites vector register 0.
 */
void rf_frame_begin(const struct rf_frame *frame);
/* At the beginning of a unit: sets the prefetch position and prefetches the scales there. */
void rf_frame_unit(const struct rf_frame *frame);
/* Prefetches a panel's codes and advances. */
void rf_frame_ask(const struct rf_frame *frame, int panel);
void rf_frame_next_block(const struct rf_frame *frame);
/* Jumps back to the next unit, unless this was the last. */
void rf_frame_next_unit(const struct rf_frame *frame, size_t top);
/* Stores the sums and returns. */
void rf_frame_end(const struct rf_frame *frame);

/* rf_panels_emit for vectors of 256 and of 512 bits. */
void rf_panels_emit_256(struct rf_assembler *assembler, enum rf_panels_form form, int n, int p);
void rf_panels_emit_512(struct rf_assembler *assembler, enum rf_format format, int n, int p);

#endif
