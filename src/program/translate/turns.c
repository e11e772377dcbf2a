/* Joins what belongs to a message of a chat: texts, thoughts and calls. A message is added when the
 * next one begins; one without any part is left out. */
#include "translate/turns.h"

#include <string.h>

#include "base/json.h"
#include "platform/memory.h"

static const struct rf_allocator *const allocator = &rf_system_allocator;
static const char gap[] = "\n\n";

int turns_is_word(const json_t *value, const char *word)
{
    const char *text = rf_json_c_string(value);
    return text && strcmp(text, word) == 0;
}

json_t *turns_part(json_t *text)
{
    return json_pack("{s:s, s:O}", "type", "text", "text", text);
}

int turns_begin(struct turns *turns, json_t *messages, struct refusal *refusal)
{
    *turns = (struct turns){
        .messages = messages, .refusal = refusal, .texts = json_array(), .calls = json_array()};
    return turns->texts && turns->calls ? 0 : refuse_memory(refusal);
}

void turns_free(struct turns *turns)
{
    json_decref(turns->texts);
    json_decref(turns->calls);
    rf_bytes_free(allocator, &turns->thoughts);
}

/* Takes the value, which is NULL without memory. */
static int turns_append(struct turns *turns, json_t *array, json_t *value)
{
    return json_array_append_new(array, value) ? refuse_memory(turns->refusal) : 0;
}

static json_t *turns_message(const struct turns *turns)
{
    json_t *message = json_pack("{s:s, s:O}", "role", turns->role, "content", turns->texts);
    if (json_array_size(turns->calls)) {
        json_object_set(message, "tool_calls", turns->calls);
        if (!json_array_size(turns->texts)) json_object_set_new(message, "content", json_null());
    }
    if (turns->thoughts.count)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(turns->thoughts.data, turns->thoughts.count));
    return message;
}

int turns_end(struct turns *turns)
{
    if (!json_array_size(turns->texts) && !json_array_size(turns->calls) && !turns->thoughts.count)
        return 0;
    if (turns_append(turns, turns->messages, turns_message(turns))) return -1;
    json_decref(turns->texts);
    json_decref(turns->calls);
    turns->texts = json_array();
    turns->calls = json_array();
    turns->thoughts.count = 0;
    turns->wants_gap = turns->wants_thought_gap = 0;
    return turns->texts && turns->calls ? 0 : refuse_memory(turns->refusal);
}

static int is_systems(const char *role)
{
    return strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
}

int turns_open(struct turns *turns, const char *role)
{
    int goes_on = turns->role &&
                  (strcmp(role, turns->role) == 0 || (is_systems(role) && is_systems(turns->role)));
    if (!goes_on && turns_end(turns)) return -1;
    if (!goes_on) turns->role = role;
    turns->wants_gap = json_array_size(turns->texts) > 0;
    turns->wants_thought_gap = turns->thoughts.count > 0;
    return 0;
}

int turns_add_text(struct turns *turns, json_t *text)
{
    int has_gap = turns->wants_gap;
    turns->wants_gap = 0;
    if (has_gap &&
        turns_append(turns, turns->texts, json_pack("{s:s, s:s}", "type", "text", "text", gap)))
        return -1;
    return turns_append(turns, turns->texts, turns_part(text));
}

int turns_add_thought(struct turns *turns, json_t *text)
{
    struct rf_error error;
    size_t bytes = json_string_length(text), gap_bytes = turns->wants_thought_gap ? strlen(gap) : 0;
    if (!bytes) return 0;
    turns->wants_thought_gap = 0;
    if (rf_bytes_append(allocator, &turns->thoughts, gap, gap_bytes, &error) ||
        rf_bytes_append(allocator, &turns->thoughts, json_string_value(text), bytes, &error))
        return refuse_memory(turns->refusal);
    return 0;
}

int turns_add_call(struct turns *turns, json_t *id, json_t *name, json_t *arguments)
{
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    return turns_append(turns, turns->calls, call);
}

int turns_add_result(struct turns *turns, json_t *id, json_t *parts)
{
    json_t *message =
        json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", parts);
    if (!turns_end(turns)) return turns_append(turns, turns->messages, message);
    json_decref(message);
    return -1;
}
