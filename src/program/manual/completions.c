/* Completions for bash, zsh and fish: verbs, the options of each, values and models. They are
 * generated, so a new option needs nothing here. */
#include <string.h>

#include "manual/manual.h"
#include "options/option_table.h"

/* Prints the short names of models, in every shell. The text for people has more than names. */
#define MODEL_NAMES \
    "riffle list --json 2>/dev/null | grep -o '\"name\": \"[^\"]*\"' | cut -d '\"' -f 4"

/* The kinds of words that a shell can offer. */
enum offer { OFFER_NOTHING, OFFER_CHOICES, OFFER_MODELS, OFFER_FILES };

static enum offer offer_of(const struct option *option)
{
    if (option->kind == OPTION_CHOICE) return OFFER_CHOICES;
    if (option->value && strcmp(option->value, "MODEL") == 0) return OFFER_MODELS;
    if (option->value && (strcmp(option->value, "FILE") == 0 || strcmp(option->value, "DIR") == 0))
        return OFFER_FILES;
    return OFFER_NOTHING;
}

static int takes_option(const struct verb *verb, const struct option *option)
{
    return (option->verbs & verb->bit) != 0;
}

/* Whether the option may be given again. */
static int may_repeat(const struct option *option)
{
    return option->kind == OPTION_TEXTS || option->kind == OPTION_LIST;
}

/* The verb's summary, or the first statement of an option's help. */
static size_t brief_length(const char *help)
{
    static const char *const ends[] = {"; ", ". ", " (", ": "};
    size_t n = strlen(help);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = strstr(help, ends[i]);
        /* "with --suite: ..." begins with a condition. */
        if (end && (size_t)(end - help) < n && strncmp(help, "with ", 5) != 0)
            n = (size_t)(end - help);
    }
    return n;
}

/* The choices with `separator` between them. */
static void put_choices(FILE *out, const struct option *option, char separator)
{
    for (const char *p = option->choices; *p; p++) fputc(*p == '|' ? separator : *p, out);
}

/* Text inside single quotes, in which the shell's `quote` stands for one. zsh's _arguments gives a
 * meaning to the characters of `special`. */
static void put_quoted(FILE *out, const char *text, size_t n, const char *quote,
                       const char *special)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(special, text[i])) fputc('\\', out);
        fputc(text[i], out);
    }
}

/* bash ---------------------------------------------------------------------------------------- */

static void bash_options(FILE *out, const struct verb *verb)
{
    fputs("        options='", out);
    for (const struct option *option = option_table; option->name; option++)
        if (takes_option(verb, option)) fprintf(out, "%s ", option->name);
    fputs("--help'\n", out);
}

static void bash_value(FILE *out, const struct option *option)
{
    fprintf(out, "        %s%s%s) ", option->letter ? option->letter : "",
            option->letter ? " | " : "", option->name);
    switch (offer_of(option)) {
    case OFFER_CHOICES:
        fputs("words='", out);
        put_choices(out, option, ' ');
        fputs("' options='' files='' ;;\n", out);
        break;
    case OFFER_MODELS: fputs("words=$(_riffle_models) options='' files=1 ;;\n", out); break;
    case OFFER_FILES: fputs("options='' files=1 ;;\n", out); break;
    case OFFER_NOTHING: fputs("return ;;\n", out); break;
    }
}

static void bash_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "    %s)\n", verb->name);
    bash_options(out, verb);
    if (verb->n_arguments) fputs("        words=$(_riffle_models) files=1\n", out);
    fputs("        case $previous in\n", out);
    for (const struct option *option = option_table; option->name; option++)
        if (takes_option(verb, option) && option->value) bash_value(out, option);
    fputs("        esac\n        ;;\n", out);
}

void manual_bash(FILE *out)
{
    fputs("# bash completion for riffle. Generated from the program's table of options.\n\n"
          "_riffle_models()\n{\n    " MODEL_NAMES "\n}\n\n"
          "_riffle()\n{\n"
          "    local verb=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]}\n"
          "    local previous=${COMP_WORDS[COMP_CWORD - 1]} verbs words='' options='' files=''\n"
          "    # bash splits --option=VALUE into three words.\n"
          "    if [[ $current == = ]]; then\n        current=''\n"
          "    elif [[ $previous == = ]]; then\n"
          "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n    verbs='",
          out);
    for (const struct verb *verb = verb_table; verb->name; verb++) fprintf(out, "%s ", verb->name);
    fputs(
        "help version'\n"
        "    COMPREPLY=()\n"
        "    if ((COMP_CWORD == 1)); then\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$verbs --help --version\" -- \"$current\")\n"
        "        return\n    fi\n"
        "    case $verb in\n    help) words=$verbs ;;\n",
        out);
    for (const struct verb *verb = verb_table; verb->name; verb++) bash_verb(out, verb);
    fputs("    esac\n"
          "    [[ $current == -* ]] && words=$options files=''\n"
          "    mapfile -t COMPREPLY < <(\n"
          "        compgen -W \"$words\" -- \"$current\"\n"
          "        [[ $files ]] && compgen -f -- \"$current\"\n    )\n"
          "    # A file is completed with its quotes and a slash; a word is not changed by that.\n"
          "    [[ $files ]] && compopt -o filenames 2>/dev/null\n"
          "    return 0\n}\n\n"
          "complete -F _riffle riffle\n",
          out);
}

/* zsh ----------------------------------------------------------------------------------------- */

