/* The devices that models are opened on. */
#include <riffle_experimental.h>

#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "devices/devices.h"
#include "platform/memory.h"

enum { LONGEST_NAME = 32 };

struct rf_backend_options rf_api_model_device(const riffle_model *model)
{
    if (model->kind == rf_backend_kinds[0]) return rf_api_device();
    return (struct rf_backend_options){.device = model->device};
}

/* Takes a device if it can be used. */
static int try_device(riffle_model *model, const struct rf_backend_kind *kind, int32_t index,
                      struct rf_error *error)
{
    struct rf_device_info info;
    const struct rf_backend_options options = {.device = index};
    int code = kind->describe(&options, &info, error);
    if (code) return code;
    model->kind = kind;
    model->device = index;
    model->device_bytes = info.memory_bytes;
    snprintf(model->device_name, sizeof model->device_name, "%s:%d", kind->name, index);
    return 0;
}

void rf_api_take_processor(riffle_model *model, const char *note)
{
    model->kind = rf_backend_kinds[0];
    model->device = 0;
    model->device_bytes = 0;
    snprintf(model->device_name, sizeof model->device_name, "%s", model->kind->name);
    snprintf(model->device_note, sizeof model->device_note, "%s", note);
}

/* "auto": the first kind besides the processor that has a device. */
static void choose_any(riffle_model *model)
{
    struct rf_error error = {.text = ""};
    for (size_t k = 1; rf_backend_kinds[k]; k++)
        if (!try_device(model, rf_backend_kinds[k], 0, &error)) return;
    rf_api_take_processor(model, error.text);
}

int rf_api_choose_device(riffle_model *model, const char *name, struct rf_error *error)
{
    const struct rf_backend_kind *kind;
    int32_t index;
    if (!name || !*name || strcmp(name, rf_backend_kinds[0]->name) == 0) {
        rf_api_take_processor(model, "");
        return 0;
    }
    if (strcmp(name, "auto") == 0) {
        choose_any(model);
        return 0;
    }
    int code = rf_find_device(name, &kind, &index, error);
    return code ? code : try_device(model, kind, index, error);
}

/* The devices of a kind until there is none of that number; 1: the caller has enough. */
static int list_kind(const struct rf_backend_kind *kind, riffle_on_device on_device, void *user)
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

int riffle_devices(riffle_on_device on_device, void *user)
{
    if (!on_device) return rf_api_error(RIFFLE_ERR_ARGUMENT, "on_device is NULL");
    const struct rf_backend_options options = rf_api_device();
    struct rf_device_info info;
    struct rf_error error;
    int code = rf_backend_kinds[0]->describe(&options, &info, &error);
    if (code) return rf_api_fail(&error);
    const riffle_device processor = {.name = rf_backend_kinds[0]->name,
                                     .description = info.tier,
                                     .memory_bytes = rf_memory_physical(),
                                     .problem = ""};
    int stopped = on_device(user, &processor);
    for (size_t k = 1; !stopped && rf_backend_kinds[k]; k++)
        stopped = list_kind(rf_backend_kinds[k], on_device, user);
    return 0;
}
