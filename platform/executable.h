/* Memory for code that is generated at run time: first writable, then executable, never both. */
#ifndef RF_PLATFORM_EXECUTABLE_H
#define RF_PLATFORM_EXECUTABLE_H

#include <stddef.h>

#include "base/error.h"

/* Generated functions follow the System V calling convention on every system. On Windows their
 * callers save what that convention lets them overwrite: rsi, rdi and xmm6 to xmm15. */
#if defined(_WIN32)
#    define RF_GENERATED __attribute__((sysv_abi))
#else
#    define RF_GENERATED
#endif

struct rf_executable {
    unsigned char *memory;
    size_t bytes; /* whole pages */
};

/* At least `bytes` of writable memory that is not executable. */
int rf_executable_new(struct rf_executable *executable, size_t bytes, struct rf_error *error);
/* Makes it executable and read-only. RF_ERR_SYSTEM: the system forbids executable memory; the
 * memory then stays writable and must still be freed. */
int rf_executable_seal(struct rf_executable *executable, struct rf_error *error);
void rf_executable_free(struct rf_executable *executable);

#endif
