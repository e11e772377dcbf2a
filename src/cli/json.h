/* Writes JSON (RFC 8259): values in the order of the calls, with commas and quotes. Numbers do not
 * depend on the locale, as the program never sets LC_NUMERIC. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "cli/buffer.h"

/* All zero is an empty document. */
struct json_writer {
    struct buffer text;
    int comma; /* the next value needs one before it */
};

/* `key` is NULL for the root and inside arrays. */
void jw_object(struct json_writer *json, const char *key);
void jw_array(struct json_writer *json, const char *key);
void jw_end_object(struct json_writer *json);
void jw_end_array(struct json_writer *json);

/* Bytes that are not UTF-8 become U+FFFD. */
void jw_text(struct json_writer *json, const char *key, const char *text, size_t n);
void jw_string(struct json_writer *json, const char *key, const char *text);
void jw_int(struct json_writer *json, const char *key, int64_t value);
void jw_uint(struct json_writer *json, const char *key, uint64_t value);
/* JSON has no infinity and no NaN: they become null. */
void jw_number(struct json_writer *json, const char *key, double value);
void jw_bool(struct json_writer *json, const char *key, int value);
void jw_null(struct json_writer *json, const char *key);

/* Writes the document and a newline to standard output and frees it. */
void jw_print(struct json_writer *json);

#endif
