/* Files that replace others only when they are complete, on Windows. */
#include <errno.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/folder.h"
#include "platform/random.h"
#include "platform/windows/wide.h"

/* A temporary file is called ".NAME.new-" and RANDOM_DIGITS hexadecimal digits. While its process
 * lives, no other may delete it. */
enum { RANDOM_DIGITS = 8, MAX_TRIES = 100 };
static const char infix[] = ".new-";

static int windows_fail_write(const struct rf_new_file *file, DWORD number, struct rf_error *error)
{
    char reason[RF_REASON];
    return rf_fail(error, RF_ERR_IO, "%s: cannot be written: %s", file->path,
                   rf_reason(number, reason));
}

static const char *windows_name_of(const char *path)
{
    const char *slash = rf_path_separator(path);
    return slash ? slash + 1 : path;
}

static HANDLE new_file_handle(const struct rf_new_file *file)
{
    return (HANDLE)_get_osfhandle(file->file);
}

/* Names that are devices in every folder, whatever follows a dot
 * (https://learn.microsoft.com/windows/win32/fileio/naming-a-file), and names with a ':', which are
 * streams of another file. */
static int is_reserved(const char *path)
{
    static const char *const devices[] = {
        "CON",  "PRN",  "AUX",  "NUL",  "CONIN$", "CONOUT$", "COM0", "COM1", "COM2",
        "COM3", "COM4", "COM5", "COM6", "COM7",   "COM8",    "COM9", "LPT0", "LPT1",
        "LPT2", "LPT3", "LPT4", "LPT5", "LPT6",   "LPT7",    "LPT8", "LPT9"};
    const char *name = windows_name_of(path);
    int has_drive = name == path && name[0] && name[1] == ':';
    if (strchr(has_drive ? name + 2 : name, ':')) return 1;
    if (has_drive) name += 2;
    size_t n = strcspn(name, ".");
    while (n && name[n - 1] == ' ') n--;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (n == strlen(devices[i]) && _strnicmp(name, devices[i], n) == 0) return 1;
    return strncmp(path, "\\\\.\\", 4) == 0 || strncmp(path, "//./", 4) == 0;
}

struct left_over {
    const char *target;
    size_t folder; /* bytes of the path before the name */
};

/* Removes the temporary file of a process that was killed; one that lives keeps its own. */
static int windows_remove_left_over(void *user, const char *entry)
{
    const struct left_over *of = user;
    const char *name = windows_name_of(of->target);
    size_t n = strlen(name), m = sizeof infix - 1;
    if (entry[0] != '.' || strlen(entry) != 1 + n + m + RANDOM_DIGITS ||
        memcmp(entry + 1, name, n) != 0 || memcmp(entry + 1 + n, infix, m) != 0 ||
        strspn(entry + 1 + n + m, "0123456789abcdef") != RANDOM_DIGITS)
        return 0;
    size_t cap = of->folder + strlen(entry) + 1;
    char *path = malloc(cap);
    wchar_t *wide = NULL;
    if (path) {
        snprintf(path, cap, "%.*s%s", (int)of->folder, of->target, entry);
        wide = rf_wide_path(path);
    }
    if (wide) DeleteFileW(wide);
    free(wide);
    free(path);
    return 0;
}

static void remove_left_overs(const char *target)
{
    struct left_over of = {target, (size_t)(windows_name_of(target) - target)};
    char *folder = of.folder ? strdup(target) : strdup(".");
    if (!folder) return;
    if (of.folder) folder[of.folder] = 0;
    rf_folder_each(folder, windows_remove_left_over, &of, NULL);
    free(folder);
}

static int windows_check_old(const struct rf_new_file *file, struct rf_error *error)
{
    const char *path = file->path;
    if (!path[0]) return rf_fail(error, RF_ERR_ARGUMENT, "the file to write has an empty name");
    if (is_reserved(path))
        return rf_fail(error, RF_ERR_IO, "%s: is the name of a device, not of a file", path);
    if (rf_is_directory(path))
        return rf_fail(error, RF_ERR_IO, "%s: is a folder, not a file", path);
    if (rf_kind_of(path) == RF_KIND_OTHER)
        return rf_fail(error, RF_ERR_IO, "%s: is not a regular file, and stays as it is", path);
    return 0;
}

