/* Whole characters out of bytes that arrive in pieces: a token may end in the middle of a
 * character.
 *
 * What comes out is always well-formed UTF-8. Bytes that can never become a character are replaced
 * by U+FFFD, one for each maximal beginning of a character, as the Unicode standard recommends
 * (section 3.9). */
#ifndef RF_TEXT_UTF8_STREAM_H
#define RF_TEXT_UTF8_STREAM_H

#include <stddef.h>

/* Zeroed at the start of a text. */
struct rf_utf8_stream {
    char pending[4];
    size_t n_pending; /* < 4: the beginning of a character */
};

/* Room that `out` needs for n bytes. */
#define RF_UTF8_STREAM_ROOM(n) (3 * ((n) + 3))

/* Takes n bytes and writes the characters that are certain now. Returns the number of bytes
 * written. */
size_t rf_utf8_stream_push(struct rf_utf8_stream *stream, const char *bytes, size_t n, char *out);
/* The end of the text: a character that was begun becomes U+FFFD. */
size_t rf_utf8_stream_flush(struct rf_utf8_stream *stream, char *out);

#endif
