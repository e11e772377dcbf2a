/* Reads JSON into jansson's values, by recursive descent over the bytes. Every text of RFC 8259 is
 * read, up to a depth; everything else is refused with its place. The library's json.c and the
 * program call it for all JSON that comes from outside. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"

static const char number_key[] = "\xff";

struct json_reader {
    const char *text;
    size_t n, at;
    int depth, is_unique;
    char *string; /* the last string that was read, terminated */
    size_t n_string, cap_string;
    struct rf_json_problem *problem;
};

static json_t *read_value(struct json_reader *r);

static json_t *json_fail(struct json_reader *r, const char *text)
{
    if (r->problem->text) return NULL;
    *r->problem = (struct rf_json_problem){.line = 1, .column = 1, .text = text};
    for (size_t i = 0; i < r->at && i < r->n; i++) {
        r->problem->column++;
        if (r->text[i] != '\n') continue;
        r->problem->line++;
        r->problem->column = 1;
    }
    return NULL;
}

static json_t *json_no_memory(struct json_reader *r)
{
    json_fail(r, "no memory");
    r->problem->is_memory = 1;
    return NULL;
}

static void skip_blanks(struct json_reader *r)
{
    while (r->at < r->n && (r->text[r->at] == ' ' || r->text[r->at] == '\t' ||
                            r->text[r->at] == '\n' || r->text[r->at] == '\r'))
        r->at++;
}

/* The byte at the current place; 0 at the end, where no JSON has one. */
static char json_peek(const struct json_reader *r)
{
    return r->at < r->n ? r->text[r->at] : 0;
}

/* ---- strings ---- */

static int string_append(struct json_reader *r, const char *text, size_t n)
{
    if (r->n_string + n + 1 > r->cap_string) {
        size_t cap = 2 * (r->n_string + n + 32);
        char *grown = realloc(r->string, cap);
        if (!grown) {
            json_no_memory(r);
            return -1;
        }
        r->string = grown;
        r->cap_string = cap;
    }
    memcpy(r->string + r->n_string, text, n);
    r->n_string += n;
    r->string[r->n_string] = 0;
    return 0;
}

