/* Only the threads come from OpenMP: one parallel region per team, which lasts as long as the team.
 * Its runs, barriers and shares of work are made here, because OpenMP's own lack what they need:
 *   - A smaller OpenMP region ends the threads that it does not need. Here a run wakes as many
 *     workers as pay, and the others sleep on.
 *   - An OpenMP barrier does not say who came last and by how much. The split learns from that.
 *   - OpenMP's static schedule gives equal shares, and its dynamic one knows no speeds.
 *   - OMP_WAIT_POLICY lets waiting threads spin or sleep in the whole process. Here a waiting
 *     worker spins for some microseconds and then sleeps.
 *
 * OpenMP still starts and ends the threads, so that its limits, its binding and the tools that
 * follow it (ThreadSanitizer's libarcher) hold for them. */
#include "platform/team.h"

#include <assert.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/threads.h"

/* Chosen by hand; docs/lab/2026-11-21-cores.md has results. */
static const double REDEAL = 0.5e-3; /* seconds of work between corrections of the shares */
/* The part of each matrix that is not dealt out, but taken by workers as they get ready. A prompt's
 * passes are long enough for the shares to be wrong by their end. */
static const double TAIL = 1.0 / 16, PROMPT_TAIL = 0.5;
enum {
    GROUP = 4,    /* workers that meet at one counter */
    SPINS = 2000, /* reads of a word before sleeping: 50 to 100 microseconds */
};

/* Written by one worker while it works; read by the last worker to arrive at a barrier. */
struct slot {
    _Alignas(64) double work, busy; /* sums since the last correction of the shares */
    double waited; /* seconds in that time that all others waited for this worker */
    double ended;  /* time when it finished the measured share before a barrier; 0: no such share */
    int position;  /* index in the current run */
    double factor, period; /* rf_team_slow */
    enum rf_core_kind kind;
};

/* Many workers meet in groups first, so that no word is written by all of them in turn. */
struct meeting {
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic double ended; /* slot.ended of the worker that arrived last; 0: not known */
    /* Used where all workers meet, and reset by the last to arrive: */
    _Atomic size_t taken;        /* grains taken of the current share's tail */
    _Atomic uint32_t generation; /* meetings of two workers */
};

/* The place where one worker waits between runs. */
struct gate {
    _Alignas(64) _Atomic uint32_t calls; /* number of calls to work or to leave */
    _Atomic uint32_t asleep;
};

struct rf_team {
    const struct rf_allocator *allocator;
    int size, places;
    struct slot *slots; /* [size] */
    struct gate *gates; /* [size] */
    int *members;       /* [size] the worker at each index of the current run */
    float *shares;      /* [size] its share of the work: rf_split_shares */
    int equally, slowed;
    const struct rf_split *measured;

    pthread_t host; /* enters the parallel region, and is worker 1 */
    int has_host;
    _Atomic uint32_t threads; /* threads of the region; 0: not known yet */
    _Atomic int leave;

    int binds;
    struct rf_cpu_set masks[RF_CORE_KINDS], callers;

    /* The current run. */
    rf_team_fn fn;
    void *argument;
    int count, spins;
    struct rf_split_kind *kind; /* NULL: equal shares */
    double tail;                /* TAIL or PROMPT_TAIL */
    float largest;              /* the largest of `shares` */

    struct {
        struct meeting all, *groups; /* groups: [size / GROUP, rounded up] */
        _Alignas(64) _Atomic uint32_t generation;
        _Atomic uint32_t sleepers;
    } barrier;
};

/* Waits until the word is no longer `old`. */
static void wait_for_change(_Atomic uint32_t *word, uint32_t old, _Atomic uint32_t *sleepers,
                            int spins)
{
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old) return;
        __builtin_ia32_pause();
    }
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == old) rf_word_wait(word, old);
    atomic_fetch_sub(sleepers, 1);
}

static void change_word(_Atomic uint32_t *word, _Atomic uint32_t *sleepers)
{
    atomic_fetch_add(word, 1);
    if (atomic_load(sleepers)) rf_word_wake(word);
}

