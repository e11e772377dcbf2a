/* riffle_roofline: which kernels are measured, in which order. */
#include <riffle_experimental.h>

#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "cpu/roofline.h"
#include "cpu/tiers.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "platform/memory.h"

enum { MOST_TIERS = 16, MOST_ROWS = 512, ROUNDS = 11 };

static const int64_t MOST_M = 1 << 20, MOST_K = 1 << 17;
static const riffle_shape default_shape = {8192, 8192};
static const int32_t default_rows[] = {1, 2, 4, 8, 16, 128};

void riffle_roofline_options_init(riffle_roofline_options *options, size_t struct_size)
{
    riffle_roofline_options defaults = {.struct_size = struct_size};
    if (options) rf_api_give(options, struct_size, &defaults, sizeof defaults);
}

/* A run: what was asked for, with defaults filled in, and where it goes. */
struct run {
    riffle_roofline_options asked;
    int tiers[MOST_TIERS];
    int n_tiers;
    int32_t threads[2];
    int n_threads;
    riffle_on_ceiling on_ceiling;
    riffle_on_roofline_row on_row;
    void *user;
    struct rf_roofline *roofline;
    uint64_t done, total; /* measurements */
};

/* The next name of a list separated by commas, in name[cap]; NULL at its end. Spaces around it do
 * not count. */
static const char *next_name(const char *list, char *name, size_t cap)
{
    size_t n = strcspn(list, ","), first = strspn(list, " ");
    const char *after = list[n] ? list + n + 1 : NULL;
    if (first > n) first = n;
    while (n > first && list[n - 1] == ' ') n--;
    snprintf(name, cap, "%.*s", (int)(n - first), list + first);
    return after;
}

static int take_tiers(struct run *run, struct rf_error *error)
{
    char name[64];
    if (!run->asked.tiers) {
        run->n_tiers = 1;
        return rf_api_tier(&run->tiers[0], error);
    }
    for (const char *list = run->asked.tiers; list;) {
        list = next_name(list, name, sizeof name);
        int tier = rf_api_find_tier("roofline", name, error);
        if (tier < 0) return tier;
        if (run->n_tiers == MOST_TIERS)
            return rf_fail(error, RF_ERR_ARGUMENT, "roofline: more than %d tiers", MOST_TIERS);
        run->tiers[run->n_tiers++] = tier;
    }
    return 0;
}

static int kernel_is_wanted(const struct run *run, const struct rf_roofline_kernel *kernel)
{
    char name[64];
    if (!run->asked.kernels) return 1;
    for (const char *list = run->asked.kernels; list;) {
        list = next_name(list, name, sizeof name);
        if (strstr(kernel->name, name)) return 1;
    }
    return 0;
}

static int check_kernels(const struct run *run, struct rf_error *error)
{
    char name[64], known[512] = "";
    for (const char *list = run->asked.kernels; list;) {
        int found = 0;
        list = next_name(list, name, sizeof name);
        for (const struct rf_roofline_kernel *kernel = rf_roofline_kernels; kernel->name; kernel++)
            found |= name[0] && strstr(kernel->name, name);
        if (found) continue;
        for (const struct rf_roofline_kernel *kernel = rf_roofline_kernels; kernel->name;
             kernel++) {
            size_t n = strlen(known);
            snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", kernel->name);
        }
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "roofline: no kernel has \"%s\" in its name (known: %s)", name, known);
    }
    return 0;
}

