/* Runs kernels whose instructions this processor lacks. A handler for SIGILL takes the instruction
 * that trapped, and those behind it that would, performs them on the registers that the signal
 * frame holds, and lets the program go on: some 2 to 13 us a signal, the same results. Where the
 * frame's AVX state exists (any AVX2 machine) it knows AVX-VNNI, AVX-VNNI-INT8, AVX-NE-CONVERT (VEX
 * forms) and AMX-TILE, -INT8, -BF16, as Intel's Software Developer's Manual, volume 2, defines
 * them. Tiles are the thread's own. AVX-512 is not emulated. */
#ifndef RF_TEST_EMULATE_H
#define RF_TEST_EMULATE_H

#include <stdint.h>

#include "platform/cpu.h"

/* Installs the handler for all threads. -1 if signal frames hold no AVX state here. An instruction
 * that it does not know, or that a processor would refuse too, gets the action that SIGILL had
 * before: the process dies at it. */
int emulate_install(void);
void emulate_uninstall(void);

/* 1 if kernels of the tier run here, their missing instructions emulated. */
int emulate_can_run(enum rf_tier tier);

/* Instructions that this thread had emulated so far. */
uint64_t emulate_count(void);

/* Written before an instruction (ud1 %eax, %eax), this has it emulated where the processor has it,
 * too. */
#define EMULATE_MARK 0x0f, 0xb9, 0xc0

#endif
