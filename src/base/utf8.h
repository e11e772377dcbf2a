/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef RF_BASE_UTF8_H
#define RF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at the beginning of text (n bytes), or 0 if there is none. */
size_t rf_utf8_length(const char *text, size_t n);
/* As rf_utf8_length for a text that may end too early: *partial is set when the n bytes are a
 * beginning of some character. When 0 is returned without *partial, *broken counts the bytes that
 * one U+FFFD stands for. */
size_t rf_utf8_examine(const char *text, size_t n, int *partial, size_t *broken);
/* The code point of a well-formed character of `length` bytes. */
uint32_t rf_utf8_decode(const char *text, size_t length);
/* Writes 1 to 4 bytes and returns how many. */
size_t rf_utf8_encode(uint32_t code_point, char *out);
/* Bytes up to the first that is not part of a well-formed character; n if there is none. */
size_t rf_utf8_valid_prefix(const char *text, size_t n);

#endif
