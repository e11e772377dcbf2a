/* Assembles whole characters from bytes that arrive in pieces: a token may end inside a character.
 *
 * The output is always well-formed UTF-8. U+FFFD replaces bytes that can never become a character:
 * one for each maximal prefix of a character, as the Unicode standard recommends (section 3.9). */
#ifndef RF_TEXT_UTF8_STREAM_H
#define RF_TEXT_UTF8_STREAM_H

#include <stddef.h>

/* Zeroed at the start of a text. */
struct rf_utf8_stream {
    char pending[4];
    size_t n_pending; /* < 4: an incomplete character */
};

/* Room that `out` needs for n bytes. */
#define RF_UTF8_STREAM_ROOM(n) (3 * ((n) + 3))

/* Takes n bytes, writes the characters that are complete and returns the number of bytes
 * written. */
size_t rf_utf8_stream_push(struct rf_utf8_stream *stream, const char *bytes, size_t n, char *out);
/* Ends the text: an incomplete character becomes U+FFFD. */
size_t rf_utf8_stream_flush(struct rf_utf8_stream *stream, char *out);

#endif
