/* Loads a shared library, for good, but not from the working directory. */
#include "platform/library.h"

#include <stdlib.h>

#include "platform/windows/wide.h"

int rf_library_load(const char *name, const char *const *symbols, rf_any_fn **functions, size_t n,
                    struct rf_error *error)
{
    char reason[RF_REASON];
    wchar_t *wide = rf_wide(name);
    /* Not from the working directory. Never freed: it may have threads. */
    HMODULE library = wide ? LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS) : NULL;
    DWORD cause = GetLastError();
    free(wide);
    if (!library)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "%s: cannot be loaded: %s", name,
                       rf_reason(cause, reason));
    for (size_t i = 0; i < n; i++) {
        functions[i] = (rf_any_fn *)GetProcAddress(library, symbols[i]);
        if (!functions[i])
            return rf_fail(error, RF_ERR_UNSUPPORTED, "%s: has no function %s", name, symbols[i]);
    }
    return 0;
}
