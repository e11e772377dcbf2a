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
    *executable = (struct rf_executable){memory, bytes};
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

void rf_executable_free(struct rf_executable *executable)
{
    if (executable->memory) VirtualFree(executable->memory, 0, MEM_RELEASE);
    *executable = (struct rf_executable){0};
}
