#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Length of the well-formed UTF-8 character at p (n bytes left), or 0. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    size_t length;
    unsigned lowest;
    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        length = 2;
        lowest = 0x80;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        length = 3;
        lowest = p[0] == 0xe0 ? 0xa0 : 0x80;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        length = 4;
        lowest = p[0] == 0xf0 ? 0x90 : 0x80;
    } else {
        return 0;
    }
    if (n < length || p[1] < lowest) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return length;
}

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
        unsigned char *p = (unsigned char *)error->text + i;
        size_t length = utf8_length(p, n - i);
        if (length == 0 || *p < 0x20 || *p == 0x7f) {
            *p = '?';
            length = 1;
        }
        i += length;
    }
    return code;
}