static void zsh_value(FILE *out, const struct option *option)
{
    fprintf(out, ":%s:", option->value);
    switch (offer_of(option)) {
    case OFFER_CHOICES:
        fputc('(', out);
        put_choices(out, option, ' ');
        fputc(')', out);
        break;
    case OFFER_MODELS: fputs("_riffle_models", out); break;
    case OFFER_FILES: fputs("_files", out); break;
    case OFFER_NOTHING: fputc(' ', out); break;
    }
}

static void zsh_option(FILE *out, const struct option *option)
{
    fputs(" \\\n            ", out);
    if (may_repeat(option))
        fprintf(out, "'*%s=", option->name);
    else if (option->letter)
        fprintf(out, "'(%s %s)'{%s,%s%s}'", option->letter, option->name, option->letter,
                option->name, option->value ? "=" : "");
    else
        fprintf(out, "'%s%s", option->name, option->value ? "=" : "");
    fputc('[', out);
    put_quoted(out, option->help, brief_length(option->help), "'\\''", "[]");
    fputc(']', out);
    if (option->value) zsh_value(out, option);
    fputc('\'', out);
}

static void zsh_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "        %s)\n            _arguments -s -S '--help[the options of this verb]'",
            verb->name);
    for (const struct option *option = option_table; option->name; option++)
        if (takes_option(verb, option)) zsh_option(out, option);
    if (verb->n_arguments > 0) fputs(" \\\n            '1:MODEL:_riffle_models'", out);
    if (verb->bit == VERB_SERVE) fputs(" \\\n            '*:MODEL:_riffle_models'", out);
    if (verb->n_arguments > 1) fputs(" \\\n            '2:OUT:_files'", out);
    fputs("\n            ;;\n", out);
}

void manual_zsh(FILE *out)
{
    fputs("#compdef riffle\n# Generated from the program's table of options.\n\n"
          "_riffle_models()\n{\n    local -a models\n"
          "    models=(${(f)\"$(" MODEL_NAMES ")\"})\n"
          "    _alternative 'models:model:compadd -a models' 'files:file:_files'\n}\n\n"
          "_riffle()\n{\n    local curcontext=$curcontext state line\n    local -a verbs\n"
          "    verbs=(\n",
          out);
    for (const struct verb *verb = verb_table; verb->name; verb++) {
        fprintf(out, "        '%s:", verb->name);
        put_quoted(out, verb->summary, strlen(verb->summary), "'\\''", ":");
        fputs("'\n", out);
    }
    fputs("        'help:what a verb does and its options'\n"
          "        'version:the version of this program'\n    )\n"
          "    _arguments -C '1:verb:->verb' '*::argument:->arguments'\n"
          "    case $state in\n    verb) _describe verb verbs ;;\n"
          "    arguments)\n        case $line[1] in\n"
          "        help) _describe verb verbs ;;\n",
          out);
    for (const struct verb *verb = verb_table; verb->name; verb++) zsh_verb(out, verb);
    fputs("        esac\n        ;;\n    esac\n}\n\n_riffle \"$@\"\n", out);
}

/* fish ---------------------------------------------------------------------------------------- */

static void fish_text(FILE *out, const char *text, size_t n)
{
    fputs(" -d '", out);
    put_quoted(out, text, n, "\\'", "\\");
    fputs("'\n", out);
}

static void fish_option(FILE *out, const struct verb *verb, const struct option *option)
{
    fprintf(out, "complete -c riffle -n '__riffle_verb %s' -l %s", verb->name, option->name + 2);
    if (option->letter) fprintf(out, " -s %s", option->letter + 1);
    if (option->value) {
        enum offer offer = offer_of(option);
        fputs(offer == OFFER_FILES ? " -r -F" : offer == OFFER_MODELS ? " -r" : " -x", out);
        if (offer == OFFER_MODELS) fputs(" -F -a '(__riffle_models)'", out);
        if (offer == OFFER_CHOICES) {
            fputs(" -a '", out);
            put_choices(out, option, ' ');
            fputc('\'', out);
        }
    }
    fish_text(out, option->help, brief_length(option->help));
}

void manual_fish(FILE *out)
{
    fputs("# fish completion for riffle. Generated from the program's table of options.\n\n"
          "function __riffle_models\n    " MODEL_NAMES "\n"
          "end\n\n"
          "function __riffle_verb\n    set -l words (commandline -opc)\n"
          "    test (count $words) -gt 1; and contains -- $words[2] $argv\nend\n\n"
          "function __riffle_no_verb\n    test (count (commandline -opc)) -eq 1\nend\n\n"
          "complete -c riffle -f\n",
          out);
    for (const struct verb *verb = verb_table; verb->name; verb++) {
        fprintf(out, "complete -c riffle -n __riffle_no_verb -a %s", verb->name);
        fish_text(out, verb->summary, strlen(verb->summary));
    }
    fputs("complete -c riffle -n __riffle_no_verb -a help"
          " -d 'what a verb does and its options'\n"
          "complete -c riffle -n __riffle_no_verb -a version"
          " -d 'the version of this program'\n"
          "complete -c riffle -n '__riffle_verb help' -a '",
          out);
    for (const struct verb *verb = verb_table; verb->name; verb++)
        fprintf(out, "%s%s", verb == verb_table ? "" : " ", verb->name);
    fputs("'\n", out);
    for (const struct verb *verb = verb_table; verb->name; verb++) {
        fprintf(out, "complete -c riffle -n '__riffle_verb %s' -s h -l help -d help\n", verb->name);
        if (verb->n_arguments)
            fprintf(out, "complete -c riffle -n '__riffle_verb %s' -F -a '(__riffle_models)'\n",
                    verb->name);
        for (const struct option *option = option_table; option->name; option++)
            if (takes_option(verb, option)) fish_option(out, verb, option);
    }
}
