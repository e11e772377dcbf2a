/* Translates requests that consist of items. What the model said in one turn is several items,
 * thoughts, messages and calls, and one message of a chat. */
#include "translate/items.h"

#include <string.h>

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "translate/item_options.h"
#include "translate/spaces.h"
#include "translate/turns.h"

/* An item that is being translated. */
struct item {
    const json_t *value;
    size_t index;
    struct turns *chat;
    struct refusal *refusal;
};

static int refuse_item(const struct item *item, const char *name, const char *why)
{
    refuse(item->refusal, 400, "invalid_value", "input[%zu]%s %s", item->index, name, why);
    return refuse_param(item->refusal, "input");
}

static int refuse_part(const struct item *item, const char *name, size_t at)
{
    refuse(item->refusal, 400, "invalid_value",
           "input[%zu].%s[%zu] is no text; images, files and sounds are not supported", item->index,
           name, at);
    return refuse_param(item->refusal, "input");
}

/* ---- contents ---- */

/* The text of a part; NULL: it has none. A refusal is what a model said, too. */
static json_t *part_text(const json_t *part)
{
    static const char *const types[] = {"input_text", "output_text", "text", "summary_text",
                                        "reasoning_text"};
    const json_t *type = json_object_get(part, "type");
    json_t *text = json_object_get(part, turns_is_word(type, "refusal") ? "refusal" : "text");
    size_t i = 0, n = sizeof types / sizeof *types;
    while (i < n && !turns_is_word(type, types[i])) i++;
    return (i < n || turns_is_word(type, "refusal")) && json_is_string(text) ? text : NULL;
}

/* Takes each text of a content that is a text, or parts with texts. */
typedef int text_fn(struct turns *chat, json_t *text);

static int item_each_text(const struct item *item, const char *name, text_fn *take)
{
    json_t *content = (json_t *)member_get(item->value, name);
    if (json_is_string(content)) return take(item->chat, content);
    for (size_t i = 0; i < json_array_size(content); i++) {
        json_t *text = part_text(json_array_get(content, i));
        if (!text) return refuse_part(item, name, i);
        if (take(item->chat, text)) return -1;
    }
    return 0;
}

static int is_content(const json_t *value)
{
    return json_is_string(value) || json_is_array(value);
}

/* ---- kinds of items ---- */

static int take_message(const struct item *item)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const json_t *role = json_object_get(item->value, "role");
    size_t i = 0, n = sizeof roles / sizeof *roles;
    while (i < n && !turns_is_word(role, roles[i])) i++;
    if (i == n) return refuse_item(item, ".role", "is not user, assistant, system or developer");
    if (!is_content(json_object_get(item->value, "content")))
        return refuse_item(item, ".content", "is not a text or an array of parts");
    if (turns_open(item->chat, roles[i])) return -1;
    return item_each_text(item, "content", turns_add_text);
}

/* Thoughts are the template's to keep or leave out. Their summary counts where they are absent. */
static int take_thought(const struct item *item)
{
    const json_t *content = member_get(item->value, "content");
    const char *name = json_array_size(content) ? "content" : "summary";
    const json_t *given = member_get(item->value, name);
    if (given && !json_is_array(given))
        return refuse_item(item, "", "is no reasoning with an array as its content or summary");
    if (turns_open(item->chat, "assistant")) return -1;
    return item_each_text(item, name, turns_add_thought);
}

static int take_call(const struct item *item)
{
    json_t *id = json_object_get(item->value, "call_id"),
           *text = json_object_get(item->value, "arguments"),
           *name = spaces_join(member_get(item->value, "namespace"),
                               json_object_get(item->value, "name"));
    if (!rf_json_c_string(id) || !name || !json_is_string(text)) {
        json_decref(name);
        return refuse_item(item, "", "is no function_call with call_id, name and arguments");
    }
    json_t *arguments =
        json_string_length(text)
            ? rf_json_load(json_string_value(text), json_string_length(text), NULL, NULL)
            : json_object();
    int code = rf_json_is_map(arguments)
                   ? turns_open(item->chat, "assistant")
                   : refuse_item(item, ".arguments", "is not the text of a JSON object");
    if (!code) code = turns_add_call(item->chat, id, name, arguments);
    json_decref(arguments);
    json_decref(name);
    return code;
}

