/* Finds the abilities of the processor: its tier (CPUID, and XCR0 for the state that the system
 * saves), whether AVX-VNNI needs EVEX, and the size of its last caches. A tier is reported only if
 * processor and system both have it. */
#include "platform/cpu.h"

#include <cpuid.h>
#include <stdint.h>
#include <string.h>

#include "platform/memory.h"
#include "platform/process.h"
#include "platform/topology.h"

static const char *const tier_names[] = {"scalar",      "avx2",   "avxvnni",
                                         "avxvnniint8", "avx512", "amx"};
_Static_assert(sizeof tier_names / sizeof *tier_names == RF_TIER_COUNT, "a name for each tier");

const char *rf_tier_name(enum rf_tier tier)
{
    return tier_names[tier];
}

int rf_tier_by_name(const char *name)
{
    for (int i = 0; i < RF_TIER_COUNT; i++)
        if (strcmp(tier_names[i], name) == 0) return i;
    return -1;
}

static uint64_t xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* 1 if every bit of `mask` is set in `value`. */
static int all(uint64_t value, uint64_t mask)
{
    return (value & mask) == mask;
}

#define BIT(n) (1u << (n))

int rf_cpu_has_tier(enum rf_tier tier)
{
    if (tier == RF_TIER_SCALAR) return 1;

    unsigned a, b, c, d, b7, c7, d7, a71 = 0, d71 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    if (!all(c, BIT(12) | BIT(27) | BIT(28) | BIT(29))) return 0; /* FMA, OSXSAVE, AVX, F16C */
    uint64_t saved = xcr0();
    if (!all(saved, 0x6)) return 0; /* the system saves XMM and YMM */
    unsigned leaves;
    if (!__get_cpuid_count(7, 0, &leaves, &b7, &c7, &d7)) return 0;
    if (leaves >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d71);
    if (!(b7 & BIT(5))) return 0; /* AVX2 */
    if (tier == RF_TIER_AVX2) return 1;

    if (tier == RF_TIER_AVXVNNI && all(a71, BIT(4))) return 1;
    if (tier == RF_TIER_AVXVNNIINT8) return all(a71, BIT(4)) && all(d71, BIT(4) | BIT(5));

    if (!all(saved, 0xe6)) return 0; /* opmask and ZMM state */
    if (!all(b7, BIT(16) | BIT(17) | BIT(30) | (uint64_t)BIT(31))) return 0; /* F, DQ, BW, VL */
    if (!all(c7, BIT(1) | BIT(11))) return 0;                                /* VBMI, VNNI */
    if (!all(a71, BIT(5))) return 0;                                         /* BF16 */
    if (tier == RF_TIER_AVX512 || tier == RF_TIER_AVXVNNI) return 1;

    if (!all(saved, 0x60000) || !all(d7, BIT(22) | BIT(24) | BIT(25)))
        return 0; /* tile state; BF16, TILE, INT8 */
    return rf_process_ask_tiles();
}

int rf_cpu_needs_evex(void)
{
    unsigned leaves, a71, b, c, d;
    if (!rf_cpu_has_tier(RF_TIER_AVX512) || !__get_cpuid_count(7, 0, &leaves, &b, &c, &d)) return 0;
    return leaves < 1 || !__get_cpuid_count(7, 1, &a71, &b, &c, &d) || !(a71 & BIT(4));
}

size_t rf_cpu_cache_bytes(void)
{
    struct rf_topology topology;
    struct rf_error error;
    if (rf_topology_read(&topology, &rf_system_allocator, &error)) return 0;
    uint64_t bytes = topology.cache_bytes;
    rf_topology_free(&topology);
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}
