/* Which kind a core is of, from whatever is known of it. */
#ifndef RF_PLATFORM_CORE_KINDS_H
#define RF_PLATFORM_CORE_KINDS_H

#include <stddef.h>

#include "platform/topology.h"

/* As the processor itself calls it. */
enum rf_core_type { RF_TYPE_UNKNOWN, RF_TYPE_CORE, RF_TYPE_ATOM, RF_TYPE_LOW_POWER };

struct rf_core_traits {
    int has_kind; /* it belongs to one of hwloc's kinds; type, ranks and frequencies are that kind's
                   */
    enum rf_core_type type;
    int efficiency;        /* hwloc's rank of the kind, the highest is the fastest; -1: unknown */
    int capacity;          /* Linux's, 1024 for the fastest; 0: unknown */
    int max_mhz, base_mhz; /* 0: unknown */
    size_t l1_bytes, l2_bytes;        /* of the caches for data that it uses; 0: unknown */
    int has_l3, n_sharing, n_threads; /* n_sharing: cores that use its L2 */
    enum rf_core_kind kind;           /* the result */
};

/* Sets every core's kind; the best that occurs is RF_CORE_P.
 *
 * The type decides where it is known. A core without one is of the kind of those with the same
 * first and second caches, unless it is slower by more than a quarter: so favoured cores of one
 * design stay together, and a compact design (Zen 5c) is told from its faster twin. An Atom, or a
 * core unlike the best one, that has no L3 where others do is outside their ring.
 *
 * `note` gets a sentence about what was not known, or "". */
void rf_core_kinds(struct rf_core_traits *cores, int n, char *note, size_t cap);

#endif
