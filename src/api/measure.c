/* The measuring calls of riffle_experimental.h. */
#include <riffle_experimental.h>

#include <stdio.h>

#include "api/handles.h"
#include "platform/memory.h"

static int measure_read(const struct rf_backend_kind *kind, const struct rf_backend_options *device,
                        int32_t threads, riffle_read_speed *speed, size_t speed_size)
{
    struct rf_error error;
    struct rf_read_speed found = {0};
    int code = rf_api_threads(threads, &threads, &error);
    if (!code && !kind->measure_read)
        return rf_api_error(RIFFLE_ERR_UNSUPPORTED, "%s: it cannot be measured", kind->name);
    if (!code) code = kind->measure_read(device, threads, &rf_system_allocator, &found, &error);
    if (code) return rf_api_fail(&error);
    riffle_read_speed given = {.bytes_per_second = found.bytes_per_second, .best = found.best};
    snprintf(given.pattern, sizeof given.pattern, "%s", found.pattern);
    rf_api_give(speed, speed_size, &given, sizeof given);
    return 0;
}

int riffle_measure_read(int32_t threads, riffle_read_speed *speed, size_t speed_size)
{
    if (!speed) return rf_api_error(RIFFLE_ERR_ARGUMENT, "speed is NULL");
    const struct rf_backend_options device = rf_api_device();
    return measure_read(rf_backend_kinds[0], &device, threads, speed, speed_size);
}

int riffle_measure_model_read(const riffle_model *model, int32_t threads, riffle_read_speed *speed,
                              size_t speed_size)
{
    if (!model || !speed)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "speed" : "model");
    const struct rf_backend_options device = rf_api_model_device(model);
    if (!rf_api_is_shared(model))
        return measure_read(model->kind, &device, threads, speed, speed_size);
    /* Of a pass's bytes, each read where it is. */
    riffle_read_speed first, second;
    int code = riffle_measure_read(threads, &first, sizeof first);
    if (!code) code = measure_read(model->kind, &device, threads, &second, sizeof second);
    if (code) return code;
    double all = (double)model->cost.pass_bytes, there = (double)model->cost.second_pass_bytes;
    riffle_read_speed both = {.bytes_per_second = all / ((all - there) / first.bytes_per_second +
                                                         there / second.bytes_per_second),
                              .best = all / ((all - there) / first.best + there / second.best)};
    snprintf(both.pattern, sizeof both.pattern, "%.1f GB/s on the processor, %.1f on %s",
             first.bytes_per_second * 1e-9, second.bytes_per_second * 1e-9, model->device_name);
    rf_api_give(speed, speed_size, &both, sizeof both);
    return 0;
}

int riffle_measure_pass(riffle_session *session, int32_t rows, int32_t context, int32_t repeats,
                        double *seconds)
{
    if (!seconds) return rf_api_error(RIFFLE_ERR_ARGUMENT, "seconds is NULL");
    struct rf_error error;
    int code = rf_api_enter(session);
    if (code) return code;
    atomic_store(&session->cancel, 0);
    code = rf_sequence_time_passes(session->sequence, session->view, rows, context, repeats,
                                   seconds, &error);
    return (int)rf_api_leave(session, code ? rf_api_fail(&error) : 0);
}

RF_API_OPTIONS(riffle_roofline_options, .rounds = 0)

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

int riffle_roofline(const riffle_roofline_options *options, riffle_on_ceiling on_ceiling,
                    riffle_on_roofline_row on_row, void *user)
{
    struct rf_error error;
    riffle_roofline_options asked;
    int code = take_riffle_roofline_options(&asked, options);
    if (code) return code;
    struct roofline_caller caller = {&asked, on_ceiling, on_row, user};
    const struct rf_roofline_callbacks callbacks = {give_ceiling, give_row, give_progress, &caller};
    struct rf_roofline_request request = {.tiers = asked.tiers,
                                          .kernels = asked.kernels,
                                          .rows = asked.rows,
                                          .n_rows = asked.rows ? asked.n_rows : 0,
                                          .n_shapes = asked.shapes ? asked.n_shapes : 0,
                                          .also_one_thread = !asked.threads,
                                          .rounds = asked.rounds,
                                          .pool_bytes = asked.pool_bytes};
    struct rf_roofline_shape *shapes = rf_malloc(&rf_system_allocator, request.n_shapes,
                                                 sizeof *shapes, "roofline shapes", &error);
    if (!shapes) return rf_api_fail(&error);
    for (size_t i = 0; i < request.n_shapes; i++)
        shapes[i] = (struct rf_roofline_shape){asked.shapes[i].m, asked.shapes[i].k};
    request.shapes = shapes;
    struct rf_backend_options device = rf_api_device();
    const struct rf_backend_kind *kind = rf_backend_kinds[0];
    if (asked.device) code = rf_api_named_device(asked.device, &kind, &device.device, &error);
    if (!code && kind != rf_backend_kinds[0])
        device = (struct rf_backend_options){.device = device.device};
    if (!code) code = rf_api_threads(asked.threads, &request.threads, &error);
    if (!code && !kind->roofline)
        code = rf_fail(&error, RF_ERR_UNSUPPORTED, "%s: it cannot be measured", kind->name);
    if (!code) code = kind->roofline(&device, &request, &callbacks, &rf_system_allocator, &error);
    rf_free(&rf_system_allocator, shapes);
    return code ? rf_api_fail(&error) : 0;
}
