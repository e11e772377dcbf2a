/* Which hardware threads work, and how much of each kind of work they are expected to do before
 * anything is measured.
 *
 * A plan is a pure function of the topology and of what was asked for. Workers come in order of
 * preference, so that the first n are the best n: performance cores, then efficient ones, then
 * (only where they are asked for) low-power cores and second threads of cores; of one kind, those
 * of a package after each other, of those that share an L2 cache first one of each cache. */
#ifndef RF_PLATFORM_PLAN_H
#define RF_PLATFORM_PLAN_H

#include "platform/topology.h"

enum { RF_PLAN_MAX_THREADS = 1024 }; /* that can be asked for */

enum rf_left_out {
    RF_NOT_LEFT_OUT,
    RF_LEFT_NOT_ALLOWED, /* by the affinity mask or the container */
    RF_LEFT_SIBLING,     /* its core works with another thread already */
    RF_LEFT_LOW_POWER,   /* outside the ring; only on request */
    RF_LEFT_KIND,        /* --cores p or e names the other kind, or a list does not name it */
    RF_LEFT_QUOTA,       /* the container's quota of processor time is used up by the others */
    RF_LEFT_THREADS      /* fewer threads were asked for */
};

struct rf_seat {
    int cpu; /* index into the topology's cpus, or -1: more threads were asked for than there are
                hardware threads */
    enum rf_core_kind kind;
    float decode, prompt; /* estimated speed for memory-bound and compute-bound work; the fastest
                             seat has 1 */
};

struct rf_plan {
    const struct rf_allocator *allocator;
    struct rf_topology topology;
    struct rf_seat *seats; /* [n_seats], one for each worker, in order of preference */
    int n_seats;
    int n_placed;               /* of these, how many have a hardware thread: the first ones */
    enum rf_left_out *left_out; /* [topology.n_cpus] */
    int binds; /* workers are bound, each to the planned hardware threads of its own kind; 0 on
                * another machine's topology, and where cores are equal and no thread of them is to
                * be kept out: two processes with fewer threads than cores would be bound to the
                * same ones. Always where OpenMP itself binds */
};

/* `cores`: NULL or "auto", "p", "e", "all" (low-power cores too), each with one hardware thread a
 * core; or CPU numbers such as "0-3,8", all of which work. "auto" takes low-power cores only where
 * the process may use no others. `threads`: how many workers there are; where the choice has fewer
 * cores, second threads of these come next (not of a list's), and then workers without a place; 0:
 * one for each core (at most the container's quota) or CPU number that the choice names. Fails with
 * a sentence that names `cores` where it cannot be read, names a CPU that is absent or not allowed,
 * or leaves nothing. */
int rf_plan_new(struct rf_plan *plan, const char *cores, int threads,
                const struct rf_allocator *allocator, struct rf_error *error);
/* The same for a topology that was read before, which the plan then owns; on failure it is freed.
 */
int rf_plan_of(struct rf_plan *plan, struct rf_topology *topology, const char *cores, int threads,
               struct rf_error *error);
void rf_plan_free(struct rf_plan *plan);

const char *rf_core_kind_name(enum rf_core_kind kind); /* "P", "E", "LP" */
/* Why a hardware thread is left out, in a few words; "" for RF_NOT_LEFT_OUT. */
const char *rf_left_out_reason(enum rf_left_out reason);

#endif
