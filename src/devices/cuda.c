/* CUDA devices. Their backend is a module that is loaded when a device is first asked for, so that
 * the library runs where there is no driver, and none of CUDA is in it. */
#include <assert.h>
#include <stdatomic.h>

#include "devices/cuda_module.h"
#include "devices/devices.h"
#include "platform/library.h"

static _Atomic(const struct rf_backend_kind *) module;

static int load_module(struct rf_error *error)
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

/* The kind of the module; cuda_describe or cuda_open has loaded it. */
static const struct rf_backend_kind *loaded_kind(void)
{
    const struct rf_backend_kind *found = atomic_load(&module);
    assert(found);
    return found;
}

static int cuda_describe(const struct rf_backend_options *options, struct rf_device_info *info,
                         struct rf_error *error)
{
    int code = load_module(error);
    return code ? code : loaded_kind()->describe(options, info, error);
}

static int cuda_open(struct rf_backend **backend, const struct rf_backend_options *options,
                     const struct rf_allocator *allocator, struct rf_error *error)
{
    int code = load_module(error);
    *backend = NULL;
    return code ? code : loaded_kind()->open(backend, options, allocator, error);
}

static int cuda_can_compute(const struct rf_params *params, struct rf_error *error)
{
    int code = load_module(error);
    return code ? code : loaded_kind()->can_compute(params, error);
}

static struct rf_weight_bytes cuda_weight_bytes(const struct rf_weight_plan *plan)
{
    return loaded_kind()->weight_bytes(plan);
}

static uint64_t cuda_kv_bytes(const struct rf_params *params, enum rf_kv_type kv, int32_t n_ctx)
{
    return loaded_kind()->kv_bytes(params, kv, n_ctx);
}

static int cuda_free_bytes(const struct rf_backend_options *options, uint64_t *bytes,
                           struct rf_error *error)
{
    int code = load_module(error);
    return code ? code : loaded_kind()->free_bytes(options, bytes, error);
}

static uint64_t cuda_view_bytes(const struct rf_view_shape *shape)
{
    return loaded_kind()->view_bytes(shape);
}

static int cuda_measure_read(const struct rf_backend_options *options, int32_t threads,
                             const struct rf_allocator *allocator, struct rf_read_speed *speed,
                             struct rf_error *error)
{
    int code = load_module(error);
    return code ? code : loaded_kind()->measure_read(options, threads, allocator, speed, error);
}

const struct rf_backend_kind rf_cuda_backend_kind = {
    .name = "cuda",
    .describe = cuda_describe,
    .open = cuda_open,
    .can_compute = cuda_can_compute,
    .weight_bytes = cuda_weight_bytes,
    .kv_bytes = cuda_kv_bytes,
    .free_bytes = cuda_free_bytes,
    .view_bytes = cuda_view_bytes,
    .measure_read = cuda_measure_read,
};
