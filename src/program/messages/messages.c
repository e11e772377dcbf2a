/* Makes the messages of a request, or of a chat, into messages that chat templates read. Each
 * content becomes one text; arguments of calls become objects. */
#include "messages/messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* The texts of an array of parts that are texts, as one; NULL: they are not. */
static json_t *join_parts(const json_t *parts)
{
    size_t bytes = 0, at = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = rf_json_c_string(json_object_get(part, "type"));
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) return NULL;
        bytes += json_string_length(text);
    }
    char *joined = malloc(bytes + 1);
    for (size_t i = 0; joined && i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    json_t *text = joined ? json_stringn(joined, bytes) : NULL;
    free(joined);
    return text;
}

/* A content that is one text; NULL: it has others. A message that only calls has none. */
static json_t *template_content(const json_t *message)
{
    json_t *content = json_object_get(message, "content");
    if (json_is_string(content)) return json_incref(content);
    if (json_is_array(content)) return join_parts(content);
    return json_array_size(json_object_get(message, "tool_calls")) ? json_string("") : NULL;
}

/* Templates write the arguments as JSON themselves. */
static json_t *template_calls(const json_t *given)
{
    json_t *calls = json_deep_copy(given);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *text = json_object_get(function, "arguments");
        json_t *value = json_is_string(text) ? rf_json_load(json_string_value(text),
                                                            json_string_length(text), NULL, NULL)
                                             : NULL;
        if (rf_json_is_map(value)) json_object_set(function, "arguments", value);
        json_decref(value);
    }
    return calls;
}

/* NULL: a refusal. */
static json_t *template_message(const json_t *given, size_t index, struct refusal *refusal)
{
    const char *role = rf_json_c_string(json_object_get(given, "role"));
    static const char *const lost[] = {"function_call", "audio"};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        const json_t *value = json_object_get(given, lost[i]);
        if (!value || json_is_null(value)) continue;
        refuse(refusal, 400, "unsupported_parameter", "messages[%zu].%s is not supported%s", index,
               lost[i], i == 0 ? "; tool_calls does the same" : ": messages are texts");
        return NULL;
    }
    json_t *content = template_content(given), *calls = json_object_get(given, "tool_calls");
    if (!role || !content) {
        json_decref(content);
        refuse(refusal, 400, "invalid_value",
               "messages[%zu] has no role, or no content that is text", index);
        return NULL;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (json_array_size(calls)) json_object_set_new(message, "tool_calls", template_calls(calls));
    static const char *const names[] = {"name", "tool_call_id", "reasoning_content", "thinking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(given, names[i]);
        if (json_is_string(value)) json_object_set(message, names[i], value);
    }
    /* gpt-oss's template, among others, has another name for it. */
    json_t *thoughts = json_object_get(message, "reasoning_content");
    if (thoughts && !json_object_get(message, "thinking"))
        json_object_set(message, "thinking", thoughts);
    return message;
}

json_t *conversation_make(const json_t *messages, json_t *tools, struct refusal *refusal)
{
    if (json_array_size(messages) == 0) {
        refuse_value(refusal, "messages", "an array of at least one message");
        return NULL;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = template_message(json_array_get(messages, i), i, refusal);
        if (message && json_array_append_new(list, message) == 0) continue;
        if (message) refuse_memory(refusal);
        json_decref(list);
        return NULL;
    }
    json_t *made = json_pack("{s:o, s:O*}", "messages", list, "tools", tools);
    if (!made) refuse_memory(refusal);
    return made;
}
