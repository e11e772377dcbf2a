/* Walks through the measurements of a request on one device: for each number of threads the
 * ceilings, then the kernels, then the ceilings again. */
#include "machine/roofline.h"

#include "cpu/cpu_backend.h"
#include "devices/devices.h"
#include "machine/cuda.h"
#include "machine/device.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "platform/plan.h"

struct run {
    const struct rf_roofline_device *device;
    void *bench;
    const struct rf_roofline_request *asked; /* the request with its defaults */
    const struct rf_roofline_callbacks *to;
    struct rf_roofline_cases cases;
    int32_t threads[2]; /* numbers of threads that are measured with, n_threads of them */
    int n_threads;
    uint64_t done; /* measurements */
};

static int roofline_cancelled(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_CANCELLED, "roofline: cancelled");
}

static int report_ceilings(const struct run *run, struct rf_error *error)
{
    return run->device->ceilings(run->bench, run->to->ceiling, run->to->user)
               ? roofline_cancelled(error)
               : 0;
}

static int report_progress(void *user)
{
    const struct run *run = user;
    return run->to->progress(run->to->user, run->done, run->cases.n * (uint64_t)run->n_threads);
}

static int report_row(const struct run *run, const struct rf_roofline_case *what, int32_t threads,
                      const struct rf_roofline_result *result)
{
    const struct rf_roofline_row row = {
        .kernel = what->kernel->name,
        .tier = run->device->tier ? run->device->tier : rf_tier_name((enum rf_tier)what->tier),
        .form = what->is_generated ? "generated" : "compiled",
        .where = what->in_cache ? "cache" : "memory",
        .ceiling = result->ceiling,
        .binds = result->compute_binds ? "compute" : "memory",
        .threads = threads,
        .rows = (int32_t)what->rows,
        .m = (int64_t)result->m,
        .k = (int64_t)result->k,
        .bytes_per_second = result->bytes_per_second,
        .ops_per_second = result->operations_per_second,
        .ops_per_byte = result->operations_per_byte,
        .percent_of_read = 100 * result->of_read,
        .percent_of_compute = 100 * result->of_peak};
    return run->to->row(run->to->user, &row);
}

static int measure_cases(struct run *run, int32_t threads, struct rf_error *error)
{
    for (size_t i = 0; i < run->cases.n; i++) {
        const struct rf_roofline_case *what = &run->cases.list[i];
        struct rf_roofline_result result;
        int code = run->device->measure(run->bench, what, report_progress, run, &result, error);
        if (code) return code;
        run->done++;
        if (report_row(run, what, threads, &result)) return roofline_cancelled(error);
    }
    return 0;
}

/* All ceilings are reported before the first row, so that a reader has them beside it. */
static int measure_device(struct run *run, struct rf_error *error)
{
    int code = 0;
    for (int t = 0; t < run->n_threads && !code; t++) {
        code = run->device->begin(run->bench, run->threads[t], error);
        if (!code) code = report_ceilings(run, error);
    }
    for (int t = 0; t < run->n_threads && !code; t++) {
        code = run->device->begin(run->bench, run->threads[t], error);
        if (!code) code = measure_cases(run, run->threads[t], error);
        if (!code) code = report_ceilings(run, error);
    }
    return code;
}

/* Workers that so many threads are; 0: one for each core that "auto" chooses. */
static int count_threads(int32_t wanted, int32_t *threads, struct rf_error *error)
{
    struct rf_plan plan;
    int code = rf_plan_new(&plan, NULL, wanted, &rf_system_allocator, error);
    if (code) return code;
    *threads = plan.n_seats;
    rf_plan_free(&plan);
    return 0;
}

/* Devices other than the processor count as one thread. */
static int choose_threads(struct run *run, int32_t wanted, struct rf_error *error)
{
    int32_t threads = 1;
    int code = count_threads(wanted, &threads, error);
    if (run->device->tier) threads = 1;
    if (!wanted && threads > 1) run->threads[run->n_threads++] = 1;
    run->threads[run->n_threads++] = threads;
    return code;
}

static int find_device(const char *name, const struct rf_roofline_device **device, int32_t *index,
                       struct rf_error *error)
{
    const struct rf_backend_kind *kind = &rf_cpu_backend_kind;
    *index = 0;
    int code = name ? rf_find_device(name, &kind, index, error) : 0;
    if (code) return code;
    *device = kind == &rf_cuda_backend_kind ? rf_roofline_cuda(error) : &rf_roofline_cpu;
    return *device ? 0 : RF_ERR_UNSUPPORTED;
}

int rf_roofline(const struct rf_roofline_request *request,
                const struct rf_roofline_callbacks *callbacks, struct rf_error *error)
{
    const struct rf_allocator *allocator = &rf_system_allocator;
    struct rf_roofline_request asked = *request;
    struct rf_backend_options options = {.device = 0};
    struct run run = {.asked = &asked, .to = callbacks};
    int code = find_device(request->device, &run.device, &options.device, error);
    if (!code) code = choose_threads(&run, request->threads, error);
    if (code) return code;
    asked.threads = run.threads[run.n_threads - 1];
    code = rf_roofline_list(&run.cases, &asked, run.device, allocator, error);
    if (!code) code = run.device->open(&run.bench, &options, &asked, allocator, error);
    if (!code) {
        code = measure_device(&run, error);
        run.device->close(run.bench);
    }
    rf_free(allocator, run.cases.list);
    return code;
}
