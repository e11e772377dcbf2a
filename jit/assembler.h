/* An assembler for the instructions of generated kernels. Zydis encodes them; only assembler.c
 * includes it.
 *
 * A call that cannot be encoded, or does not fit, marks the assembler as failed. Later calls do
 * nothing then, and rf_asm_finish returns the error. So generators check for errors once. */
#ifndef RF_JIT_ASSEMBLER_H
#define RF_JIT_ASSEMBLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum rf_gpr {
    RF_RAX,
    RF_RCX,
    RF_RDX,
    RF_RBX,
    RF_RSP,
    RF_RBP,
    RF_RSI,
    RF_RDI,
    RF_R8,
    RF_R9,
    RF_R10,
    RF_R11,
    RF_R12,
    RF_R13,
    RF_R14,
    RF_R15,
    RF_NO_GPR
};

/* base + index * scale + displacement; scale 1, 2, 4 or 8. */
struct rf_address {
    enum rf_gpr base, index;
    int scale, displacement;
};

struct rf_assembler {
    uint8_t *code;
    size_t used, capacity;
    int vector_bytes; /* size of a vector register: 32 or 64 */
    int evex;         /* EVEX encodings: 32 registers, broadcast operands */
    const char *failed;
};

/* The last operand of a vector instruction. */
enum rf_source_kind {
    RF_SOURCE_REGISTER,
    RF_SOURCE_MEMORY,
    RF_SOURCE_BROADCAST,
    RF_SOURCE_IMMEDIATE
};
struct rf_asm_source {
    enum rf_source_kind kind;
    int value; /* register number or immediate */
    struct rf_address address;
};

struct rf_asm_source rf_reg(int number);
struct rf_asm_source rf_imm(int value);
struct rf_asm_source rf_mem(struct rf_address address);
/* One 32-bit element, broadcast to all lanes; EVEX only. */
struct rf_asm_source rf_mem_each(struct rf_address address);

/* Two operands: to, source. */
enum rf_move {
    RF_VMOVDQU,
    RF_VMOVUPS,
    RF_VPBROADCASTD, /* a 32-bit element in memory to all lanes */
    RF_VPMOVZXBD,    /* bytes in memory or the low lanes to 32-bit lanes */
    RF_VPMOVSXBD,
    RF_VCVTDQ2PS,
    RF_VCVTPH2PS, /* F16 values in memory */
    RF_MOVE_COUNT
};

/* Three operands: to, left, source. */
enum rf_vector_op {
    RF_VPAND,
    RF_VPOR,
    RF_VPXOR,
    RF_VPSRLW, /* shifts by an immediate */
    RF_VPSLLW,
    RF_VPSLLD,
    RF_VPSHUFB,
    RF_VPERMB, /* left: indices, source: table */
    RF_VPMADDUBSW,
    RF_VPMADDWD,
    RF_VPADDW,
    RF_VPADDD,
    RF_VPDPBUSD, /* left: unsigned bytes, source: signed bytes */
    RF_VPDPBSSD, /* both signed */
    RF_VMULPS,
    RF_VFMADD213PS, /* to = to * left + source */
    RF_VFMADD231PS, /* to = left * source + to */
    RF_VECTOR_OP_COUNT
};

void rf_asm_move(struct rf_assembler *assembler, enum rf_move move, int to,
                 struct rf_asm_source source);
void rf_asm_vector(struct rf_assembler *assembler, enum rf_vector_op op, int to, int left,
                   struct rf_asm_source source);
/* vpternlogd: each bit of `to` is looked up in `table` by the bits of to, left and source. */
void rf_asm_ternary(struct rf_assembler *assembler, int to, int left, struct rf_asm_source source,
                    int table);
void rf_asm_store(struct rf_assembler *assembler, struct rf_address to, int from);
void rf_asm_vzeroupper(struct rf_assembler *assembler);

/* 64-bit instructions. */
void rf_asm_load(struct rf_assembler *assembler, enum rf_gpr to, struct rf_address from);
void rf_asm_address(struct rf_assembler *assembler, enum rf_gpr to, struct rf_address address);
void rf_asm_constant(struct rf_assembler *assembler, enum rf_gpr to, const void *address);
void rf_asm_set(struct rf_assembler *assembler, enum rf_gpr to, int immediate);
void rf_asm_add(struct rf_assembler *assembler, enum rf_gpr to, int immediate);
/* Compares for the conditional moves that follow. */
void rf_asm_compare(struct rf_assembler *assembler, enum rf_gpr left, int immediate);
void rf_asm_load_if_equal(struct rf_assembler *assembler, enum rf_gpr to, struct rf_address from);
void rf_asm_push(struct rf_assembler *assembler, enum rf_gpr from);
void rf_asm_pop(struct rf_assembler *assembler, enum rf_gpr to);
/* Prefetches into the L2 cache. */
void rf_asm_prefetch(struct rf_assembler *assembler, struct rf_address address);
/* Decrements the counter and jumps back to a position in the code, unless it has reached zero. */
void rf_asm_loop(struct rf_assembler *assembler, enum rf_gpr counter, size_t place);
void rf_asm_return(struct rf_assembler *assembler);
/* Pads the code to a multiple of 64 bytes. */
void rf_asm_align(struct rf_assembler *assembler);

/* 0, or RF_ERR_SYSTEM with the first error. */
int rf_asm_finish(const struct rf_assembler *assembler, struct rf_error *error);

#endif
