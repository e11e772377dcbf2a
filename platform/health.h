/* Causes of a slow machine, as the system tells them. */
#ifndef RF_PLATFORM_HEALTH_H
#define RF_PLATFORM_HEALTH_H

#include <stdint.h>

struct rf_health {
    /* The setting that keeps clocks low: "the governor powersave", "the energy preference power";
     * "" if there is none, or it is unknown. */
    char slow_clocks[64];
    int is_on_battery;
    int is_virtual;           /* the processor says that a hypervisor runs it */
    uint64_t throttled;       /* times that a core was slowed because it was hot, since the start */
    double load;              /* threads that ran or waited in the last minute; -1: unknown */
    uint64_t available_bytes; /* memory that programs can still get; 0: unknown */
    uint64_t swapped_bytes;
};

/* `root` is put before /proc and /sys: "" except in tests. Windows ignores it. */
void rf_health_get(const char *root, struct rf_health *health);

#endif
