/* Which kernels of which tiers are measured, with which sizes, and in which order. */
#include "cpu/roofline.h"

#include <stdio.h>
#include <string.h>

#include "cpu/roofline_measure.h"
#include "cpu/roofline_request.h"
#include "cpu/tiers.h"
#include "platform/cpu.h"

enum { MOST_TIERS = 16 };

static const int32_t default_rows[] = {1, 2, 4, 8, 16, 128};

struct run {
    struct rf_roofline_request asked; /* with defaults filled in */
    int tier;                         /* where none are asked for */
    const struct rf_roofline_callbacks *to;
    int tiers[MOST_TIERS];
    int n_tiers;
    struct rf_roofline *roofline; /* NULL: measurements are only counted */
    uint64_t done, total;         /* measurements */
};

static int take_tiers(struct run *run, struct rf_error *error)
{
    char name[64];
    if (!run->asked.tiers) run->tiers[run->n_tiers++] = run->tier;
    for (const char *list = run->asked.tiers; list;) {
        list = rf_roofline_next_name(list, name, sizeof name);
        int tier = rf_cpu_find_tier("roofline", name, error);
        if (tier < 0) return tier;
        if (run->n_tiers == MOST_TIERS)
            return rf_fail(error, RF_ERR_ARGUMENT, "roofline: more than %d tiers", MOST_TIERS);
        run->tiers[run->n_tiers++] = tier;
    }
    return 0;
}

static const char *kernel_name(size_t i)
{
    return rf_roofline_kernels[i].name;
}

static int cancelled(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled");
}

static int report_ceiling(const struct run *run, int which, const char *key, const char *name,
                          int32_t threads)
{
    struct rf_ceiling_report report = {.key = key,
                                       .name = name,
                                       .is_bandwidth = which >= RF_ROOFLINE_READ,
                                       .threads = threads,
                                       .found = rf_roofline_ceiling(run->roofline, which)};
    rf_roofline_note(run->roofline, which, report.note);
    return run->to->ceiling(run->to->user, &report);
}

/* Bandwidths first. Instructions that the processor lacks are left out; a cache that was not
 * measured is reported with the reason. */
static int report_ceilings(const struct run *run, int32_t threads, struct rf_error *error)
{
    static const struct {
        const char *key, *name;
    } places[] = {{"read", "reading memory"},
                  {"l1", "reading the L1 cache"},
                  {"l2", "reading the L2 cache"},
                  {"l3", "reading the L3 cache"}};
    for (int i = 0; i < (int)(sizeof places / sizeof *places); i++)
        if (report_ceiling(run, RF_ROOFLINE_READ + i, places[i].key, places[i].name, threads))
            return cancelled(error);
    for (enum rf_peak peak = 0; peak < RF_PEAK_COUNT; peak++)
        if (rf_roofline_ceiling(run->roofline, (int)peak).usual > 0 &&
            report_ceiling(run, (int)peak, rf_peak_key(peak), rf_peak_name(peak), threads))
            return cancelled(error);
    return 0;
}

/* What is being measured. */
struct place {
    int32_t threads;
    int tier;
    const char *form;
    size_t most_rows; /* that kernels of this form take */
    struct rf_roofline_case what;
};

static int stop(void *user)
{
    const struct run *run = user;
    return run->to->progress(run->to->user, run->done, run->total);
}

