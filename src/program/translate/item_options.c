/* Translates limits, tools, formats and thoughts of requests of the Responses interface. Names that
 * differ are checked here, so that a refusal names the member that the client wrote. */
#include "translate/item_options.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"
#include "translate/spaces.h"
#include "translate/turns.h"

/* Refuses a member by its path. */
static int items_refuse(struct refusal *refusal, const char *name, const char *path,
                        const char *why)
{
    refuse(refusal, 400, "unsupported_parameter", "%.200s is not supported%s", path, why);
    return refuse_param(refusal, name);
}

/* Refuses the first member of an object that is not in the list, which NULL ends, and asks for
 * something. `path`: the object's. */
static int items_check_names(const json_t *object, const char *name, const char *path,
                             const char *const *known, struct refusal *refusal)
{
    const char *key;
    json_t *value;
    char whole[200];
    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (known[i] || accepted_is_off(value)) continue;
        snprintf(whole, sizeof whole, "%.60s.%.100s", path, key);
        return items_refuse(refusal, name, whole, "");
    }
    return 0;
}

/* ---- how long, and how tokens are chosen ---- */

static int items_add_limits(json_t *chat, const json_t *body, struct refusal *refusal)
{
    static const char *const same[] = {"stream", "temperature", "top_p", "seed"};
    static const char *const streams[] = {"include_obfuscation", NULL};
    int32_t most = 0;
    int flag = 0; /* nothing is stored either way */
    const json_t *options = member_get(body, "stream_options"),
                 *metadata = member_get(body, "metadata");
    if (member_int(body, "max_output_tokens", 1, INT32_MAX, &most, refusal)) return -1;
    if (most) json_object_set_new(chat, "max_tokens", json_integer(most));
    if (member_flag(body, "store", &flag, refusal)) return -1;
    if (metadata && !rf_json_is_map(metadata))
        return refuse_value(refusal, "metadata", "an object");
    if (options && !rf_json_is_map(options))
        return refuse_value(refusal, "stream_options", "an object");
    if (items_check_names(options, "stream_options", "stream_options", streams, refusal)) return -1;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (member_get(body, same[i]))
            json_object_set(chat, same[i], (json_t *)member_get(body, same[i]));
    return 0;
}

/* Checks what a response is to include beside the answer. Results of tools of the server are none,
 * and thoughts are not encrypted. */
static int items_check_include(const json_t *body, struct refusal *refusal)
{
    const json_t *include = member_get(body, "include");
    if (include && !json_is_array(include)) return refuse_value(refusal, "include", "an array");
    for (size_t i = 0; i < json_array_size(include); i++) {
        const char *word = rf_json_c_string(json_array_get(include, i));
        if (!word) return refuse_value(refusal, "include", "an array of texts");
        if (strcmp(word, "message.output_text.logprobs") == 0)
            return items_refuse(refusal, "include", word, "; chats have logprobs");
    }
    return 0;
}

/* ---- tools ---- */

static int items_check_tool(const json_t *tool, const char *path, struct refusal *refusal)
{
    static const char *const known[] = {"type",       "name",   "description",
                                        "parameters", "strict", NULL};
    const json_t *about = member_get(tool, "description"),
                 *parameters = member_get(tool, "parameters");
    const char *type = rf_json_c_string(json_object_get(tool, "type"));
    char whole[160];
    if (type && strcmp(type, "function") != 0) {
        snprintf(whole, sizeof whole, "%.80s.type %.60s", path, type);
        return items_refuse(refusal, "tools", whole, ": tools are functions of the client");
    }
    if (!type || !rf_json_c_string(json_object_get(tool, "name")) ||
        (about && !json_is_string(about)) || (parameters && !rf_json_is_map(parameters)))
        return refuse_value(refusal, "tools",
                            "an array of the type function, each with a name and parameters");
    return items_check_names(tool, "tools", path, known, refusal);
}

/* Adds a function; `space` is the name of its namespace, or NULL. */
static int items_add_function(json_t *tools, const json_t *tool, const json_t *space,
                              const char *path, struct refusal *refusal)
{
    if (items_check_tool(tool, path, refusal)) return -1;
    json_t *function =
        json_pack("{s:o, s:O*, s:O*}", "name", spaces_join(space, json_object_get(tool, "name")),
                  "description", member_get(tool, "description"), "parameters",
                  member_get(tool, "parameters"));
    json_t *made = json_pack("{s:s, s:o}", "type", "function", "function", function);
    return json_array_append_new(tools, made) ? refuse_memory(refusal) : 0;
}

