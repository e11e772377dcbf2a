#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "platform/terminal.h"
#include "riffle.h"

static void sentence(const char *format, va_list arguments)
{
    char text[1024];
    struct rf_error error;
    vsnprintf(text, sizeof text, format, arguments);
    rf_fail(&error, RF_ERR_ARGUMENT, "%s", text); /* makes the text printable */
    fflush(stdout);
    fprintf(stderr, "riffle: %s\n", error.text);
}

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    sentence(format, arguments);
    va_end(arguments);
    return CLI_FAILED;
}

int cli_usage_error(const char *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    sentence(format, arguments);
    va_end(arguments);
    fprintf(stderr, "riffle: `riffle help%s%s` shows the usage\n", verb ? " " : "",
            verb ? verb : "");
    return CLI_USAGE;
}

int cli_library_failed(int code)
{
    if (code == RIFFLE_ERR_CANCELLED && rf_interrupts() > 0) return CLI_INTERRUPTED;
    const char *text = riffle_last_error();
    return cli_fail("%s", text[0] ? text : riffle_strerror(code));
}
