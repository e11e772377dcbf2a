/* Memory on Windows. */
#include "platform/memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>

#include "platform/windows/wide.h"

#include <psapi.h>

enum { LARGE_BLOCK = 2 << 20, CACHE_LINE = 64 };

/* Turns on the right to lock pages in memory, which large pages need. 0 where the user does not
 * have it. https://learn.microsoft.com/windows/win32/memory/large-page-support */
static int may_lock_pages(void)
{
    HANDLE token;
    TOKEN_PRIVILEGES wanted = {.PrivilegeCount = 1,
                               .Privileges[0].Attributes = SE_PRIVILEGE_ENABLED};
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token))
        return 0;
    int may = LookupPrivilegeValueW(NULL, L"SeLockMemoryPrivilege", &wanted.Privileges[0].Luid) &&
              AdjustTokenPrivileges(token, FALSE, &wanted, 0, NULL, NULL) &&
              GetLastError() == ERROR_SUCCESS; /* else ERROR_NOT_ALL_ASSIGNED */
    CloseHandle(token);
    return may;
}

/* Bytes of a large page; 0 where there are none for this process. */
static size_t large_page(void)
{
    static atomic_size_t known = SIZE_MAX; /* threads that find it at once find the same */
    if (known == SIZE_MAX) known = may_lock_pages() ? GetLargePageMinimum() : 0;
    return known;
}

const char *rf_memory_huge_pages(void)
{
    return large_page() ? "where the system has them"
                        : "not permitted (the right \"Lock pages in memory\")";
}

/* Free memory may be in pieces, so large pages may be refused at any time. */
static void *windows_map_block(size_t bytes)
{
    size_t page = large_page();
    void *block = NULL;
    if (page && bytes <= SIZE_MAX - page)
        block = VirtualAlloc(NULL, (bytes + page - 1) / page * page,
                             MEM_RESERVE | MEM_COMMIT | MEM_LARGE_PAGES, PAGE_READWRITE);
    return block ? block : VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

static void *windows_system_alloc(void *user, size_t bytes)
{
    (void)user;
    if (bytes >= LARGE_BLOCK) return windows_map_block(bytes);
    return _aligned_malloc(bytes ? bytes : 1, CACHE_LINE);
}

static void windows_system_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    if (bytes >= LARGE_BLOCK)
        VirtualFree(memory, 0, MEM_RELEASE);
    else
        _aligned_free(memory);
}

const struct rf_allocator rf_system_allocator = {windows_system_alloc, windows_system_release,
                                                 NULL};

/* Unlocking pages that are not locked removes them from the working set
 * (https://learn.microsoft.com/windows/win32/api/memoryapi/nf-memoryapi-virtualunlock). */
void rf_memory_give_back(const void *data, size_t bytes)
{
    VirtualUnlock((void *)(uintptr_t)data, bytes);
}

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
