/* The messages of a conversation as JSON values. Every message has a role and a content that is one
 * text of valid UTF-8; only the first may be a system message. */
#include "chat/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers/tools.h"
#include "base/json.h"
#include "base/utf8.h"
#include "messages/messages.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "platform/file.h"
#include "platform/memory.h"

static const size_t most_file_bytes = (size_t)64 << 20;

/* ---- messages ---- */

/* Returns the value, which is NULL only if memory is short; then the program exits. */
static json_t *or_no_memory(json_t *value)
{
    if (!value) cli_no_memory();
    return value;
}

static json_t *valid_text(const char *text, size_t n)
{
    struct buffer clean = {0};
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        length = text[i] ? rf_utf8_length(text + i, n - i) : 0;
        if (length)
            buffer_append(&clean, text + i, length);
        else
            buffer_puts(&clean, "\xef\xbf\xbd");
    }
    json_t *value = or_no_memory(json_stringn(n ? clean.data : "", clean.count));
    buffer_free(&clean);
    return value;
}

/* Takes the value. */
static void set_member(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value)) cli_no_memory();
}

static json_t *new_message(const char *role, const char *content, size_t n)
{
    json_t *message = or_no_memory(json_object());
    set_member(message, "role", or_no_memory(json_string(role)));
    set_member(message, "content", valid_text(content, n));
    return message;
}

static json_t *message_list(struct conversation *conversation)
{
    if (!conversation->messages) conversation->messages = or_no_memory(json_array());
    return conversation->messages;
}

size_t conversation_count(const struct conversation *conversation)
{
    return json_array_size(conversation->messages);
}

json_t *conversation_at(const struct conversation *conversation, size_t i)
{
    return json_array_get(conversation->messages, i);
}

int conversation_has_role(const struct conversation *conversation, size_t i, const char *role)
{
    const char *has = json_string_value(json_object_get(conversation_at(conversation, i), "role"));
    return has && strcmp(has, role) == 0;
}

void conversation_add(struct conversation *conversation, const char *role, const char *content,
                      size_t n)
{
    if (json_array_append_new(message_list(conversation), new_message(role, content, n)))
        cli_no_memory();
}

void conversation_note(struct conversation *conversation, const char *key, const char *text,
                       size_t n)
{
    json_t *last = conversation_at(conversation, conversation_count(conversation) - 1);
    if (n) set_member(last, key, valid_text(text, n));
}

/* Found once for each model, since it takes many renderings. */
static const struct tool_manner *manner_of(struct conversation *conversation,
                                           const riffle_model *model)
{
    if (conversation->manner_of != model) conversation->manner = rf_tools_manner(model);
    conversation->manner_of = model;
    return &conversation->manner;
}

void conversation_find_calls(struct conversation *conversation, const riffle_model *model)
{
    const struct tool_form *form =
        conversation->tools ? manner_of(conversation, model)->form : NULL;
    if (!form) return;
    json_t *last = conversation_at(conversation, conversation_count(conversation) - 1),
           *content = json_object_get(last, "content"), *calls = or_no_memory(json_array());
    struct rf_bytes text = {0};
    struct rf_error error;
    struct tool_reader reader;
    rf_tool_reader_begin(&reader, form, conversation->tools);
    if (rf_tool_reader_push(&reader, json_string_value(content), json_string_length(content), 1,
                            &text, calls, &error))
        cli_no_memory();
    if (json_array_size(calls)) {
        set_member(last, "content", valid_text(text.data, text.count));
        set_member(last, "tool_calls", json_incref(calls));
    }
    json_decref(calls);
    rf_tool_reader_free(&reader);
    rf_bytes_free(&rf_system_allocator, &text);
}

void conversation_drop(struct conversation *conversation, size_t first, size_t n)
{
    while (n-- > 0) json_array_remove(conversation->messages, first);
}

void conversation_cut(struct conversation *conversation, size_t count)
{
    size_t n = conversation_count(conversation);
    if (n > count) conversation_drop(conversation, count, n - count);
}

json_t *conversation_take(struct conversation *conversation, size_t first)
{
    json_t *taken = or_no_memory(json_array());
    for (size_t i = first; i < conversation_count(conversation); i++)
        if (json_array_append(taken, conversation_at(conversation, i))) cli_no_memory();
    conversation_cut(conversation, first);
    return taken;
}

void conversation_restore(struct conversation *conversation, json_t *messages, int back)
{
    if (back && json_array_extend(message_list(conversation), messages)) cli_no_memory();
    json_decref(messages);
}

void conversation_free(struct conversation *conversation)
{
    json_decref(conversation->messages);
    json_decref(conversation->tools);
    *conversation = (struct conversation){.messages = NULL};
}

static int is_system(const struct conversation *conversation, size_t i)
{
    return conversation_has_role(conversation, i, "system") ||
           conversation_has_role(conversation, i, "developer");
}

const char *conversation_system(const struct conversation *conversation)
{
    if (!is_system(conversation, 0)) return NULL;
    return json_string_value(json_object_get(conversation_at(conversation, 0), "content"));
}

