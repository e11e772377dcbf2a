/* Memory for code that is generated at run time: written first, then executable, never both. */
#ifndef RF_PLATFORM_EXECUTABLE_H
#define RF_PLATFORM_EXECUTABLE_H

#include <stddef.h>

#include "base/error.h"

struct rf_executable {
    unsigned char *memory;
    size_t bytes; /* whole pages */
};

/* At least `bytes` of writable memory that is not executable. */
int rf_executable_new(struct rf_executable *executable, size_t bytes, struct rf_error *error);
/* Makes it executable and no longer writable. Fails with RF_ERR_SYSTEM where the system forbids
 * executable memory; the memory stays writable then, to be freed. */
int rf_executable_seal(struct rf_executable *executable, struct rf_error *error);
void rf_executable_free(struct rf_executable *executable);

#endif
