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
