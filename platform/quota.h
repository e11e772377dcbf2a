/* The container's limit on processor time. */
#ifndef RF_PLATFORM_QUOTA_H
#define RF_PLATFORM_QUOTA_H

/* Whole CPUs that the control groups of this process allow: the least of cpu.max (version 2) and
 * cpu.cfs_quota_us (version 1) up to the root, rounded up; 0: no limit. `root` is put before /proc
 * and /sys: "" except in tests. */
int rf_cpu_quota(const char *root);

#endif
