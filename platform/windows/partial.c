/* A file between two runs of the program, which the system locks for one process.
 * src/program/fetch keeps downloads so, and src/calibrate its progress. */
#include "platform/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <string.h>

#include "platform/file.h"
#include "platform/windows/wide.h"

#include <stdlib.h>

static int windows_partial_fail(const struct rf_partial *partial, const char *what,
                                struct rf_error *error)
{
    return rf_fail_path(error, partial->path, what, GetLastError());
}

static HANDLE partial_handle(const struct rf_partial *partial)
{
    return (HANDLE)_get_osfhandle(partial->file);
}

/* Nobody else may write, rename or delete the file while it is open: that is its lock. */
int rf_partial_open(struct rf_partial *partial, const char *path, struct rf_error *error)
{
    int n = snprintf(partial->path, sizeof partial->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof partial->path)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", path);
    HANDLE file = rf_open(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, OPEN_ALWAYS,
                          FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT);
    if (file == INVALID_HANDLE_VALUE && GetLastError() == ERROR_SHARING_VIOLATION)
        return rf_fail(error, RF_ERR_CONTEXT, "%s: another process is writing to it", path);
    if (file == INVALID_HANDLE_VALUE) return windows_partial_fail(partial, "be written", error);
    BY_HANDLE_FILE_INFORMATION information;
    int code = 0;
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileInformationByHandle(file, &information) ||
        information.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT)
        code = rf_fail(error, RF_ERR_IO, "%s: is not a regular file", path);
    else if ((partial->file = _open_osfhandle((intptr_t)file, 0)) < 0)
        code = rf_fail(error, RF_ERR_IO, "%s: too many files are open", path);
    else
        partial->bytes = (uint64_t)information.nFileSizeHigh << 32 | information.nFileSizeLow;
    if (code) CloseHandle(file);
    return code;
}

static OVERLAPPED at_offset(uint64_t offset)
{
    return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

int rf_partial_append(struct rf_partial *partial, const void *data, size_t n,
                      struct rf_error *error)
{
    const char *from = data;
    while (n) {
        OVERLAPPED at = at_offset(partial->bytes);
        DWORD written = 0, some = n < 1u << 30 ? (DWORD)n : 1u << 30;
        if (!WriteFile(partial_handle(partial), from, some, &written, &at))
            return windows_partial_fail(partial, "be written", error);
        from += written;
        n -= written;
        partial->bytes += written;
    }
    return 0;
}

int64_t rf_partial_read(const struct rf_partial *partial, uint64_t offset, void *data, size_t n,
                        struct rf_error *error)
{
    OVERLAPPED at = at_offset(offset);
    DWORD got = 0, some = n < 1u << 30 ? (DWORD)n : 1u << 30;
    if (ReadFile(partial_handle(partial), data, some, &got, &at)) return got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : windows_partial_fail(partial, "be read", error);
}

int rf_partial_cut(struct rf_partial *partial, uint64_t bytes, struct rf_error *error)
{
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = (LONGLONG)bytes};
    if (!SetFileInformationByHandle(partial_handle(partial), FileEndOfFileInfo, &end, sizeof end))
        return windows_partial_fail(partial, "be cut", error);
    partial->bytes = bytes;
    return 0;
}

int rf_partial_sync(const struct rf_partial *partial, struct rf_error *error)
{
    return FlushFileBuffers(partial_handle(partial))
               ? 0
               : windows_partial_fail(partial, "be written to the disk", error);
}

int rf_partial_publish(struct rf_partial *partial, const char *path, struct rf_error *error)
{
    int code = rf_partial_sync(partial, error);
    if (code) return code;
    /* An open file cannot be renamed here, so that the lock ends first. */
    rf_partial_close(partial);
    wchar_t *from = rf_wide_path(partial->path), *to = rf_wide_path(path);
    if (!from || !to || !MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        code = windows_partial_fail(partial, "be renamed", error);
    free(from);
    free(to);
    if (!code) return 0;
    struct rf_error other;
    char name[sizeof partial->path];
    memcpy(name, partial->path, sizeof name);
    if (rf_partial_open(partial, name, &other)) partial->file = -1;
    return code;
}

void rf_partial_close(struct rf_partial *partial)
{
    if (partial->file >= 0) _close(partial->file);
}

void rf_partial_drop(struct rf_partial *partial)
{
    rf_partial_close(partial);
    wchar_t *wide = rf_wide_path(partial->path);
    if (wide) DeleteFileW(wide);
    free(wide);
}
