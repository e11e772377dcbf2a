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

#include "platform/terminal.h"

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

static int64_t file_read(int file, char *data, size_t n)
{
    for (;;) {
        if (rf_interrupts()) return RF_READ_INTERRUPTED;
        ssize_t got = read(file, data, n);
        if (got >= 0) return got;
        if (errno != EINTR) return RF_READ_FAILED;
    }
}

int rf_slurp(const char *path, size_t limit, char **data, size_t *bytes, struct rf_error *error)
{
    const char *name = path ? path : "standard input";
    int code = RF_OK, file = STDIN_FILENO;
    size_t count = 0, cap = 65536;
    *data = NULL;
    *bytes = 0;
    if (path) {
        file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) return rf_fail(error, RF_ERR_IO, "cannot open %s: %s", name, strerror(errno));
    }
    char *block = malloc(cap + 1);
    if (!block) code = rf_fail(error, RF_ERR_MEMORY, "no memory to read %s", name);
    while (code == RF_OK) {
        if (count == cap) {
            char *larger = realloc(block, 2 * cap + 1);
            if (!larger) {
                code = rf_fail(error, RF_ERR_MEMORY,
                               "no memory to read %s: it has more than %zu bytes", name, cap);
                break;
            }
            block = larger;
            cap *= 2;
        }
        int64_t got = path ? file_read(file, block + count, cap - count)
                           : rf_stdin_read(block + count, cap - count);
        if (got == RF_READ_END) break;
        if (got == RF_READ_INTERRUPTED)
            code = rf_fail(error, RF_ERR_CANCELLED, "interrupted while reading %s", name);
        else if (got < 0)
            code = rf_fail(error, RF_ERR_IO, "cannot read %s: %s", name, strerror(errno));
        else if ((count += (size_t)got) > limit)
            code =
                rf_fail(error, RF_ERR_IO,
                        "%s has more than %zu bytes, the most that can be read here", name, limit);
    }
    if (path) close(file);
    if (code != RF_OK) {
        free(block);
        return code;
    }
    block[count] = 0;
    *data = block;
    *bytes = count;
    return RF_OK;
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

int rf_expand_home(const char *path, char *expanded, size_t cap)
{
    const char *home = "";
    if (path[0] == '~' && (path[1] == 0 || path[1] == '/')) {
        home = getenv("HOME");
        if (!home || !home[0]) return -1;
        path++;
    }
    int n = snprintf(expanded, cap, "%s%s", home, path);
    return n < 0 || (size_t)n >= cap ? -1 : 0;
}
