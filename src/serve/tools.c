#define _POSIX_C_SOURCE 200809L
#include "serve/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"
#include "platform/random.h"

static const char open_tag[] = "<tool_call>", close_tag[] = "</tool_call>",
                  array_tag[] = "[TOOL_CALLS]";

/* ---- templates ---- */

enum tool_form tools_form(const riffle_model *model)
{
    static const char probe[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
        "\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\",\"type\":\"function\","
        "\"function\":{\"name\":\"probed\",\"arguments\":{\"b\":1}}}]}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"offered\","
        "\"description\":\"c\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]}";
    enum tool_form form = TOOLS_NONE;
    int64_t n = riffle_chat_format_json(model, probe, strlen(probe), 0, NULL, 0);
    char *text = n > 0 ? malloc((size_t)n + 1) : NULL;
    if (!text) return form;
    riffle_chat_format_json(model, probe, strlen(probe), 0, text, (size_t)n);
    text[n] = '\0';
    const char *call = strstr(text, "probed");
    if (call && strstr(text, "offered"))
        form = strstr(text, array_tag)          ? TOOLS_ARRAY
               : strstr(text, open_tag)         ? TOOLS_TAGGED
               : strstr(call, "\"parameters\"") ? TOOLS_OBJECT
                                                : TOOLS_NONE;
    free(text);
    return form;
}

/* ---- requests ---- */

int tools_are_valid(const json_t *tools)
{
    size_t n = json_array_size(tools);
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = json_array_get(tools, i),
                     *function = json_object_get(tool, "function"),
                     *parameters = json_object_get(function, "parameters");
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0 ||
            !json_is_string(json_object_get(function, "name")) ||
            (parameters && !json_is_object(parameters) && !json_is_null(parameters)))
            return 0;
    }
    return n > 0;
}

const json_t *tools_find(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
            return function;
    }
    return NULL;
}

const char *tools_opening(enum tool_form form)
{
    return form == TOOLS_TAGGED ? "<tool_call>\n" : form == TOOLS_ARRAY ? array_tag : "";
}

static json_t *schema_of_call(const json_t *function, const char *arguments)
{
    const json_t *parameters = json_object_get(function, "parameters");
    json_t *schema = json_is_object(parameters) ? json_incref((json_t *)parameters)
                                                : json_pack("{s:s}", "type", "object");
    return json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                     "name", "const", json_object_get(function, "name"), arguments, schema,
                     "required", "name", arguments, "additionalProperties", 0);
}

json_t *tools_schema(enum tool_form form, const json_t *tools, const char *name)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (!name || tools_find(tools, name) == function)
            json_array_append_new(
                calls, schema_of_call(function, form == TOOLS_OBJECT ? "parameters" : "arguments"));
    }
    json_t *call = json_pack("{s:o}", "anyOf", calls);
    if (form != TOOLS_ARRAY) return call;
    return json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", call, "minItems", 1,
                     "maxItems", 1);
}

/* ---- answers ---- */

void tool_reader_begin(struct tool_reader *reader, enum tool_form form, const json_t *tools)
{
    *reader = (struct tool_reader){.form = form, .tools = tools};
}

void tool_reader_free(struct tool_reader *reader)
{
    rf_bytes_free(&rf_system_allocator, &reader->held);
}

/* Nine letters and digits, as Mistral's templates demand. */
static void name_call(char id[10])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t random = rf_random();
    for (int i = 0; i < 9; i++, random /= 36) id[i] = digits[random % 36];
    id[9] = '\0';
}

/* NULL if the value is no call of a given tool. */
static json_t *call_of(const struct tool_reader *reader, const json_t *value)
{
    const char *name = json_string_value(json_object_get(value, "name"));
    const json_t *arguments = json_object_get(value, "arguments");
    char id[10];
    if (!arguments) arguments = json_object_get(value, "parameters");
    if (!name || !tools_find(reader->tools, name)) return NULL;
    if (!json_is_object(arguments) && !json_is_string(arguments)) return NULL;
    char *text = json_is_string(arguments) ? strdup(json_string_value(arguments))
                                           : json_dumps(arguments, JSON_COMPACT);
    name_call(id);
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", text);
    free(text);
    return call;
}

/* Adds the calls of a text that is nothing but JSON values, one or several, calls or arrays of
 * them. Returns how many; 0: it is something else. */
static int32_t add_calls(const struct tool_reader *reader, const char *text, size_t bytes,
                         json_t *calls)
{
    size_t before = json_array_size(calls), at = 0;
    for (;;) {
        json_error_t error;
        while (at < bytes && strchr(" \t\r\n;", text[at])) at++;
        if (at == bytes) break;
        json_t *value = json_loadb(text + at, bytes - at, JSON_DISABLE_EOF_CHECK, &error);
        size_t n = json_is_array(value) ? json_array_size(value) : value != NULL, i = 0;
        for (; i < n; i++) {
            json_t *call = call_of(reader, json_is_array(value) ? json_array_get(value, i) : value);
            if (!call || json_array_append_new(calls, call)) break;
        }
        json_decref(value);
        if (!n || i < n) { /* all or none */
            while (json_array_size(calls) > before)
                json_array_remove(calls, json_array_size(calls) - 1);
            return 0;
        }
        at += (size_t)error.position;
    }
    return (int32_t)(json_array_size(calls) - before);
}

