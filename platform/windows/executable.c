/* Memory for generated code by VirtualAlloc and VirtualProtect, and its functions' unwinding data
 * in the system's form, which lies behind the code. */
#include "platform/executable.h"

#include <stdint.h>

#include "platform/windows/wide.h"

int rf_executable_new(struct rf_executable *executable, size_t bytes, struct rf_error *error)
{
    *executable = (struct rf_executable){0};
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    size_t page = system.dwPageSize;
    if (bytes == 0 || bytes > SIZE_MAX - page)
        return rf_fail(error, RF_ERR_ARGUMENT, "executable memory: %zu bytes are asked for", bytes);
    bytes = (bytes + page - 1) / page * page;
    void *memory = VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (!memory)
        return rf_fail(error, RF_ERR_MEMORY, "there is no memory for %zu bytes of generated code",
                       bytes);
    *executable = (struct rf_executable){.memory = memory, .bytes = bytes};
    return 0;
}

/* UNWIND_INFO (https://learn.microsoft.com/cpp/build/exception-handling-x64): a header and, last
 * instruction first, for each push the offset behind it and its register. */
static void write_unwinding(unsigned char *to, const struct rf_prologue *prologue)
{
    unsigned char ends[RF_MOST_PUSHES + 1] = {0};
    size_t n = (size_t)prologue->n;
    for (size_t i = 0; i < n; i++)
        ends[i + 1] = (unsigned char)(ends[i] + (prologue->registers[i] < 8 ? 1 : 2));
    to[0] = 1; /* version */
    to[1] = ends[n];
    to[2] = (unsigned char)n;
    to[3] = 0; /* no frame register */
    for (size_t i = 0; i < n; i++) {
        to[4 + 2 * i] = ends[n - i];
        to[5 + 2 * i] = (unsigned char)(prologue->registers[n - 1 - i] << 4);
    }
}

int rf_executable_describe(struct rf_executable *executable, const struct rf_prologue *prologue,
                           const struct rf_function *functions, size_t n, struct rf_error *error)
{
    enum { MOST_BYTES = 4 + 2 * (RF_MOST_PUSHES + 1) };
    if (n == 0) return 0;
    size_t at = (functions[n - 1].end + 3) / 4 * 4;
    if (at + MOST_BYTES + n * sizeof(RUNTIME_FUNCTION) > executable->bytes)
        return rf_fail(error, RF_ERR_MEMORY, "there is no memory behind generated code");
    RUNTIME_FUNCTION *table = (RUNTIME_FUNCTION *)(executable->memory + at + MOST_BYTES);
    write_unwinding(executable->memory + at, prologue);
    for (size_t i = 0; i < n; i++) {
        table[i].BeginAddress = functions[i].begin;
        table[i].EndAddress = functions[i].end;
        table[i].UnwindData = (DWORD)at;
    }
    if (RtlAddFunctionTable(table, (DWORD)n, (DWORD64)(uintptr_t)executable->memory))
        executable->description = (struct rf_description *)table;
    return 0;
}

int rf_executable_seal(struct rf_executable *executable, struct rf_error *error)
{
    DWORD before;
    char reason[RF_REASON];
    if (!VirtualProtect(executable->memory, executable->bytes, PAGE_EXECUTE_READ, &before))
        return rf_fail(error, RF_ERR_SYSTEM, "executable memory is refused here: %s",
                       rf_reason(GetLastError(), reason));
    FlushInstructionCache(GetCurrentProcess(), executable->memory, executable->bytes);
    return 0;
}

int rf_executable_profile(const struct rf_executable *executable, struct rf_error *error)
{
    (void)executable, (void)error;
    return 0;
}

void rf_executable_free(struct rf_executable *executable)
{
    if (executable->description)
        RtlDeleteFunctionTable((RUNTIME_FUNCTION *)executable->description);
    if (executable->memory) VirtualFree(executable->memory, 0, MEM_RELEASE);
    *executable = (struct rf_executable){0};
}
