/* riffle_manual VERSION DATE FOLDER: writes the manual page and the completions of the program. A
 * step of the build; it is not installed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "manual/manual.h"

static FILE *open_output(const char *folder, const char *name, char path[4096])
{
    int n = snprintf(path, 4096, "%s/%s", folder, name);
    return n < 4096 ? fopen(path, "w") : NULL;
}

static int close_output(FILE *out, const char *path)
{
    int failed = ferror(out);
    if (fclose(out) == 0 && !failed) return 0;
    fprintf(stderr, "riffle_manual: cannot write %s: %s\n", path, strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*write)(FILE *out);
    } completions[] = {
        {"riffle.bash", manual_bash}, {"_riffle", manual_zsh}, {"riffle.fish", manual_fish}};
    char path[4096];
    if (argc != 4) {
        fputs("usage: riffle_manual VERSION DATE FOLDER\n", stderr);
        return 2;
    }
    FILE *out = open_output(argv[3], "riffle.1", path);
    if (out) manual_page(out, argv[1], argv[2]);
    int failed = !out || close_output(out, path);
    for (size_t i = 0; i < sizeof completions / sizeof *completions && !failed; i++) {
        out = open_output(argv[3], completions[i].name, path);
        if (out) completions[i].write(out);
        failed = !out || close_output(out, path);
    }
    if (!out) fprintf(stderr, "riffle_manual: cannot create %s: %s\n", path, strerror(errno));
    return failed;
}
