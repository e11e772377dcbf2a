/* What a container may use of the processors' time. */
#ifndef RF_PLATFORM_QUOTA_H
#define RF_PLATFORM_QUOTA_H

/* Whole CPUs that the control groups of this process allow (cpu.max of version 2, cpu.cfs_quota_us
 * of version 1; the least on the way to the root, rounded up), or 0 without a limit. `root` comes
 * before /proc and /sys: "" but for tests. */
int rf_cpu_quota(const char *root);

#endif
