/* What a chat template does with tools: found out by conversations that it formats. What it writes
 * for a call is read as an answer is, so the form is the one whose reader finds the call. */
#include <stdlib.h>
#include <string.h>

#include "answers/tool_calls.h"
#include "answers/tools.h"
#include "base/json.h"

static const char
    probed_name[] = "probed",
    probed_tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"probed\",\"description\":"
        "\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
        "\"string\"},\"days\":{\"type\":\"integer\"},\"list\":{\"type\":\"array\"}}}}}]",
    probed_arguments[] = "{\"city\":\"a b\",\"days\":17,\"list\":[true]}",
    offered_tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"offered\",\"description\":"
                      "\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]";

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

/* Takes the conversation. */
static char *format_value(const riffle_model *model, json_t *conversation)
{
    char *written = conversation ? rf_json_dump(conversation, 0, NULL) : NULL;
    char *text = written ? format_chat(model, written) : NULL;
    json_decref(conversation);
    free(written);
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

/* A conversation with a call, as the manner says, and with tools if it shows them; some templates
 * write a call only before its result. */
static char *format_call(const riffle_model *model, const struct tool_manner *manner,
                         int with_result)
{
    json_t *arguments = manner->text_arguments ? json_string(probed_arguments)
                                               : json_loads(probed_arguments, 0, NULL);
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id",
                             manner->named_ids ? "functions.probed:0" : "abcdefghi", "type",
                             "function", "function", "name", probed_name, "arguments", arguments);
    json_t *chat =
        json_pack("{s:[{s:s, s:s}, {s:s, s:o, s:[o]}]}", "messages", "role", "user", "content",
                  "QQQ", "role", "assistant", "content",
                  manner->null_content ? json_null() : json_string(""), "tool_calls", call);
    if (chat && manner->shows_tools)
        json_object_set_new(chat, "tools", json_loads(offered_tools, 0, NULL));
    if (chat && with_result)
        json_array_append_new(json_object_get(chat, "messages"),
                              json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                                        "abcdefghi", "name", probed_name, "content", "RRR"));
    return format_value(model, chat);
}

/* 1 if the calls are the one that was asked for. */
static int is_probed(const json_t *calls)
{
    const json_t *function = json_object_get(json_array_get(calls, 0), "function"),
                 *written = json_object_get(function, "arguments");
    json_t *found =
               json_is_string(written) ? json_loads(json_string_value(written), 0, NULL) : NULL,
           *wanted = json_loads(probed_arguments, 0, NULL);
    int same = json_array_size(calls) == 1 && json_equal(found, wanted);
    json_decref(found);
    json_decref(wanted);
    return same;
}

/* 1 if a text of n bytes is the call. */
static int reads_as_call(const struct tool_form *form, const json_t *tools, const char *text,
                         size_t n)
{
    json_t *calls = json_array();
    int is_call = rf_tool_calls_read(form, tools, text, n, calls) == 0 && is_probed(calls);
    json_decref(calls);
    return is_call;
}

enum { HEAD_BYTES = 200, CALL_BYTES = 400 };

/* 1 if a call of the form begins at the text, which no tag closes: what follows it is the
 * template's, so every end of it is tried. */
static int has_open_call(const struct tool_form *form, const json_t *tools, const char *text,
                         const char *name)
{
    size_t most = strlen(name) < CALL_BYTES ? strlen(name) : CALL_BYTES;
    for (size_t n = 1; n <= most; n++)
        if (strchr("}])", name[n - 1]) &&
            reads_as_call(form, tools, text, (size_t)(name - text) + n))
            return 1;
    return 0;
}

/* 1 if the text has a call of the form between such tags; tags NULL: without any. */
static int has_call(const struct tool_form *form, const struct tool_tags *tags, const json_t *tools,
                    const char *text)
{
    const char *open = tags ? tags->open : "{", *close = tags ? tags->close : NULL;
    for (const char *at = text; (at = strstr(at, open)); at++) {
        const char *body = tags ? at + strlen(open) : at, *name = strstr(body, probed_name);
        const char *end = name && close ? strstr(name, close) : NULL;
        if (!name || name - body > HEAD_BYTES) continue;
        if (end && reads_as_call(form, tools, body, (size_t)(end - body))) return 1;
        if (!end && has_open_call(form, tools, body, name)) return 1;
    }
    return 0;
}