static int check_numbers(struct run *run, struct rf_error *error)
{
    riffle_roofline_options *asked = &run->asked;
    if (!asked->shapes || !asked->n_shapes) {
        asked->shapes = &default_shape;
        asked->n_shapes = 1;
    }
    if (!asked->rows || !asked->n_rows) {
        asked->rows = default_rows;
        asked->n_rows = sizeof default_rows / sizeof *default_rows;
    }
    if (asked->rounds == 0) asked->rounds = ROUNDS;
    if (asked->rounds < 1 || asked->rounds > 1000)
        return rf_fail(error, RF_ERR_ARGUMENT, "roofline: %d rounds: not between 1 and 1000",
                       asked->rounds);
    for (size_t i = 0; i < asked->n_rows; i++)
        if (asked->rows[i] < 1 || asked->rows[i] > MOST_ROWS)
            return rf_fail(error, RF_ERR_ARGUMENT, "roofline: %d rows: not between 1 and %d",
                           asked->rows[i], MOST_ROWS);
    for (size_t i = 0; i < asked->n_shapes; i++) {
        riffle_shape shape = asked->shapes[i];
        if (shape.m < 1 || shape.m > MOST_M || shape.k < 1 || shape.k > MOST_K ||
            shape.k % RF_SUPERBLOCK)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "roofline: the shape %lldx%lld: M must be between 1 and %lld, K a "
                           "multiple of %d up to %lld",
                           (long long)shape.m, (long long)shape.k, (long long)MOST_M, RF_SUPERBLOCK,
                           (long long)MOST_K);
    }
    int32_t cores;
    int code = rf_api_threads(asked->threads, &cores, error);
    if (code) return code;
    if (!asked->threads && cores > 1) run->threads[run->n_threads++] = 1;
    run->threads[run->n_threads++] = cores;
    return 0;
}

static int report(const struct run *run, const char *key, const char *name, int32_t threads,
                  struct rf_ceiling found)
{
    riffle_ceiling ceiling = {key, name, threads, found.usual, found.best};
    return found.usual > 0 && run->on_ceiling && run->on_ceiling(run->user, &ceiling);
}

static int report_ceilings(const struct run *run, int32_t threads, struct rf_error *error)
{
    int stop =
        report(run, "read", "reading memory", threads, rf_roofline_read_ceiling(run->roofline));
    for (int p = 0; p < RF_PEAK_COUNT && !stop; p++) {
        enum rf_peak peak = (enum rf_peak)p;
        stop = report(run, rf_peak_key(peak), rf_peak_name(peak), threads,
                      rf_roofline_peak_ceiling(run->roofline, peak));
    }
    return stop ? rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled") : 0;
}

/* What is being measured. */
struct place {
    int32_t threads;
    int tier;
    const char *form;
    const struct rf_kernels *table;
    size_t most_rows; /* that kernels of this form take */
    riffle_shape shape;
    const struct rf_roofline_kernel *kernel;
};

static int stop(void *user)
{
    const struct run *run = user;
    return run->asked.progress &&
           run->asked.progress(run->asked.progress_user, "measuring", run->done, run->total);
}

static int measure(struct run *run, const struct place *place, int32_t rows, int in_cache,
                   struct rf_error *error)
{
    struct rf_roofline_case what = {
        .kernel = place->kernel,
        .table = place->table,
        .peak = place->kernel->is_attention
                    ? rf_peak_of_floats(place->tier)
                    : rf_peak_of(place->kernel->operand, place->tier, (size_t)rows),
        .m = (size_t)place->shape.m,
        .k = (size_t)place->shape.k,
        .rows = (size_t)rows,
        .in_cache = in_cache};
    struct rf_roofline_result result;
    int code =
        rf_roofline_measure(run->roofline, &what, run->asked.rounds, stop, run, &result, error);
    if (code) return code;
    riffle_roofline_row row = {.kernel = place->kernel->name,
                               .tier = rf_tier_name((enum rf_tier)place->tier),
                               .form = place->form,
                               .where = in_cache ? "cache" : "memory",
                               .ceiling = rf_peak_key(what.peak),
                               .binds = result.compute_binds ? "compute" : "memory",
                               .threads = place->threads,
                               .rows = rows,
                               .m = (int64_t)result.m,
                               .k = (int64_t)result.k,
                               .bytes_per_second = result.bytes_per_second,
                               .ops_per_second = result.operations_per_second,
                               .ops_per_byte = result.operations_per_byte,
                               .percent_of_read = 100 * result.of_read,
                               .percent_of_compute = 100 * result.of_peak};
    run->done++;
    if (run->on_row && run->on_row(run->user, &row))
        return rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled");
    return 0;
}

