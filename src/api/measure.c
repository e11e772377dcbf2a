/* The measuring calls of riffle_experimental.h: how fast memory is read, and how long a pass takes.
 * Programs that show a speed call them for the ceiling beside it. */
#include <riffle_experimental.h>

#include <stdio.h>

#include "api/handles.h"
#include "platform/memory.h"

static int measure_device_read(const struct rf_backend_kind *kind,
                               const struct rf_backend_options *device, int32_t threads,
                               riffle_read_speed *speed, size_t speed_size)
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
    return measure_device_read(rf_backend_kinds[0], &device, threads, speed, speed_size);
}

int riffle_measure_model_read(const riffle_model *model, int32_t threads, riffle_read_speed *speed,
                              size_t speed_size)
{
    if (!model || !speed)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "speed" : "model");
    const struct rf_backend_options device = rf_api_model_device(model);
    if (!rf_api_is_shared(model))
        return measure_device_read(model->kind, &device, threads, speed, speed_size);
    /* Each of a pass's bytes is read where it is. */
    riffle_read_speed first, second;
    int code = riffle_measure_read(threads, &first, sizeof first);
    if (!code) code = measure_device_read(model->kind, &device, threads, &second, sizeof second);
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
