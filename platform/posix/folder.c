/* Lists folders, removes files, and tells free space, by POSIX. */
#define _DEFAULT_SOURCE
#include "platform/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int folder_fail(const char *path, const char *what, struct rf_error *error)
{
    return rf_fail(error, RF_ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

int rf_folder_each(const char *path, int (*each)(void *user, const char *name), void *user,
                   struct rf_error *error)
{
    DIR *folder = opendir(path);
    int result = 0;
    if (!folder) return folder_fail(path, "be listed", error);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        result = each(user, entry->d_name);
        if (result) break;
    }
    if (!result && errno) result = folder_fail(path, "be listed", error);
    closedir(folder);
    return result;
}

enum rf_kind rf_kind_of(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0) return RF_KIND_NONE;
    if (S_ISREG(status.st_mode)) return RF_KIND_FILE;
    if (S_ISDIR(status.st_mode)) return RF_KIND_FOLDER;
    return S_ISLNK(status.st_mode) ? RF_KIND_LINK : RF_KIND_OTHER;
}

int rf_free_bytes(const char *path, uint64_t *bytes, struct rf_error *error)
{
    struct statvfs status;
    if (statvfs(path, &status) != 0) return folder_fail(path, "ask for the free space", error);
    *bytes = (uint64_t)status.f_bavail * (uint64_t)status.f_frsize;
    return 0;
}

int rf_remove(const char *path, struct rf_error *error)
{
    return remove(path) == 0 ? 0 : folder_fail(path, "be removed", error);
}

int rf_file_touch(const char *path)
{
    return utimensat(AT_FDCWD, path, NULL, 0);
}

int rf_folder_is_own(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int rf_file_mark_get(const char *path, struct rf_file_mark *mark)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return -1;
    *mark = (struct rf_file_mark){(uint64_t)status.st_size, (uint64_t)status.st_ino,
                                  nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
    return 0;
}
