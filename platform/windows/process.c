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

int rf_program_folder(char *path, size_t cap)
{
    enum { MOST = 4096 };
    wchar_t wide[MOST];
    DWORD n = GetModuleFileNameW(NULL, wide, MOST);
    if (n == 0 || n >= MOST) return -1;
    while (n > 0 && wide[n - 1] != L'\\' && wide[n - 1] != L'/') n--;
    if (n < 2) return -1;
    wide[n - 1] = 0;
    int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)cap, NULL, NULL);
    return bytes > 0 ? 0 : -1;
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
