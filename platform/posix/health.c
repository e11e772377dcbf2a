/* Linux tells it in /proc and /sys (Documentation/admin-guide/pm, Documentation/filesystems/proc).
 */
#include "platform/health.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#    include <cpuid.h>
#endif

enum { LONGEST = 4096 };

/* The first word of a small file; "" if there is none. */
static void read_word(const char *root, const char *path, char word[64])
{
    char whole[LONGEST];
    int n = snprintf(whole, sizeof whole, "%s%s", root, path);
    word[0] = 0;
    FILE *file = n > 0 && (size_t)n < sizeof whole ? fopen(whole, "re") : NULL;
    if (!file) return;
    if (fscanf(file, "%63s", word) != 1) word[0] = 0;
    fclose(file);
}

static uint64_t read_count(const char *root, const char *path)
{
    char word[64];
    uint64_t count;
    read_word(root, path, word);
    return sscanf(word, "%" SCNu64, &count) == 1 ? count : 0;
}

static void cpu_file(char path[LONGEST], int cpu, const char *name)
{
    snprintf(path, LONGEST, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
}

/* Drivers that choose clocks themselves take the governor powersave as "as much as is needed";
 * there the energy preference counts. */
static void look_at_clocks(const char *root, int cpu, struct rf_health *health)
{
    char path[LONGEST], governor[64], preference[64];
    cpu_file(path, cpu, "cpufreq/scaling_governor");
    read_word(root, path, governor);
    cpu_file(path, cpu, "cpufreq/energy_performance_preference");
    read_word(root, path, preference);
    if (strcmp(preference, "power") == 0)
        snprintf(health->slow_clocks, sizeof health->slow_clocks, "the energy preference power");
    else if (!preference[0] && strcmp(governor, "powersave") == 0)
        snprintf(health->slow_clocks, sizeof health->slow_clocks, "the governor powersave");
}

static void look_at_cpus(const char *root, struct rf_health *health)
{
    char path[LONGEST];
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu", root);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int cpu, n = 0;
        if (sscanf(entry->d_name, "cpu%d%n", &cpu, &n) != 1 || entry->d_name[n]) continue;
        if (!health->slow_clocks[0]) look_at_clocks(root, cpu, health);
        cpu_file(path, cpu, "thermal_throttle/core_throttle_count");
        uint64_t throttled = read_count(root, path);
        if (throttled > health->throttled) health->throttled = throttled;
    }
    if (dir) closedir(dir);
}

/* On battery: no mains is on, and a battery discharges. */
static void look_at_power(const char *root, struct rf_health *health)
{
    static const char folder[] = "/sys/class/power_supply";
    char path[LONGEST], word[64];
    snprintf(path, sizeof path, "%s%s", root, folder);
    DIR *dir = opendir(path);
    int has_mains = 0, discharges = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/online", folder, entry->d_name);
        read_word(root, path, word);
        has_mains |= strcmp(word, "1") == 0;
        snprintf(path, sizeof path, "%s/%s/status", folder, entry->d_name);
        read_word(root, path, word);
        discharges |= strcmp(word, "Discharging") == 0;
    }
    if (dir) closedir(dir);
    health->is_on_battery = discharges && !has_mains;
}

static void look_at_memory(const char *root, struct rf_health *health)
{
    char path[LONGEST], line[256];
    uint64_t kib, swap = 0, swap_free = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) health->available_bytes = kib << 10;
        if (sscanf(line, "SwapTotal: %" SCNu64, &kib) == 1) swap = kib;
        if (sscanf(line, "SwapFree: %" SCNu64, &kib) == 1) swap_free = kib;
    }
    fclose(file);
    health->swapped_bytes = swap > swap_free ? (swap - swap_free) << 10 : 0;
}

static int has_hypervisor(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c >> 31 & 1;
#else
    return 0;
#endif
}

void rf_health_get(const char *root, struct rf_health *health)
{
    char word[64];
    *health = (struct rf_health){.load = -1, .is_virtual = has_hypervisor()};
    look_at_cpus(root, health);
    look_at_power(root, health);
    look_at_memory(root, health);
    read_word(root, "/proc/loadavg", word);
    if (sscanf(word, "%lf", &health->load) != 1) health->load = -1;
}
