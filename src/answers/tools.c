/* The forms in which models call tools: found out from the template, demanded by a grammar, and
 * read out of an answer while its pieces arrive. A call of an unknown tool stays text. */
#define _POSIX_C_SOURCE 200809L
#include "answers/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "platform/memory.h"
#include "platform/random.h"

static const char array_tag[] = "[TOOL_CALLS]", arguments_tag[] = "[ARGS]",
                  block_tag[] = "<｜tool▁calls▁begin｜>", block_end_tag[] = "<｜tool▁calls▁end｜>",
                  call_tag[] = "<｜tool▁call▁begin｜>", call_end_tag[] = "<｜tool▁call▁end｜>",
                  name_tag[] = "<｜tool▁sep｜>";

/* The tags around calls that stand amid text; without `close` calls go on to the end. */
static const struct tags {
    const char *open, *close;
} tags_of[] = {
    [TOOLS_TAGGED] = {"<tool_call>", "</tool_call>"},
    [TOOLS_NAMED] = {array_tag, NULL},
    [TOOLS_BLOCK] = {block_tag, block_end_tag},
    [TOOLS_FENCED] = {block_tag, block_end_tag},
};

/* ---- templates ---- */

/* The form of a text with a call of `probed`, which begins at `call`. */
static enum tool_form form_of(const char *text, const char *call)
{
    if (strstr(text, arguments_tag)) return TOOLS_NAMED;
    if (strstr(text, name_tag)) return strstr(call, name_tag) ? TOOLS_BLOCK : TOOLS_FENCED;
    if (strstr(text, array_tag)) return TOOLS_ARRAY;
    if (strstr(text, tags_of[TOOLS_TAGGED].open)) return TOOLS_TAGGED;
    return strstr(call, "\"parameters\"") ? TOOLS_OBJECT : TOOLS_NONE;
}

/* The text of a conversation, for free(); NULL: the template refuses it. */
static char *format_chat(const riffle_model *model, const char *conversation)
{
    int64_t n = riffle_chat_format_json(model, conversation, strlen(conversation), 1, NULL, 0);
    char *text = n > 0 ? malloc((size_t)n + 1) : NULL;
    if (!text) return NULL;
    riffle_chat_format_json(model, conversation, strlen(conversation), 1, text, (size_t)n);
    text[n] = '\0';
    return text;
}

int rf_template_has_effort(const riffle_model *model)
{
    char *without = format_chat(model, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"),
         *low = format_chat(model, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                   "\"reasoning_effort\":\"low\"}"),
         *high = format_chat(model, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                    "\"reasoning_effort\":\"high\"}");
    int has = without && (!low || !high || strcmp(without, low) != 0 || strcmp(without, high) != 0);
    free(without);
    free(low);
    free(high);
    return has;
}

enum tool_form rf_tools_form(const riffle_model *model)
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
    if (call && strstr(text, "offered")) form = form_of(text, call);
    free(text);
    return form;
}

/* ---- requests ---- */

int rf_tools_are_valid(const json_t *tools)
{
    size_t n = json_array_size(tools);
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = json_array_get(tools, i),
                     *function = json_object_get(tool, "function"),
                     *parameters = json_object_get(function, "parameters");
        const char *type = rf_json_c_string(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0 ||
            !rf_json_c_string(json_object_get(function, "name")) ||
            (parameters && !rf_json_is_map(parameters) && !json_is_null(parameters)))
            return 0;
    }
    return n > 0;
}

const json_t *rf_tools_find(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
            return function;
    }
    return NULL;
}

