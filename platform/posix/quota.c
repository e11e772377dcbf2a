/* The processor time that a container may use, from the files of control groups, versions 1 and
 * 2. */
#include "platform/quota.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 4096 };

/* Reads the first one or two numbers of a small file: quota and period in microseconds. Returns how
 * many there are; "max" is not a number. */
static int read_numbers(const char *folder, const char *group, const char *file, long long *first,
                        long long *second)
{
    char path[2 * LONGEST];
    int n = snprintf(path, sizeof path, "%s%s/%s", folder, group, file);
    if (n < 0 || (size_t)n >= sizeof path) return 0;
    FILE *stream = fopen(path, "re");
    if (!stream) return 0;
    int found = fscanf(stream, "%lld %lld", first, second);
    fclose(stream);
    return found < 0 ? 0 : found;
}

static int lower(int limit, long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota > LLONG_MAX - period) return limit;
    long long cpus = (quota + period - 1) / period;
    return cpus < INT_MAX && (limit == 0 || cpus < limit) ? (int)cpus : limit;
}

/* The lowest quota from a control group up to the root of its hierarchy. In a container the path
 * may be the host's and not exist; the walk then ends at the root, which is the container's group.
 */
static int cpu_group_limit(const char *folder, const char *group, int version, int limit)
{
    char at[LONGEST];
    int n = snprintf(at, sizeof at, "%s", group);
    if (n < 0 || (size_t)n >= sizeof at) return limit;
    for (;;) {
        long long quota = 0, period = 0, ignored;
        int found = version == 2
                        ? read_numbers(folder, at, "cpu.max", &quota, &period) == 2
                        : read_numbers(folder, at, "cpu.cfs_quota_us", &quota, &ignored) >= 1 &&
                              read_numbers(folder, at, "cpu.cfs_period_us", &period, &ignored) >= 1;
        if (found) limit = lower(limit, quota, period);
        char *slash = strrchr(at, '/');
        if (!slash) return limit;
        *slash = 0;
    }
}

static int names_cpu(const char *controllers)
{
    for (const char *name = controllers; *name;) {
        size_t n = strcspn(name, ",");
        if (n == 3 && strncmp(name, "cpu", 3) == 0) return 1;
        name += n + (name[n] == ',');
    }
    return 0;
}

int rf_cpu_quota(const char *root)
{
    char path[LONGEST], line[LONGEST], folder[LONGEST];
    int limit = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    /* Lines are "id:controllers:path"; version 2 is id 0 without controllers. */
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        if (!*controllers) {
            snprintf(folder, sizeof folder, "%s/sys/fs/cgroup", root);
            limit = cpu_group_limit(folder, group, 2, limit);
        } else if (names_cpu(controllers)) {
            int n = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/%s", root, controllers);
            if (n > 0 && (size_t)n < sizeof folder)
                limit = cpu_group_limit(folder, group, 1, limit);
        }
    }
    fclose(file);
    return limit;
}
