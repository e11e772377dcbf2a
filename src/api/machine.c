#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/handles.h"
#include "cpu/tiers.h"
#include "microkernels/kernels.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "platform/plan.h"

/* The tier of riffle_set_cpu: an enum rf_tier, or -1. One for the process. */
static atomic_int forced_tier = -1;

const char *riffle_version(void)
{
#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
    return VERSION(RIFFLE_VERSION_MAJOR, RIFFLE_VERSION_MINOR, RIFFLE_VERSION_PATCH);
#undef VERSION
#undef TEXT
}

int rf_api_tier(int *tier, struct rf_error *error)
{
    int wanted = atomic_load(&forced_tier);
    const char *name = getenv("RIFFLE_CPU");
    if (wanted < 0 && name && *name) {
        wanted = rf_cpu_find_tier("RIFFLE_CPU", name, error);
        if (wanted < 0) return wanted;
    }
    *tier = wanted >= 0 ? wanted : rf_kernels_best_tier();
    return 0;
}

int riffle_set_cpu(const char *name)
{
    if (!name) {
        atomic_store(&forced_tier, -1);
        return 0;
    }
    struct rf_error error;
    int tier = rf_cpu_find_tier("riffle_set_cpu", name, &error);
    if (tier < 0) return rf_api_fail(&error);
    atomic_store(&forced_tier, tier);
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
    int tier;
    riffle_machine found = {.memory_bytes = rf_memory_physical(),
                            .peak_rss_bytes = rf_memory_peak_rss()};
    int code = rf_api_tier(&tier, &error);
    if (!code) code = rf_api_threads(0, &found.cores, &error);
    if (code) return rf_api_fail(&error);
    snprintf(found.cpu, sizeof found.cpu, "%s", rf_tier_name((enum rf_tier)tier));
    snprintf(found.cpu_best, sizeof found.cpu_best, "%s",
             rf_tier_name((enum rf_tier)rf_kernels_best_tier()));
    snprintf(found.note, sizeof found.note, "%s", rf_cpu_kernels_note(tier));
    rf_api_give(machine, machine_size, &found, sizeof found);
    return 0;
}
