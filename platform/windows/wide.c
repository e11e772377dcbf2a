/* Converts between UTF-8, which Riffle uses everywhere, and the system's UTF-16, and makes
 * sentences of the system's errors. All files of this folder call it. */
#include "platform/windows/wide.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

wchar_t *rf_wide(const char *text)
{
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    if (wide)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, n);
    else if (n > 0)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return wide;
}

char *rf_narrow(const wchar_t *text)
{
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *narrow = n > 0 ? malloc((size_t)n) : NULL;
    if (narrow)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, n, NULL, NULL);
    else if (n > 0)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return narrow;
}

/* https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation: a folder's path
 * has room for a short name; \\?\ takes a path as it is, so that it must be absolute and plain. */
enum { LONGEST_OLD_PATH = MAX_PATH - 12 };

wchar_t *rf_wide_path(const char *path)
{
    wchar_t *wide = rf_wide(path);
    if (!wide || wcslen(wide) < LONGEST_OLD_PATH || wcsncmp(wide, L"\\\\", 2) == 0) return wide;
    DWORD n = GetFullPathNameW(wide, 0, NULL, NULL);
    wchar_t *full = n ? malloc((n + 4) * sizeof *full) : NULL;
    if (full) {
        wcscpy(full, L"\\\\?\\");
        GetFullPathNameW(wide, n, full + 4, NULL);
    }
    free(wide);
    return full;
}

HANDLE rf_open(const char *path, DWORD access, DWORD share, DWORD disposition, DWORD attributes)
{
    wchar_t *wide = rf_wide_path(path);
    if (!wide) return INVALID_HANDLE_VALUE;
    HANDLE file = CreateFileW(wide, access, share, NULL, disposition, attributes, NULL);
    DWORD cause = GetLastError();
    free(wide);
    SetLastError(cause);
    return file;
}

int rf_open_regular(HANDLE *file, const char *path, struct rf_error *error)
{
    BY_HANDLE_FILE_INFORMATION information;
    if (!path[0]) return rf_fail(error, RF_ERR_ARGUMENT, "the file to read has an empty name");
    *file = rf_open(path, GENERIC_READ, RF_SHARE_ALL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (*file == INVALID_HANDLE_VALUE) return rf_fail_path(error, path, "open", GetLastError());
    int code = 0;
    if (GetFileType(*file) != FILE_TYPE_DISK)
        code = rf_fail(error, RF_ERR_IO, "%s: is not a regular file", path);
    else if (!GetFileInformationByHandle(*file, &information))
        code = rf_fail_path(error, path, "ask for its size", GetLastError());
    else if (information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        code = rf_fail(error, RF_ERR_IO, "%s: is a folder, not a file", path);
    if (code) CloseHandle(*file);
    return code;
}

int rf_errno_of(DWORD number)
{
    switch (number) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_BAD_NETPATH:
    case ERROR_INVALID_DRIVE: return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE: return EACCES;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_DIR_NOT_EMPTY: return ENOTEMPTY;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_FILENAME_EXCED_RANGE: return ENAMETOOLONG;
    case ERROR_DIRECTORY: return ENOTDIR;
    case ERROR_WRITE_PROTECT: return EROFS;
    case ERROR_TOO_MANY_OPEN_FILES: return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_OUTOFMEMORY: return ENOMEM;
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
    case ERROR_NO_UNICODE_TRANSLATION: return EINVAL;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA: return EPIPE;
    default: return 0;
    }
}

const char *rf_reason(DWORD number, char text[RF_REASON])
{
    int known = rf_errno_of(number);
    if (known)
        snprintf(text, RF_REASON, "%s", strerror(known));
    else
        snprintf(text, RF_REASON, "Windows error %lu", number);
    return text;
}

int rf_fail_path(struct rf_error *error, const char *path, const char *what, DWORD number)
{
    char reason[RF_REASON];
    return rf_fail(error, RF_ERR_IO, "%s: cannot %s: %s", path, what, rf_reason(number, reason));
}