/* A replacement for strndup, which Windows lacks. */
static char *copy_text(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

static char *join_texts(const char *const *parts, size_t n)
{
    struct rf_bytes joined = {0};
    struct rf_error error;
    struct rf_writer out = {.allocator = &rf_system_allocator, .bytes = &joined, .error = &error};
    for (size_t i = 0; i < n; i++) rf_write_text(&out, parts[i]);
    char *text = out.code ? NULL : copy_text(joined.data, joined.count);
    rf_bytes_free(&rf_system_allocator, &joined);
    return text;
}

char *rf_tools_opening(enum tool_form form)
{
    switch (form) {
    case TOOLS_TAGGED: return join_texts((const char *[]){tags_of[form].open, "\n"}, 2);
    case TOOLS_ARRAY: return strdup(array_tag);
    case TOOLS_NAMED: return strdup(array_tag);
    case TOOLS_BLOCK: return join_texts((const char *[]){block_tag, call_tag}, 2);
    case TOOLS_FENCED:
        return join_texts((const char *[]){block_tag, call_tag, "function", name_tag}, 4);
    default: return strdup("");
    }
}

static json_t *schema_of_arguments(const json_t *function)
{
    const json_t *parameters = json_object_get(function, "parameters");
    return rf_json_is_map(parameters) ? json_pack("{s:O}", "schema", parameters)
                                      : json_pack("{s:{s:s}}", "schema", "type", "object");
}

/* {"name": ..., "arguments": ...}, as templates write it. Takes the schema. */
static json_t *parts_of_object(const char *before, const char *name, const char *key,
                               json_t *schema, const char *after)
{
    json_t *text = json_string(name);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    char *begin =
        quoted ? join_texts((const char *[]){before, "{\"name\": ", quoted, ", \"", key, "\": "}, 6)
               : NULL;
    json_t *parts = json_pack("[{s:s}, o, {s:s}]", "text", begin, schema, "text", after);
    json_decref(text);
    free(quoted);
    free(begin);
    return parts;
}

static json_t *parts_of_call(enum tool_form form, const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *schema = schema_of_arguments(function);
    switch (form) {
    case TOOLS_NAMED:
        return json_pack("[{s:s}, {s:s}, o]", "text", name, "token", arguments_tag, schema);
    case TOOLS_BLOCK:
        return json_pack("[{s:s}, {s:s}, o]", "text", name, "token", name_tag, schema);
    case TOOLS_FENCED:
        return json_pack("[{s:s}, {s:s}, o]", "text", name, "text", "\n```json\n", schema);
    case TOOLS_ARRAY: return parts_of_object("[", name, "arguments", schema, "}]");
    case TOOLS_OBJECT: return parts_of_object("", name, "parameters", schema, "}");
    default: return parts_of_object("", name, "arguments", schema, "}");
    }
}

json_t *rf_tools_grammar(enum tool_form form, const json_t *tools, const char *name)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        int is_wanted = !name || rf_tools_find(tools, name) == function;
        if (is_wanted && json_array_append_new(calls, parts_of_call(form, function))) {
            json_decref(calls);
            return NULL;
        }
    }
    return calls;
}

/* ---- answers ---- */

static int is_json_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The first n bytes without the blanks at their end. */
static size_t trimmed_length(const char *text, size_t n)
{
    while (n > 0 && is_json_blank(text[n - 1])) n--;
    return n;
}

/* The first place of a tag, or NULL. */
static const char *find_tag(const char *text, size_t n, const char *tag)
{
    size_t length = strlen(tag);
    for (; n >= length; text++, n--)
        if (memcmp(text, tag, length) == 0) return text;
    return NULL;
}

int rf_tool_reader_wants(const struct tool_reader *reader, const char *control)
{
    const struct tags *tags = &tags_of[reader->form];
    if (!tags->open) return 0;
    const char *const wanted[] = {tags->open, tags->close,  arguments_tag,
                                  call_tag,   call_end_tag, name_tag};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i] && strcmp(wanted[i], control) == 0) return 1;
    return 0;
}

void rf_tool_reader_begin(struct tool_reader *reader, enum tool_form form, const json_t *tools)
{
    *reader = (struct tool_reader){.form = form, .tools = tools};
}

void rf_tool_reader_free(struct tool_reader *reader)
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

/* NULL if it is no call of a given tool. */
static json_t *make_call(const struct tool_reader *reader, const char *name,
                         const json_t *arguments)
{
    char id[10];
    if (!name || !rf_tools_find(reader->tools, name)) return NULL;
    if (!rf_json_is_map(arguments) && !json_is_string(arguments)) return NULL;
    size_t bytes = 0;
    char *text = json_is_string(arguments) ? NULL : rf_json_dump(arguments, 0, &bytes);
    json_t *written =
        text ? json_stringn_nocheck(text, bytes) : json_incref((json_t *)(uintptr_t)arguments);
    name_call(id);
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", written);
    free(text);
    return call;
}

static json_t *call_of(const struct tool_reader *reader, const json_t *value)
{
    const json_t *arguments = json_object_get(value, "arguments");
    if (!arguments) arguments = json_object_get(value, "parameters");
    return make_call(reader, rf_json_c_string(json_object_get(value, "name")), arguments);
}

/* Adds the calls of a text that is nothing but JSON values, one or several, calls or arrays of
 * them. Returns 0, or -1: it is something else, and some may have been added. */
