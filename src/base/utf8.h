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

enum { RF_UTF8_SHOWN = 6 };
/* Writes the first character of the text (n > 0 bytes) for a screen: the character itself, or
 * \xNN or \uNNNN in place of one that a terminal acts on instead of showing it, or U+FFFD in place
 * of a byte that is no UTF-8. Those characters are controls (C0, C1, DEL), marks that change the
 * direction of text (UAX #9, "Explicit Directional Formatting Characters"), and separators of
 * lines. Every name that is printed or becomes part of an error sentence goes through here. Writes
 * up to RF_UTF8_SHOWN bytes, without a zero, and returns how many; *used of the text's bytes are
 * shown. */
size_t rf_utf8_show(const char *text, size_t n, char shown[RF_UTF8_SHOWN], size_t *used);

#endif
