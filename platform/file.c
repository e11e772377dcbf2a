#define _POSIX_C_SOURCE 200809L
#include "platform/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static int write_all(int file, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t written = write(file, data, bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans, struct rf_error *error)
{
    char temporary[4096];
    int length = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof temporary)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", path);
    int file = mkstemp(temporary);
    if (file < 0) return rf_fail(error, RF_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));

    int failed = 0;
    for (size_t i = 0; !failed && i < n_spans; i++) failed = write_all(file, spans[i].data, spans[i].bytes);
    /* mkstemp is stricter than what a person expects of a file of theirs. */
    mode_t mask = umask(0);
    umask(mask);
    if (!failed) failed = fchmod(file, 0666 & ~mask);
    int cause = errno;
    if (close(file) != 0 && !failed) {
        failed = 1;
        cause = errno;
    }
    if (!failed && rename(temporary, path) != 0) {
        failed = 1;
        cause = errno;
    }
    if (!failed) return 0;
    unlink(temporary);
    return rf_fail(error, RF_ERR_IO, "%s: cannot be written: %s", path, strerror(cause));
}