static int take_result(const struct item *item)
{
    json_t *id = json_object_get(item->value, "call_id"),
           *output = json_object_get(item->value, "output"), *parts = json_array();
    int code = 0;
    if (!rf_json_c_string(id) || !is_content(output))
        code = refuse_item(item, "", "is no function_call_output with call_id and output");
    if (json_is_string(output)) json_array_append_new(parts, turns_part(output));
    for (size_t i = 0; !code && i < json_array_size(output); i++) {
        json_t *text = part_text(json_array_get(output, i));
        code =
            text ? json_array_append_new(parts, turns_part(text)) : refuse_part(item, "output", i);
    }
    if (!code) return turns_add_result(item->chat, id, parts);
    json_decref(parts);
    return code;
}

static int item_take(const struct item *item)
{
    static const struct {
        const char *type;
        int (*take)(const struct item *item);
    } kinds[] = {{"message", take_message},
                 {"reasoning", take_thought},
                 {"function_call", take_call},
                 {"function_call_output", take_result}};
    const json_t *type = member_get(item->value, "type");
    const char *word = rf_json_c_string(type);
    if (!type && json_object_get(item->value, "role")) return take_message(item);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (turns_is_word(type, kinds[i].type)) return kinds[i].take(item);
    refuse(item->refusal, 400, "unsupported_parameter", "input[%zu]%s%.60s is not supported%s",
           item->index, word ? ".type " : "", word ? word : "",
           turns_is_word(type, "item_reference") ? ": nothing is stored" : "");
    return refuse_param(item->refusal, "input");
}

/* ---- the conversation ---- */

static int items_add_instructions(struct turns *chat, const json_t *body, struct refusal *refusal)
{
    json_t *text = (json_t *)member_get(body, "instructions");
    if (text && !json_is_string(text)) return refuse_value(refusal, "instructions", "a text");
    if (!json_string_length(text)) return 0;
    return turns_open(chat, "system") || turns_add_text(chat, text) ? -1 : 0;
}

static int items_add_all(struct turns *chat, const json_t *body, const struct answerer *of,
                         struct refusal *refusal)
{
    json_t *input = (json_t *)member_get(body, "input");
    size_t n = json_array_size(input);
    if (items_add_instructions(chat, body, refusal)) return -1;
    if (json_is_string(input))
        return turns_open(chat, "user") || turns_add_text(chat, input) ? -1 : turns_end(chat);
    if (!n) return refuse_value(refusal, "input", "a text or an array of at least one item");
    if (of->n_ctx && n > (size_t)of->n_ctx)
        return refuse(refusal, 400, "context_length_exceeded",
                      "the conversation has %zu items, n_ctx is %d", n, of->n_ctx);
    for (size_t i = 0; i < n; i++) {
        struct item item = {
            .value = json_array_get(input, i), .index = i, .chat = chat, .refusal = refusal};
        if (item_take(&item)) return -1;
    }
    if (turns_end(chat)) return -1;
    return json_array_size(chat->messages) ? 0 : refuse_value(refusal, "input", "a conversation");
}

static int items_add_conversation(json_t *chat, const json_t *body, const struct answerer *of,
                                  struct refusal *refusal)
{
    struct turns turns;
    json_t *messages = json_array();
    if (json_object_set_new(chat, "messages", messages)) return refuse_memory(refusal);
    int code = turns_begin(&turns, messages, refusal);
    if (!code) code = items_add_all(&turns, body, of, refusal);
    turns_free(&turns);
    return code;
}

json_t *items_to_chat(const json_t *body, const struct answerer *of, struct refusal *refusal)
{
    json_t *chat = json_object();
    int code = chat ? accepted_check(body, ACCEPTED_RESPONSES, refusal) : refuse_memory(refusal);
    if (!code) code = item_options_add(chat, body, of, refusal);
    if (!code) code = items_add_conversation(chat, body, of, refusal);
    if (!code) return chat;
    json_decref(chat);
    return NULL;
}
