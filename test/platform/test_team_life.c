/* The life of a team: processor time while idle, several teams, and clean-up when one cannot be
 * made. The linker's --wrap replaces the functions that start and join threads, so that the test
 * can refuse one. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "api/meter.h"
#include "support/crew.h"

/* ---- threads that the system refuses ---- */

static _Atomic int creations, refused_creation, joins;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (atomic_fetch_add(&creations, 1) + 1 == refused_creation) return EAGAIN;
    return __real_pthread_create(thread, attributes, run, argument);
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    atomic_fetch_add(&joins, 1);
    return __real_pthread_join(thread, result);
}

static void check_refused_threads(void)
{
    enum { THREADS = 4 };
    int refusals = 0, is_done = 0;
    for (int n = 1; !is_done; n++) {
        struct meter meter = {0};
        const struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
        struct rf_error error = {.text = ""};
        struct rf_team *team = NULL;
        refused_creation = n;
        creations = joins = 0;
        int code = rf_team_of(&team, NULL, THREADS, &allocator, &error);
        is_done = creations < n;
        CHECK_INT(code, is_done ? 0 : RF_ERR_SYSTEM);
        CHECK((team != NULL) == is_done);
        if (code) {
            CHECK_MSG(strstr(error.text, "threads: ") == error.text, "the error is \"%s\"",
                      error.text);
            CHECK_INT(joins, creations - 1);
            refusals++;
        }
        rf_team_free(team);
        CHECK_INT(joins, creations - (is_done ? 0 : 1));
        check_all_released(&meter, (size_t)n, "a team without a thread");
    }
    refused_creation = 0;
    CHECK(refusals >= THREADS - 1);
}

static void check_refused_memory(void)
{
    struct crew crew = crew_open(3);
    size_t n[2] = {1, 1};
    for (int like = 0; like < 2; like++)
        for (int is_done = 0; !is_done; n[like]++) {
            struct meter meter = {.fail_at = n[like]};
            const struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
            struct rf_error error = {.text = ""};
            struct rf_team *team = NULL;
            int code = like ? rf_team_like(&team, crew.team, &allocator, &error)
                            : rf_team_of(&team, NULL, 3, &allocator, &error);
            is_done = meter.calls < n[like];
            CHECK_INT(code, is_done ? 0 : RF_ERR_MEMORY);
            CHECK((team != NULL) == is_done);
            rf_team_free(team);
            check_all_released(&meter, n[like], like ? "rf_team_like" : "rf_team_of");
        }
    CHECK(n[0] > 5 && n[1] > 4);
    for (size_t at = 1; at <= 2; at++) {
        struct meter meter = {.fail_at = at};
        const struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
        struct rf_error error = {.text = ""};
        struct rf_split *split = NULL;
        CHECK_INT(rf_team_split_new(crew.team, &split, &allocator, &error), RF_ERR_MEMORY);
        CHECK(split == NULL);
        check_all_released(&meter, at, "rf_team_split_new");
    }
    crew_close(&crew);
}

/* ---- work ---- */

enum { ITEMS = 300 };

struct sum {
    int values[ITEMS]; /* written by whoever gets them, read after the barrier by all */
    _Atomic int wrong, workers;
};

static void add_up(void *argument, struct rf_worker *worker)
{
    struct sum *sum = argument;
    struct rf_share share;
    size_t begin, end;
    atomic_fetch_add(&sum->workers, 1);
    for (int round = 0; round < 4; round++) {
        rf_share_begin(&share, worker, ITEMS, 3, 1.0);
        while (rf_share_next(&share, &begin, &end))
            for (size_t i = begin; i < end; i++) sum->values[i]++;
        rf_team_barrier(worker);
        for (int i = 0; i < ITEMS; i++)
            if (sum->values[i] != round + 1) atomic_fetch_add(&sum->wrong, 1);
        rf_team_barrier(worker);
    }
}

