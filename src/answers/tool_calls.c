/* Reads calls by the row of their form. Blanks beside tags do not count, since models and templates
 * differ in them. All calls of a text are taken or none. */
#include "answers/tool_calls.h"

#include <stdlib.h>
#include <string.h>

#include "answers/tool_values.h"
#include "answers/tools.h"
#include "base/json.h"

/* The rest of the text. */
struct cursor {
    const char *at, *end;
};

static size_t bytes_left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

static int is_call_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void cursor_skip(struct cursor *c)
{
    while (c->at < c->end && is_call_blank(*c->at)) c->at++;
}

/* A tag without the blanks at its ends. */
struct tag {
    const char *text;
    size_t n;
};

static struct tag tag_of(const char *text)
{
    struct tag tag = {text ? text : "", text ? strlen(text) : 0};
    while (tag.n && is_call_blank(tag.text[tag.n - 1])) tag.n--;
    while (tag.n && is_call_blank(*tag.text)) tag.text++, tag.n--;
    return tag;
}

/* The first place of a tag; NULL: there is none, or the tag is empty. */
static const char *find_tag(const struct cursor *c, const char *text)
{
    struct tag tag = tag_of(text);
    for (const char *at = c->at; tag.n && (size_t)(c->end - at) >= tag.n; at++) {
        at = memchr(at, *tag.text, (size_t)(c->end - at) - tag.n + 1);
        if (!at) return NULL;
        if (memcmp(at, tag.text, tag.n) == 0) return at;
    }
    return NULL;
}

/* Takes a tag, with blanks before it, if it comes next. */
static int take_tag(struct cursor *c, const char *text)
{
    struct tag tag = tag_of(text);
    struct cursor next = *c;
    cursor_skip(&next);
    if (!tag.n || bytes_left(&next) < tag.n || memcmp(next.at, tag.text, tag.n) != 0) return 0;
    c->at = next.at + tag.n;
    return 1;
}

/* ---- tools ---- */

static int is_tool_name_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || (c & 0x80);
}

/* Takes the name of a tool that comes next, the longest; NULL: none does. */
static const json_t *take_name(struct cursor *c, const json_t *tools)
{
    const json_t *found = NULL;
    size_t longest = 0;
    cursor_skip(c);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        size_t n = strlen(name);
        if (n <= longest || n > bytes_left(c) || memcmp(c->at, name, n) != 0) continue;
        if (n < bytes_left(c) && is_tool_name_byte(c->at[n])) continue;
        found = function;
        longest = n;
    }
    c->at += longest;
    return found;
}

/* Takes the arguments: a map, or its JSON as a text. 0, or -1. */
static int add_call(const json_t *function, json_t *arguments, json_t *calls)
{
    size_t bytes = 0;
    char *text = rf_json_is_map(arguments) ? rf_json_dump(arguments, 0, &bytes) : NULL;
    json_t *written = text                        ? json_stringn_nocheck(text, bytes)
                      : json_is_string(arguments) ? json_incref(arguments)
                                                  : NULL;
    json_t *call = function && written
                       ? json_pack("{s:s, s:{s:O, s:O}}", "type", "function", "function", "name",
                                   json_object_get(function, "name"), "arguments", written)
                       : NULL;
    free(text);
    json_decref(written);
    json_decref(arguments);
    return call ? json_array_append_new(calls, call) : -1;
}

/* Takes the value. 0, or -1. */
static int set_argument(json_t *object, const struct cursor *name, json_t *value)
{
    size_t n = bytes_left(name);
    char *copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, name->at, n);
        copy[n] = '\0';
    }
    int code = copy && n ? json_object_set(object, copy, value) : -1;
    json_decref(value);
    free(copy);
    return code;
}

/* ---- objects ---- */

static int add_object(const json_t *tools, const json_t *object, json_t *calls)
{
    static const char *const names[] = {"name", "tool_name", "function"}, *const keys[] = {
                                                                              "arguments",
                                                                              "parameters"};
    const json_t *inner = json_object_get(object, "function"), *arguments = NULL;
    if (rf_json_is_map(inner)) object = inner;
    const char *name = NULL;
    for (int i = 0; i < 3 && !name; i++) name = rf_json_c_string(json_object_get(object, names[i]));
    for (int i = 0; i < 2 && !arguments; i++) arguments = json_object_get(object, keys[i]);
    if (!name && json_object_size(object) == 1) { /* {name: arguments} */
        void *only = json_object_iter((json_t *)(uintptr_t)object);
        name = json_object_iter_key(only);
        arguments = json_object_iter_value(only);
    }
    const json_t *function = name ? rf_tools_find(tools, name) : NULL;
    return function ? add_call(function, json_incref((json_t *)(uintptr_t)arguments), calls) : -1;
}

