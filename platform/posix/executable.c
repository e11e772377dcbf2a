/* Memory for generated code by mmap and mprotect. The descriptions of its functions are made in
 * description.c and freed here, before the code. */
#define _DEFAULT_SOURCE
#include "platform/executable.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/posix/description.h"

int rf_executable_new(struct rf_executable *executable, size_t bytes, struct rf_error *error)
{
    *executable = (struct rf_executable){0};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0 || bytes > SIZE_MAX - page)
        return rf_fail(error, RF_ERR_ARGUMENT, "executable memory: %zu bytes are asked for", bytes);
    bytes = (bytes + page - 1) / page * page;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rf_fail(error, RF_ERR_MEMORY, "there is no memory for %zu bytes of generated code",
                       bytes);
    *executable = (struct rf_executable){.memory = memory, .bytes = bytes};
    return 0;
}

int rf_executable_seal(struct rf_executable *executable, struct rf_error *error)
{
    if (mprotect(executable->memory, executable->bytes, PROT_READ | PROT_EXEC) == 0) return 0;
    char reason[128];
    if (strerror_r(errno, reason, sizeof reason)) reason[0] = 0;
    return rf_fail(error, RF_ERR_SYSTEM, "executable memory is refused here: %s", reason);
}

void rf_executable_free(struct rf_executable *executable)
{
    rf_description_free(executable->description);
    if (executable->memory) munmap(executable->memory, executable->bytes);
    *executable = (struct rf_executable){0};
}
