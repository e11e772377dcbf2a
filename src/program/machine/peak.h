/* The compute ceilings of `riffle roofline`: operations per second of the instructions that kernels
 * mainly consist of. Each loop issues one kind of instruction on enough independent accumulators to
 * cover its latency, with all operands in registers. So it measures the execution units without
 * loads, unpacking or scaling. */
#ifndef RF_MACHINE_PEAK_H
#define RF_MACHINE_PEAK_H

#include <stdint.h>

#include "microkernels/kernels.h"

enum rf_peak {
    RF_PEAK_SSE_F32, /* mulps, addps: every x86-64 has them */
    RF_PEAK_FMA_256, /* vfmadd231ps */
    RF_PEAK_MADDUBS, /* vpmaddubsw, and one vpmaddwd for each four, 256 bits: AVX2's dot product of
                        bytes */
    RF_PEAK_MADD,    /* vpmaddwd and vpaddd, 256 bits: AVX2's dot product of 16-bit integers */
    RF_PEAK_DPBUSD_256, /* vpdpbusd */
    RF_PEAK_DPWSSD_256, /* vpdpwssd */
    RF_PEAK_FMA_512,
    RF_PEAK_DPBF16, /* vdpbf16ps, 512 bits */
    RF_PEAK_DPBUSD_512,
    RF_PEAK_DPWSSD_512,
    RF_PEAK_TDPBF16, /* AMX */
    RF_PEAK_TDPBUSD,
    RF_PEAK_COUNT
};

/* "vpdpbusd_256": for keys of JSON. */
const char *rf_peak_key(enum rf_peak peak);
/* "vpdpbusd, 256 bits": for people. */
const char *rf_peak_name(enum rf_peak peak);

struct rf_peak_loop {
    void (*run)(uint64_t loops); /* loops >= 1, on the calling thread */
    double operations;           /* operations per loop: two for each product and its sum */
};
/* 1, or 0 if this processor lacks the instruction. */
int rf_peak_find(enum rf_peak peak, struct rf_peak_loop *loop);

/* The instruction that limits linear layers with n rows of activations in this form, in a tier (an
 * enum rf_tier). */
enum rf_peak rf_peak_of(enum rf_operand form, int tier, size_t n);
/* The instruction that limits everything else. */
enum rf_peak rf_peak_of_floats(int tier);

#endif