static void work(struct rf_team *team, struct rf_split *split, int count)
{
    struct sum sum = {{0}, 0, 0};
    if (split)
        rf_team_run_split(team, split, count, add_up, &sum);
    else
        rf_team_run(team, count, add_up, &sum);
    CHECK_INT(sum.wrong, 0);
    if (!split) CHECK_INT(sum.workers, count);
    for (int i = 0; i < ITEMS; i++) CHECK_INT(sum.values[i], 4);
}

/* ---- idle teams ---- */

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Waiting workers sleep. After a run each may spin for 0.1 ms first, and instrumentation has
 * threads of its own. A worker that kept spinning would use a hundred times as much, up to the
 * whole half second. */
static void check_idle(void)
{
    static const double HALF = 0.5, MOST = 0.05;
    struct crew crew = crew_open(4);
    int size = rf_team_size(crew.team);
    for (int count = 0; count <= size; count += size) {
        if (count) work(crew.team, NULL, count);
        double before = processor_seconds();
        const struct timespec wait = {.tv_nsec = (long)(HALF * 1e9)};
        nanosleep(&wait, NULL);
        double used = processor_seconds() - before;
        CHECK_MSG(used < MOST,
                  "a team that has run with %d workers and is idle took %.0f ms of processor time "
                  "in %.0f ms",
                  count, 1e3 * used, 1e3 * HALF);
    }
    crew_close(&crew);
}

/* ---- teams come and go ---- */

static void check_freed_at_once(void)
{
    struct rf_error error = {.text = ""};
    rf_team_free(NULL);
    for (int i = 0; i < 40; i++) {
        struct rf_team *team;
        CHECK_INT(rf_team_of(&team, NULL, i % 6 + 1, &rf_system_allocator, &error), 0);
        if (i % 3 == 1) work(team, NULL, 1);
        if (i % 3 == 2) work(team, NULL, rf_team_size(team));
        rf_team_free(team);
    }
}

static void check_like(void)
{
    struct crew crew = crew_open(5);
    struct rf_error error = {.text = ""};
    struct rf_team *other = NULL;
    CHECK_INT(rf_team_like(&other, crew.team, &rf_system_allocator, &error), 0);
    if (!other) exit(1);
    int size = rf_team_size(crew.team);
    CHECK_INT(rf_team_size(other), size);
    CHECK_INT(rf_team_places(other), rf_team_places(crew.team));
    work(crew.team, NULL, size);
    work(other, NULL, size);
    /* It begins with the measured speeds of the first team. */
    struct rf_split *split = NULL;
    CHECK_INT(rf_team_split_new(other, &split, &rf_system_allocator, &error), 0);
    for (int i = 0; i < size; i++)
        CHECK(split->kinds[RF_WORK_ONE].speed[i] == crew.split->kinds[RF_WORK_ONE].speed[i]);
    work(other, split, 1);
    rf_split_free(split);

    /* A measurement with another number of workers is ignored. */
    struct rf_split *shorter;
    CHECK_INT(rf_split_new(&shorter, 1, 1, NULL, &rf_system_allocator, &error), 0);
    shorter->kinds[RF_WORK_ONE].speed[0] = 17.0;
    rf_team_begin_with(other, size > 1 ? shorter : NULL);
    CHECK_INT(rf_team_split_new(other, &split, &rf_system_allocator, &error), 0);
    for (int i = 0; i < size; i++) CHECK(split->kinds[RF_WORK_ONE].speed[i] == 1.0);
    CHECK_INT(split->kinds[RF_WORK_ONE].active, rf_team_places(other));
    rf_split_free(split);
    rf_split_free(shorter);

    struct rf_team *third = NULL;
    rf_team_free(other);
    CHECK_INT(rf_team_like(&third, crew.team, &rf_system_allocator, &error), 0);
    crew_close(&crew); /* the team made like it remains, without the measurement */
    if (third) rf_team_begin_with(third, NULL);
    if (third) work(third, NULL, size);
    rf_team_free(third);
}

/* ---- callers ---- */

