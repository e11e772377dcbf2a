/* This process on POSIX systems: its number, its environment, and Linux's permission to use AMX's
 * tiles. */
#define _GNU_SOURCE
#include "platform/process.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */

long rf_process_id(void)
{
    return (long)getpid();
}

void rf_environment_set(const char *name, const char *value)
{
    setenv(name, value, 1);
}

int rf_process_ask_tiles(void)
{
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

int rf_system_shows_cores(void)
{
    return access("/sys/devices/system/cpu", R_OK) == 0; /* not in some containers */
}
