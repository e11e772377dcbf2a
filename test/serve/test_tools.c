/* Calls of tools in answers: every text below, cut at every two places, gives the same text and the
 * same calls. */
#include <stdlib.h>
#include <string.h>

#include "answers/thoughts.h"
#include "answers/tool_forms.h"
#include "answers/tools.h"
#include "platform/memory.h"
#include "support/check.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"g\", \"parameters\": {}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"typed\", \"parameters\": {\"type\": "
    "\"object\","
    " \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"o\": "
    "{\"$ref\":"
    " \"#/$defs/o\"}, \"b\": {\"anyOf\": [{\"type\": \"boolean\"}, {\"type\": \"null\"}]}, \"u\":"
    " {\"type\": [\"string\", \"null\"]}, \"r\": {\"anyOf\": [{\"$ref\": \"#/properties/r\"},"
    " {\"$ref\": \"#/properties/r\"}]}}, \"$defs\": {\"o\": {\"type\": \"object\"}}}}}]";

/* The ids of an answer's calls come from its seed and their number alone. */
enum { SEED = 7 };
static const char *const ids[] = {"d3i710usm", "y78n6z7zl"};

struct example {
    const char *form;
    const char *answer, *text, *calls; /* calls: names with arguments */
};

static const struct example examples[] = {
    {"hermes", "", "", ""},
    {"hermes", "Hello <tool> you", "Hello <tool> you", ""},
    {"hermes", "Hello <tool_cal", "Hello <tool_cal", ""},
    {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>",
     "", "f{\"a\":[1,\"}\"]}"},
    {"hermes",
     "I look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"b\":2}}</tool_call>\n",
     "I look.", "f{}g{\"b\":2}"},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "", "f{}"},
    {"hermes", "<tool_call>{\"name\":\"f\",\"argu", "<tool_call>{\"name\":\"f\",\"argu", ""},
    {"hermes", "<tool_call>{\"name\":\"h\",\"arguments\":{}}</tool_call> no",
     "<tool_call>{\"name\":\"h\",\"arguments\":{}}</tool_call> no", ""},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n\nso\n", "so\n", "f{}"},
    {"llama3", "{\"name\": \"f\", \"parameters\": {\"a\": 1.5}}", "", "f{\"a\":1.5}"},
    {"llama3", "{\"name\":\"f\",\"parameters\":{\"a\":[0.1,1.10,12345678901234567890,1e400]}}", "",
     "f{\"a\":[0.1,1.10,12345678901234567890,1e400]}"},
    {"llama3", "{\"name\":\"f\",\"parameters\":1e400}", "{\"name\":\"f\",\"parameters\":1e400}",
     ""},
    {"mistral", "[TOOL_CALLS]f[ARGS]{\"a\": -0.0, \"b\": \"\\u0000\"}", "",
     "f{\"a\":-0.0,\"b\":\"\\u0000\"}"},
    {"llama3", " {\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}\n", "",
     "f{}g{}"},
    {"llama3", "{\"name\": \"f\"} is an object", "{\"name\": \"f\"} is an object", ""},
    {"llama3", "{\"name\":\"f\",\"parameters\":{}} and text",
     "{\"name\":\"f\",\"parameters\":{}} and text", ""},
    {"llama3", "  Plain {\"name\":\"f\",\"parameters\":{}}",
     "  Plain {\"name\":\"f\",\"parameters\":{}}", ""},
    {"mistral-nemo",
     "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}},{\"name\":\"g\",\"arguments\":\"{}"
     "\"}]",
     "", "f{\"a\":\"b\"}g{}"},
    {"mistral-nemo", "[{\"name\": \"f\", \"arguments\": {}}]", "", "f{}"},
    {"mistral-nemo", "[{\"name\": \"f\", \"arguments\": {}}, 7]",
     "[{\"name\": \"f\", \"arguments\": {}}, 7]", ""},
    {"mistral-nemo", "[1] is a source", "[1] is a source", ""},
    {"mistral-nemo", "[TOOL_CALLS]", "[TOOL_CALLS]", ""},
    {"mistral", "I look.[TOOL_CALLS]f[ARGS]{\"a\": \"[ARGS]\"}", "I look.", "f{\"a\":\"[ARGS]\"}"},
    {"mistral", "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]g[ARGS]{\"b\": 2}\n", "",
     "f{}g{\"b\":2}"},
    {"mistral", "[TOOL_CALLS]h[ARGS]{}", "[TOOL_CALLS]h[ARGS]{}", ""},
    {"mistral", "[TOOL_CALLS]f[ARGS]{\"a\"", "[TOOL_CALLS]f[ARGS]{\"a\"", ""},
    {"deepseek-v3.1",
     "So:<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "So:", "f{\"a\":1}g{}"},
    {"deepseek-v3",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", "f{\"a\":1}"},
    {"deepseek-v3.1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}<｜tool▁calls▁end｜>", ""},
    /* Qwen2.5-Coder writes this, not its template's. */
    {"hermes", "```json\n{\n  \"name\": \"f\",\n  \"arguments\": {\n    \"a\": \"b\"\n  }\n}\n```",
     "", "f{\"a\":\"b\"}"},
    {"hermes", "I look.\n\n```json\n{\"name\":\"f\",\"arguments\":{}}\n```\nThen.", "I look.Then.",
     "f{}"},
    {"hermes", "So:\n```json\n{\"name\": \"x\"}\n```\nIt is.",
     "So:\n```json\n{\"name\": \"x\"}\n```\nIt is.", ""},
    {"hermes",
     "```json\n[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{}}]\n```", "",
     "f{}g{}"},
    {"hermes", "```python\nprint(1)\n```", "```python\nprint(1)\n```", ""},
    {"hermes", "\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n", "", "f{\"a\":1}"},
    {"hermes", "{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}", "",
     "f{}g{}"},
    {"hermes", "{\"answer\": 42}", "{\"answer\": 42}", ""},
    {"hermes", "{\"name\": \"Ada\", \"born\": 1815}", "{\"name\": \"Ada\", \"born\": 1815}", ""},
    {"hermes", "<tools>\n{\"name\": \"f\", \"arguments\": {}}\n</tools>", "", "f{}"},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_call>\"}}</tool_call>", "",
     "f{\"a\":\"</tool_call>\"}"},
    {"hermes", "<tool_call>no</tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
     "<tool_call>no</tool_call>", "f{}"},
    {"hermes", "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}", "",
     "f{}"},
    {"llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", "f{\"a\":1}"},
    {"qwen3-coder",
     "I "
     "look.\n\n<tool_call>\n<function=typed>\n<parameter=s>\n17\n</parameter>\n<parameter=i>\n17\n"
     "</parameter>\n<parameter=o>\n{\"x\": [true]}\n</parameter>\n</function>\n</tool_call>\n"
     "<tool_call>\n<function=g>\n</function>\n</tool_call>",
     "I look.", "typed{\"s\":\"17\",\"i\":17,\"o\":{\"x\":[true]}}g{}"},
    {"qwen3-coder",
     "<function=f>\n<parameter=a>\nif (a < b && \"</tool_call>\") {\n\n</parameter>\n</function>",
     "", "f{\"a\":\"if (a < b && \\\"</tool_call>\\\") {\\n\"}"},
    {"qwen3-coder",
     "<tool_call>\n<function=typed>\n<parameter=b>\nTrue\n</parameter>\n<parameter=u>\nnull\n</"
     "parameter>"
     "\n<parameter=o>\n{'x': None}\n</parameter>\n</function>\n</tool_call>",
     "", "typed{\"b\":true,\"u\":null,\"o\":{\"x\":null}}"},
    /* The schema of r goes round. */
    {"seed",
     "<seed:tool_call><function=typed><parameter=r>7</parameter></function></seed:tool_call>", "",
     "typed{\"r\":7}"},
    {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n1",
     "<tool_call>\n<function=f>\n<parameter=a>\n1", ""},
    {"qwen3-coder", "<tool_call>\n<function=h>\n</function>\n</tool_call>",
     "<tool_call>\n<function=h>\n</function>\n</tool_call>", ""},
    {"seed",
     "<seed:tool_call>\n<function=f>\n<parameter=a>b</parameter>\n<parameter=c>[1]</parameter>\n"
     "</function>\n<function=g></function>\n</seed:tool_call>",
     "", "f{\"a\":\"b\",\"c\":[1]}g{}"},
    {"glm",
     "I "
     "look.\n<tool_call>typed\n<arg_key>s</arg_key>\n<arg_value>a\n</arg_value>\n<arg_key>i</"
     "arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
     "I look.", "typed{\"s\":\"a\\n\",\"i\":3}g{}"},
    {"glm", "<tool_call>f<arg_key>a</arg_key><arg_value>€</arg_value></tool_call>", "",
     "f{\"a\":\"€\"}"},
    {"hunyuan",
     "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>a"
     "</arg_key:opensource>\n<arg_value:opensource>1</arg_value:opensource>\n</"
     "tool_call:opensource>\n"
     "</tool_calls:opensource>",
     "", "f{\"a\":1}"},
    {"minimax-m2",
     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">b c</parameter>\n</invoke>\n"
     "<invoke name=\"typed\">\n<parameter "
     "name=\"i\">-4</parameter>\n</invoke>\n</minimax:tool_call>",
     "", "f{\"a\":\"b c\"}typed{\"i\":-4}"},
    {"deepseek-v3.2",
     "So.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n"
     "<｜DSML｜parameter name=\"a\" string=\"true\">1</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"b\" string=\"false\">1</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "So.", "f{\"a\":\"1\",\"b\":1}"},
    {"minicpm5",
     "<function name=\"f\"><param name=\"a\">b</param></function>\n<function "
     "name=\"g\"></function>",
     "", "f{\"a\":\"b\"}g{}"},
    {"kimi-k3",
     "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
     "type=\"string\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"g\" "
     "index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "", "f{\"a\":\"2\"}g{}"},
    {"harmony",
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", "",
     "f{\"a\":1}"},
    {"harmony", "<|channel|>commentary to=functions.f<|message|>{\"a\":1}", "", "f{\"a\":1}"},
    {"harmony", " to=functions.f<|channel|>commentary json<|message|>{\"a\":\"<|call|>\"}<|call|>",
     "", "f{\"a\":\"<|call|>\"}"},
    {"harmony", "I look.<|channel|>analysis to=functions.g <|constrain|>json<|message|>{}",
     "I look.", "g{}"},
    {"harmony", "<|channel|>commentary to=functions.h <|message|>{}",
     "<|channel|>commentary to=functions.h <|message|>{}", ""},
    {"kimi-k2",
     "So.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
     "{\"a\": "
     "1}<|tool_call_end|><|tool_call_begin|>g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "So.", "f{\"a\":1}g{}"},
    {"solar",
     "<|tool_calls|><|tool_call:begin|>abc<|tool_call:name|>f<|tool_call:args|>{\"a\":1}<|tool_"
     "call:end|>"
     "<|calls|>",
     "", "f{\"a\":1}"},
    {"functionary", "<function=f>{\"a\": 1}</function><function=g>{}</function>", "",
     "f{\"a\":1}g{}"},
    {"lfm2",
     "<|tool_call_start|>[f(a='it\\'s', b=17, c={\"x\": [True]}), g()]<|tool_call_end|>Done.",
     "Done.", "f{\"a\":\"it's\",\"b\":17,\"c\":{\"x\":[true]}}g{}"},
    {"lfm2",
     "<|tool_call_start|>[f(a=\"<|tool_call_end|>\\n\\u00e9\", b=None, c=-1.50)]<|tool_call_end|>",
     "", "f{\"a\":\"<|tool_call_end|>\\né\",\"b\":null,\"c\":-1.50}"},
    {"lfm2", "<|tool_call_start|>[f(a=b c)]<|tool_call_end|>",
     "<|tool_call_start|>[f(a=b c)]<|tool_call_end|>", ""},
    {"gemma",
     "<|tool_call>call:f{a:<|\"|>b, "
     "\"c\"<|\"|>,o:{x:[true],y:<|\"|><|\"|>}}<tool_call|><|tool_call>call:g{}"
     "<tool_call|>",
     "", "f{\"a\":\"b, \\\"c\\\"\",\"o\":{\"x\":[true],\"y\":\"\"}}g{}"},
    {"apertus", "<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>", "",
     "f{\"a\":1}g{}"},
    {"cohere",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": "
     "{\"a\": 1}}\n]"
     "<|END_ACTION|>",
     "", "f{\"a\":1}"},
    {"command-r",
     "Action:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {}\n    "
     "}\n]```",
     "", "f{}"},
    {"nemotron", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>", "", "f{}"},
    {"apriel",
     "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": "
     "{}}\n</tool_calls>",
     "", "f{}g{}"},
    {"gigachat", "So.<|function_call|>{\"name\": \"f\", \"arguments\": {}}", "So.", "f{}"},
    {"granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "", "f{\"a\":1}"},
    {"granite",
     "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": "
     "{}}]</tool_call>",
     "", "f{}g{}"},
    {"muse",
     "<atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter "
     "name=\"a\">b</atem:parameter>\n"
     "</atem:invoke>\n</atem:function_calls>",
     "", "f{\"a\":\"b\"}"},
};

static void check_calls(const json_t *calls, const char *wanted)
{
    char found[256] = "";
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i),
                     *function = json_object_get(call, "function");
        CHECK_STR(json_string_value(json_object_get(call, "id")), ids[i]);
        strcat(found, json_string_value(json_object_get(function, "name")));
        strcat(found, json_string_value(json_object_get(function, "arguments")));
    }
    CHECK_MSG(strcmp(found, wanted) == 0, "calls \"%s\" are not \"%s\"", found, wanted);
}

static void check_cut(const struct example *example, const json_t *tools, size_t first,
                      size_t second)
{
    const size_t cuts[] = {0, first, second, strlen(example->answer)};
    struct tool_reader reader;
    struct rf_bytes text = {0};
    struct rf_error error;
    json_t *calls = json_array();
    rf_tool_reader_begin(&reader, rf_tool_form_find(example->form), tools);
    reader.seed = SEED;
    for (int i = 0; i < 3; i++)
        CHECK_INT(rf_tool_reader_push(&reader, example->answer + cuts[i], cuts[i + 1] - cuts[i], 0,
                                      &text, calls, &error),
                  0);
    CHECK_INT(rf_tool_reader_push(&reader, NULL, 0, 1, &text, calls, &error), 0);
    CHECK_MSG(text.count == strlen(example->text) &&
                  (!text.count || memcmp(text.data, example->text, text.count) == 0),
              "\"%s\" at %zu and %zu: the text is \"%.*s\"", example->answer, first, second,
              (int)text.count, text.count ? text.data : "");
    check_calls(calls, example->calls);
    CHECK_INT((size_t)reader.n_calls, json_array_size(calls));
    json_decref(calls);
    rf_bytes_free(&rf_system_allocator, &text);
    rf_tool_reader_free(&reader);
}

struct divided {
    struct tool_reader reader;
    struct rf_bytes text, thought;
    json_t *calls;
    struct rf_error error;
};

static void on_part(void *user, enum thought_part part, const char *text, size_t n)
{
    struct divided *d = user;
    if (part == PART_REPLY)
        CHECK_INT(rf_tool_reader_push(&d->reader, text, n, 0, &d->text, d->calls, &d->error), 0);
    if (part == PART_THOUGHT)
        CHECK_INT(rf_bytes_append(&rf_system_allocator, &d->thought, text, n, &d->error), 0);
}

/* gpt-oss thinks and calls in channels of one answer. */
static void check_channels(const json_t *tools)
{
    static const char answer[] =
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        "<|constrain|>json<|message|>{\"a\":1}<|call|>";
    for (size_t cut = 0; cut <= strlen(answer); cut++) {
        struct divided d = {.calls = json_array()};
        struct thoughts thoughts;
        rf_tool_reader_begin(&d.reader, rf_tool_form_find("harmony"), tools);
        d.reader.seed = SEED;
        rf_thoughts_begin(&thoughts, rf_thought_form_find("<|channel|>analysis<|message|>"), "", 0,
                          on_part, &d);
        CHECK_INT(rf_thoughts_push(&thoughts, answer, cut, &d.error), 0);
        CHECK_INT(rf_thoughts_push(&thoughts, answer + cut, strlen(answer) - cut, &d.error), 0);
        rf_thoughts_end(&thoughts);
        CHECK_INT(rf_tool_reader_push(&d.reader, NULL, 0, 1, &d.text, d.calls, &d.error), 0);
        CHECK(d.thought.count == 3 && memcmp(d.thought.data, "Hm.", 3) == 0);
        CHECK(d.text.count == 7 && memcmp(d.text.data, "I look.", 7) == 0);
        check_calls(d.calls, "f{\"a\":1}");
        json_decref(d.calls);
        rf_thoughts_free(&thoughts);
        rf_tool_reader_free(&d.reader);
        rf_bytes_free(&rf_system_allocator, &d.text);
        rf_bytes_free(&rf_system_allocator, &d.thought);
    }
}

/* An answer made at random of a form's own texts, calls that it writes, and others. */
static size_t make_answer(const struct tool_form *form, uint32_t *random, char *answer, size_t cap)
{
    static const char *const others[] = {
        "f",       "typed", "h",        " ",         "\n",
        "{",       "}",     "]",        "\"",        "\\",
        "'",       "(",     ")",        "=",         ":",
        ",",       "i",     "17",       "{\"a\":1}", "{\"name\":\"f\",\"arguments\":{}}",
        "```json", "```",   "f(a='x')", "text",      "<",
        "</"};
    const char *const own[] = {form->tags[0].open, form->tags[0].close, form->tags[1].open,
                               form->call,         form->call_end,      form->name,
                               form->name_end,     form->key,           form->key_end,
                               form->value,        form->value_end,     form->quote};
    size_t n = 0, n_others = sizeof others / sizeof *others;
    json_t *calls =
        json_loads("[{\"function\":{\"name\":\"typed\",\"arguments\":{\"s\":\"a\",\"i\":2}}}"
                   ",{\"function\":{\"name\":\"f\"}}]",
                   0, NULL);
    char *written = rf_tools_write(form, calls);
    for (uint32_t parts = 1 + (*random >> 16) % 12; parts > 0; parts--) {
        *random = *random * 1664525u + 1013904223u;
        uint32_t chosen = *random >> 8;
        const char *text = chosen % 5 == 0 ? written
                           : chosen % 2    ? own[chosen / 16 % 12]
                                           : others[chosen / 16 % n_others];
        size_t length = text ? strlen(text) : 0;
        if (length && chosen % 11 == 0) length = chosen / 64 % length;
        if (n + length >= cap) break;
        if (length) memcpy(answer + n, text, length);
        n += length;
    }
    free(written);
    json_decref(calls);
    return n;
}

/* The text and the calls of an answer that comes in pieces of `step` bytes. For free(). */
static char *read_in_steps(const struct tool_form *form, const json_t *tools, const char *answer,
                           size_t n, size_t step)
{
    struct tool_reader reader;
    struct rf_bytes text = {0};
    struct rf_error error;
    json_t *calls = json_array();
    rf_tool_reader_begin(&reader, form, tools);
    reader.seed = SEED;
    for (size_t at = 0; at < n; at += step)
        CHECK_INT(rf_tool_reader_push(&reader, answer + at, n - at < step ? n - at : step, 0, &text,
                                      calls, &error),
                  0);
    CHECK_INT(rf_tool_reader_push(&reader, NULL, 0, 1, &text, calls, &error), 0);
    json_t *both = json_pack("[s%, o]", text.count ? text.data : "", text.count, calls);
    char *dump = json_dumps(both, 0);
    json_decref(both);
    rf_bytes_free(&rf_system_allocator, &text);
    rf_tool_reader_free(&reader);
    return dump;
}

/* Whatever an answer is, its pieces change nothing. */
static void check_random(const json_t *tools)
{
    uint32_t random = SEED;
    char answer[4096];
    int n_calls = 0;
    for (int turn = 0; turn < (IS_SANITIZED ? 12 : 60); turn++)
        for (size_t f = 0; f < rf_n_tool_forms; f++) {
            size_t n = make_answer(&rf_tool_forms[f], &random, answer, sizeof answer);
            char *whole = read_in_steps(&rf_tool_forms[f], tools, answer, n, sizeof answer);
            for (size_t step = 1; step <= 7; step += 2) {
                char *cut = read_in_steps(&rf_tool_forms[f], tools, answer, n, step);
                /* NULL: characters were cut apart, as texts of tokens are not */
                if (whole && cut) CHECK_STR(cut, whole);
                free(cut);
            }
            n_calls += whole && strstr(whole, "\"arguments\"");
            free(whole);
        }
    CHECK(n_calls > 20);
}

/* Only the first call is taken. */
static void check_most(const json_t *tools)
{
    static const char answer[] = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"
                                 "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>.";
    struct tool_reader reader;
    struct rf_bytes text = {0};
    struct rf_error error;
    json_t *calls = json_array();
    rf_tool_reader_begin(&reader, rf_tool_form_find("hermes"), tools);
    reader.seed = SEED;
    reader.most = 1;
    CHECK_INT(rf_tool_reader_push(&reader, answer, strlen(answer), 1, &text, calls, &error), 0);
    check_calls(calls, "f{}");
    CHECK_INT(reader.n_calls, 1);
    CHECK(text.count == 1 && text.data[0] == '.');
    json_decref(calls);
    rf_bytes_free(&rf_system_allocator, &text);
    rf_tool_reader_free(&reader);
}

/* Checks the beginning of an answer that must call, and the alternatives of its rest. */
static void check_forced(const char *title, const char *wanted, const char *wanted_rest)
{
    const struct tool_form *form = rf_tool_form_find(title);
    json_t *tools = json_loads("[{\"function\": {\"name\": \"f\"}},"
                               "{\"function\": {\"name\": \"g\\\"\", \"parameters\": {\"a\": 1}}}]",
                               0, NULL);
    json_t *grammar = rf_tools_grammar(form, tools, NULL),
           *one = rf_tools_grammar(form, tools, "f");
    char *opening = rf_tools_opening(form), *rest = json_dumps(grammar, JSON_COMPACT);
    CHECK_STR(opening, wanted);
    CHECK_STR(rest, wanted_rest);
    CHECK_INT(json_array_size(one), 1);
    CHECK(json_equal(json_array_get(one, 0), json_array_get(grammar, 0)));
    free(opening);
    free(rest);
    json_decref(one);
    json_decref(grammar);
    json_decref(tools);
}

int main(void)
{
    json_t *tools = json_loads(tools_text, 0, NULL), *wrong = json_loads("[{}]", 0, NULL);
    CHECK(rf_tools_are_valid(tools));
    CHECK(!rf_tools_are_valid(wrong));
    CHECK(rf_tools_find(tools, "g") && !rf_tools_find(tools, "h"));
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
        size_t n = strlen(examples[e].answer);
        for (size_t second = 0; second <= n; second++)
            for (size_t first = 0; first <= second; first++)
                check_cut(&examples[e], tools, first, second);
    }
    check_most(tools);
    check_channels(tools);
    check_random(tools);
    check_forced("hermes", "<tool_call>\n",
                 "[[{\"text\":\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \"},"
                 "{\"schema\":{\"type\":\"object\"}},{\"text\":\"}\"}],"
                 "[{\"text\":\"{\\\"name\\\": \\\"g\\\\\\\"\\\", \\\"arguments\\\": \"},"
                 "{\"schema\":{\"a\":1}},{\"text\":\"}\"}]]");
    check_forced("llama3", "",
                 "[[{\"text\":\"{\\\"name\\\": \\\"f\\\", \\\"parameters\\\": \"},"
                 "{\"schema\":{\"type\":\"object\"}},{\"text\":\"}\"}],"
                 "[{\"text\":\"{\\\"name\\\": \\\"g\\\\\\\"\\\", \\\"parameters\\\": \"},"
                 "{\"schema\":{\"a\":1}},{\"text\":\"}\"}]]");
    check_forced("mistral", "[TOOL_CALLS]",
                 "[[{\"text\":\"f\"},{\"token\":\"[ARGS]\"},{\"schema\":{\"type\":\"object\"}}],"
                 "[{\"text\":\"g\\\"\"},{\"token\":\"[ARGS]\"},{\"schema\":{\"a\":1}}]]");
    check_forced("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                 "[[{\"text\":\"f\"},{\"token\":\"<｜tool▁sep｜>\"},"
                 "{\"schema\":{\"type\":\"object\"}}],"
                 "[{\"text\":\"g\\\"\"},{\"token\":\"<｜tool▁sep｜>\"},{\"schema\":{\"a\":1}}]]");
    check_forced("deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                 "[[{\"text\":\"f\"},{\"text\":\"\\n```json\\n\"},"
                 "{\"schema\":{\"type\":\"object\"}}],"
                 "[{\"text\":\"g\\\"\"},{\"text\":\"\\n```json\\n\"},{\"schema\":{\"a\":1}}]]");
    json_decref(wrong);
    json_decref(tools);
    return check_result();
}
