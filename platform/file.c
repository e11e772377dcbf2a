/* The part of files that is the same on every system: reading and writing whole files, and the
 * names in a path. */
#include "platform/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/descriptor.h"
#include "platform/terminal.h"

static int64_t file_read(int file, char *data, size_t n)
{
    for (;;) {
        if (rf_interrupts()) return RF_READ_INTERRUPTED;
        int64_t got = rf_descriptor_read(file, data, n);
        if (got >= 0) return got;
        if (errno != EINTR) return RF_READ_FAILED;
    }
}

int rf_slurp(const char *path, size_t limit, char **data, size_t *bytes, struct rf_error *error)
{
    const char *name = path ? path : "standard input";
    int code = RF_OK, file = -1;
    size_t count = 0, cap = 65536;
    *data = NULL;
    *bytes = 0;
    if (path && !path[0])
        return rf_fail(error, RF_ERR_ARGUMENT, "the file to read has an empty name");
    if (path) {
        file = rf_descriptor_open(path);
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
    if (path) rf_descriptor_close(file);
    if (code != RF_OK) {
        free(block);
        return code;
    }
    block[count] = 0;
    *data = block;
    *bytes = count;
    return RF_OK;
}

int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans, unsigned flags,
                  struct rf_error *error)
{
    struct rf_new_file file;
    int code = rf_new_file_open(&file, path, flags, error);
    if (code) return code;
    for (size_t i = 0; !code && i < n_spans; i++)
        code = rf_new_file_write(&file, spans[i].data, spans[i].bytes, error);
    if (!code) return rf_new_file_finish(&file, error);
    rf_new_file_drop(&file);
    return code;
}

static int is_separator(char c)
{
    char text[2] = {c, 0};
    return c && rf_path_separator(text);
}

const char *rf_path_last(const char *path, size_t *bytes)
{
    size_t end = strlen(path);
    while (end > 0 && is_separator(path[end - 1])) end--;
    size_t begin = end;
    while (begin > 0 && !is_separator(path[begin - 1])) begin--;
    *bytes = end - begin;
    return path + begin;
}

int rf_expand_home(const char *path, char *expanded, size_t cap)
{
    size_t n = 0;
    if (path[0] == '~' && (!path[1] || is_separator(path[1]))) {
        if (rf_home(expanded, cap) != 0) return -1;
        n = strlen(expanded);
        path++;
    }
    int more = snprintf(expanded + n, cap - n, "%s", path);
    return more < 0 || (size_t)more >= cap - n ? -1 : 0;
}
