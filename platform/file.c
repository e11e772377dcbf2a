#define _POSIX_C_SOURCE 200809L
#include "platform/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static int cannot_write(const char *path, int cause, struct rf_error *error)
{
    return rf_fail(error, RF_ERR_IO, "%s: cannot be written: %s", path, strerror(cause));
}

int rf_new_file_open(struct rf_new_file *file, const char *path, struct rf_error *error)
{
    file->path = path;
    int length = snprintf(file->temporary, sizeof file->temporary, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof file->temporary)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", path);
    file->file = mkstemp(file->temporary);
    if (file->file < 0) return cannot_write(path, errno, error);
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
        if (written < 0) return cannot_write(file->path, errno, error);
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int rf_new_file_finish(struct rf_new_file *file, struct rf_error *error)
{
    /* mkstemp allows the owner only; users expect their umask. */
    mode_t mask = umask(0);
    umask(mask);
    int failed = fchmod(file->file, 0666 & ~mask), cause = errno;
    if (close(file->file) != 0 && !failed) {
        failed = 1;
        cause = errno;
    }
    if (!failed && rename(file->temporary, file->path) != 0) {
        failed = 1;
        cause = errno;
    }
    if (!failed) return 0;
    unlink(file->temporary);
    return cannot_write(file->path, cause, error);
}

void rf_new_file_drop(struct rf_new_file *file)
{
    close(file->file);
    unlink(file->temporary);
}

int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans,
                  struct rf_error *error)
{
    struct rf_new_file file;
    int code = rf_new_file_open(&file, path, error);
    if (code) return code;
    for (size_t i = 0; !code && i < n_spans; i++)
        code = rf_new_file_write(&file, spans[i].data, spans[i].bytes, error);
    if (!code) return rf_new_file_finish(&file, error);
    rf_new_file_drop(&file);
    return code;
}

int rf_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}
