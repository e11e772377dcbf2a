/* Plain texts and literals as JSON. A schema only decides what a text without quotation marks
 * means; whether the value meets it is for the function to see. */
#include "answers/tool_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "platform/memory.h"

enum {
    NESTING = 64,     /* values in each other */
    LOOKED_AT = 200,  /* schemas of a property; more of them may be anything */
    LOOKED_INTO = 100 /* elements of a list in one */
};

/* ---- types ---- */

static int type_of_name(const json_t *name)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {{"string", TOOL_STRING},   {"number", TOOL_NUMBER}, {"integer", TOOL_NUMBER},
                 {"boolean", TOOL_BOOLEAN}, {"null", TOOL_NULL},     {"array", TOOL_ARRAY},
                 {"object", TOOL_OBJECT}};
    const char *text = rf_json_c_string(name);
    for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, text) == 0) return types[i].type;
    return 0;
}

static int type_of(const json_t *value)
{
    return json_is_string(value)          ? TOOL_STRING
           : rf_json_is_any_number(value) ? TOOL_NUMBER
           : json_is_boolean(value)       ? TOOL_BOOLEAN
           : json_is_null(value)          ? TOOL_NULL
           : json_is_array(value)         ? TOOL_ARRAY
                                          : TOOL_OBJECT;
}

/* The value that "#/a/b" names in the root. */
static const json_t *referred(const json_t *root, const char *pointer)
{
    char key[256];
    if (*pointer++ != '#') return NULL;
    while (root && *pointer == '/') {
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/' && n + 1 < sizeof key; pointer++) {
            int is_escape = *pointer == '~' && (pointer[1] == '0' || pointer[1] == '1');
            key[n++] = is_escape ? (pointer[1] == '0' ? '~' : '/') : *pointer;
            pointer += is_escape;
        }
        key[n] = '\0';
        root = json_object_get(root, key);
    }
    return root;
}

/* `left` counts the schemas that may still be looked at: references may go round. */
static int types_within(const json_t *schema, const json_t *root, int *left);

static int types_of_list(const json_t *list)
{
    size_t n = json_array_size(list);
    int types = n > LOOKED_INTO ? TOOL_ANY : 0;
    for (size_t i = 0; i < n && i < LOOKED_INTO; i++) types |= type_of(json_array_get(list, i));
    return types;
}

static int types_of_branches(const json_t *branches, const json_t *root, int *left)
{
    int types = 0;
    for (size_t i = 0; i < json_array_size(branches) && *left > 0; i++)
        types |= types_within(json_array_get(branches, i), root, left);
    return *left > 0 ? types : TOOL_ANY;
}

static int types_within(const json_t *schema, const json_t *root, int *left)
{
    static const char *const choices[] = {"anyOf", "oneOf"};
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"),
                 *only = json_object_get(schema, "const"), *all = json_object_get(schema, "allOf");
    const char *pointer = rf_json_c_string(json_object_get(schema, "$ref"));
    int types = TOOL_ANY, named = type_of_name(type);
    if (*left <= 0 || !rf_json_is_map(schema)) return TOOL_ANY;
    --*left;
    for (size_t i = 0; i < json_array_size(type) && i < LOOKED_INTO; i++)
        named |= type_of_name(json_array_get(type, i));
    if (named) types = named;
    if (json_is_true(json_object_get(schema, "nullable"))) types |= TOOL_NULL;
    for (int i = 0; i < 2; i++) {
        const json_t *branches = json_object_get(schema, choices[i]);
        if (json_array_size(branches)) types &= types_of_branches(branches, root, left);
    }
    for (size_t i = 0; i < json_array_size(all) && *left > 0; i++)
        types &= types_within(json_array_get(all, i), root, left);
    if (pointer) types &= types_within(referred(root, pointer), root, left);
    if (only) types &= type_of(only);
    if (json_array_size(list)) types &= types_of_list(list);
    return types;
}

