/* Translates limits, tools and thoughts of Anthropic's requests. Names that differ are checked
 * here, so that a refusal names the member that the client wrote. */
#include "translate/block_options.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "requests/accepted.h"
#include "requests/members.h"

/* Refuses with the member's path. */
static int refuse_option(struct refusal *refusal, const char *name, const char *path,
                         const char *why)
{
    refuse(refusal, 400, "unsupported_parameter", "%.200s is not supported%s", path, why);
    return refuse_param(refusal, name);
}

/* ---- how long, and how tokens are chosen ---- */

static int add_limits(json_t *chat, const json_t *body, int has_most, struct refusal *refusal)
{
    static const char *const same[] = {"max_tokens", "stream", "temperature", "top_p", "seed"};
    int32_t most = 0, top_k = 0;
    if (has_most && !member_get(body, "max_tokens"))
        return refuse_value(refusal, "max_tokens", "there");
    if (member_int(body, "max_tokens", 1, INT32_MAX, &most, refusal)) return -1;
    if (member_int(body, "top_k", 0, INT32_MAX, &top_k, refusal)) return -1;
    if (member_get(body, "top_k")) json_object_set_new(chat, "top_k", json_integer(top_k));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (member_get(body, same[i]))
            json_object_set(chat, same[i], (json_t *)member_get(body, same[i]));
    return 0;
}

static int add_stops(json_t *chat, const json_t *body, struct refusal *refusal)
{
    json_t *stops = (json_t *)member_get(body, "stop_sequences");
    size_t n = json_array_size(stops), i = 0;
    while (i < n && rf_json_c_string(json_array_get(stops, i)) &&
           json_string_length(json_array_get(stops, i)))
        i++;
    if (stops && (!json_is_array(stops) || i < n || n > MOST_STOPS))
        return refuse_value(refusal, "stop_sequences",
                            "an array of up to 16 texts, none empty or with a zero byte");
    if (n) json_object_set(chat, "stop", stops);
    return 0;
}

/* ---- tools ---- */

/* Members of a tool that act, or that change no answer. */
static int knows_tool_member(const char *name)
{
    static const char *const names[] = {
        "name",          "description", "input_schema",         "type",
        "cache_control", "strict",      "eager_input_streaming"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return 0;
}

static int check_tool(const json_t *tool, size_t index, struct refusal *refusal)
{
    const json_t *type = member_get(tool, "type"), *about = member_get(tool, "description");
    const char *word = rf_json_c_string(type), *name;
    char path[160];
    json_t *value;
    if (type && !(word && strcmp(word, "custom") == 0)) {
        snprintf(path, sizeof path, "tools[%zu].type %.60s", index, word ? word : "");
        return refuse_option(refusal, "tools", path, ": tools are the client's");
    }
    if (!rf_json_c_string(json_object_get(tool, "name")) ||
        !rf_json_is_map(json_object_get(tool, "input_schema")) || (about && !json_is_string(about)))
        return refuse_value(refusal, "tools",
                            "an array of tools, each with a name and an input_schema");
    json_object_foreach((json_t *)tool, name, value)
    {
        if (knows_tool_member(name) || accepted_is_off(value)) continue;
        snprintf(path, sizeof path, "tools[%zu].%.100s", index, name);
        return refuse_option(refusal, "tools", path, "");
    }
    return 0;
}

static int add_tools(json_t *chat, const json_t *body, struct refusal *refusal)
{
    const json_t *given = member_get(body, "tools");
    json_t *tools = json_array();
    if (!tools || json_object_set_new(chat, "tools", tools)) return refuse_memory(refusal);
    if (given && !json_is_array(given)) return refuse_value(refusal, "tools", "an array of tools");
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *tool = json_array_get(given, i);
        if (check_tool(tool, i, refusal)) return -1;
        json_t *function = json_pack("{s:O, s:O*, s:O}", "name", json_object_get(tool, "name"),
                                     "description", member_get(tool, "description"), "parameters",
                                     json_object_get(tool, "input_schema"));
        json_t *made = json_pack("{s:s, s:o}", "type", "function", "function", function);
        if (json_array_append_new(tools, made)) return refuse_memory(refusal);
    }
    return 0;
}

