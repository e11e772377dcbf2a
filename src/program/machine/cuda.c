/* Loads the CUDA module for its part of the roofline. The library has loaded the same file if a
 * device of its kind was named; the system's loader then returns that one. */
#include "machine/cuda.h"

#include "platform/library.h"

const struct rf_roofline_device *rf_roofline_cuda(struct rf_error *error)
{
    static const char *const symbol = RF_CUDA_ROOFLINE_ENTRY;
    const char *path = rf_cuda_module_path();
    struct rf_error why;
    rf_any_fn *entry;
    const struct rf_roofline_device *found = NULL;
    if (rf_library_load(path, &symbol, &entry, 1, &why))
        rf_fail(error, RF_ERR_UNSUPPORTED, "no CUDA backend: %s", why.text);
    else if (!(found = ((rf_cuda_roofline_fn *)entry)(rf_cuda_roofline_fingerprint())))
        rf_fail(error, RF_ERR_UNSUPPORTED, "%s is of another build than this program", path);
    return found;
}
