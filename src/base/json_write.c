/* Writes jansson's values as JSON, with the digits that numbers were read with and otherwise the
 * fewest that read back. Everything that is written from a document or for one goes through here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/json.h"

void rf_json_put_string(const char *text, size_t bytes, struct rf_writer *out)
{
    static const char names[] = "\"\"\\\\b\bf\fn\nr\rt\t";
    rf_write(out, "\"", 1);
    for (size_t at = 0; at < bytes;) {
        size_t begin = at;
        while (at < bytes && (unsigned char)text[at] >= 0x20 && text[at] != '"' &&
               text[at] != '\\' && text[at] != '\xc0')
            at++;
        rf_write(out, text + begin, at - begin);
        if (at == bytes) break;
        char escape[8] = "";
        char c = text[at++];
        if (c == '\xc0') { /* a zero byte in the name of a member */
            at += at < bytes;
            c = 0;
        }
        for (size_t i = 0; c && i + 1 < sizeof names; i += 2)
            if (names[i + 1] == c) snprintf(escape, sizeof escape, "\\%c", names[i]);
        if (!escape[0]) snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)c);
        rf_write_text(out, escape);
    }
    rf_write(out, "\"", 1);
}

static void put_real(double value, struct rf_writer *out)
{
    char text[RF_DOUBLE_TEXT];
    if (!isfinite(value)) { /* JSON has none */
        rf_write_text(out, "null");
        return;
    }
    rf_double_write(value, text);
    rf_write_text(out, text);
}

static void put_array(const json_t *array, int spaced, struct rf_writer *out)
{
    rf_write_text(out, "[");
    for (size_t i = 0; i < json_array_size(array) && !out->code; i++) {
        if (i) rf_write_text(out, spaced ? ", " : ",");
        rf_json_put(json_array_get(array, i), spaced, out);
    }
    rf_write_text(out, "]");
}

static void put_object(const json_t *object, int spaced, struct rf_writer *out)
{
    json_t *at = (json_t *)(uintptr_t)object; /* jansson's iterators want it so */
    int is_first = 1;
    rf_write_text(out, "{");
    for (void *i = json_object_iter(at); i && !out->code; i = json_object_iter_next(at, i)) {
        const char *name = json_object_iter_key(i);
        if (!is_first) rf_write_text(out, spaced ? ", " : ",");
        is_first = 0;
        rf_json_put_string(name, strlen(name), out);
        rf_write_text(out, spaced ? ": " : ":");
        rf_json_put(json_object_iter_value(i), spaced, out);
    }
    rf_write_text(out, "}");
}

void rf_json_put(const json_t *value, int spaced, struct rf_writer *out)
{
    char integer[24];
    const char *number = rf_json_number_text(value);
    if (number) {
        rf_write_text(out, number);
        return;
    }
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT: put_object(value, spaced, out); return;
    case JSON_ARRAY: put_array(value, spaced, out); return;
    case JSON_STRING:
        rf_json_put_string(json_string_value(value), json_string_length(value), out);
        return;
    case JSON_INTEGER:
        snprintf(integer, sizeof integer, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        rf_write_text(out, integer);
        return;
    case JSON_REAL: put_real(json_real_value(value), out); return;
    case JSON_TRUE: rf_write_text(out, "true"); return;
    case JSON_FALSE: rf_write_text(out, "false"); return;
    default: rf_write_text(out, "null"); return;
    }
}

static void *take_malloc(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void free_malloc(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

char *rf_json_dump(const json_t *value, int spaced, size_t *bytes)
{
    const struct rf_allocator allocator = {take_malloc, free_malloc, NULL};
    struct rf_bytes written = {0};
    struct rf_error error;
    struct rf_writer out = {&allocator, &written, &error, 0};
    if (!value) return NULL;
    rf_json_put(value, spaced, &out);
    char *text = out.code ? NULL : malloc(written.count + 1);
    if (text) {
        memcpy(text, written.data, written.count);
        text[written.count] = 0;
        if (bytes) *bytes = written.count;
    }
    rf_bytes_free(&allocator, &written);
    return text;
}
