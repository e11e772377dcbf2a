/* Mapped files on Linux and other POSIX systems. If another process makes one shorter, a handler of
 * SIGBUS, where the host wants it, puts zeros in place of the missing pages and marks the mapping.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file.h"

static int fail_path(struct rf_error *error, const char *path, const char *what, int number)
{
    char reason[128];
    if (strerror_r(number, reason, sizeof reason))
        snprintf(reason, sizeof reason, "error %d", number);
    return rf_fail(error, RF_ERR_IO, "%s: cannot %s: %s", path, what, reason);
}

/* A descriptor of a regular file, or a negative code. `empty` gets the sizes. */
static int open_regular(const char *path, struct rf_mapping *empty, struct rf_error *error)
{
    if (!path[0]) return rf_fail(error, RF_ERR_ARGUMENT, "the file to read has an empty name");
    /* O_NONBLOCK: a pipe is refused below instead of waited for. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return fail_path(error, path, "open", errno);
    struct stat status;
    int code = 0;
    if (fstat(descriptor, &status))
        code = fail_path(error, path, "ask for its size", errno);
    else if (S_ISDIR(status.st_mode))
        code = rf_fail(error, RF_ERR_IO, "%s: is a folder, not a file", path);
    else if (!S_ISREG(status.st_mode))
        code = rf_fail(error, RF_ERR_IO, "%s: is not a regular file", path);
    else if (status.st_size < 0 || (uint64_t)status.st_size > SIZE_MAX)
        code = rf_fail(error, RF_ERR_IO, "%s: is too large for this machine's address space", path);
    if (code) {
        close(descriptor);
        return code;
    }
    uint64_t bytes = (uint64_t)status.st_size, blocks = (uint64_t)status.st_blocks * 512;
    *empty = (struct rf_mapping){.bytes = (size_t)bytes,
                                 .stored_bytes = blocks < bytes ? blocks : bytes};
    return descriptor;
}

/* ---- the guard ---- */

/* A mapped range that the signal handler knows. Guards are never freed, since a handler may look at
 * them at any time; one that is unused has no bytes, and is taken again. */
struct rf_map_guard {
    struct rf_map_guard *next;
    atomic_uintptr_t begin;
    atomic_size_t bytes;
    atomic_int is_lost;
    int is_used; /* guarded by the lock */
};

static struct {
    pthread_mutex_t lock;
    _Atomic(struct rf_map_guard *) first;
    struct sigaction previous;
    int is_installed;
} guards = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Maps zeros over what has gone, from the page of `address` to the range's end. 1 if it is ours. */
static int fill_with_zeros(uintptr_t address)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (struct rf_map_guard *guard = guards.first; guard; guard = guard->next) {
        uintptr_t begin = guard->begin, end = begin + guard->bytes;
        if (address < begin || address >= end) continue;
        uintptr_t from = address / page * page;
        if (mmap((void *)from, end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            return 0;
        guard->is_lost = 1;
        return 1;
    }
    return 0;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    int is_ours = info->si_code == BUS_ADRERR && fill_with_zeros((uintptr_t)info->si_addr);
    errno = saved;
    if (is_ours) return;
    if (guards.previous.sa_flags & SA_SIGINFO)
        guards.previous.sa_sigaction(number, info, context);
    else if (guards.previous.sa_handler != SIG_DFL && guards.previous.sa_handler != SIG_IGN)
        guards.previous.sa_handler(number);
    else
        signal(SIGBUS, SIG_DFL); /* the instruction runs again, and ends the process */
}

/* Called under the lock. Returns 0, or the number of the error. */
static int install_handler(void)
{
    if (guards.is_installed) return 0;
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &guards.previous) != 0) return errno;
    if (sigaction(SIGBUS, &action, NULL) != 0) return errno;
    guards.is_installed = 1;
    return 0;
}

