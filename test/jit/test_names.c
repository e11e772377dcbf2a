/* Generated functions have names, each its own, and perf's map of this process gets them when
 * RIFFLE_PERF asks, and only then. What others have left under the map's name is not written
 * through. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jit/panels.h"
#include "support/check.h"

enum { MOST_LINES = 512 };

struct line {
    size_t begin, bytes;
    char name[64];
};

static char map[64]; /* the path of this process's */

/* The lines of the map; -1 if there is none. */
static int read_map(struct line *lines)
{
    FILE *file = fopen(map, "r");
    int n = 0;
    if (!file) return -1;
    while (n < MOST_LINES &&
           fscanf(file, "%zx %zx %63s", &lines[n].begin, &lines[n].bytes, lines[n].name) == 3)
        n++;
    CHECK(feof(file));
    fclose(file);
    return n;
}

/* How many lines have the address, and whether the name of one is that. */
static int lines_at(const struct line *lines, int n, size_t address, const char *name, int *named)
{
    int found = 0;
    *named = 0;
    for (int i = 0; i < n; i++) {
        if (address < lines[i].begin || address >= lines[i].begin + lines[i].bytes) continue;
        found++;
        *named |= strcmp(lines[i].name, name) == 0;
    }
    return found;
}

/* Each function has one line, with its own name. Returns how many functions there are. */
static int check_lines(const struct rf_panels_kernels *kernels, const struct line *lines, int n)
{
    int functions = 0, named;
    for (int format = 0; format < RF_FORMAT_COUNT; format++)
        for (int rows = 1; rows <= RF_PANELS_MOST_ROWS; rows++)
            for (int panels = 1; panels <= RF_PANELS_MOST; panels++) {
                rf_panels_fn *fn = kernels->fn[format][rows - 1][panels - 1];
                char name[RF_FUNCTION_NAME];
                if (!fn) continue;
                functions++;
                rf_panels_name(name, kernels->form, (enum rf_format)format, rows, panels);
                CHECK_INT(lines_at(lines, n, (size_t)(uintptr_t)fn, name, &named), 1);
                CHECK_MSG(named, "%s is not where it should be", name);
                CHECK_INT(lines_at(lines, n, (size_t)(uintptr_t)fn + 64, name, &named), 1);
            }
    return functions;
}

static void write_map(const char *text)
{
    int file = open(map, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    if (file >= 0) close(file);
}

static void check_map(const struct rf_panels_kernels *first, const struct rf_panels_kernels *second)
{
    static struct line lines[MOST_LINES];
    struct rf_error error = {0};
    struct stat found;
    int named;
    unsetenv("RIFFLE_PERF");
    CHECK_INT(rf_executable_profile(&first->code, &error), 0);
    CHECK_INT(read_map(lines), -1);
    setenv("RIFFLE_PERF", "map", 1);
    CHECK_MSG(rf_executable_profile(&first->code, &error) == 0, "%s", error.text);
    CHECK_MSG(rf_executable_profile(&second->code, &error) == 0, "%s", error.text);
    CHECK(lstat(map, &found) == 0 && (found.st_mode & 0777) == 0600);
    int n = read_map(lines);
    CHECK_INT(check_lines(first, lines, n) + check_lines(second, lines, n), n);
    /* Another JIT's lines, of now, stay; an earlier process's do not. */
    write_map("1000 10 another\n");
    CHECK_INT(rf_executable_profile(&first->code, &error), 0);
    CHECK_INT(lines_at(lines, read_map(lines), 0x1001, "another", &named), 1);
    struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
    CHECK_INT(utimensat(AT_FDCWD, map, long_ago, 0), 0);
    CHECK_INT(rf_executable_profile(&first->code, &error), 0);
    n = read_map(lines);
    CHECK_INT(check_lines(first, lines, n), n);
    unlink(map);
}

static void check_refused(const struct rf_panels_kernels *kernels, const char *why)
{
    struct rf_error error = {0};
    char wanted[512];
    snprintf(wanted, sizeof wanted, "RIFFLE_PERF: %s cannot be written: %s", map, why);
    CHECK_INT(rf_executable_profile(&kernels->code, &error), RF_ERR_IO);
    CHECK_STR(error.text, wanted);
}

/* Links that somebody has put there. */
static void check_planted(const struct rf_panels_kernels *kernels)
{
    char target[] = "/tmp/riffle-test-XXXXXX";
    struct rf_error error = {0};
    struct stat found;
    int file = mkstemp(target);
    CHECK(file >= 0);
    if (file < 0) return;
    close(file);
    CHECK_INT(symlink(target, map), 0);
    check_refused(kernels, "Too many levels of symbolic links");
    unlink(map);
    CHECK_INT(link(target, map), 0);
    check_refused(kernels, "File exists");
    CHECK(stat(target, &found) == 0 && found.st_size == 0);
    unlink(map);
    unlink(target);
    CHECK_INT(symlink(target, map), 0);
    check_refused(kernels, "Too many levels of symbolic links");
    CHECK(lstat(target, &found) != 0);
    unlink(map);
    CHECK_INT(mkfifo(map, 0600), 0);
    check_refused(kernels, "No such device or address"); /* nobody reads it */
    unlink(map);
    setenv("RIFFLE_PERF", "maps", 1);
    CHECK_INT(rf_executable_profile(&kernels->code, &error), RF_ERR_ARGUMENT);
    CHECK_STR(error.text, "RIFFLE_PERF: \"maps\" is not known (known: map)");
    CHECK(lstat(map, &found) != 0);
}

static void check_unique(void)
{
    static char names[RF_PANELS_FORM_COUNT * MOST_LINES][RF_FUNCTION_NAME];
    int n = 0;
    for (int form = 0; form < RF_PANELS_FORM_COUNT; form++)
        for (int format = 0; format < RF_FORMAT_COUNT; format++)
            for (size_t rows = 1; rows <= (size_t)RF_PANELS_MOST_ROWS; rows++)
                for (size_t panels = rf_panels_at_once(rows); panels; panels /= 2)
                    if (rf_panels_can((enum rf_panels_form)form, (enum rf_format)format))
                        rf_panels_name(names[n++], (enum rf_panels_form)form,
                                       (enum rf_format)format, (int)rows, (int)panels);
    for (int i = 0; i < n; i++) {
        CHECK(strlen(names[i]) < RF_FUNCTION_NAME - 4);
        for (int j = 0; j < i; j++) CHECK_MSG(strcmp(names[i], names[j]), "%s twice", names[i]);
    }
    rf_panels_name(names[0], RF_PANELS_AVXVNNI_EVEX, RF_FORMAT_Q4_K, 8, 2);
    CHECK_STR(names[0], "riffle_jit_avxvnni_evex_q4_k_a8_n8_p2");
}

int main(void)
{
    struct rf_panels_kernels first, second;
    struct rf_error error = {0};
    snprintf(map, sizeof map, "/tmp/perf-%ld.map", (long)getpid());
    unlink(map);
    check_unique();
    CHECK_MSG(rf_panels_generate(&first, RF_PANELS_AVX2, &error) == 0, "%s", error.text);
    CHECK_MSG(rf_panels_generate(&second, RF_PANELS_AVX512, &error) == 0, "%s", error.text);
    if (!first.code.memory || !second.code.memory) return check_result();
    check_map(&first, &second);
    check_planted(&first);
    rf_panels_free(&first);
    rf_panels_free(&second);
    return check_result();
}
