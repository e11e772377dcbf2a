/* CUDA devices. Their backend is a module that is loaded when a device is first asked for, so that
 * the library runs where there is no driver, and none of CUDA is in it. */
#include <assert.h>
#include <stdatomic.h>

#include "devices/cuda_module.h"
#include "devices/devices.h"
#include "platform/library.h"

static _Atomic(const struct rf_backend_kind *) module;

static int load(struct rf_error *error)
{
    static const char *const symbol = RF_CUDA_ENTRY;
    const char *path = rf_cuda_module_path();
    struct rf_error why;
    rf_any_fn *entry;
    if (atomic_load(&module)) return 0;
    if (rf_library_load(path, &symbol, &entry, 1, &why))
        return rf_fail(error, RF_ERR_UNSUPPORTED, "no CUDA backend: %s", why.text);
    const struct rf_backend_kind *found = ((rf_cuda_kind_fn *)entry)(rf_cuda_fingerprint());
    if (!found)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "%s is of another build than this library", path);
    atomic_store(&module, found);
    return 0;
}

/* Of a module that `describe` or `open` has loaded. */
static const struct rf_backend_kind *loaded(void)
{
    const struct rf_backend_kind *found = atomic_load(&module);
    assert(found);
    return found;
}

static int describe(const struct rf_backend_options *options, struct rf_device_info *info,
                    struct rf_error *error)
{
    int code = load(error);
    return code ? code : loaded()->describe(options, info, error);
}

static int open_kind(struct rf_backend **backend, const struct rf_backend_options *options,
                     const struct rf_allocator *allocator, struct rf_error *error)
{
    int code = load(error);
    *backend = NULL;
    return code ? code : loaded()->open(backend, options, allocator, error);
}

static struct rf_weight_bytes weight_bytes(const struct rf_weight_request *request)
{
    return loaded()->weight_bytes(request);
}

static const char *weight_format(enum rf_dtype dtype, enum rf_weight_form form)
{
    return loaded()->weight_format(dtype, form);
}

static uint64_t kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    return loaded()->kv_bytes(params, kv, n_ctx);
}

static int free_bytes(const struct rf_backend_options *options, uint64_t *bytes,
                      struct rf_error *error)
{
    int code = load(error);
    return code ? code : loaded()->free_bytes(options, bytes, error);
}

static uint64_t view_bytes(const struct rf_view_shape *shape)
{
    return loaded()->view_bytes(shape);
}

static int measure_read(const struct rf_backend_options *options, int32_t threads,
                        const struct rf_allocator *allocator, struct rf_read_speed *speed,
                        struct rf_error *error)
{
    int code = load(error);
    return code ? code : loaded()->measure_read(options, threads, allocator, speed, error);
}

const struct rf_backend_kind rf_cuda_backend_kind = {
    .name = "cuda",
    .describe = describe,
    .open = open_kind,
    .weight_bytes = weight_bytes,
    .weight_format = weight_format,
    .kv_bytes = kv_bytes,
    .free_bytes = free_bytes,
    .view_bytes = view_bytes,
    .measure_read = measure_read,
};
