/* Windows has neither governors nor a load; its power plans do not hold clocks low for long. */
#include "platform/health.h"

#include <cpuid.h>
#include <windows.h>

void rf_health_get(const char *root, struct rf_health *health)
{
    SYSTEM_POWER_STATUS power;
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    unsigned a, b, c, d;
    (void)root;
    *health = (struct rf_health){.load = -1};
    health->is_virtual = __get_cpuid(1, &a, &b, &c, &d) && c >> 31 & 1;
    if (GetSystemPowerStatus(&power)) health->is_on_battery = power.ACLineStatus == 0;
    if (GlobalMemoryStatusEx(&memory)) health->available_bytes = memory.ullAvailPhys;
}
