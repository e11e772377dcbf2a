/* Files and folders on Windows. Paths are UTF-8; '/' and '\' separate names. */
#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/descriptor.h"
#include "platform/windows/wide.h"

#include <shlobj.h>

/* Describes the thing at the path; links are followed. 0, or -1. */
static int ask_information(const char *path, BY_HANDLE_FILE_INFORMATION *information)
{
    HANDLE file = rf_open(path, FILE_READ_ATTRIBUTES, RF_SHARE_ALL, OPEN_EXISTING,
                          FILE_FLAG_BACKUP_SEMANTICS);
    if (file == INVALID_HANDLE_VALUE) return -1;
    int known =
        GetFileType(file) == FILE_TYPE_DISK && GetFileInformationByHandle(file, information);
    CloseHandle(file);
    return known ? 0 : -1;
}

int64_t rf_file_bytes(const char *path)
{
    BY_HANDLE_FILE_INFORMATION information;
    if (ask_information(path, &information) ||
        information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        return -1;
    return (int64_t)((uint64_t)information.nFileSizeHigh << 32 | information.nFileSizeLow);
}

int rf_path_exists(const char *path)
{
    BY_HANDLE_FILE_INFORMATION information;
    return ask_information(path, &information) == 0;
}

int rf_is_directory(const char *path)
{
    BY_HANDLE_FILE_INFORMATION information;
    return ask_information(path, &information) == 0 &&
           information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
}

int rf_same_file(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION first, second;
    return ask_information(a, &first) == 0 && ask_information(b, &second) == 0 &&
           first.dwVolumeSerialNumber == second.dwVolumeSerialNumber &&
           first.nFileIndexHigh == second.nFileIndexHigh &&
           first.nFileIndexLow == second.nFileIndexLow;
}

int rf_descriptor_open(const char *path)
{
    HANDLE file = rf_open(path, GENERIC_READ, RF_SHARE_ALL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    int descriptor =
        file == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle((intptr_t)file, _O_RDONLY | _O_BINARY);
    if (file == INVALID_HANDLE_VALUE) {
        /* A folder is refused as if access were denied. */
        DWORD cause = GetLastError();
        errno = rf_is_directory(path) ? EISDIR : rf_errno_of(cause) ? rf_errno_of(cause) : EIO;
    } else if (descriptor < 0) {
        CloseHandle(file);
    }
    return descriptor;
}

int64_t rf_descriptor_read(int descriptor, void *data, size_t n)
{
    return _read(descriptor, data, n < 1 << 30 ? (unsigned)n : 1u << 30);
}

int64_t rf_descriptor_read_at(int descriptor, uint64_t offset, void *data, size_t n)
{
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD got = 0, some = n < 1u << 30 ? (DWORD)n : 1u << 30;
    if (ReadFile((HANDLE)_get_osfhandle(descriptor), data, some, &got, &at)) return got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : -1;
}

void rf_descriptor_close(int descriptor)
{
    _close(descriptor);
}

const char *rf_path_separator(const char *path)
{
    const char *slash = strrchr(path, '/'), *back = strrchr(path, '\\');
    return !slash || (back && back > slash) ? back : slash;
}

static int is_windows_separator(char c)
{
    return c == '/' || c == '\\';
}

int rf_path_is_absolute(const char *path)
{
    int has_drive = (path[0] | 32) >= 'a' && (path[0] | 32) <= 'z' && path[1] == ':';
    return has_drive ? is_windows_separator(path[2]) : is_windows_separator(path[0]);
}

/* A folder that Windows knows. 0, or -1. */
static int known_folder(const KNOWNFOLDERID *id, char *path, size_t cap)
{
    wchar_t *wide = NULL;
    char *narrow = SHGetKnownFolderPath(id, 0, NULL, &wide) == S_OK ? rf_narrow(wide) : NULL;
    int n = narrow ? snprintf(path, cap, "%s", narrow) : -1;
    CoTaskMemFree(wide);
    free(narrow);
    return n < 0 || (size_t)n >= cap ? -1 : 0;
}

int rf_home(char *path, size_t cap)
{
    const char *home = getenv("HOME");
    if (!home || !rf_path_is_absolute(home)) return known_folder(&FOLDERID_Profile, path, cap);
    int n = snprintf(path, cap, "%s", home);
    return n < 0 || (size_t)n >= cap ? -1 : 0;
}

int rf_user_folder(enum rf_folder folder, char *path, size_t cap)
{
    static const char *const variables[] = {[RF_FOLDER_DATA] = "XDG_DATA_HOME",
                                            [RF_FOLDER_STATE] = "XDG_STATE_HOME",
                                            [RF_FOLDER_CACHE] = "XDG_CACHE_HOME"};
    const char *base = getenv(variables[folder]);
    if (!base || !rf_path_is_absolute(base)) return known_folder(&FOLDERID_LocalAppData, path, cap);
    int n = snprintf(path, cap, "%s", base);
    return n < 0 || (size_t)n >= cap ? -1 : 0;
}

int rf_make_folder(const char *path)
{
    wchar_t *wide = rf_wide_path(path);
    if (!wide) return -1;
    /* Folders above it may exist, or be a drive or a server; only the last counts. */
    for (wchar_t *at = wide; *at; at++) {
        wchar_t was = *at;
        if (at == wide || (was != L'/' && was != L'\\')) continue;
        *at = 0;
        CreateDirectoryW(wide, NULL);
        *at = was;
    }
    CreateDirectoryW(wide, NULL);
    free(wide);
    return rf_is_directory(path) ? 0 : -1;
}