/* Moves the first n held bytes to the text; n_dropped more are gone. */
static int release(struct tool_reader *reader, size_t n, size_t n_dropped, struct rf_bytes *text,
                   struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    int code = n ? rf_bytes_append(&rf_system_allocator, text, held->data, n, error) : 0;
    held->count -= n + n_dropped;
    if (held->count) memmove(held->data, held->data + n + n_dropped, held->count);
    return code;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The first n bytes without the blanks at their end. */
static size_t without_blanks(const char *text, size_t n)
{
    while (n > 0 && is_blank(text[n - 1])) n--;
    return n;
}

/* How many bytes at the end of the text may be the beginning of the tag. */
static size_t begun_tag(const struct rf_bytes *text, const char *tag)
{
    size_t n = strlen(tag) - 1 < text->count ? strlen(tag) - 1 : text->count;
    while (n > 0 && memcmp(text->data + text->count - n, tag, n) != 0) n--;
    return n;
}

/* Text up to a tag that may have begun. Blanks before it are a call's, if one follows. */
static int read_text(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                     struct rf_error *error)
{
    const struct rf_bytes *held = &reader->held;
    size_t n = held->count;
    if (!is_last) n = without_blanks(held->data, n - begun_tag(held, open_tag));
    if (n) reader->is_behind_call = 0;
    return release(reader, n, 0, text, error);
}

/* A call between tags. What is none is text. */
static int read_call(struct tool_reader *reader, size_t begin, size_t body, size_t end,
                     size_t after, struct rf_bytes *text, json_t *calls, struct rf_error *error)
{
    const struct rf_bytes *held = &reader->held;
    int32_t n = add_calls(reader, held->data + body, end - body, calls);
    reader->n_calls += n;
    reader->is_behind_call = n > 0;
    if (n == 0) return release(reader, after, 0, text, error);
    begin = without_blanks(held->data, begin);
    return release(reader, begin, after - begin, text, error);
}

/* Where a tag first is, or NULL. */
static const char *find_tag(const char *text, size_t n, const char *tag)
{
    size_t length = strlen(tag);
    for (; n >= length; text++, n--)
        if (memcmp(text, tag, length) == 0) return text;
    return NULL;
}

/* Text, and calls between tags; blanks beside calls are nobody's. */
static int read_tagged(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                       json_t *calls, struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    int code = 0;
    while (!code) {
        size_t blanks = 0;
        while (reader->is_behind_call && blanks < held->count && is_blank(held->data[blanks]))
            blanks++;
        release(reader, 0, blanks, text, error);
        if (!held->count) return 0;
        const char *open = find_tag(held->data, held->count, open_tag);
        if (!open) return read_text(reader, is_last, text, error);
        size_t begin = (size_t)(open - held->data), body = begin + strlen(open_tag);
        const char *close = find_tag(held->data + body, held->count - body, close_tag);
        if (!close && !is_last) return 0;
        size_t end = close ? (size_t)(close - held->data) : held->count;
        size_t after = end + (close ? strlen(close_tag) : 0);
        code = read_call(reader, begin, body, end, after, text, calls, error);
    }
    return code;
}

/* An answer that is calls as a whole, or text. */
static int read_whole(struct tool_reader *reader, int is_last, struct rf_bytes *text, json_t *calls,
                      struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    size_t tag = strlen(array_tag), first = 0;
    while (first < held->count && strchr(" \t\r\n", held->data[first])) first++;
    if (first < held->count && !strchr("{[", held->data[first])) reader->is_text = 1;
    if (!reader->is_text && !is_last) return 0;
    if (!reader->is_text && held->count) {
        if (held->count - first > tag && memcmp(held->data + first, array_tag, tag) == 0)
            first += tag;
        int32_t n = add_calls(reader, held->data + first, held->count - first, calls);
        reader->n_calls += n;
        if (n) return release(reader, 0, held->count, text, error);
    }
    return release(reader, held->count, 0, text, error);
}

int tool_reader_push(struct tool_reader *reader, const char *piece, size_t bytes, int is_last,
                     struct rf_bytes *text, json_t *calls, struct rf_error *error)
{
    int code =
        bytes ? rf_bytes_append(&rf_system_allocator, &reader->held, piece, bytes, error) : 0;
    if (code) return code;
    return reader->form == TOOLS_TAGGED ? read_tagged(reader, is_last, text, calls, error)
                                        : read_whole(reader, is_last, text, calls, error);
}