/* The loop of each worker except the caller. */
static void serve(struct rf_team *team, int index)
{
    char name[16];
    snprintf(name, sizeof name, "riffle/%hu", (unsigned short)index);
    rf_thread_set_name(name);
    if (team->binds) rf_thread_set_cpus(&team->masks[team->slots[index].kind]);
    struct gate *gate = &team->gates[index];
    int spins = 0;
    for (uint32_t calls = 0;; calls++) {
        wait_for_change(&gate->calls, calls, &gate->asleep, spins);
        if (atomic_load(&team->leave)) return;
        struct rf_worker worker = {team, team->slots[index].position, team->count};
        spins = team->spins; /* read before the barrier: then the next run may change it */
        team->fn(team->argument, &worker);
        rf_team_barrier(&worker);
    }
}

/* The thread that enters the region. It is not the caller's, because OpenMP keeps a pool of threads
 * for each thread that enters regions: other regions of the caller, and callers that come and go,
 * would end and start our workers. */
static void *host(void *argument)
{
    struct rf_team *team = argument;
#pragma omp parallel num_threads(team->size - 1)
    {
        if (omp_get_thread_num() == 0) {
            atomic_store(&team->threads, (uint32_t)omp_get_num_threads());
            rf_word_wake(&team->threads);
        }
        serve(team, omp_get_thread_num() + 1);
    }
    return NULL;
}

