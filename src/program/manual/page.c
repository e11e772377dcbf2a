/* The manual page riffle(1), in the macros of man(7). Verbs, options and variables come from the
 * tables; the text around them is here. */
#include <ctype.h>

#include "manual/manual.h"
#include "options/option_table.h"

enum { LINE = 50 }; /* columns after which a line ends at the next space; escapes are longer */

static void roff_character(FILE *out, char c)
{
    switch (c) {
    case '\\': fputs("\\e", out); break;
    case '-': fputs("\\-", out); break;
    case '\'': fputs("\\(aq", out); break;
    case '~': fputs("\\(ti", out); break;
    case '^': fputs("\\(ha", out); break;
    default: fputc(c, out);
    }
}

/* Writes running text in lines of source; a new sentence begins on a new line, as roff wants it. A
 * part between backquotes becomes bold. */
static void roff_prose(FILE *out, const char *text)
{
    int bold = 0, column = 0;
    for (char before = 0; *text; before = *text++, column++) {
        /* A dot at the beginning of a line would begin a command. */
        if (column == 0 && *text == '.') fputs("\\&", out);
        if (*text == '`') {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", out);
        } else if (*text == ' ' && (column > LINE || before == '.')) {
            fputc('\n', out);
            column = -1;
        } else {
            roff_character(out, *text);
        }
    }
}

static void roff_sentence(FILE *out, const char *text)
{
    roff_prose(out, text);
    fputc('\n', out);
}

/* "\fBname\fR \fIVALUE\fR" */
static void roff_flag(FILE *out, const char *name, const char *value)
{
    fputs("\\fB", out);
    roff_prose(out, name);
    fputs("\\fR", out);
    if (!value) return;
    fputs(" \\fI", out);
    roff_prose(out, value);
    fputs("\\fR", out);
}

static void roff_entry(FILE *out, const char *name, const char *text)
{
    fputs(".TP\n", out);
    roff_flag(out, name, NULL);
    fputc('\n', out);
    roff_sentence(out, text);
}

/* The options that the verb takes, in one paragraph. */
static void options_of(FILE *out, const struct verb *verb)
{
    const char *between = "Options: ";
    for (const struct option *option = option_table; option->name; option++) {
        if (!(option->verbs & verb->bit)) continue;
        fputs(between, out);
        roff_flag(out, option->name, NULL);
        between = ",\n";
    }
    fputs(".\n", out);
}

static void verbs(FILE *out)
{
    fputs(".SH VERBS\n", out);
    for (const struct verb *verb = verb_table; verb->name; verb++) {
        fputs(".TP\n", out);
        roff_flag(out, verb->name, verb->arguments);
        fputc('\n', out);
        fputc(toupper((unsigned char)verb->summary[0]), out);
        roff_prose(out, verb->summary + 1);
        fputs(".\n", out);
        if (verb->help) roff_sentence(out, verb->help);
        fputs(".IP\n", out);
        options_of(out, verb);
    }
    roff_entry(out, "help", "verbs, or with the name of a verb its options.");
    roff_entry(out, "version", "the version of the program.");
}

static void option_entry(FILE *out, const struct option *option)
{
    const char *between = " (";
    fputs(".TP\n", out);
    if (option->letter) {
        roff_flag(out, option->letter, NULL);
        fputs(", ", out);
    }
    roff_flag(out, option->name, option->value);
    for (const struct verb *verb = verb_table; verb->name; verb++) {
        if (!(option->verbs & verb->bit)) continue;
        fprintf(out, "%s%s", between, verb->name);
        between = ", ";
    }
    fputs(")\n", out);
    roff_sentence(out, option->help);
}

static void options(FILE *out)
{
    fputs(".SH OPTIONS\n", out);
    roff_sentence(out,
                  "The verbs that take an option are in brackets. An option with different "
                  "meanings is listed once for each. `--option=VALUE` is the same as `--option "
                  "VALUE`; `--` ends the options.");
    for (const struct option *option = option_table; option->name; option++)
        option_entry(out, option);
    roff_entry(out, "-h, --help", "the options of a verb (all verbs)");
}

static void page_environment(FILE *out)
{
    fputs(".SH ENVIRONMENT\n", out);
    for (const struct variable *variable = variable_table; variable->name; variable++)
        roff_entry(out, variable->name, variable->help);
}

static void files(FILE *out)
{
    fputs(".SH FILES\n", out);
    roff_entry(out, "~/.local/share/riffle/models", "the models that have short names");
    roff_entry(out, "~/.cache/riffle", "measured speeds, from which the next run starts");
    roff_entry(out, "~/.local/state/riffle/history", "the lines of earlier chats");
}

static void exit_status(FILE *out)
{
    fputs(".SH EXIT STATUS\n", out);
    roff_entry(out, "0", "done");
    roff_entry(out, "1", "the work failed; one sentence on standard error says why");
    roff_entry(out, "2", "wrong usage");
    roff_entry(out, "130", "interrupted");
}

static void examples(FILE *out)
{
    fputs(".SH EXAMPLES\n.nf\n", out);
    roff_sentence(out, "riffle chat smollm2-135m");
    roff_sentence(out, "riffle run model.gguf -p \"Why is the sky blue?\" --max-tokens 200");
    roff_sentence(out, "riffle info model.gguf --json");
    fputs(".fi\n", out);
}

void manual_page(FILE *out, const char *version, const char *date)
{
    fprintf(out, ".\\\" Generated from the program's table of options.\n");
    fprintf(out, ".TH RIFFLE 1 %s \"riffle %s\" \"User Commands\"\n", date, version);
    fputs(".SH NAME\nriffle \\- large language models on the CPU\n"
          ".SH SYNOPSIS\n.B riffle\n.I VERB\n.RI [ arguments ]\n.RI [ options ]\n"
          ".SH DESCRIPTION\n",
          out);
    roff_sentence(out,
                  "Riffle runs large language models on the CPU. MODEL is a .gguf file, a folder "
                  "with safetensors and its JSON files, or a short name from `riffle list`. The "
                  "answer goes to standard output, everything else to standard error.");
    verbs(out);
    options(out);
    page_environment(out);
    files(out);
    exit_status(out);
    examples(out);
}