static int add_value_calls(const struct tool_reader *reader, const char *text, size_t bytes,
                           json_t *calls)
{
    for (size_t at = 0;;) {
        size_t used = 0;
        while (at < bytes && strchr(" \t\r\n;", text[at])) at++;
        if (at == bytes) return 0;
        json_t *value = rf_json_load(text + at, bytes - at, &used, NULL);
        size_t n = json_is_array(value) ? json_array_size(value) : value != NULL, i = 0;
        for (; i < n; i++) {
            json_t *call = call_of(reader, json_is_array(value) ? json_array_get(value, i) : value);
            if (!call || json_array_append_new(calls, call)) break;
        }
        json_decref(value);
        if (!n || i < n) return -1;
        at += used;
    }
}

/* Adds a call of the name, without blanks beside it, and the JSON object that begins the arguments.
 * Returns its bytes; 0: it is none. */
static size_t add_named_call(const struct tool_reader *reader, const char *name, size_t n,
                             const char *arguments, size_t bytes, json_t *calls)
{
    size_t used = 0;
    char *copy = copy_text(name, n);
    json_t *value = rf_json_load(arguments, bytes, &used, NULL);
    json_t *call = copy && rf_json_is_map(value) ? make_call(reader, copy, value) : NULL;
    free(copy);
    json_decref(value);
    return call && json_array_append_new(calls, call) == 0 ? used : 0;
}

/* name[ARGS]{...}, perhaps with [CALL_ID]... behind the name, and the tag between two of them. */
static int add_named_calls(const struct tool_reader *reader, const char *text, size_t bytes,
                           json_t *calls)
{
    size_t tag = strlen(array_tag), args = strlen(arguments_tag);
    while (trimmed_length(text, bytes)) {
        if (bytes >= tag && memcmp(text, array_tag, tag) == 0) text += tag, bytes -= tag;
        while (bytes && is_json_blank(*text)) text++, bytes--;
        const char *found = find_tag(text, bytes, arguments_tag);
        if (!found) return -1;
        const char *bracket = memchr(text, '[', bytes);
        size_t before = (size_t)(found - text) + args;
        size_t used = add_named_call(reader, text, trimmed_length(text, (size_t)(bracket - text)),
                                     found + args, bytes - before, calls);
        if (!used) return -1;
        text += before + used;
        bytes -= before + used;
        while (bytes && is_json_blank(*text)) text++, bytes--;
    }
    return 0;
}

/* DeepSeek's calls, each between its tags. */
static int add_tagged_block_calls(const struct tool_reader *reader, const char *text, size_t bytes,
                                  json_t *calls)
{
    const char *end = text + bytes;
    while (trimmed_length(text, (size_t)(end - text))) {
        const char *call = find_tag(text, (size_t)(end - text), call_tag);
        if (!call) return -1;
        call += strlen(call_tag);
        const char *close = find_tag(call, (size_t)(end - call), call_end_tag);
        if (!close) close = end;
        const char *name = find_tag(call, (size_t)(close - call), name_tag), *rest, *object;
        if (!name) return -1;
        rest = name + strlen(name_tag);
        object = memchr(rest, '{', (size_t)(close - rest));
        if (!object) return -1;
        /* "function", the tag, name, fence, object; or name, the tag, object. */
        const char *fence = find_tag(rest, (size_t)(object - rest), "```");
        const char *from = fence ? rest : call, *to = fence ? fence : name;
        if (!add_named_call(reader, from, trimmed_length(from, (size_t)(to - from)), object,
                            (size_t)(close - object), calls))
            return -1;
        text = close == end ? end : close + strlen(call_end_tag);
    }
    return 0;
}

/* Adds the calls of a text that has nothing else, all or none, as many as are wanted. Returns 1 if
 * there are any. */
static int add_calls(struct tool_reader *reader, const char *text, size_t bytes, json_t *calls)
{
    size_t before = json_array_size(calls), found, kept;
    int code = reader->form == TOOLS_NAMED    ? add_named_calls(reader, text, bytes, calls)
               : reader->form == TOOLS_BLOCK  ? add_tagged_block_calls(reader, text, bytes, calls)
               : reader->form == TOOLS_FENCED ? add_tagged_block_calls(reader, text, bytes, calls)
                                              : add_value_calls(reader, text, bytes, calls);
    found = kept = code ? 0 : json_array_size(calls) - before;
    if (reader->most && kept > (size_t)(reader->most - reader->n_calls))
        kept = (size_t)(reader->most - reader->n_calls);
    while (json_array_size(calls) > before + kept)
        json_array_remove(calls, json_array_size(calls) - 1);
    reader->n_calls += (int32_t)kept;
    return found > 0;
}