int rf_tool_types(const json_t *schema, const json_t *root)
{
    int left = LOOKED_AT, types = schema ? types_within(schema, root, &left) : TOOL_ANY;
    return types ? types : TOOL_ANY;
}

/* ---- literals ---- */

struct literal {
    const char *at, *end, *quote;
    int depth;
};

static void literal_skip(struct literal *l)
{
    while (l->at < l->end && strchr(" \t\r\n", *l->at) && *l->at) l->at++;
}

static int literal_takes(struct literal *l, char c)
{
    literal_skip(l);
    if (l->at == l->end || *l->at != c) return 0;
    l->at++;
    return 1;
}

/* The code point of n hexadecimal digits, which it takes; -1: they are none. */
static int32_t literal_hex(struct literal *l, int n)
{
    int32_t value = 0;
    if (l->end - l->at < n) return -1;
    for (int i = 0; i < n; i++) {
        char c = l->at[i];
        int digit = c >= '0' && c <= '9'                     ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    l->at += n;
    return value;
}

/* Writes the character of an escape, whose backslash was taken. */
static void literal_escape(struct literal *l, struct rf_writer *out)
{
    static const char names[] = "n\nt\tr\rb\bf\f", same[] = "\"\\'/";
    char c = *l->at++;
    for (size_t i = 0; i < sizeof names - 1; i += 2)
        if (names[i] == c) {
            rf_write(out, &names[i + 1], 1);
            return;
        }
    int32_t point = c == 'u' ? literal_hex(l, 4) : c == 'x' ? literal_hex(l, 2) : -1;
    if (point >= 0xd800 && point < 0xdc00 && l->end - l->at > 5 && memcmp(l->at, "\\u", 2) == 0) {
        l->at += 2;
        int32_t low = literal_hex(l, 4);
        point = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00)
                                              : 0xfffd;
    }
    if (point >= 0xd800 && point < 0xe000) point = 0xfffd;
    char text[4];
    if (point >= 0) {
        rf_write(out, text, rf_utf8_encode((uint32_t)point, text));
    } else {
        if (!strchr(same, c)) rf_write(out, "\\", 1);
        rf_write(out, &c, 1);
    }
}

/* A string behind its first mark, up to the same mark. */
static json_t *literal_string(struct literal *l, char mark)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = {.allocator = &rf_system_allocator, .bytes = &bytes, .error = &error};
    while (l->at < l->end && *l->at != mark) {
        const char *from = l->at;
        while (l->at < l->end && *l->at != mark && *l->at != '\\') l->at++;
        rf_write(&out, from, (size_t)(l->at - from));
        if (l->end - l->at > 1 && *l->at == '\\') {
            l->at++;
            literal_escape(l, &out);
        } else if (l->at < l->end && *l->at == '\\') {
            l->at++;
        }
    }
    int is_whole = l->at < l->end && !out.code;
    l->at += l->at < l->end;
    json_t *text = is_whole ? json_stringn(bytes.count ? bytes.data : "", bytes.count) : NULL;
    rf_bytes_free(&rf_system_allocator, &bytes);
    return text;
}

/* A string between two `quote`s, which has no escapes. */
static json_t *literal_quoted(struct literal *l)
{
    size_t n = strlen(l->quote);
    const char *from = l->at + n;
    for (const char *at = from; (size_t)(l->end - at) >= n; at++)
        if (memcmp(at, l->quote, n) == 0) {
            l->at = at + n;
            return json_stringn(from, (size_t)(at - from));
        }
    return NULL;
}

static int begins_with(const struct literal *l, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(l->end - l->at) >= n && memcmp(l->at, text, n) == 0;
}

static json_t *literal_value(struct literal *l);

