/* The table of forms. A form is added as a row, with an answer of a model in
 * test/serve/test_tools.c and what its template writes in test/serve/test_tool_forms.c. */
#include "answers/tool_forms.h"

#include <string.h>

#define DEEPSEEK_TAGS                                          \
    {                                                          \
        "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>" \
    }
#define HERMES_TAGS                   \
    {                                 \
        "<tool_call>", "</tool_call>" \
    }

/* The inner tags of calls in XML whose names are values of attributes. */
#define XML_CALL(prefix)                                                                           \
    .call = "<" prefix "invoke name=\"", .call_end = "</" prefix "invoke>\n", .name_end = "\">\n", \
    .key = "<" prefix "parameter name=\"", .key_end = "\"", .value = ">",                          \
    .value_end = "</" prefix "parameter>\n"

/* Qwen3-Coder's, whose names are part of the tags. */
#define XML_FUNCTION                                                                      \
    .call = "<function=", .call_end = "</function>\n", .name_end = ">\n",                 \
    .key = "<parameter=", .key_end = ">", .value = "\n", .value_end = "\n</parameter>\n", \
    .trims_lines = 1

/* GLM's */
#define ARG_KEYS(suffix)                                               \
    .key = "<arg_key" suffix ">", .key_end = "</arg_key" suffix ">\n", \
    .value = "<arg_value" suffix ">", .value_end = "</arg_value" suffix ">\n"

