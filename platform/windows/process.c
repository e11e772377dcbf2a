/* This process on Windows: its number, its environment, and the permission to use AMX's tiles. */
#include "platform/process.h"

#include <stdlib.h>

#include "platform/library.h"
#include "platform/windows/wide.h"

long rf_process_id(void)
{
    return (long)GetCurrentProcessId();
}

void rf_environment_set(const char *name, const char *value)
{
    _putenv_s(name, value);
}

/* Windows saves the tiles' state on request, since Windows 11 and Server 2022. Where the call is
 * missing, so are the tiles, whatever the processor says. */
int rf_process_ask_tiles(void)
{
    typedef BOOL(WINAPI * enable_fn)(DWORD64 features);
    enum { TILE_DATA = 18 };
    HMODULE kernel = GetModuleHandleW(L"kernel32.dll");
    enable_fn enable =
        kernel
            ? (enable_fn)(rf_any_fn *)GetProcAddress(kernel, "EnableProcessOptionalXStateFeatures")
            : NULL;
    return enable && enable((DWORD64)1 << TILE_DATA);
}

int rf_system_shows_cores(void)
{
    return 1;
}