static int measure_kernel(struct run *run, const struct place *place, struct rf_error *error)
{
    int code = 0;
    for (size_t i = 0; i < run->asked.n_rows && !code; i++) {
        int32_t rows = run->asked.rows[i];
        if ((size_t)rows > place->most_rows) continue;
        for (int in_cache = 0; in_cache < 2 && !code; in_cache++) {
            if (run->roofline)
                code = measure(run, place, rows, in_cache, error);
            else
                run->total++;
        }
    }
    return code;
}

/* Generated where there are such, and compiled. */
static int measure_forms(struct run *run, struct place *place, struct rf_error *error)
{
    const struct rf_roofline_kernel *kernel = place->kernel;
    int code = 0;
    if (!kernel->is_attention && kernel->operand == rf_operand_of(kernel->format)) {
        place->form = "generated";
        place->table = rf_cpu_kernels(place->tier);
        place->most_rows = rf_cpu_generated_rows(place->tier, kernel->format);
        if (place->most_rows) code = measure_kernel(run, place, error);
    }
    place->form = "compiled";
    place->table = rf_kernels(place->tier);
    place->most_rows = kernel->is_attention ? RF_ROOFLINE_MAX_QUERY_ROWS : SIZE_MAX;
    return code ? code : measure_kernel(run, place, error);
}

/* All kernels of a tier with so many threads. Without a pool they are only counted. Attention has
 * one shape. */
static int measure_tier(struct run *run, int32_t threads, int tier, struct rf_error *error)
{
    int code = 0;
    struct place place = {.threads = threads, .tier = tier};
    for (size_t i = 0; i < run->asked.n_shapes && !code; i++)
        for (place.kernel = rf_roofline_kernels; place.kernel->name && !code; place.kernel++) {
            place.shape = run->asked.shapes[i];
            if (!kernel_is_wanted(run, place.kernel) || (place.kernel->is_attention && i > 0))
                continue;
            code = measure_forms(run, &place, error);
        }
    return code;
}

static int measure_all(struct run *run, struct rf_error *error)
{
    int code = 0;
    for (int t = 0; run->roofline && t < run->n_threads && !code; t++) {
        code = rf_roofline_use_threads(run->roofline, run->threads[t], error);
        if (!code) code = report_ceilings(run, run->threads[t], error);
    }
    for (int t = 0; t < run->n_threads && !code; t++) {
        if (run->roofline) code = rf_roofline_use_threads(run->roofline, run->threads[t], error);
        for (int i = 0; i < run->n_tiers && !code; i++)
            code = measure_tier(run, run->threads[t], run->tiers[i], error);
        if (!run->roofline || code) continue;
        rf_roofline_settle(run->roofline);
        code = report_ceilings(run, run->threads[t], error);
    }
    return code;
}

int riffle_roofline(const riffle_roofline_options *options, riffle_on_ceiling on_ceiling,
                    riffle_on_roofline_row on_row, void *user)
{
    struct rf_error error;
    struct run run = {.on_ceiling = on_ceiling, .on_row = on_row, .user = user};
    riffle_roofline_options_init(&run.asked, sizeof run.asked);
    int code = rf_api_take(&run.asked, sizeof run.asked, options, "riffle_roofline_options");
    if (code) return code;
    code = take_tiers(&run, &error);
    if (!code) code = check_kernels(&run, &error);
    if (!code) code = check_numbers(&run, &error);
    if (!code) code = measure_all(&run, &error);
    if (!code && !run.total)
        code = rf_fail(&error, RF_ERR_ARGUMENT,
                       "roofline: nothing to measure: attention takes at most %d rows",
                       RF_ROOFLINE_MAX_QUERY_ROWS);
    if (!code)
        code = rf_roofline_new(&run.roofline, run.asked.pool_bytes, run.threads[run.n_threads - 1],
                               &rf_system_allocator, &error);
    if (!code) code = measure_all(&run, &error);
    rf_roofline_free(run.roofline);
    return code ? rf_api_fail(&error) : 0;
}
