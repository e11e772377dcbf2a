/* A command line as somebody typed it: the first byte is the verb, the rest its arguments, each
 * ended by a zero byte. What is accepted is in the ranges that the help states; what is not says
 * why. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/options.h"
#include "output/errors.h"

enum { MAX_ARGUMENTS = 32 };

static void expect(int condition, const char *what)
{
    if (condition) return;
    fprintf(stdout, "%s\n", what);
    abort();
}

static void check_range(const struct cli_options *options, const struct option *option)
{
    const void *field = (const char *)options + option->offset;
    if (option->kind == OPTION_INT) {
        int32_t number = *(const int32_t *)field;
        int is_default = number == 0 || number == NOT_GIVEN;
        expect(is_default || (number >= option->low && number <= option->high), option->name);
    }
    if (option->kind == OPTION_FLOAT) {
        float number = *(const float *)field;
        int is_inside = number >= (float)option->low && number <= (float)option->high;
        expect(isnan(number) || is_inside, option->name);
    }
    if (option->kind == OPTION_CHOICE) {
        const char *word = *(const char *const *)field;
        expect(!word || strstr(option->choices, word) != NULL, option->name);
    }
}

/* Parses the arguments with standard error in `said`. */
static int parse(struct cli_options *options, int argc, char **argv, char **said, size_t *n_said)
{
    FILE *before = stderr;
    stderr = open_memstream(said, n_said);
    if (!stderr) {
        stderr = before;
        return -1;
    }
    int status = options_parse(options, argc, argv);
    fclose(stderr);
    stderr = before;
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *argv[MAX_ARGUMENTS + 1] = {NULL}, *text = malloc(bytes + 1), *said = NULL;
    int argc = 0;
    size_t n_verbs = 0, n_said = 0;
    if (!text || bytes == 0 || bytes > 2048) {
        free(text);
        return 0;
    }
    memcpy(text, data, bytes);
    text[bytes] = 0;
    while (verb_table[n_verbs].name) n_verbs++;
    for (size_t at = 1; at < bytes && argc < MAX_ARGUMENTS; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    struct cli_options options = {.verb = &verb_table[data[0] % n_verbs]};
    cli_verb = options.verb->name;
    int status = parse(&options, argc, argv, &said, &n_said);
    expect(status == -1 || status == 0 || status == 1 || status == CLI_USAGE, "another status");
    expect((status == CLI_USAGE) == (said && strncmp(said, "riffle: ", 8) == 0),
           "a refusal without a sentence, or a sentence without a refusal");
    for (const struct option *option = option_table; status == 0 && option->name; option++)
        if (option->verbs & options.verb->bit) check_range(&options, option);
    options_free(&options);
    free(said);
    free(text);
    return 0;
}
