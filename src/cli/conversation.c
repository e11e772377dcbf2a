#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"
#include "platform/file.h"

static const size_t most_file_bytes = (size_t)64 << 20;

void conversation_add(struct conversation *conversation, const char *role, const char *content,
                      size_t n)
{
    conversation->messages = cli_reallocate(conversation->messages, conversation->count + 1,
                                            sizeof *conversation->messages);
    conversation->messages[conversation->count++] =
        (riffle_message){cli_copy(role, strlen(role)), cli_copy(content, n)};
}

void conversation_drop(struct conversation *conversation, size_t first, size_t n)
{
    riffle_message *messages = conversation->messages;
    for (size_t i = first; i < first + n; i++) {
        free((void *)messages[i].role);
        free((void *)messages[i].content);
    }
    conversation->count -= n;
    if (n)
        memmove(messages + first, messages + first + n,
                (conversation->count - first) * sizeof *messages);
}

void conversation_cut(struct conversation *conversation, size_t count)
{
    if (conversation->count > count)
        conversation_drop(conversation, count, conversation->count - count);
}

void conversation_free(struct conversation *conversation)
{
    conversation_cut(conversation, 0);
    free(conversation->messages);
    *conversation = (struct conversation){NULL, 0};
}

const char *conversation_system(const struct conversation *conversation)
{
    if (conversation->count == 0 || strcmp(conversation->messages[0].role, "system") != 0)
        return NULL;
    return conversation->messages[0].content;
}

void conversation_set_system(struct conversation *conversation, const char *content)
{
    size_t n = strlen(content);
    if (conversation_system(conversation)) {
        free((void *)conversation->messages[0].content);
        conversation->messages[0].content = cli_copy(content, n);
        return;
    }
    conversation_add(conversation, "system", content, n);
    riffle_message *messages = conversation->messages, added = messages[conversation->count - 1];
    memmove(messages + 1, messages, (conversation->count - 1) * sizeof added);
    messages[0] = added;
}

void conversation_write(const struct conversation *conversation, struct json_writer *json)
{
    jw_put(json, "{ messages [");
    for (size_t i = 0; i < conversation->count; i++)
        jw_put(json, "{ role %s content %s }", conversation->messages[i].role,
               conversation->messages[i].content);
    jw_put(json, "] }");
    buffer_puts(&json->text, "\n");
}

int conversation_save(const struct conversation *conversation, const char *path)
{
    struct json_writer json = {0};
    conversation_write(conversation, &json);
    struct rf_error error;
    struct rf_span span = {json.text.data, json.text.count};
    int code = rf_write_file(path, &span, 1, RF_NEW_PRIVATE, &error);
    buffer_free(&json.text);
    return code ? cli_fail("%s", error.text) : CLI_OK;
}

/* Adds the messages of an array to an empty conversation. */
static int read_messages(struct conversation *loaded, const json_t *array, const char *path)
{
    size_t i;
    const json_t *item;
    json_array_foreach(array, i, item)
    {
        const char *role = json_string_value(json_object_get(item, "role"));
        const json_t *content = json_object_get(item, "content");
        if (!role || !json_is_string(content))
            return cli_fail("%s: message %zu needs \"role\" and \"content\", both texts", path,
                            i + 1);
        if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
            strcmp(role, "assistant") != 0)
            return cli_fail(
                "%s: message %zu has the role \"%s\"; system, user and assistant are known", path,
                i + 1, role);
        if (strcmp(role, "system") == 0 && i > 0)
            return cli_fail("%s: message %zu is a system message, which can only be the first",
                            path, i + 1);
        conversation_add(loaded, role, json_string_value(content), json_string_length(content));
    }
    return CLI_OK;
}

int conversation_parse(struct conversation *conversation, const char *text, size_t bytes,
                       const char *path)
{
    /* jansson rejects \u0000 by default, so no text holds a zero byte. */
    json_error_t reason;
    json_t *root = json_loadb(text, bytes, 0, &reason);
    if (!root)
        return cli_fail("%s is not JSON: line %d, column %d: %s", path, reason.line, reason.column,
                        reason.text);

    const json_t *array = json_is_object(root) ? json_object_get(root, "messages") : root;
    struct conversation loaded = {NULL, 0};
    int status = json_is_array(array) ? read_messages(&loaded, array, path)
                                      : cli_fail("%s has no array \"messages\"", path);
    json_decref(root);
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
