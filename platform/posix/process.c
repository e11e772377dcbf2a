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

int rf_program_folder(char *path, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", path, cap);
    if (n <= 0 || (size_t)n >= cap) return -1;
    while (n > 0 && path[n - 1] != '/') n--;
    if (n == 0) return -1;
    path[n > 1 ? n - 1 : n] = 0;
    return 0;
}

int rf_process_ask_tiles(void)
{
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

int rf_system_shows_cores(void)
{
    return access("/sys/devices/system/cpu", R_OK) == 0; /* not in some containers */
}
