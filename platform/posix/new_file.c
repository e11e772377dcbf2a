/* Files that replace others only when they are complete, on Linux and other POSIX systems. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file.h"
#include "platform/random.h"

/* A temporary file is called ".NAME.new-" and RANDOM_DIGITS hexadecimal digits. It is locked as
 * long as its process lives. */
enum { RANDOM_DIGITS = 8, MAX_TRIES = 100 };
static const char infix[] = ".new-";

static int posix_fail_write(const struct rf_new_file *file, int number, struct rf_error *error)
{
    char reason[128];
    if (strerror_r(number, reason, sizeof reason))
        snprintf(reason, sizeof reason, "error %d", number);
    return rf_fail(error, RF_ERR_IO, "%s: cannot be written: %s", file->path, reason);
}

static const char *posix_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder that holds `path`, for free(); NULL without memory. */
static char *folder_of(const char *path)
{
    size_t n = (size_t)(posix_name_of(path) - path);
    return n > 1 ? strndup(path, n - 1) : strdup(n ? "/" : ".");
}

static int is_temporary_of(const char *entry, const char *name)
{
    size_t n = strlen(name), m = sizeof infix - 1;
    return entry[0] == '.' && strlen(entry) == 1 + n + m + RANDOM_DIGITS &&
           memcmp(entry + 1, name, n) == 0 && memcmp(entry + 1 + n, infix, m) == 0 &&
           strspn(entry + 1 + n + m, "0123456789abcdef") == RANDOM_DIGITS;
}

/* Removes the temporary files of processes that were killed: nobody holds their locks. */
static void posix_remove_left_over(const char *target)
{
    char *folder = folder_of(target);
    DIR *entries = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!is_temporary_of(entry->d_name, posix_name_of(target))) continue;
        int file =
            openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file < 0) continue;
        if (flock(file, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(entries), entry->d_name, 0);
        close(file);
    }
    if (entries) closedir(entries);
    free(folder);
}

/* Looks at what there is at the path. 1 if it is a file, with its status; 0 for nothing and for a
 * link, which has no mode worth keeping; or a negative code. */
static int posix_find_old(const struct rf_new_file *file, struct stat *status,
                          struct rf_error *error)
{
    struct stat target;
    if (!file->path[0])
        return rf_fail(error, RF_ERR_ARGUMENT, "the file to write has an empty name");
    if (lstat(file->path, status) != 0)
        return errno == ENOENT ? 0 : posix_fail_write(file, errno, error);
    int is_link = S_ISLNK(status->st_mode);
    if (S_ISDIR(status->st_mode) ||
        (is_link && stat(file->path, &target) == 0 && S_ISDIR(target.st_mode)))
        return rf_fail(error, RF_ERR_IO, "%s: is a folder, not a file", file->path);
    if (!is_link && !S_ISREG(status->st_mode))
        return rf_fail(error, RF_ERR_IO, "%s: is not a regular file, and stays as it is",
                       file->path);
    return !is_link;
}

/* Makes and locks the temporary file. 0, or the number of the error. */
static int posix_create(struct rf_new_file *file, mode_t mode)
{
    size_t before = (size_t)(posix_name_of(file->path) - file->path);
    size_t cap = strlen(file->path) + sizeof infix + RANDOM_DIGITS + 2;
    file->temporary = malloc(cap);
    if (!file->temporary) return ENOMEM;
    for (int i = 0; i < MAX_TRIES; i++) {
        struct stat status;
        snprintf(file->temporary, cap, "%.*s.%s%s%08x", (int)before, file->path,
                 file->path + before, infix, (unsigned)(uint32_t)rf_random());
        file->file = open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->file < 0 && errno != EEXIST) return errno;
        if (file->file < 0) continue;
        /* Another process may have taken it for a left-over before it was locked. A file system
         * without locks is one where nothing is cleaned up. */
        flock(file->file, LOCK_EX | LOCK_NB);
        if (fstat(file->file, &status) == 0 && status.st_nlink > 0) return 0;
        close(file->file);
    }
    return EEXIST;
}

int rf_new_file_open(struct rf_new_file *file, const char *path, unsigned flags,
                     struct rf_error *error)
{
    struct stat old;
    *file = (struct rf_new_file){.path = path, .flags = flags};
    int found = posix_find_old(file, &old, error);
    if (found < 0) return found;
    posix_remove_left_over(file->path);
    int cause = posix_create(file, flags & RF_NEW_PRIVATE ? 0600 : 0666);
    if (cause) {
        int code = posix_fail_write(file, cause, error);
        free(file->temporary);
        return code;
    }
    /* Only root may give a file away; for others it becomes their own. */
    if (found && fchown(file->file, old.st_uid, old.st_gid) == 0)
        fchmod(file->file, old.st_mode & 07777);
    else if (found)
        fchmod(file->file, old.st_mode & 0777);
    return 0;
}

int rf_new_file_write(struct rf_new_file *file, const void *data, size_t bytes,
                      struct rf_error *error)
{
    const char *at = data;
    while (bytes) {
        ssize_t written =
            write(file->file, at, bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return posix_fail_write(file, errno, error);
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int rf_new_file_write_at(struct rf_new_file *file, uint64_t offset, const void *data, size_t bytes,
                         struct rf_error *error)
{
    const char *at = data;
    while (bytes) {
        ssize_t written = pwrite(
            file->file, at, bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return posix_fail_write(file, errno, error);
        at += written;
        offset += (uint64_t)written;
        bytes -= (size_t)written;
    }
    return 0;
}

void rf_sync_folder_of(const char *path)
{
    char *folder = folder_of(path);
    int descriptor = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(folder);
}

/* 0, or the number of the error. */
static int posix_replace(struct rf_new_file *file)
{
    struct stat status;
    int waits = !(file->flags & RF_NEW_CACHE);
    if (waits && fsync(file->file) != 0) return errno;
    /* A directory or device that came there since the file was opened is not replaced either. */
    if (lstat(file->path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        return EEXIST;
    if (rename(file->temporary, file->path) != 0) return errno;
    if (waits) rf_sync_folder_of(file->path);
    return 0;
}

int rf_new_file_finish(struct rf_new_file *file, struct rf_error *error)
{
    int cause = posix_replace(file), code = 0;
    if (cause) {
        unlink(file->temporary);
        code = posix_fail_write(file, cause, error);
    }
    if (close(file->file) != 0 && !code) code = posix_fail_write(file, errno, error);
    free(file->temporary);
    return code;
}

void rf_new_file_drop(struct rf_new_file *file)
{
    unlink(file->temporary);
    close(file->file);
    free(file->temporary);
}