struct caller {
    pthread_t thread;
    int threads;
    struct rf_team *team; /* made by another thread, or NULL */
    _Atomic int wrong;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    struct rf_error error = {.text = ""};
    struct rf_team *team = caller->team;
    if (!team && rf_team_of(&team, NULL, caller->threads, &rf_system_allocator, &error)) {
        caller->wrong++;
        return NULL;
    }
    for (int i = 0; i < 50; i++) {
        struct sum sum = {{0}, 0, 0};
        int count = i % rf_team_size(team) + 1;
        rf_team_run(team, count, add_up, &sum);
        caller->wrong += sum.wrong != 0 || sum.workers != count;
    }
    if (!caller->team) rf_team_free(team);
    return NULL;
}

static void check_callers(void)
{
    enum { CALLERS = 4 };
    struct caller callers[CALLERS] = {0};
    struct crew lent = crew_open(3);
    for (int i = 0; i < CALLERS; i++) {
        callers[i].threads = i + 1;
        if (i == 2) callers[i].team = lent.team;
        if (pthread_create(&callers[i].thread, NULL, call_often, &callers[i])) exit(1);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_INT(callers[i].wrong, 0);
    }
    /* The team's first caller has ended; another thread uses it. */
    work(lent.team, lent.split, 1);
    work(lent.team, NULL, rf_team_size(lent.team));
    crew_close(&lent);
}

/* ---- places ---- */

struct places {
    cpu_set_t wanted[RF_CORE_KINDS];
    enum rf_core_kind kinds[3];
    _Atomic int elsewhere;
};

static void look(void *argument, struct rf_worker *worker)
{
    struct places *places = argument;
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0 ||
        !CPU_EQUAL(&mask, &places->wanted[places->kinds[worker->index]]))
        atomic_fetch_add(&places->elsewhere, 1);
}

/* Workers run where the plan says, by kinds; the caller only while it works. */
static void check_bound(void)
{
    enum { SEATS = 3 };
    cpu_set_t before, after;
    if (sched_getaffinity(0, sizeof before, &before) != 0) exit(1);
    struct rf_cpu cpus[SEATS] = {{.kind = RF_CORE_P}, {.kind = RF_CORE_E}, {.kind = RF_CORE_E}};
    struct places places = {.elsewhere = 0};
    struct rf_seat seats[SEATS] = {{.cpu = 0}, {.cpu = 1}, {.cpu = 2}};
    int found = 0;
    /* Some seats share a core where there are too few. */
    for (size_t cpu = 0; found < SEATS; cpu = (cpu + 1) % CPU_SETSIZE) {
        if (!CPU_ISSET(cpu, &before)) continue;
        cpus[found].cpu = (int)cpu;
        seats[found].kind = places.kinds[found] = cpus[found].kind;
        CPU_SET(cpu, &places.wanted[cpus[found].kind]);
        found++;
    }
    struct rf_plan plan = {.topology = {.cpus = cpus, .n_cpus = SEATS},
                           .seats = seats,
                           .n_seats = SEATS,
                           .n_placed = SEATS,
                           .binds = 1};
    struct rf_error error = {.text = ""};
    struct rf_team *team, *like;
    CHECK_INT(rf_team_new(&team, &plan, &rf_system_allocator, &error), 0);
    CHECK_INT(rf_team_like(&like, team, &rf_system_allocator, &error), 0);
    for (int count = 1; count <= rf_team_size(team); count++) {
        rf_team_run(team, count, look, &places);
        rf_team_run(like, count, look, &places);
    }
    CHECK_INT(places.elsewhere, 0);
    if (sched_getaffinity(0, sizeof after, &after) != 0) exit(1);
    CHECK(CPU_EQUAL(&before, &after));
    rf_team_free(team);
    rf_team_free(like);
}

int main(void)
{
    /* First, since threads of freed teams may still be ending. */
    check_idle();
    check_freed_at_once();
    check_like();
    check_callers();
    check_refused_memory();
    check_refused_threads();
    check_bound();
    return check_result();
}
