/* rf_health_get on folders that stand for /proc and /sys. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/health.h"
#include "support/check.h"

static char root[64];

/* Writes a file, and the folders above it. */
static void put(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(whole, 0700);
    }
    FILE *file = fopen(whole, "w");
    if (!file) exit(1);
    fputs(text, file);
    fclose(file);
}

static struct rf_health health_here(void)
{
    struct rf_health health;
    memset(&health, 0xaa, sizeof health);
    rf_health_get(root, &health);
    return health;
}

static void test_nothing(void)
{
    struct rf_health health = health_here();
    CHECK(health.slow_clocks[0] == 0 && !health.is_on_battery && health.throttled == 0);
    CHECK(health.load < 0 && health.available_bytes == 0 && health.swapped_bytes == 0);
}

static void test_clocks(void)
{
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    put("/sys/devices/system/cpu/cpu11/cpufreq/scaling_governor", "performance\n");
    put("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n");
    CHECK(health_here().slow_clocks[0] == 0);
    put("/sys/devices/system/cpu/cpu11/cpufreq/scaling_governor", "powersave\n");
    CHECK(strcmp(health_here().slow_clocks, "the governor powersave") == 0);
    put("/sys/devices/system/cpu/cpu11/cpufreq/energy_performance_preference",
        "balance_performance\n");
    CHECK(health_here().slow_clocks[0] == 0);
    put("/sys/devices/system/cpu/cpu11/cpufreq/energy_performance_preference", "power\n");
    CHECK(strcmp(health_here().slow_clocks, "the energy preference power") == 0);
    put("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
    put("/sys/devices/system/cpu/cpu11/thermal_throttle/core_throttle_count", "12\n");
    CHECK(health_here().throttled == 12);
}

static void test_power(void)
{
    put("/sys/class/power_supply/BAT0/status", "Discharging\n");
    CHECK(health_here().is_on_battery);
    put("/sys/class/power_supply/AC/online", "1\n");
    CHECK(!health_here().is_on_battery);
    put("/sys/class/power_supply/AC/online", "0\n");
    CHECK(health_here().is_on_battery);
    put("/sys/class/power_supply/BAT0/status", "Charging\n");
    CHECK(!health_here().is_on_battery);
}

static void test_memory_and_load(void)
{
    put("/proc/meminfo",
        "MemTotal:       1000 kB\nMemAvailable:    600 kB\n"
        "SwapCached:        5 kB\nSwapTotal:       500 kB\nSwapFree:        100 kB\n");
    put("/proc/loadavg", "1.25 0.80 0.60 3/400 1234\n");
    struct rf_health health = health_here();
    CHECK(health.available_bytes == 600 << 10 && health.swapped_bytes == 400 << 10);
    CHECK(health.load == 1.25);
    put("/proc/meminfo",
        "MemAvailable: x\nSwapTotal: 1 kB\nSwapFree: 99999999999999999999999 kB\n");
    put("/proc/loadavg", "nan?");
    health = health_here();
    CHECK(health.available_bytes == 0 && health.swapped_bytes == 0);
}

int main(void)
{
    snprintf(root, sizeof root, "/tmp/riffle-health-XXXXXX");
    if (!mkdtemp(root)) return 1;
    test_nothing();
    test_clocks();
    test_power();
    test_memory_and_load();
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command) ? 1 : check_result();
}
