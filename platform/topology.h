/* The machine's hardware threads, from hwloc (2.4 or newer). Missing data is replaced by
 * assumptions, which `note` states. */
#ifndef RF_PLATFORM_TOPOLOGY_H
#define RF_PLATFORM_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum rf_core_kind {
    RF_CORE_P,  /* performance; the only kind where all cores are equal */
    RF_CORE_E,  /* efficient, on the same last-level cache or ring */
    RF_CORE_LP, /* low-power, outside the ring */
    RF_CORE_KINDS
};

/* One hardware thread. */
struct rf_cpu {
    int cpu;           /* the system's number, as in `lscpu -e` */
    int core, package; /* hwloc's logical numbers; threads of one core share `core` */
    int sibling;       /* 0 for the first usable thread of its core, then 1, ... */
    int l2, l3;        /* number of its cache of that level, or -1 */
    size_t l1_bytes, l2_bytes, l3_bytes; /* sizes of its caches for data; 0: unknown */
    enum rf_core_kind kind;
    int max_mhz;    /* 0: unknown */
    int is_allowed; /* affinity mask and cpuset allow it */
};

struct rf_topology {
    const struct rf_allocator *allocator;
    struct rf_cpu *cpus; /* [n_cpus], by core, then sibling */
    int n_cpus, n_cores, n_packages;
    int n_kinds;        /* kinds that occur; 1: all cores are equal */
    int is_this_system; /* 0: HWLOC_XMLFILE describes another machine, on which nothing can be bound
                           or measured */
    int openmp_binds;   /* OpenMP binds threads itself (OMP_PROC_BIND and similar variables) */
    int quota;          /* whole CPUs that the cgroup's quota allows; 0: no limit */
    uint64_t cache_bytes; /* all last-level caches together; 0: unknown */
    char source[256];     /* the file of another machine's topology; "" for this system */
    char model[96];       /* the processor's name; "" if unknown */
    char note[256]; /* missing data and what was assumed: a sentence without a full stop, or "" */
};

/* Reads this machine, or the one in the file that HWLOC_XMLFILE names; an unreadable file is an
 * error. Where hwloc finds nothing (a container without /sys), only the affinity mask is used.
 * Takes some milliseconds. On failure nothing needs to be freed. */
int rf_topology_read(struct rf_topology *topology, const struct rf_allocator *allocator,
                     struct rf_error *error);
void rf_topology_free(struct rf_topology *topology);

/* Stops hwloc's messages on standard error. For programs, before they start threads: it changes the
 * environment. */
void rf_topology_silence(void);

#endif
