/* Makes a conversation into one that a template shows as a whole: what the template has no place
 * for becomes text, in the form that the model writes. Nothing is changed that it shows. */
#include <stdlib.h>
#include <string.h>

#include "answers/tool_forms.h"
#include "answers/tools.h"
#include "base/json.h"
#include "platform/memory.h"

static const char before_tools[] =
    "You can call functions. Each line describes one of them in JSON:\n",
                  before_form[] = "To call a function, write its name and its arguments like this, "
                                  "and nothing behind it:\n",
                  result_open[] = "<tool_response>\n", result_close[] = "\n</tool_response>";

/* The texts with `between` between them, unless one is empty or missing. For json_decref(). */
static json_t *join(const json_t *first, const char *between, const json_t *second)
{
    size_t n = json_string_length(first), m = json_string_length(second),
           gap = n && m ? strlen(between) : 0;
    char *text = malloc(n + gap + m + 1);
    if (!text) return NULL;
    if (n) memcpy(text, json_string_value(first), n);
    memcpy(text + n, between, gap);
    if (m) memcpy(text + n + gap, json_string_value(second), m);
    json_t *joined = json_stringn(text, n + gap + m);
    free(text);
    return joined;
}

/* The tools and the form of calls, in words. */
static json_t *describe_tools(const struct tool_form *form, const json_t *tools)
{
    json_t *example =
        json_pack("[{s:{s:s, s:{s:s}}}]", "function", "name", "NAME", "arguments", "KEY", "VALUE");
    char *call = rf_tools_write(form, example);
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = {.allocator = &rf_system_allocator, .bytes = &bytes, .error = &error};
    rf_write_text(&out, before_tools);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        rf_json_put(json_array_get(tools, i), 1, &out);
        rf_write_text(&out, i + 1 < json_array_size(tools) ? "\n" : "\n\n");
    }
    rf_write_text(&out, before_form);
    rf_write_text(&out, call ? call : "");
    json_t *text = out.code || !call ? NULL : json_stringn(bytes.data, bytes.count);
    rf_bytes_free(&rf_system_allocator, &bytes);
    json_decref(example);
    free(call);
    return text;
}

static int has_role(const json_t *message, const char *role)
{
    const char *is = rf_json_c_string(json_object_get(message, "role"));
    return is && strcmp(is, role) == 0;
}

/* Puts the text of the tools, which it takes, into the system's message, or before the user's first
 * one. Without such a message the template says what is missing. */
static int add_description(const struct tool_manner *manner, json_t *messages, json_t *text)
{
    const char *role = manner->has_system ? "system" : "user";
    json_t *first = NULL;
    for (size_t i = 0; i < json_array_size(messages) && !first; i++)
        if (has_role(json_array_get(messages, i), role)) first = json_array_get(messages, i);
    json_t *content = json_object_get(first, "content"), *joined = NULL;
    int code = text ? 0 : -1;
    if (!code && !first && manner->has_system)
        return json_array_insert_new(messages, 0,
                                     json_pack("{s:s, s:o}", "role", "system", "content", text));
    if (!code && first)
        joined = manner->has_system ? join(content, "\n\n", text) : join(text, "\n\n", content);
    if (!code && first) code = joined ? json_object_set_new(first, "content", joined) : -1;
    json_decref(text);
    return code;
}

/* Calls and results get ids with the function's name; `ids` has the new ones by the old ones. */
static int name_ids(json_t *message, json_t *ids)
{
    json_t *calls = json_object_get(message, "tool_calls"),
           *result = json_object_get(message, "tool_call_id");
    const char *old = rf_json_c_string(result);
    json_t *known = old ? json_object_get(ids, old) : NULL;
    if (known) json_object_set(message, "tool_call_id", known);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i);
        const char *name =
            rf_json_c_string(json_object_get(json_object_get(call, "function"), "name"));
        old = rf_json_c_string(json_object_get(call, "id"));
        if (!name || !old) continue;
        json_t *id = json_sprintf("functions.%s:%d", name, (int)json_object_size(ids));
        if (!id || json_object_set(ids, old, id)) return -1;
        json_object_set_new(call, "id", id);
    }
    return 0;
}

