/* The processor time that a container may use, from its job object. */
#include "platform/quota.h"

#include <stdint.h>

#include "platform/windows/wide.h"

/* A job object's hard cap, which containers set, is in hundredths of a per cent of all CPUs. */
int rf_cpu_quota(const char *root)
{
    enum {
        ALL = 10000,
        HARD = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP
    };
    (void)root;
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate;
    if (!QueryInformationJobObject(NULL, JobObjectCpuRateControlInformation, &rate, sizeof rate,
                                   NULL) ||
        (rate.ControlFlags & HARD) != HARD)
        return 0;
    uint64_t cpus = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return (int)((rate.CpuRate * cpus + ALL - 1) / ALL);
}