/* A number, or a word of Python or JSON. */
static json_t *literal_word(struct literal *l)
{
    const char *from = l->at;
    while (l->at < l->end && !strchr(" \t\r\n,:=()[]{}\"'", *l->at)) l->at++;
    size_t n = (size_t)(l->at - from);
    static const char *const words[] = {"true", "True", "false", "False", "null", "None"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && memcmp(words[i], from, n) == 0)
            return i < 2 ? json_true() : i < 4 ? json_false() : json_null();
    json_t *number = n ? rf_json_load(from, n, NULL, NULL) : NULL;
    if (rf_json_is_any_number(number)) return number;
    json_decref(number);
    return NULL;
}

/* Values up to `close`. */
static json_t *literal_list(struct literal *l, char close)
{
    json_t *list = json_array();
    while (list && !literal_takes(l, close)) {
        json_t *value = literal_value(l);
        if (!value || json_array_append_new(list, value)) goto failed;
        if (literal_takes(l, ',')) continue;
        if (!literal_takes(l, close)) goto failed;
        break;
    }
    return list;
failed:
    json_decref(list);
    return NULL;
}

/* A key: a string, or a bare name up to a colon. */
static json_t *literal_key(struct literal *l)
{
    literal_skip(l);
    if (l->at < l->end &&
        (*l->at == '"' || *l->at == '\'' || (l->quote && begins_with(l, l->quote))))
        return literal_value(l);
    const char *from = l->at;
    while (l->at < l->end && !strchr(" \t\r\n,:{}[]()", *l->at)) l->at++;
    return l->at > from ? json_stringn(from, (size_t)(l->at - from)) : NULL;
}

static json_t *literal_map(struct literal *l)
{
    json_t *map = json_object();
    while (map && !literal_takes(l, '}')) {
        json_t *key = literal_key(l),
               *value = json_is_string(key) && literal_takes(l, ':') ? literal_value(l) : NULL;
        int code = value ? json_object_set_new(map, json_string_value(key), value) : -1;
        json_decref(key);
        if (code) goto failed;
        if (literal_takes(l, ',')) continue;
        if (!literal_takes(l, '}')) goto failed;
        break;
    }
    return map;
failed:
    json_decref(map);
    return NULL;
}

static json_t *literal_value(struct literal *l)
{
    json_t *value = NULL;
    literal_skip(l);
    if (l->at == l->end || l->depth == NESTING) return NULL;
    if (l->quote && begins_with(l, l->quote)) return literal_quoted(l);
    char c = *l->at;
    if (!strchr("\"'[({", c)) return literal_word(l);
    l->at++;
    l->depth++;
    if (c == '"' || c == '\'') value = literal_string(l, c);
    if (c == '[' || c == '(') value = literal_list(l, c == '[' ? ']' : ')');
    if (c == '{') value = literal_map(l);
    l->depth--;
    return value;
}

json_t *rf_tool_literal(const char *text, size_t n, const char *quote, size_t *used)
{
    struct literal l = {.at = text, .end = text + n, .quote = quote};
    json_t *value = literal_value(&l);
    *used = (size_t)(l.at - text);
    return value;
}

/* ---- plain texts ---- */

/* The value if it is of one of the types, and no string. */
static json_t *keep_typed(json_t *value, int types)
{
    if (value && !json_is_string(value) && (type_of(value) & types)) return value;
    json_decref(value);
    return NULL;
}

json_t *rf_tool_value(const char *text, size_t n, int types)
{
    size_t from = 0, to = n, used = 0;
    json_t *value = NULL;
    if (types == TOOL_STRING) return json_stringn(n ? text : "", n);
    while (from < to && strchr(" \t\r\n", text[from]) && text[from]) from++;
    while (to > from && strchr(" \t\r\n", text[to - 1]) && text[to - 1]) to--;
    if (to > from) value = keep_typed(rf_json_load(text + from, to - from, NULL, NULL), types);
    if (!value && to > from && !(types & TOOL_STRING)) {
        value = keep_typed(rf_tool_literal(text + from, to - from, NULL, &used), types);
        if (value && used < to - from) {
            json_decref(value);
            value = NULL;
        }
    }
    return value ? value : json_stringn(n ? text : "", n);
}
