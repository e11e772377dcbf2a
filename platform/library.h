/* A shared library that is loaded only where it is needed. */
#ifndef RF_PLATFORM_LIBRARY_H
#define RF_PLATFORM_LIBRARY_H

#include <stddef.h>

#include "base/error.h"

typedef void rf_any_fn(void); /* cast to its own type before it is called */

/* Loads the library `name` for the rest of the process and finds its functions `symbols`, [n].
 * RF_ERR_UNSUPPORTED, with a sentence, where the library or a function is missing. */
int rf_library_load(const char *name, const char *const *symbols, rf_any_fn **functions, size_t n,
                    struct rf_error *error);

#endif