/* Four hexadecimal digits; -1: there are none. */
static int32_t read_hex(struct json_reader *r)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = json_peek(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* The character of \uXXXX, or of two of them; -1: there is none. */
static int32_t read_escaped_char(struct json_reader *r)
{
    int32_t high = read_hex(r);
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || r->n - r->at < 6 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u')
        return -1;
    r->at += 2;
    int32_t low = read_hex(r);
    return low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* Behind a backslash. `is_key`: zero bytes are held as C0 80. */
static int read_json_escape(struct json_reader *r, int is_key)
{
    static const char names[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char c = json_peek(r), bytes[4];
    size_t start = r->at++;
    for (size_t i = 0; c && i + 1 < sizeof names; i += 2)
        if (names[i] == c) return string_append(r, &names[i + 1], 1);
    int32_t point = c == 'u' ? read_escaped_char(r) : -1;
    if (point < 0) {
        r->at = start;
        json_fail(r, c == 'u' ? "\\u is not followed by the digits of a character"
                              : "an unknown escape");
        return -1;
    }
    if (!point && is_key) return string_append(r, "\xc0\x80", 2);
    return string_append(r, bytes, rf_utf8_encode((uint32_t)point, bytes));
}

/* Reads a string into r->string. 0, or -1. */
static int read_json_string(struct json_reader *r, int is_key)
{
    r->n_string = 0;
    r->at++;
    if (string_append(r, "", 0)) return -1;
    for (;;) {
        size_t begin = r->at;
        while (r->at < r->n && r->text[r->at] != '"' && r->text[r->at] != '\\' &&
               (unsigned char)r->text[r->at] >= 0x20)
            r->at++;
        size_t n = r->at - begin, valid = rf_utf8_valid_prefix(r->text + begin, n);
        if (valid < n) {
            r->at = begin + valid;
            json_fail(r, "a byte that is not UTF-8");
            return -1;
        }
        if (n && string_append(r, r->text + begin, n)) return -1;
        if (r->at == r->n || (unsigned char)r->text[r->at] < 0x20) {
            json_fail(r, r->at == r->n ? "the text ends within a string"
                                       : "a control character in a string");
            return -1;
        }
        if (r->text[r->at++] == '"') return 0;
        if (read_json_escape(r, is_key)) return -1;
    }
}

/* ---- numbers ---- */

/* A number that only its text holds. */
static json_t *text_number(const char *text, size_t n)
{
    json_t *number = json_object();
    if (json_object_set_new_nocheck(number, number_key, json_stringn_nocheck(text, n))) {
        json_decref(number);
        return NULL;
    }
    return number;
}

/* 1 and the value of a text such as -12 that is within 64 bits. */
static int read_int64(const char *text, size_t n, int64_t *value)
{
    int64_t made = 0;
    size_t at = text[0] == '-';
    if (at && n == 2 && text[1] == '0') return 0; /* -0 */
    for (; at < n; at++) {
        int digit = text[at] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(made, 10, &made) ||
            (text[0] == '-' ? __builtin_sub_overflow(made, digit, &made)
                            : __builtin_add_overflow(made, digit, &made)))
            return 0;
    }
    *value = made;
    return 1;
}

static json_t *read_json_number(struct json_reader *r)
{
    const char *text = r->text + r->at;
    size_t n = rf_number_length(text, r->n - r->at);
    int64_t integer;
    char shortest[RF_DOUBLE_TEXT];
    if (!n) return json_fail(r, "expected a value");
    r->at += n;
    json_t *made = NULL;
    if (read_int64(text, n, &integer)) {
        made = json_integer(integer);
    } else if (n < sizeof shortest) {
        double value = rf_decimal_to_double(text, n);
        if (isfinite(value)) {
            rf_double_write(value, shortest);
            if (strlen(shortest) == n && memcmp(shortest, text, n) == 0) made = json_real(value);
        }
    }
    if (!made) made = text_number(text, n);
    return made ? made : json_no_memory(r);
}

/* ---- values ---- */

static json_t *read_array(struct json_reader *r)
{
    json_t *array = json_array();
    if (!array) return json_no_memory(r);
    r->at++;
    skip_blanks(r);
    for (int is_first = 1; json_peek(r) != ']' || !is_first; is_first = 0) {
        json_t *element = read_value(r);
        if (!element) break;
        if (json_array_append_new(array, element)) {
            json_no_memory(r);
            break;
        }
        skip_blanks(r);
        if (json_peek(r) == ']') break;
        if (json_peek(r) != ',') {
            json_fail(r, "expected ',' or ']'");
            break;
        }
        r->at++;
    }
    r->at++;
    if (!r->problem->text) return array;
    json_decref(array);
    return NULL;
}

/* Reads a name, its colon and its value into the object. 0, or -1. */
static int read_member(struct json_reader *r, json_t *object)
{
    skip_blanks(r);
    if (json_peek(r) != '"') {
        json_fail(r, "expected the name of a member");
        return -1;
    }
    if (read_json_string(r, 1)) return -1;
    char *name = malloc(r->n_string + 1);
    skip_blanks(r);
    if (name) memcpy(name, r->string, r->n_string + 1);
    if (!name)
        json_no_memory(r);
    else if (json_peek(r) != ':')
        json_fail(r, "expected ':'");
    else if (r->is_unique && json_object_get(object, name))
        json_fail(r, "a duplicate member");
    r->at++;
    json_t *value = r->problem->text ? NULL : read_value(r);
    if (value && json_object_set_new_nocheck(object, name, value)) json_no_memory(r);
    free(name);
    return r->problem->text ? -1 : 0;
}

static json_t *read_object(struct json_reader *r)
{
    json_t *object = json_object();
    if (!object) return json_no_memory(r);
    r->at++;
    skip_blanks(r);
    for (int is_first = 1; json_peek(r) != '}' || !is_first; is_first = 0) {
        if (read_member(r, object)) break;
        skip_blanks(r);
        if (json_peek(r) == '}') break;
        if (json_peek(r) != ',') {
            json_fail(r, "expected ',' or '}'");
            break;
        }
        r->at++;
    }
    r->at++;
    if (!r->problem->text) return object;
    json_decref(object);
    return NULL;
}

static json_t *read_word(struct json_reader *r, const char *word, json_t *value)
{
    size_t n = strlen(word);
    if (r->n - r->at < n || memcmp(r->text + r->at, word, n) != 0)
        return json_fail(r, "expected a value");
    r->at += n;
    return value;
}

static json_t *read_value(struct json_reader *r)
{
    json_t *made = NULL;
    skip_blanks(r);
    switch (json_peek(r)) {
    case '{':
    case '[':
        if (r->depth == RF_JSON_DEPTH) return json_fail(r, "nested too deeply");
        r->depth++;
        made = json_peek(r) == '{' ? read_object(r) : read_array(r);
        r->depth--;
        return made;
    case '"':
        if (read_json_string(r, 0)) return NULL;
        made = json_stringn_nocheck(r->string, r->n_string);
        return made ? made : json_no_memory(r);
    case 't': return read_word(r, "true", json_true());
    case 'f': return read_word(r, "false", json_false());
    case 'n': return read_word(r, "null", json_null());
    default: return r->at < r->n ? read_json_number(r) : json_fail(r, "the text ends too early");
    }
}

static json_t *load_json(struct json_reader *r, size_t *end)
{
    *r->problem = (struct rf_json_problem){.text = NULL};
    json_t *value = read_value(r);
    if (value && end) *end = r->at;
    if (value && !end) {
        skip_blanks(r);
        if (r->at < r->n) {
            json_fail(r, "something follows the value");
            json_decref(value);
            value = NULL;
        }
    }
    free(r->string);
    return value;
}

json_t *rf_json_load(const char *text, size_t bytes, size_t *end, struct rf_json_problem *problem)
{
    struct rf_json_problem ignored;
    struct json_reader r = {.text = text, .n = bytes, .problem = problem ? problem : &ignored};
    return load_json(&r, end);
}

json_t *rf_json_load_unique(const char *text, size_t bytes, struct rf_json_problem *problem)
{
    struct json_reader r = {.text = text, .n = bytes, .is_unique = 1, .problem = problem};
    return load_json(&r, NULL);
}

/* ---- numbers of a document ---- */

const char *rf_json_number_text(const json_t *value)
{
    return json_string_value(json_object_get(value, number_key));
}

int rf_json_is_map(const json_t *value)
{
    return json_is_object(value) && !rf_json_number_text(value);
}

int rf_json_is_any_number(const json_t *value)
{
    return json_is_number(value) || rf_json_number_text(value);
}

double rf_json_to_double(const json_t *value)
{
    const char *text = rf_json_number_text(value);
    return text ? rf_decimal_to_double(text, strlen(text)) : json_number_value(value);
}

int rf_json_to_int64(const json_t *value, int64_t *integer)
{
    char digits[RF_DOUBLE_TEXT];
    const char *text = rf_json_number_text(value);
    if (json_is_integer(value)) {
        *integer = json_integer_value(value);
        return 1;
    }
    if (json_is_real(value)) rf_double_write(json_real_value(value), digits);
    if (!text && !json_is_real(value)) return 0;
    if (!text) text = digits;
    struct rf_decimal d = rf_decimal_of(text, strlen(text));
    if (!rf_decimal_is_integer(&d) || d.point > 19) return 0;
    char whole[24] = "-";
    rf_decimal_write(&d, -d.point, (size_t)d.point, whole + 1);
    if (!d.n) *integer = 0;
    return !d.n || read_int64(d.is_negative ? whole : whole + 1,
                              (size_t)d.point + (size_t)d.is_negative, integer);
}

const char *rf_json_c_string(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}
