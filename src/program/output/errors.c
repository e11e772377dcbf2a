/* Prints error sentences. inform() escapes untrusted parts, such as names of files. */
#include "output/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "output/wrap.h"
#include "platform/terminal.h"
#include "riffle.h"

const char *cli_verb, *cli_room;

/* The copy that others than the reader of standard error get. */
static _Thread_local char *copy;
static _Thread_local size_t copy_cap;

void cli_copy_sentences(char *text, size_t cap)
{
    copy = text;
    copy_cap = cap;
}

static void print_sentence(const char *format, va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    if (copy) snprintf(copy, copy_cap, "%s", text);
    fflush(stdout);
    inform("riffle: %s", text);
}

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_sentence(format, arguments);
    va_end(arguments);
    return CLI_FAILED;
}

int cli_usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_sentence(format, arguments);
    va_end(arguments);
    return cli_usage_hint();
}

int cli_usage_hint(void)
{
    inform("riffle: `riffle help%s%s` shows the usage", cli_verb ? " " : "",
           cli_verb ? cli_verb : "");
    return CLI_USAGE;
}

/* Fields of the API, which the library's sentences name, and the options that set them. */
static const struct {
    const char *field, *options;
} options_of_fields[] = {
    {"chain", "--chain"},
    {"chat_template", "--template or --raw"},
    {"ignore_repetition", "--ignore-repetition; in a chat /set repetition off"},
    {"n_ctx", "--ctx"},
};

/* Whether `word` stands alone in the text: not within a path, a key or another word. */
static int names_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || at[-1] == ' ') && strchr(" :,;", at[n])) return 1;
    return 0;
}

int cli_explain(const char *text)
{
    for (size_t i = 0; i < sizeof options_of_fields / sizeof *options_of_fields; i++)
        if (names_word(text, options_of_fields[i].field)) {
            if (cli_room && strcmp(options_of_fields[i].field, "n_ctx") == 0)
                return cli_fail("%s%s%s%s", text, cli_room[0] ? " (" : "", cli_room,
                                cli_room[0] ? ")" : "");
            return cli_fail("%s (choose with %s)", text, options_of_fields[i].options);
        }
    return cli_fail("%s", text);
}

int cli_status(int64_t result)
{
    if (result >= 0) return CLI_OK;
    if (result == RIFFLE_ERR_CANCELLED && rf_interrupts() > 0) return CLI_INTERRUPTED;
    const char *text = riffle_last_error();
    return cli_explain(text[0] ? text : riffle_strerror((int)result));
}
