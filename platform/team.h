/* The worker team: threads that run one function together, and how they share its work.
 *
 * A pass of the model enters the team once; within it, workers meet at barriers. The threads are OpenMP's. */
#ifndef RF_PLATFORM_TEAM_H
#define RF_PLATFORM_TEAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

struct rf_team;

struct rf_worker {
    struct rf_team *team;
    int index, count; /* 0 <= index < count; count is what the system gave, at most the team's size */
    unsigned share;   /* counts the shares this worker has begun */
};

typedef void (*rf_team_fn)(void *argument, struct rf_worker *worker);

/* A team of `n_threads` >= 1, the caller counted. Fails, instead of later, when the system does not give the threads. */
int rf_team_new(struct rf_team **team, int n_threads, const struct rf_allocator *allocator, struct rf_error *error);
void rf_team_free(struct rf_team *team);

/* Runs fn once on every worker and returns when all are done. One caller at a time. */
void rf_team_run(struct rf_team *team, rf_team_fn fn, void *argument);

/* Waits until every worker of the run is here. Spins for some microseconds, then sleeps. */
void rf_team_barrier(struct rf_worker *worker);

/* Shares the items [0, n) among the workers: every worker makes the same sequence of rf_share_begin calls, each followed
 * by rf_share_next until it returns 0, and by a barrier before the next share begins. Three quarters are dealt out
 * in contiguous ranges, which suits memory streams; the rest is taken in pieces of `grain` by whoever comes, so that a
 * disturbed core does not hold up the others. Which worker gets an item never shows in the results. */
struct rf_share {
    struct rf_worker *worker;
    size_t n, grain, begin, end, dealt;
};
void rf_share_begin(struct rf_share *share, struct rf_worker *worker, size_t n, size_t grain);
int rf_share_next(struct rf_share *share, size_t *begin, size_t *end);

#endif
