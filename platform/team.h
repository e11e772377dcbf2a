/* The worker team: threads that run one function together, and how they share its work.
 *
 * A team lives as long as its owner; its threads are OpenMP's, in one parallel region that is
 * entered when the team is made. A pass of the model wakes the workers that it needs, the caller
 * being the first of them, and within it workers meet at barriers. Whoever waits spins for some
 * microseconds and then sleeps: an idle team uses no processor time, and more threads than cores do
 * no harm but the switches. */
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
    int index, count; /* 0 <= index < count; count may be less than the team's size. The caller of
                         the run is 0 */
};

typedef void (*rf_team_fn)(void *argument, struct rf_worker *worker);

/* A team with a worker for each seat of the plan, the caller of rf_team_run counted; bound to cores
 * where the plan binds. Fails, instead of later, when the system does not give the threads. The
 * plan is not kept. */
int rf_team_new(struct rf_team **team, const struct rf_plan *plan,
                const struct rf_allocator *allocator, struct rf_error *error);
/* Another one of the same size in the same places. */
int rf_team_like(struct rf_team **team, const struct rf_team *other,
                 const struct rf_allocator *allocator, struct rf_error *error);
/* By the plan for these cores and threads: rf_plan_new. */
int rf_team_of(struct rf_team **team, const char *cores, int threads,
               const struct rf_allocator *allocator, struct rf_error *error);
void rf_team_free(struct rf_team *team);

int rf_team_size(const struct rf_team *team);
/* Workers that have a core of their own; the first ones. */
int rf_team_places(const struct rf_team *team);

/* Splits of this team begin with what `measured` holds, which must outlive the team; nothing, if it
 * is of another size. */
void rf_team_begin_with(struct rf_team *team, const struct rf_split *measured);
int rf_team_split_new(const struct rf_team *team, struct rf_split **split,
                      const struct rf_allocator *allocator, struct rf_error *error);

/* Runs fn once on the first `count` workers and returns when all are done; work is dealt in equal
 * shares. 0: on all that have a core. One caller at a time. */
void rf_team_run(struct rf_team *team, int count, rf_team_fn fn, void *argument);
/* A pass of n_rows: runs fn on as many workers as the split says, dealt by its speeds, and teaches
 * it. */
void rf_team_run_split(struct rf_team *team, struct rf_split *split, int n_rows, rf_team_fn fn,
                       void *argument);

/* Waits until every worker of the run is here. */
void rf_team_barrier(struct rf_worker *worker);

/* Shares the items [0, n) among the workers: every worker makes the same sequence of rf_share_begin
 * calls, each followed by rf_share_next until it returns 0, and by a barrier before the next share
 * begins. Most items are dealt out in contiguous ranges by the workers' speeds, which suits memory
 * streams; the rest is taken in pieces of one or more `grain`, the less the fewer are left, by
 * whoever comes, so that a disturbed core does not hold up the others. `cost` of an item (bytes,
 * say) teaches speeds; 0 where times would not say much. Which worker gets an item never shows in
 * the results. */
struct rf_share {
    struct rf_worker *worker;
    size_t n, grain, begin, end, dealt;
    double cost, work;    /* of an item; done by this worker */
    double since, handed; /* when the share and its last piece began */
};
void rf_share_begin(struct rf_share *share, struct rf_worker *worker, size_t n, size_t grain,
                    double cost);
int rf_share_next(struct rf_share *share, size_t *begin, size_t *end);

/* For tests and bench_split, between runs: from now on worker i takes `factor` times as long for
 * every piece of shared work; with a period, in every second half of so many seconds only. A factor
 * of 1 ends it. */
void rf_team_slow(struct rf_team *team, int i, double factor, double period);
/* For the same: shares are equal and all of them dealt out, whatever is known of the workers'
 * speeds. */
void rf_team_deal_equally(struct rf_team *team, int equally);
/* How often all workers met at a barrier so far. */
uint64_t rf_team_barriers(const struct rf_team *team);

#endif