void conversation_set_system(struct conversation *conversation, const char *content)
{
    size_t n = strlen(content);
    if (conversation_system(conversation))
        set_member(conversation_at(conversation, 0), "content", valid_text(content, n));
    else if (json_array_insert_new(message_list(conversation), 0,
                                   new_message("system", content, n)))
        cli_no_memory();
}

/* ---- JSON ---- */

/* Takes the value. */
static char *dump_json(json_t *value)
{
    char *text = rf_json_dump(or_no_memory(value), 1, NULL);
    json_decref(value);
    if (!text) cli_no_memory();
    return text;
}

char *conversation_document(struct conversation *conversation, const riffle_model *model,
                            size_t first)
{
    struct refusal refusal;
    json_t *some = or_no_memory(json_array());
    if (first && conversation_system(conversation))
        json_array_append(some, conversation_at(conversation, 0));
    for (size_t i = first; i < conversation_count(conversation); i++)
        if (json_array_append(some, conversation_at(conversation, i))) cli_no_memory();
    json_t *document = conversation_make(some, conversation->tools, &refusal);
    json_decref(some);
    if (document && rf_tools_are_used(document)) {
        json_t *adapted = or_no_memory(rf_tools_adapt(manner_of(conversation, model), document));
        json_decref(document);
        document = adapted;
    }
    return dump_json(document);
}

char *conversation_write(const struct conversation *conversation)
{
    json_t *messages = conversation->messages;
    return dump_json(json_pack("{s:o, s:O*}", "messages",
                               messages ? json_incref(messages) : json_array(), "tools",
                               conversation->tools));
}

int conversation_save(const struct conversation *conversation, const char *path)
{
    char *text = conversation_write(conversation);
    struct rf_error error;
    struct rf_span spans[] = {{text, strlen(text)}, {"\n", 1}};
    int code = rf_write_file(path, spans, 2, RF_NEW_PRIVATE, &error);
    free(text);
    return code ? cli_fail("%s", error.text) : CLI_OK;
}

/* Makes the content one text. 0 if the message has no role, or a content that is no text. */
static int unify_content(json_t *message)
{
    struct refusal refusal;
    json_t *one = or_no_memory(json_pack("[O]", message)),
           *document = conversation_make(one, NULL, &refusal);
    const json_t *taken = json_array_get(json_object_get(document, "messages"), 0);
    if (document) set_member(message, "content", json_incref(json_object_get(taken, "content")));
    json_decref(one);
    json_decref(document);
    return document != NULL;
}

static int is_known_role(const char *role)
{
    static const char *const roles[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i], role) == 0) return 1;
    return 0;
}

static int check_messages(const struct conversation *loaded, const char *path)
{
    for (size_t i = 0; i < conversation_count(loaded); i++) {
        json_t *message = conversation_at(loaded, i);
        const char *role = rf_json_c_string(json_object_get(message, "role"));
        if (!unify_content(message))
            return cli_fail("%s: message %zu needs \"role\" and \"content\", both texts", path,
                            i + 1);
        if (!rf_json_c_string(json_object_get(message, "content")))
            return cli_fail("%s: message %zu has a zero byte in \"content\"", path, i + 1);
        if (!is_known_role(role))
            return cli_fail("%s: message %zu has the role \"%s\"; system, developer, user, "
                            "assistant, tool and function are known",
                            path, i + 1, role);
        if (is_system(loaded, i) && i > 0)
            return cli_fail("%s: message %zu is a %s message, which can only be the first", path,
                            i + 1, role);
    }
    return CLI_OK;
}

int conversation_parse(struct conversation *conversation, const char *text, size_t bytes,
                       const char *path)
{
    struct rf_json_problem reason;
    json_t *root = rf_json_load(text, bytes, NULL, &reason);
    if (!root)
        return cli_fail("%s is not JSON: line %zu, column %zu: %s", path, reason.line,
                        reason.column, reason.text);

    json_t *array = rf_json_is_map(root) ? json_object_get(root, "messages") : root;
    json_t *tools = json_object_get(root, "tools");
    if (json_is_null(tools)) tools = NULL;
    struct conversation loaded = {.messages = json_incref(array), .tools = json_incref(tools)};
    json_decref(root);
    int status = !json_is_array(array) ? cli_fail("%s has no array \"messages\"", path)
                 : tools && !rf_tools_are_valid(tools)
                     ? cli_fail("%s: \"tools\" is no list of functions", path)
                     : check_messages(&loaded, path);
    if (status == CLI_OK) {
        conversation_free(conversation);
        *conversation = loaded;
    } else {
        conversation_free(&loaded);
    }
    return status;
}

int conversation_load(struct conversation *conversation, const char *path)
{
    char *text;
    size_t bytes;
    struct rf_error error;
    if (rf_slurp(path, most_file_bytes, &text, &bytes, &error) != RF_OK)
        return cli_fail("%s", error.text);
    int status = conversation_parse(conversation, text, bytes, path);
    free(text);
    return status;
}
