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
    size_t bytes;    /* whole pages */
    void *unwinding; /* what the system was told of the functions; NULL: nothing */
};

/* At least `bytes` of writable memory that is not executable. */
int rf_executable_new(struct rf_executable *executable, size_t bytes, struct rf_error *error);
/* How functions begin that only push registers: the numbers of these as in instructions, in the
 * order of the pushes. */
enum { RF_MOST_PUSHES = 15 };
struct rf_prologue {
    int n;
    unsigned char registers[RF_MOST_PUSHES];
};
/* Tells the system where functions with one prologue begin, in ascending order, and where the last
 * one ends, before the memory is sealed. Then a debugger and a handler of crashes can walk the
 * stack through them. It needs a little memory behind them: RF_ERR_MEMORY if there is none. Where
 * nobody asks for this, nothing happens. */
int rf_executable_describe(struct rf_executable *executable, const struct rf_prologue *prologue,
                           const unsigned *begins, size_t n, size_t end, struct rf_error *error);
/* Makes it executable and read-only. RF_ERR_SYSTEM: the system forbids executable memory; the
 * memory then stays writable and must still be freed. */
int rf_executable_seal(struct rf_executable *executable, struct rf_error *error);
void rf_executable_free(struct rf_executable *executable);

#endif