int rf_guard_mappings(struct rf_error *error)
{
    char reason[128];
    pthread_mutex_lock(&guards.lock);
    int cause = install_handler();
    pthread_mutex_unlock(&guards.lock);
    if (!cause) return 0;
    if (strerror_r(cause, reason, sizeof reason))
        snprintf(reason, sizeof reason, "error %d", cause);
    return rf_fail(error, RF_ERR_SYSTEM, "no handler of SIGBUS can be installed: %s", reason);
}

/* Does nothing where no handler is wanted. 0, or the number of the error. */
static int guard_range(struct rf_mapping *mapping)
{
    pthread_mutex_lock(&guards.lock);
    int cause = 0, is_wanted = guards.is_installed;
    struct rf_map_guard *guard = guards.first;
    while (guard && guard->is_used) guard = guard->next;
    if (is_wanted && !guard) {
        guard = calloc(1, sizeof *guard);
        if (guard) {
            guard->next = guards.first;
            guards.first = guard;
        } else {
            cause = ENOMEM;
        }
    }
    if (is_wanted && !cause) {
        guard->is_used = 1;
        guard->is_lost = 0;
        guard->begin = (uintptr_t)mapping->data;
        guard->bytes = mapping->bytes;
        mapping->guard = guard;
    }
    pthread_mutex_unlock(&guards.lock);
    return cause;
}

static void release_guard(struct rf_map_guard *guard)
{
    pthread_mutex_lock(&guards.lock);
    guard->bytes = 0;
    guard->is_used = 0;
    pthread_mutex_unlock(&guards.lock);
}

int rf_mapping_is_lost(const struct rf_mapping *mapping)
{
    return mapping->guard && mapping->guard->is_lost;
}

/* ---- mapping ---- */

/* Reads a file into memory that rf_unmap_file gives back. */
static int posix_read_copy(struct rf_mapping *mapping, int descriptor, size_t bytes,
                           const char *path, struct rf_error *error)
{
    unsigned char *copy =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return rf_fail(error, RF_ERR_MEMORY, "%s: there is no memory for its %zu bytes", path,
                       bytes);
    for (size_t at = 0; at < bytes;) {
        size_t most = (size_t)1 << 30, left = bytes - at;
        ssize_t got = read(descriptor, copy + at, left < most ? left : most);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            int cause = errno;
            munmap(copy, bytes);
            return got < 0
                       ? fail_path(error, path, "read", cause)
                       : rf_fail(error, RF_ERR_IO, "%s: became shorter while it was read", path);
        }
        at += (size_t)got;
    }
    mapping->data = copy;
    return 0;
}

int64_t rf_file_begin(const char *path, void *data, size_t n, struct rf_error *error)
{
    struct rf_mapping empty;
    int descriptor = open_regular(path, &empty, error);
    if (descriptor < 0) return descriptor;
    memset(data, 0, n);
    int code = pread(descriptor, data, n, 0) < 0 ? fail_path(error, path, "read", errno) : 0;
    close(descriptor);
    return code ? code : (int64_t)empty.bytes;
}

int rf_map_file(struct rf_mapping *mapping, const char *path, unsigned flags,
                struct rf_error *error)
{
    *mapping = (struct rf_mapping){0};
    int descriptor = open_regular(path, mapping, error);
    if (descriptor < 0) return descriptor;
    size_t bytes = mapping->bytes;
    int code = 0, cause = 0;
    if (bytes > 0 && flags & RF_MAP_COPY) {
        code = posix_read_copy(mapping, descriptor, bytes, path, error);
    } else if (bytes > 0) {
        void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (map == MAP_FAILED)
            cause = errno;
        else
            mapping->data = map;
        if (!cause) cause = guard_range(mapping);
    }
    close(descriptor);
    if (cause) code = fail_path(error, path, "map", cause);
    if (code) rf_unmap_file(mapping);
    return code;
}

void rf_unmap_file(struct rf_mapping *mapping)
{
    if (mapping->guard) release_guard(mapping->guard);
    if (mapping->data) munmap((void *)(uintptr_t)mapping->data, mapping->bytes);
    *mapping = (struct rf_mapping){0};
}
