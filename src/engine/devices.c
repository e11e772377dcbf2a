/* Finds the device that a name means, and fills in the engine's record of it. Devices are described
 * before they are opened, so a choice that cannot be used fails here, with the device's own
 * sentence. */
#include "engine/devices.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/devices.h"
#include "engine/engine.h"
#include "platform/memory.h"

enum { LONGEST_NAME = 32 };

/* Tier that rf_processor_force asked for, a kind's own string; NULL: none. */
static _Atomic(const char *) forced_tier;

int rf_processor_force(const char *tier, struct rf_error *error)
{
    const struct rf_backend_options options = {.tier = tier, .asker = "riffle_set_cpu"};
    struct rf_device_info info;
    int code = rf_backend_kinds[0]->describe(&options, &info, error);
    if (!code) atomic_store(&forced_tier, tier ? info.tier : NULL);
    return code;
}

struct rf_backend_options rf_processor_options(void)
{
    const char *forced = atomic_load(&forced_tier), *wanted = getenv("RIFFLE_CPU");
    if (!forced && wanted && *wanted)
        return (struct rf_backend_options){.tier = wanted, .asker = "RIFFLE_CPU"};
    return (struct rf_backend_options){.tier = forced, .asker = "riffle_set_cpu"};
}

struct rf_backend_options rf_engine_device_options(const struct rf_engine *engine)
{
    if (engine->kind == rf_backend_kinds[0]) return rf_processor_options();
    return (struct rf_backend_options){.device = engine->device};
}

static int check_params(const struct rf_backend_kind *kind, const struct rf_params *params,
                        struct rf_error *error)
{
    return kind->can_compute ? kind->can_compute(params, error) : 0;
}

int rf_engine_can_compute(const struct rf_engine *engine, const struct rf_params *params,
                          struct rf_error *error)
{
    return check_params(engine->kind, params, error);
}

/* Takes a device if it can be used. */
static int try_device(struct rf_engine *engine, const struct rf_backend_kind *kind, int32_t index,
                      struct rf_error *error)
{
    struct rf_device_info info;
    const struct rf_backend_options options = {.device = index};
    int code = kind->describe(&options, &info, error);
    if (!code) code = check_params(kind, &engine->source->params, error);
    if (code) return code;
    engine->kind = kind;
    engine->device = index;
    engine->device_bytes = info.memory_bytes;
    snprintf(engine->device_name, sizeof engine->device_name, "%s:%d", kind->name, index);
    return 0;
}

void rf_engine_take_processor(struct rf_engine *engine, const char *note)
{
    engine->kind = rf_backend_kinds[0];
    engine->device = 0;
    engine->device_bytes = 0;
    snprintf(engine->device_name, sizeof engine->device_name, "%s", engine->kind->name);
    snprintf(engine->device_note, sizeof engine->device_note, "%s", note);
}

/* "auto": the first kind besides the processor that has a device. */
static void choose_any_device(struct rf_engine *engine)
{
    struct rf_error error = {.text = ""};
    for (size_t k = 1; rf_backend_kinds[k]; k++)
        if (!try_device(engine, rf_backend_kinds[k], 0, &error)) return;
    rf_engine_take_processor(engine, error.text);
}

int rf_engine_choose_device(struct rf_engine *engine, const char *name, struct rf_error *error)
{
    const struct rf_backend_kind *kind;
    int32_t index;
    if (!name || !*name || strcmp(name, rf_backend_kinds[0]->name) == 0) {
        rf_engine_take_processor(engine, "");
        return rf_engine_can_compute(engine, &engine->source->params, error);
    }
    if (strcmp(name, "auto") == 0) {
        choose_any_device(engine);
        return 0;
    }
    int code = rf_find_device(name, &kind, &index, error);
    return code ? code : try_device(engine, kind, index, error);
}

/* The devices of a kind until there is none of that number; 1: the caller has enough. */
static int list_devices_of_kind(const struct rf_backend_kind *kind, riffle_on_device on_device,
                                void *user)
{
    for (int32_t index = 0;; index++) {
        char name[LONGEST_NAME];
        struct rf_error error = {.text = ""};
        struct rf_device_info info = {.name = ""};
        const struct rf_backend_options options = {.device = index};
        int code = kind->describe(&options, &info, &error);
        if (code && index > 0 && code == RF_ERR_ARGUMENT) return 0;
        snprintf(name, sizeof name, "%s:%d", kind->name, index);
        const riffle_device device = {.name = code == RF_ERR_UNSUPPORTED ? kind->name : name,
                                      .description = code ? "" : info.name,
                                      .memory_bytes = code ? 0 : info.memory_bytes,
                                      .problem = code ? error.text : ""};
        if (on_device(user, &device)) return 1;
        if (code) return 0;
    }
}

int rf_device_list(riffle_on_device on_device, void *user, struct rf_error *error)
{
    const struct rf_backend_options options = rf_processor_options();
    struct rf_device_info info;
    int code = rf_backend_kinds[0]->describe(&options, &info, error);
    if (code) return code;
    const riffle_device processor = {.name = rf_backend_kinds[0]->name,
                                     .description = info.tier,
                                     .memory_bytes = rf_memory_physical(),
                                     .problem = ""};
    int stopped = on_device(user, &processor);
    for (size_t k = 1; !stopped && rf_backend_kinds[k]; k++)
        stopped = list_devices_of_kind(rf_backend_kinds[k], on_device, user);
    return 0;
}