/* JSON values, one or several, objects or arrays of them. */
static int read_objects(const json_t *tools, struct cursor c, json_t *calls)
{
    for (;;) {
        size_t used = 0, i = 0;
        while (c.at < c.end && (is_call_blank(*c.at) || *c.at == ';' || *c.at == ',')) c.at++;
        if (c.at == c.end) return 0;
        json_t *value = rf_json_load(c.at, bytes_left(&c), &used, NULL);
        size_t n = json_is_array(value) ? json_array_size(value) : value != NULL;
        while (i < n &&
               !add_object(tools, json_is_array(value) ? json_array_get(value, i) : value, calls))
            i++;
        json_decref(value);
        if (!n || i < n) return -1;
        c.at += used;
    }
}

/* ---- names ---- */

static int read_named_call(const struct tool_form *form, const json_t *tools, struct cursor *c,
                           json_t *calls)
{
    size_t used = 0;
    take_tag(c, form->tags[0].open); /* between calls that have no tags of their own */
    take_tag(c, form->call);
    const char *brace = memchr(c->at, '{', bytes_left(c));
    struct cursor head = {c->at, brace ? brace : c->end};
    const char *name = find_tag(&head, form->name);
    if (!brace) return -1;
    if (name) c->at = name + tag_of(form->name).n;
    const json_t *function = take_name(c, tools);
    c->at = brace;
    json_t *arguments = rf_json_load(c->at, bytes_left(c), &used, NULL);
    if (add_call(function, arguments, calls)) return -1;
    c->at += used;
    take_tag(c, "```");
    take_tag(c, form->call_end);
    struct tag end = tag_of(form->call_end);
    if (end.n > 3 && memcmp(end.text, "```", 3) == 0) take_tag(c, end.text + 3);
    return 0;
}

/* ---- pairs ---- */

/* The first of another pair of the call and its end. */
static const char *next_pair(const struct tool_form *form, const struct cursor *c)
{
    const char *key = find_tag(c, form->key), *end = find_tag(c, form->call_end);
    return key && (!end || key < end) ? key : NULL;
}

/* Whether what stands between a key and its value, such as string="true", makes it a string: 1, 0,
 * or -1: it does not say. */
static int says_string(const char *from, const char *to)
{
    struct cursor between = {from, to};
    if (find_tag(&between, "string=\"true\"") || find_tag(&between, "type=\"string\"")) return 1;
    return find_tag(&between, "string=\"false\"") || find_tag(&between, "type=\"") ? 0 : -1;
}

/* Takes a pair that begins at the cursor. 0, or -1. */
static int read_pair(const struct tool_form *form, const json_t *function, struct cursor *c,
                     json_t *arguments)
{
    const json_t *schema = json_object_get(function, "parameters");
    if (!take_tag(c, form->key)) return -1;
    const char *key = c->at, *key_end = find_tag(c, form->key_end);
    if (!key_end) return -1;
    c->at = key_end + tag_of(form->key_end).n;
    const char *before = c->at, *value = tag_of(form->value).n ? find_tag(c, form->value) : c->at;
    if (!value) return -1;
    c->at = value + tag_of(form->value).n;
    const char *from = c->at, *to = find_tag(c, form->value_end);
    if (!to) return -1;
    c->at = to + tag_of(form->value_end).n;
    if (form->trims_lines && from < to && *from == '\n') from++;
    if (form->trims_lines && from < to && to[-1] == '\n') to--;
    struct cursor name = {key, key_end};
    char text[256] = "";
    if (bytes_left(&name) < sizeof text) memcpy(text, key, bytes_left(&name));
    const json_t *property = json_object_get(json_object_get(schema, "properties"), text);
    int is_string = says_string(before, value), types = rf_tool_types(property, schema);
    if (is_string == 1) types = TOOL_STRING;
    if (is_string == 0 && types == TOOL_STRING) types = TOOL_ANY;
    json_t *made = rf_tool_value(from, (size_t)(to - from), types);
    return made ? set_argument(arguments, &name, made) : -1;
}

static int read_pairs_call(const struct tool_form *form, const json_t *tools, struct cursor *c,
                           json_t *calls)
{
    take_tag(c, form->call);
    const json_t *function = take_name(c, tools);
    json_t *arguments = function ? json_object() : NULL;
    const char *pair;
    int code = arguments ? 0 : -1;
    while (!code && (pair = next_pair(form, c))) {
        c->at = pair;
        code = read_pair(form, function, c, arguments);
    }
    const char *end = code ? NULL : find_tag(c, form->call_end);
    c->at = end ? end + tag_of(form->call_end).n : c->end;
    if (!code) return add_call(function, arguments, calls);
    json_decref(arguments);
    return -1;
}

