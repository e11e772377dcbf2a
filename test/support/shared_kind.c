#include "support/shared_kind.h"

#include "cpu/cpu_backend.h"
#include "devices/devices.h"
#include "devices/shared.h"
#include "support/plain_backend.h"

static int32_t layers = 1;

void shared_set_layers(int32_t n)
{
    layers = n;
}

static int open_both(struct rf_backend **backend, const struct rf_backend_kind *first,
                     const struct rf_backend_kind *second, const struct rf_backend_options *options,
                     const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_backend *parts[2] = {NULL, NULL};
    int code = first->open(&parts[0], options, allocator, error);
    *backend = NULL;
    if (!code) code = second->open(&parts[1], options, allocator, error);
    if (!code) code = rf_shared_backend_new(backend, parts[0], parts[1], layers, allocator, error);
    for (int p = 0; code && p < 2; p++)
        if (parts[p]) parts[p]->ops->free(parts[p]);
    return code;
}

/* The kind describes itself as its second device does. */
#define KIND(kind, first, second, prefix)                                                  \
    static int prefix##_open(struct rf_backend **backend,                                  \
                             const struct rf_backend_options *options,                     \
                             const struct rf_allocator *allocator, struct rf_error *error) \
    {                                                                                      \
        return open_both(backend, &first, &second, options, allocator, error);             \
    }                                                                                      \
    static int prefix##_describe(const struct rf_backend_options *options,                 \
                                 struct rf_device_info *info, struct rf_error *error)      \
    {                                                                                      \
        return second.describe(options, info, error);                                      \
    }                                                                                      \
    static struct rf_weight_bytes prefix##_weight_bytes(const struct rf_weight_plan *plan) \
    {                                                                                      \
        return second.weight_bytes(plan);                                                  \
    }                                                                                      \
    static uint64_t prefix##_kv_bytes(const struct rf_params *params, enum rf_kv_type kv,  \
                                      int32_t n_ctx)                                       \
    {                                                                                      \
        return second.kv_bytes(params, kv, n_ctx);                                         \
    }                                                                                      \
    const struct rf_backend_kind kind = {.name = #prefix,                                  \
                                         .describe = prefix##_describe,                    \
                                         .open = prefix##_open,                            \
                                         .weight_bytes = prefix##_weight_bytes,            \
                                         .kv_bytes = prefix##_kv_bytes}

KIND(shared_cpu_kind, rf_cpu_backend_kind, rf_cpu_backend_kind, processors);
KIND(shared_plain_kind, plain_backend_kind, plain_backend_kind, plains);
KIND(shared_mixed_kind, rf_cpu_backend_kind, plain_backend_kind, processor_and_plain);
KIND(shared_cuda_kind, rf_cpu_backend_kind, rf_cuda_backend_kind, processor_and_cuda);
