/* Translates requests that consist of blocks. Each message of blocks becomes messages of a chat:
 * results of tools are messages of their own there, in the order of the blocks. */
#include "requests/blocks.h"

#include <string.h>

#include "base/json.h"
#include "platform/memory.h"
#include "requests/accepted.h"
#include "requests/block_options.h"
#include "requests/members.h"

static const struct rf_allocator *const allocator = &rf_system_allocator;

/* A message that is being translated. */
struct turn {
    size_t index;
    const char *role;
    int is_assistant, is_user;
    json_t *messages;         /* of the chat; not this turn's alone */
    json_t *texts, *calls;    /* parts and calls since the last message */
    struct rf_bytes thoughts; /* likewise */
    struct refusal *refusal;
};

static int is_word(const json_t *value, const char *word)
{
    const char *text = rf_json_c_string(value);
    return text && strcmp(text, word) == 0;
}

static int is_text_block(const json_t *block)
{
    return is_word(json_object_get(block, "type"), "text") &&
           json_is_string(json_object_get(block, "text"));
}

static void add_text(json_t *parts, json_t *text)
{
    json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", text));
}

/* Adds a content that is a text, or blocks of texts; -1: it is none. */
static int add_texts(json_t *parts, const json_t *content)
{
    if (json_is_string(content)) add_text(parts, (json_t *)content);
    if (json_is_string(content)) return 0;
    if (!json_is_array(content)) return -1;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (!is_text_block(block)) return -1;
        add_text(parts, json_object_get(block, "text"));
    }
    return 0;
}

static int refuse_block(const struct turn *turn, size_t at, const char *why)
{
    refuse(turn->refusal, 400, "invalid_value", "messages[%zu].content[%zu] %s", turn->index, at,
           why);
    return refuse_param(turn->refusal, "messages");
}

/* ---- the messages of a turn ---- */

/* Ends the message of the blocks so far. */
static int turn_end_message(struct turn *turn)
{
    json_t *message = json_pack("{s:s, s:O}", "role", turn->role, "content", turn->texts);
    if (json_array_size(turn->calls)) {
        json_object_set(message, "tool_calls", turn->calls);
        if (!json_array_size(turn->texts)) json_object_set_new(message, "content", json_null());
    }
    if (turn->thoughts.count)
        json_object_set_new(message, "reasoning_content",
                            json_stringn(turn->thoughts.data, turn->thoughts.count));
    json_decref(turn->texts);
    turn->texts = json_array();
    if (json_array_append_new(turn->messages, message) || !turn->texts)
        return refuse_memory(turn->refusal);
    return 0;
}

static int turn_take_result(struct turn *turn, const json_t *block, size_t at)
{
    const json_t *content = member_get(block, "content");
    json_t *id = json_object_get(block, "tool_use_id"), *parts = json_array();
    if (json_array_size(turn->texts) && turn_end_message(turn)) {
        json_decref(parts);
        return -1;
    }
    if (json_is_true(json_object_get(block, "is_error")))
        json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", "Error: "));
    if (!rf_json_c_string(id) || (content && add_texts(parts, content))) {
        json_decref(parts);
        return refuse_block(turn, at,
                            rf_json_c_string(id) ? "has a content that is no text; others are not "
                                                   "supported"
                                                 : "has no tool_use_id");
    }
    json_t *message =
        json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", parts);
    return json_array_append_new(turn->messages, message) ? refuse_memory(turn->refusal) : 0;
}

static int turn_take_call(struct turn *turn, const json_t *block, size_t at)
{
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
           *input = json_object_get(block, "input");
    if (!rf_json_c_string(id) || !rf_json_c_string(name) || !rf_json_is_map(input))
        return refuse_block(turn, at, "is no tool_use with id, name and input");
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", input);
    return json_array_append_new(turn->calls, call) ? refuse_memory(turn->refusal) : 0;
}

static int turn_take_thought(struct turn *turn, const json_t *block, size_t at)
{
    const json_t *text = json_object_get(block, "thinking");
    struct rf_error error;
    if (!json_is_string(text)) return refuse_block(turn, at, "has no thinking that is a text");
    if (!json_string_length(text)) return 0;
    return rf_bytes_append(allocator, &turn->thoughts, json_string_value(text),
                           json_string_length(text), &error)
               ? refuse_memory(turn->refusal)
               : 0;
}