/* ---- literals ---- */

/* Takes key=value. 0, or -1. */
static int read_literal_pair(const struct tool_form *form, struct cursor *c, json_t *arguments)
{
    size_t used = 0;
    cursor_skip(c);
    const char *key_end = find_tag(c, form->key_end);
    struct cursor key = {c->at, key_end ? key_end : c->at};
    while (key.at < key.end && is_call_blank(key.end[-1])) key.end--;
    if (key.at == key.end) return -1;
    c->at = key_end + tag_of(form->key_end).n;
    json_t *value = rf_tool_literal(c->at, bytes_left(c), form->quote, &used);
    c->at += used;
    return value ? set_argument(arguments, &key, value) : -1;
}

/* name(key=value, ...) or name{key:value, ...} */
static int read_literal_call(const struct tool_form *form, const json_t *tools, struct cursor *c,
                             json_t *calls)
{
    take_tag(c, form->name);
    const json_t *function = take_name(c, tools);
    json_t *arguments = function && take_tag(c, form->name_end) ? json_object() : NULL;
    int code = arguments ? 0 : -1, goes_on = !code && !take_tag(c, form->call_end);
    while (goes_on && !code) {
        code = read_literal_pair(form, c, arguments);
        goes_on = !code && take_tag(c, ",");
        if (!code && !goes_on && !take_tag(c, form->call_end)) code = -1;
    }
    if (!code) return add_call(function, arguments, calls);
    json_decref(arguments);
    return -1;
}

/* ---- texts ---- */

typedef int read_call_fn(const struct tool_form *form, const json_t *tools, struct cursor *c,
                         json_t *calls);

int rf_tool_calls_read(const struct tool_form *form, const json_t *tools, const char *text,
                       size_t bytes, json_t *calls)
{
    static read_call_fn *const readers[] = {[TOOL_NAMED] = read_named_call,
                                            [TOOL_PAIRS] = read_pairs_call,
                                            [TOOL_LITERALS] = read_literal_call};
    struct cursor c = {text, text + bytes};
    if (form->body == TOOL_OBJECTS) return read_objects(tools, c, calls);
    int is_list = form->is_list && take_tag(&c, "[");
    for (;;) {
        if (form->body == TOOL_LITERALS) take_tag(&c, ",");
        if (is_list && take_tag(&c, "]")) is_list = 0;
        cursor_skip(&c);
        if (c.at == c.end) return is_list ? -1 : 0;
        if (readers[form->body](form, tools, &c, calls)) return -1;
    }
}

/* Whether a string between quotation marks goes on; `marks` are their kinds. */
static int string_goes_on(struct cursor c, const char *marks)
{
    char mark = 0;
    for (; c.at < c.end; c.at++) {
        if (mark && *c.at == '\\')
            c.at++;
        else if (mark && *c.at == mark)
            mark = 0;
        else if (!mark && *c.at && strchr(marks, *c.at))
            mark = *c.at;
    }
    return mark != 0;
}

int rf_tool_calls_go_on(const struct tool_form *form, const char *text, size_t bytes)
{
    struct cursor c = {text, text + bytes};
    const char *at;
    if (form->body == TOOL_LITERALS && !form->quote) return string_goes_on(c, "\"'");
    if (form->body == TOOL_LITERALS) {
        int is_odd = 0;
        for (; (at = find_tag(&c, form->quote)); is_odd = !is_odd)
            c.at = at + tag_of(form->quote).n;
        return is_odd;
    }
    if (form->body == TOOL_NAMED && !(c.at = memchr(c.at, '{', bytes))) return 0;
    if (form->body != TOOL_PAIRS) return string_goes_on(c, "\"");
    while ((at = find_tag(&c, form->key))) {
        c.at = at;
        if (!(at = find_tag(&c, form->value_end))) return 1;
        c.at = at;
    }
    return 0;
}

int rf_tool_calls_may_begin(const char *text, size_t bytes)
{
    static const char *const keys[] = {"name", "tool_name",  "function", "arguments",
                                       "type", "parameters", "id",       "tool_call_id"};
    struct cursor c = {text, text + bytes};
    if (take_tag(&c, "[")) cursor_skip(&c);
    if (c.at == c.end) return 1;
    if (!take_tag(&c, "{")) return 0;
    cursor_skip(&c);
    if (c.at == c.end) return 1;
    if (*c.at++ != '"') return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i]), common = n < bytes_left(&c) ? n : bytes_left(&c);
        if (memcmp(c.at, keys[i], common) == 0 && (common == bytes_left(&c) || c.at[n] == '"'))
            return 1;
    }
    return 0;
}