const struct tool_form rf_tool_forms[] = {
    {.title = "qwen3-coder", /* also Qwen 3.5, Nemotron 3, Step 3.5 */
     .body = TOOL_PAIRS,
     .tags = {HERMES_TAGS, {"<function=", "</function>"}},
     .has_lines = 1,
     XML_FUNCTION},
    {.title = "seed",
     .body = TOOL_PAIRS,
     .tags = {{"<seed:tool_call>", "</seed:tool_call>"}},
     .has_lines = 1,
     XML_FUNCTION},
    {.title = "glm", /* GLM 4.5, Ling 3, Laguna */
     .body = TOOL_PAIRS,
     .tags = {HERMES_TAGS},
     .name_end = "\n",
     ARG_KEYS("")},
    {.title = "hunyuan",
     .body = TOOL_PAIRS,
     .tags = {{"<tool_calls:opensource>", "</tool_calls:opensource>"}},
     .has_lines = 1,
     .call = "<tool_call:opensource>",
     .call_end = "</tool_call:opensource>\n",
     .name_end = "<tool_sep:opensource>\n",
     ARG_KEYS(":opensource")},
    {.title = "minimax-m2",
     .body = TOOL_PAIRS,
     .tags = {{"<minimax:tool_call>", "</minimax:tool_call>"}},
     .has_lines = 1,
     XML_CALL("")},
    {.title = "deepseek-v3.2",
     .body = TOOL_PAIRS,
     .tags = {{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"}},
     .has_lines = 1,
     XML_CALL("｜DSML｜")},
    {.title = "deepseek-v4",
     .body = TOOL_PAIRS,
     .tags = {{"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"}},
     .has_lines = 1,
     XML_CALL("｜DSML｜")},
    {.title = "muse",
     .body = TOOL_PAIRS,
     .tags = {{"<atem:function_calls>", "</atem:function_calls>"}},
     .has_lines = 1,
     XML_CALL("atem:")},
    {.title = "minicpm5",
     .body = TOOL_PAIRS,
     .tags = {{"<function name=\"", "</function>"}},
     .name_end = "\">",
     .key = "<param name=\"",
     .key_end = "\"",
     .value = ">",
     .value_end = "</param>"},
    {.title = "kimi-k3",
     .body = TOOL_PAIRS,
     .tags = {{"<|open|>tools<|sep|>", "<|close|>tools<|sep|>"}},
     .call = "<|open|>call tool=\"",
     .call_end = "<|close|>call<|sep|>",
     .name_end = "\" index=\"1\"<|sep|>",
     .key = "<|open|>argument key=\"",
     .key_end = "\"",
     .value = "<|sep|>",
     .value_end = "<|close|>argument<|sep|>"},
    {.title = "harmony", /* gpt-oss: a channel, or the head of a message, names the function */
     .body = TOOL_NAMED,
     .tags = {{"<|channel|>commentary to=functions.", "<|call|>"},
              {"<|channel|>analysis to=functions.", "<|call|>"},
              {" to=functions.", "<|call|>"},
              {"to=functions.", "<|call|>"}},
     .name_end = " <|constrain|>json<|message|>"},
    {.title = "kimi-k2",
     .body = TOOL_NAMED,
     .tags = {{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}},
     .call = "<|tool_call_begin|>",
     .call_end = "<|tool_call_end|>",
     .name = "functions.",
     .name_end = ":0<|tool_call_argument_begin|>",
     .hints = {"<|im_system|>tool_declare"}},
    {.title = "solar",
     .body = TOOL_NAMED,
     .tags = {{"<|tool_calls|>", "<|calls|>"}},
     .call = "<|tool_call:begin|>",
     .call_end = "<|tool_call:end|>",
     .name = "<|tool_call:name|>",
     .name_end = "<|tool_call:args|>"},
    {.title = "deepseek-v3.1",
     .body = TOOL_NAMED,
     .tags = {DEEPSEEK_TAGS},
     .call = "<｜tool▁call▁begin｜>",
     .call_end = "<｜tool▁call▁end｜>",
     .name_end = "<｜tool▁sep｜>"},
    {.title = "deepseek-v3", /* the older models write "function" and a fence */
     .body = TOOL_NAMED,
     .tags = {DEEPSEEK_TAGS},
     .call = "<｜tool▁call▁begin｜>",
     .call_end = "\n```<｜tool▁call▁end｜>",
     .name = "function<｜tool▁sep｜>",
     .name_end = "\n```json\n"},
    {.title = "mistral", /* since 2025 */
     .body = TOOL_NAMED,
     .tags = {{"[TOOL_CALLS]", NULL}},
     .name_end = "[ARGS]"},
    {.title = "functionary",
     .body = TOOL_NAMED,
     .tags = {{"<function=", "</function>"}},
     .name_end = ">"},
    {.title = "mistral-nemo",
     .body = TOOL_OBJECTS,
     .tags = {{"[TOOL_CALLS]", NULL}},
     .is_bare = 1,
     .name_key = "name",
     .arguments_key = "arguments",
     .is_list = 1},
    {.title = "lfm2",
     .body = TOOL_LITERALS,
     .tags = {{"<|tool_call_start|>", "<|tool_call_end|>"}},
     .name_end = "(",
     .key_end = "=",
     .call_end = ")",
     .is_list = 1,
     .hints = {"List of tools: "}},
    {.title = "minicpm3", /* Python in a fence */
     .body = TOOL_LITERALS,
     .tags = {{"<|tool_call_start|>\n```python\n", "```\n<|tool_call_end|>"}},
     .has_lines = 1,
     .name_end = "(",
     .key_end = "=",
     .call_end = ")"},
    {.title = "gemma",
     .body = TOOL_LITERALS,
     .tags = {{"<|tool_call>", "<tool_call|>"}},
     .name = "call:",
     .name_end = "{",
     .key_end = ":",
     .call_end = "}",
     .quote = "<|\"|>"},
    {.title = "apertus",
     .body = TOOL_OBJECTS,
     .tags = {{"<|tools_prefix|>", "<|tools_suffix|>"}},
     .is_list = 1},
    {.title = "cohere",
     .body = TOOL_OBJECTS,
     .tags = {{"<|START_ACTION|>", "<|END_ACTION|>"}},
     .name_key = "tool_name",
     .arguments_key = "parameters",
     .is_list = 1},
    {.title = "command-r",
     .body = TOOL_OBJECTS,
     .tags = {{"Action:\n```json\n", "```"}, {"Action: ```json\n", "```"}},
     .name_key = "tool_name",
     .arguments_key = "parameters",
     .is_list = 1},
    {.title = "nemotron",
     .body = TOOL_OBJECTS,
     .tags = {{"<TOOLCALL>", "</TOOLCALL>"}},
     .name_key = "name",
     .arguments_key = "arguments",
     .is_list = 1},
    {.title = "apriel", /* also MiniMax-M1, whose objects stand in lines */
     .body = TOOL_OBJECTS,
     .tags = {{"<tool_calls>", "</tool_calls>"}},
     .name_key = "name",
     .arguments_key = "arguments",
     .is_list = 1},
    {.title = "gigachat",
     .body = TOOL_OBJECTS,
     .tags = {{"<|function_call|>", NULL}, {"function call<|role_sep|>\n", NULL}},
     .name_key = "name",
     .arguments_key = "arguments"},
    {.title = "granite", /* 3.x; Phi-4-mini closes the list */
     .body = TOOL_OBJECTS,
     .tags = {{"<|tool_call|>", NULL}, HERMES_TAGS},
     .is_bare = 1,
     .name_key = "name",
     .arguments_key = "arguments",
     .is_list = 1,
     .hints = {"<|tool_call|>", "<|start_of_role|>available_tools"}},
    {.title = "hermes", /* also Qwen. Qwen2.5-Coder writes fences in spite of its template. */
     .body = TOOL_OBJECTS,
     .tags = {HERMES_TAGS,
              {"```json", "```"},
              {"<tools>", "</tools>"},
              {"<function_call>", "</function_call>"}},
     .has_lines = 1,
     .is_bare = 1,
     .name_key = "name",
     .arguments_key = "arguments"},
    {.title = "llama3",
     .body = TOOL_OBJECTS,
     .tags = {{"<|python_tag|>", NULL}, {"```json", "```"}},
     .is_untagged = 1,
     .is_bare = 1,
     .name_key = "name",
     .arguments_key = "parameters"},
};

const size_t rf_n_tool_forms = sizeof rf_tool_forms / sizeof *rf_tool_forms;

const struct tool_form *rf_tool_form_find(const char *title)
{
    for (size_t i = 0; i < rf_n_tool_forms; i++)
        if (strcmp(rf_tool_forms[i].title, title) == 0) return &rf_tool_forms[i];
    return NULL;
}

int rf_tool_form_has(const struct tool_form *form, const char *control)
{
    const char *const texts[] = {form->call,     form->call_end,  form->name,
                                 form->name_end, form->key,       form->key_end,
                                 form->value,    form->value_end, form->quote};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && strstr(texts[i], control)) return 1;
    for (size_t i = 0; i < TOOL_TAGS && form->tags[i].open; i++) {
        const struct tool_tags *tags = &form->tags[i];
        if (strstr(tags->open, control) || (tags->close && strstr(tags->close, control))) return 1;
    }
    return 0;
}
