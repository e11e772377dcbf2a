/* The abilities of this processor: its tier and its caches. */
#ifndef RF_PLATFORM_CPU_H
#define RF_PLATFORM_CPU_H

#include <stddef.h>

/* A tier is a set of instruction sets that occur together in processors. Each has its own kernels.
 */
enum rf_tier {
    RF_TIER_SCALAR,
    RF_TIER_AVX2,        /* AVX2, FMA, F16C */
    RF_TIER_AVXVNNI,     /* + AVX-VNNI, or its EVEX twin: AVX-512 VL and VNNI */
    RF_TIER_AVXVNNIINT8, /* + AVX-VNNI-INT8, AVX-NE-CONVERT */
    RF_TIER_AVX512,      /* F, BW, VL, DQ, VNNI, BF16, VBMI */
    RF_TIER_AMX,         /* + AMX-TILE, AMX-BF16, AMX-INT8 */
    RF_TIER_COUNT
};

const char *rf_tier_name(enum rf_tier tier);
/* The tier of that name, or -1. */
int rf_tier_by_name(const char *name);
/* 1 if the processor and the operating system can run the tier. */
int rf_cpu_has_tier(enum rf_tier tier);
/* 1 if the tier avxvnni runs here only in AVX-512's encoding (EVEX). */
int rf_cpu_needs_evex(void);

/* Bytes of all last-level caches together; 0: unknown. Takes some milliseconds. */
size_t rf_cpu_cache_bytes(void);

#endif
