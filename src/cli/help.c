#include <stdio.h>
#include <string.h>

#include "cli/options.h"

enum { WIDTH = 100, INDENT = 24 };

/* Prints `text` in lines of at most WIDTH characters, and indents all but the first. */
static void wrapped(FILE *out, const char *text, int indent)
{
    int column = indent;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        while (*text == ' ') text++;
    }
    fputc('\n', out);
}

static void named(FILE *out, const char *name, const char *text)
{
    fprintf(out, "  %-*s", INDENT - 2, name);
    if ((int)strlen(name) > INDENT - 3) fprintf(out, "\n%*s", INDENT, "");
    wrapped(out, text, INDENT);
}

void help_program(FILE *out)
{
    fputs("riffle: large language models on the CPU\n\nUsage: riffle VERB ...\n\n", out);
    for (const struct verb *verb = verb_table; verb->name; verb++)
        named(out, verb->name, verb->summary);
    named(out, "help VERB", "what a verb does and its options");
    named(out, "version", "the version of this program");
    fputs("\nMODEL is a .gguf file, a folder with safetensors and its JSON files, or a short name "
          "from `riffle list`.\n"
          "\nThe answer goes to standard output, everything else to standard error.\n"
          "Exit status: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.\n"
          "\nEnvironment:\n",
          out);
    for (const struct variable *variable = variable_table; variable->name; variable++)
        named(out, variable->name, variable->help);
}

void help_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "riffle %s: %s\n\nUsage: riffle %s %s\n", verb->name, verb->summary, verb->name,
            verb->arguments);
    if (verb->help) {
        fputc('\n', out);
        wrapped(out, verb->help, 0);
    }
    fputs("\nOptions:\n", out);
    for (const struct option *option = option_table; option->name; option++) {
        char name[64];
        if (!(option->verbs & verb->bit)) continue;
        snprintf(name, sizeof name, "%s%s%s%s%s", option->letter ? option->letter : "",
                 option->letter ? ", " : "", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        named(out, name, option->help);
    }
    named(out, "-h, --help", "this text");
}
