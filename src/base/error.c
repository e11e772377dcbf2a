/* Writes error sentences, and escapes what a terminal should not print: they may quote hostile
 * files. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

int rf_fail(struct rf_error *error, int code, const char *format, ...)
{
    if (!error) return code;
    char text[2 * sizeof error->text], shown[RF_UTF8_SHOWN];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error->code = code;

    size_t n = strlen(text), at = 0, used;
    for (size_t i = 0; i < n; i += used) {
        size_t length = rf_utf8_show(text + i, n - i, shown, &used);
        if (at + length >= sizeof error->text) break;
        memcpy(error->text + at, shown, length);
        at += length;
    }
    error->text[at] = 0;
    return code;
}
