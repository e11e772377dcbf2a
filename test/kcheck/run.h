/* How a kernel is called, and the state that it leaves, in the calling convention of each system.
 */
#ifndef KCHECK_RUN_H
#define KCHECK_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "kcheck/kcheck.h"

/* The call's arguments and the state after it. run() depends on the offsets. */
struct call {
    uint64_t arguments[4];
    float number;
    uint32_t vector_bytes; /* bytes to store of each register: 0, 32 or 64 */
    kcheck_kernel *kernel;
    uint64_t result;
    uint64_t stack_before, stack_after, flags;
    uint32_t mxcsr_before, mxcsr_after;
    uint16_t x87_before, x87_after, unused[2];
    uint64_t saved_before[6], saved_after[6]; /* rbx, rbp, r12 .. r15 */
    _Alignas(64) uint8_t vectors[16][64];
    /* Windows's convention alone keeps these, too: rsi, rdi; the lower halves of xmm6 .. xmm15 */
    uint64_t moved_before[2], moved_after[2];
    uint8_t low_before[10][16], low_after[10][16];
};

_Static_assert(offsetof(struct call, number) == 32 && offsetof(struct call, vector_bytes) == 36,
               "known to run()");
_Static_assert(offsetof(struct call, kernel) == 40 && offsetof(struct call, result) == 48,
               "known to run()");
_Static_assert(offsetof(struct call, stack_before) == 56 && offsetof(struct call, flags) == 72,
               "known to run()");
_Static_assert(offsetof(struct call, mxcsr_before) == 80 && offsetof(struct call, x87_before) == 88,
               "known to run()");
_Static_assert(offsetof(struct call, saved_before) == 96 && offsetof(struct call, vectors) == 192,
               "known to run()");
_Static_assert(offsetof(struct call, moved_before) == 1216 &&
                   offsetof(struct call, low_before) == 1248,
               "known to run()");

/* The current call, so that run() finds it whatever the kernel did to registers and stack. */
extern struct call *volatile kcheck_current;

void kcheck_run(struct call *call);

/* The register that the kernel changed although this system's convention keeps it; NULL: none. */
const char *kcheck_moved(const struct call *call);

#endif
