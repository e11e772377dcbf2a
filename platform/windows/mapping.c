/* Mapped files on Windows. Nobody can make a file shorter while it is mapped, so no guard is
 * needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/windows/wide.h"

/* Tells a copy from a mapping. */
struct rf_map_guard {
    int is_copy;
};
static struct rf_map_guard copy_mark = {1};

static int open_sized(HANDLE *file, struct rf_mapping *mapping, const char *path,
                      struct rf_error *error)
{
    FILE_STANDARD_INFO sizes;
    int code = rf_open_regular(file, path, error);
    if (code) return code;
    if (!GetFileInformationByHandleEx(*file, FileStandardInfo, &sizes, sizeof sizes)) {
        code = rf_fail_path(error, path, "ask for its size", GetLastError());
        CloseHandle(*file);
        return code;
    }
    uint64_t bytes = (uint64_t)sizes.EndOfFile.QuadPart,
             stored = (uint64_t)sizes.AllocationSize.QuadPart;
    *mapping = (struct rf_mapping){.bytes = (size_t)bytes,
                                   .stored_bytes = stored < bytes ? stored : bytes};
    return 0;
}

/* Reads up to n bytes from the file's beginning. Their number, or -1 with Windows's last error. */
static int64_t read_bytes(HANDLE file, unsigned char *data, size_t n)
{
    size_t at = 0;
    while (at < n) {
        DWORD most = n - at < 1u << 30 ? (DWORD)(n - at) : 1u << 30, got = 0;
        if (!ReadFile(file, data + at, most, &got, NULL)) return -1;
        if (got == 0) break;
        at += got;
    }
    return (int64_t)at;
}

static int windows_read_copy(struct rf_mapping *mapping, HANDLE file, const char *path,
                             struct rf_error *error)
{
    size_t bytes = mapping->bytes;
    unsigned char *copy = VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (!copy)
        return rf_fail(error, RF_ERR_MEMORY, "%s: there is no memory for its %zu bytes", path,
                       bytes);
    mapping->data = copy;
    mapping->guard = &copy_mark;
    int64_t got = read_bytes(file, copy, bytes);
    if (got < 0) return rf_fail_path(error, path, "read", GetLastError());
    return (size_t)got == bytes
               ? 0
               : rf_fail(error, RF_ERR_IO, "%s: became shorter while it was read", path);
}

static int map_view(struct rf_mapping *mapping, HANDLE file, const char *path,
                    struct rf_error *error)
{
    HANDLE section = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    void *view = section ? MapViewOfFile(section, FILE_MAP_READ, 0, 0, 0) : NULL;
    DWORD cause = GetLastError();
    if (section) CloseHandle(section); /* the view keeps it */
    if (!view) return rf_fail_path(error, path, "map", cause);
    mapping->data = view;
    return 0;
}

int64_t rf_file_begin(const char *path, void *data, size_t n, struct rf_error *error)
{
    struct rf_mapping empty = {0};
    HANDLE file;
    int code = open_sized(&file, &empty, path, error);
    if (code) return code;
    memset(data, 0, n);
    if (read_bytes(file, data, n) < 0) code = rf_fail_path(error, path, "read", GetLastError());
    CloseHandle(file);
    return code ? code : (int64_t)empty.bytes;
}

int rf_map_file(struct rf_mapping *mapping, const char *path, unsigned flags,
                struct rf_error *error)
{
    HANDLE file;
    *mapping = (struct rf_mapping){0};
    int code = open_sized(&file, mapping, path, error);
    if (code) return code;
    if (mapping->bytes > 0)
        code = flags & RF_MAP_COPY ? windows_read_copy(mapping, file, path, error)
                                   : map_view(mapping, file, path, error);
    CloseHandle(file);
    if (code) rf_unmap_file(mapping);
    return code;
}

int rf_mapping_is_lost(const struct rf_mapping *mapping)
{
    (void)mapping;
    return 0;
}

void rf_unmap_file(struct rf_mapping *mapping)
{
    void *data = (void *)(uintptr_t)mapping->data;
    if (data && mapping->guard)
        VirtualFree(data, 0, MEM_RELEASE);
    else if (data)
        UnmapViewOfFile(data);
    *mapping = (struct rf_mapping){0};
}

/* Windows lets nobody cut a file that is mapped. */
int rf_guard_mappings(struct rf_error *error)
{
    (void)error;
    return 0;
}
