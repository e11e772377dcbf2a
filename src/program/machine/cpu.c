/* The processor as a device of the roofline: opens a pool and its workers, and reports the
 * ceilings. */
#include "machine/cpu_bench.h"

static const int32_t default_rows[] = {1, 2, 4, 8, 16, 128};
static const uint64_t DEFAULT_POOL = (uint64_t)1 << 30;

static void cpu_bench_close(void *bench)
{
    struct cpu_bench *cpu = bench;
    rf_reader_release(&cpu->reader);
    rf_free(cpu->allocator, cpu);
}

static int cpu_bench_open(void **bench, const struct rf_backend_options *options,
                          const struct rf_roofline_request *request,
                          const struct rf_allocator *allocator, struct rf_error *error)
{
    (void)options;
    *bench = NULL;
    uint64_t bytes = request->pool_bytes ? request->pool_bytes : rf_reader_pool_bytes(DEFAULT_POOL);
    struct cpu_bench *made = rf_calloc(allocator, 1, sizeof *made, "roofline", error);
    if (!made) return RF_ERR_MEMORY;
    made->allocator = allocator;
    made->asked = request;
    made->most_threads = request->threads;
    int code = rf_reader_init(&made->reader, bytes, request->threads, allocator, error);
    if (code)
        rf_free(allocator, made);
    else
        *bench = made;
    return code;
}

static int cpu_bench_begin(void *bench, int32_t threads, struct rf_error *error)
{
    return cpu_ceilings_begin(bench, threads, error);
}

static int report_ceiling(const struct cpu_bench *bench, int which, const char *key,
                          const char *name,
                          int (*report)(void *user, const struct rf_ceiling *ceiling), void *user)
{
    const struct cpu_ceiling *found = &bench->ceilings[which];
    struct rf_ceiling ceiling = {.key = key,
                                 .name = name,
                                 .threads = bench->reader.threads,
                                 .is_bandwidth = which >= CEILING_READ,
                                 .per_second = found->usual,
                                 .best = found->best};
    cpu_ceiling_note(bench, which, ceiling.note);
    return report(user, &ceiling);
}

/* Instructions that the processor lacks are left out; a cache that was not measured is reported
 * with the reason. */
static int cpu_bench_ceilings(void *bench,
                              int (*report)(void *user, const struct rf_ceiling *ceiling),
                              void *user)
{
    static const struct {
        const char *key, *name;
    } places[] = {{"read", "reading memory"},
                  {"l1", "reading the L1 cache"},
                  {"l2", "reading the L2 cache"},
                  {"l3", "reading the L3 cache"}};
    struct cpu_bench *cpu = bench;
    int stopped = 0;
    cpu_ceilings_settle(cpu);
    for (int i = 0; i < (int)(sizeof places / sizeof *places) && !stopped; i++)
        stopped =
            report_ceiling(cpu, CEILING_READ + i, places[i].key, places[i].name, report, user);
    for (enum rf_peak peak = 0; peak < RF_PEAK_COUNT && !stopped; peak++)
        if (cpu->ceilings[peak].usual > 0)
            stopped =
                report_ceiling(cpu, (int)peak, rf_peak_key(peak), rf_peak_name(peak), report, user);
    return stopped;
}

const struct rf_roofline_device rf_roofline_cpu = {
    .default_rows = default_rows,
    .n_default_rows = sizeof default_rows / sizeof *default_rows,
    .open = cpu_bench_open,
    .close = cpu_bench_close,
    .begin = cpu_bench_begin,
    .ceilings = cpu_bench_ceilings,
    .measure = cpu_kernel_measure,
};