/* Makes the temporary file. 0, or Windows's error. */
static DWORD windows_create(struct rf_new_file *file)
{
    size_t before = (size_t)(windows_name_of(file->path) - file->path);
    size_t cap = strlen(file->path) + sizeof infix + RANDOM_DIGITS + 2;
    file->temporary = malloc(cap);
    if (!file->temporary) return ERROR_NOT_ENOUGH_MEMORY;
    for (int i = 0; i < MAX_TRIES; i++) {
        snprintf(file->temporary, cap, "%.*s.%s%s%08x", (int)before, file->path,
                 file->path + before, infix, (unsigned)(uint32_t)rf_random());
        HANDLE made = rf_open(file->temporary, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ,
                              CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
        if (made != INVALID_HANDLE_VALUE) {
            file->file = _open_osfhandle((intptr_t)made, 0);
            if (file->file >= 0) return 0;
            CloseHandle(made);
            return ERROR_TOO_MANY_OPEN_FILES;
        }
        if (GetLastError() != ERROR_FILE_EXISTS) return GetLastError();
    }
    return ERROR_FILE_EXISTS;
}

/* A user's folder is for that user alone, so RF_NEW_PRIVATE changes nothing. */
int rf_new_file_open(struct rf_new_file *file, const char *path, unsigned flags,
                     struct rf_error *error)
{
    *file = (struct rf_new_file){.path = path, .flags = flags};
    int code = windows_check_old(file, error);
    if (code) return code;
    remove_left_overs(file->path);
    DWORD cause = windows_create(file);
    if (!cause) return 0;
    code = windows_fail_write(file, cause, error);
    free(file->temporary);
    return code;
}

int rf_new_file_write(struct rf_new_file *file, const void *data, size_t bytes,
                      struct rf_error *error)
{
    const char *at = data;
    while (bytes) {
        DWORD written = 0, some = bytes < 1u << 30 ? (DWORD)bytes : 1u << 30;
        if (!WriteFile(new_file_handle(file), at, some, &written, NULL))
            return windows_fail_write(file, GetLastError(), error);
        at += written;
        bytes -= written;
    }
    return 0;
}

int rf_new_file_write_at(struct rf_new_file *file, uint64_t offset, const void *data, size_t bytes,
                         struct rf_error *error)
{
    const char *from = data;
    while (bytes) {
        OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
        DWORD written = 0, some = bytes < 1u << 30 ? (DWORD)bytes : 1u << 30;
        if (!WriteFile(new_file_handle(file), from, some, &written, &at))
            return windows_fail_write(file, GetLastError(), error);
        from += written;
        offset += written;
        bytes -= written;
    }
    return 0;
}

/* NTFS writes the names of files to its journal; there is no call that waits for a folder. */
void rf_sync_folder_of(const char *path)
{
    (void)path;
}

static void remove_temporary(struct rf_new_file *file)
{
    rf_remove(file->temporary, NULL);
    free(file->temporary);
}

/* Closes the file, and gives it its name. 0, or Windows's error. */
static DWORD windows_replace(struct rf_new_file *file)
{
    int waits = !(file->flags & RF_NEW_CACHE);
    DWORD cause = waits && !FlushFileBuffers(new_file_handle(file)) ? GetLastError() : 0;
    _close(file->file);
    if (cause) return cause;
    /* A directory or device that came there since the file was opened is not replaced either. */
    enum rf_kind kind = rf_kind_of(file->path);
    if (kind == RF_KIND_FOLDER || kind == RF_KIND_OTHER) return ERROR_FILE_EXISTS;
    wchar_t *from = rf_wide_path(file->temporary), *to = rf_wide_path(file->path);
    /* ReplaceFileW keeps the permissions of the old file, but not every file system has it. */
    if (!from || !to)
        cause = GetLastError();
    else if (!(kind == RF_KIND_FILE && ReplaceFileW(to, from, NULL, 0, NULL, NULL)) &&
             !MoveFileExW(from, to,
                          MOVEFILE_REPLACE_EXISTING | (waits ? MOVEFILE_WRITE_THROUGH : 0)))
        cause = GetLastError();
    free(from);
    free(to);
    return cause;
}

int rf_new_file_finish(struct rf_new_file *file, struct rf_error *error)
{
    DWORD cause = windows_replace(file);
    if (!cause) {
        free(file->temporary);
        return 0;
    }
    int code = windows_fail_write(file, cause, error);
    remove_temporary(file);
    return code;
}

void rf_new_file_drop(struct rf_new_file *file)
{
    _close(file->file);
    remove_temporary(file);
}
