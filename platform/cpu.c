#define _GNU_SOURCE
#include "platform/cpu.h"

#include <cpuid.h>
#include <hwloc.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const tier_names[RF_TIER_COUNT] = {"scalar", "avx2", "avxvnni", "avxvnniint8", "avx512", "amx"};

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

enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */

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

    if (!all(saved, 0xe6)) return 0;                                         /* opmask and ZMM state */
    if (!all(b7, BIT(16) | BIT(17) | BIT(30) | (uint64_t)BIT(31))) return 0; /* F, DQ, BW, VL */
    if (!all(c7, BIT(1) | BIT(11))) return 0;                                /* VBMI, VNNI */
    if (!all(a71, BIT(5))) return 0;                                         /* BF16 */
    if (tier == RF_TIER_AVX512 || tier == RF_TIER_AVXVNNI) return 1;

    if (!all(saved, 0x60000) || !all(d7, BIT(22) | BIT(24) | BIT(25))) return 0; /* tile state; BF16, TILE, INT8 */
    /* Linux lets a process use the tiles' large state only on request, which holds for all of its threads. */
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

int rf_cpu_needs_evex(void)
{
    unsigned leaves, a71, b, c, d;
    if (!rf_cpu_has_tier(RF_TIER_AVX512) || !__get_cpuid_count(7, 0, &leaves, &b, &c, &d)) return 0;
    return leaves < 1 || !__get_cpuid_count(7, 1, &a71, &b, &c, &d) || !(a71 & BIT(4));
}

/* Whole CPUs that a cgroup's quota allows, or 0 without one. */
static int quota(void)
{
    char quota_text[32];
    long long period = 0, allowed = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file) return 0;
    int fields = fscanf(file, "%31s %lld", quota_text, &period);
    fclose(file);
    if (fields != 2 || period <= 0 || sscanf(quota_text, "%lld", &allowed) != 1 || allowed <= 0) return 0;
    return (int)((allowed + period - 1) / period);
}

/* Without it, as in some containers, hwloc finds nothing and says so on standard error. */
static int has_sysfs(void)
{
    return access("/sys/devices/system/cpu", R_OK) == 0;
}

/* Cores of which at least one hardware thread is in our affinity mask; 0 if hwloc cannot tell. */
static int allowed_cores(void)
{
    hwloc_topology_t topology;
    if (!has_sysfs() || hwloc_topology_init(&topology) != 0) return 0;
    int cores = 0;
    /* Only cores and their threads: caches and devices cost milliseconds and are not wanted here. */
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (mask && hwloc_topology_load(topology) == 0 && hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_PROCESS) == 0) {
        hwloc_obj_t core = NULL;
        while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)))
            cores += hwloc_bitmap_intersects(core->cpuset, mask);
    }
    hwloc_bitmap_free(mask);
    hwloc_topology_destroy(topology);
    return cores;
}

int rf_cpu_count(void)
{
    int count = allowed_cores();
    cpu_set_t set;
    if (count < 1 && sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
    if (count < 1) count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int limit = quota();
    if (limit && limit < count) count = limit;
    return count < 1 ? 1 : count;
}

size_t rf_cpu_cache_bytes(void)
{
    hwloc_topology_t topology;
    if (!has_sysfs() || hwloc_topology_init(&topology) != 0) return 0;
    size_t bytes = 0;
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) == 0) {
        hwloc_obj_type_t last = HWLOC_OBJ_L3CACHE;
        if (hwloc_get_nbobjs_by_type(topology, last) <= 0) last = HWLOC_OBJ_L2CACHE;
        hwloc_obj_t cache = NULL;
        while ((cache = hwloc_get_next_obj_by_type(topology, last, cache))) bytes += cache->attr->cache.size;
    }
    hwloc_topology_destroy(topology);
    return bytes;
}
