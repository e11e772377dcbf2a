/* The ceilings of the processor: how fast memory and each cache are read, and how many operations
 * of each instruction the workers issue. Workers read parts of one pool, or run loops without
 * memory (peak.h). */
#include <stdio.h>

#include "base/median.h"
#include "machine/cpu_bench.h"

enum { LEAST_LOOPS = 20000 /* a measurement's: some tens of microseconds */ };

/* Seconds of one measurement. */
static const double READ_TIME = 3e-3, CACHE_TIME = 0.5e-3, PEAK_TIME = 1e-3;

/* The parts of the pool, one for each worker, which reads it several times. */
struct cache_parts {
    const struct rf_reader *reader;
    const struct rf_read_pattern *pattern;
    size_t bytes, times; /* size of a part, and how often it is read */
};

static void read_cache_part(void *argument, struct rf_worker *worker)
{
    const struct cache_parts *parts = argument;
    size_t distance = (parts->bytes + RF_READ_PAGE - 1) / RF_READ_PAGE * RF_READ_PAGE;
    rf_reader_read(parts->reader, parts->pattern,
                   parts->reader->pool + (size_t)worker->index * distance, parts->bytes,
                   parts->times);
}

static double rate_of_cache(const struct cpu_bench *bench, const struct rf_read_pattern *pattern,
                            size_t part, double bytes)
{
    double all = (double)part * rf_team_places(bench->reader.team);
    struct cache_parts parts = {&bench->reader, pattern, .bytes = part, .times = 1};
    rf_team_run(bench->reader.team, 0, read_cache_part, &parts); /* fills the cache */
    parts.times = 1 + (size_t)(bytes / all);
    return (double)parts.times * all / rf_reader_time(&bench->reader, read_cache_part, &parts);
}

static double rate_of_read(struct cpu_bench *bench, int which,
                           const struct rf_read_pattern *pattern, double bytes)
{
    return which == CEILING_READ
               ? rf_reader_rate(&bench->reader, pattern, bytes)
               : rate_of_cache(bench, pattern, bench->ceilings[which].bytes, bytes);
}

struct issue {
    struct rf_peak_loop loop;
    uint64_t loops;
    int threads;
};

static void issue_part(void *argument, struct rf_worker *worker)
{
    const struct issue *issue = argument;
    for (int part = worker->index; part < issue->threads; part += worker->count)
        issue->loop.run(issue->loops);
}

static double rate_of_instruction(const struct cpu_bench *bench, int which, double operations)
{
    double each = bench->loops[which].operations * bench->reader.threads;
    struct issue issue = {bench->loops[which], (uint64_t)(operations / each) + LEAST_LOOPS,
                          bench->reader.threads};
    return (double)issue.loops * each / rf_reader_time(&bench->reader, issue_part, &issue);
}

double cpu_ceiling_measure(struct cpu_bench *bench, int which, double seconds)
{
    struct cpu_ceiling *ceiling = &bench->ceilings[which];
    double work = seconds * ceiling->best;
    double rate = which < CEILING_READ ? rate_of_instruction(bench, which, work)
                                       : rate_of_read(bench, which, &ceiling->pattern, work);
    ceiling->rates[ceiling->count++ % CEILING_SAMPLES] = rate;
    if (rate > ceiling->best) ceiling->best = rate;
    return rate;
}

/* ---- the search for a cache's fastest pattern ---- */

struct cache_reading {
    const struct cpu_bench *bench;
    size_t part;
    double bytes; /* read by a measurement before the final rounds */
};

static double measure_cache_pattern(void *user, size_t candidate, int is_final)
{
    const struct cache_reading *reading = user;
    const struct rf_read_pattern pattern = rf_read_pattern(candidate);
    return rate_of_cache(reading->bench, &pattern, reading->part,
                         is_final ? RF_READ_FINAL_TIMES * reading->bytes : reading->bytes);
}

static struct rf_found search_cache(const struct cpu_bench *bench,
                                    const struct cpu_ceiling *ceiling)
{
    struct cache_reading reading = {bench, ceiling->bytes, CACHE_TIME * ceiling->best};
    const struct rf_search search = {.n = RF_READ_PATTERNS_OF_A_THREAD,
                                     .rounds = 1,
                                     .final_rounds = RF_READ_FIRST,
                                     .measure = measure_cache_pattern,
                                     .user = &reading};
    return rf_search_fastest(&search);
}

/* ---- a number of threads ---- */

