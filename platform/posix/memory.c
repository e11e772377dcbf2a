/* Memory on Linux and other POSIX systems. */
#define _DEFAULT_SOURCE
#include "platform/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, CACHE_LINE = 64 };

/* Blocks of whole huge pages: mapped with one page too many, then cut to the page border. */
static void *posix_map_block(size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE) return NULL;
    size_t size = (bytes + HUGE_PAGE - 1) & ~((size_t)HUGE_PAGE - 1);
    unsigned char *map =
        mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
    size_t after = HUGE_PAGE - before;
    if (before) munmap(map, before);
    if (after) munmap(map + before + size, after);
#if defined(MADV_HUGEPAGE)
    madvise(map + before, size, MADV_HUGEPAGE); /* may fail: small pages work too */
#endif
    return map + before;
}

static void *posix_system_alloc(void *user, size_t bytes)
{
    (void)user;
    if (bytes >= HUGE_PAGE) return posix_map_block(bytes);
    return aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) & ~((size_t)CACHE_LINE - 1));
}

static void posix_system_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    if (bytes >= HUGE_PAGE)
        munmap(memory, (bytes + HUGE_PAGE - 1) & ~((size_t)HUGE_PAGE - 1));
    else
        free(memory);
}

const struct rf_allocator rf_system_allocator = {posix_system_alloc, posix_system_release, NULL};

/* The kernel marks the mode in force by brackets: "always [madvise] never"
 * (Documentation/admin-guide/mm/transhuge.rst). */
const char *rf_memory_huge_pages(void)
{
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char modes[64] = "[never]";
    if (file) {
        if (!fgets(modes, sizeof modes, file)) modes[0] = 0;
        fclose(file);
    }
    return strstr(modes, "[never]") ? "off on this system" : "where the system has them";
}

void rf_memory_give_back(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)data / page * page;
    /* The arguments cannot be wrong, and without memory being given back all is as it was. */
    madvise((void *)first, (uintptr_t)data + bytes - first, MADV_DONTNEED);
}

/* The first line of a small system file; 0 if there is none. */
static int read_number(const char *path, uint64_t *number)
{
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    /* "max" (no limit) does not scan. */
    int found = fscanf(file, "%" SCNu64, number) == 1;
    fclose(file);
    return found;
}

/* The lowest limit from a control group up to the root of its hierarchy. In a container the path
 * may be the host's and not exist; the walk then ends at the root, which is the container's group.
 */
static uint64_t memory_group_limit(const char *root, const char *group, const char *file,
                                   uint64_t limit)
{
    char at[1024];
    int n = snprintf(at, sizeof at, "%s", group);
    if (n < 0 || (size_t)n >= sizeof at) return limit;
    for (;;) {
        char path[2048];
        uint64_t number;
        snprintf(path, sizeof path, "%s%s/%s", root, at, file);
        if (read_number(path, &number) && number < limit) limit = number;
        char *slash = strrchr(at, '/');
        if (!slash) return limit;
        *slash = 0;
    }
}

uint64_t rf_memory_physical(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t limit = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return limit;
    /* Lines are "id:controllers:path"; version 2 is id 0 without controllers. */
    char line[1200];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        controllers++;
        if (*controllers == 0)
            limit = memory_group_limit("/sys/fs/cgroup", path, "memory.max", limit);
        else if (strcmp(controllers, "memory") == 0)
            limit =
                memory_group_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", limit);
    }
    fclose(file);
    return limit;
}

uint64_t rf_memory_peak_rss(void)
{
    /* The status file first: getrusage also counts what the process was before exec. */
    FILE *file = fopen("/proc/self/status", "re");
    uint64_t kibibytes = 0;
    if (file) {
        char line[256];
        while (kibibytes == 0 && fgets(line, sizeof line, file))
            if (sscanf(line, "VmHWM: %" SCNu64, &kibibytes) != 1) kibibytes = 0;
        fclose(file);
    }
    if (kibibytes == 0) {
        struct rusage usage;
        if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0)
            kibibytes = (uint64_t)usage.ru_maxrss;
    }
    return kibibytes << 10;
}
