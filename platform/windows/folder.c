/* Lists folders, removes files, and tells free space, by Windows' functions for wide paths. */
#include "platform/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/windows/wide.h"

/* The first entry of a folder, or INVALID_HANDLE_VALUE. */
static HANDLE first_entry(const char *path, WIN32_FIND_DATAW *entry)
{
    size_t n = strlen(path);
    char *pattern = malloc(n + 3);
    if (!pattern) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return INVALID_HANDLE_VALUE;
    }
    int ends = n && rf_path_separator(path) == path + n - 1;
    snprintf(pattern, n + 3, ends ? "%s*" : "%s/*", path);
    wchar_t *wide = rf_wide_path(pattern);
    HANDLE found = wide ? FindFirstFileW(wide, entry) : INVALID_HANDLE_VALUE;
    DWORD cause = GetLastError();
    free(wide);
    free(pattern);
    SetLastError(cause);
    return found;
}

int rf_folder_each(const char *path, int (*each)(void *user, const char *name), void *user,
                   struct rf_error *error)
{
    WIN32_FIND_DATAW entry;
    HANDLE found = first_entry(path, &entry);
    int result = 0, more = found != INVALID_HANDLE_VALUE;
    while (more && !result) {
        char *name = rf_narrow(entry.cFileName);
        if (!name)
            result = rf_fail(error, RF_ERR_MEMORY, "%s: no memory to list it", path);
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            result = each(user, name);
        free(name);
        if (!result) more = FindNextFileW(found, &entry);
    }
    DWORD cause = GetLastError();
    if (!result && cause != ERROR_NO_MORE_FILES)
        result = rf_fail_path(error, path, "be listed", cause);
    if (found != INVALID_HANDLE_VALUE) FindClose(found);
    return result;
}

struct visit {
    void (*visit)(void *user, const char *name);
    void *user;
};

static int visit_entry(void *user, const char *name)
{
    struct visit *visit = user;
    visit->visit(visit->user, name);
    return 0;
}

int rf_visit_folder(const char *path, void (*visit)(void *user, const char *name), void *user)
{
    struct visit all = {visit, user};
    return rf_folder_each(path, visit_entry, &all, NULL) == 0 ? 0 : -1;
}

enum rf_kind rf_kind_of(const char *path)
{
    HANDLE file = rf_open(path, FILE_READ_ATTRIBUTES, RF_SHARE_ALL, OPEN_EXISTING,
                          FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
    BY_HANDLE_FILE_INFORMATION information;
    if (file == INVALID_HANDLE_VALUE) return RF_KIND_NONE;
    int known =
        GetFileType(file) == FILE_TYPE_DISK && GetFileInformationByHandle(file, &information);
    CloseHandle(file);
    if (!known) return RF_KIND_OTHER;
    if (information.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) return RF_KIND_LINK;
    return information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? RF_KIND_FOLDER : RF_KIND_FILE;
}

int rf_free_bytes(const char *path, uint64_t *bytes, struct rf_error *error)
{
    /* Windows asks for a folder. */
    const char *slash = rf_path_separator(path);
    char *folder = rf_is_directory(path) || !slash ? NULL : strdup(path);
    if (folder) folder[slash + 1 - path] = 0;
    wchar_t *wide = rf_wide_path(folder ? folder : rf_is_directory(path) ? path : ".");
    ULARGE_INTEGER available;
    int known = wide && GetDiskFreeSpaceExW(wide, &available, NULL, NULL);
    DWORD cause = GetLastError();
    free(wide);
    free(folder);
    if (!known) return rf_fail_path(error, path, "ask for the free space", cause);
    *bytes = available.QuadPart;
    return 0;
}

int rf_remove(const char *path, struct rf_error *error)
{
    wchar_t *wide = rf_wide_path(path);
    int removed = wide && (DeleteFileW(wide) || RemoveDirectoryW(wide));
    DWORD cause = GetLastError();
    free(wide);
    return removed ? 0 : rf_fail_path(error, path, "be removed", cause);
}

int rf_file_touch(const char *path)
{
    HANDLE file =
        rf_open(path, FILE_WRITE_ATTRIBUTES, RF_SHARE_ALL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    FILETIME now;
    if (file == INVALID_HANDLE_VALUE) return -1;
    GetSystemTimeAsFileTime(&now);
    int is_set = SetFileTime(file, NULL, NULL, &now);
    CloseHandle(file);
    return is_set ? 0 : -1;
}

int rf_folder_is_own(const char *path)
{
    return rf_is_directory(path);
}

int rf_file_mark_get(const char *path, struct rf_file_mark *mark)
{
    HANDLE file =
        rf_open(path, FILE_READ_ATTRIBUTES, RF_SHARE_ALL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    BY_HANDLE_FILE_INFORMATION information;
    FILE_BASIC_INFO times;
    if (file == INVALID_HANDLE_VALUE) return -1;
    int known = GetFileType(file) == FILE_TYPE_DISK &&
                GetFileInformationByHandle(file, &information) &&
                GetFileInformationByHandleEx(file, FileBasicInfo, &times, sizeof times);
    CloseHandle(file);
    if (!known) return -1;
    /* The unit is 100 ns; only differences count. */
    *mark = (struct rf_file_mark){
        .bytes = (uint64_t)information.nFileSizeHigh << 32 | information.nFileSizeLow,
        .inode = (uint64_t)information.nFileIndexHigh << 32 | information.nFileIndexLow,
        .mtime_ns = times.LastWriteTime.QuadPart,
        .ctime_ns = times.ChangeTime.QuadPart};
    return 0;
}
