/* A file between two runs of the program. flock() keeps other processes away, and whoever gets the
 * lock checks that the file still has its name. src/program/fetch keeps downloads so, and
 * src/calibrate its progress. */
#define _DEFAULT_SOURCE
#include "platform/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file.h"

static int posix_partial_fail(const struct rf_partial *partial, const char *what,
                              struct rf_error *error)
{
    return rf_fail(error, RF_ERR_IO, "%s: cannot %s: %s", partial->path, what, strerror(errno));
}

/* Whether the open file still has its name: whoever held the lock before may have published or
 * removed it. 1, 0, or -1. */
static int has_its_name(const struct rf_partial *partial)
{
    struct stat open_file, named;
    if (fstat(partial->file, &open_file) != 0) return -1;
    if (lstat(partial->path, &named) != 0) return errno == ENOENT ? 0 : -1;
    return open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* One attempt: 1 if the file is open and locked, 0 if it lost its name meanwhile. */
static int open_locked(struct rf_partial *partial, struct rf_error *error)
{
    struct stat status;
    partial->file =
        open(partial->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (partial->file < 0) return posix_partial_fail(partial, "be written", error);
    int result = 0;
    if (fstat(partial->file, &status) != 0)
        result = posix_partial_fail(partial, "ask for its size", error);
    else if (!S_ISREG(status.st_mode))
        result = rf_fail(error, RF_ERR_IO, "%s: is not a regular file", partial->path);
    else if (flock(partial->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        /* Other failures are those of file systems without locks: nobody can have it there. */
        result =
            rf_fail(error, RF_ERR_CONTEXT, "%s: another process is writing to it", partial->path);
    else if ((result = has_its_name(partial)) < 0)
        result = posix_partial_fail(partial, "be found again", error);
    if (result <= 0) close(partial->file);
    return result;
}

int rf_partial_open(struct rf_partial *partial, const char *path, struct rf_error *error)
{
    struct stat status;
    int n = snprintf(partial->path, sizeof partial->path, "%s", path), locked;
    if (n < 0 || (size_t)n >= sizeof partial->path)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", path);
    while ((locked = open_locked(partial, error)) == 0) {
    }
    if (locked < 0) return locked;
    if (fstat(partial->file, &status) != 0) {
        rf_partial_close(partial);
        return posix_partial_fail(partial, "ask for its size", error);
    }
    partial->bytes = (uint64_t)status.st_size;
    return 0;
}

int rf_partial_append(struct rf_partial *partial, const void *data, size_t n,
                      struct rf_error *error)
{
    const char *at = data;
    while (n) {
        ssize_t written = pwrite(partial->file, at, n, (off_t)partial->bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return posix_partial_fail(partial, "be written", error);
        at += written;
        n -= (size_t)written;
        partial->bytes += (uint64_t)written;
    }
    return 0;
}

int64_t rf_partial_read(const struct rf_partial *partial, uint64_t offset, void *data, size_t n,
                        struct rf_error *error)
{
    ssize_t got;
    do got = pread(partial->file, data, n, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got < 0 ? posix_partial_fail(partial, "be read", error) : got;
}

int rf_partial_cut(struct rf_partial *partial, uint64_t bytes, struct rf_error *error)
{
    if (ftruncate(partial->file, (off_t)bytes) != 0)
        return posix_partial_fail(partial, "be cut", error);
    partial->bytes = bytes;
    return 0;
}

int rf_partial_sync(const struct rf_partial *partial, struct rf_error *error)
{
    return fsync(partial->file) == 0 ? 0
                                     : posix_partial_fail(partial, "be written to the disk", error);
}

int rf_partial_publish(struct rf_partial *partial, const char *path, struct rf_error *error)
{
    int code = rf_partial_sync(partial, error);
    if (code) return code;
    if (rename(partial->path, path) != 0) return posix_partial_fail(partial, "be renamed", error);
    rf_sync_folder_of(path);
    rf_partial_close(partial);
    return 0;
}

void rf_partial_close(struct rf_partial *partial)
{
    int saved = errno;
    close(partial->file);
    errno = saved;
}

void rf_partial_drop(struct rf_partial *partial)
{
    unlink(partial->path); /* while the lock is held: afterwards it may hit another's file */
    rf_partial_close(partial);
}