static int turn_take_block(struct turn *turn, const json_t *block, size_t at)
{
    const json_t *type = json_object_get(block, "type");
    if (is_text_block(block)) {
        add_text(turn->texts, json_object_get(block, "text"));
        return 0;
    }
    if (turn->is_user && is_word(type, "tool_result")) return turn_take_result(turn, block, at);
    if (turn->is_assistant && is_word(type, "tool_use")) return turn_take_call(turn, block, at);
    if (turn->is_assistant && is_word(type, "thinking")) return turn_take_thought(turn, block, at);
    if (turn->is_assistant && is_word(type, "redacted_thinking")) return 0; /* nobody reads it */
    if (is_word(type, "image") || is_word(type, "document"))
        return refuse_block(turn, at, "is no text; images and documents are not supported");
    return refuse_block(turn, at,
                        turn->is_assistant ? "is no text, tool_use or thinking"
                                           : "is no text or tool_result");
}

static int turn_take_blocks(struct turn *turn, const json_t *content)
{
    size_t before = json_array_size(turn->messages);
    for (size_t i = 0; i < json_array_size(content); i++)
        if (turn_take_block(turn, json_array_get(content, i), i)) return -1;
    int is_told = json_array_size(turn->messages) > before && !json_array_size(turn->texts);
    return is_told ? 0 : turn_end_message(turn);
}

static int turn_take(struct turn *turn, const json_t *message)
{
    const json_t *role = json_object_get(message, "role"),
                 *content = json_object_get(message, "content");
    turn->role = rf_json_c_string(role);
    turn->is_assistant = is_word(role, "assistant");
    turn->is_user = is_word(role, "user");
    if (!turn->is_assistant && !turn->is_user && !is_word(role, "system"))
        refuse(turn->refusal, 400, "invalid_value",
               "messages[%zu].role is not user, assistant or system", turn->index);
    else if (json_is_string(content) && !add_texts(turn->texts, content))
        return turn_end_message(turn);
    else if (json_is_array(content))
        return turn_take_blocks(turn, content);
    else
        refuse(turn->refusal, 400, "invalid_value",
               "messages[%zu].content is not a text or an array of blocks", turn->index);
    return refuse_param(turn->refusal, "messages");
}

static int add_message(json_t *messages, const json_t *message, size_t index,
                       struct refusal *refusal)
{
    struct turn turn = {.index = index,
                        .messages = messages,
                        .texts = json_array(),
                        .calls = json_array(),
                        .refusal = refusal};
    int code = turn.texts && turn.calls ? turn_take(&turn, message) : refuse_memory(refusal);
    json_decref(turn.texts);
    json_decref(turn.calls);
    rf_bytes_free(allocator, &turn.thoughts);
    return code;
}

/* ---- the conversation ---- */

static int add_system(json_t *messages, const json_t *system, struct refusal *refusal)
{
    json_t *parts = json_array();
    if (!system || add_texts(parts, system)) {
        json_decref(parts);
        return system ? refuse_value(refusal, "system", "a text or an array of texts") : 0;
    }
    if (!json_array_size(parts)) {
        json_decref(parts);
        return 0;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", "system", "content", parts);
    return json_array_append_new(messages, message) ? refuse_memory(refusal) : 0;
}

static int add_messages(json_t *chat, const json_t *body, const struct answerer *of,
                        struct refusal *refusal)
{
    const json_t *given = member_get(body, "messages");
    size_t n = json_array_size(given);
    json_t *messages = json_array();
    if (!messages || json_object_set_new(chat, "messages", messages)) return refuse_memory(refusal);
    if (!n) return refuse_value(refusal, "messages", "an array of at least one message");
    if (of->n_ctx && n > (size_t)of->n_ctx)
        return refuse(refusal, 400, "context_length_exceeded",
                      "the conversation has %zu messages, n_ctx is %d", n, of->n_ctx);
    if (add_system(messages, member_get(body, "system"), refusal)) return -1;
    for (size_t i = 0; i < n; i++)
        if (add_message(messages, json_array_get(given, i), i, refusal)) return -1;
    if (!is_word(json_object_get(json_array_get(given, n - 1), "role"), "assistant")) return 0;
    refuse(refusal, 400, "unsupported_parameter",
           "messages[%zu] is the assistant's: going on with a given answer is not supported",
           n - 1);
    return refuse_param(refusal, "messages");
}

json_t *blocks_to_chat(const json_t *body, const struct answerer *of, int has_most,
                       struct refusal *refusal)
{
    json_t *chat = json_object();
    int code = chat ? accepted_check(body, ACCEPTED_MESSAGES, refusal) : refuse_memory(refusal);
    if (!code) code = block_options_add(chat, body, of, has_most, refusal);
    if (!code) code = add_messages(chat, body, of, refusal);
    if (!code) return chat;
    json_decref(chat);
    return NULL;
}
