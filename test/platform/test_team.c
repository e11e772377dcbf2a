/* The worker team: every item is shared out once, barriers hold, whatever the number of threads and cores. */
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "platform/memory.h"
#include "platform/team.h"

enum { ITEMS = 1000, ROUNDS = 200 };

struct round {
    _Atomic int taken[ITEMS]; /* how often each item came up in this round */
    size_t n, grain;
};

struct job {
    struct round rounds[ROUNDS];
    _Atomic int arrived[ROUNDS];
    _Atomic int early; /* workers that left a barrier before all had come */
    int members;
};

static void share_rounds(void *argument, struct rf_worker *worker)
{
    struct job *job = argument;
    if (worker->index == 0) job->members = worker->count;
    rf_team_barrier(worker);
    for (int r = 0; r < ROUNDS; r++) {
        struct rf_share share;
        size_t begin, end;
        rf_share_begin(&share, worker, job->rounds[r].n, job->rounds[r].grain, 0.0);
        while (rf_share_next(&share, &begin, &end))
            for (size_t i = begin; i < end; i++) atomic_fetch_add(&job->rounds[r].taken[i], 1);
        atomic_fetch_add(&job->arrived[r], 1);
        rf_team_barrier(worker);
        if (atomic_load(&job->arrived[r]) != worker->count) atomic_fetch_add(&job->early, 1);
    }
}

static void check_team(int threads)
{
    struct rf_error error = {0};
    struct rf_team *team;
    struct job *job = calloc(1, sizeof *job);
    CHECK(rf_team_of(&team, threads, &rf_system_allocator, &error) == 0);
    for (int r = 0; r < ROUNDS; r++) {
        job->rounds[r].n = (size_t)(r * 37 % (ITEMS + 1));
        job->rounds[r].grain = (size_t)(r % 9 + 1);
    }
    rf_team_run(team, threads, share_rounds, job);
    CHECK(job->members >= 1 && job->members <= threads);
    CHECK_INT(job->early, 0);
    for (int r = 0; r < ROUNDS; r++) {
        int wrong = 0;
        for (size_t i = 0; i < ITEMS; i++) wrong += job->rounds[r].taken[i] != (i < job->rounds[r].n);
        CHECK_MSG(wrong == 0, "%d threads, n=%zu, grain=%zu: %d items were not taken exactly once", threads,
                  job->rounds[r].n, job->rounds[r].grain, wrong);
    }
    rf_team_free(team);
    free(job);
}

int main(void)
{
    const int sizes[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_team(sizes[i]);
    return check_result();
}
