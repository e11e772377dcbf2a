/* Writes JSON (RFC 8259), with escapes for all that a terminal would act on. Numbers do not depend
 * on the locale, as the program never sets LC_NUMERIC. */
#ifndef OUTPUT_JSON_H
#define OUTPUT_JSON_H

#include <inttypes.h>

#include "output/buffer.h"

/* All zero is an empty document. */
struct json_writer {
    struct buffer text;
    int comma; /* the next value needs one before it */
};

/* Appends the part of a document that `format` shows: words separated by spaces, which are
 * brackets, keys and conversions of printf for values. Quotes, colons and commas are added:
 *     jw_put(&json, "{ name %s sizes [ %d %d ] share %g", name, width, height, share);
 * %s is a text. %d, %" PRId64 " and %" PRIu64 " are integers. %g is a number with
 * nine digits; infinity and NaN become null. Bytes that are not UTF-8 become U+FFFD. */
void jw_put(struct json_writer *json, const char *format, ...) CLI_PRINTF(2, 3);

/* One value. `key` is NULL inside arrays. */
void jw_text(struct json_writer *json, const char *key, const char *text, size_t n);
/* null for NULL. */
void jw_string(struct json_writer *json, const char *key, const char *text);
void jw_number(struct json_writer *json, const char *key, double value);
/* Writes the lines of a text as an array. */
void jw_lines(struct json_writer *json, const struct buffer *text);
void jw_bool(struct json_writer *json, const char *key, int value);
/* A value that is JSON already. */
void jw_json(struct json_writer *json, const char *key, const char *value);

/* Writes the document and a newline to standard output and frees it. */
void jw_print(struct json_writer *json);

#endif
