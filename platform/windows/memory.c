/* Memory on Windows. */
#include "platform/memory.h"

#include <malloc.h>

#include "platform/windows/wide.h"

#include <psapi.h>

enum { LARGE_BLOCK = 2 << 20, CACHE_LINE = 64 };

static void *system_alloc(void *user, size_t bytes)
{
    (void)user;
    if (bytes >= LARGE_BLOCK)
        return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    return _aligned_malloc(bytes ? bytes : 1, CACHE_LINE);
}

static void system_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    if (bytes >= LARGE_BLOCK)
        VirtualFree(memory, 0, MEM_RELEASE);
    else
        _aligned_free(memory);
}

const struct rf_allocator rf_system_allocator = {system_alloc, system_release, NULL};

uint64_t rf_memory_physical(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    uint64_t limit = GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job;
    if (QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job,
                                  NULL)) {
        DWORD flags = job.BasicLimitInformation.LimitFlags;
        if (flags & JOB_OBJECT_LIMIT_JOB_MEMORY && job.JobMemoryLimit < limit)
            limit = job.JobMemoryLimit;
        if (flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY && job.ProcessMemoryLimit < limit)
            limit = job.ProcessMemoryLimit;
    }
    return limit;
}

uint64_t rf_memory_peak_rss(void)
{
    PROCESS_MEMORY_COUNTERS counters;
    return GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)
               ? counters.PeakWorkingSetSize
               : 0;
}