static void *wait_for_release(void *argument)
{
    pthread_mutex_t *gate = argument;
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Fails when the system does not give n threads. OpenMP's runtime would end the process. */
static int probe_threads(int n, const struct rf_allocator *allocator, struct rf_error *error)
{
    pthread_t *threads = rf_malloc(allocator, (size_t)n, sizeof *threads, "worker threads", error);
    if (!threads) return RF_ERR_MEMORY;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    int started = 0;
    while (started < n && pthread_create(&threads[started], NULL, wait_for_release, &gate) == 0)
        started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    rf_free(allocator, threads);
    if (started < n)
        return rf_fail(error, RF_ERR_SYSTEM, "threads: the system started %d of %d worker threads",
                       started + 1, n + 1);
    return 0;
}

static int start_members(struct rf_team *team, struct rf_error *error)
{
    int code = probe_threads(team->size - 1, team->allocator, error);
    if (code) return code;
    if (rf_thread_start(&team->host, host, team) != 0)
        return rf_fail(error, RF_ERR_SYSTEM, "threads: the system started 1 of %d worker threads",
                       team->size);
    team->has_host = 1;
    while (atomic_load(&team->threads) == 0) rf_word_wait(&team->threads, 0);
    /* OMP_THREAD_LIMIT and OMP_DYNAMIC can make them fewer than asked for. */
    team->size = 1 + (int)atomic_load(&team->threads);
    if (team->places > team->size) team->places = team->size;
    rf_team_begin_with(team, team->measured);
    return 0;
}

/* Hardware threads that the caller, and workers that are not bound, may run on. */
static int usable_cpus(void)
{
    struct rf_cpu_set set;
    return rf_thread_get_cpus(&set) == 0 ? rf_cpu_set_count(&set) : INT_MAX;
}

static void seat(struct rf_team *team, const struct rf_plan *plan)
{
    team->binds = plan->binds;
    for (int i = 0; i < team->size; i++) {
        const struct rf_seat *seat = &plan->seats[i];
        team->slots[i].kind = seat->kind;
        /* A worker without a core of its own shares the cores of its kind. */
        if (seat->cpu >= 0)
            rf_cpu_set_add(&team->masks[seat->kind], plan->topology.cpus[seat->cpu].cpu);
    }
    int usable = usable_cpus();
    team->places = team->binds || plan->n_placed < usable ? plan->n_placed : usable;
}

static void seat_like(struct rf_team *team, const struct rf_team *other)
{
    team->binds = other->binds;
    team->places = other->places;
    team->measured = other->measured;
    memcpy(team->masks, other->masks, sizeof team->masks);
    for (int i = 0; i < team->size; i++) team->slots[i].kind = other->slots[i].kind;
}

/* One of `plan` and `other` is NULL. */
static int team_new(struct rf_team **team, int size, const struct rf_plan *plan,
                    const struct rf_team *other, const struct rf_allocator *allocator,
                    struct rf_error *error)
{
    assert(size >= 1 && !plan != !other);
    *team = NULL;
    struct rf_team *made = rf_calloc(allocator, 1, sizeof *made, "worker team", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->size = size;
    made->slots = rf_calloc(allocator, (size_t)size, sizeof *made->slots, "worker team", error);
    made->gates = rf_calloc(allocator, (size_t)size, sizeof *made->gates, "worker team", error);
    made->members = rf_calloc(allocator, (size_t)size, sizeof *made->members, "worker team", error);
    made->shares = rf_calloc(allocator, (size_t)size, sizeof *made->shares, "worker team", error);
    made->barrier.groups = rf_calloc(allocator, (size_t)size / GROUP + 1,
                                     sizeof *made->barrier.groups, "worker team", error);
    int code = made->slots && made->gates && made->members && made->shares && made->barrier.groups
                   ? 0
                   : RF_ERR_MEMORY;
    for (int i = 0; !code && i < size; i++) made->slots[i].factor = 1.0;
    if (!code && plan) seat(made, plan);
    if (!code && other) seat_like(made, other);
    if (!code && size > 1) code = start_members(made, error);
    if (code) {
        rf_team_free(made);
        return code;
    }
    *team = made;
    return 0;
}

int rf_team_new(struct rf_team **team, const struct rf_plan *plan,
                const struct rf_allocator *allocator, struct rf_error *error)
{
    return team_new(team, plan->n_seats, plan, NULL, allocator, error);
}

int rf_team_like(struct rf_team **team, const struct rf_team *other,
                 const struct rf_allocator *allocator, struct rf_error *error)
{
    return team_new(team, other->size, NULL, other, allocator, error);
}

int rf_team_of(struct rf_team **team, const char *cores, int threads,
               const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_plan plan;
    *team = NULL;
    int code = rf_plan_new(&plan, cores, threads, allocator, error);
    if (code) return code;
    code = rf_team_new(team, &plan, allocator, error);
    rf_plan_free(&plan);
    return code;
}

static void call_member(struct rf_team *team, int index)
{
    change_word(&team->gates[index].calls, &team->gates[index].asleep);
}

void rf_team_free(struct rf_team *team)
{
    if (!team) return;
    if (team->has_host) {
        atomic_store(&team->leave, 1);
        for (int i = 1; i < team->size; i++) call_member(team, i);
        pthread_join(team->host, NULL);
    }
    rf_free(team->allocator, team->slots);
    rf_free(team->allocator, team->gates);
    rf_free(team->allocator, team->members);
    rf_free(team->allocator, team->shares);
    rf_free(team->allocator, team->barrier.groups);
    rf_free(team->allocator, team);
}

int rf_team_size(const struct rf_team *team)
{
    return team->size;
}

int rf_team_places(const struct rf_team *team)
{
    return team->places;
}

void rf_team_begin_with(struct rf_team *team, const struct rf_split *measured)
{
    team->measured = measured && measured->n_workers == team->size ? measured : NULL;
}

int rf_team_split_new(const struct rf_team *team, struct rf_split **split,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    return rf_split_new(split, team->size, team->places, team->measured, allocator, error);
}

/* Shares for the coming work, from what the workers did since the last correction, `seconds` ago.
 */
static void deal(struct rf_team *team, double seconds)
{
    struct rf_split_kind *kind = team->equally ? NULL : team->kind;
    for (int i = 0; i < team->count; i++) {
        int member = team->members[i];
        struct slot *slot = &team->slots[member];
        if (kind && seconds > 0.0) {
            rf_split_learn(kind, member, slot->work, slot->busy, seconds);
            rf_split_waited(kind, member, slot->waited, seconds);
        }
        slot->work = slot->busy = slot->waited = 0.0;
        team->shares[i] = 1.0f / (float)team->count;
    }
    if (kind) rf_split_shares(kind, team->members, team->count, team->shares);
    team->largest = 0.0f;
    for (int i = 0; i < team->count; i++)
        if (team->largest < team->shares[i]) team->largest = team->shares[i];
}

/* Runs fn on members[0 .. count). */
static void run_members(struct rf_team *team, int count, rf_team_fn fn, void *argument)
{
    assert(count >= 1 && count <= team->size && team->members[0] == 0);
    struct rf_worker worker = {team, 0, count};
    team->fn = fn;
    team->argument = argument;
    team->count = count;
    team->spins = count <= team->places ? SPINS : 0;
    deal(team, 0.0);
    for (int i = 1; i < count; i++) {
        team->slots[team->members[i]].position = i;
        call_member(team, team->members[i]);
    }
    if (team->binds) {
        /* The caller's thread gets its own mask back. */
        int known = rf_thread_get_cpus(&team->callers) == 0;
        if (known) rf_thread_set_cpus(&team->masks[team->slots[0].kind]);
        fn(argument, &worker);
        if (known) rf_thread_set_cpus(&team->callers);
    } else {
        fn(argument, &worker);
    }
    rf_team_barrier(&worker);
}

static int first_members(struct rf_team *team, int count)
{
    for (int i = 0; i < count; i++) team->members[i] = i;
    return count;
}

void rf_team_run(struct rf_team *team, int count, rf_team_fn fn, void *argument)
{
    team->kind = NULL;
    team->tail = TAIL;
    if (count == 0) count = team->places;
    run_members(team, first_members(team, count < team->size ? count : team->size), fn, argument);
}

void rf_team_run_split(struct rf_team *team, struct rf_split *split, int n_rows, rf_team_fn fn,
                       void *argument)
{
    assert(split->n_workers == team->size);
    double begin = rf_clock_seconds();
    int workers = rf_split_workers(split, n_rows, begin);
    int count = team->equally ? first_members(team, team->places)
                              : rf_split_members(split, n_rows, workers, begin, team->members);
    team->kind = &split->kinds[rf_work_of(n_rows)];
    team->tail = n_rows > RF_FEW_ROWS ? PROMPT_TAIL : TAIL;
    run_members(team, count, fn, argument);
    /* Work since the last correction; 0 where no work is measured. */
    if (team->slots[0].busy > 0.0) deal(team, team->slots[0].busy);
    double end = rf_clock_seconds();
    if (!team->equally) rf_split_took(split, n_rows, workers, end, end - begin);
}

/* Returns 1 to the last of `count` workers to arrive. *before is raised to the slot.ended of the
 * worker that arrived before this one. */
static int arrive(struct meeting *meeting, uint32_t count, double ended, double *before)
{
    double last = atomic_load_explicit(&meeting->ended, memory_order_relaxed);
    if (*before < last) *before = last;
    atomic_store_explicit(&meeting->ended, ended, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&meeting->arrived, 1, memory_order_acq_rel) + 1 < count) return 0;
    atomic_store_explicit(&meeting->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&meeting->ended, 0.0, memory_order_relaxed);
    return 1;
}

/* Returns 1 to the last worker of the run to arrive. */
static int arrive_as(struct rf_team *team, const struct rf_worker *worker, struct slot *slot)
{
    uint32_t count = (uint32_t)worker->count, group = (uint32_t)worker->index / GROUP;
    double before = 0.0, ended = slot->ended;
    slot->ended = 0.0;
    if (count > GROUP) {
        uint32_t members = count - group * GROUP < GROUP ? count - group * GROUP : GROUP;
        if (!arrive(&team->barrier.groups[group], members, ended, &before)) return 0;
        count = (count + GROUP - 1) / GROUP;
    }
    if (!arrive(&team->barrier.all, count, ended, &before)) return 0;
    if (before > 0.0 && ended > before) slot->waited += ended - before;
    return 1;
}

void rf_team_barrier(struct rf_worker *worker)
{
    struct rf_team *team = worker->team;
    if (worker->count == 1) return;
    int spins = team->spins; /* read before all have arrived: then the next run may change it */
    struct slot *slot = &team->slots[team->members[worker->index]];
    /* The word that waiting workers read. Two workers use the cache line that the other one writes
     * on arrival, so that one line travels between them. More workers use another line, since each
     * arrival would take the line from all that wait. */
    _Atomic uint32_t *word = &team->barrier.generation;
    if (worker->count == 2) {
        word = &team->barrier.all.generation;
        __builtin_prefetch(word, 1);
    }
    uint32_t generation = atomic_load_explicit(word, memory_order_acquire);
    if (arrive_as(team, worker, slot)) {
        /* All others wait, so this worker may change the team. */
        atomic_store_explicit(&team->barrier.all.taken, 0, memory_order_relaxed);
        if (slot->busy > REDEAL) deal(team, slot->busy);
        change_word(word, &team->barrier.sleepers);
        return;
    }
    wait_for_change(word, generation, &team->barrier.sleepers, spins);
}

/* Grains of `dealt` that the first `count` workers get. Each share is rounded down, since one grain
 * too many for a slow worker would hold up all. */
static size_t dealt_to(const struct rf_team *team, size_t dealt, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += (size_t)((double)dealt * (double)team->shares[i]);
    return sum;
}

void rf_share_begin(struct rf_share *share, struct rf_worker *worker, size_t n, size_t grain,
                    double cost)
{
    assert(grain > 0);
    const struct rf_team *team = worker->team;
    size_t grains = (n + grain - 1) / grain, i = (size_t)worker->index,
           count = (size_t)worker->count, first, end;
    *share = (struct rf_share){.worker = worker, .n = n, .grain = grain, .cost = cost};
    if (team->equally || count == 1) {
        first = grains * i / count;
        end = grains * (i + 1) / count;
        share->dealt = n;
    } else {
        size_t dealt = grains - (size_t)((double)grains * team->tail + 0.999);
        first = dealt_to(team, dealt, worker->index);
        end = first + (size_t)((double)dealt * (double)team->shares[i]);
        share->dealt = dealt_to(team, dealt, worker->count) * grain;
    }
    share->begin = first * grain;
    share->end = end * grain < n ? end * grain : n;
    if (cost > 0.0 || team->slowed) share->since = share->handed = rf_clock_seconds();
}

/* Waits until the last piece has taken as long as rf_team_slow demands. */
static void drag(struct rf_share *share, const struct slot *slot)
{
    double now = rf_clock_seconds(), until = now + (now - share->handed) * (slot->factor - 1.0);
    if (slot->period > 0.0 && (long long)(now / slot->period * 2.0) % 2 == 0) until = now;
    while ((share->handed = rf_clock_seconds()) < until) __builtin_ia32_pause();
}

/* Takes some grains of the tail: fewer when fewer are left and when the worker is slow. It takes
 * none when the fastest worker could do all that is left before this one had done a grain. */
static size_t take_from_tail(struct rf_team *team, const struct rf_worker *worker, size_t tail,
                             size_t *first)
{
    float share = team->shares[worker->index];
    size_t taken = atomic_load_explicit(&team->barrier.all.taken, memory_order_relaxed), some;
    do {
        if (taken >= tail) return 0;
        if (team->largest > (float)(tail - taken + 1) * share) return 0;
        some = (size_t)((float)(tail - taken) * share / 2.0f);
        if (some == 0) some = 1;
    } while (!atomic_compare_exchange_weak_explicit(&team->barrier.all.taken, &taken, taken + some,
                                                    memory_order_relaxed, memory_order_relaxed));
    *first = taken;
    return some;
}

int rf_share_next(struct rf_share *share, size_t *begin, size_t *end)
{
    struct rf_worker *worker = share->worker;
    struct rf_team *team = worker->team;
    struct slot *slot = &team->slots[team->members[worker->index]];
    if (team->slowed) drag(share, slot);
    if (share->begin < share->end) {
        *begin = share->begin;
        *end = share->end;
        share->begin = share->end;
    } else {
        size_t first, tail = (share->n - share->dealt + share->grain - 1) / share->grain;
        size_t some = tail ? take_from_tail(team, worker, tail, &first) : 0;
        if (some == 0) {
            if (share->cost > 0.0) slot->ended = rf_clock_seconds();
            if (share->work > 0.0) {
                slot->work += share->work;
                slot->busy += slot->ended - share->since;
            }
            return 0;
        }
        *begin = share->dealt + first * share->grain;
        *end = *begin + some * share->grain;
        if (*end > share->n) *end = share->n;
    }
    share->work += (double)(*end - *begin) * share->cost;
    return 1;
}

void rf_team_slow(struct rf_team *team, int i, double factor, double period)
{
    assert(i >= 0 && i < team->size && factor >= 1.0);
    team->slots[i].factor = factor;
    team->slots[i].period = period;
    team->slowed = 0;
    for (int other = 0; other < team->size; other++)
        team->slowed |= team->slots[other].factor > 1.0;
}

uint64_t rf_team_barriers(const struct rf_team *team)
{
    return (uint64_t)atomic_load(&team->barrier.generation) +
           atomic_load(&team->barrier.all.generation);
}

void rf_team_deal_equally(struct rf_team *team, int equally)
{
    team->equally = equally;
}
