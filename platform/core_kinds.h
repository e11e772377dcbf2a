/* The kind of each core (performance, efficient, low-power), from the traits that are known of it.
 * topology.c fills in the traits. */
#ifndef RF_PLATFORM_CORE_KINDS_H
#define RF_PLATFORM_CORE_KINDS_H

#include <stddef.h>

#include "platform/topology.h"

/* The type that the processor itself states. */
enum rf_core_type { RF_TYPE_UNKNOWN, RF_TYPE_CORE, RF_TYPE_ATOM, RF_TYPE_LOW_POWER };

struct rf_core_traits {
    int has_kind; /* one of hwloc's kinds has the core: source of type, rank and frequencies */
    enum rf_core_type type;
    int efficiency;                   /* hwloc's rank of the kind; highest: fastest; -1: unknown */
    int capacity;                     /* Linux's, 1024 for the fastest; 0: unknown */
    int max_mhz, base_mhz;            /* 0: unknown */
    size_t l1_bytes, l2_bytes;        /* sizes of its data caches; 0: unknown */
    int has_l3, n_sharing, n_threads; /* n_sharing: cores with this L2 */
    enum rf_core_kind kind;           /* the result */
};

/* Sets every core's kind; the best kind that occurs is RF_CORE_P.
 *
 * The type decides where it is known. A core without a type gets the kind of those with the same
 * first and second caches, unless it is slower by more than a quarter. So favoured cores of one
 * design stay together, and a compact design (Zen 5c) differs from its faster twin. A core without
 * L3, where others have one, is low-power if it is an Atom or differs from the best core.
 *
 * `note` gets a sentence about what was not known, or "". */
void rf_core_kinds(struct rf_core_traits *cores, int n, char *note, size_t cap);

#endif