static int add_tool_choice(json_t *chat, const json_t *body, struct refusal *refusal)
{
    static const char wanted[] = "an object of the type auto, any, none, or tool with a name";
    const json_t *choice = member_get(body, "tool_choice");
    const char *type = rf_json_c_string(json_object_get(choice, "type")),
               *name = rf_json_c_string(json_object_get(choice, "name"));
    int is_single = 0;
    if (!choice) return 0;
    if (!type) return refuse_value(refusal, "tool_choice", wanted);
    if (member_flag(choice, "disable_parallel_tool_use", &is_single, refusal)) return -1;
    if (is_single) json_object_set_new(chat, "parallel_tool_calls", json_false());
    json_t *made = NULL;
    if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0)
        made = json_string(type);
    else if (strcmp(type, "any") == 0)
        made = json_string("required");
    else if (strcmp(type, "tool") == 0 && name)
        made = json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name);
    else
        return refuse_value(refusal, "tool_choice", wanted);
    return json_object_set_new(chat, "tool_choice", made) ? refuse_memory(refusal) : 0;
}

/* ---- thoughts ---- */

/* They are the chat template's: Qwen's reads enable_thinking, Seed's also thinking_budget. */
static int add_thinking(json_t *chat, const json_t *body, struct refusal *refusal)
{
    const json_t *thinking = member_get(body, "thinking");
    const char *type = rf_json_c_string(json_object_get(thinking, "type"));
    int32_t budget = 0;
    int is_enabled = type && strcmp(type, "enabled") == 0;
    if (!thinking || (type && strcmp(type, "adaptive") == 0)) return 0;
    if (!is_enabled && !(type && strcmp(type, "disabled") == 0))
        return refuse_value(refusal, "thinking",
                            "an object of the type enabled, disabled or adaptive");
    if (member_int(thinking, "budget_tokens", 1, INT32_MAX, &budget, refusal)) return -1;
    json_t *more = json_pack("{s:b}", "enable_thinking", is_enabled);
    if (is_enabled && budget) json_object_set_new(more, "thinking_budget", json_integer(budget));
    return json_object_set_new(chat, "chat_template_kwargs", more) ? refuse_memory(refusal) : 0;
}

static int add_output(json_t *chat, const json_t *body, const struct answerer *of,
                      struct refusal *refusal)
{
    const json_t *output = member_get(body, "output_config");
    json_t *effort = (json_t *)member_get(output, "effort"),
           *format = (json_t *)member_get(output, "format");
    const char *type = rf_json_c_string(json_object_get(format, "type"));
    json_t *schema = json_object_get(format, "schema");
    if (output && !rf_json_is_map(output))
        return refuse_value(refusal, "output_config", "an object");
    if (effort && !json_is_string(effort))
        return refuse_value(refusal, "output_config.effort", "a text");
    if (effort && !of->has_effort)
        return refuse_option(refusal, "output_config", "output_config.effort",
                             ": the model's chat template does not read it");
    if (effort) json_object_set(chat, "reasoning_effort", effort);
    if (!format) return 0;
    if (!type || strcmp(type, "json_schema") != 0 || !rf_json_is_map(schema))
        return refuse_value(refusal, "output_config.format",
                            "an object of the type json_schema with a schema");
    json_t *made =
        json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", schema);
    return json_object_set_new(chat, "response_format", made) ? refuse_memory(refusal) : 0;
}

/* Old thoughts are the template's to keep or leave out; nothing else is edited. */
static int check_edits(const json_t *body, struct refusal *refusal)
{
    const json_t *edits = json_object_get(member_get(body, "context_management"), "edits");
    for (size_t i = 0; i < json_array_size(edits); i++) {
        const char *type = rf_json_c_string(json_object_get(json_array_get(edits, i), "type"));
        if (!type || strncmp(type, "clear_thinking", 14) != 0)
            return refuse_option(refusal, "context_management", "context_management",
                                 " but for clear_thinking");
    }
    return 0;
}

int block_options_add(json_t *chat, const json_t *body, const struct answerer *of, int has_most,
                      struct refusal *refusal)
{
    if (add_limits(chat, body, has_most, refusal)) return -1;
    if (add_stops(chat, body, refusal)) return -1;
    if (add_tools(chat, body, refusal)) return -1;
    if (add_tool_choice(chat, body, refusal)) return -1;
    if (add_thinking(chat, body, refusal)) return -1;
    if (add_output(chat, body, of, refusal)) return -1;
    return check_edits(body, refusal);
}
