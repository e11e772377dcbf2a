#define _GNU_SOURCE
#include "platform/team.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/cpu.h"

/* A share's counter is used while two neighbours in the sequence may still be in use by slower or faster workers. */
enum { N_COUNTERS = 4 };

struct rf_team {
    const struct rf_allocator *allocator;
    int size;
    int spins; /* looks at the barrier before sleeping */
    struct {
        _Alignas(64) _Atomic uint32_t arrived;
        _Alignas(64) _Atomic uint32_t generation;
        _Atomic uint32_t sleepers;
    } barrier;
    struct {
        _Alignas(64) _Atomic size_t next;
    } counters[N_COUNTERS];
};

static void *wait_for_release(void *argument)
{
    pthread_mutex_t *gate = argument;
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* OpenMP's runtime ends the process when it cannot create a thread, so find out whether it can. */
static int probe_threads(int n, const struct rf_allocator *allocator, struct rf_error *error)
{
    pthread_t *threads = rf_malloc(allocator, (size_t)n, sizeof *threads, "worker threads", error);
    if (!threads) return RF_ERR_MEMORY;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    int started = 0;
    while (started < n && pthread_create(&threads[started], NULL, wait_for_release, &gate) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    rf_free(allocator, threads);
    if (started < n)
        return rf_fail(error, RF_ERR_SYSTEM, "threads: the system started %d of %d worker threads", started + 1, n + 1);
    return 0;
}

int rf_team_new(struct rf_team **team, int n_threads, const struct rf_allocator *allocator, struct rf_error *error)
{
    *team = NULL;
    if (n_threads > 1) {
        int code = probe_threads(n_threads - 1, allocator, error);
        if (code) return code;
    }
    struct rf_team *made = rf_calloc(allocator, 1, sizeof *made, "worker team", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->size = n_threads;
    /* With a core for every worker the last one is soon here; with fewer, spinning keeps it away. */
    made->spins = n_threads <= rf_cpu_count() ? 2000 : 0;
    *team = made;
    return 0;
}

void rf_team_free(struct rf_team *team)
{
    if (team) rf_free(team->allocator, team);
}

void rf_team_run(struct rf_team *team, rf_team_fn fn, void *argument)
{
    for (int i = 0; i < N_COUNTERS; i++) atomic_store_explicit(&team->counters[i].next, 0, memory_order_relaxed);
#pragma omp parallel num_threads(team->size)
    {
        struct rf_worker worker = {team, omp_get_thread_num(), omp_get_num_threads(), 0};
        fn(argument, &worker);
    }
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

void rf_team_barrier(struct rf_worker *worker)
{
    if (worker->count == 1) return;
    struct rf_team *team = worker->team;
    uint32_t generation = atomic_load_explicit(&team->barrier.generation, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->barrier.arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)worker->count) {
        atomic_store_explicit(&team->barrier.arrived, 0, memory_order_relaxed);
        atomic_fetch_add(&team->barrier.generation, 1);
        if (atomic_load(&team->barrier.sleepers)) futex(&team->barrier.generation, FUTEX_WAKE_PRIVATE, INT32_MAX);
        return;
    }
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->barrier.generation, memory_order_acquire) != generation) return;
        __builtin_ia32_pause();
    }
    atomic_fetch_add(&team->barrier.sleepers, 1);
    while (atomic_load(&team->barrier.generation) == generation)
        futex(&team->barrier.generation, FUTEX_WAIT_PRIVATE, generation);
    atomic_fetch_sub(&team->barrier.sleepers, 1);
}

void rf_share_begin(struct rf_share *share, struct rf_worker *worker, size_t n, size_t grain)
{
    struct rf_team *team = worker->team;
    unsigned sequence = worker->share++;
    /* The share before the last one is over for everybody: its counter serves the one after the next. */
    if (worker->index == 0)
        atomic_store_explicit(&team->counters[(sequence + 2) % N_COUNTERS].next, 0, memory_order_relaxed);

    size_t grains = (n + grain - 1) / grain;
    size_t each = grains * 15 / 16 / (size_t)worker->count;
    share->worker = worker;
    share->n = n;
    share->grain = grain;
    share->dealt = each * (size_t)worker->count * grain;
    share->begin = each * grain * (size_t)worker->index;
    share->end = share->begin + each * grain;
    if (worker->count == 1) {
        share->dealt = n;
        share->end = n;
    }
}

int rf_share_next(struct rf_share *share, size_t *begin, size_t *end)
{
    if (share->begin < share->end) {
        *begin = share->begin;
        *end = share->end;
        share->begin = share->end;
        return 1;
    }
    if (share->dealt >= share->n) return 0;
    unsigned sequence = share->worker->share - 1;
    size_t taken = atomic_fetch_add_explicit(&share->worker->team->counters[sequence % N_COUNTERS].next, share->grain,
                                             memory_order_relaxed);
    if (taken >= share->n - share->dealt) return 0;
    *begin = share->dealt + taken;
    *end = *begin + share->grain < share->n ? *begin + share->grain : share->n;
    return 1;
}
