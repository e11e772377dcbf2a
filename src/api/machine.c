#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/handles.h"
#include "platform/memory.h"
#include "platform/plan.h"

/* What riffle_set_cpu asked for: a kind's own name of a tier, or NULL. Process-wide, as the
 * processor is. */
static _Atomic(const char *) forced_tier;

const char *riffle_version(void)
{
#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
    return VERSION(RIFFLE_VERSION_MAJOR, RIFFLE_VERSION_MINOR, RIFFLE_VERSION_PATCH);
#undef VERSION
#undef TEXT
}

struct rf_backend_options rf_api_device(void)
{
    const char *forced = atomic_load(&forced_tier), *wanted = getenv("RIFFLE_CPU");
    if (!forced && wanted && *wanted)
        return (struct rf_backend_options){.tier = wanted, .asker = "RIFFLE_CPU"};
    return (struct rf_backend_options){.tier = forced, .asker = "riffle_set_cpu"};
}

int riffle_set_cpu(const char *name)
{
    const struct rf_backend_options options = {.tier = name, .asker = "riffle_set_cpu"};
    struct rf_device_info info;
    struct rf_error error;
    int code = rf_backend_kinds[0]->describe(&options, &info, &error);
    if (code) return rf_api_fail(&error);
    atomic_store(&forced_tier, name ? info.tier : NULL);
    return 0;
}

int rf_api_threads(int32_t wanted, int32_t *threads, struct rf_error *error)
{
    struct rf_plan plan;
    int code = rf_plan_new(&plan, NULL, wanted, &rf_system_allocator, error);
    if (code) return code;
    *threads = plan.n_seats;
    rf_plan_free(&plan);
    return 0;
}

int riffle_machine_get(riffle_machine *machine, size_t machine_size)
{
    if (!machine) return rf_api_error(RIFFLE_ERR_ARGUMENT, "machine is NULL");
    struct rf_error error;
    const struct rf_backend_options options = rf_api_device();
    struct rf_device_info info;
    riffle_machine found = {.memory_bytes = rf_memory_physical(),
                            .peak_rss_bytes = rf_memory_peak_rss()};
    int code = rf_backend_kinds[0]->describe(&options, &info, &error);
    if (!code) code = rf_api_threads(0, &found.cores, &error);
    if (code) return rf_api_fail(&error);
    snprintf(found.cpu, sizeof found.cpu, "%s", info.tier);
    snprintf(found.cpu_best, sizeof found.cpu_best, "%s", info.best_tier);
    snprintf(found.note, sizeof found.note, "%s", info.note);
    rf_api_give(machine, machine_size, &found, sizeof found);
    return 0;
}