/* The form of what a template writes behind the user's message. The forms' own tags come first. */
static const struct tool_form *form_of(const char *text)
{
    json_t *tools = json_loads(probed_tools, 0, NULL);
    const char *behind = strstr(text, "QQQ");
    const struct tool_form *found = NULL;
    for (size_t t = 0; behind && tools && t < TOOL_TAGS; t++)
        for (size_t i = 0; i < rf_n_tool_forms && !found; i++) {
            const struct tool_form *form = &rf_tool_forms[i];
            const struct tool_tags *tags = form->is_untagged && !t ? NULL : &form->tags[t];
            if (tags && !tags->open) continue;
            if (has_call(form, tags, tools, behind)) found = form;
        }
    json_decref(tools);
    return found;
}

/* The form by the words of a template that shows tools alone, or by a control token of its own. */
static const struct tool_form *form_by_words(const riffle_model *model, const char *text)
{
    for (size_t i = 0; i < rf_n_tool_forms; i++)
        for (int h = 0; h < 2 && rf_tool_forms[i].hints[h]; h++)
            if (strstr(text, rf_tool_forms[i].hints[h])) return &rf_tool_forms[i];
    for (size_t i = 0; i < rf_n_tool_forms; i++) {
        const char *open = rf_tool_forms[i].tags[0].open;
        size_t n = strlen(open);
        int32_t token;
        if (strncmp(open, "<|", 2) != 0 || strcmp(open + n - 2, "|>") != 0) continue;
        if (riffle_tokenize(model, open, n, RIFFLE_TOKENIZE_SPECIAL, &token, 1) == 1)
            return &rf_tool_forms[i];
    }
    return rf_tool_form_find("hermes");
}

/* Tries the ways in which templates take calls, with tools and without; 1 if one is shown.
 * *is_unknown: calls are shown in a form that no row has. */
static int find_calls(const riffle_model *model, struct tool_manner *manner, int *is_unknown)
{
    *is_unknown = 0;
    for (int way = 0; way < 32; way++) {
        struct tool_manner tried = *manner;
        tried.named_ids = way >> 4 & 1;
        tried.null_content = way & 1;
        tried.text_arguments = way >> 1 & 1;
        tried.shows_tools = !(way >> 3 & 1);
        if (tried.shows_tools && !manner->shows_tools) continue;
        char *text = format_call(model, &tried, way >> 2 & 1);
        tried.form = text ? form_of(text) : NULL;
        *is_unknown |= text && !tried.named_ids && strstr(text, probed_name);
        free(text);
        if (!tried.form) continue;
        tried.shows_tools = manner->shows_tools;
        tried.shows_calls = 1;
        *manner = tried;
        return 1;
    }
    return 0;
}

struct tool_manner rf_tools_manner(const riffle_model *model)
{
    struct tool_manner manner = {.form = NULL};
    int is_unknown;
    char *plain = format_chat(model, "{\"messages\":[{\"role\":\"user\",\"content\":\"QQQ\"}]}");
    if (!plain) return manner;
    free(plain);
    json_t *chat = json_pack("{s:[{s:s, s:s}], s:o}", "messages", "role", "user", "content", "QQQ",
                             "tools", json_loads(offered_tools, 0, NULL));
    char *tools = format_value(model, chat);
    manner.shows_tools = tools && strstr(tools, "offered") != NULL;
    if (!find_calls(model, &manner, &is_unknown) && !is_unknown)
        manner.form =
            manner.shows_tools ? form_by_words(model, tools) : rf_tool_form_find("hermes");
    free(tools);
    char *system = format_chat(model, "{\"messages\":[{\"role\":\"system\",\"content\":\"SSS\"},"
                                      "{\"role\":\"user\",\"content\":\"QQQ\"}]}"),
         *tool =
             format_chat(model, "{\"messages\":[{\"role\":\"user\",\"content\":\"QQQ\"},"
                                "{\"role\":\"assistant\",\"content\":\"AAA\"},{\"role\":\"tool\","
                                "\"content\":\"RRR\",\"tool_call_id\":\"abcdefghi\"}]}");
    manner.has_system = system && strstr(system, "SSS");
    manner.has_tool_role =
        manner.shows_calls || (manner.shows_tools && tool && strstr(tool, "RRR"));
    free(system);
    free(tool);
    return manner;
}
