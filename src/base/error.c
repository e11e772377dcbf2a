/* Writes error sentences, and replaces what a terminal should not print: they may quote hostile
 * files. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

int rf_fail(struct rf_error *error, int code, const char *format, ...)
{
    if (!error) return code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->code = code;

    size_t n = strlen(error->text);
    for (size_t i = 0; i < n;) {
        char *p = error->text + i;
        size_t length = rf_utf8_length(p, n - i);
        if (length == 0 || (length == 1 && (*p < 0x20 || *p == 0x7f))) {
            *p = '?';
            length = 1;
        }
        i += length;
    }
    return code;
}
