/* A few machine instructions, written byte by byte and run between chosen registers, for the
 * emulator's test. */
#ifndef RF_TEST_SNIPPET_H
#define RF_TEST_SNIPPET_H

#include <stddef.h>
#include <stdint.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R15 = 15, RIP, NO_REGISTER };

/* The last operand of an instruction. */
struct place {
    int is_register, number; /* a vector register or a tile */
    int base, index, scale; /* general registers; RIP: relative to the state below; scale: 0 .. 3, a
                               power of two */
    int32_t displacement;
    int displacement_bytes; /* 0, 1 or 4; some bases need one */
    int sib;                /* a SIB byte even where none is needed */
};

struct vex {
    uint8_t opcode, prefix; /* opcode of map 0F38; VEX.pp */
    int wide;               /* 256 bits */
    int reg, vvvv;
    struct place last;
};

/* Beside the code; loaded into the registers before it, stored after it. RSP is the stack's, before
 * and after. */
struct state {
    uint64_t general[16], general_after[16];
    uint8_t vector[16][64], vector_after[16][64]; /* the upper 32 bytes only with AVX-512 */
    uint8_t memory[256];                          /* operand that is addressed by RIP */
};

struct snippet {
    uint8_t *code;
    struct state *state;
    size_t length;
    int vector_bytes; /* 32, or 64 with AVX-512 */
};

int snippet_new(struct snippet *snippet);
void snippet_free(struct snippet *snippet);

/* Begins anew: the state's registers are loaded. */
void snippet_begin(struct snippet *snippet);
void snippet_bytes(struct snippet *snippet, const uint8_t *bytes, size_t n);
void snippet_vex(struct snippet *snippet, const struct vex *instruction);
/* register -= RSP, so that a base of RSP can reach anything. */
void snippet_minus_rsp(struct snippet *snippet, int number);
/* Ends the code and runs it. */
void snippet_run(struct snippet *snippet);

#endif
