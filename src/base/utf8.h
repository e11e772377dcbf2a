/* UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef RF_BASE_UTF8_H
#define RF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the well-formed character at the beginning of text (n bytes); 0 if there is none. */
size_t rf_utf8_length(const char *text, size_t n);
/* rf_utf8_length for a text that may be cut: *partial is set when the n bytes are the beginning
 * of a character. If the result is 0 and *partial is 0, one U+FFFD replaces *broken bytes. */
size_t rf_utf8_examine(const char *text, size_t n, int *partial, size_t *broken);
/* The code point of a well-formed character of `length` bytes. */
uint32_t rf_utf8_decode(const char *text, size_t length);
/* Writes 1 to 4 bytes and returns how many. */
size_t rf_utf8_encode(uint32_t code_point, char *out);
/* The bytes before the first one that is not part of a well-formed character. */
size_t rf_utf8_valid_prefix(const char *text, size_t n);

#endif
