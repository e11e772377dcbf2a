/* Calls about this machine: its processor, cores and devices, and what it reaches. */
#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "engine/cores.h"
#include "engine/devices.h"
#include "engine/measure.h"
#include "platform/file.h"
#include "platform/memory.h"

RF_API_OPTIONS(riffle_cores_options, .flags = 0)

int riffle_guard_files(void)
{
    struct rf_error error;
    return rf_guard_mappings(&error) ? rf_api_fail(&error) : 0;
}

int riffle_set_cpu(const char *name)
{
    struct rf_error error;
    return rf_processor_force(name, &error) ? rf_api_fail(&error) : 0;
}

int riffle_machine_get(riffle_machine *machine, size_t machine_size)
{
    if (!machine) return rf_api_error(RIFFLE_ERR_ARGUMENT, "machine is NULL");
    struct rf_error error;
    const struct rf_backend_options options = rf_processor_options();
    struct rf_device_info info;
    riffle_machine found = {.memory_bytes = rf_memory_physical(),
                            .peak_rss_bytes = rf_memory_peak_rss()};
    int code = rf_backend_kinds[0]->describe(&options, &info, &error);
    if (!code) code = rf_cores_threads(0, &found.cores, &error);
    if (code) return rf_api_fail(&error);
    snprintf(found.cpu, sizeof found.cpu, "%s", info.tier);
    snprintf(found.cpu_best, sizeof found.cpu_best, "%s", info.best_tier);
    snprintf(found.note, sizeof found.note, "%s", info.note);
    rf_api_give(machine, machine_size, &found, sizeof found);
    return 0;
}

int riffle_cores(const riffle_cores_options *options, riffle_cores_info *info, size_t info_size,
                 riffle_on_core on_core, void *user)
{
    riffle_cores_options asked;
    riffle_cores_info found;
    struct rf_error error;
    int code = rf_api_take_riffle_cores_options(&asked, options);
    if (code) return code;
    if (rf_cores_describe(&asked, &found, on_core, user, &error)) return rf_api_fail(&error);
    if (info) rf_api_give(info, info_size, &found, sizeof found);
    return 0;
}

int riffle_devices(riffle_on_device on_device, void *user)
{
    struct rf_error error;
    if (!on_device) return rf_api_error(RIFFLE_ERR_ARGUMENT, "on_device is NULL");
    return rf_device_list(on_device, user, &error) ? rf_api_fail(&error) : 0;
}

int riffle_measure_read(int32_t threads, riffle_read_speed *speed, size_t speed_size)
{
    riffle_read_speed found;
    struct rf_error error;
    if (!speed) return rf_api_error(RIFFLE_ERR_ARGUMENT, "speed is NULL");
    if (rf_measure_read(threads, &found, &error)) return rf_api_fail(&error);
    rf_api_give(speed, speed_size, &found, sizeof found);
    return 0;
}

int riffle_measure_model_read(const riffle_model *model, int32_t threads, riffle_read_speed *speed,
                              size_t speed_size)
{
    riffle_read_speed found;
    struct rf_error error;
    if (!model || !speed)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", model ? "speed" : "model");
    if (rf_engine_measure_read(model->engine, threads, &found, &error)) return rf_api_fail(&error);
    rf_api_give(speed, speed_size, &found, sizeof found);
    return 0;
}
