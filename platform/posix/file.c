/* Files and folders on Linux and other POSIX systems. */
#define _DEFAULT_SOURCE
#include "platform/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/descriptor.h"

int64_t rf_file_bytes(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return -1;
    return (int64_t)status.st_size;
}

int rf_path_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

int rf_is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int rf_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

int rf_descriptor_open(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

int64_t rf_descriptor_read(int descriptor, void *data, size_t n)
{
    return read(descriptor, data, n);
}

int64_t rf_descriptor_read_at(int descriptor, uint64_t offset, void *data, size_t n)
{
    return pread(descriptor, data, n, (off_t)offset);
}

void rf_descriptor_close(int descriptor)
{
    close(descriptor);
}

const char *rf_path_separator(const char *path)
{
    return strrchr(path, '/');
}

int rf_path_is_absolute(const char *path)
{
    return path[0] == '/';
}

int rf_home(char *path, size_t cap)
{
    const char *home = getenv("HOME");
    int n = home && home[0] ? snprintf(path, cap, "%s", home) : -1;
    return n < 0 || (size_t)n >= cap ? -1 : 0;
}

int rf_user_folder(enum rf_folder folder, char *path, size_t cap)
{
    static const struct {
        const char *variable, *below_home;
    } known[] = {
        [RF_FOLDER_DATA] = {"XDG_DATA_HOME", ".local/share"},
        [RF_FOLDER_STATE] = {"XDG_STATE_HOME", ".local/state"},
        [RF_FOLDER_CACHE] = {"XDG_CACHE_HOME", ".cache"},
    };
    const char *base = getenv(known[folder].variable), *home = getenv("HOME");
    int n;
    /* The XDG rules: a relative path is invalid and must be ignored. */
    if (base && base[0] == '/')
        n = snprintf(path, cap, "%s", base);
    else if (home && home[0] == '/')
        n = snprintf(path, cap, "%s/%s", home, known[folder].below_home);
    else
        return -1;
    return n < 0 || (size_t)n >= cap ? -1 : 0;
}

int rf_make_folder(const char *path)
{
    size_t n = strlen(path);
    char *part = malloc(n + 1);
    if (!part) return -1;
    int result = 0;
    for (size_t i = 1; i <= n && result == 0; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST) result = -1;
    }
    free(part);
    return result;
}

int rf_visit_folder(const char *path, void (*visit)(void *user, const char *name), void *user)
{
    DIR *folder = opendir(path);
    if (!folder) return -1;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            visit(user, entry->d_name);
    closedir(folder);
    return 0;
}
