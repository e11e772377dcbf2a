/* Memory for code that is generated at run time: first writable, then executable, never both. Its
 * functions have names and unwinding data, so that debuggers, profilers and handlers of crashes see
 * them as they see compiled ones. jit/panels.c is the only generator. */
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

struct rf_description; /* the tables that the system was given */

struct rf_executable {
    unsigned char *memory;
    size_t bytes;                       /* whole pages */
    struct rf_description *description; /* NULL: nothing was told */
};

/* Allocates at least `bytes` of writable memory that is not executable. */
int rf_executable_new(struct rf_executable *executable, size_t bytes, struct rf_error *error);

/* The shape of functions that move the stack pointer only so: they begin with n pushes, and end
 * with the pops in reverse order and a `ret`. The registers have their numbers in instructions and
 * the order of the pushes. */
enum { RF_MOST_PUSHES = 15 };
struct rf_prologue {
    int n;
    unsigned char registers[RF_MOST_PUSHES];
};

enum { RF_FUNCTION_NAME = 48 };
struct rf_function {
    unsigned begin, end; /* offsets in the memory; the byte before `end` is the `ret` */
    char name[RF_FUNCTION_NAME];
};

/* Tells the system of functions of one shape, [n] in ascending order, before the memory is sealed.
 * RF_ERR_MEMORY where there is none for the tables. What was told is withdrawn when the memory is
 * freed.
 *
 * Windows: RtlAddFunctionTable; names have no reader there.
 * Linux: `.eh_frame` data goes to the compiler's unwinder (__register_frame), through which
 * backtrace(3), C++ exceptions and handlers of crashes walk the stack. The same data and the names
 * go to GDB in its JIT interface. The two symbols of that interface, `__jit_debug_register_code`
 * and `__jit_debug_descriptor`, are local to the library: another JIT in the process may have its
 * own, and GDB 11 and later follow all. GDB finds them unless the library is stripped. */
int rf_executable_describe(struct rf_executable *executable, const struct rf_prologue *prologue,
                           const struct rf_function *functions, size_t n, struct rf_error *error);
/* Makes it executable and read-only. RF_ERR_SYSTEM: the system forbids executable memory; the
 * memory then stays writable and must still be freed. */
int rf_executable_seal(struct rf_executable *executable, struct rf_error *error);
/* Tells perf(1) of the described functions, if the environment asks: RIFFLE_PERF=map appends them
 * to /tmp/perf-PID.map. Other JITs of the process may write that file, too. A file from before this
 * process is replaced. A link, or another user's file, is left alone, which is an error, as is an
 * unknown value of the variable. The code is not affected. Programs with the rights of another user
 * (setuid) do not ask. Linux only; elsewhere, and if nothing asks, 0. */
int rf_executable_profile(const struct rf_executable *executable, struct rf_error *error);
void rf_executable_free(struct rf_executable *executable);

#endif
