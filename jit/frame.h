/* What the generators of panels_256.c and panels_512.c share: which general register holds what,
 * where panels, rows and sums are, how a function begins and ends, and what it asks memory for
 * ahead of its use. */
#ifndef RF_JIT_FRAME_H
#define RF_JIT_FRAME_H

#include "jit/panels.h"

/* A function that is being emitted, and the part of the plan for its vector registers that both
 * generators have. */
struct rf_frame {
    struct rf_assembler *out;
    const struct rf_panel_layout *layout;
    int n, p;
    int ahead; /* units of the format from a load to its prefetch, at least 1 */
    int sum; /* the first register of the sums, which come in the order of rf_panels_call; -1: they
                stay in memory */
};

/* General registers. The first row of each four has a pointer; so has what is asked for ahead of
 * its use. Without rows from the ninth on, reg_rows[2] and [3] are free. */
static const enum rf_gpr reg_call = RF_RDI, reg_codes = RF_RSI, reg_scales = RF_RDX,
                         reg_codes_ahead = RF_R14, reg_scales_ahead = RF_R15, reg_part = RF_RCX,
                         reg_part3 = RF_R8, reg_rows[4] = {RF_R9, RF_R10, RF_RBP, RF_R12},
                         reg_stride = RF_R11, reg_stride3 = RF_RBX, reg_units = RF_RAX,
                         reg_constants = RF_R13;

/* Constants, which reg_constants points to. */
struct rf_frame_constants {
    alignas(64) uint8_t mxfp4[64]; /* rf_mxfp4_codes */
    int8_t mxfp4_signed[64];       /* 12 less */
    int16_t ones[32];
    uint8_t nibble[64], six[64], two[64], upper_two[64],
        middle_two[64]; /* masks: of the low bits, but as they say */
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

/* From what the base points to for the first panel, or for the first row of four, to the same of
 * another. */
struct rf_address rf_in_panel(enum rf_gpr base, int panel, int displacement);
struct rf_address rf_in_row(int row, int displacement);
/* A vector of sums, or of what lies behind them. */
struct rf_address rf_sum_at(const struct rf_frame *frame, int number);

/* An element of a row to all lanes. */
void rf_frame_broadcast(const struct rf_frame *frame, int to, int row, int displacement);

/* Loads the general registers and zeroes the sums; overwrites vector register 0. */
void rf_frame_begin(const struct rf_frame *frame);
/* At the beginning of a unit: where to look ahead now, and its scales there. */
void rf_frame_unit(const struct rf_frame *frame);
/* Asks for a panel's codes, and moves on. */
void rf_frame_ask(const struct rf_frame *frame, int panel);
void rf_frame_next_block(const struct rf_frame *frame);
/* Back to where units begin, unless this was the last. */
void rf_frame_next_unit(const struct rf_frame *frame, size_t top);
/* Stores the sums and returns. */
void rf_frame_end(const struct rf_frame *frame);

/* rf_panels_emit for the forms of either size of vectors. */
void rf_panels_emit_256(struct rf_assembler *assembler, enum rf_panels_form form, int n, int p);
void rf_panels_emit_512(struct rf_assembler *assembler, enum rf_format format, int n, int p);

#endif
