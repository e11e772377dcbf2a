/* The hardware threads that work, and their expected speed before anything is measured.
 *
 * A plan is a pure function of the topology and of the request. Workers come in order of
 * preference, so that the first n are the best n: performance cores, then efficient cores, then,
 * only on request, low-power cores and second threads of cores. Within a kind, one package follows
 * another, and one core of each L2 cache comes before second cores. */
#ifndef RF_PLATFORM_PLAN_H
#define RF_PLATFORM_PLAN_H

#include "platform/topology.h"

enum { RF_PLAN_MAX_THREADS = 1024 }; /* the most that can be requested */

enum rf_left_out {
    RF_NOT_LEFT_OUT,
    RF_LEFT_NOT_ALLOWED, /* the affinity mask or the container forbids it */
    RF_LEFT_SIBLING,     /* another thread of its core works */
    RF_LEFT_LOW_POWER,   /* outside the ring; only on request */
    RF_LEFT_KIND,        /* --cores names another kind, or a list without it */
    RF_LEFT_QUOTA,       /* the others use up the container's quota */
    RF_LEFT_THREADS      /* fewer threads were asked for */
};

struct rf_seat {
    int cpu; /* index into topology.cpus; -1: more threads were requested than hardware threads
                exist */
    enum rf_core_kind kind;
    float decode,
        prompt; /* estimated memory-bound and compute-bound speed; the fastest seat has 1 */
};

struct rf_plan {
    const struct rf_allocator *allocator;
    struct rf_topology topology;
    struct rf_seat *seats; /* [n_seats], one for each worker, in order of preference */
    int n_seats;
    int n_placed; /* how many of them, counted from the first, have a hardware thread */
    enum rf_left_out *left_out; /* [topology.n_cpus] */
    int binds; /* each worker is bound to the planned hardware threads of its kind. Always 1 where
                  OpenMP itself binds. 0 for another machine's topology, and where cores are equal
                  and none of their threads is left out: binding would put two processes with few
                  threads on the same cores */
};

/* Makes a plan. `cores`:
 *
 * - NULL or "auto": P and E cores; low-power cores only where the process may use no others
 * - "p", "e", "all": these cores; "all" includes low-power cores
 * - CPU numbers such as "0-3,8": exactly these hardware threads
 *
 * All but a list give one hardware thread per core. `threads`: the number of workers. Where the
 * choice has fewer cores, their second threads come next (except for a list), then workers without
 * a core. 0: one worker for each core, at most the container's quota, or for each CPU number of a
 * list. RF_ERR_ARGUMENT names `cores` where it cannot be parsed, names a CPU that is absent or not
 * allowed, or leaves nothing. */
int rf_plan_new(struct rf_plan *plan, const char *cores, int threads,
                const struct rf_allocator *allocator, struct rf_error *error);
/* The same for a given topology. The plan takes it over; on failure it is freed. */
int rf_plan_of(struct rf_plan *plan, struct rf_topology *topology, const char *cores, int threads,
               struct rf_error *error);
void rf_plan_free(struct rf_plan *plan);

/* Bytes of the data caches L1, L2 and L3 that each working thread has for itself: the least of a
 * cache's bytes over the threads that share it. 0: unknown, or no such cache. */
void rf_plan_cache_shares(const struct rf_plan *plan, size_t shares[3]);

const char *rf_core_kind_name(enum rf_core_kind kind); /* "P", "E", "LP" */
/* The reason in a few words; "" for RF_NOT_LEFT_OUT. */
const char *rf_left_out_reason(enum rf_left_out reason);

#endif