/* Moves the first n held bytes to the text; n_dropped more are gone. */
static int reader_release(struct tool_reader *reader, size_t n, size_t n_dropped,
                          struct rf_bytes *text, struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    int code = n ? rf_bytes_append(&rf_system_allocator, text, held->data, n, error) : 0;
    held->count -= n + n_dropped;
    if (held->count) memmove(held->data, held->data + n + n_dropped, held->count);
    return code;
}

/* How many bytes at the end of the text may be the beginning of the tag. */
static size_t begun_tag(const struct rf_bytes *text, const char *tag)
{
    size_t n = strlen(tag) - 1 < text->count ? strlen(tag) - 1 : text->count;
    while (n > 0 && memcmp(text->data + text->count - n, tag, n) != 0) n--;
    return n;
}

/* Text up to a tag that may have begun. Blanks before it are a call's, if one follows. */
static int reader_take_text(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                            struct rf_error *error)
{
    const struct rf_bytes *held = &reader->held;
    size_t n = held->count;
    if (!is_last) n = trimmed_length(held->data, n - begun_tag(held, tags_of[reader->form].open));
    if (n) reader->is_behind_call = 0;
    return reader_release(reader, n, 0, text, error);
}

/* A call between tags. A text between tags that is no call stays text. */
static int reader_take_call(struct tool_reader *reader, size_t begin, size_t body, size_t end,
                            size_t after, struct rf_bytes *text, json_t *calls,
                            struct rf_error *error)
{
    const struct rf_bytes *held = &reader->held;
    reader->is_behind_call = add_calls(reader, held->data + body, end - body, calls);
    if (!reader->is_behind_call) return reader_release(reader, after, 0, text, error);
    begin = trimmed_length(held->data, begin);
    return reader_release(reader, begin, after - begin, text, error);
}

/* Takes text, and calls between tags; blanks beside calls are dropped. */
static int reader_take_tagged(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                              json_t *calls, struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    const struct tags *tags = &tags_of[reader->form];
    int code = 0;
    while (!code) {
        size_t blanks = 0;
        while (reader->is_behind_call && blanks < held->count && is_json_blank(held->data[blanks]))
            blanks++;
        reader_release(reader, 0, blanks, text, error);
        if (!held->count) return 0;
        const char *open = find_tag(held->data, held->count, tags->open);
        if (!open) return reader_take_text(reader, is_last, text, error);
        size_t begin = (size_t)(open - held->data), body = begin + strlen(tags->open);
        const char *close =
            tags->close ? find_tag(held->data + body, held->count - body, tags->close) : NULL;
        if (!close && !is_last) return 0;
        size_t end = close ? (size_t)(close - held->data) : held->count;
        size_t after = end + (close ? strlen(tags->close) : 0);
        code = reader_take_call(reader, begin, body, end, after, text, calls, error);
    }
    return code;
}

/* An answer that is calls as a whole, or text. */
static int reader_take_whole(struct tool_reader *reader, int is_last, struct rf_bytes *text,
                             json_t *calls, struct rf_error *error)
{
    struct rf_bytes *held = &reader->held;
    size_t tag = strlen(array_tag), first = 0;
    while (first < held->count && strchr(" \t\r\n", held->data[first])) first++;
    if (first < held->count && !strchr("{[", held->data[first])) reader->is_text = 1;
    if (!reader->is_text && !is_last) return 0;
    if (!reader->is_text && held->count) {
        if (held->count - first > tag && memcmp(held->data + first, array_tag, tag) == 0)
            first += tag;
        if (add_calls(reader, held->data + first, held->count - first, calls))
            return reader_release(reader, 0, held->count, text, error);
    }
    return reader_release(reader, held->count, 0, text, error);
}

int rf_tool_reader_push(struct tool_reader *reader, const char *piece, size_t bytes, int is_last,
                        struct rf_bytes *text, json_t *calls, struct rf_error *error)
{
    int code =
        bytes ? rf_bytes_append(&rf_system_allocator, &reader->held, piece, bytes, error) : 0;
    if (code) return code;
    return tags_of[reader->form].open ? reader_take_tagged(reader, is_last, text, calls, error)
                                      : reader_take_whole(reader, is_last, text, calls, error);
}
