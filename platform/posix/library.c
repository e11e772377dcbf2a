/* Loads a shared library with dlopen, for good. src/devices loads the CUDA backend so, and
 * src/quant OpenBLAS. */
#include "platform/library.h"

#include <dlfcn.h>
#include <string.h>

_Static_assert(sizeof(rf_any_fn *) == sizeof(void *), "POSIX: dlsym returns functions, too");

int rf_library_load(const char *name, const char *const *symbols, rf_any_fn **functions, size_t n,
                    struct rf_error *error)
{
    /* Never closed: it may have threads. Loading it again only counts. */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return rf_fail(error, RF_ERR_UNSUPPORTED, "%s", why ? why : name);
    }
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(library, symbols[i]);
        if (!symbol)
            return rf_fail(error, RF_ERR_UNSUPPORTED, "%s: has no function %s", name, symbols[i]);
        memcpy(&functions[i], &symbol, sizeof symbol);
    }
    return 0;
}
