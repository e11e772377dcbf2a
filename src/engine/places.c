/* The memories that a model is in (places.h), computed from costs that are already known. */
#include "engine/places.h"

#include <string.h>

#include "infer/program.h"
#include "platform/memory.h"

int rf_engine_is_shared(const struct rf_engine *engine)
{
    return engine->device_layers < engine->source->params.n_layer;
}

int rf_kv_type_find(const char *name, enum rf_kv_type *kv, struct rf_error *error)
{
    static const char *const names[] = {
        [RF_KV_F16] = "f16", [RF_KV_BF16] = "bf16", [RF_KV_Q8] = "q8", [RF_KV_Q4] = "q4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *kv = (enum rf_kv_type)i;
            return 0;
        }
    return rf_fail(error, RF_ERR_ARGUMENT, "kv \"%s\": known are f16, bf16, q8 and q4", name);
}

uint64_t rf_kv_bytes_of_layers(const struct rf_backend_kind *kind, const struct rf_params *params,
                               const struct rf_sequence_shape *shape, int32_t n)
{
    struct rf_params some = *params;
    if (n < some.n_layer) some.n_layer = n;
    return n > 0 ? kind->kv_bytes(&some, shape->kv, shape->n_ctx) : 0;
}

int rf_engine_places(const struct rf_engine *engine, const struct rf_sequence_shape *shape,
                     struct rf_place places[2])
{
    const struct rf_weight_cost *cost = &engine->cost;
    const struct rf_params *params = &engine->source->params;
    int32_t n = engine->device_layers;
    int is_device = engine->device_bytes != 0;
    struct rf_place processor = {.name = "this machine", .memory = rf_memory_physical()},
                    device = {.name = engine->device_name, .memory = engine->device_bytes};
    if (!rf_engine_is_shared(engine)) {
        places[0] = is_device ? device : processor;
        places[0].weights = cost->resident_bytes;
        places[0].drafts = engine->drafts.bytes;
        places[0].kv = shape ? rf_kv_bytes_of_layers(engine->kind, params, shape, n) : 0;
        return 1;
    }
    processor.weights = cost->resident_bytes - cost->second_bytes;
    processor.drafts = engine->drafts.bytes - engine->drafts.second_bytes;
    device.weights = cost->second_bytes;
    device.drafts = engine->drafts.second_bytes;
    if (shape) {
        processor.kv =
            rf_kv_bytes_of_layers(rf_backend_kinds[0], params, shape, params->n_layer - n);
        device.kv = rf_kv_bytes_of_layers(engine->kind, params, shape, n);
    }
    places[0] = processor;
    places[1] = device;
    return is_device ? 2 : 1; /* the device does not say how much memory it has */
}
