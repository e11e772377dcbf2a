#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void quoted(struct buffer *out, const char *text, size_t n)
{
    buffer_append(out, "\"", 1);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t length = rf_utf8_length(text + i, n - i);
        char escape[8];
        if (length == 0) {
            buffer_puts(out, "\xef\xbf\xbd");
            length = 1;
        } else if (c == '"' || c == '\\') {
            snprintf(escape, sizeof escape, "\\%c", c);
            buffer_puts(out, escape);
        } else if (c == '\n') {
            buffer_puts(out, "\\n");
        } else if (c == '\t') {
            buffer_puts(out, "\\t");
        } else if (c == '\r') {
            buffer_puts(out, "\\r");
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            buffer_puts(out, escape);
        } else {
            buffer_append(out, text + i, length);
        }
        i += length;
    }
    buffer_append(out, "\"", 1);
}

static void before_value(struct json_writer *json, const char *key)
{
    if (json->comma) buffer_puts(&json->text, ", ");
    json->comma = 1;
    if (!key) return;
    quoted(&json->text, key, strlen(key));
    buffer_puts(&json->text, ": ");
}

static void begin(struct json_writer *json, const char *key, const char *bracket)
{
    before_value(json, key);
    buffer_puts(&json->text, bracket);
    json->comma = 0;
}

static void end(struct json_writer *json, const char *bracket)
{
    buffer_puts(&json->text, bracket);
    json->comma = 1;
}

void jw_object(struct json_writer *json, const char *key)
{
    begin(json, key, "{");
}

void jw_array(struct json_writer *json, const char *key)
{
    begin(json, key, "[");
}

void jw_end_object(struct json_writer *json)
{
    end(json, "}");
}

void jw_end_array(struct json_writer *json)
{
    end(json, "]");
}

void jw_text(struct json_writer *json, const char *key, const char *text, size_t n)
{
    before_value(json, key);
    quoted(&json->text, text, n);
}

void jw_string(struct json_writer *json, const char *key, const char *text)
{
    jw_text(json, key, text, strlen(text));
}

void jw_int(struct json_writer *json, const char *key, int64_t value)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, value);
    before_value(json, key);
    buffer_puts(&json->text, number);
}

void jw_uint(struct json_writer *json, const char *key, uint64_t value)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRIu64, value);
    before_value(json, key);
    buffer_puts(&json->text, number);
}

void jw_number(struct json_writer *json, const char *key, double value)
{
    char number[32] = "null";
    if (isfinite(value)) snprintf(number, sizeof number, "%.9g", value);
    before_value(json, key);
    buffer_puts(&json->text, number);
}

void jw_bool(struct json_writer *json, const char *key, int value)
{
    before_value(json, key);
    buffer_puts(&json->text, value ? "true" : "false");
}

void jw_null(struct json_writer *json, const char *key)
{
    before_value(json, key);
    buffer_puts(&json->text, "null");
}

void jw_print(struct json_writer *json)
{
    buffer_append(&json->text, "\n", 1);
    fwrite(json->text.data, 1, json->text.count, stdout);
    buffer_free(&json->text);
    json->comma = 0;
}