/* Adds the functions of a namespace, whose description has no place in a chat. */
static int items_add_space(json_t *tools, const json_t *space, const char *path,
                           struct refusal *refusal)
{
    static const char *const known[] = {"type", "name", "description", "tools", NULL};
    const json_t *name = json_object_get(space, "name"),
                 *functions = json_object_get(space, "tools");
    char inner[96];
    if (!rf_json_c_string(name) || !json_is_array(functions))
        return refuse_value(refusal, "tools", "an array whose namespaces have a name and tools");
    if (items_check_names(space, "tools", path, known, refusal)) return -1;
    for (size_t i = 0; i < json_array_size(functions); i++) {
        snprintf(inner, sizeof inner, "%.60s.tools[%zu]", path, i);
        if (items_add_function(tools, json_array_get(functions, i), name, inner, refusal))
            return -1;
    }
    return 0;
}

static int items_add_tools(json_t *chat, const json_t *body, struct refusal *refusal)
{
    const json_t *given = member_get(body, "tools");
    json_t *tools = json_array();
    char path[32];
    if (json_object_set_new(chat, "tools", tools)) return refuse_memory(refusal);
    if (given && !json_is_array(given)) return refuse_value(refusal, "tools", "an array of tools");
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *tool = json_array_get(given, i);
        int is_space = turns_is_word(json_object_get(tool, "type"), "namespace");
        snprintf(path, sizeof path, "tools[%zu]", i);
        if (is_space ? items_add_space(tools, tool, path, refusal)
                     : items_add_function(tools, tool, NULL, path, refusal))
            return -1;
    }
    return 0;
}

/* {"type": "function", "name"} as chats write it; NULL: it is none. */
static json_t *named_function(const json_t *given)
{
    json_t *name = turns_is_word(json_object_get(given, "type"), "function")
                       ? spaces_join(member_get(given, "namespace"), json_object_get(given, "name"))
                       : NULL;
    return name ? json_pack("{s:s, s:{s:o}}", "type", "function", "function", "name", name) : NULL;
}

static json_t *allowed_tools(const json_t *choice)
{
    json_t *given = json_object_get(choice, "tools"), *tools = json_array(),
           *mode = json_object_get(choice, "mode");
    int is_right = turns_is_word(mode, "auto") || turns_is_word(mode, "required");
    for (size_t i = 0; is_right && i < json_array_size(given); i++)
        is_right = !json_array_append_new(tools, named_function(json_array_get(given, i)));
    json_t *made = is_right ? json_pack("{s:s, s:{s:O, s:O}}", "type", "allowed_tools",
                                        "allowed_tools", "mode", mode, "tools", tools)
                            : NULL;
    json_decref(tools);
    return made;
}

static int items_add_tool_choice(json_t *chat, const json_t *body, struct refusal *refusal)
{
    json_t *choice = (json_t *)member_get(body, "tool_choice"), *made;
    int is_parallel = 1;
    if (member_flag(body, "parallel_tool_calls", &is_parallel, refusal)) return -1;
    json_object_set_new(chat, "parallel_tool_calls", json_boolean(is_parallel));
    if (!choice) return 0;
    if (turns_is_word(choice, "auto") || turns_is_word(choice, "none") ||
        turns_is_word(choice, "required"))
        made = json_incref(choice);
    else if (turns_is_word(json_object_get(choice, "type"), "allowed_tools"))
        made = allowed_tools(choice);
    else
        made = named_function(choice);
    if (!made)
        return refuse_value(refusal, "tool_choice",
                            "none, auto, required, or an object of the type function with a name, "
                            "or of the type allowed_tools with mode and tools");
    return json_object_set_new(chat, "tool_choice", made) ? refuse_memory(refusal) : 0;
}

/* ---- the form of the text ---- */