/* A message with calls, as the template takes it. */
static int adapt_calls(const struct tool_manner *manner, json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls"),
           *content = json_object_get(message, "content");
    if (!manner->shows_calls) {
        char *text = rf_tools_write(manner->form, calls);
        json_t *written = text ? json_string(text) : NULL;
        json_t *joined = written ? join(content, "\n", written) : NULL;
        json_decref(written);
        free(text);
        json_object_del(message, "tool_calls");
        return joined ? json_object_set_new(message, "content", joined) : -1;
    }
    if (manner->null_content && json_is_string(content) && !json_string_length(content))
        json_object_set_new(message, "content", json_null());
    for (size_t i = 0; manner->text_arguments && i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function"),
               *arguments = json_object_get(function, "arguments");
        char *text = rf_json_is_map(arguments) ? rf_json_dump(arguments, 1, NULL) : NULL;
        if (text) json_object_set_new(function, "arguments", json_string(text));
        free(text);
    }
    return 0;
}

/* Results that stand behind each other, and become one message of the user. */
struct results {
    struct rf_bytes bytes;
    struct rf_writer out;
    struct rf_error error;
};

static void results_add(struct results *results, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    size_t n = json_string_length(content);
    if (results->bytes.count) rf_write_text(&results->out, "\n");
    rf_write_text(&results->out, result_open);
    if (n) rf_write(&results->out, json_string_value(content), n);
    rf_write_text(&results->out, result_close);
}

/* Appends their message, if there are any. */
static int results_end(struct results *results, json_t *messages)
{
    if (results->out.code) return -1;
    if (!results->bytes.count) return 0;
    json_t *message = json_pack("{s:s, s:s%}", "role", "user", "content", results->bytes.data,
                                results->bytes.count);
    results->bytes.count = 0;
    return message ? json_array_append_new(messages, message) : -1;
}

/* Adds the message as the template takes it; `ids`: see name_ids. */
static int adapt_message(const struct tool_manner *manner, const json_t *given, json_t *ids,
                         struct results *results, json_t *messages)
{
    if (!manner->has_tool_role && (has_role(given, "tool") || has_role(given, "function"))) {
        results_add(results, given);
        return results->out.code ? -1 : 0;
    }
    json_t *message = json_deep_copy(given);
    int code = message ? results_end(results, messages) : -1;
    if (!code && manner->named_ids) code = name_ids(message, ids);
    if (!code && json_array_size(json_object_get(message, "tool_calls")))
        code = adapt_calls(manner, message);
    if (!code) code = json_array_append(messages, message);
    json_decref(message);
    return code;
}

static json_t *adapt_messages(const struct tool_manner *manner, const json_t *given)
{
    json_t *messages = json_array(), *ids = json_object();
    struct results results = {.out = {.allocator = &rf_system_allocator}};
    int code = messages && ids ? 0 : -1;
    results.out.bytes = &results.bytes;
    results.out.error = &results.error;
    for (size_t i = 0; i < json_array_size(given) && !code; i++)
        code = adapt_message(manner, json_array_get(given, i), ids, &results, messages);
    if (!code) code = results_end(&results, messages);
    rf_bytes_free(&rf_system_allocator, &results.bytes);
    json_decref(ids);
    if (!code) return messages;
    json_decref(messages);
    return NULL;
}

int rf_tools_are_used(const json_t *conversation)
{
    const json_t *messages = json_object_get(conversation, "messages");
    if (json_array_size(json_object_get(conversation, "tools"))) return 1;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (json_array_size(json_object_get(message, "tool_calls"))) return 1;
        if (has_role(message, "tool") || has_role(message, "function")) return 1;
    }
    return 0;
}

json_t *rf_tools_adapt(const struct tool_manner *manner, json_t *conversation)
{
    json_t *tools = json_object_get(conversation, "tools");
    if (!manner->form || !rf_tools_are_used(conversation)) return json_incref(conversation);
    json_t *messages = adapt_messages(manner, json_object_get(conversation, "messages"));
    json_t *adapted = messages ? json_copy(conversation) : NULL;
    int code = adapted ? 0 : -1;
    if (!code && json_array_size(tools) && !manner->shows_tools) {
        code = add_description(manner, messages, describe_tools(manner->form, tools));
        json_object_del(adapted, "tools");
    }
    if (!code) code = json_object_set(adapted, "messages", messages);
    json_decref(messages);
    if (!code) return adapted;
    json_decref(adapted);
    return NULL;
}
