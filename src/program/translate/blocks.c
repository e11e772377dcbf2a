/* Translates requests that consist of blocks. Each message of blocks becomes messages of a chat:
 * results of tools are messages of their own there, in the order of the blocks. */
#include "translate/blocks.h"

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "translate/block_options.h"
#include "translate/turns.h"

/* A message of blocks that is being translated. */
struct turn {
    size_t index;
    int is_assistant, is_user;
    struct turns *chat;
    struct refusal *refusal;
};

static int is_text_block(const json_t *block)
{
    return turns_is_word(json_object_get(block, "type"), "text") &&
           json_is_string(json_object_get(block, "text"));
}

/* Adds a content that is a text, or blocks of texts, as parts; -1: it is none. */
static int add_texts(json_t *parts, const json_t *content)
{
    if (json_is_string(content)) return json_array_append_new(parts, turns_part((json_t *)content));
    if (!json_is_array(content)) return -1;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (!is_text_block(block)) return -1;
        json_array_append_new(parts, turns_part(json_object_get(block, "text")));
    }
    return 0;
}

static int refuse_block(const struct turn *turn, size_t at, const char *why)
{
    refuse(turn->refusal, 400, "invalid_value", "messages[%zu].content[%zu] %s", turn->index, at,
           why);
    return refuse_param(turn->refusal, "messages");
}

/* ---- the blocks of a message ---- */

static int turn_take_result(const struct turn *turn, const json_t *block, size_t at)
{
    const json_t *content = member_get(block, "content");
    json_t *id = json_object_get(block, "tool_use_id"), *parts = json_array();
    if (json_is_true(json_object_get(block, "is_error")))
        json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", "Error: "));
    if (rf_json_c_string(id) && (!content || !add_texts(parts, content)))
        return turns_add_result(turn->chat, id, parts);
    json_decref(parts);
    return refuse_block(turn, at,
                        rf_json_c_string(id)
                            ? "has a content that is no text; others are not supported"
                            : "has no tool_use_id");
}

static int turn_take_call(const struct turn *turn, const json_t *block, size_t at)
{
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name"),
           *input = json_object_get(block, "input");
    if (!rf_json_c_string(id) || !rf_json_c_string(name) || !rf_json_is_map(input))
        return refuse_block(turn, at, "is no tool_use with id, name and input");
    return turns_add_call(turn->chat, id, name, input);
}

static int turn_take_thought(const struct turn *turn, const json_t *block, size_t at)
{
    json_t *text = json_object_get(block, "thinking");
    if (!json_is_string(text)) return refuse_block(turn, at, "has no thinking that is a text");
    return turns_add_thought(turn->chat, text);
}

static int turn_take_block(const struct turn *turn, const json_t *block, size_t at)
{
    const json_t *type = json_object_get(block, "type");
    if (is_text_block(block)) return turns_add_text(turn->chat, json_object_get(block, "text"));
    if (turn->is_user && turns_is_word(type, "tool_result"))
        return turn_take_result(turn, block, at);
    if (turn->is_assistant && turns_is_word(type, "tool_use"))
        return turn_take_call(turn, block, at);
    if (turn->is_assistant && turns_is_word(type, "thinking"))
        return turn_take_thought(turn, block, at);
    if (turn->is_assistant && turns_is_word(type, "redacted_thinking"))
        return 0; /* nobody reads it */
    if (turns_is_word(type, "image") || turns_is_word(type, "document"))
        return refuse_block(turn, at, "is no text; images and documents are not supported");
    return refuse_block(turn, at,
                        turn->is_assistant ? "is no text, tool_use or thinking"
                                           : "is no text or tool_result");
}

static int turn_take_blocks(const struct turn *turn, const json_t *content)
{
    for (size_t i = 0; i < json_array_size(content); i++)
        if (turn_take_block(turn, json_array_get(content, i), i)) return -1;
    return 0;
}

static int turn_take(struct turn *turn, const json_t *message)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    size_t i = 0, n = sizeof roles / sizeof *roles;
    while (i < n && !turns_is_word(role, roles[i])) i++;
    turn->is_user = i == 0;
    turn->is_assistant = i == 1;
    if (i < n && json_is_string(content))
        return turns_open(turn->chat, roles[i]) || turns_add_text(turn->chat, content) ? -1 : 0;
    if (i < n && json_is_array(content))
        return turns_open(turn->chat, roles[i]) || turn_take_blocks(turn, content) ? -1 : 0;
    refuse(turn->refusal, 400, "invalid_value",
           i < n ? "messages[%zu].content is not a text or an array of blocks"
                 : "messages[%zu].role is not user, assistant or system",
           turn->index);
    return refuse_param(turn->refusal, "messages");
}

/* ---- the conversation ---- */

static int add_system(struct turns *chat, const json_t *system, struct refusal *refusal)
{
    json_t *parts = json_array();
    int code = 0;
    if (system && add_texts(parts, system))
        code = refuse_value(refusal, "system", "a text or an array of texts");
    if (!code) code = turns_open(chat, "system");
    for (size_t i = 0; !code && i < json_array_size(parts); i++)
        code = turns_add_text(chat, json_object_get(json_array_get(parts, i), "text"));
    json_decref(parts);
    return code;
}

static int add_messages(struct turns *chat, const json_t *body, const struct answerer *of,
                        struct refusal *refusal)
{
    const json_t *given = member_get(body, "messages");
    size_t n = json_array_size(given);
    if (!n) return refuse_value(refusal, "messages", "an array of at least one message");
    if (of->n_ctx && n > (size_t)of->n_ctx)
        return refuse(refusal, 400, "context_length_exceeded",
                      "the conversation has %zu messages, n_ctx is %d", n, of->n_ctx);
    if (add_system(chat, member_get(body, "system"), refusal)) return -1;
    for (size_t i = 0; i < n; i++) {
        struct turn turn = {.index = i, .chat = chat, .refusal = refusal};
        if (turn_take(&turn, json_array_get(given, i))) return -1;
    }
    if (!turns_is_word(json_object_get(json_array_get(given, n - 1), "role"), "assistant"))
        return turns_end(chat);
    refuse(refusal, 400, "unsupported_parameter",
           "messages[%zu] is the assistant's: going on with a given answer is not supported",
           n - 1);
    return refuse_param(refusal, "messages");
}

static int add_conversation(json_t *chat, const json_t *body, const struct answerer *of,
                            struct refusal *refusal)
{
    struct turns turns;
    json_t *messages = json_array();
    if (json_object_set_new(chat, "messages", messages)) return refuse_memory(refusal);
    int code = turns_begin(&turns, messages, refusal);
    if (!code) code = add_messages(&turns, body, of, refusal);
    turns_free(&turns);
    return code;
}

json_t *blocks_to_chat(const json_t *body, const struct answerer *of, int has_most,
                       struct refusal *refusal)
{
    json_t *chat = json_object();
    int code = chat ? accepted_check(body, ACCEPTED_MESSAGES, refusal) : refuse_memory(refusal);
    if (!code) code = block_options_add(chat, body, of, has_most, refusal);
    if (!code) code = add_conversation(chat, body, of, refusal);
    if (!code) return chat;
    json_decref(chat);
    return NULL;
}
