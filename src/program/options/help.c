/* Prints the help from the tables of verbs and options. The order is that of the tables. */
#include "options/help.h"

#include <stdio.h>

#include "output/wrap.h"

enum { WIDTH = 100, INDENT = 24 };

static void print_named(FILE *out, const char *name, const char *text)
{
    print_entry(out, name, text, INDENT, text_width(out, WIDTH));
}

void help_program(FILE *out)
{
    fputs("riffle: large language models on the CPU\n\nUsage: riffle VERB ...\n\n", out);
    for (const struct verb *verb = verb_table; verb->name; verb++)
        print_named(out, verb->name, verb->summary);
    print_named(out, "help VERB", "what a verb does and its options");
    print_named(out, "version", "the version of this program");
    print_paragraph(
        out,
        "\nMODEL is a .gguf file, a folder with safetensors and its JSON files, or a short name "
        "from `riffle list`.\n"
        "\nThe answer goes to standard output, everything else to standard error.\n"
        "Exit status: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.\n"
        "\nEnvironment:",
        0, text_width(out, WIDTH));
    for (const struct variable *variable = variable_table; variable->name; variable++)
        print_named(out, variable->name, variable->help);
}

void help_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "riffle %s: %s\n\nUsage: riffle %s %s\n", verb->name, verb->summary, verb->name,
            verb->arguments);
    if (verb->help) {
        fputc('\n', out);
        print_paragraph(out, verb->help, 0, text_width(out, WIDTH));
    }
    fputs("\nOptions:\n", out);
    for (const struct option *option = option_table; option->name; option++) {
        char name[64];
        if (!(option->verbs & verb->bit)) continue;
        snprintf(name, sizeof name, "%s%s%s%s%s", option->letter ? option->letter : "",
                 option->letter ? ", " : "", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        print_named(out, name, option->help);
    }
    print_named(out, "-h, --help", "this text");
}