static int items_add_schema(json_t *chat, const json_t *format, struct refusal *refusal)
{
    json_t *schema = json_object_get(format, "schema");
    if (!rf_json_is_map(schema)) return refuse_value(refusal, "text.format.schema", "an object");
    json_t *made =
        json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", schema);
    return json_object_set_new(chat, "response_format", made) ? refuse_memory(refusal) : 0;
}

static int items_add_format(json_t *chat, const json_t *format, struct refusal *refusal)
{
    static const char *const known[] = {"type", NULL}, *const named[] = {"type",        "name",
                                                                         "description", "schema",
                                                                         "strict",      NULL};
    const json_t *type = json_object_get(format, "type");
    int has_schema = turns_is_word(type, "json_schema");
    if (!has_schema && !turns_is_word(type, "text") && !turns_is_word(type, "json_object"))
        return refuse_value(refusal, "text.format.type", "text, json_object or json_schema");
    if (items_check_names(format, "text", "text.format", has_schema ? named : known, refusal))
        return -1;
    if (has_schema) return items_add_schema(chat, format, refusal);
    return json_object_set(chat, "response_format", (json_t *)format) ? refuse_memory(refusal) : 0;
}

/* An answer has one limit. */
static int items_check_limits(const json_t *chat, struct refusal *refusal)
{
    const json_t *format = json_object_get(chat, "response_format"),
                 *choice = json_object_get(chat, "tool_choice"),
                 *mode = json_object_get(json_object_get(choice, "allowed_tools"), "mode");
    int must_call = turns_is_word(choice, "required") || json_object_get(choice, "function") ||
                    turns_is_word(mode, "required");
    if (!format || !must_call || turns_is_word(json_object_get(format, "type"), "text")) return 0;
    refuse(refusal, 400, "invalid_value", "text.format is beside tool_choice");
    return refuse_param(refusal, "text");
}

static int items_add_text(json_t *chat, const json_t *body, struct refusal *refusal)
{
    static const char *const known[] = {"format", "verbosity", NULL};
    const json_t *text = member_get(body, "text"), *format = member_get(text, "format"),
                 *verbosity = member_get(text, "verbosity");
    if (text && !rf_json_is_map(text)) return refuse_value(refusal, "text", "an object");
    if (items_check_names(text, "text", "text", known, refusal)) return -1;
    if (verbosity && !json_is_string(verbosity)) /* the model decides */
        return refuse_value(refusal, "text.verbosity", "a text");
    if (format && items_add_format(chat, format, refusal)) return -1;
    return items_check_limits(chat, refusal);
}

/* ---- thoughts ---- */

/* They are the chat template's: some read the effort, others only whether there are thoughts. */
static int items_add_reasoning(json_t *chat, const json_t *body, const struct answerer *of,
                               struct refusal *refusal)
{
    static const char *const known[] = {"effort", "summary", "generate_summary", NULL};
    const json_t *reasoning = member_get(body, "reasoning");
    json_t *effort = (json_t *)member_get(reasoning, "effort");
    int is_none = turns_is_word(effort, "none");
    if (reasoning && !rf_json_is_map(reasoning))
        return refuse_value(refusal, "reasoning", "an object");
    if (items_check_names(reasoning, "reasoning", "reasoning", known, refusal)) return -1;
    if (!effort) return 0;
    if (!json_is_string(effort)) return refuse_value(refusal, "reasoning.effort", "a text");
    if (!of->has_effort && !is_none)
        return items_refuse(refusal, "reasoning", "reasoning.effort",
                            ": the model's chat template does not read it");
    if (of->has_effort) json_object_set(chat, "reasoning_effort", effort);
    if (!is_none) return 0;
    json_t *more = json_pack("{s:b}", "enable_thinking", 0);
    return json_object_set_new(chat, "chat_template_kwargs", more) ? refuse_memory(refusal) : 0;
}

int item_options_add(json_t *chat, const json_t *body, const struct answerer *of,
                     struct refusal *refusal)
{
    if (items_add_limits(chat, body, refusal)) return -1;
    if (items_check_include(body, refusal)) return -1;
    if (items_add_tools(chat, body, refusal)) return -1;
    if (items_add_tool_choice(chat, body, refusal)) return -1;
    if (items_add_text(chat, body, refusal)) return -1;
    return items_add_reasoning(chat, body, of, refusal);
}