/* The first measurements only calibrate the amount of work. */
static void begin_ceiling(struct cpu_bench *bench, int which, double seconds)
{
    struct cpu_ceiling *ceiling = &bench->ceilings[which];
    ceiling->count = 0;
    ceiling->usual = ceiling->best = 0;
    ceiling->pattern = rf_read_pattern(0);
    if (which < CEILING_READ && !rf_peak_find((enum rf_peak)which, &bench->loops[which])) return;
    if (which > CEILING_READ && !ceiling->bytes) return;
    for (int i = 0; i < RF_READ_FIRST; i++) cpu_ceiling_measure(bench, which, 0);
    if (which >= CEILING_READ) {
        const struct rf_found found = which == CEILING_READ
                                          ? rf_reader_search(&bench->reader, ceiling->best)
                                          : search_cache(bench, ceiling);
        ceiling->pattern = rf_read_pattern(found.candidate);
    }
    ceiling->count = 0;
    for (int i = 0; i < RF_READ_FIRST; i++) cpu_ceiling_measure(bench, which, seconds);
}

/* Half of a worker's share of each cache, if that is at least twice the share of the level before:
 * else part of the reads would come from there. */
static void choose_cache_bytes(struct cpu_bench *bench, const struct rf_plan *plan)
{
    size_t shares[3] = {0},
           most = bench->reader.pool_bytes / (size_t)bench->reader.threads - RF_READ_PAGE;
    if (plan->topology.is_this_system) rf_plan_cache_shares(plan, shares);
    for (int level = 0; level < 3; level++) {
        struct cpu_ceiling *ceiling = &bench->ceilings[CEILING_L1 + level];
        size_t below = level ? shares[level - 1] : 0,
               bytes = shares[level] / 2 < most ? shares[level] / 2 : most;
        ceiling->bytes = bytes >= 2 * below ? bytes / RF_READ_PAGE * RF_READ_PAGE : 0;
        ceiling->why_not[0] = 0;
        if (!shares[level])
            snprintf(ceiling->why_not, sizeof ceiling->why_not,
                     "the system does not show its size");
        else if (!ceiling->bytes)
            snprintf(ceiling->why_not, sizeof ceiling->why_not,
                     "%zu KiB for each thread, too little beside the %zu KiB of the level before",
                     shares[level] >> 10, below >> 10);
    }
}

/* Takes a team of that many workers, and the sizes of their caches. */
static int take_team(struct cpu_bench *bench, int threads, struct rf_error *error)
{
    struct rf_plan plan;
    struct rf_team *team;
    int code = rf_plan_new(&plan, NULL, threads, bench->allocator, error);
    if (code) return code;
    code = rf_team_new(&team, &plan, bench->allocator, error);
    if (!code) {
        rf_team_free(bench->reader.team);
        bench->reader.team = team;
        bench->reader.threads = threads;
        choose_cache_bytes(bench, &plan);
    }
    rf_plan_free(&plan);
    return code;
}

int cpu_ceilings_begin(struct cpu_bench *bench, int threads, struct rf_error *error)
{
    if (threads > bench->most_threads) threads = bench->most_threads;
    if (threads == bench->reader.threads && bench->ceilings[CEILING_READ].count) return 0;
    int code = take_team(bench, threads, error);
    if (code) return code;
    for (int which = 0; which < CEILINGS; which++)
        begin_ceiling(bench, which,
                      which < CEILING_READ    ? 3 * PEAK_TIME
                      : which == CEILING_READ ? READ_TIME
                                              : RF_READ_FINAL_TIMES * CACHE_TIME);
    cpu_ceilings_settle(bench);
    return 0;
}

void cpu_ceilings_settle(struct cpu_bench *bench)
{
    for (int which = 0; which < CEILINGS; which++) {
        struct cpu_ceiling *ceiling = &bench->ceilings[which];
        ceiling->usual = rf_median(
            ceiling->rates, ceiling->count < CEILING_SAMPLES ? ceiling->count : CEILING_SAMPLES);
    }
}

void cpu_ceiling_note(const struct cpu_bench *bench, int which, char note[RF_CEILING_NOTE])
{
    const struct cpu_ceiling *ceiling = &bench->ceilings[which];
    note[0] = 0;
    if (which < CEILING_READ) return;
    if (ceiling->why_not[0])
        snprintf(note, RF_CEILING_NOTE, "%s", ceiling->why_not);
    else
        rf_read_pattern_name(&ceiling->pattern, note);
}
