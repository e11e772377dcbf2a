/* Code that the generators in panels_256.c and panels_512.c share: the use of general registers,
 * the addresses of panels, rows and sums, entry and exit of a function, its loops and prefetches.
 */
#ifndef RF_JIT_FRAME_H
#define RF_JIT_FRAME_H

#include "jit/panels.h"

/* Facts about a format that its layout does not say. */
struct rf_traits {
    int offset_at; /* offset in a row's block of the products' first value; -1: zero */
    int is_half;   /* there is half of that value */
    int super;     /* scales lie in units of 8 blocks */
    int groups;    /* groups in a block */
};

/* A function that is being emitted. */
struct rf_frame {
    struct rf_assembler *out;
    enum rf_format format;
    const struct rf_panel_layout *layout;
    struct rf_traits traits;
    int n, p;
    int ahead; /* prefetch distance in units of the format, at least 1 */
    int asks;  /* codes are prefetched; else only scales */
    int sum;   /* first vector register of the sums, in the order of rf_panels_call; -1: sums are in
                  memory */
};

/* A frame with the members that follow from a format. The caller sets the rest. */
struct rf_frame rf_frame_of(struct rf_assembler *out, enum rf_format format, int n, int p);

/* General registers. Every fourth row has a pointer, and so has the prefetch position. */
static const enum rf_gpr reg_call = RF_RDI, reg_codes = RF_RSI, reg_scales = RF_RDX,
                         reg_codes_ahead = RF_R14, reg_scales_ahead = RF_R15, reg_part = RF_RCX,
                         reg_part3 = RF_R8, reg_rows[2] = {RF_R9, RF_R10}, reg_stride = RF_R11,
                         reg_stride3 = RF_RBX, reg_units = RF_RAX, reg_constants = RF_R13;
/* For units of 256: the scales' numbers of a block, 16 of each group, and how many blocks are left.
 */
static const enum rf_gpr reg_numbers = RF_RBP, reg_turns = RF_R12;

/* Constants, which reg_constants points to. */
struct rf_frame_constants {
    /* rf_panel_table, and the same minus the format's offset */
    alignas(64) uint8_t mxfp4[64], iq4[64], iq2[64], iq3_xxs[64], iq3_s[64];
    int8_t mxfp4_signed[64], iq4_signed[64], iq2_signed[64], iq3_xxs_signed[64], iq3_s_signed[64];
    int16_t ones[32];
    uint8_t nibble[64], six[64], two[64], upper_two[64],
        middle_two[64]; /* masks of bits; low bits unless the name says otherwise */
};

/* Where the table of a format's codes is among them. */
size_t rf_frame_table(enum rf_format format, int is_signed);

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
struct rf_address rf_sum_at(const struct rf_frame *frame, int number); /* a vector of sums */

/* The products' first value of a row and a half of its block. */
void rf_frame_start(const struct rf_frame *frame, int to, int row, int half);

/* A row's element, broadcast to all lanes. */
void rf_frame_broadcast(const struct rf_frame *frame, int to, int row, int displacement);

/* How every function begins. */
extern const struct rf_prologue rf_frame_prologue;

/* A function's own steps, in the order of its loops; each gets `kernel`. */
struct rf_frame_body {
    void (*prepare)(const void *kernel);         /* loads constants */
    void (*unit)(const void *kernel, int panel); /* before the blocks of a unit of 256 */
    void (*block)(const void *kernel);
};

/* Emits a whole function: entry, loops, prefetches, and the way back. */
void rf_frame_emit(const struct rf_frame *frame, const struct rf_frame_body *body,
                   const void *kernel);

/* rf_panels_emit for vectors of 256 and of 512 bits. */
void rf_panels_emit_256(struct rf_assembler *assembler, enum rf_panels_form form,
                        enum rf_format format, int n, int p);
void rf_panels_emit_512(struct rf_assembler *assembler, enum rf_format format, int n, int p);

#endif
