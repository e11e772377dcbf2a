#include "shared_kind.h"

#include "cpu/cpu_backend.h"
#include "devices/shared.h"
#include "plain_backend.h"

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

#define OPEN(name, first, second)                                                          \
    static int name(struct rf_backend **backend, const struct rf_backend_options *options, \
                    const struct rf_allocator *allocator, struct rf_error *error)          \
    {                                                                                      \
        return open_both(backend, &first, &second, options, allocator, error);             \
    }
OPEN(open_cpu, rf_cpu_backend_kind, rf_cpu_backend_kind)
OPEN(open_plain, plain_backend_kind, plain_backend_kind)
OPEN(open_mixed, rf_cpu_backend_kind, plain_backend_kind)
#undef OPEN

static int describe_cpu(const struct rf_backend_options *options, struct rf_device_info *info,
                        struct rf_error *error)
{
    return rf_cpu_backend_kind.describe(options, info, error);
}

static int describe_plain(const struct rf_backend_options *options, struct rf_device_info *info,
                          struct rf_error *error)
{
    return plain_backend_kind.describe(options, info, error);
}

static struct rf_weight_bytes cpu_bytes(const struct rf_weight_request *request)
{
    return rf_cpu_backend_kind.weight_bytes(request);
}

static struct rf_weight_bytes plain_bytes(const struct rf_weight_request *request)
{
    return plain_backend_kind.weight_bytes(request);
}

static const char *cpu_format(enum rf_dtype dtype, enum rf_weight_form form)
{
    return rf_cpu_backend_kind.weight_format(dtype, form);
}

static const char *plain_format(enum rf_dtype dtype, enum rf_weight_form form)
{
    return plain_backend_kind.weight_format(dtype, form);
}

static uint64_t cpu_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    return rf_cpu_backend_kind.kv_bytes(params, kv, n_ctx);
}

static uint64_t plain_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    return plain_backend_kind.kv_bytes(params, kv, n_ctx);
}

const struct rf_backend_kind shared_cpu_kind = {.name = "shared-cpu",
                                                .describe = describe_cpu,
                                                .open = open_cpu,
                                                .weight_bytes = cpu_bytes,
                                                .weight_format = cpu_format,
                                                .kv_bytes = cpu_kv_bytes};
const struct rf_backend_kind shared_plain_kind = {.name = "shared-plain",
                                                  .describe = describe_plain,
                                                  .open = open_plain,
                                                  .weight_bytes = plain_bytes,
                                                  .weight_format = plain_format,
                                                  .kv_bytes = plain_kv_bytes};
const struct rf_backend_kind shared_mixed_kind = {.name = "shared-mixed",
                                                  .describe = describe_cpu,
                                                  .open = open_mixed,
                                                  .weight_bytes = plain_bytes,
                                                  .weight_format = plain_format,
                                                  .kv_bytes = plain_kv_bytes};
