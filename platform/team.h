/* The worker team: threads that run one function together and share its work.
 *
 * A pass of the model wakes the workers that it needs; the caller is the first of them. Within a
 * pass workers meet at barriers. A waiting worker spins for some microseconds and then sleeps, so
 * that an idle team uses no processor time. The threads are OpenMP's, in one parallel region that
 * lasts as long as the team; team.c says why. */
#ifndef RF_PLATFORM_TEAM_H
#define RF_PLATFORM_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "platform/plan.h"
#include "platform/split.h"

struct rf_team;

struct rf_worker {
    struct rf_team *team;
    int index, count; /* 0 <= index < count <= the team's size; the caller of the run has index 0 */
};

typedef void (*rf_team_fn)(void *argument, struct rf_worker *worker);

/* A team with a worker for each seat of the plan, including the caller of rf_team_run. Workers are
 * bound to cores where the plan says so. RF_ERR_SYSTEM: the system does not give the threads. The
 * plan is not kept. */
int rf_team_new(struct rf_team **team, const struct rf_plan *plan,
                const struct rf_allocator *allocator, struct rf_error *error);
/* A team of the same size on the same cores. */
int rf_team_like(struct rf_team **team, const struct rf_team *other,
                 const struct rf_allocator *allocator, struct rf_error *error);
/* A team by rf_plan_new(cores, threads). */
int rf_team_of(struct rf_team **team, const char *cores, int threads,
               const struct rf_allocator *allocator, struct rf_error *error);
void rf_team_free(struct rf_team *team);

int rf_team_size(const struct rf_team *team);
/* How many workers, counted from the first, have a core of their own. */
int rf_team_places(const struct rf_team *team);

/* Splits of this team begin with the speeds in `measured`, which must outlive the team. A split of
 * another size is ignored. */
void rf_team_begin_with(struct rf_team *team, const struct rf_split *measured);
int rf_team_split_new(const struct rf_team *team, struct rf_split **split,
                      const struct rf_allocator *allocator, struct rf_error *error);

/* Runs fn once on each of the first `count` workers, with equal shares, and returns when all are
 * done. count 0: all that have a core of their own. One caller at a time. */
void rf_team_run(struct rf_team *team, int count, rf_team_fn fn, void *argument);
/* A pass of n_rows: runs fn on as many workers as the split says, with shares by its speeds, and
 * updates the split. */
void rf_team_run_split(struct rf_team *team, struct rf_split *split, int n_rows, rf_team_fn fn,
                       void *argument);

/* Waits until every worker of the run has arrived. */
void rf_team_barrier(struct rf_worker *worker);

/* Shares the items [0, n) among the workers. Every worker makes the same sequence of rf_share_begin
 * calls, each followed by rf_share_next until it returns 0, and by a barrier before the next share
 * begins. Most items are dealt out in contiguous ranges by the workers' speeds, which suits memory
 * streams. The rest is taken in pieces of one or more `grain` by workers as they get ready, so that
 * a disturbed core does not hold up the others. `cost` of an item, in bytes for example, is what
 * speeds are measured in; 0: this work is not measured. The split never changes the results. */
struct rf_share {
    struct rf_worker *worker;
    size_t n, grain, begin, end, dealt;
    double cost, work;    /* cost of an item; work done by this worker */
    double since, handed; /* times when the share and its last piece began */
};
void rf_share_begin(struct rf_share *share, struct rf_worker *worker, size_t n, size_t grain,
                    double cost);
int rf_share_next(struct rf_share *share, size_t *begin, size_t *end);

/* For tests and bench_split, between runs: worker i takes `factor` >= 1 times as long for every
 * piece of shared work. period > 0: only in alternate halves of so many seconds. 1 ends it. */
void rf_team_slow(struct rf_team *team, int i, double factor, double period);
/* For the same: shares are equal and without a tail, whatever the workers' speeds are. */
void rf_team_deal_equally(struct rf_team *team, int equally);
/* The number of barriers so far. */
uint64_t rf_team_barriers(const struct rf_team *team);

#endif