static int measure(struct run *run, const struct place *place, int32_t rows, int in_cache,
                   struct rf_error *error)
{
    struct rf_roofline_case what = place->what;
    what.rows = (size_t)rows;
    what.in_cache = in_cache;
    what.peak = what.kernel->is_attention && what.kernel->kv == RF_KV_F16
                    ? rf_peak_of_floats(place->tier)
                    : rf_peak_of(rf_roofline_operand(&what), place->tier, what.rows);
    struct rf_roofline_row row = {.kernel = what.kernel->name,
                                  .tier = rf_tier_name((enum rf_tier)place->tier),
                                  .form = place->form,
                                  .ceiling = rf_peak_key(what.peak),
                                  .in_cache = in_cache,
                                  .threads = place->threads,
                                  .rows = rows};
    int code =
        rf_roofline_measure(run->roofline, &what, run->asked.rounds, stop, run, &row.result, error);
    if (code) return code;
    run->done++;
    return run->to->row(run->to->user, &row) ? cancelled(error) : 0;
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

/* The generated kernel if there is one, then the compiled one. */
static int measure_forms(struct run *run, struct place *place, struct rf_error *error)
{
    const struct rf_roofline_kernel *kernel = place->what.kernel;
    int code = 0;
    if (!kernel->is_attention && kernel->operand == rf_operand_of(kernel->format)) {
        place->form = "generated";
        place->what.table = rf_cpu_kernels(place->tier);
        place->most_rows = rf_cpu_generated_rows(place->tier, kernel->format);
        if (place->most_rows) code = measure_kernel(run, place, error);
    }
    place->form = "compiled";
    place->what.table = rf_kernels(place->tier);
    place->most_rows = kernel->is_attention ? RF_ROOFLINE_MAX_QUERY_ROWS : SIZE_MAX;
    return code ? code : measure_kernel(run, place, error);
}

/* All kernels of a tier. Attention is measured once, as the shapes do not apply to it. */
static int measure_tier(struct run *run, int32_t threads, int tier, struct rf_error *error)
{
    int code = 0;
    struct place place = {.threads = threads, .tier = tier};
    for (size_t i = 0; i < run->asked.n_shapes && !code; i++) {
        place.what.m = (size_t)run->asked.shapes[i].m;
        place.what.k = (size_t)run->asked.shapes[i].k;
        const struct rf_roofline_kernel *kernel = rf_roofline_kernels;
        for (; kernel->name && !code; kernel++) {
            place.what.kernel = kernel;
            if (rf_roofline_wants(&run->asked, kernel->name) && !(kernel->is_attention && i > 0))
                code = measure_forms(run, &place, error);
        }
    }
    return code;
}

static int measure_all(struct run *run, struct rf_error *error)
{
    const int32_t threads[2] = {1, run->asked.threads};
    const int first = run->asked.also_one_thread && run->asked.threads > 1 ? 0 : 1;
    int code = 0;
    for (int t = first; run->roofline && t < 2 && !code; t++) {
        code = rf_roofline_use_threads(run->roofline, threads[t], error);
        if (!code) code = report_ceilings(run, threads[t], error);
    }
    for (int t = first; t < 2 && !code; t++) {
        if (run->roofline) code = rf_roofline_use_threads(run->roofline, threads[t], error);
        for (int i = 0; i < run->n_tiers && !code; i++)
            code = measure_tier(run, threads[t], run->tiers[i], error);
        if (!run->roofline || code) continue;
        rf_roofline_settle(run->roofline);
        code = report_ceilings(run, threads[t], error);
    }
    return code;
}

int rf_cpu_roofline(int tier, const struct rf_roofline_request *request,
                    const struct rf_roofline_callbacks *callbacks,
                    const struct rf_allocator *allocator, struct rf_error *error)
{
    struct run run = {.asked = *request, .tier = tier, .to = callbacks};
    int code = take_tiers(&run, error);
    if (!code) code = rf_roofline_check_kernels(request, kernel_name, error);
    if (!run.asked.n_rows) {
        run.asked.rows = default_rows;
        run.asked.n_rows = sizeof default_rows / sizeof *default_rows;
    }
    if (!code) code = rf_roofline_check_numbers(&run.asked, error);
    if (!code) code = measure_all(&run, error);
    if (!code && !run.total)
        code = rf_fail(error, RF_ERR_ARGUMENT,
                       "roofline: nothing to measure: attention takes at most %d rows",
                       RF_ROOFLINE_MAX_QUERY_ROWS);
    if (!code)
        code =
            rf_roofline_new(&run.roofline, request->pool_bytes, request->threads, allocator, error);
    if (!code) code = measure_all(&run, error);
    rf_roofline_free(run.roofline);
    return code;
}
