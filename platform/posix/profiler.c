/* Names of generated functions for perf(1): lines "ADDRESS SIZE NAME" in hexadecimal in
 * /tmp/perf-PID.map (Linux sources, tools/perf/Documentation/jit-interface.txt). Everybody may
 * write to /tmp, so what is found there is looked at before it is written to. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "platform/posix/description.h"

enum { PATH_BYTES = 64, LINE_BYTES = 2 * 16 + RF_FUNCTION_NAME + 4 };

static double seconds_of(struct timespec time)
{
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The time at which this process began, on the clock of files; 0 if the system does not tell. */
static double process_began(void)
{
    char text[1024];
    struct timespec now, since_boot;
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file) return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    /* Field 22, in ticks since the boot; the second one is a name in parentheses. */
    unsigned long long ticks;
    const char *rest = strrchr(text, ')');
    if (!rest ||
        sscanf(rest,
               ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %llu",
               &ticks) != 1 ||
        clock_gettime(CLOCK_REALTIME, &now) || clock_gettime(CLOCK_BOOTTIME, &since_boot))
        return 0;
    return seconds_of(now) - seconds_of(since_boot) + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* A file of an earlier process that had this one's number. */
static int is_left_over(const char *path)
{
    enum { CLOCKS_DIFFER = 1 }; /* seconds */
    struct stat found;
    return lstat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
           seconds_of(found.st_mtim) + CLOCKS_DIFFER < process_began();
}

/* Opens the map for appending. Returns a descriptor, or -1 with errno. */
static int open_map(const char *path)
{
    struct stat opened;
    if (is_left_over(path)) unlink(path);
    int file =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0) return -1;
    if (fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
        opened.st_nlink == 1)
        return file;
    close(file);
    errno = EEXIST;
    return -1;
}

/* Whole lines go into each write(), as other JITs of the process may write between. */
static int write_lines(int file, const struct rf_executable *executable)
{
    char text[32 * LINE_BYTES];
    size_t used = 0, n = executable->description->n;
    for (size_t i = 0; i < n; i++) {
        const struct rf_function *function = &executable->description->functions[i];
        used += (size_t)snprintf(text + used, LINE_BYTES, "%zx %x %s\n",
                                 (size_t)(uintptr_t)executable->memory + function->begin,
                                 function->end - function->begin, function->name);
        if (i + 1 < n && used <= sizeof text - LINE_BYTES) continue;
        ssize_t written = write(file, text, used);
        if (written != (ssize_t)used) {
            if (written >= 0) errno = ENOSPC;
            return -1;
        }
        used = 0;
    }
    return 0;
}

int rf_executable_profile(const struct rf_executable *executable, struct rf_error *error)
{
    const char *asked = getenv("RIFFLE_PERF");
    char path[PATH_BYTES], reason[128];
    if (!asked || !*asked || getauxval(AT_SECURE) || !executable->description) return 0;
    if (strcmp(asked, "map") != 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "RIFFLE_PERF: \"%s\" is not known (known: map)",
                       asked);
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    int file = open_map(path), failed = file < 0 || write_lines(file, executable), code = errno;
    if (file >= 0) close(file);
    if (!failed) return 0;
    if (strerror_r(code, reason, sizeof reason)) reason[0] = 0;
    return rf_fail(error, RF_ERR_IO, "RIFFLE_PERF: %s cannot be written: %s", path, reason);
}
