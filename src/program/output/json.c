/* Writes JSON from formats that look like the document. Texts that are not UTF-8 are repaired. */
#include "output/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "output/buffer.h"

static void json_quote(struct buffer *out, const char *text, size_t n)
{
    static const char specials[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    char shown[RF_UTF8_SHOWN];
    buffer_puts(out, "\"");
    for (size_t i = 0, used; i < n; i += used) {
        const char *special = text[i] ? strchr(specials, text[i]) : NULL;
        size_t length = rf_utf8_show(text + i, n - i, shown, &used);
        if (special)
            buffer_printf(out, "\\%c", letters[special - specials]);
        else if (shown[0] == '\\') /* a terminal would act on it */
            buffer_printf(out, "\\u%04x", (unsigned)rf_utf8_decode(text + i, used));
        else
            buffer_append(out, shown, length);
    }
    buffer_puts(out, "\"");
}

static void json_before_value(struct json_writer *json, const char *key, size_t n_key)
{
    if (json->comma) buffer_puts(&json->text, ", ");
    json->comma = 1;
    if (!n_key) return;
    json_quote(&json->text, key, n_key);
    buffer_puts(&json->text, ": ");
}

static void json_put_number(struct buffer *out, double value)
{
    if (isfinite(value))
        buffer_printf(out, "%.9g", value);
    else
        buffer_puts(out, "null");
}

/* The next argument, as `conversion`, of n characters, names it. */
static void json_put_value(struct buffer *out, const char *conversion, size_t n, va_list *arguments)
{
    switch (conversion[n - 1]) {
    case 's': {
        const char *text = va_arg(*arguments, const char *);
        json_quote(out, text, strlen(text));
        break;
    }
    case 'g': json_put_number(out, va_arg(*arguments, double)); break;
    case 'u': buffer_printf(out, "%" PRIu64, va_arg(*arguments, uint64_t)); break;
    default:
        if (n > strlen("%d"))
            buffer_printf(out, "%" PRId64, va_arg(*arguments, int64_t));
        else
            buffer_printf(out, "%d", va_arg(*arguments, int));
    }
}

void jw_put(struct json_writer *json, const char *format, ...)
{
    const char *key = NULL;
    size_t n_key = 0, n;
    va_list arguments;
    va_start(arguments, format);
    for (const char *word = format; *word; word += n + strspn(word + n, " ")) {
        n = strcspn(word, " ");
        if (!strchr("%{[}]", *word)) {
            key = word;
            n_key = n;
            continue;
        }
        int is_end = *word == '}' || *word == ']', is_value = *word == '%';
        if (!is_end) json_before_value(json, key, n_key);
        if (is_value)
            json_put_value(&json->text, word, n, &arguments);
        else
            buffer_append(&json->text, word, 1);
        json->comma = is_end || is_value;
        n_key = 0;
    }
    va_end(arguments);
}

void jw_text(struct json_writer *json, const char *key, const char *text, size_t n)
{
    json_before_value(json, key, key ? strlen(key) : 0);
    json_quote(&json->text, text, n);
}

void jw_string(struct json_writer *json, const char *key, const char *text)
{
    if (text)
        jw_text(json, key, text, strlen(text));
    else
        jw_number(json, key, NAN);
}

void jw_number(struct json_writer *json, const char *key, double value)
{
    json_before_value(json, key, key ? strlen(key) : 0);
    json_put_number(&json->text, value);
}

void jw_lines(struct json_writer *json, const struct buffer *text)
{
    for (const char *at = text->data; at && *at;) {
        size_t n = strcspn(at, "\n");
        jw_text(json, NULL, at, n);
        at += n + (at[n] == '\n');
    }
}

void jw_bool(struct json_writer *json, const char *key, int value)
{
    json_before_value(json, key, strlen(key));
    buffer_puts(&json->text, value ? "true" : "false");
}

void jw_json(struct json_writer *json, const char *key, const char *value)
{
    json_before_value(json, key, key ? strlen(key) : 0);
    buffer_puts(&json->text, value);
}

void jw_print(struct json_writer *json)
{
    buffer_append(&json->text, "\n", 1);
    buffer_write(&json->text, stdout);
    buffer_free(&json->text);
    json->comma = 0;
}
