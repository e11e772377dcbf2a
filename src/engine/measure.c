/* The measuring calls (measure.h): they find the device of a name and hand its figures on in the
 * public structures. */
#include "engine/measure.h"

#include <stdio.h>

#include "engine/cores.h"
#include "engine/devices.h"
#include "engine/places.h"
#include "platform/memory.h"

static int measure_read_of(const struct rf_backend_kind *kind,
                           const struct rf_backend_options *device, int32_t threads,
                           riffle_read_speed *speed, struct rf_error *error)
{
    struct rf_read_speed found = {0};
    int code = rf_cores_threads(threads, &threads, error);
    if (!code && !kind->measure_read)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "%s: it cannot be measured", kind->name);
    if (!code) code = kind->measure_read(device, threads, &rf_system_allocator, &found, error);
    if (code) return code;
    *speed = (riffle_read_speed){.bytes_per_second = found.bytes_per_second, .best = found.best};
    snprintf(speed->pattern, sizeof speed->pattern, "%s", found.pattern);
    return 0;
}

int rf_measure_read(int32_t threads, riffle_read_speed *speed, struct rf_error *error)
{
    const struct rf_backend_options device = rf_processor_options();
    return measure_read_of(rf_backend_kinds[0], &device, threads, speed, error);
}

int rf_engine_measure_read(const struct rf_engine *engine, int32_t threads,
                           riffle_read_speed *speed, struct rf_error *error)
{
    const struct rf_backend_options device = rf_engine_device_options(engine);
    if (!rf_engine_is_shared(engine))
        return measure_read_of(engine->kind, &device, threads, speed, error);
    /* A pass reads each byte where it is. */
    riffle_read_speed first, second;
    int code = rf_measure_read(threads, &first, error);
    if (!code) code = measure_read_of(engine->kind, &device, threads, &second, error);
    if (code) return code;
    double all = (double)engine->cost.pass_bytes, there = (double)engine->cost.second_pass_bytes;
    *speed = (riffle_read_speed){.bytes_per_second = all / ((all - there) / first.bytes_per_second +
                                                            there / second.bytes_per_second),
                                 .best = all / ((all - there) / first.best + there / second.best)};
    snprintf(speed->pattern, sizeof speed->pattern, "%.1f GB/s on the processor, %.1f on %s",
             first.bytes_per_second * 1e-9, second.bytes_per_second * 1e-9, engine->device_name);
    return 0;
}

/* The caller's callbacks, each of which may be NULL. */
struct roofline_caller {
    const riffle_roofline_options *options;
    riffle_on_ceiling on_ceiling;
    riffle_on_roofline_row on_row;
    void *user;
};

static int give_ceiling(void *user, const struct rf_ceiling_report *report)
{
    const struct roofline_caller *caller = user;
    riffle_ceiling ceiling = {.key = report->key,
                              .name = report->name,
                              .threads = report->threads,
                              .is_bandwidth = report->is_bandwidth,
                              .per_second = report->found.usual,
                              .best = report->found.best};
    snprintf(ceiling.note, sizeof ceiling.note, "%s", report->note);
    return caller->on_ceiling && caller->on_ceiling(caller->user, &ceiling);
}

static int give_row(void *user, const struct rf_roofline_row *found)
{
    const struct roofline_caller *caller = user;
    const struct rf_roofline_result *result = &found->result;
    riffle_roofline_row row = {.kernel = found->kernel,
                               .tier = found->tier,
                               .form = found->form,
                               .where = found->in_cache ? "cache" : "memory",
                               .ceiling = found->ceiling,
                               .binds = result->compute_binds ? "compute" : "memory",
                               .threads = found->threads,
                               .rows = found->rows,
                               .m = (int64_t)result->m,
                               .k = (int64_t)result->k,
                               .bytes_per_second = result->bytes_per_second,
                               .ops_per_second = result->operations_per_second,
                               .ops_per_byte = result->operations_per_byte,
                               .percent_of_read = 100 * result->of_read,
                               .percent_of_compute = 100 * result->of_peak};
    return caller->on_row && caller->on_row(caller->user, &row);
}

static int give_progress(void *user, uint64_t done, uint64_t total)
{
    const riffle_roofline_options *options = ((const struct roofline_caller *)user)->options;
    return options->progress && options->progress(options->progress_user, "measuring", done, total);
}

int rf_measure_roofline(const riffle_roofline_options *options, riffle_on_ceiling on_ceiling,
                        riffle_on_roofline_row on_row, void *user, struct rf_error *error)
{
    int code = 0;
    struct roofline_caller caller = {options, on_ceiling, on_row, user};
    const struct rf_roofline_callbacks callbacks = {give_ceiling, give_row, give_progress, &caller};
    struct rf_roofline_request request = {.tiers = options->tiers,
                                          .kernels = options->kernels,
                                          .rows = options->rows,
                                          .n_rows = options->rows ? options->n_rows : 0,
                                          .n_shapes = options->shapes ? options->n_shapes : 0,
                                          .also_one_thread = !options->threads,
                                          .rounds = options->rounds,
                                          .pool_bytes = options->pool_bytes};
    struct rf_roofline_shape *shapes =
        rf_malloc(&rf_system_allocator, request.n_shapes, sizeof *shapes, "roofline shapes", error);
    if (!shapes) return RF_ERR_MEMORY;
    for (size_t i = 0; i < request.n_shapes; i++)
        shapes[i] = (struct rf_roofline_shape){options->shapes[i].m, options->shapes[i].k};
    request.shapes = shapes;
    struct rf_backend_options device = rf_processor_options();
    const struct rf_backend_kind *kind = rf_backend_kinds[0];
    if (options->device) code = rf_device_find(options->device, &kind, &device.device, error);
    if (!code && kind != rf_backend_kinds[0])
        device = (struct rf_backend_options){.device = device.device};
    if (!code) code = rf_cores_threads(options->threads, &request.threads, error);
    if (!code && !kind->roofline)
        code = rf_fail(error, RF_ERR_UNSUPPORTED, "%s: it cannot be measured", kind->name);
    if (!code) code = kind->roofline(&device, &request, &callbacks, &rf_system_allocator, error);
    rf_free(&rf_system_allocator, shapes);
    return code;
}
