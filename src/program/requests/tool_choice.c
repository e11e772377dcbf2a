/* Reads tools and tool_choice. An answer that must call is limited by a grammar and begins in the
 * prompt. */
#include "requests/tool_choice.h"

#include <string.h>

#include "requests/limits.h"
#include "requests/members.h"

/* The wishes of a request about its tools. */
struct tool_wish {
    json_t *tools;    /* tools that may be called; NULL: none */
    const char *name; /* the tool that must be called, or NULL */
    int must_call;
};

static const char *name_in(const json_t *choice)
{
    return json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
}

/* {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}: the others stay out. */
static int allow(const json_t *allowed, struct tool_wish *wish, struct refusal *refusal)
{
    const json_t *list = json_object_get(allowed, "tools");
    const char *mode = json_string_value(json_object_get(allowed, "mode"));
    json_t *left = json_array();
    for (size_t i = 0; i < json_array_size(wish->tools); i++) {
        json_t *tool = json_array_get(wish->tools, i);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const char *name = name_in(json_array_get(list, k));
            if (!name || strcmp(name, name_in(tool)) != 0) continue;
            json_array_append(left, tool);
            break;
        }
    }
    json_decref(wish->tools);
    wish->tools = left;
    if (json_array_size(left) == 0 || json_array_size(left) != json_array_size(list))
        return refuse(refusal, 400, "invalid_value", "tool_choice allows no tools that are there");
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0))
        return refuse_value(refusal, "tool_choice.allowed_tools.mode", "auto or required");
    wish->must_call = strcmp(mode, "required") == 0;
    return 0;
}

/* The forms of tool_choice. */
static int take_choice(const json_t *choice, struct tool_wish *wish, struct refusal *refusal)
{
    const char *word = json_string_value(choice);
    const json_t *allowed = json_object_get(choice, "allowed_tools");
    if (!choice || (word && strcmp(word, "auto") == 0)) return 0;
    if (allowed) return allow(allowed, wish, refusal);
    if (word && strcmp(word, "none") == 0) {
        json_decref(wish->tools);
        wish->tools = NULL;
        return 0;
    }
    wish->name = name_in(choice);
    wish->must_call = wish->name || (word && strcmp(word, "required") == 0);
    if (!wish->must_call)
        return refuse_value(refusal, "tool_choice",
                            "none, auto, required, a function's name or allowed_tools");
    if (!wish->tools || (wish->name && !rf_tools_find(wish->tools, wish->name)))
        return refuse(refusal, 400, "invalid_value", "tool_choice: there is no tool %.100s",
                      wish->name ? wish->name : "at all");
    return 0;
}

/* Limits the answer to one call, whose beginning is in the prompt. */
static int open_call(const struct answerer *of, const struct tool_wish *wish,
                     struct question *question, struct refusal *refusal)
{
    json_t *grammar = rf_tools_grammar(of->tools.form, wish->tools, wish->name);
    int code = limits_add("tool_choice", grammar, RIFFLE_GRAMMAR_CHOICE, question, refusal);
    json_decref(grammar);
    question->opening = rf_tools_opening(of->tools.form);
    return code || question->opening ? code : refuse_memory(refusal);
}

static int offer_tools(const json_t *body, const struct answerer *of, int is_chat,
                       const struct tool_wish *wish, struct question *question,
                       struct refusal *refusal)
{
    int is_parallel = 1;
    if (!is_chat || !of->tools.form)
        return refuse(refusal, 400, "unsupported_parameter",
                      is_chat ? "the model's chat template has no form of calls that is known"
                              : "tools are for chats");
    if (member_flag(body, "parallel_tool_calls", &is_parallel, refusal)) return -1;
    question->tools = json_incref(wish->tools);
    question->tool_form = of->tools.form;
    question->most_calls = !is_parallel;
    return wish->must_call ? open_call(of, wish, question, refusal) : 0;
}

int tool_choice_take(const json_t *body, const struct answerer *of, int is_chat,
                     struct question *question, struct refusal *refusal)
{
    const json_t *tools = member_get(body, "tools");
    if (json_is_array(tools) && json_array_size(tools) == 0) tools = NULL;
    if (tools && !rf_tools_are_valid(tools))
        return refuse_value(refusal, "tools", "an array of functions with names");
    struct tool_wish wish = {.tools = json_incref((json_t *)tools)};
    int code = take_choice(member_get(body, "tool_choice"), &wish, refusal);
    if (!code && wish.tools) code = offer_tools(body, of, is_chat, &wish, question, refusal);
    json_decref(wish.tools);
    return code;
}
