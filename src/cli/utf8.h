/* UTF-8, as far as printing needs it. */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stddef.h>

/* Length in bytes of the well-formed character at `text` (Unicode, table 3-7), which has n bytes
 * left; 0 where there is none. */
size_t utf8_length(const char *text, size_t n);

/* The code point of a well-formed character of that length. */
unsigned utf8_code_point(const char *text, size_t length);

#endif
